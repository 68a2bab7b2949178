"""Unchanged rules of onnxscript as passes, each rewrite subject to the change log."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from passwright.app.explain.explain import explain
from passwright.app.listing.listing import listing
from passwright.app.registry.adapter_names import adapter
from passwright.core import ChangeLog, Pipeline, from_onnx, to_onnx
from passwright.core.errors import FailureKind, PluginError, UnknownNameError
from passwright.core.io.model_source import model_source
from passwright.core.run.pipeline import rule_names
from rewriting import apply_passes, cases, each, load, op_types, require_equivalent

from passwright import optimize

GOLDEN = Path(__file__).parents[3] / "golden_models"
RULES = """
from onnxscript.rewriter import RewriteRule, RewriteRuleClassBase, RewriteRuleSet

def elu(op, x):
    return op.Elu(x)

def neg(op, x):
    return op.Neg(x)

def identity(op, x):
    return op.Identity(x)

def without_identity(op, x):
    return x

def to_relu(op, x):
    return op.Relu(x)

def to_gelu(op, x):
    return op.Gelu(x, _domain="com.microsoft")

def raises(op, x):
    raise KeyError(x.name)

def same(op, x):
    return op.Elu(x)

from passwright.core import EXACT, LOSSY

PROMISED = RewriteRule(identity, without_identity, name="exactly-no-identity")
PROMISED.contract = EXACT
UNKNOWN_CONTRACT = RewriteRule(identity, without_identity, name="lossy-no-identity")
UNKNOWN_CONTRACT.contract = LOSSY
WRONG = RewriteRule(elu, to_relu, name="elu-to-relu")
NAMELESS = RewriteRule(elu, to_relu)
RIGHT = RewriteRule(identity, without_identity, name="no-identity")
RAISES = RewriteRule(neg, raises, name="raises")
CONTRIB = RewriteRule(elu, to_gelu, name="contrib")
SAME = RewriteRule(elu, same, name="same")
FUNCTION = RewriteRule(elu, to_gelu, name="outlined", as_function=True)
BOTH = RewriteRuleSet([WRONG, RIGHT])
LISTED = [WRONG, RIGHT]
NUMBER = 3
EMPTY = []

class NoIdentity(RewriteRuleClassBase):
    contract = EXACT

    def pattern(self, op, x):
        return op.Identity(x)

    def rewrite(self, op, x):
        return x

INSTANCE = NoIdentity()
"""
TEXT = """g (float[N,4] x) => (float[N,4] y) {
    i = Identity(x)
    n = Neg(i)
    e = Elu(n)
    r = Abs(e)
    y = Elu(r)
}"""


@pytest.fixture
def rules(tmp_path: Path) -> str:
    path = tmp_path / "rules.py"
    path.write_text(RULES)
    return f"onnxscript:{path}"


@pytest.mark.parametrize(
    ("attribute", "left"),
    [
        ("RIGHT", ["Neg", "Elu", "Abs", "Elu"]),
        ("INSTANCE", ["Neg", "Elu", "Abs", "Elu"]),
        ("NoIdentity", ["Neg", "Elu", "Abs", "Elu"]),
        # Behind Abs, Elu is Relu: one of the two rewrites is right.
        ("BOTH", ["Neg", "Elu", "Abs", "Relu"]),
        ("LISTED", ["Neg", "Elu", "Abs", "Relu"]),
        ("WRONG", ["Identity", "Neg", "Elu", "Abs", "Relu"]),
        ("NAMELESS", ["Identity", "Neg", "Elu", "Abs", "Relu"]),
        ("RAISES", ["Identity", "Neg", "Elu", "Abs", "Elu"]),
        ("SAME", ["Identity", "Neg", "Elu", "Abs", "Elu"]),
        ("CONTRIB", ["Identity", "Neg", "Elu", "Abs", "Elu"]),
    ],
)
def test_correct_rewrites_are_kept_and_wrong_rejected(rules: str, attribute: str, left: list[str]) -> None:
    result = optimize(load(TEXT), pipeline=adapter(f"{rules}:{attribute}") or "none")
    assert op_types(result.model) == left


def test_wrong_rule_is_named_with_its_place(rules: str) -> None:
    result = optimize(load(TEXT), pipeline=adapter(f"{rules}:BOTH") or "none")
    (found,) = result.report.rejected
    assert (found.by, found.place, found.failure_kind, found.replaced) == (
        "elu-to-relu",
        "e",
        FailureKind.WRONG,
        ("Elu e",),
    )
    assert {name: n for p in result.report.passes for name, n in p.rules.items()} == {
        "no-identity": 1,
        "elu-to-relu": 1,
    }


def test_raising_rule_is_rejected_at_its_place(rules: str) -> None:
    pipeline = Pipeline("all", tuple(p for a in ("RAISES", "RIGHT") if (p := adapter(f"{rules}:{a}")) is not None))
    result = optimize(load(TEXT), pipeline=pipeline)
    (found,) = result.report.rejected
    assert (found.by, found.place, found.failure_kind) == ("raises", "n", FailureKind.RAISED)
    assert found.message == "rule raises failed at Neg n: KeyError: 'i'"
    assert "Identity" not in op_types(result.model)


def test_often_wrong_rule_is_rejected_as_a_whole(rules: str) -> None:
    text = " ".join(f"e{i} = Elu(x)" for i in range(25))
    outputs = ", ".join(f"float[N] e{i}" for i in range(25))
    result = optimize(load(f"g (float[N] x) => ({outputs}) {{ {text} }}"), pipeline=adapter(f"{rules}:WRONG") or "none")
    assert op_types(result.model) == ["Elu"] * 25
    assert len(result.report.rejected) == 21
    assert result.report.rejected[-1].label == f"{rules}:WRONG/elu-to-relu, as a whole"


@dataclass(frozen=True)
class Odd:
    """A pass whose `rules` are not a sequence of rules."""

    rules: Any
    name: str = "odd"

    def run(self, *_: object) -> int:
        return 0


@each("rules", [None, 3, "rules", {"a": 1}, ("a", 1), [1]])
def test_rules_of_another_type_are_ignored(rules: Any) -> None:
    assert rule_names(Odd(rules)) == frozenset()


def test_exact_only_run_applies_no_rules(rules: str) -> None:
    one = adapter(f"{rules}:RIGHT")
    assert one is not None
    model = load(TEXT)
    result, change_log = apply_passes(model, one, exact_only=True)
    assert not change_log.changes
    assert to_onnx(result) == model


def test_unused_large_weights_are_not_read(tmp_path: Path) -> None:
    text = "g (float[64,64] x) => (float[64,64] y) { i = Add(x, z) a = MatMul(i, w) y = Mul(a, v) }"
    ones = np.ones((64, 64), np.float32)
    model = load(text, weights={"w": ones * 2, "v": ones, "z": np.zeros((64, 64), np.float32)})
    onnx.save(model, tmp_path / "m.onnx")
    loaded = model_source(tmp_path / "m.onnx", inline=False).load()
    tensors = {v.name: v.tensor for v in loaded.graph.initializers}
    one = adapter("onnxscript:default")
    assert one is not None
    one.run(loaded.graph, ChangeLog())
    assert all(v.tensor is tensors[v.name] for v in loaded.graph.initializers)
    assert tensors["w"] is not None
    assert tensors["w"]._array is None


@pytest.mark.parametrize("name", ["cond_dynamo", "mlp_dropout", "resnet_kept_bn", "script_scan", "mixer_half_dynamo"])
def test_default_rules_on_golden_models(name: str) -> None:
    path = GOLDEN / f"{name}.onnx"
    result = optimize(path, pipeline=adapter("onnxscript:default") or "none")
    assert result.report.after.nodes <= result.report.before.nodes
    assert {q.failure_kind for q in result.report.rejected} <= {FailureKind.WRONG}
    assert result.model.graph.input == onnx.load(path).graph.input


def test_unsupported_model_is_reported_by_root_cause() -> None:
    result = optimize(GOLDEN / "sklearn_forest.onnx", pipeline="onnxscript:default,basic")
    (found,) = result.report.rejected
    assert found.message.startswith("onnxscript:default: onnx_ir cannot hold it: NotImplementedError: Map types")
    assert result.report.after.nodes < result.report.before.nodes


def test_rules_in_bodies_are_applied(rules: str) -> None:
    model = load("""g (bool c, float[4] x) => (float[4] y) {
        y = If(c) <then_branch = th () => (float[4] t) { i = Identity(x) t = Neg(i) },
                  else_branch = el () => (float[4] e) { e = Abs(x) }> }""")
    one: Any = adapter(f"{rules}:RIGHT")
    result, change_log = apply_passes(model, one)
    assert change_log.change_count == 1
    (branch, _) = next(iter(from_onnx(to_onnx(result)).graph.ops())).subgraphs
    assert [op.type for op in branch.ops()] == ["Neg"]
    require_equivalent(model, to_onnx(result), exact=True)


def test_identity_from_input_to_output_is_kept(rules: str) -> None:
    model = load("g (float[4] x) => (float[4] y, float[4] z) { y = Identity(x) t = Identity(x) z = Neg(t) }")
    one: Any = adapter(f"{rules}:RIGHT")
    result, change_log = apply_passes(model, one)
    assert op_types(to_onnx(result)) == ["Identity", "Neg"]
    assert change_log.change_count == 1


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("{rules}:MISSING", UnknownNameError, "has no MISSING"),
        ("{rules}:WRONGS", UnknownNameError, "did you mean WRONG"),
        ("{rules}:NUMBER", PluginError, "an object of type int is not a rule of onnxscript"),
        ("{rules}:EMPTY", PluginError, "it has no rules"),
        ("{rules}:FUNCTION", PluginError, "rule outlined makes local functions"),
        ("onnxscript:no.such.module:X", PluginError, "no.such.module cannot be imported: ModuleNotFoundError"),
        ("onnxscript:no_such_file.py:X", PluginError, "no_such_file.py cannot be imported: FileNotFoundError"),
        ("onnxscript", UnknownNameError, "not of the form"),
        ("onnxscript:", UnknownNameError, "not of the form"),
        ("onnxscript:rules", UnknownNameError, "not of the form"),
        ("onnxscript::X", UnknownNameError, "not of the form"),
    ],
)
def test_bad_rule_name_is_reported_in_one_line(rules: str, name: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        adapter(name.replace("{rules}", rules))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


RUN = "g (float[N] x) => (float[N] y) { a = Elu(x) y = Identity(a) }"


@cases(
    ("options", "ops"),
    {
        "skip one": ({"skip": ["elu-to-relu"]}, ["Elu"]),
        "skip all": ({"skip": ["elu-to-relu", "no-identity"]}, ["Elu", "Identity"]),
        "only one": ({"only": ["elu-to-relu"]}, ["Relu", "Identity"]),
        "all": ({}, ["Relu"]),
    },
)
def test_rules_are_selected_by_name(rules: str, options: dict[str, Any], ops: list[str]) -> None:
    result = optimize(load(RUN), f"{rules}:BOTH", verify=False, **options)
    assert op_types(result.model) == ops


def test_pass_name_selects_all_its_rules(rules: str) -> None:
    result = optimize(load(RUN), f"basic,{rules}:BOTH", verify=False, only=[f"{rules}:BOTH"])
    assert op_types(result.model) == ["Relu"]


def test_rules_are_listed(rules: str) -> None:
    listed = listing([f"{rules}:BOTH"]).passes[0].rules
    assert [(r.name, r.contract, r.pass_name) for r in listed] == [
        ("elu-to-relu", "rounding", f"{rules}:BOTH"),
        ("no-identity", "rounding", f"{rules}:BOTH"),
    ]


def test_changes_of_one_rule_are_explained(rules: str) -> None:
    found = explain(load(RUN), "no-identity", f"{rules}:BOTH")
    assert [[c.by for c in p.changes] for p in found.passes] == [["no-identity"]]
    whole = explain(load(RUN), f"{rules}:BOTH", f"{rules}:BOTH")
    assert [[c.by for c in p.changes] for p in whole.passes] == [["elu-to-relu", "no-identity"]]


@each(
    ("attribute", "count"),
    {
        "promised": ("PROMISED", 1),
        "of a class": ("NoIdentity", 1),
        "of an instance": ("INSTANCE", 1),
        "none": ("RIGHT", 0),
    },
)
def test_exact_runs_apply_rules_that_promise_it(rules: str, attribute: str, count: int) -> None:
    result, change_log = apply_passes(load(TEXT), adapter(f"{rules}:{attribute}"), exact_only=True)
    assert change_log.change_count == count
    assert ("Identity" in op_types(to_onnx(result))) == (count == 0)


def test_contracts_of_rules_are_known(rules: str) -> None:
    with pytest.raises(PluginError, match=r"the contract of lossy-no-identity must be EXACT or ROUNDING"):
        adapter(f"{rules}:UNKNOWN_CONTRACT")
