"""Planted mistakes: each one in `tests/planted/` is found, named and rejected, and other changes are kept.

Each file there is a plugin and holds a model on which it is wrong: MODEL (ONNX text, as in `rewriting.load`),
OPSET, DOMAINS, WEIGHTS and INPUTS (given ones) if need be, WRONG (by whom, and where), WHY, and AFTER: the ops that are
left when all that is right was done. `python tests/test_planted.py` writes the table of what finds what.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import onnx
import pytest
from passwright.core import PassesError
from passwright.core.serialization.proto_queries import all_nodes
from passwright.core.verify.comparison_options import ComparisonOptions
from passwright.core.verify.input_generation import ALL_KINDS as KINDS
from passwright.core.verify.oracle import Oracle
from rewriting import OPSET, load, oracle_of
from small_pipeline import SMALL_PIPELINE
from tiers import part_of, slow_unless

from passwright import optimize

FOLDER = Path(__file__).parent / "planted"
TABLE = FOLDER / "README.md"
NAMES = sorted(p.stem for p in FOLDER.glob("*.py"))


@dataclass(frozen=True)
class Planted:
    """A mistake: its plugin, its model, perhaps given inputs, the expected rejections, and the remaining ops."""

    path: Path
    about: str
    model: onnx.ModelProto
    inputs: dict[str, Any] | None
    wrong: dict[tuple[str, str], str]
    after: dict[str, int]


@cache
def planted(name: str) -> Planted:
    path = FOLDER / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"planted_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    opset, weights, domains = (
        getattr(module, n, d) for n, d in (("OPSET", OPSET), ("WEIGHTS", None), ("DOMAINS", None))
    )
    model = load(module.MODEL, opset, weights, domains)
    whys = [module.WHY] * len(module.WRONG) if isinstance(module.WHY, str) else module.WHY
    wrong = dict(zip(module.WRONG, whys, strict=True))
    inputs = getattr(module, "INPUTS", None)
    return Planted(path, module.__doc__.partition("\n")[0], model, inputs, wrong, module.AFTER)


WITH_INPUTS = [name for name in NAMES if planted(name).inputs is not None]
BY_VALUE = [name for name in NAMES if "wrong" in planted(name).wrong.values() and name not in WITH_INPUTS]


@cache
def original_oracle(name: str, seed: int) -> Oracle:
    return oracle_of(planted(name).model, seed=seed)


# Of the rules that compute something else, the first tier has an eighth here and another one in test_check_planted.
RUN_FIRST = {name for name in NAMES if name not in BY_VALUE or part_of(name, 8) == 0}


@pytest.mark.parametrize("name", slow_unless(RUN_FIRST, NAMES))
def test_only_the_mistake_is_rejected(name: str) -> None:
    bug = planted(name)
    result = optimize(bug.model, SMALL_PIPELINE, plugins=[bug.path], inputs=bug.inputs, seed=0)
    found = result.report.rejected
    assert {(q.by, q.place): str(q.failure_kind) for q in found} == bug.wrong
    assert len(found) == len(bug.wrong)
    assert result.report.after.ops == bug.after
    onnx.checker.check_model(result.model, full_check=True)
    assert list(result.model.graph.input) == list(bug.model.graph.input)
    assert list(result.model.graph.output) == list(bug.model.graph.output)
    for q in (q for q in found if q.failure_kind == "wrong" and q.ordinal is not None):
        assert q.input_kind in (KINDS if bug.inputs is None else {"given"})
        values = {name for node in all_nodes(bug.model.graph.node) for name in node.output}
        assert q.output in values or " fails" in q.message
        assert q.message


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in NAMES if n not in WITH_INPUTS])
def test_result_is_correct_on_other_inputs(name: str) -> None:
    bug = planted(name)
    result = optimize(bug.model, SMALL_PIPELINE, plugins=[bug.path], seed=0)
    original_oracle(name, seed=7).check(result.model.SerializeToString())


ONE_OF_EACH_KIND = {kind: name for name in NAMES for kind in planted(name).wrong.values()}.values()


@pytest.mark.parametrize("name", slow_unless(ONE_OF_EACH_KIND, NAMES))
def test_mistake_ends_a_strict_run(name: str, tmp_path: Path) -> None:
    bug = planted(name)
    options = {"strict": True, "inputs": bug.inputs, "output": tmp_path / "out.onnx"}
    with pytest.raises(PassesError):
        optimize(bug.model, SMALL_PIPELINE, plugins=[bug.path], **options)
    assert not list(tmp_path.iterdir())


def shown_by(name: str) -> list[str]:
    """The kinds of draw on which the plugin's model differs from the original: beyond rounding, or else in bits."""
    bug = planted(name)
    made = optimize(bug.model, SMALL_PIPELINE, plugins=[bug.path], verify=False).model.SerializeToString()
    return differing(name, made, exact=False) or differing(name, made, exact=True)


def differing(name: str, made: bytes, *, exact: bool) -> list[str]:
    """The kinds of draw on which an output or a changed region of a model differs from the original."""
    oracle = original_oracle(name, seed=0)
    oracle.add_runs_near(made)
    draws = {kind: [a.input_set for a in oracle.runs if a.input_set.kind == kind] for kind in KINDS}
    return [
        kind for kind, of_kind in draws.items()
        if of_kind
        and oracle.compare(
            made, ComparisonOptions(exact=exact, input_sets=of_kind, compare_regions=not exact)
        ).failure
    ]  # fmt: skip


def table(shown: Mapping[str, Sequence[str]]) -> str:
    """The README of the planted mistakes, from the kinds of draw that show each."""
    rows = [[n, *("x" if k in kinds else "" for k in KINDS)] for n, kinds in shown.items()]
    rows.append(["**shows**", *(str(sum(k in kinds for kinds in shown.values())) for k in KINDS)])
    rows.append(["**alone shows**", *(str(sum(kinds == [k] for kinds in shown.values())) for k in KINDS)])
    lines = [["mistake", *KINDS], ["---", *[":-:"] * len(KINDS)], *rows]
    return "\n".join(
        [
            "# Planted mistakes",
            "",
            f"{len(NAMES)} rules and passes that are wrong, each with a model on which it is. `tests/test_planted.py`",
            "demands that each is found, named and left out while everything else is kept, and keeps this table true;",
            "`python tests/test_planted.py` writes it.",
            "",
            "## Shown by values",
            "",
            "Kinds of draw on which an output or a changed region differs by more than rounding, or else an output",
            "in its bits (seed 0, all sizes taken together):",
            "",
            *("| " + " | ".join(line) + " |" for line in lines),
            "",
            "## Shown without values",
            "",
            "| mistake | why | what |",
            "| --- | --- | --- |",
            *(
                f"| {n} | {', '.join(planted(n).wrong.values())} | {planted(n).about} |"
                for n in NAMES
                if n not in shown and n not in WITH_INPUTS
            ),
            "",
            "## Shown by given inputs",
            "",
            "| mistake | what |",
            "| --- | --- |",
            *(f"| {n} | {planted(n).about} |" for n in WITH_INPUTS),
            "",
        ]
    )


@cache
def stored() -> dict[str, list[str]]:
    """The kinds of draw that show each mistake, read from the table."""
    lines = TABLE.read_text(encoding="utf-8").partition("## Shown without")[0].splitlines()
    cells = [[c.strip() for c in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    return {name: [k for k, mark in zip(KINDS, marks, strict=True) if mark == "x"] for name, *marks in cells[2:-2]}


# Of each kind of draw, one mistake that nothing else shows, or one that it shows.
ONE_OF_EACH_DRAW = {k: min((n for n in stored() if k in stored()[n]), key=lambda n: len(stored()[n])) for k in KINDS}


@pytest.mark.parametrize("name", slow_unless(ONE_OF_EACH_DRAW.values(), BY_VALUE))
def test_table_rows_are_current(name: str) -> None:
    assert stored().get(name) == shown_by(name), "write it anew: python tests/test_planted.py"


def test_table_is_complete() -> None:
    shown = stored()
    assert list(shown) == BY_VALUE
    assert TABLE.read_text(encoding="utf-8") == table(shown), "write it anew: python tests/test_planted.py"
    assert all(shown.values()), "nothing shows some mistake"


if __name__ == "__main__":
    TABLE.write_text(table({name: shown_by(name) for name in BY_VALUE}), encoding="utf-8")
