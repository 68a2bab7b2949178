"""Regions that are wrong beside extents that many operators decide, or in types that these exceed: none is proved."""

import re

import pytest
import test_extent_limits
from rewriting import load, table
from test_extent_limits import proofs
from tiers import slow_unless

CONSTANTS = (
    "int64 zero = {0}, int64 one = {1}, int64[1] zeros = {0}, int64[1] ones = {1}, int64 c = {37}, int64[1] cs = {37},"
    " float f = {37}, float h = {37.5}, float unit = {1}, float two = {2}, int64[2] last = {-1, 1}, float zf = {0},"
    " int64 seven = {7}, int64 two_i = {2}, int64[1] two_is = {2}, int64 four = {4}, int64[1] four_s = {4},"
    " float four_f = {4}, float halff = {0.5}, float three_f = {3}, uint64 five_u = {5}, int64 sixty_four = {64},"
    " int32 k32 = {3000000}, int32 z32 = {0}, int64 k64 = {300000000000000000}, uint32 ku = {37},"
    " int64[1] minus = {-1}, int64[1] big = {9223372036854775807}, int64[1] small = {-9223372036854775807}"
)
GRAPHS = {
    "SQUARE": "g (float[N,N] x) => (float[A,B] y)",
    "SIGNAL": "g (float[1,1,L] x) => (float[A,B,C] y)",
    "THREE": "g (float[N,M,K] x) => (float[A,B,C] y)",
    **{name: getattr(test_extent_limits, name) for name in ("X", "TWO", "LINE", "IMAGE")},
}
SHARED = re.compile(r"\b(NEG|SWITCH|SCALE|EXTENT|RANGE|OF_TWO)\b")  # of the other table
REGIONS = table("""
    both limits [first; TWO]: NEG => OF_TWO u = Greater(n, c) v = Equal(m, seven) b = And(u, v) SWITCH
    both limits larger [TWO]: NEG => OF_TWO u = Greater(n, c) v = Greater(m, seven) b = And(u, v) SWITCH
    short but wide [first; TWO]: NEG => OF_TWO u = Less(n, two_i) v = Greater(m, c) b = And(u, v) SWITCH
    quotient of extents [TWO]: NEG => OF_TWO q = Div(n, m) b = Equal(q, seven) SWITCH
    difference [TWO]: NEG => OF_TWO q = Sub(n, m) b = Equal(q, c) SWITCH
    remainder of extents [first; TWO]: NEG => OF_TWO q = Mod(n, m) b = Equal(q, seven) SWITCH
    remainder by hand [TWO]: NEG => OF_TWO k = Div(n, m) u = Mul(k, m) q = Sub(n, u) b = Equal(q, seven) SWITCH
    large remainder [TWO]: NEG => OF_TWO q = Mod(n, m) b = Greater(q, c) SWITCH
    remainder of large extents [TWO]: NEG => OF_TWO q = Mod(n, m) u = Equal(q, seven) v = Greater(n, c) b = And(u, v)
        SWITCH
    remainder of floats [TWO]: NEG => OF_TWO u = Cast<to=1>(n) v = Cast<to=1>(m) q = Mod<fmod=1>(u, v) b = Equal(q, f)
        SWITCH
    difference at an extent [first; TWO]: NEG => OF_TWO q = Sub(n, m) u = Equal(q, seven) v = Equal(m, c) b = And(u, v)
        SWITCH
    quotient of large extents [TWO]: NEG => OF_TWO q = Div(n, m) u = Equal(q, two_i) v = Greater(m, c) b = And(u, v)
        SWITCH
    product minus [TWO]: NEG => OF_TWO q = Mul(n, m) w = Sub(q, n) b = Greater(w, c) SWITCH
    three extents [THREE]: NEG => OF_TWO k = Gather<axis=0>(s, two_i) q = Mul(n, m) w = Mul(q, k) u = Mul(c, c)
        b = Greater(w, u) SWITCH
    third extent [THREE]: NEG => OF_TWO k = Gather<axis=0>(s, two_i) b = Greater(k, c) SWITCH
    largest of shape [TWO]: NEG => s = Shape(x) q = ReduceMax<keepdims=0>(s) b = Greater(q, c) SWITCH
    product of shape [TWO]: NEG => s = Shape(x) q = ReduceProd<keepdims=0>(s) u = Mul(c, c) b = Greater(q, u) SWITCH
    ones of data: NEG => q = Equal(x, x) o1 = Cast<to=1>(q) q1 = ReduceSum<keepdims=0>(o1) q2 = Div(q1, f)
        b = Greater(q2, three_f) SWITCH
    exp of zeros of data: NEG => z = Sub(x, x) o1 = Exp(z) q1 = ReduceSum<keepdims=0>(o1) q2 = Div(q1, f)
        b = Greater(q2, three_f) SWITCH
    sign of data: NEG => z = Abs(x) z1 = Add(z, unit) o1 = Sign(z1) q1 = ReduceSum<keepdims=0>(o1) q2 = Div(q1, f)
        b = Greater(q2, three_f) SWITCH
    zeros times data: NEG => z = Mul(x, zf) o1 = Add(z, unit) t1 = Transpose(o1) q1 = MatMul(t1, o1)
        q2 = ReduceMax<keepdims=0>(q1) b = Greater(q2, f) SWITCH
    softmax of zeros: NEG => z = Sub(x, x) p1 = Softmax<axis=0>(z) q1 = ReduceMax<keepdims=0>(p1) q2 = Reciprocal(q1)
        b = Greater(q2, h) SWITCH
    logsumexp of zeros: NEG => z = Sub(x, x) q1 = ReduceLogSumExp<keepdims=0>(z) q2 = Exp(q1) q3 = Div(q2, f)
        b = Greater(q3, three_f) SWITCH
    norm of ones: NEG => EXTENT z = Reshape(n, ones) o = ConstantOfShape<value=float[1]{1}>(z)
        q1 = ReduceL2<keepdims=0>(o) q2 = Mul(q1, q1) b = Greater(q2, h) SWITCH
    product of ones: NEG => EXTENT z = Reshape(n, ones) o = ConstantOfShape<value=float[1]{1}>(z)
        t1 = Unsqueeze(o, zeros) t2 = Unsqueeze(o, ones) q1 = MatMul(t1, t2) q2 = ReduceMax<keepdims=0>(q1)
        b = Greater(q2, h) SWITCH
    softmax of ones: NEG => EXTENT z = Reshape(n, ones) o = ConstantOfShape<value=float[1]{1}>(z)
        p1 = Softmax<axis=0>(o) q1 = ReduceMax<keepdims=0>(p1) q2 = Reciprocal(q1) b = Greater(q2, h) SWITCH
    mean of positions: NEG => RANGE q1 = ReduceMean<keepdims=0>(r) b = Greater(q1, h) SWITCH
    argmax of positions: NEG => RANGE q1 = ArgMax<keepdims=0>(r) b = Greater(q1, c) SWITCH
    top of positions: NEG => RANGE q1, q0 = TopK(r, ones) q2 = ReduceMax<keepdims=0>(q1) b = Greater(q2, f) SWITCH
    count of nonzero: NEG => EXTENT z = Reshape(n, ones) o = ConstantOfShape<value=float[1]{1}>(z) nz = NonZero(o)
        q1 = Size(nz) b = Greater(q1, c) SWITCH
    nonzero of positions: NEG => RANGE g1 = Greater(r, f) nz = NonZero(g1) q1 = Size(nz) b = Greater(q1, zero) SWITCH
    unique: NEG => RANGE g1 = Min(i, c) un = Unique(g1) q1 = Size(un) d1 = Sub(n, q1) b = Greater(d1, zero) SWITCH
    compress: NEG => RANGE g1 = LessOrEqual(i, c) cm = Compress<axis=0>(i, g1) q1 = Size(cm) b = Less(q1, n) SWITCH
    int8 wrap [first]: EXTENT y = Mul(x, e) => EXTENT n8 = Cast<to=3>(n) e8 = Cast<to=1>(n8) y = Mul(x, e8)
    int16 wrap: EXTENT y = Mul(x, e) => EXTENT n8 = Cast<to=5>(n) e8 = Cast<to=1>(n8) y = Mul(x, e8)
    half extent [first]: EXTENT y = Mul(x, e) => EXTENT n8 = Cast<to=10>(n) e8 = Cast<to=1>(n8) y = Mul(x, e8)
    half extent of float: EXTENT y = Mul(x, e) => EXTENT n8 = Cast<to=10>(e) e8 = Cast<to=1>(n8) y = Mul(x, e8)
    bfloat positions [first]: RANGE y = Mul(x, p) => RANGE n8 = Cast<to=16>(p) e8 = Cast<to=1>(n8) y = Mul(x, e8)
    int8 positions: RANGE y = Mul(x, p) => RANGE n8 = Cast<to=3>(i) e8 = Cast<to=1>(n8) p8 = Reshape(e8, last)
        y = Mul(x, p8)
    int32 square: NEG => EXTENT n4 = Cast<to=6>(n) q4 = Mul(n4, n4) q5 = Mul(q4, q4) q0 = Cast<to=7>(q5)
        b = Less(q0, zero) SWITCH
    exp overflow [first]: NEG => EXTENT q1 = Exp(e) b = IsInf(q1) SWITCH
    exp of extents [first]: NEG => EXTENT q1 = Exp(e) q2 = Div(q1, q1) t = Neg(x) y = Mul(t, q2)
    bits [first]: NEG => EXTENT n4 = Cast<to=13>(n) q4 = BitShift<direction="RIGHT">(n4, five_u) q0 = Cast<to=7>(q4)
        b = Greater(q0, zero) SWITCH
    bitand [first]: NEG => EXTENT q4 = BitwiseAnd(n, sixty_four) b = Greater(q4, zero) SWITCH
    round against floor: EXTENT d = Mul(e, halff) q = Round(d) g = Add(q, unit) SCALE => EXTENT d = Mul(e, halff)
        d1 = Add(d, halff) q = Floor(d1) g = Add(q, unit) SCALE
    ceil against floor: EXTENT d = Div(e, f) q = Ceil(d) t = Neg(x) y = Mul(t, q) => EXTENT d = Div(e, f) q = Floor(d)
        q1 = Add(q, unit) t = Neg(x) y = Mul(t, q1)
    div to zero: EXTENT d = Sub(c, n) q = Div(d, four) g = Cast<to=1>(q) y = Mul(x, g) => EXTENT d = Sub(f, e)
        d1 = Div(d, four_f) q = Floor(d1) y = Mul(x, q)
    fmod: EXTENT d = Sub(c, n) q = Mod(d, four) g = Cast<to=1>(q) y = Mul(x, g) => EXTENT d = Sub(c, n)
        q = Mod<fmod=1>(d, four) g = Cast<to=1>(q) y = Mul(x, g)
    cast truncates: EXTENT d = Sub(f, e) d1 = Div(d, four_f) q = Cast<to=7>(d1) g = Cast<to=1>(q) y = Mul(x, g)
        => EXTENT d = Sub(f, e) d1 = Div(d, four_f) g = Floor(d1) y = Mul(x, g)
    mod of positions: RANGE d = Sub(c, i) q = Mod(d, four) g0 = Cast<to=1>(q) g = Reshape(g0, last) y = Mul(x, g)
        => RANGE d = Sub(c, i) q = Mod<fmod=1>(d, four) g0 = Cast<to=1>(q) g = Reshape(g0, last) y = Mul(x, g)
    hardsigmoid: NEG => EXTENT d = Sub(e, f) q = HardSigmoid<alpha=1.0,beta=0.0>(d) q1 = Sub(unit, q) t = Neg(x)
        y = Mul(t, q1)
    elu: EXTENT d = Sub(e, f) d1 = Exp(d) d2 = Sub(d1, unit) y = Mul(x, d2) => EXTENT d = Sub(e, f) q = Elu(d)
        y = Mul(x, q)
    leaky: EXTENT d = Sub(f, e) y = Mul(x, d) => EXTENT d = Sub(f, e) q = LeakyRelu(d) y = Mul(x, q)
    shrink: NEG => EXTENT q = Shrink<lambd=40.5>(e) t = Neg(x) y = Sub(t, q)
    hardswish: NEG => EXTENT d = Sub(e, f) q = HardSwish(d) q1 = Relu(q) t = Neg(x) y = Sub(t, q1)
    sign of extent: EXTENT d = Sub(e, h) q = Sign(d) y = Mul(x, q) => NEG
    sqrt of negative: NEG => EXTENT d = Sub(f, e) q = Sqrt(d) b = IsNaN(q) SWITCH
    log of negative: NEG => EXTENT d = Sub(h, e) q = Log(d) q1 = Sub(q, q) t = Neg(x) y = Add(t, q1)
    nan by acos [first]: NEG => EXTENT d = Div(e, f) q = Acos(d) q1 = Sub(q, q) t = Neg(x) y = Add(t, q1)
    pow fraction: EXTENT d = Sub(f, e) q = Mul(d, d) q1 = Sqrt(q) y = Mul(x, q1) => EXTENT d = Sub(f, e) y = Mul(x, d)
    sin period: NEG => EXTENT d = Sub(e, f) q = Abs(d) q1 = Sub(halff, q) q2 = Relu(q1) t = Neg(x) y = Sub(t, q2)
    tile: NEG => EXTENT k1 = Greater(n, c) k2 = Cast<to=7>(k1) k3 = Add(k2, one) k4 = Unsqueeze(k3, zeros)
        k5 = Concat<axis=0>(k4, ones) t = Tile(x, k5) y = Neg(t)
    expand rows [graph=g (float[N,3] x, float[1,3] w) => (float[A,B] y)]: EXTENT k4 = Unsqueeze(n, zeros)
        k5 = Concat<axis=0>(k4, ones) y = Expand(w, k5) => EXTENT k3 = Min(n, c) k4 = Unsqueeze(k3, zeros)
        k5 = Concat<axis=0>(k4, ones) y = Expand(w, k5)
    constant of shape: EXTENT k4 = Unsqueeze(n, zeros) k5 = Concat<axis=0>(k4, ones)
        w = ConstantOfShape<value=float[1]{1}>(k5) y = Mul(x, w) => EXTENT k3 = Min(n, c) k4 = Unsqueeze(k3, zeros)
        k5 = Concat<axis=0>(k4, ones) w = ConstantOfShape<value=float[1]{1}>(k5) d = Sub(n, k3) d1 = Unsqueeze(d, zeros)
        d2 = Concat<axis=0>(zeros, zeros, d1, zeros) w1 = Pad(w, d2) y = Mul(x, w1)
    topk: k4 = Shape<end=1>(x) q, q0 = TopK<axis=0>(x, k4) y = Slice(q, zeros, cs) => k3 = Shape<end=1>(x)
        k4 = Min(k3, cs) q, q0 = TopK<axis=0>(x, k4) y = Slice(q, zeros, cs)
    topk exact k [graph=g (float[N,40] x) => (float[A,B] y)]: k4 = Shape<end=1>(x) k5 = Min(k4, cs) q,
        q0 = TopK<axis=1>(x, k5) y = Slice(q, zeros, ones, ones) => q, q0 = TopK<axis=1>(x, ones) y = Neg(q)
    gather last: s0 = Shape<end=1>(x) e0 = Sub(s0, ones) y = Gather(x, e0) => s0 = Shape<end=1>(x) e1 = Min(s0, cs)
        e0 = Sub(e1, ones) y = Gather(x, e0)
    gather from end: q = Constant<value=int64[1]{-1}>() y = Gather(x, q) => s0 = Shape<end=1>(x) e0 = Sub(s0, ones)
        e1 = Min(e0, cs) y = Gather(x, e1)
    split: s0 = Shape<end=1>(x) k1 = Div(s0, two_is) k2 = Sub(s0, k1) k3 = Concat<axis=0>(k1, k2) a1, a2 = Split(x, k3)
        y = Concat<axis=0>(a2, a1) => s0 = Shape<end=1>(x) k0 = Div(s0, two_is) k1 = Min(k0, cs) k2 = Sub(s0, k1)
        k3 = Concat<axis=0>(k1, k2) a1, a2 = Split(x, k3) y = Concat<axis=0>(a2, a1)
    split in two: a1, a2 = Split<num_outputs=2>(x) y = Concat<axis=0>(a2, a1) => s0 = Shape<end=1>(x)
        k0 = Div(s0, two_is) k2 = Sub(s0, k0) k3 = Concat<axis=0>(k0, k2) a1, a2 = Split(x, k3)
        y = Concat<axis=0>(a2, a1)
    halves of seq: s0 = Shape<end=1>(x) k0 = Div(s0, two_is) k1 = Mul(k0, two_is) t = Slice(x, zeros, k1) y = Neg(t) =>
        s0 = Shape<end=1>(x) k0 = Div(s0, four_s) k1 = Mul(k0, four_s) k4 = Mod(s0, four_s) k5 = Div(k4, two_is)
        k6 = Mul(k5, two_is) k8 = Add(k1, k6) k9 = Min(k8, cs) t = Slice(x, zeros, k9) y = Neg(t)
    pad: s0 = Shape<end=1>(x) k0 = Neg(s0) k1 = Mod(k0, four_s) k2 = Concat<axis=0>(zeros, zeros, k1, zeros)
        y = Pad(x, k2) => s0 = Shape<end=1>(x) k0 = Mod(s0, four_s) k3 = Sub(four_s, k0) k1 = Mod(k3, four_s)
        g1 = Greater(s0, cs) k4 = Where(g1, zeros, k1) k2 = Concat<axis=0>(zeros, zeros, k4, zeros) y = Pad(x, k2)
    scatter: NEG => EXTENT k1 = Min(n, c) g1 = Sub(k1, one) k3 = Sub(n, one) g3 = Equal(g1, k3) t = Neg(x)
        y = Where(g3, t, x)
    onehot: RANGE v2 = Constant<value=float[2]{0,1}>() oh = OneHot(i, n, v2) y = MatMul(oh, x) => RANGE
        v2 = Constant<value=float[2]{0,1}>() i1 = Min(i, c) oh = OneHot(i1, n, v2) y = MatMul(oh, x)
    trilu [SQUARE]: y = Trilu<upper=0>(x) => k0 = Neg(c) u = Trilu<upper=1>(x, k0) y = Trilu<upper=0>(u)
    eyelike [SQUARE]: NEG => u = EyeLike<k=40>(x) t = Neg(x) y = Add(t, u)
    cumsum mask: NEG => EXTENT z = Reshape(n, ones) o = ConstantOfShape<value=float[1]{1}>(z)
        q = CumSum<reverse=1,exclusive=1>(o, zero) p = Reshape(q, last) b = Greater(p, f) SWITCH
    hann [LINE]: s0 = Shape(x) n = Squeeze(s0) w = HannWindow(n) y = Mul(x, w) => s0 = Shape(x) n = Squeeze(s0)
        m1 = Min(n, c) w = HannWindow(m1) d = Sub(n, m1) d1 = Unsqueeze(d, zeros) d2 = Concat<axis=0>(zeros, d1)
        w1 = Pad(w, d2) y = Mul(x, w1)
    hann against hamming [LINE]: s0 = Shape(x) n = Squeeze(s0) w = HannWindow(n) y = Mul(x, w) => s0 = Shape(x)
        n = Squeeze(s0) m1 = Min(n, c) w = HannWindow<periodic=0>(m1) d = Sub(n, m1) d1 = Unsqueeze(d, zeros)
        d2 = Concat<axis=0>(zeros, d1) w1 = Pad(w, d2) y = Mul(x, w1)
    resize [IMAGE]: NEG => s0 = Shape(x) cc = Constant<value=int64[4]{1,1,40,40}>() s1 = Min(s0, cc)
        t = Resize<mode="nearest">(x, , , s1) u = Resize<mode="nearest">(t, , , s0) y = Neg(u)
    lrn [graph=g (float[1,C1,2,2] x) => (float[A,B,C,D] y)]: y = LRN<size=75>(x) => y = LRN<size=301>(x)
    lrn 2 [graph=g (float[1,C1,2,2] x) => (float[A,B,C,D] y)]: y = LRN<size=7>(x) => y = LRN<size=9>(x)
    pool [SIGNAL]: y = MaxPool<kernel_shape=[41], pads=[20,20]>(x) => y = MaxPool<kernel_shape=[61], pads=[30,30]>(x)
    pool global [SIGNAL]: m1 = GlobalMaxPool(x) z = Sub(x, x) y = Add(z, m1) =>
        y = MaxPool<kernel_shape=[61], pads=[30,30]>(x)
    average pool [SIGNAL]: m1 = GlobalAveragePool(x) z = Sub(x, x) y = Add(z, m1) =>
        y = AveragePool<kernel_shape=[61], pads=[30,30]>(x)
    depth [graph=g (float[1,4,H,W] x) => (float[A,B,C,D] y)]: NEG => s0 = Shape<start=2,end=3>(x) b0 = Greater(s0, cs)
        t = Neg(x) u = Transpose<perm=[0,1,3,2]>(x) b = Squeeze(b0) v = Identity(x) y = Where(b, v, t)
    attention window [graph=g (float[1,1,S,4] x) => (float[A,B,C,D] y)]: y = Attention(x, x, x) =>
        s0 = Shape<start=2,end=3>(x) n = Squeeze(s0) i = Range(zero, n, one) a1 = Unsqueeze(i, zeros)
        a2 = Unsqueeze(i, ones) d = Sub(a2, a1) b = Less(d, c) y = Attention(x, x, x, b)
    loop trips: s0 = Shape<end=1>(x) n = Squeeze(s0) t0 = Cast<to=9>(one)
        y = Loop(n, t0, x) <body = b (int64 k, bool go, float[L,3] v) => (bool on, float[L,3] w) { on = Identity(go)
        w = Neg(v) }> => s0 = Shape<end=1>(x) n0 = Squeeze(s0) b0 = Greater(n0, c) d0 = Cast<to=7>(b0) n = Sub(n0, d0)
        t0 = Cast<to=9>(one) y = Loop(n, t0, x) <body = b (int64 k, bool go, float[L,3] v) => (bool on, float[L,3] w) {
        on = Identity(go) w = Neg(v) }>
    loop min trips: EXTENT t = Cast<to=9>(one) y = Loop(n, t, x) <body = b (int64 k, bool go, float[L,3] v)
        => (bool on, float[L,3] w) { on = Identity(go) w = Add(v, x) }> => EXTENT nm = Min(n, c) t = Cast<to=9>(one)
        y = Loop(nm, t, x) <body = b (int64 k, bool go, float[L,3] v) => (bool on, float[L,3] w) { on = Identity(go)
        w = Add(v, x) }>
    loop break: EXTENT t = Cast<to=9>(one) y = Loop(n, t, x) <body = b (int64 k, bool go, float[L,3] v)
        => (bool on, float[L,3] w) { on = Identity(go) w = Add(v, x) }> => EXTENT t = Cast<to=9>(one)
        y = Loop(n, t, x) <body = b (int64 k, bool go, float[L,3] v) => (bool on, float[L,3] w) { on = Less(k, c)
        w = Add(v, x) }>
    nested if: NEG => EXTENT b = Less(n, c) y = If(b) <then_branch = g1 () => (float[L,3] v) { b1 = Less(n, four)
        v = If(b1) <then_branch = g3 () => (float[L,3] v1) { v1 = Neg(x) }, else_branch = g4 () => (float[L,3] v2) {
        v2 = Sub(zf, x) }> }, else_branch = g2 () => (float[L,3] w) { w = Identity(x) }>
    if inner of if: NEG => EXTENT b = Less(n, four) y = If(b) <then_branch = g1 () => (float[L,3] v) { v = Neg(x) },
        else_branch = g2 () => (float[L,3] w) { b1 = Less(n, c) w = If(b1) <then_branch = g3 () => (float[L,3] v1) {
        v1 = Neg(x) }, else_branch = g4 () => (float[L,3] v2) { v2 = Identity(x) }> }>
    scan counter: NEG => s1, y = Scan<num_scan_inputs=1, body = b (float a, float[3] v) => (float a1, float[3] o1) {
        a1 = Add(a, unit) q = Greater(a1, f) t = Neg(v) o1 = Where(q, v, t) }>(zf, x)
    sequence [first]: NEG => sq = SplitToSequence<axis=0>(x) l = SequenceLength(sq) b = Greater(l, c) SWITCH
    empty [first]: y = ReduceSum(x, zeros) => EXTENT b = Equal(n, zero) q = ReduceSum(x, zeros) y = Where(b, unit, q)
    int32 overflow: NEG => EXTENT i3 = Cast<to=6>(n) q = Mul(i3, k32) b = Less(q, z32) SWITCH
    int64 overflow: NEG => EXTENT q = Mul(n, k64) b = Less(q, zero) SWITCH
    uint32 below zero: NEG => EXTENT u = Cast<to=12>(n) q = Sub(ku, u) b = Greater(q, ku) SWITCH
    float16 extent: NEG => EXTENT u = Cast<to=10>(n) w = Cast<to=7>(u) b0 = Equal(w, n) b = Not(b0) SWITCH
    float16 square: NEG => EXTENT u = Cast<to=10>(n) v = Mul(u, u) b = IsInf(v) SWITCH
    slice from the end: NEG => k = Neg(cs) t = Slice(x, k, big) y = Neg(t)
    reverse slice [first]: t = Slice(x, minus, small, zeros, minus) y = Neg(t) => k = Sub(cs, ones)
        t = Slice(x, k, small, zeros, minus) y = Neg(t)
    strided slice [first]: NEG => a0 = Slice(x, zeros, cs) b0 = Slice(x, cs, big, zeros, two_is)
        t = Concat<axis=0>(a0, b0) y = Neg(t)
    slice of a negative axis [graph=g (float[3,N] x) => (float[A,B] y)]: NEG => t = Slice(x, zeros, cs, minus)
        y = Neg(t)
    gather of the last: t = Gather<axis=0>(x, minus) z = Sub(x, x) y = Add(z, t) => EXTENT k = Min(n, c) j = Sub(k, one)
        i = Unsqueeze(j, zeros) t = Gather<axis=0>(x, i) z = Sub(x, x) y = Add(z, t)
    gathernd: NEG => EXTENT i = Range(zero, n, one) j = Mod(i, c) k = Unsqueeze(j, ones) t = GatherND(x, k) y = Neg(t)
    gather elements: NEG => RANGE j = Mod(i, c) k0 = Unsqueeze(j, ones) k = Expand(k0, s)
        t = GatherElements<axis=0>(x, k) y = Neg(t)
    bits of a mask: NEG => EXTENT k = Constant<value=int64{96}>() u = BitwiseAnd(n, k) b = Equal(u, k) SWITCH
    two beside each other: NEG => EXTENT k1 = Constant<value=int64{1500}>() k2 = Constant<value=int64{1502}>()
        u = Sub(n, k1) v = Sub(n, k2) q = Mul(u, v) b = Less(q, zero) SWITCH
    a wide one hot: NEG => EXTENT d9 = Constant<value=int64{4096}>() v9 = Constant<value=float[2]{1, 0}>()
        oh = OneHot<axis=0>(n, d9, v9) q = ReduceMax<keepdims=0>(oh) b = Greater(q, zf) SWITCH
    ceil mode [SIGNAL]: y = AveragePool<kernel_shape=[3], strides=[2]>(x) =>
        y = AveragePool<kernel_shape=[3], strides=[2], ceil_mode=1>(x)
    same padding [SIGNAL]: y = MaxPool<kernel_shape=[3], strides=[2], auto_pad="SAME_UPPER">(x) =>
        y = MaxPool<kernel_shape=[3], strides=[2], pads=[1,1]>(x)
    a zero in a shape: k = Constant<value=int64[2]{0, 3}>() y = Reshape(x, k) => k = Constant<value=int64[2]{0, 3}>()
        y = Reshape<allowzero=1>(x, k)
    no axes: k = Constant<value=int64[0]{}>() y = ReduceSum(x, k) => k = Constant<value=int64[0]{}>()
        y = ReduceSum<noop_with_empty_axes=1>(x, k)
    axes that coincide [graph=g (float[N,N,2] x) => (float[A,B,C] y)]: y = Transpose<perm=[1,0,2]>(x) => s = Shape(x)
        d = Slice(s, zeros, ones) t = Transpose<perm=[1,0,2]>(x) u = Greater(d, cs) y = Where(u, x, t)
    an optional bound: y = Clip(x, , h) => y = Clip(x, h)
    the root of a square [first; graph=g (float[1] x) => (float[1] y)]: y = Mul(x, unit) => a = Mul(x, x) y = Sqrt(a)
    a product of roots [graph=g (float[1] x, float[1] z) => (float[1] y)]: y = Mul(x, z) => a = Mul(x, x) b = Sqrt(a)
        c9 = Mul(z, z) d = Sqrt(c9) y = Mul(b, d)
    a norm [graph=g (float[N,1] x) => (float[A,1] y)]: y = Mul(x, unit) => y = ReduceL2(x, ones)
    a logarithm of a square [graph=g (float[1] x) => (float[1] y)]: a = Mul(x, x) y = Log(a) => a = Log(x) y = Add(a, a)
    a far bound [first]: NEG => k = Constant<value=float{1000000000}>() t = Neg(x) y = Min(t, k)
    a scaled bound: k = Constant<value=float{0.0001}>() y = Mul(x, k) => k = Constant<value=float{0.0001}>()
        l = Constant<value=float{600}>() t = Mul(x, k) y = Min(t, l)
    maximum of none [first; TWO]: r = Relu(x) y = ReduceMax(r, ones) => u = ReduceMax(x, ones) y = Relu(u)
    maximum of no rows: r = Max(x, zf) y = ReduceMax(r, zeros) => u = ReduceMax(x, zeros) y = Max(u, zf)
    minimum of none [TWO]: r = Min(x, f) y = ReduceMin(r, ones) => u = ReduceMin(x, ones) y = Min(u, f)
    exponential of none [TWO]: r = Exp(x) y = ReduceMax(r, ones) => u = ReduceMax(x, ones) y = Exp(u)
    integers of none [first; graph=g (int32[N,M] x) => (int32[A,B] y)]: r = Max(x, z32) y = ReduceMax(r, ones) =>
        u = ReduceMax(x, ones) y = Max(u, z32)
    sum of none [TWO]: y = ReduceSum(x, ones) => r = Sub(x, x) u = ReduceMax(r, ones) v = ReduceSum(x, ones)
        y = Add(u, v)
    a double in single precision [first; graph=g (double[N,3] x) => (double[A,B] y)]: k = Constant<value=double{0.1}>()
        y = Mul(x, k) => k = Constant<value=double{0.10000000149011612}>() y = Mul(x, k)
""")
RIGHT_WITHOUT_ELEMENTS = table("""
    opposite extremes: r = Neg(x) y = ReduceMax(r, ones) => u = ReduceMin(x, ones) y = Neg(u)
    leaky: r = LeakyRelu<alpha=0.5>(x) y = ReduceMax(r, ones) => u = ReduceMax(x, ones) y = LeakyRelu<alpha=0.5>(u)
    scaled sum: r = Mul(x, f) y = ReduceSum(r, ones) => u = ReduceSum(x, ones) y = Mul(u, f)
    norm: y = ReduceL2(x, ones) => r = Mul(x, x) u = ReduceSum(r, ones) y = Sqrt(u)
    product: y = MatMul(x, x) => y = Gemm(x, x)
    logarithm: y = ReduceLogSumExp(x, ones) => t = Transpose(x) y0 = ReduceLogSumExp(t, zeros) y = Transpose(y0)
    mean: r = Mul(x, f) y = ReduceMean(r, ones) => u = ReduceMean(x, ones) y = Mul(u, f)
""")
FIRST = {name for name, row in REGIONS.items() if "first" in row[-1]}


@pytest.mark.parametrize("name", slow_unless(FIRST, REGIONS))
def test_a_region_that_is_wrong_at_other_extents_is_not_proved(name: str) -> None:
    *texts, settings = (*REGIONS[name], {})[:3]
    graph = settings.get("graph") or GRAPHS[next((s for s in settings if s in GRAPHS), "X")]
    texts = [SHARED.sub(lambda found: getattr(test_extent_limits, found[0]), text) for text in texts]
    found = proofs(*(load(f"{graph} <{CONSTANTS}> {{ {text} }}", opset=23) for text in texts)).regions
    assert found
    assert not any(r.is_proved for r in found), [str(r.verdict) for r in found]


@pytest.mark.parametrize("name", RIGHT_WITHOUT_ELEMENTS)
def test_a_region_that_is_right_where_an_extent_is_0_is_proved(name: str) -> None:
    graph = GRAPHS["SQUARE" if name == "product" else "TWO"]
    texts = RIGHT_WITHOUT_ELEMENTS[name]
    found = proofs(*(load(f"{graph} <{CONSTANTS}> {{ {text} }}", opset=23) for text in texts)).regions
    assert [r.is_proved for r in found] == [True], [str(r.verdict) for r in found]
