"""Rejection: wrong changes are found, named and excluded; all others are kept."""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import helper
from passwright.core import (
    EXACT,
    ChangeLog,
    Fixpoint,
    Graph,
    Op,
    Pass,
    Pipeline,
    RewriteBuilder,
    Rule,
    RulePass,
    Tensor,
    Value,
    from_onnx,
    require,
    rule,
)
from passwright.core.errors import (
    FailureKind,
    ModelError,
    NoFixpoint,
    PassesError,
    PassFailed,
    RuleError,
    UnverifiableError,
    VerificationError,
)
from passwright.core.run.failures import RewriteFailure
from passwright.core.run.pipeline_run import PipelineRun
from passwright.core.support.binary_search import first_bad, first_bad_at
from passwright.core.verify import seeded_session as performer
from passwright.core.verify.verdict import Mismatch, Verdict
from rewriting import cases, load, op_types, require_equivalent
from small_pipeline import SMALL_PIPELINE
from tiers import slow_unless

from passwright import Result, optimize

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")


@rule(lambda g, x: g.Elu(x), contract=EXACT)
def drop_elu(g: RewriteBuilder, x: Value) -> Value:
    """Elu(x) => x, which is right behind Exp, Softmax and Sigmoid only"""
    return x


@rule(lambda g, x, elu: g.Elu(x) @ elu, contract=EXACT)
def raises_in_the_middle(g: RewriteBuilder, x: Value, elu: Op) -> Value:
    """Elu(x) => x, and an exception at one place"""
    if elu.outputs[0].name == "y":
        raise KeyError("y")
    return x


@rule(lambda g, x: g.Elu(x), contract=EXACT)
def again(g: RewriteBuilder, x: Value) -> Value:
    """Elu(x) => Elu(x), for ever"""
    return g.Elu(x)


@rule(lambda g, x: g.Neg(x), contract=EXACT)
def neg_to_sub(g: RewriteBuilder, x: Value) -> Value:
    """Neg(x) => 0 - x"""
    return g.Sub(g.const(0.0, like=x), x)


@rule(lambda g, z, x: g.Sub(z, x), contract=EXACT)
def sub_to_neg(g: RewriteBuilder, z: Value, x: Value) -> Value:
    """z - x => Neg(x)"""
    return g.Neg(x)


@dataclass(frozen=True)
class Custom:
    """A pass that calls a function."""

    act: Callable[[Graph, ChangeLog], int]
    name: str = "custom"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        return self.act(graph, change_log)


def elus(graph: Graph) -> list[Op]:
    return list(graph.ops("Elu"))


def drop(op: Op) -> None:
    value = op.inputs[0]
    assert value is not None
    op.graph.replace_uses(op.outputs[0], value)
    op.graph.prune([op])


def drops_all_unasked(graph: Graph, change_log: ChangeLog) -> int:
    found = elus(graph)
    for op in found:
        drop(op)
    return len(found)


def drops_all_and_denies_it(graph: Graph, change_log: ChangeLog) -> int:
    drops_all_unasked(graph, change_log)
    return 0


def drops_all_asking(graph: Graph, change_log: ChangeLog) -> int:
    done = 0
    for op in elus(graph):
        if change_log.request_change("custom", op.outputs[0].name, (op,)):
            drop(op)
            done += 1
    return done


def swaps_inputs_in_secret(graph: Graph, change_log: ChangeLog) -> int:
    for op in graph.ops("Sub"):
        op.inputs = op.inputs[::-1]
    return 0


def breaks_edges(graph: Graph, change_log: ChangeLog) -> int:
    op = elus(graph)[0]
    if not change_log.request_change("custom", op.outputs[0].name, (op,)):
        return 0
    op.inputs = (Value("nowhere"),)
    return 1


def raises(graph: Graph, change_log: ChangeLog) -> int:
    raise ZeroDivisionError("oh")


def raises_late(graph: Graph, change_log: ChangeLog) -> int:
    drops_all_asking(graph, change_log)
    raise ZeroDivisionError("oh")


def never_settles(graph: Graph, change_log: ChangeLog) -> int:
    change_log.request_change("custom", "nothing")
    return 1


def asks_for_ever(graph: Graph, change_log: ChangeLog) -> int:
    while change_log.request_change("custom", "nothing"):
        pass
    return 1


def adds_for_ever(graph: Graph, change_log: ChangeLog) -> int:
    while True:
        graph.add_op(Op("Elu", "", "", {}, None), [graph.inputs[0]], [Value(graph.fresh_name("more"))])


def spins_for_ever(graph: Graph, change_log: ChangeLog) -> int:
    while True:
        pass


TEXT = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    i = Identity(x) e = Exp(i) a = Elu(e) b = Sub(x, a) c = Elu(b) t = Transpose(c) y = Transpose(t)
    s = Softmax(x) d = Elu(s) z = Neg(d)
}"""
BASIC = ["Exp", "Elu", "Sub", "Elu", "Softmax", "Elu", "Neg"]  # without any change of the above
RIGHT = ["Exp", "Sub", "Elu", "Softmax", "Neg"]  # with all removable Elus removed


def found(result: Result) -> list[tuple[str, str, str]]:
    return [(q.by, q.place, str(q.failure_kind)) for q in result.report.rejected]


def check(result: Result, model: onnx.ModelProto) -> None:
    """The result is correct, and so says its verification."""
    assert result.report.verification is not None
    require_equivalent(model, result.model)
    onnx.checker.check_model(result.model)


ENDLESS = [("custom", "", "endless")]
CULPRITS: dict[str, tuple[Any, list[tuple[str, str, str]], list[str] | None]] = {
    "a rule, at one place of three": (drop_elu, [("drop_elu", "y", "wrong")], RIGHT),
    "a pass, at one place of three": (Custom(drops_all_asking), [("custom", "y", "wrong")], RIGHT),
    "a pass that does not ask": (Custom(drops_all_unasked), [("custom", "", "wrong")], BASIC),
    "and denies it": (Custom(drops_all_and_denies_it), [("custom", "", "wrong")], BASIC),
    "past the graph's mutators": (Custom(swaps_inputs_in_secret), [("custom", "", "wrong")], BASIC),
    "a rule raises": (raises_in_the_middle, [("raises_in_the_middle", "y", "raised")], RIGHT),
    "a pass raises": (Custom(raises), [("custom", "", "raised")], BASIC),
    "a pass raises late": (Custom(raises_late), [("custom", "", "raised")], BASIC),
    "an invalid graph": (Custom(breaks_edges), [("custom", "a", "invalid")], BASIC),
    "a rule without end": (again, [("again", "", "endless")], BASIC),
    "two rules": (
        RulePass("chase", (neg_to_sub, sub_to_neg)),
        [("neg_to_sub", "", "endless"), ("sub_to_neg", "b", "wrong")],
        None,
    ),
    "a pass that never settles": (Custom(never_settles), ENDLESS, BASIC),
    "a pass with endless requests": (Custom(asks_for_ever), ENDLESS, BASIC),
    "a pass that adds for ever": (Custom(adds_for_ever), ENDLESS, BASIC),
}


@cases(("plugin", "guilty", "ops"), CULPRITS)
def test_culprit_is_rejected(
    plugin: Any, guilty: list[tuple[str, str, str]], ops: list[str] | None, tmp_path: Path
) -> None:
    model, out = load(TEXT), tmp_path / "out.onnx"
    result = optimize(model, plugin=[plugin], output=out)
    assert found(result) == guilty
    check(result, model)
    if ops is not None:
        assert op_types(onnx.load(out)) == ops


STRICT_FIRST = {"a rule, at one place of three", "a pass that does not ask", "a pass raises", "a rule without end"}


@pytest.mark.parametrize("name", slow_unless(STRICT_FIRST, CULPRITS))
def test_culprit_ends_a_strict_run(name: str, tmp_path: Path) -> None:
    plugin, guilty, _ = CULPRITS[name]
    with pytest.raises(VerificationError, match=f"first broken by .*{guilty[0][0]}") as caught:
        optimize(load(TEXT), plugin=[plugin], strict=True, output=tmp_path / "out.onnx")
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@cases("plugin", {"raises": Custom(raises), "invalid": Custom(breaks_edges), "endless": Custom(never_settles)})
def test_invalid_changes_are_rejected_without_verification(plugin: Pass) -> None:
    result = optimize(load(TEXT), plugin=[plugin], verify=False)
    assert [q.by for q in result.report.rejected] == ["custom"]
    assert op_types(result.model) == BASIC


def test_pass_that_broke_the_graph_is_named() -> None:
    def stumbles(graph: Graph, change_log: ChangeLog) -> int:
        graph.validate()
        return 0

    plugins = [Custom(breaks_edges), Custom(stumbles, "innocent")]
    assert found(optimize(load(TEXT), plugin=plugins)) == [("custom", "a", "invalid")]


def test_unreadable_weights_blame_no_pass() -> None:
    def reads(graph: Graph, change_log: ChangeLog) -> int:
        raise ModelError("w: the file is gone")

    with pytest.raises(ModelError, match="the file is gone"):
        optimize(load(TEXT), plugin=[Custom(reads)])


def reject_for(mismatch: Mismatch) -> None:
    """Reject a change of a run whose every model has this mismatch with the original."""
    run = PipelineRun(lambda: from_onnx(load(TEXT)), RulePass("right", (drop_elu,)))
    failed = run.replay().failing(RewriteFailure.of_mismatch(mismatch))
    run.reject(failed, lambda *_: Verdict("onnxruntime", exact=False, input_sets=(), differences={}, failure=mismatch))


def test_failure_before_any_pass_blames_none() -> None:
    mismatch = Mismatch("", "it is another", None, None)
    with pytest.raises(VerificationError, match="with no pass run: the rewritten model does not load: it is another"):
        reject_for(mismatch)


def test_lack_of_memory_without_any_change_is_no_fault() -> None:
    mismatch = Mismatch("", "onnxruntime ran out of memory", None, None)
    with pytest.raises(UnverifiableError, match="ran out of memory"):
        reject_for(mismatch)


def chain(*steps: str) -> onnx.ModelProto:
    """A model of many steps: the Elu of a `right` one is removable, that of a `wrong` one is not."""
    lines, terms, last = [], ["x"], "x"
    for i, step in enumerate(steps):
        lines.append(f"p{i} = {'Sigmoid' if step == 'right' else 'Neg'}({last}) r{i} = Elu(p{i})")
        terms += [f"r{i}"] * (step == "wrong")
        last = f"r{i}" if step == "right" else last
    return load(f"g (float[N,3] x) => (float[N,3] y) {{ {' '.join(lines)} y = Sum({last}, {', '.join(terms)}) }}")


@pytest.mark.parametrize("where", slow_unless({(199, 200)}, [(199, 200), *((n, 500) for n in (0, 1, 250, 498, 499))]))
def test_one_of_many_takes_few_replays(where: tuple[int, int]) -> None:
    at, steps = where
    model = chain(*["right"] * at, "wrong", *["right"] * (steps - at - 1))
    result = optimize(model, plugin=[drop_elu])
    assert found(result) == [("drop_elu", f"r{at}", "wrong")]
    assert op_types(result.model).count("Elu") == 1
    assert result.report.replays <= 4
    check(result, model)


@pytest.mark.parametrize(("steps", "replays"), [(100, 9), pytest.param(500, 11, marks=pytest.mark.slow)])
def test_one_of_many_takes_logarithmic_replays_without_regions(steps: int, replays: int) -> None:
    """Regions of models with random outputs are not compared."""
    at = steps // 2
    model = chain(*["right"] * at, "wrong", *["right"] * (steps - at - 1))
    model.graph.node.append(helper.make_node("RandomNormalLike", ["x"], ["noise"]))
    model.graph.output.append(helper.make_tensor_value_info("noise", onnx.TensorProto.FLOAT, ["N", 3]))
    result = optimize(model, plugin=[drop_elu])
    assert found(result) == [("drop_elu", f"r{at}", "wrong")]
    assert result.report.replays <= replays


def test_several_wrong_changes_are_found_in_one_run() -> None:
    steps = ["wrong" if i in {3, 5, 18} else "right" for i in range(20)]
    result = optimize(chain(*steps), plugin=[drop_elu])
    assert {place for _, place, _ in found(result)} == {"r3", "r5", "r18"}
    assert op_types(result.model).count("Elu") == 3


@pytest.fixture
def cap(monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of wrong changes before a rule is excluded as a whole, lower than usual."""
    monkeypatch.setattr("passwright.core.run.pipeline_run.MAX_FAILURES_PER_RULE", 2)
    return 2


def test_rule_beyond_the_cap_is_excluded(cap: int) -> None:
    model = chain(*["right", "wrong"] * (cap + 2))
    result = optimize(model, plugin=[RulePass("eager", (drop_elu,))])
    *each, whole = result.report.rejected
    assert len(each) == cap
    assert all(q.by == "drop_elu" and q.place for q in each)
    assert (whole.by, whole.place, whole.message) == ("drop_elu", "", "2 of its changes were wrong")
    assert op_types(result.model).count("Elu") == 2 * (cap + 2)
    check(result, model)


def test_results_are_deterministic() -> None:
    steps = ["wrong" if i % 7 == 3 else "right" for i in range(12)]
    first, second = (optimize(chain(*steps), plugin=[drop_elu]) for _ in range(2))
    assert first.report.rejected == second.report.rejected
    assert first.model.SerializeToString() == second.model.SerializeToString()


@rule(lambda g, x, p: g.Elu(g.one_of("Sigmoid", "Exp", "Softmax")(x) @ p), contract=EXACT)
def drop_elu_of_positive(g: RewriteBuilder, x: Value, p: Op) -> Value:
    """Elu(p) => p"""
    return p.outputs[0]


POSITIVE = RulePass("positive", (drop_elu_of_positive,))


class Mute(Exception):
    """It cannot say what is wrong."""

    def __str__(self) -> str:
        raise ValueError("no text")


class Panic(BaseException):
    """An exception like those of extension modules."""


def raising(error: BaseException) -> Custom:
    def act(graph: Graph, change_log: ChangeLog) -> int:
        raise error

    return Custom(act)


ODD: dict[str, tuple[BaseException, str]] = {
    "it has no text": (Mute(), "Mute"),
    "own BaseException": (Panic("oh"), "Panic: oh"),
    "GeneratorExit": (GeneratorExit("oh"), "GeneratorExit: oh"),
    "CancelledError": (asyncio.CancelledError(), "CancelledError"),
    "SystemExit": (SystemExit(0), "SystemExit: 0"),
}
OF_OTHERS: dict[str, tuple[BaseException, str]] = {
    "PassFailed of another": (PassFailed("drop-identity", FailureKind.RAISED, "not me"), "not me"),
    "NoFixpoint of another": (NoFixpoint("not me", ["drop-identity"]), "not me"),
    "RuleError of another": (RuleError("not me", "drop_identity", "i"), "not me"),
}


@pytest.mark.parametrize("back", [None, "x", 0.5], ids=repr)
def test_pass_without_change_count_is_excluded(back: Any) -> None:
    result = optimize(load(TEXT), Custom(lambda *_: back, "vague"))
    (found,) = result.report.rejected
    assert (found.by, found.failure_kind) == ("vague", FailureKind.RAISED)
    assert found.message == f"run() returned {back!r}, not the number of changes"


@cases(("error", "message"), {**ODD, **OF_OTHERS})
def test_pass_is_named_for_any_exception(error: BaseException, message: str) -> None:
    result = optimize(load(TEXT), plugin=[POSITIVE, raising(error)])
    assert found(result) == [("custom", "", "endless" if isinstance(error, NoFixpoint) else "raised")]
    said, _, line = result.report.rejected[0].message.partition(" (test_rejection.py:")
    assert (said, bool(line)) == (message, not isinstance(error, PassesError))
    assert op_types(result.model) == RIGHT


@cases(("error", "message"), ODD)
def test_rule_is_named_for_any_exception(error: BaseException, message: str) -> None:
    @rule(lambda g, x: g.Neg(x), contract=EXACT)
    def breaks(g: RewriteBuilder, x: Value) -> Value:
        raise error

    result = optimize(load(TEXT), plugin=[RulePass("mine", (drop_elu_of_positive, breaks))])
    assert found(result) == [("breaks", "z", "raised")]
    said, _, place = result.report.rejected[0].message.rpartition(" (test_rejection.py:")
    assert said == f"rule breaks failed at Neg z: {message}"
    assert place.removesuffix(")").isdigit()
    assert op_types(result.model) == RIGHT


def test_interrupt_is_not_caught() -> None:
    @rule(lambda g, x: g.Neg(x), contract=EXACT)
    def interrupted(g: RewriteBuilder, x: Value) -> Value:
        raise KeyboardInterrupt

    for plugin in (interrupted, raising(KeyboardInterrupt())):
        with pytest.raises(KeyboardInterrupt):
            optimize(load(TEXT), plugin=[plugin])


def flips_unasked(graph: Graph, change_log: ChangeLog) -> int:
    for op in graph.ops("Sub"):
        graph.set_inputs(op, op.inputs[::-1])
    return 1


@pytest.mark.parametrize("act", [never_settles, flips_unasked])
@pytest.mark.parametrize("group", [Pipeline, Fixpoint])
def test_endless_group_loses_one_pass(act: Callable[[Graph, ChangeLog], int], group: type[Pipeline | Fixpoint]) -> None:
    result = optimize(load(TEXT), plugin=[group("mine", (POSITIVE, Custom(act)))])
    assert found(result) == [("custom", "", "endless")]
    assert op_types(result.model) == RIGHT


def test_a_pass_named_like_a_rule() -> None:
    result = optimize(load(TEXT), plugin=[POSITIVE, Custom(raises, "drop_elu_of_positive")])
    assert found(result) == [("drop_elu_of_positive", "", "raised")]
    assert op_types(result.model) == RIGHT


def test_correct_rule_stays_beyond_the_cap(cap: int) -> None:
    model = chain(*["right", "wrong"] * (cap + 1))
    result = optimize(model, plugin=[RulePass("eager", (drop_elu, drop_elu_of_positive))])
    whole = result.report.rejected[-1]
    assert (len(found(result)), whole.pass_name, whole.by, whole.place) == (cap + 1, "eager", "drop_elu", "")
    assert op_types(result.model).count("Elu") == cap + 1
    check(result, model)


@rule(lambda g, x: g.Elu(x), contract=EXACT)
def to_transposes(g: RewriteBuilder, x: Value) -> Value:
    """Elu(x) => two Transposes, one of an axis that is not there"""
    return g.Transpose(g.Transpose(x, perm=[1, 0]), perm=[0, 2])


@rule(lambda g, x: g.Elu(x), contract=EXACT)
def to_if(g: RewriteBuilder, x: Value) -> Value:
    """Elu(x) => an If without branches"""
    return g.If(g.const(True))


@pytest.mark.parametrize("wrong", [to_transposes, to_if], ids=lambda r: r.name)
def test_failing_built_in_pass_is_restored(wrong: Rule) -> None:
    model = load("""g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
        a = Elu(x) t = Transpose(a) u = Transpose(t) y = Neg(u) c = Constant<value = bool {1}>()
        z = If (c) <then_branch = p () => (float[N,4] m) { m = Sin(x) },
                    else_branch = q () => (float[N,4] o) { o = Cos(x) }> }""")
    result = optimize(model, plugin=[wrong])
    assert [(q.by, q.place) for q in result.report.rejected] == [(wrong.name, "a")]
    assert op_types(result.model) == ["Elu", "Neg", "Sin"]


@rule(lambda g, x, m: g.one_of("Max", "Min")(x, x) @ m, contract=EXACT)
def turns(g: RewriteBuilder, x: Value, m: Op) -> Value:
    """Max(x, x) => Min(x, x), and at last an exception, as long as there is a Ceil"""
    if m.type == "Max":
        return g.Min(x, x)
    require(not any(m.graph.ops("Elu")), "later")
    if any(m.graph.ops("Ceil")):
        raise KeyError("Ceil")
    return x


@rule(lambda g, x, op: g.one_of("Elu", "Ceil", "Floor", "Relu")(x) @ op, contract=EXACT)
def drops_many(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """f(x) => x, which is right for Elu and Relu of Exp only"""
    return x


def test_excluded_exception_renumbers_later_changes() -> None:
    """After a change is excluded, passed input sets are checked again: else a later change is blamed."""
    scaled = " ".join(f"k{i} = Constant<value_float = {i}.25>() x{i} = Mul(x, k{i})" for i in range(13))
    elus = " ".join(f"E{i} = Exp(x{i}) e{i} = Elu(E{i})" for i in range(5))
    relus = " ".join(f"R{i} = Exp(x{5 + i}) r{i} = Relu(R{i})" for i in range(8))
    terms = ", ".join([*(f"e{i}" for i in range(5)), *(f"r{i}" for i in range(8))])
    model = load(f"""g (float[N,4] x) => (float[N,4] y, float[N,4] c, float[N,4] f, float[N,4] s) {{
        {scaled} M = Sin(x) m = Max(M, M) y = Neg(m) {elus} u = Cos(x) U = Ceil(u) c = Neg(U)
        v = Sin(x) V = Floor(v) f = Neg(V) {relus} s = Sum({terms}) }}""")
    result = optimize(model, SMALL_PIPELINE, [RulePass("turn", (turns,)), RulePass("many", (drops_many,))])
    assert found(result) == [("drops_many", "U", "wrong"), ("drops_many", "V", "wrong"), ("turns", "m", "raised")]
    assert {"Elu", "Relu"}.isdisjoint(op_types(result.model))
    check(result, model)


def the(graph: Graph, op_type: str) -> Any:
    """An op without its types, for invalid transforms."""
    return next(graph.ops(op_type))


def unset_attribute(graph: Graph) -> None:
    graph.replace_value(
        the(graph, "Neg").outputs[0],
        graph.add_op(Op("Softmax", "", "", {"axis": None}, None), [graph.inputs[0]], [Value("odd")]).outputs[0],
    )


def array_as_tensor(graph: Graph) -> None:
    weight: Any = graph.add_constant(Tensor.from_array(np.zeros(3, np.float32)))
    graph.set_inputs(the(graph, "Neg"), [weight])
    weight.tensor = np.zeros(3, np.float32)


def names_as_inputs(graph: Graph) -> None:
    the(graph, "Sub").inputs = ("x", "a")


def no_header(graph: Graph) -> None:
    declared: Any = graph.declared
    declared.header = None


def number_as_name(graph: Graph) -> None:
    the(graph, "Sub").outputs[0].name = 5


def no_inputs(graph: Graph) -> None:
    the(graph, "Sub").inputs = None


def writes_attributes(graph: Graph) -> None:
    the(graph, "Softmax").attrs["axis"] = 0


@pytest.mark.parametrize(
    "spoil",
    [unset_attribute, array_as_tensor, names_as_inputs, no_header, number_as_name, no_inputs, writes_attributes],
)
def test_invalid_graph_is_rejected(spoil: Callable[[Graph], None]) -> None:
    def act(graph: Graph, change_log: ChangeLog) -> int:
        if "custom" in change_log.counts or not change_log.request_change("custom", "z"):
            return 0
        spoil(graph)
        return 1

    result = optimize(load(TEXT), plugin=[POSITIVE, Custom(act)])
    ((by, _, why),) = found(result)
    assert by == "custom"
    assert why == ("raised" if spoil is writes_attributes else why)
    assert why in {"invalid", "raised"}
    assert op_types(result.model) == RIGHT


def test_empty_constant_names_the_rule() -> None:
    @rule(lambda g, x, s: g.Softmax(x) @ s, contract=EXACT)
    def clip(g: RewriteBuilder, x: Value, s: Op) -> Value:
        return g.Max(x, g.const(s.attr("alpha")))

    result = optimize(load(TEXT), plugin=[clip])
    assert [(by, place) for by, place, _ in found(result)] == [("clip", "s")]
    assert op_types(result.model) == BASIC


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs a hundred times longer than the first run time out."""
    monkeypatch.setattr(performer, "MIN_RUN_TIMEOUT", 0.2)


LOOP = """g (float[N] x) => (float[] y) <int64 n = {1000000000000}, bool t = {1}, float two = {2}, float most = {100}> {
    %s
    y = Loop (n, t, p) <body = b (int64 i, bool k, float[] v) => (bool d, float[] w) {
        w = Mul(v, two) a = Abs(w) d = Less(a, most) }>
}"""


@pytest.mark.usefixtures("hasty")
def test_inputs_of_endless_loops_are_rejected() -> None:
    result = optimize(load(LOOP % "e = Identity(x) p = ReduceSum<keepdims = 0>(e)"))  # 0 never becomes 100
    verification = result.report.verification
    assert verification is not None
    assert any("fails on zeros inputs" in note for note in verification.notes)
    assert any(draw.startswith("negative") for draw in verification.input_sets)
    assert found(result) == []
    assert op_types(result.model) == ["ReduceSum", "Loop"]


@pytest.mark.usefixtures("hasty")
def test_change_that_makes_a_loop_endless_is_rejected() -> None:
    @rule(lambda g, a, b: g.Less(a, b), contract=EXACT)
    def less_as_unequal(g: RewriteBuilder, a: Value, b: Value) -> Value:
        return g.Not(g.Equal(a, b))

    model = load(LOOP % "e = Exp(x) s = ReduceSum<keepdims = 0>(e) i = Identity(s) p = Add(i, two)")
    result = optimize(model, plugin=[less_as_unequal])
    assert found(result) == [("less_as_unequal", "d", "wrong")]
    assert "does not end within" in result.report.rejected[0].message
    assert op_types(result.model) == ["Exp", "ReduceSum", "Add", "Loop"]


def test_record_of_a_wrong_change() -> None:
    (record,) = optimize(load(TEXT), plugin=[drop_elu]).report.rejected
    assert record.label.startswith("drop-elu/drop_elu #")
    assert record.label.endswith(" at y")
    assert record.replaced == ("Elu y",)
    assert record.output == "y"
    assert record.input_kind in record.input_set
    assert record.error is not None
    assert record.error > 0
    assert np.isfinite(record.error)


@given(st.integers(-1, 1000), st.integers(1, 1000), st.data())
def test_first_bad_is_found_by_bisection(good: int, distance: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(good + 1, good + distance))
    probes: list[int] = []

    def is_bad(n: int) -> bool:
        probes.append(n)
        return n >= first

    assert first_bad(good, good + distance, is_bad) == first
    assert len(probes) <= math.ceil(math.log2(distance))
    assert all(good < n < good + distance for n in probes)


@given(st.integers(-1, 20), st.integers(1, 40), st.lists(st.integers(-5, 70), unique=True), st.data())
def test_first_bad_is_found_wherever_it_was_expected(
    good: int, distance: int, likely: list[int], data: st.DataObject
) -> None:
    first = data.draw(st.integers(good + 1, good + distance))
    assert first_bad_at(sorted(likely), good, good + distance, lambda n: n >= first) == first


def test_first_bad_takes_two_probes_where_it_is_expected() -> None:
    probes: list[int] = []
    assert first_bad_at([300, 301], -1, 500, lambda n: probes.append(n) or n >= 301) == 301
    assert sorted(probes) == [300, 301]


@pytest.mark.parametrize("name", ["again", "drop_elu", "mine"])
def test_endless_rule_excludes_no_pass_of_its_name(name: str) -> None:
    other = RulePass("again", (sub_to_neg,)) if name != "again" else RulePass("other", (sub_to_neg,))
    result = optimize(load(TEXT), plugin=[RulePass(name, (again,)), other])
    assert found(result)[0] == ("again", "", "endless")
    assert {q.place for q in result.report.rejected} == {"", "b"}  # the other pass is judged separately


def test_place_may_be_an_op() -> None:
    def asks_with_ops(graph: Graph, change_log: ChangeLog) -> int:
        done = 0
        for op in elus(graph):
            if change_log.request_change("custom", op, (op,)):
                drop(op)
                done += 1
        return done

    result = optimize(load(TEXT), plugin=[Custom(asks_with_ops)])
    assert found(result) == [("custom", "Elu y", "wrong")]
    assert op_types(result.model) == RIGHT
