"""Latency of models as passwright, onnxruntime and the installed peers leave them.

Each model is first verified: each optimizer writes a file, which is compared with the original. Then the right files
are timed: the original and the files of passwright and the peers under ORT ALL, and those saved by ORT BASIC, EXTENDED
and ALL as they are. Each step of a model is a process of its own with a time limit. `--json` holds the results, and a
folder beside it the files; a second call continues with the missing ones. The peers are in the extra `peers`:
`pip install -e .[peers]`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from measured_runs import run_script
from nodes_left import GOLDEN, generated_models
from peers import light_models
from speedup_table import format_results

VERIFY_STEP, TIMING_STEP = "verify", "time"
Results = dict[str, dict[str, Any]]
"""By model: `judged`, and `races`, of which the last one counts."""


def selected_models(options: argparse.Namespace, folder: Path) -> list[Path]:
    """The models, those that are made of them in a folder that stays."""
    if options.paths:
        return [path.resolve() for path in options.paths]
    models = [*sorted(GOLDEN.glob("*.onnx")), *light_models(), *cached_generated_models(folder)]
    if unknown := set(options.models or ()) - {m.stem for m in models}:
        sys.exit(f"no such model: {', '.join(sorted(unknown))}")
    return [m.resolve() for m in models if not options.models or m.stem in options.models]


def cached_generated_models(folder: Path) -> list[Path]:
    """The larger ones, made once."""
    place = folder / "models"
    if not place.is_dir():
        unfinished = folder / "models.part"
        unfinished.mkdir(parents=True, exist_ok=True)
        list(generated_models(unfinished))
        unfinished.rename(place)
    return sorted(place.glob("*.onnx"))


def run_step(name: str, model: Path, results: Results, folder: Path, options: argparse.Namespace) -> None:
    """Do one step of a model, unless it is done; a failure is noted, and tried again by the next call."""
    facts = results.setdefault(model.stem, {"races": []})
    if _is_done(name, facts, again=options.again):
        return
    start = perf_counter()
    with TemporaryDirectory() as scratch:
        result, judged = Path(scratch) / "result.json", Path(scratch) / "judged.json"
        judged.write_text(json.dumps(facts.get("judged")))
        arguments = [name, model, folder / model.stem, result, "--judged", judged, "--batch", str(options.batch)]
        effort = ["--threads", str(options.threads), "--min-time", str(options.min_time), "--sets", str(options.sets)]
        failure = run_script("speedup_of_model.py", *arguments, *effort, timeout=options.timeout)
        facts.pop("failure", None)
        if failure is not None:
            facts["failure"] = f"{name} {failure}"
        elif name == VERIFY_STEP:
            facts["judged"] = json.loads(result.read_text())
        else:
            facts["races"].append(json.loads(result.read_text()))
    print(f"{name} {model.stem}: {failure or 'done'}, {perf_counter() - start:.1f} s", file=sys.stderr, flush=True)


def _is_done(name: str, facts: dict[str, Any], *, again: bool) -> bool:
    if name == VERIFY_STEP:
        return "judged" in facts
    return "judged" not in facts or (bool(facts["races"]) and not again)


def write_results(results: Results, path: Path) -> None:
    """Replace the file: an interrupted call leaves the one that was there."""
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(results, indent=1, allow_nan=False))
    unfinished.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path, help="models (default: golden, light and generated ones)")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="of the default ones only these")
    parser.add_argument(
        "--json", type=Path, required=True, metavar="FILE", help="the results; those present are not measured again"
    )
    parser.add_argument(
        "--steps", nargs="+", choices=(VERIFY_STEP, TIMING_STEP), default=[VERIFY_STEP, TIMING_STEP], help="only this"
    )
    parser.add_argument("--again", action="store_true", help="measure again; the last measurement counts")
    parser.add_argument("--batch", type=int, default=1, metavar="N", help="samples in a call")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of onnxruntime; 0: all cores")
    parser.add_argument("--min-time", type=float, default=0.3, metavar="SECONDS", help="of calls of a row")
    parser.add_argument("--sets", type=int, default=5, metavar="N", help="of fresh processes")
    parser.add_argument("--timeout", type=float, default=900, metavar="SECONDS", help="of a step of a model")
    parser.add_argument("--table", action="store_true", help="only write the table of the results")
    options = parser.parse_args()
    done: Results = json.loads(options.json.read_text()) if options.json.exists() else {}
    if not options.table:
        folder = options.json.resolve().with_suffix("")
        models = selected_models(options, folder)
        for name in (s for s in (VERIFY_STEP, TIMING_STEP) if s in options.steps):
            for model in models:
                run_step(name, model, done, folder, options)
                write_results(done, options.json)
    print(*format_results(done), sep="\n")


if __name__ == "__main__":
    main()
