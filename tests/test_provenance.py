"""Origins of rewritten ops, read back from the nodes as Netron shows them."""

import json

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from operation_counts import count_calls
from passwright.core import (
    EXACT,
    ChangeLog,
    Op,
    RewriteBuilder,
    Rule,
    Value,
    from_onnx,
    made_from,
    rule,
    rule_pass,
    to_onnx,
)
from passwright.core.ir.op import MAX_SOURCES
from passwright.core.ort.backends import LoadedModel
from passwright.core.rewriting.driver import rewrite
from passwright.core.serialization.provenance import RULE_KEY, SOURCES_KEY, TRUNCATION_MARK
from passwright.passes.cleanup import no_ops
from passwright.passes.linear import gemm as gemm_rules
from passwright.passes.movement.layout_propagation import move_transposes
from passwright.passes.pipelines import PIPELINES
from passwright.passes.structure.conditionals import InlineIf
from rewriting import apply_passes, cases, load, require_equivalent, run

from passwright import optimize

DROP_DROPOUT = rule_pass(no_ops, "drop-dropout")
DROP_IDENTITY = rule_pass(no_ops, "drop-identity")
FUSE_GEMM = rule_pass(gemm_rules, "fuse-gemm")
MERGE_TRANSPOSES = rule_pass(move_transposes, "merge-transposes")

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")

Noted = dict[str, tuple[str, list[str]]]


@rule(lambda g, x: g.Neg(g.Abs(x)), contract=EXACT)
def two_for_two(g: RewriteBuilder, x: Value) -> Value:
    """-|x| => -|-x|"""
    return g.Mul(g.Sign(x), g.Neg(x))


@rule(lambda g, a, b: g.Mul(a, b), contract=EXACT)
def turn_mul(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """a * b => -(-a * b)"""
    return g.Neg(g.Div(a, b))


def nodes_of(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """All nodes, those of subgraphs after their parent."""
    found: list[onnx.NodeProto] = []
    for node in graph.node:
        found.append(node)
        for a in node.attribute:
            found += nodes_of(a.g) if a.HasField("g") else []
    return found


def noted(model: onnx.ModelProto) -> Noted:
    """Rule and sources of annotated nodes, by first output."""
    found: Noted = {}
    for node in nodes_of(model.graph):
        entries = {p.key: p.value for p in node.metadata_props}
        assert len(entries) == len(node.metadata_props)
        if RULE_KEY in entries or SOURCES_KEY in entries:
            found[node.output[0]] = entries[RULE_KEY], json.loads(entries[SOURCES_KEY])
    return found


def named(text: str, *names: str) -> onnx.ModelProto:
    """The model with these node names, in order; "" is none."""
    model = load(text)
    for node, name in zip(nodes_of(model.graph), names, strict=False):
        node.name = name
    return model


G = "g (float[2,3] x, float[3,4] w, float[4] c) => (float[n,m] y) "
MATMUL = G + "{ a = MatMul(x, w) y = Add(a, c) }"
FOUR = "g (float[2,3] x) => (float[n,m] y) { a = Transpose(x) b = Transpose(a) d = Transpose(b) y = Abs(d) }"
SHARED = (
    "g (float[2,3,4] x) => (float[i,j,k] y, float[l,m,n] z) {"
    "a = Transpose<perm=[1,0,2]>(x) y = Transpose<perm=[0,2,1]>(a) z = Transpose<perm=[2,1,0]>(a) }"
)
BRANCH = (
    "g (bool k, float[2,3] x, float[3,4] w, float[4] c) => (float[n,m] y) { y = If (k) <"
    "then_branch = p () => (float[n,m] r) { a = MatMul(x, w) r = Add(a, c) },"
    "else_branch = q () => (float[n,m] s) { s = MatMul(x, w) }> }"
)
OUTPUTS = "g (float[2] x) => (float[2] y, float[2] z) { y = Neg(x) z = Neg(y) }"


@rule(lambda g, x: g.HardSwish(x))
def decompose_hard_swish(g: RewriteBuilder, x: Value) -> Value:
    """HardSwish(x) => x * HardSigmoid(x)"""
    return g.Mul(x, g.HardSigmoid(x, alpha=1 / 6, beta=0.5))


@cases(
    ("model", "what", "expected"),
    {
        "names": (named(MATMUL, "mm", "add"), FUSE_GEMM, {"y": ("matmul_add_to_gemm", ["add", "mm"])}),
        "nameless: outputs": (named(MATMUL), FUSE_GEMM, {"y": ("matmul_add_to_gemm", ["y", "a"])}),
        "one of two": (named(MATMUL, "", "add"), FUSE_GEMM, {"y": ("matmul_add_to_gemm", ["add", "a"])}),
        "any text": (named(MATMUL, "m/\u00e9", 'a"b'), FUSE_GEMM, {"y": ("matmul_add_to_gemm", ['a"b', "m/\u00e9"])}),
        "nothing where nothing is made": (named(FOUR, "t1", "t2", "t3"), MERGE_TRANSPOSES, {}),
        "a shared op, in both": (
            named(SHARED, "a1", "y1", "z1"),
            MERGE_TRANSPOSES,
            {"y": ("merge_transposes", ["y1", "a1"]), "z": ("merge_transposes", ["z1", "a1"])},
        ),
        "in a subgraph": (named(BRANCH, "", "mm", "add"), FUSE_GEMM, {"r": ("matmul_add_to_gemm", ["add", "mm"])}),
        "unchanged nodes": (named("g (float[2] x) => (float[2] y) { y = Identity(x) }", "i"), DROP_IDENTITY, {}),
        "an Identity between two names to keep": (
            named("g (float[2] x) => (float[2] y) { y = Dropout(x) }", "drop"),
            DROP_DROPOUT,
            {"y": ("drop_dropout", ["drop"])},
        ),
        "several ops for one": (
            named("g (float[2] x) => (float[2] y) { y = HardSwish(x) }", "gate"),
            decompose_hard_swish,
            {"y": ("decompose_hard_swish", ["gate"]), "y_pw": ("decompose_hard_swish", ["gate"])},
        ),
    },
)
def test_origins_are_noted(model: onnx.ModelProto, what: object, expected: Noted) -> None:
    result, _ = apply_passes(model, what)
    out = to_onnx(result)
    onnx.checker.check_model(out, full_check=True)
    require_equivalent(model, out)
    found = {name if name in expected else "y_pw": note for name, note in noted(out).items()}
    assert found == expected


@cases(
    ("rules", "expected"),
    {
        "first": ([two_for_two], {"y": ("two_for_two", ["neg", "abs"])}),
        "and then: the last, of the first": ([two_for_two, turn_mul], {"y": ("turn_mul", ["neg", "abs"])}),
    },
)
def test_rewritten_results_have_original_sources(rules: list[Rule], expected: Noted) -> None:
    model = named("g (float[2] x) => (float[2] y) { a = Abs(x) y = Neg(a) }", "abs", "neg")
    result, change_log = from_onnx(model), ChangeLog()
    for r in rules:
        rewrite(result.graph, [r], change_log)
    notes = noted(to_onnx(result))
    assert notes["y"] == expected["y"]
    assert {tuple(names) for _, names in notes.values()} == {("neg", "abs")}


def test_an_identity_of_an_inlined_branch() -> None:
    """Backends do not run a branch that returns an outer value unchanged; the result runs."""
    model = named(
        "g (float[2] x) => (float[2] y, float[2] z) <bool k = {1}> { z = Neg(x) y = If (k) <"
        "then_branch = p () => (float[2] z) { }, else_branch = q () => (float[2] s) { s = Abs(x) }> }",
        *("neg", "choose", "inner"),
    )
    result, _ = apply_passes(model, InlineIf())
    out = to_onnx(result)
    assert noted(out) == {"y": ("inline-if", ["choose"])}
    y, z = run(out, {"x": np.array([1, -2], np.float32)})
    assert y.tolist() == z.tolist() == [-1, 2]


def test_name_moved_to_an_output() -> None:
    """A nameless op is identified by its first output in the file, not by the new name of that output."""
    model = load(G + "{ a = MatMul(x, w) b = Add(a, c) y = Identity(b) }")
    result, _ = apply_passes(model, DROP_IDENTITY, FUSE_GEMM)
    assert noted(to_onnx(result)) == {"y": ("matmul_add_to_gemm", ["b", "a"])}


def test_name_doc_string_and_metadata_of_the_root() -> None:
    model = named(MATMUL, "mm", "add")
    for node in model.graph.node:
        node.doc_string = f"doc of {node.name}"
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=f"scope of {node.name}")
        node.metadata_props.add(key=RULE_KEY, value="of an earlier run")
    result, _ = apply_passes(model, FUSE_GEMM)
    (gemm,) = to_onnx(result).graph.node
    assert (gemm.name, gemm.doc_string) == ("add", "doc of add")
    assert [(p.key, p.value) for p in gemm.metadata_props] == [
        ("pkg.torch.onnx.name_scopes", "scope of add"),
        (RULE_KEY, "matmul_add_to_gemm"),
        (SOURCES_KEY, '["add", "mm"]'),
    ]


@cases(
    ("written", "names"),
    {
        "notes of an earlier run": ('["p", "q"]', ["p", "q", "mm"]),
        "each once": ('["mm", "q"]', ["mm", "q"]),
        "more of them": (f'["p", "{TRUNCATION_MARK}"]', ["p", "mm", TRUNCATION_MARK]),
        "something else": ("no list", ["add", "mm"]),
        "another kind of JSON": ('{"p": 1}', ["add", "mm"]),
        "no names": ("[1, 2]", ["add", "mm"]),
        "nested without end": ("[" * 100_000, ["add", "mm"]),
    },
)
def test_sources_of_an_earlier_run(written: str, names: list[str]) -> None:
    model = named(MATMUL, "mm", "add")
    model.graph.node[1].metadata_props.add(key=SOURCES_KEY, value=written)
    result, _ = apply_passes(model, FUSE_GEMM)
    assert noted(to_onnx(result)) == {"y": ("matmul_add_to_gemm", names)}


def test_unchanged_nodes_have_no_notes() -> None:
    model = named(OUTPUTS.replace("Neg", "Sin"), "n1", "n2")
    result, _ = apply_passes(model, PIPELINES["basic"])
    assert to_onnx(result) == model


def test_ops_made_by_hand() -> None:
    result = from_onnx(named(OUTPUTS, "n1", "n2"))
    g = result.graph
    (first, second) = g.ops("Neg")
    new = g.add_op(Op("Sub", "", "", {}, None), [g.inputs[0], g.inputs[0]], [Value(g.fresh_name("z"))])
    g.take_over(new.outputs[0], second.outputs[0])
    g.prune([second])
    assert made_from(new, "by-hand", [second, first]) is new
    rebuilt = made_from(first, "rebuild", [first])
    assert rebuilt.proto_bytes is not None
    assert noted(to_onnx(result)) == {"z": ("by-hand", ["n2", "n1"]), "y": ("rebuild", ["n1"])}


def test_an_op_rebuilt_in_a_later_run_has_one_note() -> None:
    model = named(OUTPUTS, "n1", "n2")
    for key, text in ((RULE_KEY, "old"), (SOURCES_KEY, '["p"]'), ("k", "v")):
        model.graph.node[0].metadata_props.add(key=key, value=text)
    result = from_onnx(model)
    first = next(result.graph.ops("Neg"))
    made_from(first, "rebuild", [first])
    node = to_onnx(result).graph.node[0]
    assert {p.key: p.value for p in node.metadata_props} == {"k": "v", RULE_KEY: "rebuild", SOURCES_KEY: '["p"]'}
    assert len(node.metadata_props) == 3


@pytest.mark.parametrize("ir_version", range(3, 11))
def test_notes_are_valid_at_every_ir_version(ir_version: int) -> None:
    """Node metadata came with IR version 10; checker and onnxruntime accept it in older models."""
    model = load(
        """g (float[2,3,4] x) => (float[i,j,k] y) {
        [first] a = Transpose<perm=[1,0,2]>(x) [second] y = Transpose<perm=[0,2,1]>(a) }""",
        8,
    )
    model.ir_version = ir_version
    result = optimize(model, verify=False)
    assert noted(result.model) == {"y": ("merge_transposes", ["second", "first"])}
    onnx.checker.check_model(result.model, full_check=True)
    LoadedModel(result.model.SerializeToString())


@rule(lambda g, x: g.Relu(g.Relu(x)), contract=EXACT, allow_other_uses=True)
def merge_relus(g: RewriteBuilder, x: Value) -> Value:
    """Relu(Relu(x)) => Relu(x)"""
    return g.Relu(x)


def chain(length: int, *, shared: bool = False) -> onnx.ModelProto:
    """A chain of Relus; `shared`: each has another consumer."""
    relus = " ".join(f"[n{i}] t{i + 1} = Relu(t{i})" for i in range(length))
    ends = range(1, length + 1) if shared else [length]
    outputs = ", ".join(f"float[2] a{i}" for i in ends)
    return load(f"g (float[2] t0) => ({outputs}) {{ {relus} {' '.join(f'a{i} = Neg(t{i})' for i in ends)} }}")


def test_a_long_chain_is_cut() -> None:
    result, _ = apply_passes(chain(300), merge_relus)
    ((_, names),) = noted(to_onnx(result)).values()
    assert len(set(names)) == MAX_SOURCES + 1
    assert names[-1] == TRUNCATION_MARK
    assert set(names[:-1]) <= {f"n{i}" for i in range(300)}


@given(st.integers(2, 2 * MAX_SOURCES))
def test_all_sources_up_to_the_limit(length: int) -> None:
    result, _ = apply_passes(chain(length), merge_relus)
    ((_, names),) = noted(to_onnx(result)).values()
    assert len(set(names)) == len(names) == min(length, MAX_SOURCES + 1)
    if length <= MAX_SOURCES:
        assert set(names) == {f"n{i}" for i in range(length)}


@pytest.mark.parametrize("shared", [False, True])
def test_work_is_linear(shared: bool) -> None:
    def calls(length: int) -> int:
        model = from_onnx(chain(length, shared=shared))
        return count_calls(lambda: (rewrite(model.graph, [merge_relus], ChangeLog()), to_onnx(model)))

    assert calls(600) < 1.2 * 4 * calls(150)
