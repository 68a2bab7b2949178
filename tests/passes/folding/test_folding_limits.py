"""Work and sizes of ops, before they are computed."""

from typing import Any

import numpy as np
from passwright.core import Graph, Op, from_onnx
from passwright.passes.folding.fold_constants import select_within_limits
from passwright.passes.folding.folding_limits import MAX_LIVE_BYTES, OP_BYTES, STRING_BYTES, ResultSizes, Work, work_of
from rewriting import each, load

WEIGHTS: dict[str, Any] = {
    "m": np.ones((10, 20), np.float32),
    "n": np.ones((20, 30), np.float32),
    "k": np.ones((8, 4, 3, 3), np.float32),
    "i": np.ones((1, 4, 9, 9), np.float32),
    "l": np.ones(1000, np.float32),
    "q": np.ones((50, 50), np.float32),
    "words": np.array(["one", "three"], object),
    "trips": np.int64(7),
    "yes": np.bool_(True),
    "one": np.ones(1, np.float32),
    "big": np.array([1 << 26], np.int64),
    "ids": np.arange(100, dtype=np.int64),
}


def graph_of(text: str, opset: int = 20) -> Graph:
    return from_onnx(load(f"g (float[2] x) => (float[2] o) {{ {text} o = Neg(x) }}", opset, WEIGHTS)).graph


def ops_of(text: str) -> list[Op]:
    return [op for op in graph_of(text).sorted_ops() if op.outputs[0].name != "o"]


@each(
    ("text", "multiplications"),
    [
        ("y = MatMul(m, n)", 10 * 20 * 30),
        ("y = Gemm(m, n)", 10 * 20 * 30),
        ("y = Gemm<transA=1, transB=1>(n, m)", 30 * 10 * 30),  # at most
        ("y = Conv(i, k)", 8 * 7 * 7 * 4 * 9),
        ("y = ConvTranspose(t, k)", 8 * 7 * 7 * 4 * 9),
        ("y = MaxPool<kernel_shape=[3, 3]>(i)", 4 * 7 * 7 * 9),
        ("y = Einsum<equation='ij, jk -> ik'>(m, n)", 10 * 20 * 30),
        ("y = Einsum<equation='i,j,k,l->'>(l, l, l, l)", 1000**4),
        ("y = Einsum<equation='...j,jk->...k'>(m, n)", 200 * 20 * 30),
        ("y = Det(q)", 50**3),
        ("y = Exp(m)", 0),
        ("y = Transpose(m)", 0),
        (
            (
                "y = TfIdfVectorizer<max_gram_length=2, max_skip_count=9, min_gram_length=1, mode='TF',"
                " ngram_counts=[0], ngram_indexes=[0], pool_int64s=[1]>(ids)"
            ),
            100 * 10 * 4,
        ),
        (
            (
                "y = Loop (trips, yes, q) <body = l (int64 j, bool c, float[50,50] b) => (bool d, float[50,50] e)"
                " { d = Identity(c) e = MatMul(b, b) }>"
            ),
            7 * 50**3,
        ),
    ],
)
def test_multiplications(text: str, multiplications: int) -> None:
    graph = graph_of(f"t = Conv(i, k) {text}".replace("'", '"') if "(t," in text else text.replace("'", '"'))
    (op,) = (op for op in graph.sorted_ops() if op.outputs[0].name == "y")
    work = work_of(op, 100)
    assert work is not None
    assert work.multiplications == multiplications
    assert work.bytes >= 100 + OP_BYTES


def test_work_is_limited_by_the_weights() -> None:
    """As many multiplications as an update of rank 64 of all weights takes are allowed for any model."""
    assert Work(0, 10**11).fits(0)
    assert not Work(0, 10**11 + 1).fits(0)
    assert Work(10**9, 64 * 10**9 // 4).fits(10**9)
    assert not Work(10**14, 0).fits(10**9)


@each(
    ("text", "size"),
    [
        ("y = Abs(m)", 800),
        ("a = SequenceConstruct(m, m) y = ConcatFromSequence<axis=0>(a)", None),  # the size is not inferred
        ("y = SequenceConstruct(m, m)", 1600),
        ("a = SequenceConstruct(m) b = SequenceInsert(a, m) y = SequenceInsert(b, m)", 2400),
        ("y = SplitToSequence(m)", 800),
        ("y = StringConcat(words, words)", 2 * (STRING_BYTES + 2 * 4 * 5)),
        ("a = StringConcat(words, words) y = StringConcat(a, a)", 2 * (STRING_BYTES + 4 * 4 * 5)),
        ("y = Cast<to=8>(one)", STRING_BYTES * 2),
        ("y = Concat<axis=0>(words, words)", 4 * (STRING_BYTES + 4 * 5)),
        ("y, z = StringSplit(words)", None),
    ],
)
def test_sizes(text: str, size: int | None) -> None:
    sizes = ResultSizes()
    found = [sizes.add(op) for op in ops_of(text)]
    assert found[-1] == size


def test_live_results_are_limited() -> None:
    """Results of 256 MiB: a third one does not fit while two are needed, but fits once one of them is not."""
    chain = ops_of("a = ConstantOfShape(big) b = Neg(a) c = Neg(b) y = ReduceSum(c)")
    sizes = ResultSizes()
    assert [sizes.add(op) for op in chain[:3]] == [MAX_LIVE_BYTES // 2] * 3
    assert list(select_within_limits(chain, sizes, 0, Work())) == chain
    tree = ops_of("a = ConstantOfShape(big) b = Neg(a) c = Neg(a) d = Add(b, c) y = ReduceSum(d)")
    sizes = ResultSizes()
    for op in tree:
        sizes.add(op)
    assert [op.outputs[0].name for op in select_within_limits(tree, sizes, 0, Work())] == ["a", "b"]
