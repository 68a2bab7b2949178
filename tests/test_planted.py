"""Planted mistakes: each one in `tests/planted/` is found, named and rejected, and other changes are kept.

`python tests/test_planted.py` writes the table of what finds what.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import onnx
import pytest
from passwright.core import PassesError
from passwright.core.serialization.proto_queries import all_nodes
from passwright.core.verify.comparison_options import ComparisonOptions
from passwright.core.verify.input_generation import ALL_KINDS as KINDS
from passwright.core.verify.oracle import Oracle
from planted import MISTAKES
from rewriting import oracle_of
from small_pipeline import SMALL_PIPELINE
from tiers import slow_unless

from passwright import optimize

TABLE = Path(__file__).parent / "planted" / "README.md"
WITH_INPUTS = [m.name for m in MISTAKES.values() if m.inputs is not None]
BY_VALUE = [m.name for m in MISTAKES.values() if "wrong" in m.wrong.values() and m.inputs is None]


@cache
def original_oracle(name: str, seed: int) -> Oracle:
    return oracle_of(MISTAKES[name].model, seed=seed)


@cache
def stored() -> dict[str, list[str]]:
    """The kinds of draw that show each mistake, read from the table."""
    lines = TABLE.read_text(encoding="utf-8").partition("## Shown without")[0].splitlines()
    cells = [[c.strip() for c in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    return {name: [k for k, mark in zip(KINDS, marks, strict=True) if mark == "x"] for name, *marks in cells[2:-2]}


ONE_OF_EACH_FAILURE = {kind: m.name for m in MISTAKES.values() for kind in m.wrong.values()}.values()
# Of each kind of draw, one mistake that nothing else shows, or one that it shows.
ONE_OF_EACH_DRAW = {
    k: min((n for n in stored() if k in stored()[n]), key=lambda n: len(stored()[n])) for k in KINDS
}.values()
MISUSES = {
    "drops_a_captured_constant", "ignores_the_answer", "inside_a_fixpoint", "keeps_state", "one_place_for_all",
    "recurses_for_ever", "several_offenders", "silent_and_raises", "two_wrong_at_one_place",
}  # fmt: skip
FIRST = {*ONE_OF_EACH_FAILURE, *ONE_OF_EACH_DRAW, *MISUSES, WITH_INPUTS[0]}


@pytest.mark.parametrize("name", slow_unless(FIRST, MISTAKES))
def test_only_the_mistake_is_rejected(name: str) -> None:
    bug = MISTAKES[name]
    result = optimize(bug.model, SMALL_PIPELINE, plugin=[bug.plugin], inputs=bug.inputs, seed=0)
    found = result.report.rejected
    assert {(q.by, q.place): str(q.failure_kind) for q in found} == bug.wrong
    assert len(found) == len(bug.wrong)
    unchanged = {op_type: n for op_type, n in result.report.before.ops.items() if op_type != "Identity"}
    assert result.report.after.ops == (unchanged if bug.after is None else bug.after)
    onnx.checker.check_model(result.model, full_check=True)
    assert list(result.model.graph.input) == list(bug.model.graph.input)
    assert list(result.model.graph.output) == list(bug.model.graph.output)
    for q in (q for q in found if q.failure_kind == "wrong" and q.ordinal is not None):
        assert q.input_kind in (KINDS if bug.inputs is None else {"given"})
        values = {name for node in all_nodes(bug.model.graph.node) for name in node.output}
        assert q.output in values or " fails" in q.message
        assert q.message


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in MISTAKES if n not in WITH_INPUTS])
def test_result_is_correct_on_other_inputs(name: str) -> None:
    bug = MISTAKES[name]
    result = optimize(bug.model, SMALL_PIPELINE, plugin=[bug.plugin], seed=0)
    original_oracle(name, seed=7).check(result.model.SerializeToString())


@pytest.mark.parametrize("name", slow_unless(ONE_OF_EACH_FAILURE, MISTAKES))
def test_mistake_ends_a_strict_run(name: str, tmp_path: Path) -> None:
    bug = MISTAKES[name]
    options = {"strict": True, "inputs": bug.inputs, "output": tmp_path / "out.onnx"}
    with pytest.raises(PassesError):
        optimize(bug.model, SMALL_PIPELINE, plugin=[bug.plugin], **options)
    assert not list(tmp_path.iterdir())


def shown_by(name: str) -> list[str]:
    """The kinds of draw on which the plugin's model differs from the original: beyond rounding, or else in bits."""
    bug = MISTAKES[name]
    made = optimize(bug.model, SMALL_PIPELINE, plugin=[bug.plugin], verify=False).model.SerializeToString()
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


README = """# Planted mistakes

{count} rules and passes that are wrong, each with a model on which it is. `tests/test_planted.py`
demands that each is found, named and left out while everything else is kept, and keeps this table true;
`python tests/test_planted.py` writes it.

## Shown by values

Kinds of draw on which an output or a changed region differs by more than rounding, or else an output
in its bits (seed 0, all sizes taken together):

{by_value}

## Shown without values

| mistake | why | what |
| --- | --- | --- |
{without_values}

## Shown by given inputs

| mistake | what |
| --- | --- |
{by_inputs}
"""


def table(shown: Mapping[str, Sequence[str]]) -> str:
    """The README of the planted mistakes, from the kinds of draw that show each."""
    rows = [["mistake", *KINDS], ["---", *[":-:"] * len(KINDS)]]
    rows += [[name, *("x" if k in kinds else "" for k in KINDS)] for name, kinds in shown.items()]
    rows.append(["**shows**", *(str(sum(k in kinds for kinds in shown.values())) for k in KINDS)])
    rows.append(["**alone shows**", *(str(sum(kinds == [k] for kinds in shown.values())) for k in KINDS)])
    others = [m for m in MISTAKES.values() if m.name not in (*shown, *WITH_INPUTS)]
    return README.format(
        count=len(MISTAKES),
        by_value=_lines(rows),
        without_values=_lines([m.name, ", ".join(m.wrong.values()), m.about] for m in others),
        by_inputs=_lines([name, MISTAKES[name].about] for name in WITH_INPUTS),
    )


def _lines(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


@pytest.mark.parametrize("name", slow_unless(ONE_OF_EACH_DRAW, BY_VALUE))
def test_table_rows_are_current(name: str) -> None:
    assert stored().get(name) == shown_by(name), "write it anew: python tests/test_planted.py"


def test_table_is_complete() -> None:
    shown = stored()
    assert list(shown) == BY_VALUE
    assert TABLE.read_text(encoding="utf-8") == table(shown), "write it anew: python tests/test_planted.py"
    assert all(shown.values()), "nothing shows some mistake"


if __name__ == "__main__":
    TABLE.write_text(table({name: shown_by(name) for name in BY_VALUE}), encoding="utf-8")
