"""Time passwright against onnxsim, onnxslim and onnxscript, in one run on the same files.

Each run is a fresh process: imports, then the clock, then the model from its file to a ModelProto. The tools take
turns; the table gives medians. The peers are in the extra `peers`: `pip install -e .[peers]`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from measured_runs import ModelRow, make_mixed_models, measure_tools
from table import report

TOOLS = ("passwright", "onnxsim", "onnxslim", "onnxscript")
SIZES = [2_000, 20_000, 100_000]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, help="models (default: the light ones of onnx, and mixed ones)")
    parser.add_argument("--nodes", type=int, nargs="*", default=SIZES, metavar="N", help="sizes of the mixed models")
    parser.add_argument("--no-light", action="store_true", help="leave out the light models of onnx")
    parser.add_argument("--tools", nargs="+", choices=TOOLS, default=TOOLS, metavar="TOOL", help=", ".join(TOOLS))
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="runs of each tool on each model")
    parser.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="of a run")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where to keep (and find again) the mixed models")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write every single figure")
    options = parser.parse_args()
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    if options.models and not all(model.is_file() for model in options.models):
        parser.error(f"no such file: {next(m for m in options.models if not m.is_file())}")
    return options


def installed_version(tool: str) -> str | None:
    try:
        return version(tool)
    except PackageNotFoundError:
        return None


def light_models() -> list[Path]:
    """Those of the onnx package, found without importing it."""
    spec = find_spec("onnx")
    folders = [Path(f) for f in (spec.submodule_search_locations or ())] if spec else []
    return sorted(path for f in folders for path in f.glob("backend/test/data/light/*.onnx"))


def selected_models(options: argparse.Namespace, folder: Path) -> Iterator[Path]:
    if options.models:
        yield from options.models
        return
    if not options.no_light:
        yield from light_models()
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    yield from make_mixed_models(options.nodes, options.keep or folder)


def main() -> None:
    options = parse_arguments()
    versions = {tool: installed_version(tool) for tool in options.tools}
    tools = [tool for tool, v in versions.items() if v]
    rows: list[ModelRow] = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        for model in selected_models(options, folder):
            print(f"{model.name} ...", file=sys.stderr, flush=True)
            rows.append(measure_tools(model, tools, options.repeats, options.timeout, folder))
    if not rows:
        sys.exit("nothing to measure")
    print(*report(rows), sep="\n")
    print("- versions:", ", ".join(f"{tool} {v or 'is not installed: left out'}" for tool, v in versions.items()))
    if options.json:
        options.json.write_text(json.dumps({"versions": versions, "rows": [asdict(row) for row in rows]}, indent=1))


if __name__ == "__main__":
    main()
