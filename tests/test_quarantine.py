"""What breaks a model is found, named and left out; the rest stays."""

from __future__ import annotations

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
from passwright.core import EXACT, Build, Graph, Ledger, Op, Pass, RulePass, Value, from_onnx, rule
from passwright.core.bisect import first_bad
from passwright.core.errors import ModelError, VerificationError
from passwright.core.manager import Manager
from passwright.core.trust.quarantine import CAP, Quarantine
from passwright.core.trust.trial import Look
from passwright.core.verify.verdict import Mismatch
from passwright.passes import Result, optimize
from rewriting import load, means_the_same, op_types

# -- rules and passes that go wrong ----------------------------------------------------------------------


@rule(lambda g, x: g.Relu(x), contract=EXACT)
def drop_relu(g: Build, x: Value) -> Value:
    """Relu(x) => x, which is right behind Exp, Softmax and Abs only"""
    return x


@rule(lambda g, x, relu: g.Relu(x) @ relu, contract=EXACT)
def raises_in_the_middle(g: Build, x: Value, relu: Op) -> Value:
    """Relu(x) => x, and an exception at one place"""
    if relu.outputs[0].name == "y":
        raise KeyError("y")
    return x


@rule(lambda g, x: g.Relu(x), contract=EXACT)
def again(g: Build, x: Value) -> Value:
    """Relu(x) => Relu(x), for ever"""
    return g.Relu(x)


@rule(lambda g, x: g.Neg(x), contract=EXACT)
def neg_to_sub(g: Build, x: Value) -> Value:
    """Neg(x) => 0 - x"""
    return g.Sub(g.const(0.0, like=x), x)


@rule(lambda g, z, x: g.Sub(z, x), contract=EXACT)
def sub_to_neg(g: Build, z: Value, x: Value) -> Value:
    """z - x => Neg(x)"""
    return g.Neg(x)


@dataclass(frozen=True)
class Custom:
    """A pass made of a function."""

    act: Callable[[Graph, Ledger], int]
    name: str = "custom"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        return self.act(graph, ledger)


def relus(graph: Graph) -> list[Op]:
    return list(graph.ops("Relu"))


def drop(op: Op) -> None:
    value = op.inputs[0]
    assert value is not None
    op.graph.replace_uses(op.outputs[0], value)
    op.graph.prune([op])


def drops_all_unasked(graph: Graph, ledger: Ledger) -> int:
    found = relus(graph)
    for op in found:
        drop(op)
    return len(found)


def drops_all_and_denies_it(graph: Graph, ledger: Ledger) -> int:
    drops_all_unasked(graph, ledger)
    return 0


def drops_all_asking(graph: Graph, ledger: Ledger) -> int:
    done = 0
    for op in relus(graph):
        if ledger.permits("custom", op.outputs[0].name, (op,)):
            drop(op)
            done += 1
    return done


def swaps_inputs_in_secret(graph: Graph, ledger: Ledger) -> int:
    for op in graph.ops("Sub"):
        op.inputs = op.inputs[::-1]
    return 0


def breaks_edges(graph: Graph, ledger: Ledger) -> int:
    op = relus(graph)[0]
    if not ledger.permits("custom", op.outputs[0].name, (op,)):
        return 0
    op.inputs = (Value("nowhere"),)
    return 1


def raises(graph: Graph, ledger: Ledger) -> int:
    raise ZeroDivisionError("oh")


def raises_late(graph: Graph, ledger: Ledger) -> int:
    drops_all_asking(graph, ledger)
    raise ZeroDivisionError("oh")


def never_settles(graph: Graph, ledger: Ledger) -> int:
    ledger.permits("custom", "nothing")
    return 1


def asks_for_ever(graph: Graph, ledger: Ledger) -> int:
    while ledger.permits("custom", "nothing"):
        pass
    return 1


def adds_for_ever(graph: Graph, ledger: Ledger) -> int:
    while True:
        graph.add_op(Op("Relu", "", "", {}, None), [graph.inputs[0]], [Value(graph.fresh_name("more"))])


def spins_for_ever(graph: Graph, ledger: Ledger) -> int:
    while True:
        pass


TEXT = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    i = Identity(x) e = Exp(i) a = Relu(e) b = Sub(x, a) c = Relu(b) t = Transpose(c) y = Transpose(t)
    s = Softmax(x) d = Relu(s) z = Neg(d)
}"""
BASIC = ["Exp", "Relu", "Sub", "Relu", "Softmax", "Relu", "Neg"]  # without any of the above
RIGHT = ["Exp", "Sub", "Relu", "Softmax", "Neg"]  # with all Relus gone that may go


def found(result: Result) -> list[tuple[str, str, str]]:
    return [(q.by, q.place, str(q.why)) for q in result.report.quarantined]


def check(result: Result, model: onnx.ModelProto) -> None:
    """The result is right, and shown to be."""
    assert result.report.verification is not None
    means_the_same(model, result.model)
    onnx.checker.check_model(result.model)


@pytest.mark.parametrize(
    ("plugin", "guilty", "ops"),
    [
        pytest.param(drop_relu, [("drop_relu", "y", "wrong")], RIGHT, id="a rule, at one place of three"),
        pytest.param(Custom(drops_all_asking), [("custom", "y", "wrong")], RIGHT, id="a pass, at one place of three"),
        pytest.param(Custom(drops_all_unasked), [("custom", "", "wrong")], BASIC, id="a pass that does not ask"),
        pytest.param(Custom(drops_all_and_denies_it), [("custom", "", "wrong")], BASIC, id="and denies it"),
        pytest.param(Custom(swaps_inputs_in_secret), [("custom", "", "wrong")], BASIC, id="past the graph's mutators"),
        pytest.param(raises_in_the_middle, [("raises_in_the_middle", "y", "raised")], RIGHT, id="a rule raises"),
        pytest.param(Custom(raises), [("custom", "", "raised")], BASIC, id="a pass raises"),
        pytest.param(Custom(raises_late), [("custom", "", "raised")], BASIC, id="a pass raises late"),
        pytest.param(Custom(breaks_edges), [("custom", "a", "invalid")], BASIC, id="an invalid graph"),
        pytest.param(again, [("again", "", "endless")], BASIC, id="a rule without end"),
        pytest.param(
            RulePass("chase", (neg_to_sub, sub_to_neg)),
            [("neg_to_sub", "", "endless"), ("sub_to_neg", "b", "wrong")],
            None,
            id="two rules",
        ),
        pytest.param(Custom(never_settles), [("custom", "", "endless")], BASIC, id="a pass that never settles"),
        pytest.param(Custom(asks_for_ever), [("custom", "", "endless")], BASIC, id="a pass that asks for ever"),
        pytest.param(Custom(adds_for_ever), [("custom", "", "endless")], BASIC, id="a pass that adds for ever"),
    ],
)
@pytest.mark.parametrize("strict", [False, True], ids=["lenient", "strict"])
def test_guilty(
    plugin: Any, guilty: list[tuple[str, str, str]], ops: list[str] | None, tmp_path: Path, *, strict: bool
) -> None:
    model, out = load(TEXT), tmp_path / "out.onnx"
    if strict:
        with pytest.raises(VerificationError, match=f"first broken by .*{guilty[0][0]}") as caught:
            optimize(model, plugins=[plugin], strict=True, output=out)
        assert "\n" not in str(caught.value)
        assert not out.exists()
        return
    result = optimize(model, plugins=[plugin], output=out)
    assert found(result) == guilty
    check(result, model)
    if ops is not None:
        assert op_types(onnx.load(out)) == ops


@pytest.mark.parametrize(
    "plugin",
    [
        pytest.param(Custom(raises), id="raises"),
        pytest.param(Custom(breaks_edges), id="invalid"),
        pytest.param(Custom(never_settles), id="endless"),
    ],
)
def test_what_shows_without_running_is_left_out_unverified_too(plugin: Pass) -> None:
    result = optimize(load(TEXT), plugins=[plugin], verify=False)
    assert [q.by for q in result.report.quarantined] == ["custom"]
    assert op_types(result.model) == BASIC


def test_a_pass_that_hangs_is_ended() -> None:
    manager = Manager(lambda: from_onnx(load(TEXT)), Custom(spins_for_ever), patience=0.2)
    attempt = manager.run()
    assert attempt.failed is not None
    culprit = Quarantine(manager, Look()).leave_out_next(Look().at(attempt))
    assert (culprit.by, culprit.why) == ("custom", "endless")
    assert Look().at(manager.run()).failure is None


def test_the_one_who_broke_the_graph_is_named_not_the_one_who_stumbled() -> None:
    def stumbles(graph: Graph, ledger: Ledger) -> int:
        graph.validate()
        return 0

    plugins = [Custom(breaks_edges), Custom(stumbles, "innocent")]
    assert found(optimize(load(TEXT), plugins=plugins)) == [("custom", "a", "invalid")]


def test_weights_that_cannot_be_read_are_nobody_s_fault() -> None:
    def reads(graph: Graph, ledger: Ledger) -> int:
        raise ModelError("w: the file is gone")

    with pytest.raises(ModelError, match="the file is gone"):
        optimize(load(TEXT), plugins=[Custom(reads)])


def test_what_is_wrong_before_any_pass_is_nobody_s_fault() -> None:
    manager = Manager(lambda: from_onnx(load(TEXT)), RulePass("right", (drop_relu,)))
    look = Look(judge=lambda *_: Mismatch("", "it is another", None, None))
    with pytest.raises(VerificationError, match="even with no pass run: the rewritten model is refused: it is another"):
        Quarantine(manager, look).leave_out_next(look.at(manager.run()))


# -- many --------------------------------------------------------------------------------------------------


def chain(*steps: str) -> onnx.ModelProto:
    """A model of many steps: the Relu of a `right` one may go, that of a `wrong` one may not."""
    lines, terms, last = [], ["x"], "x"
    for i, step in enumerate(steps):
        lines.append(f"p{i} = {'Abs' if step == 'right' else 'Neg'}({last}) r{i} = Relu(p{i})")
        terms += [f"r{i}"] * (step == "wrong")
        last = f"r{i}" if step == "right" else last
    return load(f"g (float[N,3] x) => (float[N,3] y) {{ {' '.join(lines)} y = Sum({last}, {', '.join(terms)}) }}")


@pytest.mark.parametrize("at", [0, 1, 250, 498, 499])
def test_one_among_500_takes_at_most_12_replays(at: int) -> None:
    model = chain(*["right"] * at, "wrong", *["right"] * (499 - at))
    result = optimize(model, plugins=[drop_relu])
    assert found(result) == [("drop_relu", f"r{at}", "wrong")]
    assert op_types(result.model).count("Relu") == 1
    assert result.report.replays <= 12
    check(result, model)


def test_several_are_found_in_one_run() -> None:
    steps = ["wrong" if i in {3, 5, 20, 37} else "right" for i in range(40)]
    result = optimize(chain(*steps), plugins=[drop_relu])
    assert {place for _, place, _ in found(result)} == {"r3", "r5", "r20", "r37"}
    assert op_types(result.model).count("Relu") == 4


def test_beyond_the_cap_the_rule_goes() -> None:
    model = chain(*["right", "wrong"] * (CAP + 5))
    result = optimize(model, plugins=[RulePass("eager", (drop_relu,))])
    *each, whole = result.report.quarantined
    assert len(each) == CAP
    assert all(q.by == "drop_relu" and q.place for q in each)
    assert (whole.by, whole.place, whole.message) == ("drop_relu", "", "20 of its changes were wrong")
    assert op_types(result.model).count("Relu") == 2 * (CAP + 5)
    check(result, model)


def test_the_same_faults_are_found_each_time() -> None:
    steps = ["wrong" if i % 7 == 3 else "right" for i in range(30)]
    first, second = (optimize(chain(*steps), plugins=[drop_relu]) for _ in range(2))
    assert first.report.quarantined == second.report.quarantined
    assert first.model.SerializeToString() == second.model.SerializeToString()


# -- what is told of it --------------------------------------------------------------------------------------


def test_the_record_of_a_wrong_change() -> None:
    (record,) = optimize(load(TEXT), plugins=[drop_relu]).report.quarantined
    assert record.label.startswith("drop-relu/drop_relu #")
    assert record.label.endswith(" at y")
    assert record.replaced == ("Relu y",)
    assert record.output == "y"
    assert record.kind in record.draw
    assert record.error is not None
    assert record.error > 0
    assert np.isfinite(record.error)


@given(st.integers(-1, 1000), st.integers(1, 1000), st.data())
def test_first_bad(good: int, distance: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(good + 1, good + distance))
    probes: list[int] = []

    def is_bad(n: int) -> bool:
        probes.append(n)
        return n >= first

    assert first_bad(good, good + distance, is_bad) == first
    assert len(probes) <= math.ceil(math.log2(distance))
    assert all(good < n < good + distance for n in probes)
