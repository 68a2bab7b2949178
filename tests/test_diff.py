"""`passes diff`: matching of two models regardless of names, and the report of their differences."""

import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import commands
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from operation_counts import count_calls
from passwright.app.diff.diff_result import ChangedOp, ModelDifference, SubgraphChange
from passwright.app.diff.document import difference_lines, summary
from passwright.app.diff.model_diff import DiffReport
from passwright.core.errors import ModelError
from random_models import models
from rewriting import cases, each, load, table
from tiers import GOLDEN_SAMPLE, slow_unless

from passwright import diff, optimize

GOLDEN = sorted((Path(__file__).parent.parent / "golden_models").glob("*.onnx"))
SAMPLE = [p for p in GOLDEN if p.stem in GOLDEN_SAMPLE]
OK, DIFFERENT, BAD = range(3)
X = "g (float[4,4] x) => (float[4,4] y)"
EYE = np.eye(4, dtype=np.float32)
ONE_OTHER = EYE + np.float32(0.5) * (np.arange(16).reshape(4, 4) == 5)
W = {"w": EYE}


def diff_lines(report: DiffReport, limit: int) -> list[str]:
    """The summary of a report, and a line or more for each change."""
    return [summary(report.difference), *difference_lines(report, limit)]


def lines_of(a: onnx.ModelProto | Path, b: onnx.ModelProto | Path, *, names: bool = False) -> list[str]:
    return diff_lines(diff(a, b, include_names=names), 12)


def difference(a: onnx.ModelProto, b: onnx.ModelProto) -> ModelDifference:
    return diff(a, b).difference


def require_consistent_counts(d: ModelDifference) -> None:
    """Every op is counted once."""
    for g in d.graphs:
        c = g.counts
        assert c.before == c.unchanged + c.changed + c.removed + c.replaced
        assert c.after == c.unchanged + c.changed + c.added + c.replacing
        assert all(r.removed or r.added for r in g.changes if isinstance(r, SubgraphChange))
        ops = [n for r in g.changes if isinstance(r, SubgraphChange) for n in (*r.removed, *r.added)]
        inner = sum(b.counts.before + b.counts.after for b in bodies(g.changes))
        assert (
            sum(n.ops for n in ops) <= c.removed + c.replaced + c.added + c.replacing <= sum(n.ops for n in ops) + inner
        )


def bodies(changes: list[SubgraphChange | ChangedOp]) -> list[Any]:
    return [body for c in changes if isinstance(c, ChangedOp) for body in c.bodies.values()]


def require_mirrored(d: ModelDifference, e: ModelDifference) -> None:
    """`e` is the difference of the same models in reverse order."""
    for g, h in zip(d.graphs, e.graphs, strict=True):
        c, r = g.counts, h.counts
        assert (c.removed, c.added, c.replaced, c.replacing) == (r.added, r.removed, r.replacing, r.replaced)
        assert (c.unchanged, c.changed, c.before, c.after) == (r.unchanged, r.changed, r.after, r.before)
        pieces = [sorted(
            ([n.outputs for n in x.removed], [n.outputs for n in x.added])[:: 1 if k is g else -1]
            for x in k.changes if isinstance(x, SubgraphChange)
        ) for k in (g, h)]  # fmt: skip
        assert pieces[0] == pieces[1]


@each(
    ("before", "after", "expected"),
    table("""
    equal: y = Relu(x) => y = Relu(x) => identical: 1 op
    all names changed: a = MatMul(x, w) b = Relu(a) y = Neg(b) => q = MatMul(x, w) r = Relu(q) y = Neg(r)
          => identical except for names: 3 ops
    another order in the file: a = Relu(x) b = Neg(x) y = Sub(a, b) => b = Neg(x) a = Relu(x) y = Sub(a, b)
          => identical: 3 ops
    one attribute: a = LeakyRelu<alpha=0.1>(x) y = Neg(a) => a = LeakyRelu<alpha=0.2>(x) y = Neg(a)
          => 1 op changed; 1 op unchanged | ~ LeakyRelu a: alpha 0.1 -> 0.2
    explicit default: a = Softmax<axis=-1>(x) y = Neg(a) => a = Softmax(x) y = Neg(a) => identical: 2 ops
    attribute reset to default: a = Softmax<axis=0>(x) y = Neg(a) => a = Softmax(x) y = Neg(a)
          => 1 op changed; 1 op unchanged | ~ Softmax a: axis 0 -> -1 (default)
    op inserted: a = Relu(x) y = Neg(a) => a = Relu(x) b = Sin(a) y = Neg(b)
          => 1 op added; 2 ops unchanged | added: Sin | + Sin (a) -> b | reads a; a is now b
    op removed: a = Relu(x) b = Dropout(a) y = Neg(b) => a = Relu(x) y = Neg(a)
          => 1 op removed; 2 ops unchanged | removed: Dropout | - Dropout (a) -> b | reads a; b is now a
    two layers swapped: a = Relu(x) b = Sin(a) y = Neg(b) => b = Sin(x) a = Relu(b) y = Neg(a)
          => 1 op removed, 1 op added; 2 ops unchanged
    fused region: a = MatMul(x, w) b = Add(a, x) c = Relu(b) y = Neg(c) => q = Gemm(x, w, x) c = Relu(q) y = Neg(c)
          => 1 region replaced (2 ops by 1); 2 ops unchanged | replaced: MatMul + Add -> Gemm | - MatMul (x, w) -> a
          | - Add (a, x) -> b | + Gemm (x, w, x) -> q | reads x; b is now q
    layer duplicated: a = MatMul(x, w) b = Relu(a) y = Neg(b)
          => a = MatMul(x, w) b = Relu(a) c = MatMul(b, w) d = Relu(c) y = Neg(d)
          => 2 ops added; 3 ops unchanged | added: MatMul + Relu
    common subexpression merged: a = Relu(x) b = Relu(x) c = Sin(a) d = Cos(b) y = Sub(c, d)
          => a = Relu(x) c = Sin(a) d = Cos(a) y = Sub(c, d)
          => 1 op removed; 4 ops unchanged | removed: Relu | - Relu (x) -> b | reads x; b is now a
    constant folded: k = Neg(w) y = Add(x, k) => y = Add(x, v)
          => 1 op removed; 1 op unchanged | removed: Neg | - Neg (w) -> k | k is now the constant v
    commuted operands: a = Relu(x) b = Sin(x) y = Add(a, b) => a = Relu(x) b = Sin(x) y = Add(b, a)
          => 1 op changed; 2 ops unchanged | ~ Add y: operands commuted
    non-commutative operands swapped: a = Relu(x) b = Sin(x) y = Sub(a, b) => a = Relu(x) b = Sin(x) y = Sub(b, a)
          => 1 op changed; 2 ops unchanged | ~ Sub y: input 0: a -> b; input 1: b -> a
    another operand: a = Relu(x) b = Sin(x) c = Cos(x) d = Sub(a, b) y = Sum(c, d)
          => a = Relu(x) b = Sin(x) c = Cos(x) d = Sub(a, c) y = Sum(c, d)
          => 1 op changed; 4 ops unchanged | ~ Sub d: input 1: b -> c
    first op removed: a = Dropout(x) b = Relu(a) y = Neg(b) => b = Relu(x) y = Neg(b) => 1 op removed; 2 ops unchanged
    last op removed: a = Relu(x) b = Neg(a) y = Identity(b) => a = Relu(x) y = Neg(a)
          => 1 op removed; 2 ops unchanged | removed: Identity | - Identity (b) -> y | reads b (now y); gives y
    dead op removed: y = Relu(x) d = Sin(x) => y = Relu(x)
          => 1 op removed; 1 op unchanged | removed: Sin | - Sin (x) -> d | reads x
    all changed: a, b = Split<axis=0>(x, s) y = Concat<axis=0>(a, b)
          => a, b = Split<axis=1>(x, s) y = Concat<axis=1>(a, b)
          => 2 ops changed; 0 ops unchanged | ~ Split a: axis 0 -> 1 | ~ Concat y: axis 0 -> 1
    domain: y = Relu(x) => y = my.Relu(x) => 1 region replaced (1 op by 1); 0 ops unchanged
"""),
)
def test_differences_of_ops(before: str, after: str, expected: str) -> None:
    weights = {"w": EYE, "s": np.array([2, 2]), "v": -EYE}
    a, b = (
        load(f"{X} {{ {text} }}", weights={n: w for n, w in weights.items() if re.search(rf"\b{n}[,)]", text)})
        for text in (before, after)
    )
    assert f"{joined(lines_of(a, b))} | ".startswith(f"{expected} | ")
    assert_sound(a, b)


def joined(lines: list[str]) -> str:
    return " | ".join(map(str.strip, lines))


def assert_sound(a: onnx.ModelProto, b: onnx.ModelProto) -> None:
    forward, backward = difference(a, b), difference(b, a)
    require_consistent_counts(forward)
    require_mirrored(forward, backward)
    for m in (a, b):
        assert difference(m, m).is_identical


@each(
    ("before", "after", "expected"),
    {
        "one element": (EYE, ONE_OTHER, "1 of 16 elements differ, by at most 0.5"),
        "several": (EYE, EYE * 3, "4 of 16 elements differ, by at most 2"),
        "NaN": (EYE, EYE + np.float32(np.nan), "16 of 16 elements differ"),
        "dtype": (EYE, EYE.astype(np.float16), "float[4,4] -> float16[4,4]"),
        "dims": (EYE, EYE[:, :2], "float[4,4] -> float[4,2]"),
        "no elements left": (EYE, np.zeros((4, 0), np.float32), "float[4,4] -> float[4,0]"),
        "half": (EYE.astype(np.float16), EYE.astype(np.float16) * 2, "4 of 16 elements differ, by at most 1"),
        "int8": (EYE.astype(np.int8), EYE.astype(np.int8) * -128, "4 of 16 elements differ, by at most 129"),
        "bool": (EYE.astype(bool), ~EYE.astype(bool), "16 of 16 elements differ, by at most 1"),
        "strings": (np.array(["a", "b"]), np.array(["a", "c"]), "1 of 2 elements differ"),
        "signs of zero": (np.array(0.0), np.array(-0.0), "1 of 1 element differ, by at most 0"),
        "beyond doubles": (np.array(2**62), np.array(2**62 + 1), "1 of 1 element differ, by at most 0"),
    },
)
def test_differences_of_weights(before: Any, after: Any, expected: str) -> None:
    a, b = (load(f"{X} {{ a = my.Op(x, w) y = Neg(a) }}", weights={"w": w}) for w in (before, after))
    assert lines_of(a, b) == ["1 op changed, 1 weight changed; 1 op unchanged", f"~ my.Op a: weight w: {expected}"]
    assert_sound(a, b)


def test_added_bias_changes_one_op() -> None:
    weights, bias = {"w": np.ones((2, 1, 1, 1), np.float32)}, {"b": np.ones(2, np.float32)}
    head = "g (float[1,1,4,4] x) => (float[1,2,4,4] y)"
    a = load(f"{head} {{ c = Conv(x, w) y = Relu(c) }}", weights=weights)
    b = load(f"{head} {{ c = Conv(x, w, b) y = Relu(c) }}", weights=weights | bias)
    assert lines_of(a, b)[1:] == ["~ Conv c: input 2: nothing -> b"]
    assert_sound(a, b)


def test_layers_match_after_training_and_removal() -> None:
    """All weights differ and a layer in the middle is removed; the other layers still match."""

    def trained(seed: int, layers: list[int]) -> onnx.ModelProto:
        rng = np.random.default_rng(seed)
        ops, last = "", "x"
        for i in layers:
            ops += f" m{i} = MatMul({last}, w{i}) r{i} = Relu(m{i})"
            last = f"r{i}"
        weights = {f"w{i}": rng.standard_normal((4, 4)).astype(np.float32) for i in layers}
        return load(f"{X} {{ {ops} y = Neg({last}) }}", weights=weights)

    d = difference(trained(0, list(range(20))), trained(1, [i for i in range(20) if i != 11]))
    assert (d.counts.removed, d.counts.added, d.counts.replaced, d.counts.replacing) == (0, 0, 3, 1)
    assert (d.counts.changed, d.counts.unchanged) == (18, 20)


@each("rename", [False, True])
def test_removals_among_equal_layers(rename: bool) -> None:
    """Two of fifty equal layers lose an op; only their order identifies them."""

    def layers(without: tuple[int, ...], prefix: str) -> onnx.ModelProto:
        ops, last = "", "x"
        for i in range(50):
            p = f"{prefix}{i}"
            ops += f" {p}a = Sin({last}) {p}b = Neg({p}a)"
            ops += "" if i in without else f" {p}c = Dropout({p}b)"
            last = f"{p}b" if i in without else f"{p}c"
        return load(f"{X} {{ {ops} y = Relu({last}) }}")

    a, b = layers((), "v"), layers((9, 30), "q" if rename else "v")
    d = difference(a, b)
    assert (d.counts.removed, d.counts.unchanged, len(d.graph.changes)) == (2, 149, 2)
    if not rename:
        assert [r.removed[0].outputs for r in d.graph.changes if isinstance(r, SubgraphChange)] == [["v9c"], ["v30c"]]
    require_mirrored(d, difference(b, a))


def test_equal_replacements_are_grouped() -> None:
    pairs = " ".join(f"t{i} = Transpose(v{i}) u{i} = Transpose(t{i}) v{i + 1} = Sin(u{i})" for i in range(4))
    singles = " ".join(f"v{i + 1} = Sin(v{i})" for i in range(4))
    a, b = (load(f"{X} {{ v0 = Neg(x) {ops} y = Relu(v4) }}") for ops in (pairs, singles))
    times = "\N{MULTIPLICATION SIGN}4"
    assert (
        joined(lines_of(a, b)) == f"8 ops removed; 6 ops unchanged | {times} removed: 2 Transpose | at t0, t1, t2, t3"
    )
    assert diff_lines(diff(a, b), 2)[-1] == "    at t0, t1, ... and 2 more"


def test_long_region_is_truncated() -> None:
    chain = " ".join(f"v{i + 1} = Sin(v{i})" for i in range(20))
    a, b = load(f"{X} {{ v0 = Neg(x) {chain} y = Relu(v20) }}"), load(f"{X} {{ v0 = Neg(x) y = Relu(v0) }}")
    assert lines_of(a, b)[1:3] == ["removed: 20 Sin", "    - Sin (v0) -> v1"]
    assert lines_of(a, b)[-2:] == ["    ... and 8 more", "    reads v0; v20 is now v0"]


def test_headline_of_long_region_lists_frequent_ops() -> None:
    chain = " ".join(f"v{i + 1} = {('Sin', 'Cos', 'Sin', 'Neg', 'Tan')[i % 5]}(v{i})" for i in range(10))
    a, b = load(f"{X} {{ v0 = Abs(x) {chain} y = Relu(v10) }}"), load(f"{X} {{ v0 = Abs(x) y = Relu(v0) }}")
    assert lines_of(a, b)[1] == "removed: 10 ops (4 Sin, 2 Cos, 2 Neg, ...)"


def fanned(n: int, *, kept: bool) -> onnx.ModelProto:
    """`n` chains that read one value, and the sum of their results; without `kept`, a sum of other values."""
    chains = [
        (f"a{i} = Neg(s) b{i} = Exp(a{i}) " if kept else "") + f"v{i + 1} = Add(v{i}, {f'b{i}' if kept else 'x'})"
        for i in range(n)
    ]
    shared = "q = Sin(x) s = Cos(q)" if kept else ""
    return load(f"{X} {{ v0 = Abs(x) {shared} {' '.join(chains)} y = Relu(v{n}) }}")


@each(
    ("n", "expected"),
    {
        "small region is kept whole": (4, [["Sin", "Cos", *["Neg", "Exp"] * 4]]),
        "large region is split at shared value": (40, [["Sin", "Cos"], *[["Neg", "Exp"]] * 40]),
    },
)
def test_regions_around_shared_value(n: int, expected: list[list[str]]) -> None:
    a, b = fanned(n, kept=True), fanned(n, kept=False)
    d = difference(a, b)
    regions = [r for r in d.graph.changes if isinstance(r, SubgraphChange)]
    assert sorted(sorted(node.type for node in r.removed) for r in regions) == sorted(map(sorted, expected))
    shared = next(r for r in regions if r.removed[0].type == "Sin")
    if n == 40:
        assert [(c.before, c.after) for c in shared.writes] == [("s", None)]
        assert [[c.before for c in r.reads] for r in regions if r is not shared] == [["s"]] * n
    require_consistent_counts(d)
    require_mirrored(d, difference(b, a))


def test_large_single_expression_is_one_region() -> None:
    """A large region is not split at values that are read twice inside it: a chain of norms."""
    steps = " ".join(
        f"m{i} = Sin(v{i}) d{i} = Sub(v{i}, m{i}) p{i} = Mul(d{i}, d{i}) v{i + 1} = Div(d{i}, p{i})" for i in range(12)
    )
    a, b = load(f"{X} {{ v0 = Abs(x) {steps} y = Relu(v12) }}"), load(f"{X} {{ v0 = Abs(x) y = Relu(v0) }}")
    (region,) = difference(a, b).graph.changes
    assert isinstance(region, SubgraphChange)
    assert len(region.removed) == 48


@each(
    ("touch", "what", "line"),
    {
        "node": (lambda m: setattr(m.graph.node[0], "name", "n"), "names", "~ node:  -> n"),
        "doc string": (lambda m: setattr(m.graph.node[0], "doc_string", "why"), "notes", "+ doc string of Relu a: why"),
        "producer": (lambda m: setattr(m, "producer_name", "me"), "notes", "+ producer name: me"),
        "graph": (lambda m: setattr(m.graph, "name", "h"), "notes", "~ name of the graph: g -> h"),
    },
)
def test_names_and_notes_count_only_on_request(touch: Callable[[onnx.ModelProto], None], what: str, line: str) -> None:
    a, b = (load(f"{X} {{ a = Relu(x) y = Neg(a) }}") for _ in range(2))
    touch(b)
    assert diff(a, b).is_equal
    assert lines_of(a, b) == [f"identical except for {what}: 2 ops"]
    assert not diff(a, b, include_names=True).is_equal
    assert lines_of(a, b, names=True)[1:] == [f"{what}:", f"    {line}"]


def test_constant_op_equals_initializer() -> None:
    a = load(f"{X} <float[2] k = {{1.0, 2.0}}> {{ y = my.Op(x, k) }}")
    b = load(f"{X} {{ k = Constant<value = float[2] {{1.0, 2.0}}>() y = my.Op(x, k) }}")
    assert lines_of(a, b) == ["identical except for notes: 1 op"]
    assert lines_of(a, b, names=True)[1:] == ["notes:", "    ~ constant k: initializer -> Constant op"]


def test_value_info_is_ignored() -> None:
    a = load(f"{X} {{ a = Relu(x) y = Neg(a) }}")
    assert difference(a, onnx.shape_inference.infer_shapes(a)).is_identical


@each(
    ("before", "after", "expected"),
    table("""
    output renamed: g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }
          => g (float[N,4] x) => (float[N,4] z) { z = Relu(x) } => ~ output: y -> z
    input renamed: g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }
          => g (float[N,4] q) => (float[N,4] y) { y = Relu(q) } => ~ input: x -> q
    dims: g (float[N,4] x) => (float[N,4] y) { y = Relu(x) } => g (float[1,4] x) => (float[1,4] y) { y = Relu(x) }
          => ~ type of input x: float[N,4] -> float[1,4] | ~ type of output y: float[N,4] -> float[1,4]
    dtype: g (float[N] x) => (float[N] y) { y = Relu(x) } => g (float16[N] x) => (float16[N] y) { y = Relu(x) }
          => ~ type of input x: float[N] -> float16[N] | ~ type of output y: float[N] -> float16[N]
    input removed: g (float[N] x, int64 m) => (float[N] y) { y = Relu(x) }
          => g (float[N] x) => (float[N] y) { y = Relu(x) } => - input: m
    output added: g (float[N] x) => (float[N] y) { y = Relu(x) }
          => g (float[N] x) => (float[N] y, float[N] z) { y = Relu(x) z = Neg(x) }
          => + output: z | added: Neg | + Neg (x) -> z | reads x; z was added
    order: g (float[N] x, float[N] z) => (float[N] y) { y = Sub(x, z) }
          => g (float[N] z, float[N] x) => (float[N] y) { y = Sub(x, z) } => ~ order of inputs: [x,z] -> [z,x]
    outputs exchanged: g (float[N] x) => (float[N] y, float[N] z) { y = Sin(x) z = Cos(x) }
          => g (float[N] x) => (float[N] y, float[N] z) { z = Sin(x) y = Cos(x) }
          => ~ output y carries: y -> z | ~ output z carries: z -> y
    empty: g () => () { } => g () => () { } => nothing
    from empty: g () => () { } => g (float x) => (float y) { y = Relu(x) }
          => + input: x | + output: y | added: Relu | + Relu (x) -> y | reads x; y was added
"""),
)
def test_interface(before: str, after: str, expected: str) -> None:
    a, b = load(before), load(after)
    assert (joined(lines_of(a, b)[1:]) or "nothing") == expected
    assert diff(a, b).is_equal == (expected == "nothing")
    assert_sound(a, b)


def test_header() -> None:
    a, b = load(f"{X} {{ y = Relu(x) }}", opset=17), load(f"{X} {{ y = Relu(x) }}", opset=18)
    b.ir_version = 9
    b.metadata_props.add(key="k", value="v")
    assert lines_of(a, b)[1:] == ["~ IR version: 10 -> 9", "~ opset ai.onnx: 17 -> 18", "+ metadata k: v"]


def test_default_changed_by_opset() -> None:
    a, b = (load(f"{X} {{ y = Softmax(x) }}", opset=opset) for opset in (11, 13))
    assert lines_of(a, b)[1:] == ["~ Softmax y: axis 1 (default) -> -1 (default)", "~ opset ai.onnx: 11 -> 13"]
    assert_sound(a, b)


def test_input_with_default() -> None:
    a, b = (load("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }") for _ in range(2))
    a.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    assert lines_of(a, b)[1:] == ["- default of input w: a constant"]
    b.graph.initializer.append(numpy_helper.from_array(np.zeros(2, np.float32), "w"))
    assert lines_of(a, b)[1:] == ["~ default of w: 2 of 2 elements differ, by at most 1"]


def test_unread_constants() -> None:
    a, b = load(f"{X} {{ y = Relu(x) }}", weights={"w": EYE}), load(f"{X} {{ y = Relu(x) }}", weights={"q": EYE * 2})
    assert lines_of(a, b)[1:] == ["- unread constant: w", "+ unread constant: q"]
    assert_sound(a, b)


def test_constant_outputs() -> None:
    a, b = (load("g () => (float[4,4] w) { }", weights={"w": w}) for w in (EYE, ONE_OTHER))
    assert lines_of(a, b)[1:] == ["~ output w: 1 of 16 elements differ, by at most 0.5"]


def test_sparse_constants() -> None:
    def sparse(*values: float) -> onnx.ModelProto:
        model = load(f"{X} {{ y = my.Op(x, s) }}".replace(", s", ""))
        parts = np.array(values, np.float32), np.arange(len(values))
        tensors = [numpy_helper.from_array(p, n) for p, n in zip(parts, ("s", ""), strict=True)]
        model.graph.sparse_initializer.append(helper.make_sparse_tensor(*tensors, [9]))
        model.graph.node[0].input.append("s")
        return model

    assert difference(sparse(1, 2), sparse(1, 2)).is_identical
    assert lines_of(sparse(1, 2), sparse(1, 3))[1:] == ["~ my.Op y: weight s: other elements"]
    assert lines_of(sparse(1, 2), sparse(1, 2, 3))[1] == "~ my.Op y: weight s: other elements"
    of_op = sparse(1, 2)
    of_op.graph.node.insert(0, helper.make_node("Constant", [], ["s"], sparse_value=of_op.graph.sparse_initializer[0]))
    del of_op.graph.sparse_initializer[:]
    assert lines_of(sparse(1, 2), of_op, names=True) == [
        "identical except for notes: 1 op", "notes:", "    ~ constant s: initializer -> Constant op"
    ]  # fmt: skip
    assert lines_of(sparse(1, 3), of_op)[1:] == ["~ my.Op y: weight s: other elements"]


IF = """g (bool c, float[2] x) => (float[2] y) {{
    a = Relu(x)
    y = If(c) <then_branch = t () => (float[2] p) {{ {0} }}, else_branch = e () => (float[2] q) {{ q = Neg(a) }}>
}}"""


IN_BODY = ["~ If y", "    in then_branch:"]


@each(
    ("before", "after", "expected"),
    {
        "equal": ("p = Sin(a)", "p = Sin(a)", ["identical: 4 ops"]),
        "op removed": (
            "s = Sin(a) p = Cos(s)",
            "p = Cos(a)",
            ["1 op removed, 1 op changed; 3 ops unchanged", *IN_BODY, "        removed: Sin",
             "            - Sin (a) -> s", "            reads a; s is now a"],
        ),
        "other operand": (
            "p = Sin(a)",
            "p = Sin(x)",
            ["2 ops changed; 2 ops unchanged", *IN_BODY, "        ~ Sin p: input 0: a -> x"],
        ),
        "attribute": (
            "p = Elu<alpha=1.5>(a)",
            "p = Elu<alpha=2.5>(a)",
            ["2 ops changed; 2 ops unchanged", *IN_BODY, "        ~ Elu p: alpha 1.5 -> 2.5"],
        ),
        "names": ("s = Sin(a) p = Cos(s)", "t = Sin(a) p = Cos(t)", ["identical except for names: 5 ops"]),
    },
)  # fmt: skip
def test_bodies(before: str, after: str, expected: list[str]) -> None:
    a, b = load(IF.format(before)), load(IF.format(after))
    assert lines_of(a, b) == expected
    assert_sound(a, b)


def test_functions() -> None:
    text = """<ir_version: 10, opset_import: ["" : 17, "my" : 1]> g (float[2] x) => (float[2] y) {{ y = my.F(x) }}
        <domain: "my", opset_import: ["" : 17]> F (v) => (r) {{ {0} }}"""
    one, two = (onnx.parser.parse_model(text.format(body)) for body in ("r = Relu(v)", "s = Relu(v) r = Neg(s)"))
    assert lines_of(one, two) == [
        "1 op added; 2 ops unchanged", "~ function my.F:",
        "    added: Neg", "        + Neg (s) -> r", "        reads r (now s); gives r",
    ]  # fmt: skip
    assert_sound(one, two)
    del two.functions[:]
    assert lines_of(one, two)[1:] == ["- function my.F: defined"]


def test_rules_of_replacements_are_reported() -> None:
    path = next(p for p in GOLDEN if p.stem == "resnet_kept_bn")
    d = diff(path, optimize(path, verify=False).model).difference
    assert d.graph.changes
    assert {r.rules[0] for r in d.graph.changes if isinstance(r, SubgraphChange)} == {"fold_batchnorm_into_conv"}


def renamed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model with other names for all but its inputs and outputs."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    kept = {v.name for v in (*out.graph.input, *out.graph.output)}

    def other(name: str) -> str:
        return name if not name or name in kept else f"z_{name}"

    def walk(graph: onnx.GraphProto) -> None:
        for t in graph.initializer:
            t.name = other(t.name)
        for v in graph.output:
            v.name = other(v.name)
        for node in graph.node:
            node.name = f"n_{node.name}"
            node.input[:], node.output[:] = map(other, node.input), map(other, node.output)
            for a in node.attribute:
                walk(a.g)

    walk(out.graph)
    return out


@given(models((1, 7)))
def test_renamed_model_is_equal(model: onnx.ModelProto) -> None:
    assert difference(model, model).is_identical
    assert difference(model, renamed(model)).is_empty


@given(models((1, 7)), st.data())
def test_only_edits_are_found(model: onnx.ModelProto, data: st.DataObject) -> None:
    edited = renamed(model)
    count = data.draw(st.integers(1, 3))
    for n in range(count):
        at = data.draw(st.integers(0, len(edited.graph.node) - 1))
        node = edited.graph.node[at]
        name, node.output[0] = node.output[0], f"edit{n}"
        edited.graph.node.insert(at + 1, helper.make_node("Identity", [f"edit{n}"], [name]))
    d, backward = difference(model, edited), difference(edited, model)
    require_consistent_counts(d)
    require_mirrored(d, backward)
    c = d.counts
    assert max(c.removed + c.replaced, c.changed) <= 6 * count
    assert c.added + c.replacing - c.removed - c.replaced == c.after - c.before


@pytest.mark.parametrize("path", slow_unless(SAMPLE, GOLDEN), ids=lambda p: p.stem)
def test_golden_models_against_optimized(path: Path, tmp_path: Path) -> None:
    optimize(path, verify=False, output=tmp_path / path.name)
    forward, backward = diff(path, tmp_path / path.name), diff(tmp_path / path.name, path)
    require_consistent_counts(forward.difference)
    require_mirrored(forward.difference, backward.difference)
    assert diff(path, path).difference.is_identical
    assert json.loads(forward.to_json())["equal"] is forward.is_equal
    for limit in (1, 100):
        assert diff_lines(forward, limit)


def saved(path: Path, model: onnx.ModelProto, **options: Any) -> Path:
    onnx.save(model, path, **options)
    return path


invoke = partial(commands.invoke, "diff")


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    texts = "a = MatMul(x, w) y = Relu(a)", "a = MatMul(x, w) b = Neg(a) y = Relu(b)"
    a, b = (saved(tmp_path / f"{i}.onnx", load(f"{X} {{ {t} }}", weights=W)) for i, t in enumerate(texts))
    return a, b


def test_command(pair: tuple[Path, Path]) -> None:
    a, b = pair
    assert invoke(a, a).stdout == "identical: 2 ops\n"
    assert invoke(a, b, code=DIFFERENT).stdout.splitlines() == [
        "1 op added; 2 ops unchanged", "added: Neg", "    + Neg (a) -> b", "    reads a; a is now b",
    ]  # fmt: skip


def test_json(pair: tuple[Path, Path], tmp_path: Path) -> None:
    printed = invoke(*pair, "--json", "-", code=DIFFERENT).stdout
    assert printed == invoke(*pair, "--json", "-", code=DIFFERENT).stdout
    shown = invoke(*pair, "--json", tmp_path / "d.json", code=DIFFERENT).stdout
    assert shown.startswith("1 op added")
    data = json.loads((tmp_path / "d.json").read_text())
    assert data == json.loads(printed)
    assert data["equal"] is False
    assert data["counts"]["added"] == 1
    assert data["graph"]["changes"][0]["added"][0]["type"] == "Neg"
    assert data["graph"]["changes"][0]["writes"] == [{"what": "value", "before": "a", "after": "b"}]


@cases(
    ("other", "arguments", "message"),
    {
        "empty file": (b"", [], "is empty"),
        "no model": (b"\x00\x01nonsense", [], "error: "),
        "no file": (None, [], "does not exist"),
        "no lines": (b"", ["--limit", "0"], "limit"),
    },
)
def test_errors_take_one_line(
    pair: tuple[Path, Path], tmp_path: Path, other: bytes | None, arguments: list[str], message: str
) -> None:
    if other is not None:
        (tmp_path / "other.onnx").write_bytes(other)
    result = invoke(pair[0], tmp_path / "other.onnx", *arguments, code=BAD)
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert arguments or len(result.stderr.splitlines()) == 1


def test_report_does_not_overwrite_models(pair: tuple[Path, Path]) -> None:
    before = pair[0].read_bytes()
    assert "would overwrite" in invoke(*pair, "--json", pair[0], code=BAD).stderr
    assert pair[0].read_bytes() == before


def test_control_characters_in_names_are_escaped(tmp_path: Path) -> None:
    a, b = load(f"{X} {{ v = Neg(x) y = Relu(v) }}"), load(f"{X} {{ v = Abs(x) y = Relu(v) }}")
    a.graph.node[0].name = "two\nlines \x1b[31m"
    result = invoke(saved(tmp_path / "a.onnx", a), saved(tmp_path / "b.onnx", b), code=DIFFERENT)
    assert "- Neg two\\nlines \\x1b[31m (x) -> v" in result.output


def test_markup_in_names_is_text(tmp_path: Path) -> None:
    a, b = (
        built([helper.make_node("Relu", ["x"], ["[red]y"], name="[bold]\n")], "[red]y"),
        load("g (float[2] x) => () { }"),
    )
    shown = invoke(saved(tmp_path / "a.onnx", a), saved(tmp_path / "b.onnx", b), code=DIFFERENT).stdout
    assert "    - Relu [bold]\\n (x) -> [red]y" in shown.splitlines()


def test_weights_in_other_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are compared wherever they are stored; weights at the same place of a file are not read."""
    big = np.arange(4096, dtype=np.float32).reshape(64, 64)
    text = "g (float[64,64] x) => (float[64,64] y) { a = MatMul(x, w) y = Relu(a) }"
    (tmp_path / "in").mkdir()
    outside = {"save_as_external_data": True, "location": "w.data", "size_threshold": 0}
    a = saved(tmp_path / "a.onnx", load(text, weights={"w": big}), **outside)
    b = saved(tmp_path / "in" / "b.onnx", load(text, weights={"w": big}))
    assert diff(a, b).difference.is_empty
    c = tmp_path / "c.onnx"
    c.write_bytes(a.read_bytes())
    from passwright.app.diff import constants

    def refuse(_: object) -> bytes:
        raise AssertionError("read")

    monkeypatch.setattr(constants, "digest", refuse)
    assert diff(a, c).difference.is_empty
    monkeypatch.undo()
    saved(tmp_path / "in" / "b.onnx", load(text, weights={"w": big + (big == 7)}))
    assert lines_of(a, b)[1:] == ["~ MatMul a: weight w: 1 of 4096 elements differ, by at most 1"]
    (tmp_path / "w.data").unlink()
    assert "is missing" in invoke(a, b, code=BAD).stderr


def test_external_weights_of_model_in_memory_are_refused() -> None:
    a = load(f"{X} {{ y = MatMul(x, w) }}", weights=W)
    onnx.external_data_helper.set_external_data(a.graph.initializer[0], "w.data")
    a.graph.initializer[0].ClearField("raw_data")
    a.graph.initializer[0].data_location = TensorProto.EXTERNAL
    with pytest.raises(ModelError, match="load the model by its path"):
        diff(a, a)


def built(nodes: list[onnx.NodeProto], output: str, weights: Sequence[onnx.TensorProto] = ()) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in ("x", output)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def stacked(n: int, *, edited: bool = False) -> onnx.ModelProto:
    """Layers with equal ops and different weights; with `edited`, every fifth has other ops."""
    nodes: list[onnx.NodeProto] = []
    for i in range(n):
        nodes.append(helper.make_node("MatMul", [f"v{i}" if i else "x", f"w{i}"], [f"m{i}"]))
        if edited and i % 5 == 4:
            nodes.append(helper.make_node("Elu", [f"m{i}"], [f"v{i + 1}"]))
        else:
            nodes.append(helper.make_node("Neg", [f"m{i}"], [f"n{i}"]))
            nodes.append(helper.make_node("Relu", [f"n{i}"], [f"v{i + 1}"]))
    return built(nodes, f"v{n}", [numpy_helper.from_array(np.full((2, 2), i, np.float32), f"w{i}") for i in range(n)])


def wide(n: int, *, edited: bool = False) -> onnx.ModelProto:
    """Many equal ops that read one value and are read by one op."""
    ops = [helper.make_node("Elu" if edited and i % 5 == 4 else "Sin", ["x"], [f"v{i}"]) for i in range(n)]
    return built([*ops, helper.make_node("Sum", [f"v{i}" for i in range(n)], ["y"])], "y")


@each("build", [stacked, wide])
def test_effort_is_linear(build: Callable[..., onnx.ModelProto]) -> None:
    def comparison(n: int) -> Callable[[], object]:
        a, b = build(n), build(n, edited=True)
        return lambda: diff(a, b)

    comparison(50)()  # fills the caches
    assert count_calls(comparison(240)) < 3.6 * count_calls(comparison(80))
