"""Mistakes about constants, duplicates and random numbers."""

from dataclasses import dataclass

import numpy as np
from passwright.core import EXACT, ChangeLog, Graph, Op, Pass, RewriteBuilder, RulePass, Value, require, rule

from planted.mistake import mistake


@mistake(
    "g (float[N,8] x) => (float[N,8] y, float[N,8] z) { s = Sigmoid(x) y = Bernoulli(s) n = Identity(x) z = Exp(n) }",
    wrong="y",
)
@rule(lambda g, p: g.Bernoulli(p))
def bernoulli_by_threshold(g: RewriteBuilder, p: Value) -> Value:
    """A Bernoulli becomes a comparison with a half, its most likely result."""
    return g.Cast(g.Greater(p, g.const(np.float32(0.5))), to=1)


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z)"
    " { a = Mul(x, p) y = Add(a, q) n = Neg(x) b = Mul(n, r) z = Sub(b, s) }",
    wrong="q",
    weights={
        "p": np.array([1, 2, 3, 4], np.float32),
        "q": np.array([1, 2, 3, 5], np.float32),
        "r": np.array([2, 2, 3, 4], np.float32),
        "s": np.array([2, 2, 3, 4], np.float32),
    },
)
def constants_by_first_element(graph: Graph, change_log: ChangeLog) -> int:
    """Constants that begin alike are merged; a digest of a part stands for the whole."""
    changes, known = 0, dict[object, Value]()
    for value in tuple(graph.initializers):
        twin = known.setdefault((value.dtype, value.shape, value.const.tobytes()[:8]), value)
        if twin is value or not value.consumers:
            continue
        if change_log.request_change("constants-by-first-element", value.name, (value,)):
            graph.replace_uses(value, twin)
            graph.drop_initializer(value)
            changes += 1
    return changes


@mistake(
    "g (float[N,3] x, float[1] w, float v) => (float[N,3] y, float[N,3] u, float[N,3] z) <float[1] one = {1.0}>"
    " { y = Mul(x, w) u = Mul(x, v) n = Neg(x) i = Identity(n) z = Mul(i, one) }",
    wrong=("y", "u"),
    after={"Mul": 2, "Neg": 1},
    weights={"w": np.ones(1, np.float32), "v": np.ones((), np.float32)},
)
@rule(lambda g, x, w: g.Mul(x, w), contract=EXACT)
def default_as_constant(g: RewriteBuilder, x: Value, w: Value) -> Value:
    """The defaults of inputs that a caller may set are taken for constants. Wrong in two places, right in one.

    Known from several simplifiers, which drop such inputs.
    """
    known = g.graph.input_defaults.get(w) or w.tensor
    require(known is not None and known.size == 1 and (known.array == 1).all(), "not 1")
    return x


@mistake(
    "g (float[4] x, bool c) => (float[4] y, float[4] z)"
    " { y = If(c) < then_branch = t () => (float[4] p) { a = Exp(x) p = Neg(a) },"
    " else_branch = e () => (float[4] q) { b = Exp(x) q = Abs(b) } > m = Identity(x) z = Neg(m) }",
    wrong={"b": "invalid"},
)
def merge_across_branches(graph: Graph, change_log: ChangeLog) -> int:
    """Common subexpressions are merged across the two branches of an If, neither of which sees the other's values."""
    changes, known = 0, dict[tuple[str, tuple[Value | None, ...]], Op]()
    for op in (op for g in graph.with_subgraphs() for op in g.sorted_ops()):
        twin = known.setdefault((op.type, op.inputs), op)
        if twin is not op and change_log.request_change("merge-across-branches", op.outputs[0].name, (op, twin)):
            op.graph.replace_uses(op.outputs[0], twin.outputs[0])
            changes += graph.prune([op])
    return changes


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z)"
    " { a = LeakyRelu<alpha=0.1>(x) b = LeakyRelu<alpha=0.2>(x) y = Add(a, b) n = Neg(x) m = Neg(x) z = Mul(n, m) }",
    wrong="b",
    after={"Add": 1, "LeakyRelu": 2, "Mul": 1, "Neg": 1},
)
def merge_ignoring_attributes(graph: Graph, change_log: ChangeLog) -> int:
    """Common subexpressions are merged by operator and inputs, whatever their attributes."""
    changes, known = 0, dict[tuple[str, tuple[Value | None, ...]], Op]()
    for op in graph.sorted_ops():
        twin = known.setdefault((op.type, op.inputs), op)
        if twin is not op and change_log.request_change("merge-ignoring-attributes", op.outputs[0].name, (op, twin)):
            graph.replace_uses(op.outputs[0], twin.outputs[0])
            changes += graph.prune([op])
    return changes


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { a = RandomUniformLike(x) b = RandomUniformLike(x)"
    " d = Sub(a, b) y = Add(x, d) n = Neg(x) m = Neg(x) z = Mul(n, m) }",
    wrong="b",
    after={"Add": 1, "Mul": 1, "Neg": 1, "RandomUniformLike": 2, "Sub": 1},
)
def merge_random_draws(graph: Graph, change_log: ChangeLog) -> int:
    """Common subexpressions are merged, random operators among them; their difference becomes 0.

    Known from onnxsim, OnnxSlim and onnxoptimizer.
    """
    changes, known = 0, dict[object, Op]()
    for op in graph.sorted_ops():
        twin = known.setdefault((op.type, op.inputs, str(op.attrs)), op)
        if twin is not op and change_log.request_change("merge-random-draws", op.outputs[0].name, (op, twin)):
            graph.replace_uses(op.outputs[0], twin.outputs[0])
            changes += graph.prune([op])
    return changes


@mistake(
    "g (float[3,4] x) => (float[3,4] y, float[3,4] z)"
    " { r = RandomUniform<shape=[3,4]>() y = Add(x, r) n = Neg(x) m = Neg(x) z = Mul(n, m) }",
    wrong="r",
    after={"Add": 1, "Mul": 1, "Neg": 1, "RandomUniform": 1},
)
@rule(lambda g, op: g.RandomUniform() @ op, contract=EXACT)
def random_folded(g: RewriteBuilder, op: Op) -> Value:
    """A random operator without inputs is folded, like all that depends on constants alone.

    Known from OnnxSlim and graphsurgeon.
    """
    return g.const(np.random.default_rng(0).random(op.attrs["shape"], np.float32))


@dataclass(frozen=True)
class RebuildRandom:
    """A random op => the same under a new name"""

    name: str = "rebuild-random"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        changes = 0
        for op in graph.ops("RandomNormalLike"):
            if op.outputs[0].name.startswith("again") or not change_log.request_change(
                self.name, op.outputs[0].name, (op,)
            ):
                continue
            new = Op(op.type, "", "", dict(op.attrs), None)
            value = graph.add_op(new, op.inputs, [Value(graph.fresh_name("again"))]).outputs[0]
            graph.replace_value(op.outputs[0], value)
            changes += graph.prune([op])
        return changes


@rule(lambda g, x: g.Relu(x), contract=EXACT)
def drop_relu(g: RewriteBuilder, x: Value) -> Value:
    """Relu(x) => x"""
    return x


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { a = Relu(x) b = Sin(a)"
    " n = RandomNormalLike<scale = 0.0001>(b) y = Add(b, n) e = Exp(x) r = Relu(e) z = Neg(r) }",
    wrong={("rebuild-random", "n"): "wrong", ("drop_relu", "a"): "wrong"},
    after={"Add": 1, "Exp": 1, "Neg": 1, "RandomNormalLike": 1, "Relu": 1, "Sin": 1},
)
def rebuilds_a_random_op() -> list[Pass]:
    """A random op is made anew under another name: its numbers, and a mistake before it, show no more."""
    return [RebuildRandom(), RulePass("mine", (drop_relu,))]


M = np.float32(1.5 * 2**23)  # x + M - M is x rounded to a whole number


@mistake(
    "g (float[N,2] x) => (float[N,2] y, float[N,2] z)"
    " { s = Add(x, b) a = Add(s, m) y = Sub(a, m) n = Neg(x) t = Add(n, b) u = Add(t, one) z = Abs(u) }",
    wrong="a",
    after={"Abs": 1, "Add": 3, "Neg": 1, "Sub": 1},
    weights={"b": np.array([0.4, 0.45], np.float32), "m": M, "one": np.float32(1)},
)
@rule(lambda g, x, b, c: g.Add(g.Add(x, g.const(b)), g.const(c)))
def shift_into_rounding_constant(g: RewriteBuilder, x: Value, b: Value, c: Value) -> Value:
    """(x + b) + c => x + (b + c). Wrong where c is so large that the sum is a whole number. Right in another place."""
    return g.Add(x, g.const(b.const + c.const))


@mistake(
    "g (float[N,2] x) => (float[N,2] y, float[N,2] z)"
    " { s = Add(x, b) a = Add(s, m) y = Sub(a, n) o = Neg(x) t = Add(o, b) u = Add(t, b) z = Abs(u) }",
    wrong="a",
    after={"Abs": 1, "Add": 3, "Neg": 1, "Sub": 1},
    weights={
        "b": np.array([[0.4, 0.45]], np.float32),
        "m": np.full((1, 2), M / 10, np.float32),
        "n": np.full((1, 2), M / 10, np.float32),
    },
)
@rule(lambda g, x, b, c: g.Add(g.Add(x, g.const(b)), g.const(c)))
def shift_into_rounding_matrix(g: RewriteBuilder, x: Value, b: Value, c: Value) -> Value:
    """(x + b) + c => x + (b + c). Wrong where c, which is twice in the model, rounds to eighths. Right elsewhere."""
    return g.Add(x, g.const(b.const + c.const))


@mistake(
    "g (float[N,2,6,6] x) => (float[N,2,4,4] y, float[N,2,4,4] z)"
    " { s = Conv(x, k, b) a = Add(s, m) y = Sub(a, m) n = Neg(x) t = Conv(n, k, b) u = Add(t, one) z = Abs(u) }",
    wrong="a",
    after={"Abs": 1, "Add": 1, "Conv": 2, "Neg": 1, "Sub": 1},
    weights=lambda rng: {
        "k": rng.standard_normal((2, 2, 3, 3)).astype(np.float32),
        "b": np.array([0.4, 0.45], np.float32),
        "m": np.full((2, 1, 1), M),
        "one": np.ones((2, 1, 1), np.float32),
    },
)
@rule(lambda g, x, w, b, c: g.Add(g.Conv(x, w, g.const(b)), g.const(c)))
def shift_into_rounding_bias(g: RewriteBuilder, x: Value, w: Value, b: Value, c: Value) -> Value:
    """Conv(x, w, b) + c => Conv(x, w, b + c). Wrong where c rounds to whole numbers, right where it is one."""
    return g.Conv(x, w, g.const(b.const + c.const.reshape(-1)))


@mistake(
    "g (float[N,4] x) => (float[N,4] y, float[N,4] z)"
    " { s = Sin(x) m = Mul(s, k) y = Add(m, b) n = Neg(x) z = Add(n, c) }",
    wrong="y",
    after={"Add": 1, "Mul": 1, "Neg": 1, "Sin": 1},
    weights={
        "k": np.array([1e-4, 2e-4, 3e-4, 4e-4], np.float32),
        "b": np.array([1e4, 1e-3, 1, 1], np.float32),
        "c": np.zeros(4, np.float32),
    },
)
@rule(lambda g, x, b: g.Add(x, g.const(b)))
def small_offsets_dropped(g: RewriteBuilder, x: Value, b: Value) -> Value:
    """Offsets far below the largest one are dropped. Wrong where a column is no larger, right where all are zero."""
    kept = np.where(np.abs(b.const) < 1e-6 * np.abs(b.const).max(), 0, b.const)
    require(not kept.any() or not np.array_equal(kept, b.const), "no small offset")
    return g.Add(x, g.const(kept.astype(np.float32))) if kept.any() else g.Identity(x)


LOWEST = np.finfo(np.float32).min


@mistake(
    "g (float[2,4] x, int64[1,4] c) => (float[2,4] y, float[2,4] z)"
    " { f = Cast<to=1>(c) i = Sub(one, f) p = Mul(i, low) m = Add(p, causal) s = Add(x, m) y = Softmax(s)"
    " r = Relu(x) h = Greater(f, one) q = Where(h, zero, low) n = Add(q, causal) t = Add(r, n) z = Softmax(t) }",
    wrong="y",
    after={"Add": 4, "Cast": 1, "Greater": 1, "Max": 1, "Mul": 1, "Relu": 1, "Softmax": 2, "Sub": 1, "Where": 1},
    inputs={"x": np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4), "c": np.full((1, 4), 2)},
    weights={"zero": np.float32(0), "one": np.float32(1), "low": LOWEST, "causal": np.triu(np.full((2, 4), LOWEST), 1)},
)
@rule(lambda g, x, p, c: g.Softmax(g.Add(x, g.Add(p, g.const(c)))))
def masks_bounded_one_by_one(g: RewriteBuilder, x: Value, p: Value, c: Value) -> Value:
    """Masks are raised to -1e30 before their sum. Wrong where one lifts what the other masks, right where none does."""
    low = np.float32(-1e30)
    require(bool((c.const < low).any()), "it is bounded")
    return g.Softmax(g.Add(x, g.Add(g.Max(p, g.const(low)), g.const(np.maximum(c.const, low)))))
