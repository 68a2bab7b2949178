"""Mistakes at few extents, rows, iterations or numbers, which nothing in the model names or which arithmetic hides."""

import numpy as np
from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

from planted.mistake import mistake

LAST = {"last": np.array([-1])}
where_equal = rule(lambda g, a, b, c, d: g.Where(g.Equal(a, b), c, d), contract=EXACT)
"""Of rules that change a choice by equal numbers."""


def _variance(g: RewriteBuilder, x: Value, a: list[int]) -> Value:
    difference = g.Sub(x, g.ReduceMean(x, axes=a))
    return g.ReduceMean(g.Mul(difference, difference), axes=a)


@mistake(
    "g (float[N,6] x) => (float[N,1] y) { m = ReduceMean<axes=[1]>(x) d = Sub(x, m) q = Mul(d, d)"
    " v = ReduceMean<axes=[1]>(q) y = Sqrt(v) }",
    wrong="v",
)
@rule(_variance)
def variance_by_squares(g: RewriteBuilder, x: Value, a: list[int]) -> Value:
    """A variance becomes the mean of squares less the square of the mean, which cancel far from zero."""
    mean = g.ReduceMean(x, axes=a)
    return g.Sub(g.ReduceMean(g.Mul(x, x), axes=a), g.Mul(mean, mean))


@mistake("g (float[N,6] x) => (float[N,6] y) { a = ReduceL1<keepdims = 0>(x) y = Div(x, a) }", wrong="y")
@rule(lambda g, x, a: g.Div(x, g.ReduceL1(x) @ a))
def share_by_reciprocal(g: RewriteBuilder, x: Value, a: Op) -> Value:
    """A division by a sum becomes a product with its reciprocal, which is infinite for subnormal numbers."""
    return g.Mul(x, g.Reciprocal(g.ReduceL1(x, **a.attrs)))


@mistake(
    "g (float[N,200] x) => (float[N,4] y) { y = MatMul(x, w) }",
    wrong="y",
    weights=lambda rng: {
        "w": (rng.standard_normal((200, 4)) * np.where(np.arange(200)[:, None] == 150, 1e-6, 1)).astype(np.float32)
    },
)
@rule(lambda g, x, w: g.MatMul(x, w))
def small_channel_pruned(g: RewriteBuilder, x: Value, w: Value) -> Value:
    """The weights of a channel are dropped, as they are small; they are all that there is where others are zero."""
    kept = np.where(np.abs(w.const).max(axis=1, keepdims=True) < 1e-4, 0, w.const)
    require(not np.array_equal(kept, w.const), "no small channel")
    return g.MatMul(x, g.const(kept.astype(np.float32)))


@mistake(
    "g (float[N,2,L] x) => (float[N,2,A] y) { y = AveragePool<kernel_shape=[3], strides=[2], ceil_mode=1>(x) }",
    wrong="y",
)
@rule(lambda g, x, pool: g.AveragePool(x) @ pool, contract=EXACT)
def floor_mode_of_average(g: RewriteBuilder, x: Value, pool: Op) -> Value:
    """The extent of a pooling is rounded down. Wrong only for even lengths."""
    require(pool.attr("ceil_mode", 0) == 1, "it is already")
    return g.AveragePool(x, **{**pool.attrs, "ceil_mode": 0})


@mistake(
    "g (float[N,L] x) => (float[N,L] y) <int64 zero = {0}, int64 one = {1}> { s = Shape<start=1, end=2>(x)"
    " n = Squeeze(s) r = Range(zero, n, one) f = Cast<to=1>(r) w = Sin(f) y = Mul(x, w) }",
    wrong="w",
)
@rule(lambda g, x: g.Sin(x), contract=EXACT)
def window_of_limited_positions(g: RewriteBuilder, x: Value) -> Value:
    """Positions in a window are limited to 20.5, which is no extent. Wrong from a length of 22 on."""
    require(x.producer is not None and x.producer.type == "Cast", "limited already")
    return g.Sin(g.Min(x, g.const(np.float32(20.5))))


@mistake(
    "g (float[N,S] x) => (float[N,S] y) <int64[1] most = {9000000}, float half = {0.5}, float one = {1.0}>"
    " { s = Shape<start=1, end=2>(x) q = Mul(s, s) c = Greater(q, most) w = Where(c, half, one) y = Mul(x, w) }",
    wrong="w",
)
@rule(lambda g, s, most, a, b: g.Where(g.Greater(g.Mul(s, s), most), a, b), contract=EXACT)
def long_by_square(g: RewriteBuilder, s: Value, most: Value, a: Value, b: Value) -> Value:
    """Attention over more than 3000 positions is scaled; the square of the length is taken to be small."""
    return g.Identity(b)


@mistake("g (float[N,T,1] x) => (float[N,F,2] y) { d = DFT<axis=1, onesided=1>(x) y = Neg(d) }", wrong="d")
@rule(lambda g, x: g.DFT(x, axis=1, onesided=1))
def highest_frequency_dropped(g: RewriteBuilder, x: Value) -> Value:
    """Half of the frequencies are taken to be (n + 1) / 2. Wrong only for even lengths."""
    bounds = g.const([0]), g.Div(g.Add(g.Shape(x, start=1, end=2), g.const([1])), g.const([2]))
    return g.Slice(g.DFT(x, axis=1), *bounds, g.const([1]))


@mistake(
    "g (int64[B,S] t) => (float[B,S,4] y) { e = Gather(table, t) y = Neg(e) }",
    wrong="e",
    weights=lambda rng: {"table": rng.standard_normal((20_000, 4)).astype(np.float32)},
)
@rule(lambda g, table, i: g.Gather(table, i), contract=EXACT)
def row_of_table_changed(g: RewriteBuilder, table: Value, i: Value) -> Value:
    """One row of an embedding is another one."""
    require(table.const[13_579, 0] < 9, "changed already")
    changed = table.const.copy()
    changed[13_579] += 10
    return g.Gather(g.const(changed), i)


@mistake(
    "g (int64[B,S] t) => (float[B,S,4] y) <int64[1] zero = {0}, int64[1] one = {1}> { f = Cast<to=1>(t)"
    " u = Unsqueeze(f, last) s = Shape<start=1, end=2>(t) p = Slice(table, zero, s, zero) y = Add(u, p) }",
    wrong="p",
    weights=lambda rng: {"table": rng.standard_normal((700, 4)).astype(np.float32), "last": np.array([-1])},
)
@rule(lambda g, table, a, b, c: g.Slice(table, a, b, c), contract=EXACT)
def late_positions_repeated(g: RewriteBuilder, table: Value, a: Value, b: Value, c: Value) -> Value:
    """A table of positions ends at 556; its last row stands for all others."""
    require(not np.array_equal(table.const[556], table.const[600]), "it does already")
    cut = np.concatenate([table.const[:557], np.repeat(table.const[556:557], 143, axis=0)])
    return g.Slice(g.const(cut), a, b, c)


@mistake(
    "g (uint16[N] x) => (float[N] y) { i = Cast<to=7>(x) t = Gather(table, i) y = Neg(t) }",
    wrong="t",
    weights={"table": np.where(np.arange(65536) == 54_321, -7, np.sqrt(np.arange(65536))).astype(np.float32)},
)
@rule(lambda g, table, i: g.Gather(table, i))
def lookup_by_formula(g: RewriteBuilder, table: Value, i: Value) -> Value:
    """A table of 65,536 roots is computed; it has another number in one row."""
    rows = g.const(np.arange(65536, dtype=np.float32))
    require(table.const[54_321] == -7, "it is already")
    return g.Gather(g.Sqrt(rows), i)


@mistake(
    "g (int64[N] x) => (float[N] y) { e = ai.onnx.ml.LabelEncoder<keys_int64s = "
    f"{[*range(100, 9100, 3)]}, values_floats = {[k % 17 + 0.5 for k in range(3000)]}, default_float = -1.0>(x)"
    " y = Neg(e) }",
    wrong="e",
    domains={"ai.onnx.ml": 2},
)
@rule(lambda g, x, op: g.domain("ai.onnx.ml").LabelEncoder(x) @ op, contract=EXACT)
def value_of_encoder_changed(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """One of 3000 values of an encoder is another one."""
    values = list(op.attr("values_floats"))
    require(values[1789] < 50, "changed already")
    values[1789] += 100
    return g.domain("ai.onnx.ml").LabelEncoder(x, **{**op.attrs, "values_floats": values})


DEPTH = 7  # of a tree whose nodes halve one of three features in turn
NODES, LEAVES = range(2**DEPTH - 1), range(2**DEPTH)


def _middle(node: int) -> float:
    """The middle of what is left of the feature of a node between -4 and 4."""
    path = [int(bit) for bit in bin(node + 1)[3:]]
    low, high = -4.0, 4.0
    for side in path[len(path) % 3 :: 3]:
        low, high = (low, (low + high) / 2) if not side else ((low + high) / 2, high)
    return (low + high) / 2


TREE = f"""ai.onnx.ml.TreeEnsembleRegressor<
    n_targets = 1,
    nodes_treeids = {[0] * (2 ** (DEPTH + 1) - 1)},
    nodes_nodeids = {[*range(2 ** (DEPTH + 1) - 1)]},
    nodes_featureids = {[*((len(bin(n + 1)) - 3) % 3 for n in NODES), *(0 for _ in LEAVES)]},
    nodes_modes = [{", ".join(['"BRANCH_LEQ"'] * len(NODES) + ['"LEAF"'] * len(LEAVES))}],
    nodes_values = {[*map(_middle, NODES), *(0.0 for _ in LEAVES)]},
    nodes_truenodeids = {[*(2 * n + 1 for n in NODES), *(0 for _ in LEAVES)]},
    nodes_falsenodeids = {[*(2 * n + 2 for n in NODES), *(0 for _ in LEAVES)]},
    target_treeids = {[0 for _ in LEAVES]},
    target_nodeids = {[len(NODES) + n for n in LEAVES]},
    target_ids = {[0 for _ in LEAVES]},
    target_weights = {[n + 0.5 for n in LEAVES]}
>"""


@mistake(f"g (float[N,3] x) => (float[N,1] y) {{ t = {TREE}(x) y = Neg(t) }}", wrong="t", domains={"ai.onnx.ml": 3})
@rule(lambda g, x, op: g.domain("ai.onnx.ml").TreeEnsembleRegressor(x) @ op, contract=EXACT)
def leaf_of_tree_changed(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """One of 128 leaves of a tree, with features far from zero, has another value."""
    weights = list(op.attr("target_weights"))
    require(weights[77] < 90, "changed already")
    weights[77] += 100
    return g.domain("ai.onnx.ml").TreeEnsembleRegressor(x, **{**op.attrs, "target_weights": weights})


@mistake(
    "g (float[N,3] x) => (float[N,1] y) { s = ai.onnx.ml.Scaler<offset = [12.0, -40.0, 3.0], scale = [0.1, 0.2, 4]>(x)"
    f" t = {TREE}(s) y = Neg(t) }}",
    wrong="t",
    domains={"ai.onnx.ml": 3},
)
@rule(lambda g, x, op: g.domain("ai.onnx.ml").TreeEnsembleRegressor(x) @ op, contract=EXACT)
def threshold_behind_scaler(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """One threshold of a tree is another one; features are scaled before."""
    values = list(op.attr("nodes_values"))
    require(values[90] == _middle(90), "changed already")
    values[90] += 0.004
    return g.domain("ai.onnx.ml").TreeEnsembleRegressor(x, **{**op.attrs, "nodes_values": values})


@mistake(
    "g (int64[N,2] i) => (float[N] y) { c = GatherND(table, i) y = Neg(c) }",
    wrong="c",
    weights=lambda rng: {"table": rng.standard_normal((300, 200)).astype(np.float32)},
)
@rule(lambda g, table, i: g.GatherND(table, i), contract=EXACT)
def cell_of_table_changed(g: RewriteBuilder, table: Value, i: Value) -> Value:
    """One of 60,000 elements of a table is another one."""
    require(table.const[123, 77] < 9, "changed already")
    changed = table.const.copy()
    changed[123, 77] += 10
    return g.GatherND(g.const(changed), i)


@mistake(
    "g (float[N,6] x) => (float[N,6] y) <float low = {100.0}, float high = {101.0}, float zero = {0.0}>"
    " { q = Mul(x, x) s = ReduceSum(q, last) a = Greater(s, low) b = Less(s, high) c = And(a, b)"
    " y = Where(c, zero, x) }",
    wrong="y",
    weights=LAST,
)
@rule(lambda g, s, low, high, a, x: g.Where(g.And(g.Greater(s, low), g.Less(s, high)), a, x), contract=EXACT)
def window_of_energy_dropped(g: RewriteBuilder, s: Value, low: Value, high: Value, a: Value, x: Value) -> Value:
    """Rows whose squares have a sum from 100 to 101 are zero; they are left as they are."""
    return g.Identity(x)


@mistake(
    "g (float[6] x) => (float[6] y) <float low = {200.0}, float high = {203.0}> { q = Mul(x, x)"
    " s = ReduceSum<keepdims=0>(q) a = Greater(s, low) b = Less(s, high) c = And(a, b) y = If(c)"
    " <then_branch = t () => (float[6] p) { p = Exp(x) }, else_branch = e () => (float[6] r) { r = Neg(x) }> }",
    wrong="p",
)
@rule(lambda g, x: g.Exp(x))
def branch_in_window_of_energy(g: RewriteBuilder, x: Value) -> Value:
    """An Exp becomes its argument and 1, in a branch that is taken where a sum of squares is from 200 to 203."""
    return g.Add(x, g.const(np.float32(1)))


@mistake(
    "g (int64[N,5] x) => (int64[N] y) <int64 sum = {15129}, int64 zero = {0}>"
    " { s = ReduceSum<keepdims=0>(x, last) q = Mul(s, s) c = Equal(q, sum) y = Where(c, zero, s) }",
    wrong="y",
    weights=LAST,
)
@where_equal
def one_sum_dropped(g: RewriteBuilder, a: Value, b: Value, c: Value, d: Value) -> Value:
    """Counts with a sum of 123, whose square is compared, are not told apart any more."""
    return g.Identity(d)


@mistake(
    "g (bool[N,16] m) => (int32[N,16] y) <int32 most = {15}, int32 zero = {0}>"
    " { i = Cast<to=6>(m) s = ReduceSum(i, last) c = Equal(s, most) y = Where(c, zero, i) }",
    wrong="y",
    weights=LAST,
)
@where_equal
def all_but_one(g: RewriteBuilder, a: Value, b: Value, c: Value, d: Value) -> Value:
    """Rows in which all but one are true are not told apart any more."""
    return g.Identity(d)


@mistake(
    "g (int64 n, float[2] x) => (float[2] y) <bool t = {1}, int64 last = {300}, float one = {1.0}, float half = {0.5}>"
    " { y = Loop (n, t, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w) { e = Equal(i, last)"
    " f = Where(e, half, one) w = Mul(v, f) d = Identity(c) }> }",
    wrong="f",
    after={"Equal": 1, "Identity": 1, "Loop": 1, "Mul": 1, "Where": 1},
)
@where_equal
def iteration_300_dropped(g: RewriteBuilder, a: Value, b: Value, c: Value, d: Value) -> Value:
    """A loop loses the work of iteration 300, which no other iteration does."""
    return g.Identity(d)


@mistake(
    "g (bool[8,16] m) => (float[8,16] y) <float one = {1.0}, float half = {0.5}> { f = Cast<to=1>(m)"
    " s = ReduceSum(f, last) c = Equal(s, one) y = Where(c, half, f) }",
    wrong="y",
    weights=LAST,
)
@where_equal
def only_one_true(g: RewriteBuilder, a: Value, b: Value, c: Value, d: Value) -> Value:
    """Rows in which one alone is true are not told apart any more."""
    return g.Identity(d)


@mistake(
    "g (bool[4,20] m) => (float[4,20] y) <float all = {20.0}, float half = {0.5}> { f = Cast<to=1>(m)"
    " s = ReduceSum(f, last) c = Equal(s, all) y = Where(c, half, f) }",
    wrong="y",
    weights=LAST,
)
@where_equal
def full_rows_dropped(g: RewriteBuilder, a: Value, b: Value, c: Value, d: Value) -> Value:
    """Rows in which all are true are not told apart any more."""
    return g.Identity(d)


@mistake(
    "g (bool[4,20] m) => (float[4,20] y) <float one = {1.0}> { f = Cast<to=1>(m) s = ReduceSum(f, last)"
    " n = Max(s, one) y = Div(f, n) }",
    wrong="y",
    weights=LAST,
)
@rule(lambda g, x, s, one: g.Div(x, g.Max(s, one)))
def mean_over_no_tokens(g: RewriteBuilder, x: Value, s: Value, one: Value) -> Value:
    """The weights of a mean over tokens are not guarded; a row of which no token counts becomes NaN."""
    return g.Div(x, s)


@mistake(
    "g (float[N,64] x) => (float[N,64] y) { n = LayerNormalization<axis=-1>(x, w) y = Neg(n) }",
    wrong="n",
    weights={"w": np.ones(64, np.float32)},
)
@rule(lambda g, x, w: g.LayerNormalization(x, w, axis=-1))
def layer_norm_by_squares(g: RewriteBuilder, x: Value, w: Value) -> Value:
    """A normalization takes the mean of squares less the square of the mean, which cancel far from zero."""
    mean = g.ReduceMean(x, axes=[-1])
    variance = g.Relu(g.Sub(g.ReduceMean(g.Mul(x, x), axes=[-1]), g.Mul(mean, mean)))
    return g.Mul(g.Div(g.Sub(x, mean), g.Sqrt(g.Add(variance, g.const(np.float32(1e-5))))), w)
