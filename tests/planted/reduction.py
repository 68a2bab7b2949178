"""Mistakes in reductions and normalizations."""

import numpy as np
from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

from planted.mistake import mistake


@mistake(
    "g (float[2,4,4,4] x) => (float[2,1,1,4] y, float[2,4,1,1] z)"
    " { y = ReduceMean<axes=[1,2]>(x) n = Tanh(x) i = Identity(n) z = ReduceMean<axes=[-1,-2]>(i) }",
    wrong="y",
    after={"GlobalAveragePool": 1, "ReduceMean": 1, "Tanh": 1},
)
@rule(lambda g, x, axes: g.ReduceMean(x, axes=axes))
def average_axes(g: RewriteBuilder, x: Value, axes: list[int]) -> Value:
    """A ReduceMean over two axes becomes GlobalAveragePool, whichever two they are."""
    require(x.rank == 4 and len(axes) == 2, "not two of four axes")
    return g.GlobalAveragePool(x)


@mistake(
    "g (float[N,2,4,4] x) => (float[N,3,4,4] y, float[N,3,4,4] z)"
    " { a = Conv(x, w) y, p, q = BatchNormalization<training_mode=1>(a, s, t, m, v) n = Neg(x) b = Conv(n, w)"
    " z = BatchNormalization(b, k, k, k, k) }",
    wrong="y",
    after={"BatchNormalization": 1, "Conv": 2, "Neg": 1},
    weights={
        **{name: np.array([1, 2, i], np.float32) for i, name in enumerate("stmvk", 1)},
        "w": np.linspace(-1, 2, 6, dtype=np.float32).reshape(3, 2, 1, 1),
    },
)
@rule(lambda g, x, w, s, t, m, v, bn, conv: g.BatchNormalization(g.Conv(x, w) @ conv, s, t, m, v) @ bn)
def batch_norm_that_trains(
    g: RewriteBuilder, x: Value, w: Value, s: Value, t: Value, m: Value, v: Value, bn: Op, conv: Op
) -> Value:
    """A BatchNormalization in training form goes into the Conv before it, with statistics that it does not use."""
    k = s.const / np.sqrt(v.const + np.float32(bn.attr("epsilon")))
    return g.Conv(x, g.const(w.const * k.reshape(-1, 1, 1, 1)), g.const(t.const - m.const * k), **conv.attrs)


@mistake(
    "g (float[N,2,3] x) => (float[N,2,3] y, float[N,2,3] z) { y = BatchNormalization(x, s, t, m, v) n = Neg(x)"
    " i = Identity(n) z = BatchNormalization<epsilon=0.0>(i, s, t, m, v) }",
    wrong="y",
    after={"Add": 1, "BatchNormalization": 1, "Mul": 1, "Neg": 1},
    weights={
        "s": np.array([1, 2], np.float32),
        "t": np.array([3, -1], np.float32),
        "m": np.array([0.5, 1], np.float32),
        "v": np.array([0.01, 1], np.float32),
    },
)
@rule(lambda g, x, s, t, m, v, bn: g.BatchNormalization(x, s, t, m, v) @ bn)
def batch_norm_without_epsilon(g: RewriteBuilder, x: Value, s: Value, t: Value, m: Value, v: Value, bn: Op) -> Value:
    """BatchNormalization becomes Mul and Add, without the epsilon beside a small variance.

    Right where epsilon is 0.
    """
    k = s.const / np.sqrt(v.const)
    c = t.const - m.const * k
    return g.Add(g.Mul(x, g.const(k.reshape(-1, 1))), g.const(c.reshape(-1, 1)))


@mistake(
    "g (float[N,8] x) => (float[N,8] y, float[N,8] z) <float half = {0.5}, bool yes = {1}, bool no = {0}>"
    " { a = Neg(x) d = Dropout(a, half, yes) y = Abs(d) b = Exp(a) c = Dropout(b, half, no) z = Abs(c) }",
    wrong="d",
    after={"Abs": 2, "Dropout": 1, "Exp": 1, "Neg": 1},
)
@rule(lambda g, x, rest: g.Dropout(x, *rest), contract=EXACT)
def dropout_that_trains(g: RewriteBuilder, x: Value, rest: tuple[Value | None, ...]) -> Value:
    """A Dropout goes, though it is in training form."""
    return x


@mistake(
    "g (float[N,4,1] x) => (float[N,1,1] y, float[N,4,1] z)"
    " { a = Neg(x) y = ReduceMax<axes=[1]>(a) t = Tanh(x) b = Neg(t) i = Identity(b) z = ReduceMax<axes=[2]>(i) }",
    wrong="y",
)
@rule(lambda g, x, a: g.ReduceMax(g.Neg(x), axes=a), contract=EXACT)
def greatest_of_negated(g: RewriteBuilder, x: Value, a: list[int]) -> Value:
    """ReduceMax(-x) becomes -ReduceMax(x) instead of -ReduceMin(x). Right along an axis of one element."""
    return g.Neg(g.ReduceMax(x, axes=a))


@mistake(
    "g (float[N,3,4] x) => (float[N,3,4] y, float[N,3,4] z) <float eps = {0.001}, float[4] w = {1.0,2.0,4.0,8.0}>"
    " { m = ReduceMean<axes=[1]>(x) d = Sub(x, m) q = Mul(d, d) v = ReduceMean<axes=[1]>(q) e = Add(v, eps)"
    " r = Sqrt(e) y = Div(d, r) s = Sigmoid(x) n = Add(s, w) m2 = ReduceMean<axes=[-1]>(n) d2 = Sub(n, m2)"
    " q2 = Mul(d2, d2) v2 = ReduceMean<axes=[-1]>(q2) e2 = Add(v2, eps) r2 = Sqrt(e2) z = Div(d2, r2) }",
    wrong="y",
    after={"Add": 2, "Div": 1, "LayerNormalization": 1, "Mul": 1, "ReduceMean": 2, "Sigmoid": 1, "Sqrt": 1, "Sub": 1},
)
@rule(
    lambda g, x, e, a: g.Div(
        g.Sub(x, g.ReduceMean(x, axes=a)),
        g.Sqrt(
            g.Add(g.ReduceMean(g.Mul(g.Sub(x, g.ReduceMean(x, axes=a)), g.Sub(x, g.ReduceMean(x, axes=a))), axes=a), e)
        ),
    )
)
def layer_norm_on_any_axis(g: RewriteBuilder, x: Value, e: Value, a: list[int]) -> Value:
    """A normalization by parts becomes LayerNormalization, which has all axes from one on; this is in the middle."""
    axis = a[0] % x.rank
    scale = g.const(np.ones(1, np.float32))
    return g.LayerNormalization(x, g.Expand(scale, g.const([x.shape[axis]])), axis=axis, epsilon=e.const.item())


@mistake(
    "g (float[N,M] x, int64[A] axes) => (float[P,Q] y) { y = ReduceSum <noop_with_empty_axes = 1> (x, axes) }",
    wrong="y",
)
@rule(lambda g, x, axes: g.ReduceSum(x, axes, noop_with_empty_axes=1), contract=EXACT)
def no_axes_as_all_axes(g: RewriteBuilder, x: Value, axes: Value) -> Value:
    """A ReduceSum of no axes, which gives its input, becomes one of all axes."""
    return g.ReduceSum(x, axes)


@mistake(
    "g (float[3,3,3] x) => (float[3] y, float[3] z) <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}>"
    " { t = Tanh(x) a = ReduceSum<keepdims=0>(t, zero) y = ReduceSum<keepdims=0>(a, one) n = Neg(t)"
    " b = ReduceSum<keepdims=0>(n, two) i = Identity(b) z = ReduceSum<keepdims=0>(i, one) }",
    wrong="y",
    after={"Neg": 1, "ReduceSum": 3, "Tanh": 1},
)
@rule(lambda g, x, a, b: g.ReduceSum(g.ReduceSum(x, a, keepdims=0), b, keepdims=0))
def reduce_of_reduce(g: RewriteBuilder, x: Value, a: Value, b: Value) -> Value:
    """Two ReduceSums merge, their axes put together; the second counts its axes without those that the first took."""
    return g.ReduceSum(x, g.const(np.concatenate([a.const, b.const])), keepdims=0)


@mistake(
    "g (float[N,1] x) => (float[N,1] y, float[N,1] z) <int64 axis = {1}>"
    " { y = CumSum<exclusive=1>(x, axis) n = Neg(x) i = CumSum<reverse=1>(n, axis) z = Abs(i) }",
    wrong="y",
    after={"Abs": 1, "CumSum": 1, "Neg": 1},
)
@rule(lambda g, x, axis, op: g.CumSum(x, axis) @ op, contract=EXACT)
def running_sum_exclusive(g: RewriteBuilder, x: Value, axis: Value, op: Op) -> Value:
    """A CumSum along an axis of one element goes; an exclusive one gives 0 there."""
    require(x.shape[axis.const.item()] == 1, "more than one element")
    return x


@mistake(
    "g (float[N,3,4] x) => (float[N,3,4] y, float[N,3,4] z) { t = Tanh(x) e = Exp(t) s = ReduceSum<axes=[1]>(e)"
    " y = Div(e, s) n = Neg(t) f = Exp(n) u = ReduceSum<axes=[2]>(f) z = Div(f, u) }",
    wrong="y",
    after={"Div": 1, "Exp": 1, "Neg": 1, "ReduceSum": 1, "Softmax": 1, "Tanh": 1},
    opset=11,
)
@rule(lambda g, x, axes: g.Div(g.Exp(x), g.ReduceSum(g.Exp(x), axes=axes)))
def softmax_by_parts(g: RewriteBuilder, x: Value, axes: list[int]) -> Value:
    """Exp(x) / ReduceSum(Exp(x)) becomes Softmax, at an opset where Softmax flattens all axes from the given one on.

    Right on the last axis.
    """
    require(len(axes) == 1, "Softmax has one axis")
    return g.Softmax(x, axis=axes[0])


@mistake(
    "g (float[N,3,4] x, float[N,4] t) => (float[N,3,4] y, float[N,4] z)"
    " { a = Tanh(x) b = Softmax(a) y = Log(b) c = Tanh(t) d = Softmax(c) i = Identity(d) z = Log(i) }",
    wrong="y",
    after={"Log": 1, "LogSoftmax": 1, "Softmax": 1, "Tanh": 2},
    opset=11,
)
@rule(lambda g, x: g.Log(g.Softmax(x)))
def softmax_default_axis(g: RewriteBuilder, x: Value) -> Value:
    """The axis of a Softmax that states none is taken to be the last; before opset 13 it is 1, with all that follow."""
    return g.LogSoftmax(x, axis=x.rank - 1)
