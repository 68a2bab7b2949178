"""Mistakes of authors: wrong arguments of public functions, removed names, and exceptions of rules and passes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from passwright.core import (
    EXACT,
    ChangeLog,
    Fixpoint,
    Graph,
    Instrumentation,
    Pass,
    Pipeline,
    RewriteBuilder,
    RulePass,
    Value,
    from_onnx,
    require,
    rule,
    run_pass,
    to_onnx,
)
from passwright.core.errors import PassFailed, PluginError, RuleError, UsageError
from passwright.core.plugins.pass_registry import registry_from_file
from passwright.testing import check_rule
from rewriting import apply_passes, becomes, each, load, op_types

from passwright import core, optimize

pytestmark = pytest.mark.usefixtures("_few_combined_inputs")

TEXT = "g (float[N] x, float[N] w) => (float[N] y, float[N] z) { a = Neg(x) y = Neg(a) b = Abs(w) z = Abs(b) }"


@rule(lambda g, x: g.Neg(g.Neg(x)), contract=EXACT)
def cancel_negations(g: RewriteBuilder, x: Value) -> Value:
    """Neg(Neg(x)) => x"""
    return x


@rule(lambda g, x: g.Abs(x), contract=EXACT)
def decline_late(g: RewriteBuilder, x: Value) -> Value:
    """Builds ops, and declines."""
    made = g.Neg(g.Neg(x))
    require(x.producer is made, "it declines")
    return made


INNER: Any = RulePass("inner", (cancel_negations, decline_late))


def builder() -> Any:
    graph = from_onnx(load(TEXT)).graph
    return RewriteBuilder(graph, next(graph.ops("Neg")))


def operand() -> Any:
    return builder().root.inputs[0]


api: Any = core
check: Any = check_rule
compare: Any = becomes
RULE: Any = cancel_negations
FUNCTION: Any = RULE.build
WRONG_CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "rule for module": (lambda: api.rule_pass(RULE, "n"), "^rule_pass takes a module or its name, .* but got Rule"),
    "module that is not imported": (lambda: api.rule_pass("nowhere", "n"), "^rule_pass takes a module .*'nowhere'$"),
    "module for group": (lambda: api.rule_pass(core, core), "^rule_pass takes the group as a string, but got <module"),
    "rule for rules": (lambda: api.RulePass("n", RULE), "^RulePass takes a tuple of rules"),
    "function for a rule": (lambda: api.RulePass("n", (FUNCTION,)), "^RulePass takes a tuple of rules"),
    "rules before the name": (lambda: api.RulePass((RULE,), "n"), "^RulePass takes a name first"),
    "pass for passes": (lambda: api.Pipeline("n", INNER), "^Pipeline takes a tuple of passes"),
    "rule for a pass": (lambda: api.Pipeline("n", (RULE,)), '^Pipeline takes passes, such as RulePass\\("name"'),
    "name for a pass": (lambda: api.Fixpoint("n", ("basic",)), "^Fixpoint takes passes, .* but got 'basic'"),
    "class for a pass": (lambda: api.Fixpoint("n", (RulePass,)), "^Fixpoint takes passes"),
    "rule to run": (lambda: api.run_pass(RULE, builder().graph, ChangeLog()), "^run_pass takes passes"),
    "model for its graph": (lambda: api.run_pass(INNER, from_onnx(load(TEXT)), ChangeLog()), "^run_pass takes a Graph"),
    "no change log": (lambda: api.run_pass(INNER, builder().graph, None), "^run_pass takes a ChangeLog, but got None$"),
    "text for a pattern": (lambda: api.rule("Neg(x)"), "^rule takes lambdas, such as lambda g, x"),
    "no function": (lambda: api.rule(lambda g, x: g.Neg(x))("x"), "^rule takes a function of g and variables"),
    "function of nothing": (lambda: api.rule(lambda g, x: g.Neg(x))(lambda: 1), "^rule takes a function of g"),
    "one critical value": (lambda: api.rule(lambda g, x: g.Neg(x), critical_values=3), "^rule takes critical_values"),
    "pass for group": (lambda: api.rule(lambda g, x: g.Neg(x), group=INNER), "^rule takes the name of a pass as"),
    "expression for words": (lambda: api.conditional(lambda g, x: g.Neg(x)), "^conditional takes a text first"),
    "words for an expression": (lambda: api.conditional(assume="x > 0"), "^conditional takes a lambda as assume="),
    "text for types": (lambda: api.by_dtype("float", EXACT), "^by_dtype takes element types"),
    "text for a contract": (lambda: api.by_dtype({1}, "exact"), "^the contract of by_dtype must be EXACT"),
    "text for a type": (lambda: api.QuantizationSpec(activations="int8"), "^QuantizationSpec.activations=...."),
    "nine bits": (lambda: api.QuantizationSpec(weight_bits=9), r"takes 4 or 8, but got 9$"),
    "a rounding": (lambda: api.QuantizationSpec(rounding="up"), r"takes 'nearest' or .*, but got 'up'$"),
    "pass to check": (lambda: check(INNER), "^check_rule takes a rule, as @rule makes it"),
    "text for a budget": (lambda: check(RULE, budget="3"), "^check_rule takes a number as budget"),
    "one example": (lambda: check(RULE, examples=TEXT), "^check_rule takes a list of models"),
    "one other rule": (lambda: check(RULE, other_rules=RULE), "^check_rule takes a list of rules"),
    "function to apply": (lambda: compare(TEXT, TEXT, FUNCTION), "^becomes or stays takes rules and passes"),
    "rule before texts": (lambda: compare(RULE, TEXT, TEXT), "^becomes or stays takes models as texts"),
    "path for a model": (lambda: api.from_onnx("model.onnx"), "^from_onnx takes a ModelProto, as of onnx.load"),
    "graph for its model": (lambda: api.to_onnx(builder().graph), "^to_onnx takes a Model, as of from_onnx"),
    "op for a graph": (lambda: api.RewriteBuilder(builder().root, builder().graph), "^RewriteBuilder takes a graph"),
    "value for an op": (lambda: api.RewriteBuilder(builder().graph, operand()), "^RewriteBuilder takes an op of"),
    "ops before the name": (lambda: api.made_from(builder().root, [], "me"), "^made_from takes the name of the pass"),
    "one source": (lambda: api.made_from(builder().root, "me", builder().root), "^made_from takes a list of the ops"),
    "name for a value": (lambda: builder().Neg("x"), "^Neg takes values, numbers and arrays, but got 'x'$"),
    "op for a value": (lambda: builder().Neg(builder().root), r"^Neg takes values, numbers and arrays \(use one"),
    "list of values": (lambda: builder().Max([operand()]), r"^Max takes values, numbers and arrays \(use a star"),
    "type as like": (lambda: builder().const(1, like="float32"), "^const takes a value as like, but got 'float32'$"),
    "value for an array": (lambda: builder().const(operand()), r"^const takes an array or numbers \(x.const is"),
}  # fmt: skip


@each(("call", "message"), WRONG_CALLS)
def test_wrong_arguments(call: Callable[[], Any], message: str) -> None:
    with pytest.raises((UsageError, RuleError), match=message):
        call()


def test_numbers_of_numpy_are_numbers() -> None:
    g = builder()
    made = g.Mul(g.root.inputs[0], np.float32(2))
    assert made.producer.inputs[1].const.item() == 2


@each(
    ("pattern", "equation", "message"),
    {
        "another operator": (lambda g, x: g.Relu(x), "Neg(x) => x", "begins with Neg, but its pattern has Relu"),
        "turned round": (lambda g, x: g.Tan(x), "Sin(x) / Cos(x) => Tan(x)", "begins with Cos, Sin, but its pattern"),
        "the same": (lambda g, x: g.Relu(x), "Relu(x) => x", ""),
        "further ops": (lambda g, x, w: g.MatMul(x, w), "MatMul(Transpose(x), w) => Gemm(x, w)", ""),
        "signs": (lambda g, x, b: g.Add(x, b), "Softmax(x + b) => Softmax(b + x)", ""),
        "no operator": (lambda g, x: g.Relu(x), "Something(x) => x", ""),
        "no equation": (lambda g, x: g.Relu(x), "Neg(x) is another rule", ""),
    },
)  # fmt: skip
def test_equation_and_pattern_agree(pattern: Any, equation: str, message: str) -> None:
    def build(g: RewriteBuilder, x: Value) -> Value:
        return x

    build.__doc__ = equation
    if not message:
        assert rule(pattern)(build).equation == equation
        return
    with pytest.raises(RuleError, match=f"^the equation of build {message}"):
        rule(pattern)(build)


@each(
    ("code", "message"),
    {
        "renamed": ("from passwright.core import Ledger", r"has no Ledger any more: it is ChangeLog \(mine.py:1\)$"),
        "misspelt": ("from passwright.core import Grahp", "cannot import name 'Grahp' .*; did you mean Graph"),
        "of commands": ("from passwright import optimise", "cannot import name 'optimise'.* did you mean optimize"),
        "attribute": ("import passwright.core as c\nc.Grahp", "has no attribute 'Grahp'; did you mean Graph"),
        "of another package": ("from json import dumpz", r"import name 'dumpz' from 'json' \([^)]*\) \(mine.py:1\)$"),
        "one name twice": (
            "from passwright.core import rule\n" + 2 * "@rule(lambda g, x: g.Abs(x))\ndef f(g, x): ...\n",
            r"two rules are named f, in mine\.py:2 and mine\.py:4",
        ),
        "an exception": ("x = 1\ny = x / 0", r"mine.py: ZeroDivisionError: division by zero \(mine.py:2\)$"),
        "an argument of ours": (
            "from passwright.core import Support\nS = [\n    Support(dtypes='float'),\n]",
            r"^.*mine.py: dtypes takes element types .*, not 'float' \(mine.py:3\)$",
        ),
        "a misspelt argument of ours": (
            "from passwright.core import rule\n@rule(lambda g, x: g.Abs(x), critical_value=3)\ndef f(g, x): ...",
            r"unexpected keyword argument 'critical_value'; did you mean critical_values\? \(mine.py:2\)$",
        ),
        "a misspelt argument of theirs": (
            "def rule(x): ...\ndef other(x): ...\nother(xx=1)",
            r"unexpected keyword argument 'xx' \(mine.py:3\)$",
        ),
        "an error of their own": (
            "from passwright.core import UsageError\nraise UsageError('give a name')",
            r"mine.py: give a name$",
        ),
        "asked of a variable": (
            "from passwright.core import rule\n@rule(lambda g, x: g.Abs(x) if x.rank else g.Neg(x))\ndef f(g, x): ...",
            r"^.*the pattern of f: .*no attribute .rank.; a pattern cannot test .* by require.* \(mine.py:2\)$",
        ),
        "in a line of a lambda": (
            "from passwright.core import rule\n@rule(\n  lambda g, x: g.Abs(\n  g.Neg(x, alpha=1)))\ndef f(g, x): ...",
            r"the pattern of f: .* Neg has no attribute alpha at any opset \(mine.py:4\)$",
        ),
        "of a lambda without operators": (
            "from passwright.core import rule\n@rule(\n    lambda g, x: x\n)\ndef f(g, x): ...",
            r"the pattern of f: a pattern must be an operator, .* \(mine.py:3\)$",
        ),
        "of an assumption": (
            "from passwright.core import conditional\nC = conditional(\n    'none',\n    assume=lambda g, x: x.rank)",
            r"no attribute .rank.; a pattern cannot test its variables.* \(mine.py:4\)$",
        ),
        "asked of an operator": (
            "from passwright.core import rule\n@rule(lambda g, x: g.Abs(g.Neg(x).shape))\ndef f(g, x): ...",
            "the pattern of f: .*no attribute .shape.; a pattern cannot test its variables",
        ),
        "no pattern": ("from passwright.core import rule\n@rule\ndef f(g, x): ...", "f has no pattern, such as"),
    },
)  # fmt: skip
def test_names_that_are_not_there(code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    for place in (tmp_path / "mine.py", Path("mine.py")):
        with pytest.raises(PluginError, match=message):
            registry_from_file(place)


class Raising:
    name = "raising"

    def run(self, graph: Graph, _log: ChangeLog) -> int:
        return next(graph.ops("Neg")).outputs[0].shap  # type: ignore[attr-defined]


def test_exceptions_of_passes_have_a_line_and_similar_names() -> None:
    with pytest.raises(
        PassFailed, match=r"has no attribute 'shap'; did you mean shape.* \(test_author_errors.py:\d+\)$"
    ):
        run_pass(Raising(), from_onnx(load(TEXT)).graph, ChangeLog())


def test_a_misspelt_hook_is_refused() -> None:
    with pytest.raises(UsageError, match="Watch has no hook aftr; did you mean after"):
        type("Watch", (Instrumentation,), {"aftr": lambda *_: None})
    type("Counts", (Instrumentation,), {"restart": lambda *_: None, "after": lambda *_: None, "_aftr": lambda *_: None})


def test_a_misspelt_element_type_is_refused() -> None:
    x = operand()
    assert x.dtype == "float32"
    assert x.dtype != "string"
    with pytest.raises(UsageError, match="no element type is named 'flaot32'; did you mean float32"):
        assert x.dtype == "flaot32"


def test_a_text_for_a_number_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^alpha of LeakyRelu takes numbers, but got '0'$"):
        builder().LeakyRelu(operand(), alpha="0")


@each("is_true", {"sign": lambda x: x > 0, "value": lambda x: x, "not": lambda x: not x})
def test_a_value_is_neither_true_nor_false(is_true: Any) -> None:
    @rule(lambda g, x: g.Neg(x))
    def choose(g: RewriteBuilder, x: Value) -> Value:
        """Neg(x) => Abs(x) where x > 0"""
        return g.Abs(x) if is_true(x) else g.Neg(x)

    with pytest.raises(
        PassFailed, match=r"^rule choose failed at Neg a: a value has no truth value.*g.Where.*\.py:\d+\)$"
    ):
        run_pass(RulePass("chooses", (choose,)), from_onnx(load(TEXT)).graph, ChangeLog())


class RemovesUsed:
    name = "removes-used"

    def run(self, graph: Graph, _log: ChangeLog) -> int:
        graph.remove_op(next(graph.ops("Neg")))
        return 1


def test_misuse_in_a_pass_has_the_call_and_its_line() -> None:
    with pytest.raises(
        PassFailed, match=r"^cannot remove Neg a: .* \(graph.remove_op\(.*\) in test_author_errors.py:\d+\)$"
    ):
        run_pass(RemovesUsed(), from_onnx(load(TEXT)).graph, ChangeLog())


class DropSecond:
    """Abs(Abs(x)) => Abs(x), without requests: each of its runs is one change."""

    name = "drop-second"

    def run(self, graph: Graph, _log: ChangeLog) -> int:
        found = [op for op in graph.ops("Abs") if (p := graph.producer(op.inputs[0])) is not None and p.type == "Abs"]
        for op in found:
            graph.replace_value(op.outputs[0], op.inputs[0])  # type: ignore[arg-type]
            graph.discard([op])
        return len(found)


class Wrapper:
    """A pass that runs others in some way."""

    name = "wrapper"

    def __init__(self, *run: Callable[[Graph, ChangeLog], int]) -> None:
        self.all = run

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        return sum(run(graph, change_log) for run in self.all)


BOTH: tuple[Pass, ...] = (INNER, DropSecond())
WRAPPERS = {
    "rules": (Wrapper(INNER.run), ["Neg", "Abs", "Abs"]),
    "each": (Wrapper(INNER.run, DropSecond().run), ["Abs"]),
    "loop": (Wrapper(Fixpoint("loop", BOTH).run), ["Abs"]),
    "pipeline": (Wrapper(Pipeline("once", BOTH).run), ["Abs"]),
    "run_pass": (Wrapper(lambda g, log: sum(run_pass(p, g, log) for p in BOTH)), ["Abs"]),
    "wrappers": (Wrapper(Wrapper(INNER.run).run, Fixpoint("loop", BOTH).run), ["Abs"]),
}


@each("wrapper", {name: wrapper for name, (wrapper, _) in WRAPPERS.items()})
def test_wrapped_passes_reach_a_fixpoint(wrapper: Wrapper) -> None:
    result, change_log = apply_passes(load(TEXT), Fixpoint("outer", (wrapper,)))
    assert "Neg" not in op_types(to_onnx(result))
    assert sum(c.total() for c in change_log.counts.values()) == len(change_log.changes)


@rule(lambda g, x: g.Abs(x), contract=EXACT)
def drop_abs(g: RewriteBuilder, x: Value) -> Value:
    """Abs(x) => x, which is wrong"""
    return x


@each("run", {"rules": None, "loop": Fixpoint, "pipeline": Pipeline})
def test_a_wrong_change_of_a_wrapped_rule_is_left_out(run: Any) -> None:
    inner = RulePass("inner", (cancel_negations, drop_abs))
    wrapper = Wrapper(inner.run if run is None else run("group", (inner,)).run)
    found = optimize(load(TEXT), plugin=[wrapper], only=["wrapper"])
    assert [n.op_type for n in found.model.graph.node] == ["Identity", "Abs"]
    assert {r.by for r in found.report.rejected} == {"drop_abs"}
    made_by = [p.name for p in found.report.passes if p.changes]
    assert made_by == ["wrapper" if run is None else "inner"]


def test_a_wrapper_that_never_ends_is_stopped() -> None:
    def again(graph: Graph, change_log: ChangeLog) -> int:
        while True:
            run_pass(INNER, graph, change_log)
            graph.mark_changed()

    with pytest.raises(PassFailed, match="it keeps changing the graph"):
        run_pass(Wrapper(again), from_onnx(load(TEXT)).graph, ChangeLog())
