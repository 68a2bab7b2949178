"""Placement of passes in a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import Fixpoint, Pass, PassPlacement, Pipeline, RulePass, leaves
from passwright.core.errors import PluginError
from passwright.core.plugins.plugin import insert_passes, order_passes
from passwright.passes.pipelines import BUILT_IN, DECOMPOSITION, FUSION, MOVEMENT, PASS_STAGES, PIPELINES

LETTERS = dict(zip("abcdef", ("cleanup", "cleanup", "fold", "fuse", "fuse", "layout"), strict=True))


def named(name: str) -> RulePass:
    return RulePass(name, ())


def placed(name: str, **constraints: Any) -> PassPlacement:
    return PassPlacement(named(name), **constraints)


def after(more: Sequence[PassPlacement], standing: str = "abcdef") -> str:
    return "".join(p.name for p in order_passes([named(n) for n in standing], more, LETTERS))


@pytest.mark.parametrize(
    ("more", "order"),
    [
        pytest.param([], "abcdef", id="nothing"),
        pytest.param([placed("X")], "abcdefX", id="anywhere"),
        pytest.param([placed("X"), placed("Y")], "abcdefXY", id="two anywhere"),
        pytest.param([placed("X", stage="cleanup")], "abXcdef", id="cleanup"),
        pytest.param([placed("X", stage="fold")], "abcXdef", id="fold"),
        pytest.param([placed("X", stage="fuse")], "abcdeXf", id="fuse"),
        pytest.param([placed("X", stage="layout")], "abcdefX", id="layout"),
        pytest.param([placed("X", stage="fuse"), placed("Y", stage="cleanup")], "abYcdeXf", id="two stages"),
        pytest.param([placed("Y", stage="fuse"), placed("X", stage="fuse")], "abcdeYXf", id="one stage"),
        pytest.param([placed("X", before=("c",))], "abXcdef", id="before"),
        pytest.param([placed("X", before=("e", "b"))], "aXbcdef", id="before the first"),
        pytest.param([placed("X", before=("a",))], "Xabcdef", id="at the front"),
        pytest.param([placed("X", after=("c",))], "abcXdef", id="after"),
        pytest.param([placed("X", after=("b", "d"))], "abcdXef", id="after the last"),
        pytest.param([placed("X", after=("b",), before=("e",))], "abXcdef", id="between"),
        pytest.param([placed("X", after=("nowhere",))], "abcdefX", id="after an absent pass"),
        pytest.param([placed("X", before=("nowhere", "b"))], "aXbcdef", id="before an absent pass"),
        pytest.param([placed("X", stage="fuse", before=("e",))], "abcdXef", id="stage, and before its end"),
        pytest.param([placed("X", stage="fuse", after=("d",), before=("f",))], "abcdeXf", id="stage fits"),
        pytest.param([placed("X", stage="cleanup", after=("d",))], "abcdXef", id="stage, and after it"),
        pytest.param([placed("X", stage="layout", before=("b",))], "aXbcdef", id="stage, and before it"),
        pytest.param([placed("X", after=("Y",)), placed("Y", after=("b",))], "abYXcdef", id="after a new one"),
        pytest.param([placed("X", stage="cleanup", after=("Y",)), placed("Y")], "abcdefYX", id="pulled behind"),
        pytest.param([placed("X", before=("Y",)), placed("Y", before=("c",))], "abXYcdef", id="pulled to the front"),
        pytest.param([placed("Y", before=("b",)), placed("X", stage="fuse")], "aYbcdeXf", id="one waits for none"),
        pytest.param([placed("X", after=("X",), stage="fold")], "", id="itself"),
        pytest.param([placed("X", before=("b",), after=("d",))], "", id="before and after"),
        pytest.param([placed("X", before=("Y",)), placed("Y", before=("X",))], "", id="each before the other"),
        pytest.param([placed("X", before=("b",)), placed("Y", before=("X",), after=("c",))], "", id="through another"),
    ],
)
def test_order_of_passes(more: list[PassPlacement], order: str) -> None:
    if order:
        assert after(more) == order
        return
    with pytest.raises(PluginError, match="contradict each other"):
        after(more)


def test_empty_stages() -> None:
    assert after([placed("X", stage="fuse")], "abc") == "abcX"
    assert after([placed("X", stage="fold")], "abf") == "abXf"
    assert after([placed("X", stage="cleanup")], "cf") == "Xcf"
    assert after([placed("X", stage="fuse"), placed("Y", before=("X",))], "") == "YX"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([placed("X", before=("b",), after=("d",))], "X before b, d before X; in the pipeline b comes before d"),
        ([placed("X", before=("Y",)), placed("Y", before=("X",))], "X before Y, Y before X"),
    ],
)
def test_contradiction_names_passes_and_positions(more: list[PassPlacement], message: str) -> None:
    with pytest.raises(PluginError) as caught:
        after(more)
    said = str(caught.value).removeprefix("these positions contradict each other: ")
    assert sorted(said.partition(";")[0].split(", ")) == sorted(message.partition(";")[0].split(", "))
    assert said.partition(";")[2] == message.partition(";")[2]


WISHES = st.lists(st.sampled_from("abcdefUVWXYZ"), max_size=2, unique=True)
PLACED = st.builds(
    lambda stage, before, behind: (stage, tuple(before), tuple(behind)),
    st.sampled_from(["cleanup", "fold", "fuse", "layout", None]), WISHES, WISHES,
)  # fmt: skip


@given(st.lists(PLACED, max_size=6))
def test_constraints_hold_and_existing_order_is_kept(
    constraints: list[tuple[Any, tuple[str, ...], tuple[str, ...]]],
) -> None:
    more = [placed(n, stage=s, before=b, after=a) for n, (s, b, a) in zip("UVWXYZ", constraints, strict=False)]
    try:
        order = after(more)
    except PluginError:
        return
    assert sorted(order) == sorted("abcdef" + "".join(q.item.name for q in more))
    assert [n for n in order if n in LETTERS] == list("abcdef")
    for q in more:
        assert all(order.index(q.item.name) < order.index(n) for n in q.before if n in order)
        assert all(order.index(q.item.name) > order.index(n) for n in q.after if n in order)


def test_result_is_independent_of_input_order() -> None:
    more = [
        placed("X", stage="fuse", after=("Y",)),
        placed("Y", stage="cleanup"),
        placed("Z", before=("f",), after=("X",)),
    ]
    assert {after(p) for p in permutations(more)} == {"abYcdeXZf"}


def shape_of(p: Pass) -> Any:
    return p.name if not isinstance(p, Pipeline | Fixpoint) else (type(p).__name__[0], *map(shape_of, p.passes))


LOOP = Fixpoint("loop", (named("a"), named("f")))


@pytest.mark.parametrize(
    ("start", "more", "shape"),
    [
        pytest.param(LOOP, [placed("X")], ("F", "a", "f", "X"), id="in the loop"),
        pytest.param(LOOP, [placed("X", stage="final")], ("P", ("F", "a", "f"), "X"), id="final"),
        pytest.param(
            LOOP,
            [placed("X", stage="final", after=("Y",)), placed("Y", stage="final"), placed("Z")],
            ("P", ("F", "a", "f", "Z"), "Y", "X"),
            id="two final",
        ),
        pytest.param(LOOP, [placed("X", stage="final", after=("a",))], ("P", ("F", "a", "f"), "X"), id="after a loop"),
        pytest.param(Pipeline("p", ()), [placed("X")], ("P", "X"), id="no loop"),
        pytest.param(Pipeline("p", (named("a"),)), [placed("X", stage="final"), placed("Y")], ("P", "a", "Y", "X")),
        pytest.param(Pipeline("p", (named("b"), LOOP)), [placed("X")], ("P", "b", ("F", "a", "f", "X")), id="inside"),
        pytest.param(
            Pipeline("p", (Pipeline("q", (LOOP, named("c"))), named("b"))),
            [placed("X", stage="cleanup"), placed("Y", after=("b",)), placed("Z", before=("c",))],
            ("P", ("P", ("F", "a", "X", "f"), "Z", "c"), "b", "Y"),
            id="beside the loop",
        ),
        pytest.param(named("a"), [placed("X", before=("a",))], ("P", "X", "a"), id="a single pass"),
        pytest.param(named("a"), [placed("X", stage="final")], ("P", "a", "X"), id="behind a single pass"),
    ],
)
def test_position_in_a_pipeline(start: Pass, more: list[PassPlacement], shape: Any) -> None:
    assert shape_of(insert_passes(start, more, LETTERS)) == shape


@pytest.mark.parametrize(
    "more",
    [
        pytest.param([placed("X", stage="final", before=("a",))], id="final before another"),
        pytest.param([placed("X", stage="final"), placed("a2", after=("X",))], id="after a final pass"),
    ],
)
def test_nothing_runs_after_final_passes(more: list[PassPlacement]) -> None:
    with pytest.raises(PluginError, match=r"cannot run before a2?: it is for stage final"):
        insert_passes(LOOP, more, LETTERS)


def test_every_built_in_pass_has_a_stage() -> None:
    assert PASS_STAGES.keys() == {p.name for p in (*BUILT_IN, *DECOMPOSITION)}
    assert {PASS_STAGES[p.name] for p in FUSION} == {"fuse"}
    assert {PASS_STAGES[p.name] for p in MOVEMENT} == {"layout"}


def test_fusion_runs_after_built_in_fusions() -> None:
    names = [p.name for p in leaves(insert_passes(PIPELINES["basic"], [placed("mine", stage="fuse")], PASS_STAGES))]
    assert names[names.index("mine") - 1] == FUSION[-1].name
    wish = placed("mine", stage="fuse", after=("fuse-gelu",), before=("fuse-gemm",))
    assert [p.name for p in leaves(insert_passes(PIPELINES["basic"], [wish], PASS_STAGES))] == names


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ({"stage": "fusion"}, r"x: unknown stage fusion; choose from cleanup, fold, fuse, layout, final"),
        ({"before": "fuse-gemm"}, r"x: before must be names, as in before=\(\"fuse-gemm\",\), not 'fuse-gemm'"),
        ({"after": (3,)}, r"x: after must be names"),
    ],
)
def test_bad_placement_is_rejected(constraints: dict[str, Any], message: str) -> None:
    with pytest.raises(PluginError, match=message):
        placed("x", **constraints)


@pytest.mark.parametrize("item", [3, "text", RulePass, None], ids=repr)
def test_other_objects_are_rejected(item: Any) -> None:
    with pytest.raises(PluginError, match="is neither a pass nor a rule"):
        PassPlacement(item)
