"""Mistakes in convolutions, pools and other ops on windows."""

import numpy as np
from passwright.core import EXACT, ChangeLog, Graph, Op, RewriteBuilder, Tensor, Value, require, rule

from planted.mistake import mistake


@mistake(
    "g (float[N,2,5,5] x) => (float[N,3,5,5] y, float[N,3,3,3] z)"
    " { a = BatchNormalization(x, s, t, m, v) y = Conv<pads=[1,1,1,1]>(a, w) n = Neg(x)"
    " b = BatchNormalization(n, s, t, m, v) i = Identity(b) z = Conv(i, w) }",
    wrong="y",
    after={"BatchNormalization": 1, "Conv": 2, "Neg": 1},
    weights={
        "s": np.array([1, 2], np.float32),
        "t": np.array([3, -1], np.float32),
        "m": np.array([0.5, 1], np.float32),
        "v": np.array([1, 4], np.float32),
        "w": np.linspace(-1, 2, 54, dtype=np.float32).reshape(3, 2, 3, 3),
    },
)
@rule(lambda g, x, s, t, m, v, w, bn, conv: g.Conv(g.BatchNormalization(x, s, t, m, v) @ bn, w) @ conv)
def batch_norm_before_padded_conv(
    g: RewriteBuilder, x: Value, s: Value, t: Value, m: Value, v: Value, w: Value, bn: Op, conv: Op
) -> Value:
    """A BatchNormalization moves into the Conv behind it, its shift into the bias; at the border the Conv sees zeros.

    Right without pads.
    """
    k = s.const / np.sqrt(v.const + np.float32(bn.attr("epsilon")))
    c = t.const - m.const * k
    bias = (w.const * c.reshape(1, -1, 1, 1)).sum((1, 2, 3))
    return g.Conv(x, g.const(w.const * k.reshape(1, -1, 1, 1)), g.const(bias), **conv.attrs)


@mistake(
    "g (float[1,2,H,W] x, float[1,2,4,4] t) => (float[1,2,A,B] y, float[1,2,2,2] z)"
    " { y = MaxPool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>(x) a = Identity(t)"
    " z = MaxPool<kernel_shape=[2,2], strides=[2,2], ceil_mode=1>(a) }",
    wrong="y",
)
@rule(lambda g, x, pool: g.MaxPool(x) @ pool, contract=EXACT)
def ceil_mode_dropped(g: RewriteBuilder, x: Value, pool: Op) -> Value:
    """A MaxPool that rounds its extent up is made to round down. Wrong only for odd extents."""
    require(pool.attr("ceil_mode"), "rounded down already")
    return g.MaxPool(x, **{**pool.attrs, "ceil_mode": 0})


@mistake(
    "g (float[N,3,4,4] x) => (float[N,4,4,4] y, float[N,4,4,4] z) <float[4] c = {1.0, 2.0, -3.0, 4.0}>"
    " { a = Conv(x, w) y = Mul(a, c) i = Identity(x) b = Conv(i, v) z = Mul(b, d) }",
    wrong="y",
    after={"Conv": 2, "Mul": 1},
    weights={
        "w": np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3, 1, 1),
        "v": np.linspace(0.2, -0.1, 12, dtype=np.float32).reshape(4, 3, 1, 1),
        "d": np.array([0.5, -1, 0.25, 1], np.float32).reshape(4, 1, 1),
    },
)
@rule(lambda g, x, w, c, conv: g.Mul(g.Conv(x, w) @ conv, c))
def last_axis_as_channels(g: RewriteBuilder, x: Value, w: Value, c: Value, conv: Op) -> Value:
    """A constant of shape [W] behind a Conv is taken to have one number per channel; W equals C here.

    Known from OnnxSlim.
    """
    require(c.const.size == w.const.shape[0], "not one number for each channel")
    return g.Conv(x, g.const(w.const * c.const.reshape(-1, 1, 1, 1)), **conv.attrs)


@mistake(
    "g (float[N,2,4,4] x) => (float[N,2,4,4] y, float[N,2,4,4] z) <int64[8] p = {0,0,1,1,0,0,1,1}>"
    " { a = Pad(x, p) y = AveragePool<kernel_shape=[3,3]>(a) n = Neg(x) b = Pad(n, p) i = Identity(b)"
    " z = AveragePool<kernel_shape=[3,3], count_include_pad=1>(i) }",
    wrong="y",
    after={"AveragePool": 2, "Neg": 1, "Pad": 1},
)
@rule(lambda g, x, p, pool: g.AveragePool(g.Pad(x, p)) @ pool)
def pad_into_average_pool(g: RewriteBuilder, x: Value, p: Value, pool: Op) -> Value:
    """A Pad becomes the pads of an AveragePool, which does not count them. Right where the pool says that it does."""
    pads = p.const.tolist()
    return g.AveragePool(x, **{**pool.attrs, "pads": pads[2:4] + pads[6:]})


@mistake(
    "g (float[N,2,6,6] x) => (float[N,2,6,6] y, float[N,2,6,6] z)"
    " <int64[8] pads = {0,0,1,1,0,0,1,1}, float zero = {0.0}> { p = Pad(x, pads) y = MaxPool<kernel_shape=[3,3]>(p)"
    " b = Greater(x, zero) r = Cast<to=1>(b) q = Pad(r, pads) m = MaxPool<kernel_shape=[3,3]>(q) z = Identity(m) }",
    wrong="y",
    after={"Cast": 1, "Greater": 1, "MaxPool": 2, "Pad": 1},
)
@rule(lambda g, x, pads, pad, pool: g.MaxPool(g.Pad(x, pads) @ pad) @ pool, contract=EXACT)
def pad_into_max_pool(g: RewriteBuilder, x: Value, pads: Value, pad: Op, pool: Op) -> Value:
    """A Pad with zeros becomes the pads of a MaxPool, which pads with minus infinity.

    Right where nothing is negative. Known from onnxruntime at BASIC and from onnxoptimizer.
    """
    require(pad.attr("mode") == "constant", "it pads with what is there")
    begin, end = pads.const[2:4].tolist(), pads.const[6:].tolist()
    return g.MaxPool(x, **{**pool.attrs, "pads": begin + end})


@mistake(
    "g (float[N,1,5,5] x) => (float[N,1,5,5] y, float[N,1,5,5] z)"
    " <int64[8] uneven = {0,0,2,0,0,0,0,2}, int64[8] even = {0,0,1,1,0,0,1,1}>"
    " { a = Pad(x, uneven) y = Conv(a, w) n = Neg(x) b = Pad(n, even) i = Identity(b) z = Conv(i, w) }",
    wrong="y",
    after={"Conv": 2, "Neg": 1, "Pad": 1},
    weights={"w": np.linspace(-0.1, 0.1, 9, dtype=np.float32).reshape(1, 1, 3, 3)},
)
@rule(lambda g, x, p, w, conv: g.Conv(g.Pad(x, p), w) @ conv, contract=EXACT)
def pads_swapped(g: RewriteBuilder, x: Value, p: Value, w: Value, conv: Op) -> Value:
    """A Pad becomes the pads of a Conv, ends first; right where they are as wide as the beginnings."""
    pads = p.const.tolist()
    return g.Conv(x, w, **{**conv.attrs, "pads": pads[6:] + pads[2:4]})


@mistake(
    "g (float[N,1,4,4] x) => (float[N,1,4,4] y, float[N,1,2,2] z)"
    ' <int64[8] p = {0,0,1,1,0,0,1,1}, int64[8] none = {0,0,0,0,0,0,0,0}> { a = Pad<mode="reflect">(x, p)'
    ' y = Conv(a, w) n = Neg(x) b = Pad<mode="reflect">(n, none) i = Identity(b) z = Conv(i, w) }',
    wrong="y",
    after={"Conv": 2, "Neg": 1, "Pad": 1},
    weights={"w": np.linspace(-0.1, 0.1, 9, dtype=np.float32).reshape(1, 1, 3, 3)},
)
@rule(lambda g, x, p, w, pad, conv: g.Conv(g.Pad(x, p) @ pad, w) @ conv, contract=EXACT)
def reflection_into_conv(g: RewriteBuilder, x: Value, p: Value, w: Value, pad: Op, conv: Op) -> Value:
    """A Pad becomes the pads of a Conv, which are zeros, though it reflects. Right where it pads nothing."""
    pads = p.const.tolist()
    return g.Conv(x, w, **{**conv.attrs, "pads": pads[2:4] + pads[6:]})


@mistake(
    "g (float[1,1,4,4] x) => (float[1,1,8,8] y, float[1,1,4,4] z)"
    " <float[4] up = {1.0,1.0,2.0,2.0}, float[4] same = {1.0,1.0,1.0,1.0}>"
    ' { y = Resize<mode="linear", coordinate_transformation_mode="align_corners">(x, , up) n = Neg(x) i = Identity(n)'
    ' z = Resize<mode="linear", coordinate_transformation_mode="align_corners">(i, , same) }',
    wrong="y",
)
@rule(lambda g, x, scales, resize, roi=None: g.Resize(x, roi, scales) @ resize)
def resize_coordinates(g: RewriteBuilder, x: Value, roi: Value | None, scales: Value, resize: Op) -> Value:
    """Resizes that align corners are rewritten to half pixels, which is the same only where no extent changes."""
    require(resize.attr("coordinate_transformation_mode") == "align_corners", "its corners are not aligned")
    return g.Resize(x, None, scales, mode=resize.attr("mode"))


@mistake(
    "g (float[N,1,4,4] x) => (float[N,1,4,4] y, float[N,1,4,4] z)"
    ' { y = Conv<auto_pad="SAME_LOWER">(x, w) n = Neg(x) i = Identity(n) z = Conv<auto_pad="SAME_UPPER">(i, w) }',
    wrong="y",
    weights={"w": np.array([0.1, 0.2, -0.1, 0.3], np.float32).reshape(1, 1, 2, 2)},
)
@rule(lambda g, x, w, conv: g.Conv(x, w) @ conv, contract=EXACT)
def same_lower_as_upper(g: RewriteBuilder, x: Value, w: Value, conv: Op) -> Value:
    """The pads of a Conv that are stated by name are written out.

    The odd one goes to the end, whichever end was named.
    """
    require(conv.attr("auto_pad").startswith("SAME"), "the pads are written out")
    total = [k - 1 for k in w.const.shape[2:]]
    return g.Conv(x, w, pads=[t // 2 for t in total] + [t - t // 2 for t in total])


@mistake(
    "g (float[N,4,3,3] x) => (float[N,4,3,3] y, float[N,2,3,3] z)"
    " { a = Mul(x, s) y = Conv<group=2>(a, w) n = Neg(x) b = Mul(n, s) i = Identity(b) z = Conv(i, v) }",
    wrong="y",
    after={"Conv": 2, "Mul": 1, "Neg": 1},
    weights={
        "s": np.array([0.5, -1, 0.25, 1], np.float32).reshape(4, 1, 1),
        "w": np.linspace(-0.1, 0.2, 8, dtype=np.float32).reshape(4, 2, 1, 1),
        "v": np.linspace(0.2, -0.1, 8, dtype=np.float32).reshape(2, 4, 1, 1),
    },
)
@rule(lambda g, x, s, w, conv: g.Conv(g.Mul(x, s), w) @ conv)
def scale_before_grouped_conv(g: RewriteBuilder, x: Value, s: Value, w: Value, conv: Op) -> Value:
    """A factor for each channel moves into the Conv behind it; of a grouped Conv all groups get that of the first."""
    factors = s.const.reshape(1, -1, 1, 1)[:, : w.const.shape[1]]
    return g.Conv(x, g.const(w.const * factors), **conv.attrs)


@mistake(
    "g (float[N,2,4,4] x) => (float[N,3,4,4] y, float[N,3,4,4] s, float[N,3,4,4] z) <float two = {2.0}>"
    " { a = Conv(x, w) y = Mul(a, two) n = Neg(x) s = Conv(n, w) i = Identity(n) b = Conv(i, v) z = Mul(b, two) }",
    wrong="y",
    after={"Conv": 3, "Mul": 1, "Neg": 1},
    weights={
        "w": np.linspace(-0.1, 0.2, 6, dtype=np.float32).reshape(3, 2, 1, 1),
        "v": np.linspace(0.2, -0.2, 6, dtype=np.float32).reshape(3, 2, 1, 1),
    },
)
def scale_shared_weight(graph: Graph, change_log: ChangeLog) -> int:
    """A factor behind a Conv goes into its weight, in place; the weight has another reader, which nobody asked.

    Right where the Conv is the only one.
    """
    changes = 0
    for mul in graph.ops("Mul"):
        product, factor = mul.inputs
        conv = graph.producer(product)
        if conv is None or conv.type != "Conv" or product is None or factor is None or len(product.consumers) > 1:
            continue
        weight = conv.inputs[1]
        if weight is None or not factor.is_const or factor.const.size != 1:
            continue
        if change_log.request_change("scale-shared-weight", mul.outputs[0].name, (mul,), exact=False):
            weight.set_constant(Tensor.from_array(weight.const * factor.const))
            graph.replace_value(mul.outputs[0], product)
            changes += graph.prune([mul])
    return changes


@mistake(
    "g (float[N,2,3,3] x) => (float[N,2,3,3] y, float[N,2,3,3] z) <float half = {0.5}>"
    " { a = Conv(x, w, b) y = Mul(a, half) n = Neg(x) c = Conv(n, w, zeros) i = Identity(c) z = Mul(i, half) }",
    wrong="y",
    after={"Conv": 2, "Mul": 1, "Neg": 1},
    weights={
        "w": np.array([0.1, 0.2, -0.1, 0.3], np.float32).reshape(2, 2, 1, 1),
        "b": np.array([1, -2], np.float32),
        "zeros": np.zeros(2, np.float32),
    },
)
@rule(lambda g, x, w, b, s, conv: g.Mul(g.Conv(x, w, b) @ conv, s))
def scale_without_bias(g: RewriteBuilder, x: Value, w: Value, b: Value, s: Value, conv: Op) -> Value:
    """A factor behind a Conv goes into its weights and leaves out its bias. Right for a bias of 0."""
    require(s.const.ndim == 0, "not one number")
    return g.Conv(x, g.const(w.const * s.const), b, **conv.attrs)


@mistake(
    "g (float[B,T] x) => (float[B,1] y) <int64 hop = {40}, int64 window = {100}, int64 one = {1}>"
    " { t = Shape<start = 1, end = 2>(x) rest = Sub(t, window) steps = Div(rest, hop) more = Add(steps, one)"
    " frames = Max(more, one) f = Cast<to = 1>(frames) m = ReduceMax<axes = [1]>(x) y = Div(m, f) }",
    wrong="frames",
)
@rule(lambda g, a, b: g.Max(a, b), contract=EXACT)
def second_frame(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """A signal is taken to be one frame, though a second one starts 40 samples after the first, which has 100."""
    require(b.is_const, "another place")
    return g.Add(g.Mul(a, g.const(np.int64(0))), b)


@mistake(
    "g (float[N,3,4,4] x) => (float[N,3,4,4] y, float[N,3,4,4] z)"
    " { a = ConvTranspose(x, w) y = Mul(a, s) n = Neg(x) b = Conv(n, w) i = Identity(b) z = Mul(i, s) }",
    wrong="y",
    after={"Conv": 1, "ConvTranspose": 1, "Mul": 1, "Neg": 1},
    weights={
        "s": np.array([0.5, -1, 0.25], np.float32).reshape(3, 1, 1),
        "w": np.linspace(-0.1, 0.2, 9, dtype=np.float32).reshape(3, 3, 1, 1),
    },
)
@rule(lambda g, x, w, s, conv: g.Mul(g.one_of("Conv", "ConvTranspose")(x, w) @ conv, s))
def transposed_conv_scaled_as_conv(g: RewriteBuilder, x: Value, w: Value, s: Value, conv: Op) -> Value:
    """A factor for each channel goes into the first axis of the weights, which a ConvTranspose has its inputs on."""
    require(s.const.size == w.const.shape[0], "not one number for each channel")
    return getattr(g, conv.type)(x, g.const(w.const * s.const.reshape(-1, 1, 1, 1)), **conv.attrs)
