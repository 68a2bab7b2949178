"""Placement of passes in a pipeline."""

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
from rewriting import cases

LETTERS = dict(zip("abcdef", ("cleanup", "cleanup", "fold", "fuse", "fuse", "layout"), strict=True))


def named(name: str) -> RulePass:
    return RulePass(name, ())


def placed(name: str, **constraints: Any) -> PassPlacement:
    return PassPlacement(named(name), **constraints)


def after(more: Sequence[PassPlacement], standing: str = "abcdef") -> str:
    return "".join(p.name for p in order_passes([named(n) for n in standing], more, LETTERS))


@cases(
    ("more", "order"),
    {
        "nothing": ([], "abcdef"),
        "anywhere": ([placed("X")], "abcdefX"),
        "two anywhere": ([placed("X"), placed("Y")], "abcdefXY"),
        "cleanup": ([placed("X", stage="cleanup")], "abXcdef"),
        "fold": ([placed("X", stage="fold")], "abcXdef"),
        "fuse": ([placed("X", stage="fuse")], "abcdeXf"),
        "layout": ([placed("X", stage="layout")], "abcdefX"),
        "two stages": ([placed("X", stage="fuse"), placed("Y", stage="cleanup")], "abYcdeXf"),
        "one stage": ([placed("Y", stage="fuse"), placed("X", stage="fuse")], "abcdeYXf"),
        "before": ([placed("X", before=("c",))], "abXcdef"),
        "before the first": ([placed("X", before=("e", "b"))], "aXbcdef"),
        "at the front": ([placed("X", before=("a",))], "Xabcdef"),
        "after": ([placed("X", after=("c",))], "abcXdef"),
        "after the last": ([placed("X", after=("b", "d"))], "abcdXef"),
        "between": ([placed("X", after=("b",), before=("e",))], "abXcdef"),
        "after an absent pass": ([placed("X", after=("nowhere",))], "abcdefX"),
        "before an absent pass": ([placed("X", before=("nowhere", "b"))], "aXbcdef"),
        "stage, and before its end": ([placed("X", stage="fuse", before=("e",))], "abcdXef"),
        "stage fits": ([placed("X", stage="fuse", after=("d",), before=("f",))], "abcdeXf"),
        "stage, and after it": ([placed("X", stage="cleanup", after=("d",))], "abcdXef"),
        "stage, and before it": ([placed("X", stage="layout", before=("b",))], "aXbcdef"),
        "after a new one": ([placed("X", after=("Y",)), placed("Y", after=("b",))], "abYXcdef"),
        "pulled behind": ([placed("X", stage="cleanup", after=("Y",)), placed("Y")], "abcdefYX"),
        "pulled to the front": ([placed("X", before=("Y",)), placed("Y", before=("c",))], "abXYcdef"),
        "one waits for none": ([placed("Y", before=("b",)), placed("X", stage="fuse")], "aYbcdeXf"),
        "itself": ([placed("X", after=("X",), stage="fold")], ""),
        "before and after": ([placed("X", before=("b",), after=("d",))], ""),
        "each before the other": ([placed("X", before=("Y",)), placed("Y", before=("X",))], ""),
        "through another": ([placed("X", before=("b",)), placed("Y", before=("X",), after=("c",))], ""),
    },
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


@cases(
    "more",
    {
        "final before another": [placed("X", stage="final", before=("a",))],
        "after a final pass": [placed("X", stage="final"), placed("a2", after=("X",))],
    },
)
def test_nothing_runs_after_final_passes(more: list[PassPlacement]) -> None:
    with pytest.raises(PluginError, match=r"cannot run before a2?: its stage final"):
        insert_passes(LOOP, more, LETTERS)


def test_every_built_in_pass_has_a_stage() -> None:
    assert PASS_STAGES.keys() == {p.name for p in (*BUILT_IN, *DECOMPOSITION)} | {"reduce-peak-memory"}
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
        ({"before": "fuse-gemm"}, r"x: before must be names, such as before=\(\"fuse-gemm\",\), not 'fuse-gemm'"),
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
