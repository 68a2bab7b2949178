"""Caches of keys and values in 8 bits.

`quantize-cache`: Caches of int8 in Attention, by GroupQueryAttention of com.microsoft.

Beside Attention, a token behind 1024 took 0.5 of the time, 64 tokens at once 4 times as long. With caches of floats
GroupQueryAttention is no faster.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from ...core import LOSSY, Graph, Op, RewriteBuilder, Value, require, rule, same_extent
from ..support.operand_queries import Array, known, known_extent, operand
from ..transforms.interface import as_type
from .weight_rounding import required_spec

LARGEST = 127  # int8 of the greatest magnitude of a channel
WIDTH_STEP = 8  # GroupQueryAttention takes heads whose width is a multiple of it
MASKED = -1e30  # a row masked throughout by lower numbers is NaN
PASTS, PRESENTS = (3, 4), (1, 2)  # the caches of keys and of values among the inputs and outputs of GroupQueryAttention
UNCHANGED = ("scale", "softcap")
HEADS = ("q_num_heads", "kv_num_heads")


@rule(lambda g, op: g.Attention(...) @ op, contract=LOSSY, group="quantize-cache")
def quantize_cache(g: RewriteBuilder, op: Op) -> tuple[Value, ...]:
    """Attention(q, k, v, m, past_k, past_v) => GroupQueryAttention(q, k, v, past_k / s as int8, past_v / s as int8, m)

    The present keys and values are int8 times s. With more than one batch, it takes one token behind a past.
    """
    q, k, v = (operand(op, i) for i in range(3))
    mask, pasts = op.input(3), [known(op.input(i), "it has no cache") for i in (4, 5)]
    require(len(op.outputs) == 3 and op.input(6) is None, "it has further inputs or outputs")
    require(all(x.dtype == TensorProto.FLOAT for x in (q, k, v, *pasts)), "it is not of single precision")
    require(op.attr("softmax_precision", 0) in {0, TensorProto.FLOAT}, "its Softmax has another precision")
    given = {name: value for name, value in op.attrs.items() if name not in {"softmax_precision", *HEADS}}
    require(not any(given[name] for name in {*given} - {*UNCHANGED}), "it masks or gives scores by attributes")
    require(q.rank == 3, "its operands do not have 3 dims")
    require(same_extent(q.shape[1], k.shape[1]), "there are not as many keys as queries")
    heads, kv_heads = (int(op.attr(name)) for name in HEADS)
    width, *others = (known_extent(x, 2) // n for x, n in ((q, heads), (k, kv_heads), (v, kv_heads)))
    require(width % WIDTH_STEP == 0 and others == [width] * 2, f"its heads do not all have a multiple of {WIDTH_STEP}")
    for past, present in zip(pasts, op.outputs[1:], strict=True):
        for x in (past, present):
            is_interface = x in op.graph.inputs or op.graph.is_output(x)
            alone = all(r is op or r.type == "Shape" for r in x.consumers)
            require(is_interface and alone and op.graph.owner is None, f"{x.name} is more than a cache of the caller")
    scales = [channel_scale(g, x, kv_heads) for x in (k, v)]
    new, batch = extent_of_input(g, k, 1), extent_of_input(g, q, 0)
    total = g.Cast(g.Add(extent_of_input(g, pasts[0], 2), new), to=TensorProto.INT32)
    last = g.Expand(g.Sub(total, np.array([1], np.int32)), batch)
    integers = [rounded(g, past, s) for past, s in zip(pasts, scales, strict=True)]
    bias = None if mask is None else mask_to_add(g, mask, q)
    inputs: list[Any] = [q, k, v, *integers, last, g.Squeeze(total), None, None, None, bias, None, *scales]
    kinds = dict.fromkeys(("k_quant_type", "v_quant_type"), "PER_CHANNEL")
    attrs: dict[str, Any] = {name: given[name] for name in UNCHANGED if name in given} | kinds
    attrs |= {"num_heads": heads, "kv_num_heads": kv_heads, "causal": 0, "kv_cache_bit_width": 8}
    y, *made = g.domain("com.microsoft").GroupQueryAttention(*inputs, outputs=3, **attrs)
    op.outputs[0].merge_type(q.dtype, op.outputs[0].shape)  # nothing infers the type of GroupQueryAttention
    return (y, *(g.Mul(g.Cast(x, to=TensorProto.FLOAT), s) for x, s in zip(made, scales, strict=True)))


def channel_scale(g: RewriteBuilder, x: Value, heads: int) -> Value:
    """The scales of the channels of new keys or values, (1, heads, 1, width)."""
    found = required_spec(g).channels.get(x.name)
    maxima: Array = known(found, f"the channels of {x.name} were not calibrated")
    require(bool(np.isfinite(maxima).all()), f"{x.name} is not finite")
    scales = np.where(maxima > 0, maxima, 1) / LARGEST
    return g.const(scales.reshape(1, heads, 1, -1).astype(np.float32))


def rounded(g: RewriteBuilder, x: Value, scale: Value) -> Value:
    """A cache of floats in integers, which it has exactly if it is integers times the scale.

    onnxruntime takes past and present to be as long as each other, and would have both in one place of memory: not
    behind a Reshape whose extents it does not know.
    """
    limits = (np.array(n, np.float32) for n in (-LARGEST - 1, LARGEST))
    integers = g.Cast(g.Clip(g.Round(g.Div(x, scale)), *limits), to=TensorProto.INT8)
    return g.Reshape(integers, [0, 0, -1, known_extent(scale, 3)])


def extent_of_input(g: RewriteBuilder, x: Value, axis: int) -> Value:
    """The extent of an axis as a vector: of the first input of the model with this extent, so that layers share it."""
    own = x.shape[axis]
    axes = ((v, i) for v in g.graph.inputs for i, d in enumerate(v.known_shape or ()) if same_extent(d, own))
    v, i = next(axes, (x, axis))
    return g.Shape(v, start=i, end=i + 1)


def mask_to_add(g: RewriteBuilder, mask: Value, q: Value) -> Value:
    """A mask as numbers (batch or 1, heads or 1, queries, keys)."""
    require(mask.rank >= 2 and 1 not in mask.shape[-1:], f"{mask.name} is one for all keys")
    require(same_extent(mask.shape[-2], q.shape[1]), f"{mask.name} may be one for all queries")
    if mask.dtype == TensorProto.BOOL:
        mask = g.Where(mask, g.const(np.float32(0)), g.const(np.float32(MASKED)))
    return mask if mask.rank == 4 else g.Unsqueeze(mask, axes=[*range(4 - mask.rank)])


def caching_ops(graph: Graph) -> list[Op]:
    """The Attentions with a cache of floats."""
    return [op for op in graph.ops("Attention") if not op.domain and op.input(4) is not None]


def cached_operands(graph: Graph) -> dict[str, int]:
    """The axes of the channels of new keys and values of Attentions with a cache, by name."""
    operands = (x for op in caching_ops(graph) for x in op.inputs[1:3] if x is not None)
    return {x.name: 2 for x in operands if len(x.known_shape or ()) == 3}


def expose_integer_caches(graph: Graph) -> tuple[list[str], list[str]]:
    """Make inputs and outputs of the model the integers of caches in place of the floats: their names."""
    caches = [op for op in graph.ops("GroupQueryAttention") if op.attr("kv_cache_bit_width", 0)]
    pasts = [expose_past(graph, op, i) for op in caches for i in PASTS]
    presents = [expose_present(graph, op.outputs[i]) for op in caches for i in PRESENTS]
    infos = zip(graph.outputs, graph.declared.outputs, strict=True)
    graph.declared.outputs[:] = [as_type(info, TensorProto.INT8) if v in presents else info for v, info in infos]
    inputs = graph.declared.inputs
    inputs[:] = [(v, as_type(info, TensorProto.INT8) if v in pasts else info) for v, info in inputs]
    graph.context.inference_epoch += 1
    return [v.name for v in pasts], [v.name for v in presents]


def expose_past(graph: Graph, op: Op, index: int) -> Value:
    """Let an operand be an input of integers in place of what `rounded` makes of one of floats: the input."""
    integers = past = operand(op, index)
    while past.producer is not None:
        past = operand(past.producer)
    shape = past.recorded_type[1]
    past.reset()
    past.merge_type(TensorProto.INT8, shape)
    graph.set_inputs(op, [past if v is integers else v for v in op.inputs])
    graph.prune([known(integers.producer, "it is computed")])
    return past


def expose_present(graph: Graph, integers: Value) -> Value:
    """Make integers an output in place of the floats that they become: the output."""
    (cast,) = integers.consumers
    (scaled,) = cast.outputs[0].consumers
    present = scaled.outputs[0]
    graph.replace_output(present, integers)
    present.name, integers.name = integers.name, present.name
    for shape in list(present.consumers):
        graph.set_inputs(shape, [integers])
    graph.prune([scaled])
    return integers
