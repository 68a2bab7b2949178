"""What is padded in front of a pool is its own padding, where the pool takes it for the same."""

from __future__ import annotations

from onnx import TensorProto

from ...core import EXACT, ROUNDING, Build, Op, RulePass, Value, require, rule
from .padding import fill_of, padded, with_pads
from .windows import Window, window_of


@rule(lambda g, x, pool, pad, rest: g.AveragePool(g.Pad(x, *rest) @ pad) @ pool, contract=ROUNDING)
def fold_pad_into_average_pool(g: Build, x: Value, rest: tuple[Value | None, ...], pool: Op, pad: Op) -> Value:
    """AveragePool(Pad(x, 0)) => AveragePool(x), pads that count"""
    inner = plain_window(pool)
    require(pool.version >= 7, "before opset 7 padding is never counted")
    require(pool.attr("count_include_pad", 0) == 1 or not any(inner.pads), "the pool does not count its own padding")
    around = pooled(inner, x, pad)
    require(fill_of(pad) == 0, "it does not pad with zeros")
    made: Value = g.AveragePool(x, **{**with_pads(pool, around), "count_include_pad": 1})
    return made


@rule(lambda g, x, pool, pad, rest: g.MaxPool(g.Pad(x, *rest) @ pad) @ pool, contract=EXACT)
def fold_pad_into_max_pool(g: Build, x: Value, rest: tuple[Value | None, ...], pool: Op, pad: Op) -> Value:
    """MaxPool(Pad(x, c)) => MaxPool(x), pads, of integers; c is the least there is"""
    # Of numbers that are not a number or infinite onnxruntime makes one thing or another, as the padding lies.
    require(x.dtype in (TensorProto.INT8, TensorProto.UINT8), "it is not of integers")
    around = pooled(plain_window(pool), x, pad)
    require(fill_of(pad) == (0 if x.dtype == TensorProto.UINT8 else -128), "what is padded may be the greatest")
    made: Value = g.MaxPool(x, **with_pads(pool, around))
    return made


def plain_window(pool: Op) -> Window:
    """The window of a pool that holds a real element wherever it stands, if no padding is wider than the kernel."""
    require(not pool.attr("ceil_mode", 0), "a last window may hang over the end")
    inner = window_of(pool, pool.attr("kernel_shape") or [])
    require(bool(inner.kernel) and set(inner.dilations) <= {1}, "a window may step over all elements")
    return inner


def pooled(inner: Window, x: Value, pad: Op) -> Window:
    """The window with what `pad` adds, narrower than the kernel as onnxruntime demands."""
    around = padded(inner, pad, len(inner.kernel) + 2)
    n = len(inner.kernel)
    require(all(p < inner.kernel[i % n] for i, p in enumerate(around.pads)), "a window might see padding alone")
    require(all(isinstance(d, int) and d > 0 for d in x.shape[2:]), f"{x.name} may be empty")  # no pool takes that
    return around


FOLD_PAD_INTO_POOL = RulePass("fold-pad-into-pool", (fold_pad_into_average_pool, fold_pad_into_max_pool))
