"""The time of Transposes, reductions and Softmax where layouts move."""

from dataclasses import replace

import numpy as np
from passwright.core.ir.cost_model import CPU, FEWEST_OPS
from passwright.core.run.pipeline import Pipeline
from passwright.passes.movement.layout_propagation.move_transposes import MoveTransposes
from rewriting import apply_passes, becomes, load, stays

MOVE = MoveTransposes()
AT_ANY_COST = Pipeline("at any cost", (MOVE,), costs=FEWEST_OPS)


def declines(text: str, opset: int = 17, weights: dict[str, np.ndarray] | None = None) -> list[str]:
    _, change_log = apply_passes(load(text, opset, weights), MOVE)
    return list(change_log.declines.get("move-transposes", {}).values())


def three_columns(columns: str) -> tuple[str, str]:
    """Three columns added to a matrix, made from rows; and the matrix turned in their place."""
    head = f"g (float[8,{columns}] x, float[1,8] u, float[1,8] v, float[1,8] w) => (float[a,b] y)"
    before = "p = Transpose(u) q = Transpose(v) r = Transpose(w) s = Add(x, p) t = Mul(s, q) y = Add(t, r)"
    after = "p = Transpose<perm=[1,0]>(x) s = Add(p, u) t = Mul(s, v) m = Add(t, w) y = Transpose<perm=[1,0]>(m)"
    return f"{head} {{ {before} }}", f"{head} {{ {after} }}"


def test_a_small_matrix_is_transposed_to_save_three_rows() -> None:
    becomes(*three_columns("2"), MOVE)


def test_a_large_matrix_is_not_transposed_to_save_rows() -> None:
    before, after = three_columns("1000")
    stays(before, MOVE)
    (why,) = declines(before)
    assert why.startswith("moves 64 kB to save 96 B:")
    becomes(before, after, AT_ANY_COST)


def test_an_unknown_dim_counts_with_its_nominal_size() -> None:
    before, after = three_columns("N")
    becomes(before, after, MOVE)
    stays(before, Pipeline("large", (MOVE,), costs=replace(CPU, nominal_dim=1000)))


def centred(extent: int) -> tuple[str, str]:
    """The mean over the channels, last between two Transposes, subtracted."""
    head = f"g (float[1,4,{extent},{extent}] x) => (float[a,b,c,d] y)"
    before = "t = Transpose<perm=[0,2,3,1]>(x) m = ReduceMean<axes=[3]>(t) r = Sub(t, m)"
    after = "m = ReduceMean<axes=[1]>(x) y = Sub(x, m)"
    return f"{head} {{ {before} y = Transpose<perm=[0,3,1,2]>(r) }}", f"{head} {{ {after} }}"


def test_a_small_mean_leaves_the_last_axis() -> None:
    becomes(*centred(3), MOVE)


def two_means(extent: int) -> str:
    head = f"g (float[1,4,{extent},{extent}] x) => (float[a,b,c,d] y)"
    body = "t = Transpose<perm=[0,2,3,1]>(x) m = ReduceMean<axes=[3]>(t) r = Sub(t, m) q = Mul(r, r)"
    return f"{head} {{ {body} n = ReduceMean<axes=[3]>(q) s = Div(r, n) y = Transpose<perm=[0,3,1,2]>(s) }}"


def test_large_means_stay_over_the_last_axis() -> None:
    """As in a LayerNormalization that is written out."""
    stays(two_means(64), MOVE)
    (why,) = declines(two_means(64))
    assert "reductions leave the last axis" in why
    assert not declines(two_means(2))


WHISPER = {"shape": np.array([1, 17, 2, 4])}
HEADS = "h{0} = Reshape({0}, shape) t{0} = Transpose<perm={1}>(h{0})"
ATTENTION = (
    "g (float[1,17,24] x) => (float[a,b,c,d] y) { q, k, v = Split<axis=2>(x) "
    + " ".join(HEADS.format(n, [0, 2, 3, 1] if n == "k" else [0, 2, 1, 3]) for n in "qkv")
    + " s = MatMul(tq, tk) p = Softmax<axis=-1>(s) o = MatMul(p, tv) y = Transpose<perm=[0,2,1,3]>(o) }"
)


def test_attention_is_not_turned_over() -> None:
    stays(ATTENTION, MOVE, weights=WHISPER)
    assert declines(ATTENTION, 17, WHISPER) == ["Softmax p would not be along the last axis"]


def test_attention_of_an_unknown_batch_is_not_turned_over() -> None:
    text, weights = ATTENTION.replace("[1,17,24]", "[N,17,24]"), {"shape": np.array([-1, 17, 2, 4])}
    stays(text, MOVE, weights=weights)
