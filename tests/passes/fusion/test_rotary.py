"""Fusion of rotary position embeddings."""

from passwright.core import rule_pass
from passwright.passes.fusion import rotary
from passwright.passes.movement import reshapes
from passwright.passes.movement.layout_propagation import move_transposes
from rewrite_tables import Rewrites

FUSE_ROTARY = rule_pass(rotary, "fuse-rotary")
MERGE_TRANSPOSES = rule_pass(move_transposes, "merge-transposes")
MERGE_RESHAPES = rule_pass(reshapes, "merge-reshapes")

G = "g (float[b,2,5,8] x, float[b,5,4] a, float[1,5,4] f) => (float[] y)"
rotaries = Rewrites(G, FUSE_ROTARY, weights={"parts": [4, 4]}, opset=23)
ANGLES = "e = Concat<axis=-1>(a, a) n = Cos(e) m = Sin(e) c = Unsqueeze(n, [1]) s = Unsqueeze(m, [1])"
TURN = "lo, hi = Split<axis=3>(x, parts) j = Neg(hi) r = Concat<axis=-1>(j, lo)"
SUM = "p = Mul(x, c) q = Mul(r, s) y = Add(p, q)"
TABLES = "n = Cos(a) c = Unsqueeze(n, [1]) t = Squeeze(c, [1]) m = Sin(a) s = Unsqueeze(m, [1]) u = Squeeze(s, [1])"

EMBEDDED = f"{TABLES} y = RotaryEmbedding(x, t, u)"
LATE_SUM = "p = Mul(c, x) q = Mul(s, r) y = Add(q, p)"
PART = SUM.replace("y =", "k =")
WIDE = "g (float[b,2,5,12] z, float[b,5,4] a) => (float[] y)"
test_becomes = rotaries.all_become(f"""
    at 23: {ANGLES} {TURN} {SUM} => {EMBEDDED}
    at 24 [opset=24]: {ANGLES} {TURN} {SUM} => {EMBEDDED}
    other orders: {ANGLES} {TURN} {LATE_SUM} => {EMBEDDED}
    other orders at 24 [opset=24]: {ANGLES} {TURN} {LATE_SUM} => {EMBEDDED}
    scaled angles: {ANGLES.replace("n = Cos(e)", "o = Cos(e) n = Mul(o, 1.5)")} {TURN} {SUM}
        => {EMBEDDED.replace("n = Cos(a)", "o = Cos(a) n = Mul(o, 1.5)")}
    angles of all batches are expanded: e = Concat<axis=-1>(f, f) c = Cos(e) s = Sin(e) {TURN} {SUM}
        => c = Cos(f) d = Shape<start=0, end=1>(x) h = Concat<axis=0>(d, [1], [1]) t = Expand(c, h) s = Sin(f)
        v = Shape<start=0, end=1>(x) i = Concat<axis=0>(v, [1], [1]) u = Expand(s, i) y = RotaryEmbedding(x, t, u)
    part of the last dim by Splits [graph={WIDE}]: x, w = Split<axis=-1>(z, [8,4]) {ANGLES} {TURN} {PART}
        y = Concat<axis=-1>(k, w) => {TABLES} y = RotaryEmbedding<rotary_embedding_dim=8>(z, t, u)
    part of the last dim by Slices [graph={WIDE}]: x = Slice(z, [0], [8], [3]) w = Slice(z, [8], [99], [3])
        {ANGLES} lo = Slice(z, [0], [4], [3]) hi = Slice(z, [4], [8], [3]) j = Neg(hi)
        r = Concat<axis=-1>(j, lo) {PART} y = Concat<axis=-1>(k, w)
        => {TABLES} y = RotaryEmbedding<rotary_embedding_dim=8>(z, t, u)
""")
test_constant_angles_become = rotaries.using(
    graph="g (float[1,3,1,2] x) => (float[] y)", weights={"c": [[[0.5, 0.5]]], "s": [[[0.25, 0.25]]], "parts": [1, 1]}
).all_become(f"""
    constants: {TURN} {SUM} => y = RotaryEmbedding(x, c, s)
""")
# Reshape finds no extent for -1 where another is 0.
test_heads_become_an_attribute = rotaries.using(
    FUSE_ROTARY,
    MERGE_TRANSPOSES,
    MERGE_RESHAPES,
    graph="g (float[{b},5,16] w, float[{b},5,4] c, float[{b},5,4] s) => (float[] y)",
    b="b",
).all_become("""
    of all: r = Reshape(w, [0,0,2,8]) x = Transpose<perm=[0,2,1,3]>(r) z = RotaryEmbedding(x, c, s)
        u = Transpose<perm=[0,2,1,3]>(z) y = Reshape(u, [0,0,16]) => y = RotaryEmbedding<num_heads=2>(w, c, s)
    empty batch [b=0]: r = Reshape(w, [0,0,2,8]) x = Transpose<perm=[0,2,1,3]>(r) y = RotaryEmbedding(x, c, s)
        => x = RotaryEmbedding<num_heads=2>(w, c, s) r = Reshape(x, [0,0,2,8]) y = Transpose<perm=[0,2,1,3]>(r)
""")
test_stays = rotaries.all_stay(f"""
    older opset [opset=22]: {ANGLES} {TURN} {SUM}
    halves that differ: b = Neg(a) {ANGLES.replace("(a, a)", "(a, b)")} {TURN} {SUM}
    the other half is negated: {ANGLES} {TURN.replace("(j, lo)", "(lo, j)")} {SUM}
    the first half is negated: {ANGLES} {TURN.replace("Neg(hi)", "Neg(lo)").replace("(j, lo)", "(j, hi)")} {SUM}
    uneven halves: {ANGLES} lo, hi = Split<axis=3>(x, [3,5]) j = Neg(hi) r = Concat<axis=-1>(j, lo) {SUM}
    of another value: w = Tanh(x) {ANGLES} {TURN.replace("(x, parts)", "(w, parts)")} {SUM}
""")
