"""Name maps: their content, and equal values of the tensors they pair."""

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from hypothesis import given
from operation_counts import count_calls
from passwright.core import ChangeLog, Op, Pass, Value, from_onnx, made_from, rule_pass, to_onnx
from passwright.core.ort.backends import LoadedModel
from passwright.core.run.name_map import NameTracker, name_map
from passwright.core.verify.output_comparison import compare_outputs
from passwright.core.verify.seeded_session import random_outputs
from passwright.passes.cleanup import no_ops
from passwright.passes.cleanup.constants import LiftConstants, MergeConstants
from passwright.passes.cleanup.merge_duplicates import MergeDuplicates
from passwright.passes.cleanup.no_ops import RemoveUnused
from passwright.passes.folding.fold_constants import FoldConstants
from passwright.passes.linear import gemm
from passwright.passes.movement.layout_propagation import move_transposes
from passwright.passes.pipelines import PIPELINES
from passwright.passes.structure.conditionals import InlineIf
from random_models import models
from rewriting import each, load, oracle_of
from tiers import GOLDEN_SAMPLE, slow_unless

DROP_IDENTITY = rule_pass(no_ops, "drop-identity")
FUSE_GEMM = rule_pass(gemm, "fuse-gemm")
MERGE_TRANSPOSES = rule_pass(move_transposes, "merge-transposes")

pytestmark = pytest.mark.usefixtures("_few_combined_inputs")
BASIC = PIPELINES["basic"]
GOLDEN = sorted((Path(__file__).parent.parent / "golden_models").glob("*.onnx"))
SAMPLE = [p for p in GOLDEN if p.stem in GOLDEN_SAMPLE]
G = "g (float[2,3] x) => (float[n,m] y) "
M = "g (float[2,3] x, float[3,4] w, float[4] c) => (float[n,m] y) "


def mapped(model: onnx.ModelProto, *passes: Pass) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """The model after the passes, and its map read back from JSON."""
    result, change_log = from_onnx(model), ChangeLog(record=True)
    tracker = NameTracker.of(result)
    for p in passes:
        p.run(result.graph, change_log)
    out = to_onnx(result)
    return out, json.loads(json.dumps(name_map(tracker, result, change_log.changes)))


def pairs(text: str) -> dict[str, str | None]:
    """The pairs of a map: "a b:c d:" for {"a": "a", "b": "c", "d": None}."""
    split = [(name, colon, new) for name, colon, new in (word.partition(":") for word in text.split())]
    return {name: (new or None) if colon else name for name, colon, new in split}


IF = """g (float[2] x) => (float[2] y) <bool k = {1}> { z = Neg(x) y = If (k) <
    then_branch = p () => (float[2] r) { z = Abs(x) r = Exp(z) },
    else_branch = q () => (float[2] r) { r = Sin(x) }> }"""
IF_WITH_WEIGHT = """g (float[2] x) => (float[2] y) <bool k = {1}, float[2] w = {1,2}> { y = If (k) <
    then_branch = p () => (float[2] r) { r = Exp(x) }, else_branch = q () => (float[2] s) { s = Mul(x, w) }> }"""
CONSTANT = "{ k = Constant<value_floats=[2.0,3.0,4.0]>()"
EQUAL = G + "<float[3] v = {1,2,3}, float[3] w = {1,2,3}> { a = Mul(x, v) y = Mul(a, w) }"


@each(
    ("text", "passes", "tensors", "nodes"),
    {
        "untouched": (G + "{ a = Sin(x) y = Cos(a) }", [BASIC], "x a y", "a y"),
        "dropped": (G + "{ a = Neg(x) b = Identity(a) y = Abs(b) }", [DROP_IDENTITY], "x a b:a y", "a b: y"),
        "an output keeps its name: the op before it takes it": (
            G + "{ a = Neg(x) y = Identity(a) }", [DROP_IDENTITY], "x a:y y", "a:y y:"),
        "a chain": (
            G + "{ a = Neg(x) b = Identity(a) c = Identity(b) y = Identity(c) }",
            [DROP_IDENTITY], "x a:y b:y c:y y", "a:y b: c: y:"),
        "fused": (M + "{ a = MatMul(x, w) b = Add(a, c) y = Neg(b) }", [FUSE_GEMM], "x w c a: b y", "a:b b y"),
        "a twin": (G + "{ a = Abs(x) b = Abs(x) y = Add(a, b) }", [MergeDuplicates()], "x a b:a y", "a b:a y"),
        "twins, then fused": (
            M + "{ a = MatMul(x, w) b = MatMul(x, w) d = Add(a, c) e = Add(b, c) y = Sub(d, e) }",
            [MergeDuplicates(), FUSE_GEMM], "x w c a: b: d e:d y", "a:d b:d d e:d y"),
        "cancelled; their producer is not a twin": (
            G + "{ a = Transpose(x) b = Transpose(a) y = Abs(b) }", [MERGE_TRANSPOSES], "x a: b:x y", "a: b: y"),
        "cancelled before one of their kind": (
            G + "{ o = Transpose(x) a = Transpose(o) b = Transpose(a) y = Abs(b) }",
            [MERGE_TRANSPOSES], "x o: a:x b y", "o: a: b y"),
        "folded": (
            G + CONSTANT + "d = Sqrt(k) e = Neg(d) y = Mul(x, e) }",
            [LiftConstants(), FoldConstants()], "x k: d: e y", "k: d: e: y"),
        "equal constants": (EQUAL, [MergeConstants()], "x v w:v a y", "a y"),
        "unused": (G + "{ a = Neg(x) y = Identity(x) }", [BASIC], "x a: y", "a: y"),
        "a branch moved out": (
            IF, [InlineIf()],
            "x k: z y y/then_branch/z:y_z y/then_branch/r:y y/else_branch/r:",
            "z y: y/then_branch/z:y_z y/then_branch/r:y y/else_branch/r:"),
    },
)  # fmt: skip
def test_map(text: str, passes: list[Pass], tensors: str, nodes: str) -> None:
    out, found = mapped(load(text), *passes)
    fresh = {o: "y_z" for n in out.graph.node for o in n.output if o.startswith("z_pw")}
    assert {k: fresh.get(v, v) for k, v in found["tensors"].items()} == pairs(tensors)
    want = {k: [] if v is None else [v] for k, v in pairs(nodes).items()}
    assert {k: [fresh.get(n, n) for n in v] for k, v in found["nodes"].items()} == want
    assert set(found) == {"version", "tensors", "nodes", "folded", "removed"}
    assert found["version"] == 1


@each(
    ("text", "passes", "folded", "nodes", "initializers"),
    {
        "folded, with its producer": (
            G + "<float[3] k = {2,3,4}> { d = Sqrt(k) e = Neg(d) y = Mul(x, e) }",
            [FoldConstants()], "e:fold-constants", "d:fold-constants e:fold-constants", "k:fold-constants"),
        "a Constant was not a computation": (
            G + CONSTANT + "y = Mul(x, k) }", [LiftConstants()], "", "k:lift-constants", ""),
        "equal constants": (EQUAL, [MergeConstants()], "", "", "w:merge-constants"),
        "unused": (
            G + "<float[3] v = {1,2,3}, float[3] w = {1,2,4}> { a = Mul(x, v) b = Neg(a) y = Abs(x) }",
            [RemoveUnused()], "", "a:remove-unused b:remove-unused", "v:remove-unused w:remove-unused"),
        "rules by name": (
            G + "{ a = Transpose(x) b = Transpose(a) c = Identity(b) y = Abs(c) }",
            [BASIC], "", "a:merge_transposes b:merge_transposes c:drop_identity", ""),
        "with an op that a rewrite made": (
            G + "<float[2,1] u = {1,2}, float[1,3] v = {1,2,3}, float[3] w = {1,2,3}> {"
            " a = MatMul(u, v) b = Add(a, w) d = Neg(b) y = Mul(x, d) }",
            [FUSE_GEMM, FoldConstants()], "d:fold-constants",
            "a:matmul_add_to_gemm b:matmul_add_to_gemm d:fold-constants",
            "u:fold-constants v:fold-constants w:fold-constants"),
        "with the branch not taken": (IF_WITH_WEIGHT, [InlineIf()], "", "y:inline-if s:inline-if", "k:inline-if"),
    },
)  # fmt: skip
def test_responsible_passes(text: str, passes: list[Pass], folded: str, nodes: str, initializers: str) -> None:
    _, found = mapped(load(text), *passes)
    assert found["folded"] == pairs(folded)
    assert found["removed"]["nodes"] == pairs(nodes)
    removed = found["removed"]["initializers"]
    assert {k: v for k, v in removed.items() if k != "w" or v != "inline-if"} == pairs(initializers)


def test_names_of_nodes() -> None:
    """A node is identified by its name if unique in its graph, else by its first output."""
    model = load(G + "{ a = Neg(x) b = Exp(a) c = Sin(b) y = Abs(c) }")
    for node, name in zip(model.graph.node, ("n", "n", "only", ""), strict=True):
        node.name = name
    _, found = mapped(model)
    assert found["nodes"] == {"a": ["a"], "b": ["b"], "only": ["only"], "y": ["y"]}


def test_clashing_names_get_numbers() -> None:
    model = load(G + "{ a = Neg(x) y = Abs(a) }")
    model.graph.node[1].name = "a"
    _, found = mapped(model)
    assert found["nodes"] == {"a": ["a"], "a#2": ["a#2"]}


NESTED = """g (bool k, float[2] x) => (float[2] y) { y = If (k) <
    then_branch = o () => (float[2] r) { r = If (k) <
        then_branch = p () => (float[2] t) { t = Exp(x) }, else_branch = q () => (float[2] t) { t = Neg(x) }> },
    else_branch = u () => (float[2] s) { s = Abs(x) }> }"""


def test_nested_bodies() -> None:
    _, found = mapped(load(NESTED), BASIC)
    expected = ["y", "r", "y/then_branch/r/then_branch/t", "y/then_branch/r/else_branch/t", "s"]
    assert found["nodes"] == {name: [name] for name in expected}


def test_pass_without_ledger_entries() -> None:
    """Without change log entries and marks on new ops, the result of a node is unknown, not wrong."""
    result = from_onnx(load(G + "{ a = Neg(x) b = Neg(a) y = Abs(b) }"))
    tracker, g = NameTracker.of(result), result.graph
    last = next(g.ops("Abs"))
    b = last.inputs[0]
    assert b is not None
    g.replace_uses(b, g.inputs[0])
    g.prune(g.ops("Neg"))
    found: Any = name_map(tracker, result, [])
    assert found["tensors"] == {"x": "x", "a": None, "b": "x", "y": "y"}
    assert found["removed"]["nodes"] == {"a": None, "b": None}


def test_ops_made_by_hand() -> None:
    result = from_onnx(load(G + "{ a = Neg(x) b = Exp(a) y = Abs(b) }"))
    tracker, g = NameTracker.of(result), result.graph
    (neg,), (exp,) = g.ops("Neg"), g.ops("Exp")
    new = g.add_op(Op("Foo", "c", "made", {}, None), [g.inputs[0]], [Value("new")])
    g.take_over(new.outputs[0], exp.outputs[0])
    made_from(new, "by-hand", (exp, neg))
    g.prune([exp])
    found: Any = name_map(tracker, result, [])
    assert found["nodes"] == {"a": ["made"], "b": ["made"], "y": ["y"]}
    assert found["tensors"] == {"x": "x", "a": None, "b": "b", "y": "y"}


def exposing(model: onnx.ModelProto, names: list[str]) -> onnx.ModelProto:
    """The model with `names` as outputs."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    del wide.graph.output[:]
    wide.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names)
    return wide


def held(model: onnx.ModelProto) -> set[str]:
    """The names of all values computed or stored in the main graph."""
    return {o for n in model.graph.node for o in n.output if o} | {t.name for t in model.graph.initializer}


def differing(model: onnx.ModelProto) -> tuple[list[str], int]:
    """Tensors of the original that differ from their pairs, and the number of pairs."""
    before = to_onnx(from_onnx(model, inline=True))
    after, found = mapped(before, BASIC)
    old, new = held(before), held(after)
    paired = [(a, b) for a, b in found["tensors"].items() if b is not None and a in old and b in new]
    wide = exposing(before, [a for a, _ in paired])
    random = random_outputs(from_onnx(wide).graph)
    asked = oracle_of(before)
    names = list(dict.fromkeys(b for _, b in paired))
    sessions = [LoadedModel(m.SerializeToString()) for m in (wide, exposing(after, names))]
    wrong: list[str] = []
    finite = [a for a in asked.runs if a.input_set.is_finite]  # sums of infinities depend on their order
    for run in (finite[0], finite[-1]):
        want = sessions[0].run([a for a, _ in paired], run.input_set.feeds)
        got = dict(zip(names, sessions[1].run(names, run.input_set.feeds), strict=True))
        for (a, b), x in zip(paired, want, strict=True):
            reason = compare_outputs(x, got[b], exact=False, compare_values=a not in random).reason
            wrong += [f"{a} -> {b}: {reason}"] if reason else []
    return wrong, len(paired)


@pytest.mark.parametrize("path", slow_unless(SAMPLE, GOLDEN), ids=lambda p: p.stem)
def test_paired_tensors_of_golden_models(path: Path) -> None:
    wrong, paired = differing(onnx.load(path))
    assert wrong == []
    assert paired


@given(model=models())
def test_paired_tensors_of_random_models(model: onnx.ModelProto) -> None:
    wrong, _ = differing(model)
    assert wrong == []


@given(model=models())
def test_map_covers_all_nodes_and_initializers(model: onnx.ModelProto) -> None:
    after, found = mapped(model, BASIC)
    mapped_names = {name for names in found["nodes"].values() for name in names}
    made = {n.name or n.output[0] for n in after.graph.node}
    assert made <= mapped_names
    assert set(found["removed"]["nodes"]) == {old for old, names in found["nodes"].items() if not names}
    assert None not in found["removed"]["nodes"].values()
    assert None not in found["removed"]["initializers"].values()
    assert None not in found["folded"].values()
    assert {found["tensors"][t] for t in found["folded"]} <= {t.name for t in after.graph.initializer}
    assert all(found["tensors"][o.name] == o.name for o in model.graph.output)


def test_work_is_linear() -> None:
    """Also for a chain of ops, each made from the previous one."""

    def calls(length: int) -> int:
        perms = ("1, 2, 3, 4, 0, 5, 6", "0, 1, 2, 3, 5, 6, 4")
        nodes = " ".join(f"t{i + 1} = Transpose<perm=[{perms[i % 2]}]>(t{i})" for i in range(length))
        model = load(f"g (float[2,2,2,2,2,2,2] t0) => (float[2,2,2,2,2,2,2] t{length}) {{ {nodes} }}")
        return count_calls(lambda: mapped(model, MERGE_TRANSPOSES))

    assert calls(400) < 1.5 * 4 * calls(100)


def test_initializer_without_a_name_is_in_no_map() -> None:
    """The checker objects to one, and onnxruntime loads the model."""
    model = load(G + "{ y = Neg(x) }")
    model.graph.initializer.add(data_type=onnx.TensorProto.FLOAT, dims=[1], float_data=[1.0])
    _, made = mapped(model, RemoveUnused())
    assert (made["tensors"], made["removed"]["initializers"]) == ({"x": "x", "y": "y"}, {})
