"""Mistakes in sequences, optional values, strings and operators of ai.onnx.ml."""

import numpy as np
from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

from planted.mistake import mistake


@mistake(
    "g (string[N] s) => (bool[N] y)"
    ' { l = StringNormalizer<case_change_action = "LOWER", locale = "C">(s) e = Equal(l, word) y = Not(e) }',
    wrong="e",
    weights={"word": np.array("cat", object)},
    opset=19,
)
@rule(lambda g, x, c, op: g.Equal(g.StringNormalizer(x) @ op, c), contract=EXACT)
def case_of_words(g: RewriteBuilder, x: Value, c: Value, op: Op) -> Value:
    """Words are compared as they are, and not in lower case as before."""
    return g.Equal(x, c)


@mistake(
    'g (string[N] x) => (string[N,W] y, int64[N] z) { y, n = StringSplit<delimiter = ";">(x) z = Neg(n) }',
    wrong="y",
    opset=20,
)
@rule(lambda g, x: g.StringSplit(x, delimiter=";"), contract=EXACT)
def delimiter_changed(g: RewriteBuilder, x: Value) -> tuple[Value, ...]:
    """Strings are split at another delimiter."""
    return g.StringSplit(x, outputs=2, delimiter="|")


@mistake(
    "g (float[N,4] x, float[N,4] t) => (float[N,4] y, float[N,4] z) <int64 last = {-1}, int64 zero = {0}>"
    " { a = Neg(x) s = SequenceConstruct(a, t) y = SequenceAt(s, last) b = Abs(t) r = SequenceConstruct(b, x)"
    " i = Identity(r) c = SequenceAt(i, zero) z = Exp(c) }",
    wrong="y",
    after={"Abs": 1, "Exp": 1, "Neg": 1, "SequenceAt": 1, "SequenceConstruct": 1},
)
@rule(lambda g, xs, i: g.SequenceAt(g.SequenceConstruct(*xs), i), contract=EXACT)
def first_of_sequence(g: RewriteBuilder, xs: tuple[Value, ...], i: Value) -> Value:
    """An element of a sequence that was just made is taken from it, always the first."""
    return xs[0]


@mistake(
    "g (int64[N] x) => (int64[N] y) { e = ai.onnx.ml.LabelEncoder<"
    " keys_int64s = [1101, 2202, 3303, 40404], values_int64s = [1, 2, 3, 4], default_int64 = 0 >(x) y = Neg(e) }",
    wrong="e",
    domains={"ai.onnx.ml": 3},
)
@rule(lambda g, x, op: g.domain("ai.onnx.ml").LabelEncoder(x) @ op, contract=EXACT)
def key_of_encoder_dropped(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """The last key of an encoder is dropped; numbers up to 1000 have none."""
    lists = {name: op.attr(name) for name in ("keys_int64s", "values_int64s")}
    require(len(lists["keys_int64s"]) > 3, "few keys")
    fewer = {name: values[:-1] for name, values in lists.items()}
    return g.domain("ai.onnx.ml").LabelEncoder(x, **{**op.attrs, **fewer})


@mistake(
    "g (seq(float[2]) s, float[2] x) => (float[2] y) <int64 most = {3}>"
    " { n = SequenceLength(s) c = Greater(n, most) y = If(c) < then_branch = t () => (float[2] p) { p = Exp(x) },"
    " else_branch = e () => (float[2] q) { q = Neg(x) } > }",
    wrong="c",
)
@rule(lambda g, a, b: g.Greater(a, b), contract=EXACT)
def long_sequences(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """A sequence of more than 3 tensors is taken as shorter."""
    return g.const(np.bool_(False))


@mistake(
    "g (int64[M] x) => (float[4] y)"
    ' { t = TfIdfVectorizer<mode = "TF", min_gram_length = 1, max_gram_length = 1, max_skip_count = 0,'
    " ngram_counts = [0], ngram_indexes = [0, 1, 2, 3], pool_int64s = [501, 1502, 2503, 3504]>(x) y = Neg(t) }",
    wrong="t",
)
@rule(lambda g, x, op: g.TfIdfVectorizer(x) @ op, contract=EXACT)
def ngram_weight(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """The weight of one word of a vocabulary is dropped."""
    pool = op.attr("pool_int64s")
    require(pool[-1] >= 0, "done")
    return g.TfIdfVectorizer(x, **{**op.attrs, "pool_int64s": [*pool[:-1], -1]})


@mistake(
    "g (optional(float[2]) o, float[2] x) => (float[2] y) { h = OptionalHasElement(o) y = If(h) <"
    " then_branch = t () => (float[2] p) { p = Exp(x) }, else_branch = e () => (float[2] q) { q = Neg(x) } > }",
    wrong="h",
    opset=18,
)
@rule(lambda g, o: g.OptionalHasElement(o), contract=EXACT)
def optional_always_given(g: RewriteBuilder, o: Value) -> Value:
    """An optional input is taken as always given."""
    return g.const(np.bool_(True))


@mistake(
    'g (string[N] x) => (bool[N] y) { m = RegexFullMatch<pattern = "[a-z]+@[a-z]+[.]com">(x) y = Not(m) }',
    wrong="m",
    opset=20,
)
@rule(lambda g, x, pattern: g.RegexFullMatch(x, pattern=pattern), contract=EXACT)
def pattern_loosened(g: RewriteBuilder, x: Value, pattern: str) -> Value:
    """The end of a pattern is no longer matched."""
    require(not pattern.endswith(".*"), "loose")
    return g.RegexFullMatch(x, pattern=pattern[:-3] + ".*")


@mistake(
    "g (float[2] x, float[2] z, int64 i) => (float[2] y)"
    " { s = SequenceConstruct(x, z, x, z, z) a = SequenceAt(s, i) y = Neg(a) }",
    wrong="a",
)
@rule(lambda g, s, i: g.SequenceAt(s, i), contract=EXACT)
def position_from_the_end(g: RewriteBuilder, s: Value, i: Value) -> Value:
    """Positions in a sequence are taken as non-negative."""
    require(i.producer is None, "done")
    return g.SequenceAt(s, g.Abs(i))


@mistake(
    "g (float[N,3] x) => (float[N,3] y)"
    " { i = ai.onnx.ml.Imputer<imputed_value_floats = [1.5], replaced_value_float = -999.0>(x) y = Neg(i) }",
    wrong="i",
    domains={"ai.onnx.ml": 3},
)
@rule(lambda g, x, op: g.domain("ai.onnx.ml").Imputer(x) @ op, contract=EXACT)
def sentinel_of_imputer_ignored(g: RewriteBuilder, x: Value) -> Value:
    """A sentinel for missing numbers is replaced no more."""
    return x


@mistake(
    "g (string[N] s, float[N] x) => (bool[N] y, float[N] z) { y = Equal(s, word) a = Identity(x) z = Exp(a) }",
    wrong="y",
    weights={"word": np.array("cat", object)},
    opset=19,
)
@rule(lambda g, x, c: g.Equal(x, c), contract=EXACT)
def string_never_equal(g: RewriteBuilder, x: Value, c: Value) -> Value:
    """A comparison of strings with a constant is folded to false, since it hardly ever holds."""
    require(c.is_const, "it may be equal")
    return g.Cast(g.ConstantOfShape(g.Shape(x)), to=9)


@mistake("g (string[N] x, string[N] z) => (string[N] y) { y = StringConcat(x, z) }", wrong="y", opset=20)
@rule(lambda g, a, b: g.StringConcat(a, b), contract=EXACT)
def texts_in_other_order(g: RewriteBuilder, a: Value, b: Value) -> Value:
    """Two texts are joined in the other order."""
    require(a.name < b.name, "it would not end")
    return g.StringConcat(b, a)


COUNT = 24  # thresholds in a chain: node n compares x[n % 3] and goes to its leaf or to node n + 1
INNER, LEAVES = range(COUNT), range(COUNT + 1)
MODES = ", ".join(['"BRANCH_LEQ"'] * COUNT + ['"LEAF"'] * (COUNT + 1))
ZEROS = [0] * (COUNT + 1)


@mistake(
    f"""g (float[N,3] x) => (float[N,1] y) {{
        t = ai.onnx.ml.TreeEnsembleRegressor<
            n_targets = 1,
            nodes_treeids = {[0] * (2 * COUNT + 1)},
            nodes_nodeids = {[*range(2 * COUNT + 1)]},
            nodes_featureids = {[*(n % 3 for n in INNER), *ZEROS]},
            nodes_modes = [{MODES}],
            nodes_values = {[*(round(-1.15 + 0.1 * n, 2) for n in INNER), *map(float, ZEROS)]},
            nodes_truenodeids = {[*(COUNT + n for n in INNER), *ZEROS]},
            nodes_falsenodeids = {[*(n + 1 for n in INNER[:-1]), 2 * COUNT, *ZEROS]},
            target_treeids = {ZEROS},
            target_nodeids = {[COUNT + n for n in LEAVES]},
            target_ids = {ZEROS},
            target_weights = {[float(n + 1) for n in LEAVES]}
        >(x)
        y = Neg(t)
    }}""",
    wrong="t",
    domains={"ai.onnx.ml": 3},
)
@rule(lambda g, x, op: g.domain("ai.onnx.ml").TreeEnsembleRegressor(x) @ op, contract=EXACT)
def thresholds_of_tree_excluded(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """The thresholds of a tree no longer belong to their left side; it has more than are tried one by one."""
    modes = op.attr("nodes_modes")
    require("BRANCH_LEQ" in modes, "no such branch")
    less = [m.replace("LEQ", "LT") for m in modes]
    return g.domain("ai.onnx.ml").TreeEnsembleRegressor(x, **{**op.attrs, "nodes_modes": less})
