"""Input specs of a model: types, shapes with shared symbols, and restrictions on extents and values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
import onnx
from msgspec import Struct, field
from msgspec.structs import replace
from onnx import helper

from ..errors import ModelError
from ..inference import beyond_ranks
from ..io.model import Model
from ..ir.dtypes import INTEGER_DTYPES
from ..ir.expressions import Dim, is_symbolic_only
from ..ir.graph import Graph
from ..ir.op import Op
from ..ir.tensor import KNOWN_DTYPES, Tensor
from ..ir.values import Value, declared_shape
from ..operators.declaration import Trait
from ..operators.ml import has_cyclic_tree
from ..operators.operands import full_perm
from ..operators.table import READS_SHAPE, data_inputs, ops_with, ops_with_role, roles
from ..ort.empty_tensors import (
    EMPTY_SUM_ERROR,
    UNWRITTEN_ERROR,
    has_nonempty_filters,
    joins_equal_extents,
    supports_empty_tensors,
)
from . import dim_expressions
from .decision_boundaries import NO_BOUNDARIES, DecisionBoundaries, decision_boundaries, evenly_spread, vocabulary
from .transitive_uses import MAX_FOLLOWED_VALUES, Use, is_selection_only, transitive_uses
from .word_generation import words_of_operator

NUMBERED = re.compile(r"unk__[0-9]+|.+_dynamic_axes_[0-9]+")
"""The names that tf2onnx and torch.onnx make for dims without a name, each one different."""
SIZE_ROLES = frozenset({"extent", "pads", "scales", "stretch", "trips"})
# Inputs are also restricted if they are a condition, the ends of a range, a region, or frequencies.
OTHER_CONTROL_INPUTS = {"Loop": (1,), "Range": (0, 1, 2), "Resize": (1,), "MelWeightMatrix": (2, 3, 4)}
SAME_DTYPE_OPS = ops_with(Trait.SAME_DTYPE)
DIVISIONS = ops_with_role("divisor")
MAX_LOOKBACK = 100  # ops
SAME_SHAPE_OPS = ops_with(Trait.SAME_SHAPE)
BROADCASTING_OPS = ops_with(Trait.BROADCASTING)
MAX_ALL_FOLLOWED = 400_000  # values followed from all inputs of a model
MAX_OPERANDS = 64  # of an op through which axes are tracked
# Sums and differences of indices, extents and axes count as indices, extents and axes.
OFFSET_INPUTS: dict[str, tuple[int, ...]] = {"Add": (0, 1), "Sub": (0,)}
# If one input serves several purposes, the first of these determines its role.
ROLE_PRIORITY = (
    "factors", "parts", "unit axes", "new axes", "axes", "index", "count", "stretch", "scales", "share", "divisor",
    "step", "trips", "extent", "pads", "position", "limit", "start", "end", "region", "shift", "mask", "truth", "free",
)  # fmt: skip
MAX_WORDS = 8  # of a constant that strings are compared with
NUMERIC_WORDS = ["0", "1", "-2", "7", "12", "100"]  # strings that are converted to numbers, whole or not
MAX_VOCABULARY_WORDS = 256  # of one operator
MASKING_NUMBER = -1e3  # numbers that mask scores are at most this
NEGATIVE_INDEX_OPSET = 11  # the opset in which indices from the end were added to the specification
NONNEGATIVE_INDEX_OPS = frozenset(
    {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", "RotaryEmbedding", "RoiAlign"}
)


class InputRole(Struct, frozen=True):
    """The role of an input.

    `bound` limits an index, a count or axes. `dims` is the shape to which factors, split sizes and target shapes refer.
    `signed` numbers may count from the end. `words` are the strings with which the input is compared.
    """

    kind: str = "free"
    bound: Dim = None
    dims: tuple[Dim, ...] | None = None
    signed: bool = False
    words: tuple[str, ...] = ()


def input_role(value: Value, most: int = MAX_FOLLOWED_VALUES) -> InputRole:
    """The narrowest role among all transitive uses of `value`."""
    words: list[str] = []
    found = InputRole()
    for reading, _ in transitive_uses(value, True, _propagate, most):
        words += _compared_words(reading.op)
        if not reading.op.domain and (seen := _operand_role(reading)) is not None:
            found = _narrower(found, seen)
    return replace(found, words=tuple(dict.fromkeys(words)))


def _propagate(op: Op, index: int, state: bool) -> bool | None:
    carries = index in data_inputs(op.type) or index in OFFSET_INPUTS.get(op.type, ())
    return state if carries and not op.domain else None


def _operand_role(use: Use) -> InputRole | None:
    """The role of `use`, or None if any number is valid."""
    op, index = use.op, use.index
    if op.type == "Cast" and op.attr("to") == onnx.TensorProto.BOOL:
        return InputRole("truth")
    if index == 1 and _masks_by_complement(op):
        return InputRole("mask")
    kind = roles(op.type).get(index)
    if op.type == "Resize" and op.version < 11:
        kind = "scales" if index == 1 else None
    if kind is None or (kind == "divisor" and use.value.known_dtype not in INTEGER_DTYPES):
        return None
    shape, allows_negative = stable_input_shape(op, 0), op.version >= NEGATIVE_INDEX_OPSET
    if kind == "index":
        return InputRole(kind, _index_bound(op, shape), signed=allows_negative and op.type not in NONNEGATIVE_INDEX_OPS)
    if kind == "count":
        return InputRole(kind, _count_bound(op, shape))
    if kind in {"axes", "unit axes", "new axes"}:
        return InputRole(kind, len(shape) if shape is not None else None, shape, signed=allows_negative)
    if kind == "parts":
        dim = dim_at(shape, int(op.attr("axis", 0)))
        return InputRole(kind, dim, None if dim is None else (dim,))
    if kind in {"start", "limit", "end", "step"}:
        return _role_in_range(op, kind)
    return InputRole(kind, dims=shape if kind in {"factors", "stretch"} else None)


def _role_in_range(op: Op, kind: str) -> InputRole:
    """The role of an input of a Slice or Range. A Slice may always count from the end, a Range if its step is unknown.

    A Range with a negative step starts at its upper end.
    """
    step = op.input(2)
    if op.type == "Range" and (_constant_number(step) or 0) < 0:
        kind = {"start": "limit", "limit": "start"}[kind]
    return InputRole(kind, signed=op.type == "Slice" or (step is not None and not step.is_const))


def _masks_by_complement(op: Op) -> bool:
    """Whether `op` is the 1 - x of a mask (1 - x) * c, where c is so low that a Softmax ignores it."""
    if op.type != "Sub" or _constant_number(op.input(0)) != 1:
        return False
    factors = (v for reader in op.outputs[0].consumers if reader.type == "Mul" for v in reader.inputs)
    return any((number := _constant_number(v)) is not None and number <= MASKING_NUMBER for v in factors)


def _constant_number(value: Value | None) -> float | None:
    """The number that a constant of one element contains."""
    tensor = value.tensor if value is not None else None
    return float(tensor.array.item()) if tensor is not None and tensor.size == 1 else None


def stable_input_shape(op: Op, index: int) -> tuple[Dim, ...] | None:
    """The shape of an input with its numbers and symbols; other dims are None."""
    value = op.input(index)
    shape = value.known_shape if value is not None else None
    return None if shape is None else tuple(d if d is not None and is_symbolic_only(d) else None for d in shape)


def dim_at(shape: tuple[Dim, ...] | None, axis: int) -> Dim:
    """The dim at an axis; None if it is unknown, or the shape has no such axis."""
    return shape[axis] if shape and -len(shape) <= axis < len(shape) else None


def _index_bound(op: Op, shape: tuple[Dim, ...] | None) -> Dim:
    """The extent to which an index input of `op` refers."""
    if op.type == "OneHot":
        depth = op.input(1)
        is_known = depth is not None and depth.is_const and depth.const.size == 1 and np.isfinite(depth.const).all()
        return int(depth.const.item()) if depth is not None and is_known else None
    if op.type == "RotaryEmbedding":
        return dim_at(stable_input_shape(op, 1), 0)
    if op.type.endswith("Loss"):
        return dim_at(shape, 1)
    if op.type in {"GatherND", "ScatterND"}:
        known = [d for d in shape or () if isinstance(d, int)]
        return min(known) if shape and len(known) == len(shape) else None
    return dim_at(shape, int(op.attr("axis", 0)))


def _count_bound(op: Op, shape: tuple[Dim, ...] | None) -> Dim:
    """The extent that limits a k or a sequence length."""
    if op.type == "TopK":
        return dim_at(shape, int(op.attr("axis", -1)))
    if op.type == "ReverseSequence":
        return dim_at(shape, int(op.attr("time_axis", 0)))
    return dim_at(shape, 1 if op.attr("layout", 0) else 0)


def _narrower(a: InputRole, b: InputRole) -> InputRole:
    if a.kind == b.kind and a.kind in {"index", "count", "axes"}:
        bounds = [x for x in (a.bound, b.bound) if isinstance(x, int)]
        least = min(bounds) if len(bounds) == 2 else a.bound if isinstance(b.bound, int) else b.bound
        return InputRole(a.kind, least, a.dims, a.signed and b.signed and a.bound == b.bound)
    return b if ROLE_PRIORITY.index(b.kind) < ROLE_PRIORITY.index(a.kind) else a


def _compared_words(op: Op) -> list[str]:
    """Strings that an op distinguishes: in its vocabulary, in constants of an Equal, or in its other attributes."""
    constants = [v.tensor for v in op.inputs if v is not None and v.tensor is not None] if op.type == "Equal" else []
    strings = [t.array.reshape(-1)[:MAX_WORDS] for t in constants if t.dtype == onnx.TensorProto.STRING]
    compared = [str(s) for array in strings for s in array]
    known = [x for x in vocabulary(op) if isinstance(x, str)]
    if op.type == "Cast" and op.attr("to") != onnx.TensorProto.STRING and _is_of_strings(op):
        return NUMERIC_WORDS
    return [*compared, *evenly_spread(known, MAX_VOCABULARY_WORDS), *words_of_operator(op.type, op.attrs)]


def _is_of_strings(op: Op) -> bool:
    value = op.input(0)
    return value is not None and value.known_dtype == onnx.TensorProto.STRING


def control_values(graph: Graph, *, divisions: bool = True) -> frozenset[Value]:
    """The values that control a run, and the values from which they are computed. O(V + E).

    Extreme numbers are harmful there: a Loop does not end, a tensor fills the memory, or the lowest integer is divided
    by -1, which crashes the process. Without `divisions`, the operands of divisions are excluded.
    """
    queue = [v for g in graph.with_subgraphs() for op in g.ops() for v in _control_inputs(op, divisions=divisions)]
    found = dict.fromkeys(queue)
    read = set[Op]()
    while queue:
        for v in _upstream_values(queue.pop(), read):
            if v not in found:
                found[v] = None
                queue.append(v)
    return frozenset(found)


def _control_inputs(op: Op, *, divisions: bool) -> Iterator[Value]:
    if op.domain:
        return
    indices = [i for i, role in roles(op.type).items() if role in SIZE_ROLES]
    chosen = [op.input(i) for i in (*indices, *OTHER_CONTROL_INPUTS.get(op.type, ()))]
    if divisions and op.type in DIVISIONS and _operand_dtype(op) in INTEGER_DTYPES:
        chosen += op.inputs
    if op.type == "Loop":
        chosen += [body.outputs[0] for body in op.subgraphs if body.outputs]
    yield from (v for v in chosen if v is not None)


def _operand_dtype(op: Op) -> int:
    """The type of the operands; recorded types upstream are preferred to inferred ones."""
    value = op.input(0)
    for _ in range(MAX_LOOKBACK):
        producer = value.producer if value is not None and not value.recorded_type[0] else None
        if producer is None or producer.domain or producer.type not in SAME_DTYPE_OPS:
            break
        value = producer.input(0)
    return value.known_dtype if value is not None else 0


def _upstream_values(value: Value, visited: set[Op]) -> Iterator[Value]:
    """Yield the values from which `value` is computed, without inputs of ops in `visited`.

    Inside a subgraph these include all inputs of its owner. Each op is added to `visited` and examined only once,
    because finding the captures of an owner requires a walk over its subgraphs.
    """
    op = value.producer
    while op is not None and op not in visited and op.type not in READS_SHAPE:
        visited.add(op)
        yield from (v for v in op.inputs if v is not None)
        yield from op.captures
        yield from (v for sub in op.subgraphs for v in sub.outputs)
        op = op.graph.owner


ExtentRequirement = tuple[int, int]
"""An axis, and the extent that it must have; negative axes count from the end."""
NEW = -1
Axes = tuple[int, ...]
"""The axis of the input for each axis of a value; NEW for one that the input lacks."""


def required_extents(value: Value, rank: int, most: int = MAX_FOLLOWED_VALUES) -> dict[int, int]:
    """The extents of `value`, which has that rank, required by its transitive uses, by axis."""
    found: dict[int, int] = {}
    for use, axes in transitive_uses(value, tuple(range(rank)), _propagate_axes, most) if rank else ():
        is_sliced = len(use.value.known_shape or axes) != len(axes)  # by a Scan
        requirements = None if use.op.domain or is_sliced else REQUIREMENTS.get(use.op.type)
        for axis, extent in requirements(use.op, use.index) if requirements is not None else ():
            if -len(axes) <= axis < len(axes) and axes[axis] != NEW and extent > 0:
                found.setdefault(axes[axis], extent)
    return found


def _propagate_axes(op: Op, index: int, axes: Axes) -> Axes | None:
    """The axes after `op`, or None if they are not tracked through it."""
    if op.domain or (index != 0 and op.type not in BROADCASTING_OPS) or len(op.inputs) > MAX_OPERANDS:
        return None
    if op.type in BROADCASTING_OPS and any(_rank(op, i) > len(axes) for i in range(len(op.inputs))):
        return None
    if op.type == "Transpose":
        perm = full_perm(op.attr("perm"), len(axes))
        return tuple(axes[p] for p in perm) if sorted(perm) == list(range(len(axes))) else None
    if op.type == "Unsqueeze":
        added = op.input(1)
        given: Any = op.attr("axes", ()) if added is None else added.const.reshape(-1) if added.is_const else ()
        new = [int(n) for n in given]
        rank, old = len(axes) + len(new), iter(axes)
        places = {range(rank)[n] for n in new if -rank <= n < rank}
        return (
            tuple(NEW if n in places else next(old) for n in range(rank)) if new and len(places) == len(new) else None
        )
    return axes if op.type in SAME_SHAPE_OPS or op.type in BROADCASTING_OPS else None


def _static_extent(op: Op, index: int, axis: int) -> int:
    """A fixed extent of another input; 0 if it is not known."""
    extent = dim_at(stable_input_shape(op, index), axis)
    return extent if isinstance(extent, int) else 0


def _rank(op: Op, index: int) -> int:
    return len(stable_input_shape(op, index) or ())


def _conv_requirements(op: Op, index: int) -> Iterator[ExtentRequirement]:
    if index == 0:
        axis, groups = (0, 1) if op.type == "ConvTranspose" else (1, int(op.attr("group", 1)))
        yield 1, _static_extent(op, 3 if op.type == "QLinearConv" else 1, axis) * groups


def _matmul_requirements(op: Op, index: int) -> Iterator[ExtentRequirement]:
    right = 3 if op.type == "QLinearMatMul" else 1
    if index == 0:
        yield -1, _static_extent(op, right, -2 if _rank(op, right) > 1 else 0)
    elif index == right:
        yield -2, _static_extent(op, 0, -1)


def _gemm_requirements(op: Op, index: int) -> Iterator[ExtentRequirement]:
    if index < 2:
        flips = [bool(op.attr("transA", 0)), bool(op.attr("transB", 0))]
        inner = [int(not flips[0]), int(flips[1])]  # the axis that is reduced, for each operand
        yield inner[index], _static_extent(op, 1 - index, inner[1 - index])


def _channel_requirements(op: Op, index: int) -> Iterator[ExtentRequirement]:
    if index == 0:
        yield 1, _static_extent(op, 1, 0)


def _trailing_axis_requirements(op: Op, index: int) -> Iterator[ExtentRequirement]:
    """Requirements by broadcasting over the last axes: the scale of a LayerNormalization, an operand of an Add."""
    other = 1 - index
    for axis in range(-_rank(op, other), 0) if index < 2 else ():
        extent = _static_extent(op, other, axis)
        yield axis, extent if extent > 1 else 0


def _recurrent_requirements(op: Op, index: int) -> Iterator[ExtentRequirement]:
    """Requirements of X, W, R, B, sequence_lens, initial_h, initial_c (RNN, GRU, LSTM); layout 1: batch first."""
    state, batch = (0, 0) if op.attr("layout", 0) else (1, 1)
    if index == 0:
        yield 2, _static_extent(op, 1, 2)
        yield batch, _static_extent(op, 5, state)
    elif index in {5, 6}:
        yield 1 - state, _static_extent(op, 1, 0)
        yield 2, _static_extent(op, 2, 2)


def _reshape_requirements(op: Op, index: int) -> Iterator[ExtentRequirement]:
    """The extents with as many elements as a constant target shape: its own ones if possible, else equal ones."""
    shape, given = stable_input_shape(op, 0), op.input(1)
    constant = given.const.reshape(-1).tolist() if given is not None and given.is_const else op.attr("shape", ())
    target = [int(n) for n in constant]
    if index or not shape or not target or -1 in target:
        return
    is_copied = [n < len(target) and target[n] == 0 and not op.attr("allowzero", 0) for n in range(len(shape))]
    kept = [(axis, d) for axis, d in enumerate(shape) if not is_copied[axis]]
    free = [axis for axis, d in kept if not isinstance(d, int)]
    count, rest = divmod(prod(n for n in target if n), prod(d for _, d in kept if isinstance(d, int)) or 1)
    if rest or not free or count == 1:  # sizes of 1 are tried anyway
        return
    root = round(count ** (1 / len(free)))
    choices = [target[axis] for axis in free if axis < len(target)], [root] * len(free), [1] * (len(free) - 1) + [count]
    yield from zip(free, next(c for c in choices if len(c) == len(free) and prod(c) == count), strict=True)


REQUIREMENTS: dict[str, Callable[[Op, int], Iterator[ExtentRequirement]]] = {
    **dict.fromkeys(ops_with(Trait.CONVOLUTION), _conv_requirements),
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), _matmul_requirements),
    **dict.fromkeys(("BatchNormalization", "InstanceNormalization"), _channel_requirements),
    **dict.fromkeys(
        BROADCASTING_OPS | {"PRelu", "LayerNormalization", "RMSNormalization"}, _trailing_axis_requirements
    ),
    **dict.fromkeys(("RNN", "GRU", "LSTM"), _recurrent_requirements),
    "Gemm": _gemm_requirements,
    "Reshape": _reshape_requirements,
}


TENSOR, SEQUENCE, OPTIONAL = "tensor", "sequence", "optional"
GENERATABLE = frozenset({TENSOR, SEQUENCE, OPTIONAL})


class InputSpec(Struct, frozen=True):
    """One input: `shape` consists of numbers and symbols; an unnamed dim is a symbol of its own.

    `type_kind` is tensor, sequence or optional (of tensors), or describes another type. The shape of an input without
    declared rank is empty. `required_extents` are the extents that the weights determine, by axis; `boundaries` are the
    decision boundaries. An input that `is_control` determines the time or memory of a run, or is divided, so it gets no
    extremes of its type; `is_size` does not include inputs that are divided. One that `is_selection_only` is never an
    operand of arithmetic. One that `may_be_empty` crashes no kernel if it has no elements; `why_nonempty` says which op
    would otherwise give wrong results.
    """

    name: str
    dtype: int
    shape: tuple[int | str, ...]
    role: InputRole
    default: Tensor | None = None
    type_kind: str = TENSOR
    is_ranked: bool = True
    required_extents: Mapping[int, int] = field(default_factory=dict[int, int])
    boundaries: DecisionBoundaries = NO_BOUNDARIES
    is_control: bool = False
    is_size: bool = False
    is_selection_only: bool = False
    may_be_empty: bool = False
    why_nonempty: str = ""

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The type of its elements in NumPy."""
        return helper.tensor_dtype_to_np_dtype(self.dtype)

    def shape_at(self, sizes: dim_expressions.Sizes) -> tuple[int, ...]:
        """The shape at sizes of the symbols."""
        return tuple(dim_expressions.extent(d, sizes) for d in self.shape)

    def is_emptied_by(self, array: Any) -> bool:
        """Whether an array has an extent of 0 that the model does not declare."""
        stated = (*self.shape, *[None] * np.ndim(array))
        return any(size == 0 != wanted for size, wanted in zip(np.shape(array), stated, strict=False))

    def with_rank(self, rank: int) -> InputSpec:
        """The input with a rank and a new symbol for each dim."""
        return self.with_shape(tuple(_dim_or_symbol(None, self.name, axis) for axis in range(rank)))

    def with_shape(self, shape: tuple[int | str, ...]) -> InputSpec:
        """The input with another shape."""
        return replace(self, shape=shape, is_ranked=True)


def input_specs(model: Model) -> list[InputSpec]:
    """The inputs of a model in order, overridable ones last.

    Raises ModelError for an op that uses up all memory, or does not end, when onnxruntime loads it.
    """
    graph = model.graph
    _require_ends(graph)
    required = [v for v in graph.inputs if v not in graph.input_defaults]
    control, sizes = (control_values(graph, divisions=divisions) for divisions in (True, False))
    may_be_empty = supports_empty_tensors(graph)
    why_nonempty = ""
    if not has_nonempty_filters(graph):
        why_nonempty = f"a convolution may be one that {EMPTY_SUM_ERROR}"
    elif not joins_equal_extents(graph):
        why_nonempty = f"a Concat may be one that {UNWRITTEN_ERROR}"
    most = min(MAX_FOLLOWED_VALUES, max(1, MAX_ALL_FOLLOWED // max(len(graph.inputs), 1)))
    found = [(v, _input_spec(v, graph.input_defaults.get(v), most)) for v in (*required, *graph.input_defaults)]
    batch = next((i.shape[0] for _, i in found if _is_numbered(i)), "")  # they share it, as unnamed ones share "[0]"
    return [
        replace(
            i,
            shape=(batch, *i.shape[1:]) if _is_numbered(i) else i.shape,
            is_control=v in control,
            is_size=v in sizes,
            may_be_empty=may_be_empty,
            why_nonempty=why_nonempty,
        )
        for v, i in found
    ]


def _is_numbered(spec: InputSpec) -> bool:
    """Whether an exporter made up the name of the first dim."""
    return bool(spec.shape) and isinstance(spec.shape[0], str) and NUMBERED.fullmatch(spec.shape[0]) is not None


def _require_ends(graph: Graph) -> None:
    """Raise ModelError for an input by axis with more elements than a tensor has axes, and for a cyclic tree. O(V)."""
    for g in graph.with_subgraphs():
        for op in g.ops():
            if op.domain == "ai.onnx.ml" and has_cyclic_tree(op):
                raise ModelError(f"{op.label}: a node of its trees is below itself")
            if (beyond := beyond_ranks(op)) is not None:
                count = " x ".join(f"{d:,}" if isinstance(d, int) else str(d) for d in beyond.recorded_type[1] or ())
                raise ModelError(f"{op.label}: {beyond.name} has {count} elements, more than a tensor has axes")


def _input_spec(value: Value, default: Tensor | None, most: int) -> InputSpec:
    form, (dtype, shape) = TENSOR, value.recorded_type
    if value.type is not None:
        form, tensor = _element_type(value.type)
        dtype, shape = tensor.elem_type, declared_shape(tensor)
    if form in GENERATABLE and dtype not in KNOWN_DTYPES:
        form = f"{form} of an unknown type"
    symbolic = tuple(_dim_or_symbol(d, value.name, i) for i, d in enumerate(shape or ()))
    return InputSpec(
        value.name,
        dtype,
        symbolic,
        input_role(value, most),
        default,
        form,
        is_ranked=shape is not None,
        required_extents=required_extents(value, len(symbolic), most) if form == TENSOR and default is None else {},
        boundaries=decision_boundaries(value, most),
        is_selection_only=is_selection_only(value, most),
    )


def _dim_or_symbol(dim: Dim, name: str, axis: int) -> int | str:
    """A dim, or a symbol for an unnamed one. First dims are assumed to be the batch, so they share one symbol."""
    if isinstance(dim, int | str):
        return dim
    return f"{name}[{axis}]" if axis else "[0]"


def _element_type(proto: onnx.TypeProto) -> tuple[str, onnx.TypeProto.Tensor]:
    """The kind of a type, and its tensor type, which is empty if it has none."""
    kind = proto.WhichOneof("value")
    outer = {"sequence_type": SEQUENCE, "optional_type": OPTIONAL}.get(kind or "")
    if outer is None:
        return {"map_type": "map", "sparse_tensor_type": "sparse tensor"}.get(kind or "", "value of no stated type"), (
            onnx.TypeProto.Tensor()
        )
    inner = proto.sequence_type.elem_type if outer == SEQUENCE else proto.optional_type.elem_type
    if inner.HasField("tensor_type"):
        return outer, inner.tensor_type
    return f"{outer} of {_element_type(inner)[0]}s", onnx.TypeProto.Tensor()


def free_symbols(inputs: list[InputSpec]) -> list[str]:
    """The free symbols of all shapes, in order. `past + 1` is a name of its own unless `past` is a dim elsewhere."""
    symbolic = [d for i in inputs for d in i.shape if isinstance(d, str)]
    plain = {d for d in symbolic if dim_expressions.dim_symbols(d) == [d]}
    found: dict[str, None] = {}
    for d in symbolic:
        names = dim_expressions.dim_symbols(d)
        found.update(dict.fromkeys(names if plain.issuperset(names) else [d]))
    return list(found)
