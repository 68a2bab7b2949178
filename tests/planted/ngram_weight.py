"""The weight of one word of a vocabulary is dropped."""

from __future__ import annotations

from passwright.core import EXACT, Op, RewriteBuilder, Value, require, rule

MODEL = """g (int64[M] x) => (float[4] y) {
    t = TfIdfVectorizer<mode = "TF", min_gram_length = 1, max_gram_length = 1, max_skip_count = 0, ngram_counts = [0],
        ngram_indexes = [0, 1, 2, 3], pool_int64s = [501, 1502, 2503, 3504]>(x)
    y = Neg(t)
}"""
WRONG = (("drop_word", "t"),)
WHY = "wrong"
AFTER = {"Neg": 1, "TfIdfVectorizer": 1}


@rule(lambda g, x, op: g.TfIdfVectorizer(x) @ op, contract=EXACT)
def drop_word(g: RewriteBuilder, x: Value, op: Op) -> Value:
    """The last word of the vocabulary counts no more."""
    pool = op.attr("pool_int64s")
    require(pool[-1] >= 0, "done")
    return g.TfIdfVectorizer(x, **{**op.attrs, "pool_int64s": [*pool[:-1], -1]})
