"""Nodes that passwright and every installed peer leave of each model, and the verdict on each result.

Each tool runs in a process of its own, which measures time and peak memory. A result is `wrong` where its values or its
interface differ from the original's, and `invalid` where the ONNX checker objects to the file; the two are counted
apart. Nodes that no output depends on are not counted, nor are Constant ops. The peers are in the extra `peers`:
`pip install -e .[peers]`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import geometric_mean
from tempfile import TemporaryDirectory

from measured_runs import make_mixed_models, run_script
from peers import light_models
from table import markdown

OURS = "passwright"
TOOLS = {
    OURS: "passwright.passes", "onnxsim": "onnxsim", "onnxslim": "onnxslim", "onnxoptimizer": "onnxoptimizer",
    "onnxscript": "onnxscript", "ort_basic": "onnxruntime",
}  # fmt: skip
GENERATED, BLOCKS = ("transformer", "nhwc", "repvgg"), 12
GOLDEN = Path(__file__).parent.parent / "golden_models"


@dataclass(frozen=True)
class ToolResult:
    """The result of one tool for a model, and its verdict; after a `failure` there are neither nodes nor a verdict."""

    nodes: int | None
    original_nodes: int
    seconds: float
    peak_bytes: int
    failure: str = ""
    wrong: str = ""
    interface: str = ""
    invalid: str = ""

    @property
    def verdict(self) -> str:
        """`right`, `fails`, `wrong` or `invalid`. Values are not compared where the interface differs."""
        if self.nodes is None:
            return "fails"
        if self.wrong:
            return "wrong"
        if self.invalid:
            return "invalid"
        return "wrong" if self.interface else "right"


def generated_models(folder: Path) -> Iterator[Path]:
    """Larger ones, written as exporters write them."""
    yield from make_mixed_models([2000], folder)
    for kind in GENERATED:
        path = folder / f"{kind}_{BLOCKS}.onnx"
        if failure := run_script("generated.py", kind, str(BLOCKS), path):
            sys.exit(f"generated.py {kind} {failure}")
        yield path


def run_and_verify(tool: str, model: Path, timeout: float, folder: Path) -> ToolResult:
    """Run one tool once and judge its result."""
    figures, optimized, verdict = folder / "result.json", folder / "optimized.onnx", folder / "verdict.json"
    failure = run_script("measure.py", tool, model, figures, "--save", optimized, timeout=timeout)
    failure = failure or run_script("verdicts.py", model, optimized, verdict, timeout=timeout)
    judged = {} if failure else json.loads(verdict.read_text())
    if failure := failure or judged.pop("refused", ""):
        return ToolResult(None, 0, 0.0, 0, failure)
    measured = json.loads(figures.read_text())
    counted = (measured[key] for key in ("nodes", "original_nodes", "seconds", "peak_bytes"))
    return ToolResult(*counted, **judged)


def best_peer_nodes(row: dict[str, ToolResult]) -> int | None:
    """The fewest nodes in a right result of a peer."""
    return min((r.nodes for t, r in row.items() if t != OURS and r.nodes and r.verdict == "right"), default=None)


def record_best_peer(model: Path, row: dict[str, ToolResult]) -> None:
    """Note the nodes of the best right peer beside a golden model: the tests require as few of passwright."""
    best = best_peer_nodes(row)
    if best is not None:
        path = model.with_suffix(".json")
        path.write_text(json.dumps(json.loads(path.read_text()) | {"best_peer": best}, indent=1) + "\n")


def cell(r: ToolResult) -> str:
    if r.nodes is None:
        return "fails"
    return f"{r.nodes}{'' if r.verdict == 'right' else f' ({r.verdict})'}"


def summary(rows: dict[str, dict[str, ToolResult]], tools: list[str]) -> list[str]:
    """The table, then the conclusions."""
    sizes = {name: max(r.original_nodes for r in row.values()) for name, row in rows.items()}
    lines = [[name, str(sizes[name]), *map(cell, row.values())] for name, row in rows.items()]
    out = [*markdown(["model", "nodes", *tools], lines), ""]
    pairs = [(name, row[OURS].nodes, best_peer_nodes(row)) for name, row in rows.items()]
    judged = [(name, a, b) for name, a, b in pairs if a is not None and b is not None]
    fewer, more = sum(a < b for _, a, b in judged), [f"{name} {a} ({b})" for name, a, b in judged if a > b]
    alike = len(judged) - fewer - len(more)
    out.append(f"- against the best right peer on {len(judged)} models: fewer nodes on {fewer}, as many on {alike}")
    out.append(f"- more on {len(more)}: {', '.join(more)}")
    out += [f"- {tool}: {verdict_counts([row[tool] for row in rows.values()])}" for tool in tools]
    return out + [time_comparison(rows, t) for t in tools if t != OURS]


def verdict_counts(results: list[ToolResult]) -> str:
    """On how many models a tool is wrong, gives an invalid file, or fails."""
    return ", ".join(f"{v} on {sum(r.verdict == v for r in results)}" for v in ("wrong", "invalid", "fails"))


def time_comparison(rows: dict[str, dict[str, ToolResult]], tool: str) -> str:
    """The time of passwright as a share of that of one peer."""
    pairs = [(row[OURS], row[tool]) for row in rows.values()]
    ratios = [a.seconds / b.seconds for a, b in pairs if a.nodes is not None and b.nodes is not None]
    if not ratios:
        return f"- {tool} gave no model"
    return f"- time: {geometric_mean(ratios):.2f} of that of {tool}, in the geometric mean of {len(ratios)} models"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, help="models (default: golden, light and generated ones)")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=[*TOOLS], metavar="TOOL", help=", ".join(TOOLS))
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="of a run")
    parser.add_argument("--record", action="store_true", help="note the best peer beside each golden model")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write every figure")
    options = parser.parse_args()
    tools = [t for t in dict.fromkeys([OURS, *options.tools]) if find_spec(TOOLS[t].partition(".")[0])]
    rows: dict[str, dict[str, ToolResult]] = {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        models = options.models or [*sorted(GOLDEN.glob("*.onnx")), *light_models(), *generated_models(folder)]
        for model in models:
            print(f"{model.stem} ...", file=sys.stderr, flush=True)
            rows[model.stem] = {t: run_and_verify(t, model.resolve(), options.timeout, folder) for t in tools}
            if options.record and model.with_suffix(".json").is_file():
                record_best_peer(model, rows[model.stem])
    print(*summary(rows, tools), sep="\n")
    if options.json:
        found = {name: {t: asdict(r) for t, r in row.items()} for name, row in rows.items()}
        options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
