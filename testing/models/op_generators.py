"""Generators of operators: arithmetic and bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isfinite
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, parser

from ...core.ir.tensor import element_type
from ...core.operators.declaration import Trait
from ...core.operators.table import ops_with
from ...core.rewriting.pattern import Var
from . import data_movement, lookups
from .generator import OpGenerator, OpSite
from .model_builder import GenerationError, Shape, TypedValue

CASTS = (
    TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.BOOL,
    TensorProto.UINT8, TensorProto.INT8,
)  # fmt: skip
ACTIVATIONS = ("Relu", "Tanh", "Sigmoid")
AUTO_PADS = ("SAME_UPPER", "SAME_LOWER", "VALID")
UNARY_EQUATIONS = ("ij->ji", "ij->ij", "ij->i", "ii->i", "ijk->ikj", "ij->", "bij->bji", "...ij->...ji", "ijk->k")
BINARY_EQUATIONS = (
    "ij,jk->ik", "ij,ij->ij", "bij,bjk->bik", "i,j->ij", "ij,kj->ik", "bhid,bhjd->bhij", "ij,j->i", "ij,jk->ki",
    "ij,ik->jk", "i,i->", "ij,j->ij", "ij,jk->ijk", "ij,ji->ij", "...ij,...jk->...ik", "ji,jk->ik", "bij,jk->bik",
)  # fmt: skip
TERNARY_EQUATIONS = ("ij,jk,kl->il", "i,j,k->ijk")

Draw = Callable[[OpSite, TypedValue], Any]
"""A parameter of an op, drawn for its first operand."""
AXIS: Draw = OpSite.draw_axis


def one_of(*options: Any) -> Draw:
    """One of `options`."""
    return lambda site, _x: site.choices.pick(options)


FLAG = one_of(0, 1)


def number(site: OpSite, _x: TypedValue) -> float:
    """A number of the dictionary."""
    return site.generator.dictionary.draw_number(site.choices)


def reduced_axes(site: OpSite, x: TypedValue) -> list[int]:
    """The axes of a reduction; an empty list may mean all axes, or no reduction."""
    return [] if site.is_empty_list() else site.draw_axes(len(x.shape))


def repeats(site: OpSite, x: TypedValue) -> list[int]:
    """The repeats of each dim: all 1 in a third of the models, some 0."""
    most = 3 if site.choices.draw_below(3) else 1
    return [0 if site.is_empty_list() else 1 + site.choices.draw_below(most) for _ in x.shape]


def with_parameters(min_rank: int = 0, max_rank: int = 5, **draws: Draw) -> OpGenerator:
    """The generator of an operator whose parameters depend only on its first operand."""

    def generate(site: OpSite) -> None:
        x = site.first_operand(min_rank, max_rank)
        for name, draw in draws.items():
            site.parameter(name, partial(draw, site, x))

    return generate


def with_option(generate: OpGenerator, name: str, *options: Any) -> OpGenerator:
    """The generator `generate` for an operator with an additional parameter, one of `options`."""

    def generate_with_option(site: OpSite) -> None:
        site.pick(name, *options)
        generate(site)

    return generate_with_option


def _broadcast(site: OpSite) -> None:
    """Operands that broadcast: the first one determines the shape, others rarely extend it."""
    target = site.hint.shape
    for n, i in enumerate(site.operand_order(reverse=site.choices.draw_below(2) == 1)):
        if n == 0:
            target = site.operand(i, target).shape
            continue
        settled = site.existing_operand(i)
        made = site.operand(i, settled.shape if settled else broadcastable_shape(site, target, i))
        try:
            target = tuple(int(d) for d in np.broadcast_shapes(target, made.shape))
        except ValueError as e:
            raise GenerationError(str(e)) from e


def broadcastable_shape(site: OpSite, target: Shape, index: int) -> Shape:
    """A shape that broadcasts with `target`: mostly the same, a scalar, or its last dims."""
    want = site.input_patterns[index]
    if site.generator.distribution.filling == "plain" and isinstance(want, Var) and want.constant:
        return ()
    form = 6 if site.generator.distribution.equal_dims and site.choices.draw_below(4) else site.choices.draw_below(8)
    if form < 2:
        return target
    if form < 4:
        return ()
    if form == 4:
        return (1,) * min(1, len(target))
    if form == 5:
        return target[site.choices.draw_below(len(target) + 1) :]
    if form == 6:
        kept = site.choices.draw_below(max(len(target), 1))
        return tuple(d if i == kept else 1 for i, d in enumerate(target))
    return (site.generator.draw_dim() or 1, *target)[-5:]


def _bit_shift(site: OpSite) -> None:
    site.attrs["direction"] = site.choices.pick(("LEFT", "RIGHT"))
    _broadcast(site)


def _cast(site: OpSite) -> None:
    """Cast and BitCast, to the type of the pattern or the hint."""
    named = "to" in dict(site.pattern.attrs)
    site.bound_types.clear()
    wished = site.hint.dtype

    def target() -> int:
        return wished if site.choices.draw_below(2) == 0 else site.choices.pick(CASTS)

    if named or site.pattern.bound_name:
        site.parameter("to", target, needed=True)
    else:
        site.attrs["to"] = target()
    taken = site.spec.inputs[0].type_str
    site.bound_types[taken] = site.choices.pick(CASTS) if site.choices.draw_below(2) else site.generator.dtype
    site.first_operand()


def _number_attributes(site: OpSite) -> None:
    """HardSigmoid and other operators with numeric attributes, which are finite."""
    x = site.first_operand()
    for name in site.spec.attributes:
        site.parameter(name, lambda: drawn if isfinite(drawn := number(site, x)) else 1.0)


def _prelu(site: OpSite) -> None:
    """PRelu, whose slope broadcasts unidirectionally."""
    x = site.first_operand(1)
    site.add_remaining_operands(site.choices.pick((x.shape, (), (1,) * len(x.shape[2:]))))


def _quantize(site: OpSite) -> None:
    """QuantizeLinear and DequantizeLinear, with one scale or one along an axis."""
    x = site.first_operand(1)
    axis = site.parameter("axis", lambda: site.choices.draw_below(len(x.shape)), 1)
    shape = (x.dim_at(axis),) if site.choices.one_in(3) else ()
    site.add_operands((1, 2), shape, positive=1)


def _top_k(site: OpSite) -> None:
    x = site.first_operand(1)
    dim = x.dim_at(site.axis(x, -1))
    site.parameter("K", lambda: [1 + site.choices.draw_below(max(dim, 1))], needed=True)
    site.pick("largest")


def _batch_norm(site: OpSite) -> None:
    """BatchNormalization with statistics for each channel."""
    x = site.first_operand(2, 4)
    site.add_operands(range(1, 5), x.shape[1:2], positive=4)
    site.pick("epsilon", 0.5, 1e-3, 0.0)
    site.pick("momentum", 0.5)
    if site.parameter("training_mode", lambda: int(site.choices.one_in(4)), 0):
        site.output_count = 3


def _layer_norm(site: OpSite) -> None:
    """LayerNormalization and RMSNormalization: weights for all dims from the axis on."""
    x = site.first_operand(1)
    rank = len(x.shape)
    axis = site.axis(x, -1)
    site.pick("epsilon", 0.5, 1e-3)
    site.add_operands((1, 2), x.shape[axis:] if -rank <= axis < rank else ())


def _channel_norm(site: OpSite) -> None:
    """InstanceNormalization, GroupNormalization: a scale and a bias for each channel."""
    x = site.first_operand(3, 4)
    if site.op_type == "GroupNormalization":
        site.attrs["num_groups"] = 1
    site.add_remaining_operands(x.shape[1:2])


def _skip_norm(site: OpSite) -> None:
    """SkipLayerNormalization and variants: normalization of a sum, with weights for the last axis."""
    x = site.first_operand(3, 3).shape
    site.operand(1, x)
    site.pick("epsilon", 0.5, 1e-3)
    site.add_remaining_operands(x[-1:])


def _reverse_sequence(site: OpSite) -> None:
    x = site.first_operand(2)
    batch: int = site.pick("batch_axis", default=1)
    site.pick("time_axis", 1 - batch)
    times, count = x.dim_at(1 - batch), x.dim_at(batch)
    site.parameter("sequence_lens", lambda: [site.choices.draw_below(times + 1) for _ in range(count)])


def kernel_sizes(site: OpSite, dims: Shape, *, same: bool) -> list[int]:
    """Kernel sizes, odd ones for outputs of the size of the input."""
    sizes = (1, 3) if same else (1, 2, 3)
    return [site.choices.pick([k for k in sizes if k <= max(d, 1)]) for d in dims]


def strides_and_pads(site: OpSite, kernel: Sequence[int], *, same: bool, dilated: bool = True) -> None:
    """Strides, pads and dilations."""
    n = len(kernel)
    if same:
        pads = [k // 2 for k in kernel]
        if any(pads):
            site.parameter("pads", lambda: pads + pads, needed=True)
        return
    site.parameter("strides", lambda: site.draw_each(n, 1))
    if dilated:
        site.parameter("dilations", lambda: site.draw_each(n, 1))
    if site.choices.one_in(4):
        site.pick("auto_pad", *AUTO_PADS)
    else:
        site.parameter("pads", lambda: site.draw_each(2 * n))


def group_parameter(site: OpSite, channels: int) -> int:
    """A number of groups of the channels."""
    valid = [1, *(d for d in range(2, channels + 1) if channels % d == 0)]
    return site.pick("group", *valid, default=1)


def _conv(site: OpSite) -> None:
    """Conv, ConvInteger and QLinearConv: a weight that fits the input; scales and zero points are scalars."""
    _batch, channels, *dims = site.first_operand(3).shape
    same = site.choices.draw_below(2) == 0
    index = 3 if site.op_type == "QLinearConv" else 1
    settled = site.existing_operand(index)
    group = group_parameter(site, channels)
    kernel = list(settled.shape[2:]) if settled else kernel_sizes(site, tuple(dims), same=same)
    if len(kernel) != len(dims):
        raise GenerationError("the weight is of another rank")
    wished = site.hint.shape[1] if len(site.hint.shape) > 1 else channels
    out = site.choices.pick([m for m in (wished, group, 2 * group, 1, 2, 3) if m and m % group == 0])
    w = site.operand(index, (out, channels // max(group, 1), *kernel)).shape
    if site.choices.draw_below(2):
        site.parameter("kernel_shape", lambda: kernel)
    strides_and_pads(site, kernel, same=same)
    if bias := {"Conv": 2, "FusedConv": 2, "QLinearConv": 8}.get(site.op_type):
        site.add_operands((bias,), w[:1])
    site.add_remaining_operands(())


def _conv_transpose(site: OpSite) -> None:
    """ConvTranspose, whose weight has the input channels first."""
    _batch, channels, *dims = site.first_operand(3).shape
    settled = site.existing_operand(1)
    group = group_parameter(site, channels)
    kernel = list(settled.shape[2:]) if settled else kernel_sizes(site, tuple(dims), same=False)
    out = site.choices.pick((1, 2, 3))
    w = site.operand(1, (channels, out, *kernel)).shape
    if site.choices.draw_below(2):
        site.parameter("kernel_shape", lambda: kernel)
    strides = site.parameter("strides", lambda: site.draw_each(len(kernel), 1), [1])
    if max(strides, default=1) > 1:
        site.parameter("output_padding", lambda: site.draw_each(len(kernel)))
    site.parameter("pads", lambda: site.draw_each(2 * len(kernel)))
    site.add_operands((2,), (w[1] * group,))


def _pool(site: OpSite) -> None:
    dims = site.first_operand(3).shape[2:]
    same = site.choices.draw_below(4) == 0
    kernel = site.required_parameter("kernel_shape", lambda: kernel_sizes(site, dims, same=same))
    if len(kernel) != len(dims):
        raise GenerationError("the window is of another rank")
    if site.choices.one_in(3):
        site.parameter("pads", lambda: [min(k - 1, site.choices.draw_below(2)) for k in (*kernel, *kernel)])
        site.parameter("strides", lambda: site.draw_each(len(kernel), 1))
    else:
        padded = all(k > 1 for k in kernel)
        strides_and_pads(site, kernel, same=same or not padded, dilated=site.op_type != "LpPool")
    site.pick("ceil_mode")
    site.pick("count_include_pad")


def _matmul(site: OpSite) -> None:
    """MatMul of matrices, batches of matrices, and sometimes vectors."""
    shape = site.hint.shape if len(site.hint.shape) > 1 else site.hinted_shape(2, 4)
    rows, columns = shape[-2:]
    inner = rows if site.choices.one_in(3) else site.generator.draw_dim()
    right_is_matrix = site.choices.draw_below(2)
    first = site.operand_order()[0]
    if first == 0 or site.existing_operand(0):
        a = _factor_shape(site, 0, (inner,) if site.choices.one_in(4) else (*shape[:-1], inner))
        vector = site.choices.one_in(2)
        batch = () if right_is_matrix else tuple(1 if site.choices.one_in(4) else d for d in a[:-2])
        site.operand(1, (a[-1],) if vector else (*batch, a[-1], columns))
    else:
        b = _factor_shape(site, 1, (*shape[:-2], inner, columns))
        rows_in = b[-2:][0]
        batch = shape[:-2] if len(b) <= 2 else b[:-2]
        site.operand(0, (*batch, rows, rows_in))


def _factor_shape(site: OpSite, index: int, shape: Shape) -> Shape:
    found = site.operand(index, shape).shape
    if not found:
        raise GenerationError("a factor is a scalar")
    return found


def _gemm(site: OpSite) -> None:
    """Gemm with transposed operands, scales and a bias that broadcasts unidirectionally."""
    hint = site.hinted_shape(2, 2)
    swaps = [site.pick(name, default=0) for name in ("transA", "transB")]
    for name in ("alpha", "beta"):
        site.pick(name, 2.0, 0.5, 1.0, -1.0, 0.0)
    inner = site.generator.draw_dim()
    shapes: list[Shape] = [(), ()]
    for i in sorted((0, 1), key=site.operand_order().index):
        rows, columns = (hint[0], inner) if i == 0 else (inner, hint[1])
        made = site.operand(i, (columns, rows) if swaps[i] else (rows, columns)).shape
        if len(made) != 2:
            raise GenerationError("Gemm takes matrices")
        shapes[i] = made[::-1] if swaps[i] else made
        inner = shapes[0][1] if i == 0 else shapes[1][0]
    if site.input_pattern(2) is not None:
        total = (shapes[0][0], shapes[1][1])
        settled = site.existing_operand(2)
        bias = settled.shape if settled else broadcastable_shape(site, total, 2)
        site.operand(2, bias[-2:])


def _fused_matmul(site: OpSite) -> None:
    """FusedMatMul of matrices and stacks of matrices, transposed or not, with a scale."""
    *batch, rows, columns = site.hinted_shape(2, 4)
    inner = site.generator.draw_dim()
    for i, name, shape in ((0, "transA", (rows, inner)), (1, "transB", (inner, columns))):
        swapped = site.pick(name, default=0)
        site.operand(i, (*batch, *(shape[::-1] if swapped else shape)))
    site.pick("alpha", 2.0, 0.5, 1.0)


def _einsum(site: OpSite) -> None:
    """Einsum of one to three operands, with one of a few equations."""
    table = {1: UNARY_EQUATIONS, 2: BINARY_EQUATIONS, 3: TERNARY_EQUATIONS}.get(len(site.input_patterns))
    if table is None:
        raise GenerationError("no equation is known for so many factors")
    equation = site.required_parameter("equation", lambda: site.choices.pick(table))
    sizes: dict[str, int] = {}
    for i, letters in enumerate(str(equation).replace(" ", "").split("->")[0].split(",")):
        plain = letters.replace("...", "")
        for letter in plain:
            sizes.setdefault(letter, site.generator.draw_dim())
        site.operand(i, ((2,) if "..." in letters else ()) + tuple(sizes[c] for c in plain))


def _attention(site: OpSite) -> None:
    """Attention of four-dimensional heads."""
    batch, heads, length, size = site.hinted_shape(4, 4)
    q = site.operand(0, (batch, heads, length, size)).shape
    if len(q) == 4:
        batch, heads, length, size = q
    keys = site.generator.draw_dim() or 1
    k = site.operand(1, (batch, heads, keys, size) if len(q) == 4 else (batch, keys, q[-1])).shape
    site.operand(2, k)
    site.add_operands((3,), (length, k[-2]))
    site.pick("scale", 0.5, 1.0, 2.0)
    site.pick("is_causal")


def _feature_vectorizer(site: OpSite) -> None:
    rows = site.first_operand(2, 2).shape[0]
    wide = [site.operand(i, (rows, 1 + site.choices.draw_below(3))) for i in site.operand_order()]
    site.required_parameter("inputdimensions", lambda: [x.shape[-1] for x in wide])


def _by_operator() -> dict[str, OpGenerator]:
    """The generators in this module, by operator."""
    of_each: dict[OpGenerator, str] = {
        _broadcast: " ".join(sorted(ops_with(Trait.BROADCASTING))),
        _bit_shift: "BitShift",
        with_option(_broadcast, "fmod", 1): "Mod",  # with fmod only, it accepts floats
        _cast: "Cast BitCast",
        with_parameters(min=number, max=number): "Clip",
        with_parameters(
            ratio=one_of(0.5, 0.25, 0.0), training_mode=lambda site, _x: not site.choices.one_in(3)
        ): "Dropout",
        _prelu: "PRelu",
        _quantize: "QuantizeLinear DequantizeLinear",
        _number_attributes: "HardSigmoid LeakyRelu Elu Celu ThresholdedRelu Selu",
        with_parameters(1, axes=reduced_axes, keepdims=FLAG, noop_with_empty_axes=FLAG): " ".join(
            sorted(ops_with(Trait.REDUCTION))
        ),
        with_parameters(1, axis=AXIS, keepdims=FLAG, select_last_index=FLAG): "ArgMax ArgMin",
        with_parameters(1, axis=AXIS): "Softmax LogSoftmax Hardmax",
        with_parameters(1, axis=AXIS, exclusive=FLAG, reverse=FLAG): "CumSum CumProd",
        with_parameters(1, axis=AXIS, p=one_of(1, 2)): "LpNormalization",
        _top_k: "TopK",
        _batch_norm: "BatchNormalization",
        _layer_norm: "LayerNormalization RMSNormalization",
        _channel_norm: "InstanceNormalization GroupNormalization",
        _skip_norm: "SkipLayerNormalization SkipSimplifiedLayerNormalization",
        lambda site: site.add_remaining_operands(site.first_operand(1, 3).shape[-1:]): "BiasGelu FastGelu",
        _reverse_sequence: "ReverseSequence",
        _conv: "Conv ConvInteger QLinearConv",
        with_option(_conv, "activation", *ACTIVATIONS): "FusedConv",
        _conv_transpose: "ConvTranspose",
        _pool: "AveragePool MaxPool LpPool",
        with_parameters(3): "GlobalAveragePool GlobalMaxPool GlobalLpPool",
        _matmul: "MatMul MatMulInteger",
        _gemm: "Gemm",
        with_option(_gemm, "activation", *ACTIVATIONS): "FusedGemm",
        _fused_matmul: "FusedMatMul",
        _einsum: "Einsum",
        _attention: "Attention",
        _feature_vectorizer: "FeatureVectorizer",
        with_parameters(2, k=one_of(0, 1, -1, 5, -5), upper=FLAG): "Trilu",
        with_parameters(1, repeats=repeats): "Tile",
        with_parameters(0, 3, depth=one_of(3), values=one_of([0, 1]), axis=one_of(-1)): "OneHot",
    }
    return {op_type: generate for generate, types in of_each.items() for op_type in types.split()}


STEPS = {"Add": 2, "Neg": 1, "Identity": 1, "Mul": 2, "Relu": 1}
"""Operators that compute the next state from this many previous ones."""
TRIPS = (2, 0, 1, 3)
SCAN_WITHOUT_BATCH_OPSET = 9


def _body(site: OpSite, inputs: Sequence[str], nodes: Sequence[str], outputs: Sequence[str]) -> onnx.GraphProto:
    """A body as ONNX text, in which # stands for a number that no other body has."""
    text = f"body ({', '.join(inputs)}) => ({', '.join(outputs)}) {{ {' '.join(nodes)} }}"
    return parser.parse_graph(text.replace("#", f"_{len(site.generator.builder.nodes)}"))


def _declared(value: TypedValue, rank: int, name: str) -> str:
    """The declaration of a value of that rank in a body, with unknown extents, because one may become symbolic."""
    dims = f"[{','.join('?' * rank)}]" if rank else ""
    return f"{element_type(value.dtype)}{dims} {name}"


def _step(site: OpSite, state: str, made: str) -> str:
    """A node of any operator; with probability 1/2, one that the rule's code names."""
    own = [op_type for op_type in STEPS if op_type in site.generator.dictionary.operators]
    op_type = site.choices.pick(site.choices.pick((tuple(STEPS), own or tuple(STEPS))))
    return f"{made} = {op_type} ({', '.join([state] * STEPS[op_type])})"


def _state(site: OpSite, index: int) -> TypedValue:
    """The operand at `index`, with the type of the model, which must be numeric."""
    formal = site.formal_parameter(index).type_str
    if site.existing_operand(index) is None and site.generator.dtype not in {TensorProto.BOOL, TensorProto.STRING}:
        site.bound_types.setdefault(formal, site.generator.dtype)
    made = site.operand(index, site.hint.shape)
    site.bound_types.pop(formal, None)  # each state has its own type
    return made


def _if(site: OpSite) -> None:
    """If, whose branches compute something from a value of the outer graph."""
    site.operand(0, ())
    x = site.generator.builder.input(site.generator.dtype, site.hint.shape)
    for branch in ("then_branch", "else_branch"):
        made = f"{branch}#"
        site.attrs[branch] = _body(site, [], [_step(site, x.name, made)], [_declared(x, len(x.shape), made)])


def _loop(site: OpSite) -> None:
    """Loop of few or no trips over states, with or without an output for each trip."""
    present = site.operand_order()
    if 0 in present and not site.existing_operand(0):
        site.parameter("M", lambda: site.choices.pick(TRIPS))
    if 1 in present and not site.existing_operand(1):
        site.parameter("cond", lambda: not site.choices.one_in(4))
    states = [_state(site, i) for i in present if i > 1]
    inputs, outputs, nodes = ["int64 trip#", "bool before#"], ["bool after#"], ["after# = Identity (before#)"]
    if 0 not in present:
        limit = f"limit# = Constant <value = int64 {{{site.choices.pick((1, 3))}}}> ()"
        nodes = [limit, "after# = Less (trip#, limit#)"]
    for n, state in enumerate(states):
        inputs.append(_declared(state, len(state.shape), f"state{n}#"))
        nodes.append(_step(site, f"state{n}#", f"next{n}#"))
        outputs.append(_declared(state, len(state.shape), f"next{n}#"))
    if site.choices.draw_below(2) or not states:
        nodes.append("seen# = Identity (trip#)")
        outputs.append("int64 seen#")
    site.attrs["body"] = _body(site, inputs, nodes, outputs)
    site.output_count = len(outputs) - 1


def _scan(site: OpSite) -> None:
    """Scan over the first axis of its last operand, with the others as states."""
    count = len(site.input_patterns)
    if site.spec.since_version < SCAN_WITHOUT_BATCH_OPSET or count < 1:
        raise GenerationError("a Scan of opset 8 has a batch")
    *states, scanned = (_state(site, i) for i in range(count))
    if not scanned.shape:
        raise GenerationError("there is no axis to scan")
    inputs, outputs, nodes = list[str](), list[str](), list[str]()
    for n, value in enumerate([*states, scanned]):
        rank = len(value.shape) - (value is scanned)
        inputs.append(_declared(value, rank, f"in{n}#"))
        outputs.append(_declared(value, rank, f"out{n}#"))
        nodes.append(_step(site, f"in{n}#", f"out{n}#"))
        if value.dtype in {TensorProto.BOOL, TensorProto.STRING}:
            raise GenerationError("the state is not a number")
    site.attrs["body"] = _body(site, inputs, nodes, outputs)
    site.attrs["num_scan_inputs"] = 1
    site.pick("scan_input_directions", [0], [1])
    site.pick("scan_output_directions", [0], [1])
    site.output_count = len(outputs)


OP_GENERATORS: Mapping[str, OpGenerator] = MappingProxyType(
    {**_by_operator(), "If": _if, "Loop": _loop, "Scan": _scan, **data_movement.OP_GENERATORS, **lookups.OP_GENERATORS}
)
"""The generator of each operator; operators without one get equal inputs."""
