"""The rule of each operator for computing many rows, each as if it were alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from onnx import TensorProto

from ..errors import MatchFailure, require
from ..ir import expressions as sym
from ..ir.expressions import Elements, Shape, SymInt, as_integers, prod
from ..ir.op import Op
from ..ir.tensor import TRACKED_DTYPES, Tensor
from ..ir.values import Value
from ..operators.declaration import Trait
from ..operators.effects import is_random
from ..operators.operands import attribute_or_input, full_perm, pad_amounts, slice_bounds
from ..operators.table import ops_with
from ..ort.evaluation import evaluate
from ..rewriting.builder import RewriteBuilder
from .row_places import Extents, Place, RowLayout, merged_place

BROADCASTING = ops_with(Trait.BROADCASTING) | {"PRelu"}
BY_ELEMENT = BROADCASTING | ops_with(Trait.ELEMENTWISE) | {"DequantizeLinear", "Dropout", "QuantizeLinear"}
BY_IMAGE = frozenset({
    "AveragePool", "BatchNormalization", "Conv", "ConvInteger", "ConvTranspose", "DepthToSpace", "GlobalAveragePool",
    "GlobalLpPool", "GlobalMaxPool", "GroupNormalization", "InstanceNormalization", "LRN", "LpPool", "MaxPool",
    "QLinearConv", "Resize", "SpaceToDepth", "Upsample",
})  # fmt: skip
"""Operators that treat each entry of the first axis of the first input equally; other inputs are parameters."""
BY_ENTRY = frozenset({"Attention", "GridSample", "RotaryEmbedding"})
"""Operators that treat each entry of the first axis of several inputs equally."""
ML_SHAPES: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(("Binarizer", "Imputer", "LabelEncoder", "Normalizer", "Scaler"), ("same",)),
    **dict.fromkeys(("LinearClassifier", "SVMClassifier", "TreeEnsembleClassifier"), ("rows", "of rows")),
    **dict.fromkeys(("LinearRegressor", "SVMRegressor", "TreeEnsembleRegressor"), ("of rows",)),
    "OneHotEncoder": ("of elements",),
}
"""Operators of ai.onnx.ml that treat each entry of the first axis equally, and the shapes of their outputs."""
ALONG_AXIS = frozenset({
    "ArgMax", "ArgMin", "CumProd", "CumSum", "Hardmax", "LayerNormalization", "LogSoftmax", "LpNormalization",
    "RMSNormalization", "Softmax", "Split", "TopK",
})  # fmt: skip
FROM_AXIS = frozenset({"LayerNormalization", "RMSNormalization"})
SOFTMAX = frozenset({"Hardmax", "LogSoftmax", "Softmax"})
FIRST_WITH_SOFTMAX_OF_ONE_AXIS = 13
RESHAPES = frozenset({"Flatten", "Reshape", "Squeeze", "Unsqueeze"})
RECURRENT = frozenset({"GRU", "LSTM", "RNN"})
MIXING = frozenset({"DynamicQuantizeLinear", "MeanVarianceNormalization"})
SELECTS_FEW = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})
LEADING = Place(0, own=True)  # the batch as the first axis
MIXES = "it mixes the rows of a batch"
SEVERAL = "what it reads for a row is not known in a model for several: export it for a batch of 1"


def _is_known(value: Value) -> bool:
    """Whether the shape of a value consists of numbers and symbols of inputs."""
    shape = value.known_shape
    if value.type is not None or not value.name:
        return True
    return shape is not None and all(d is not None and sym.is_symbolic_only(d) for d in shape)


def _broadcast_shape(shapes: Sequence[Extents]) -> Extents:
    """The common shape of operands that broadcast."""
    rank = max(map(len, shapes))
    padded = [(1,) * (rank - len(s)) + s for s in shapes]
    return tuple(next((d for d in dims if d != 1), 1) for dims in zip(*padded, strict=True))


class BatchRules:
    """The rules for a graph in which some values have rows; `size` is the batch for which it was exported."""

    def __init__(self, layout: RowLayout, size: int) -> None:
        self.layout, self.places, self.size = layout, layout.places, size
        self._elements: Mapping[Value, Elements | None] = {}
        graph = layout.graph
        for op in graph.sorted_ops():
            self._find_shape(op)
        values = [*graph.inputs, *graph.initializers, *(v for op in graph.ops() for v in op.outputs if v.name)]
        self._shapes: Mapping[Value, Shape | None] = {v: v.known_shape for v in values if v.type is None}
        self._elements = {v: v.known_elements for v in values}

    def _find_shape(self, op: Op) -> None:
        """Replace a shape that is now known by a constant, or, if it is not, the integers that determine it."""
        numbers = as_integers(op.operand().known_shape or (None,)) if op.type == "Shape" else None
        if numbers is not None:
            chosen = numbers[slice(int(op.attr("start", 0)), op.attr("end"))]
            op.graph.make_constant(op.outputs[0], Tensor.from_array(np.array(chosen, np.int64)))
            op.graph.discard([op])
            return
        if op.domain == "ai.onnx.ml" and (dims := op.operand().known_shape) is not None and len(dims) > 1:
            many = op.graph.context.new_unknown()
            shapes = {"same": dims, "rows": dims[:1], "of rows": (dims[0], many), "of elements": (*dims, many)}
            for v, kind in zip(op.outputs, ML_SHAPES.get(op.type, ()), strict=False):
                v.merge_type(0, shapes[kind], inferred=True)
        if all(map(_is_known, op.outputs)):
            return
        for v in op.inputs[1:]:
            if v is not None and v.tensor is None and v.known_dtype in TRACKED_DTYPES | {TensorProto.FLOAT}:
                with suppress(MatchFailure):
                    self._array(v)

    def apply(self, op: Op) -> None:
        """Let an op compute all rows. Raises MatchFailure if it cannot."""
        has_rows = [v in self.places for v in (*op.inputs, *op.captures) if v is not None]
        if is_random(op) and not (op.type == "Dropout" and self._is_zero(op.input(1))):
            raise MatchFailure("it draws random numbers")
        if not any(has_rows):
            return
        if op.subgraphs:
            raise MatchFailure("its body reads rows")
        g = RewriteBuilder(op.graph, op)
        rule = self._rule(op)
        if rule is None:
            why = MIXES if op.type in MIXING else "how it treats rows is not known"
            if op.type in SELECTS_FEW:
                names = ",".join(v.name for v in op.inputs if v in self.places)
                why = f"its results have another size for each row; --outputs {names} ends before it"
            raise MatchFailure(why)
        rule(op, g)

    def _rule(self, op: Op) -> Callable[[Op, RewriteBuilder], object] | None:
        if op.domain == "ai.onnx.ml":
            return self._by_entry if op.type in ML_SHAPES else None
        if op.domain:
            return None
        if op.type in BY_ELEMENT:
            return self._by_element
        if op.type in BY_IMAGE or op.type in BY_ENTRY:
            return self._by_entry
        if op.type in ALONG_AXIS:
            return self._along_axis
        if op.type in RESHAPES:
            return self._reshape
        if op.type in RECURRENT:
            return self._recurrent
        if op.type in ops_with(Trait.REDUCTION):
            return self._reduce
        name = {"MatMulInteger": "matmul", "Size": "shape", "ScatterElements": "along_common_axis"}.get(op.type)
        name = name or {"GatherElements": "along_common_axis", "Concat": "along_common_axis"}.get(op.type)
        return getattr(self, f"_{name or op.type.lower()}", None)

    # What is known about values

    def _row(self, value: Value) -> Extents:
        """The shape of a row of a value, or of a value without rows."""
        if value in self.places:
            return self.places[value][1]
        shape = self._shapes.get(value) or value.known_shape
        dims = tuple(d for d in shape or () if d is not None)
        require(shape is not None and len(dims) == len(shape), f"the shape of {value.name} is unknown")
        return dims

    def _row_of_result(self, op: Op, place: Place | None, index: int = 0) -> Extents:
        """The shape of a row of an output with the batch in an axis: the shape for a batch of one."""
        dims = self._row(op.outputs[index])
        if self.size == 1 or place is None or place.own:
            return dims
        extent = sym.divide(dims[place.axis], self.size)
        require(extent is not None, MIXES)
        return (*dims[: place.axis], extent or 1, *dims[place.axis + 1 :])

    def _numbers(self, value: Value | Iterable[int] | None) -> list[int] | None:
        """The integers of a constant or an attribute; None if it is omitted. Declines computed integers."""
        if value is None or not isinstance(value, Value):
            return None if value is None else list(value)
        elements = as_integers(self._elements.get(value) or (None,))
        return [int(x) for x in self._array(value).ravel()] if elements is None else list(elements)

    def _array(self, value: Value) -> np.ndarray[Any, Any]:
        """The elements of a constant, or of a value that is computed from constants. Declines other values."""
        if value.tensor is None:
            needed, waiting = dict[Op, None](), [value.producer]
            while waiting:
                op = waiting.pop()
                if op is not None and op not in needed:
                    needed[op] = None
                    waiting += [v.producer for v in op.inputs if v is not None and v.tensor is None]
            graph = self.layout.graph
            found = {} if value in self.places else evaluate([op for op in graph.sorted_ops() if op in needed], [value])
            require(value in found, f"{value.name} is computed")
            graph.make_constant(value, found[value])
            graph.discard(needed)
        return value.const

    def _list(self, op: Op, name: str) -> list[int] | None:
        return self._numbers(attribute_or_input(op, name))

    @staticmethod
    def _is_zero(value: Value | None) -> bool:
        return value is not None and value.is_const and not value.const.any()

    def _spread(self, g: RewriteBuilder, value: Value, place: Place, row: Extents | None = None) -> Value:
        """A value with the batch at a place; a value without rows is copied for each row."""
        if value not in self.places:
            value = self._of_row(g, value, place.axis)
        return self.layout.at(g, value, place, row)

    def _of_row(self, g: RewriteBuilder, value: Value, axis: int) -> Value:
        """The part of a value without rows that a row reads. Declines a constant that differs between rows."""
        dims = self._row(value)
        if self.size == 1 or not 0 <= axis < len(dims) or dims[axis] == 1:
            return value
        extent = sym.divide(dims[axis], self.size)
        require(isinstance(extent, int), MIXES)
        parts = np.split(self._array(value), self.size, axis)
        require(all(np.array_equal(part, parts[0]) for part in parts), MIXES)
        return g.const(parts[0])

    def _lone(self, op: Op) -> Value:
        """The first input of an op, which must be the only one with rows."""
        others = [v for v in op.inputs[1:] if v in self.places]
        require(not others, f"{others[0].name if others else ''}, a parameter of it, differs between rows")
        return op.operand()

    # Results

    def _keep(self, op: Op, inputs: Sequence[Value | None], places: Sequence[Place | None]) -> None:
        """Let the op read these inputs, and record the places of its results."""
        if tuple(inputs) != op.inputs:
            op.graph.set_inputs(op, inputs)
        self._note(op, places)

    def _note(self, op: Op, places: Sequence[Place | None]) -> None:
        for i, (v, place) in enumerate(zip(op.outputs, places, strict=False)):
            if v.name and place is not None:
                self.layout.put(v, place, self._row_of_result(op, place, i))

    def _replace(self, op: Op, made: Value | tuple[Value, ...], places: Sequence[Place | None]) -> None:
        """Replace the results of an op by new values."""
        self._note(op, places)
        g = RewriteBuilder(op.graph, op)
        for new, old in zip(made if isinstance(made, tuple) else (made,), op.outputs, strict=False):
            if old.name:
                is_other = new.producer is None or new in self.places or op.graph.is_output(new)
                op.graph.take_over(g.Identity(new) if is_other else new, old)
        op.graph.discard([op])

    def _again(self, op: Op, g: RewriteBuilder, inputs: Sequence[Any], **attrs: Any) -> tuple[Value, ...]:
        """Create the op with other inputs and attributes."""
        return getattr(g, op.type)(*inputs, outputs=len(op.outputs), **{**op.attrs, **attrs})

    def _free(
        self, g: RewriteBuilder, value: Value, axes: Collection[int], *, mixing: bool = True
    ) -> tuple[Value, Place]:
        """The value with the batch in none of these axes of a row, and its place; `mixing` ops mix along theirs."""
        place, row = self.places[value]
        if place.own or place.axis not in axes:
            return value, place
        before, extent = place.before(row), row[place.axis]
        for axis in range(len(row)):
            if axis not in axes and row[axis] == 1 and prod(row[:axis]) == before:
                return self.layout.at(g, value, Place(axis)), Place(axis)
        require(not mixing or (self.size == 1 and extent != 1), MIXES)
        require(self.size == 1, SEVERAL)
        own = Place(place.axis + (place.outer != 1), own=True) if place.outer in (1, extent) else LEADING
        return self.layout.at(g, value, own), own

    # Operators

    def _shape(self, op: Op, g: RewriteBuilder) -> None:
        """Let Shape and Size return what they return for a row."""
        value = op.operand()
        place, row = self.places[value]
        chosen = range(len(row))[slice(int(op.attr("start", 0)), op.attr("end"))]
        if op.type == "Size" or self.size > 1:
            raise MatchFailure("the extents of a row are symbolic")
        parts = [
            g.const(np.array([d], np.int64)) if isinstance(d, int)
            else self.layout.extent(g, d) if i == place.axis and not place.own
            else self.layout.dim_of(g, value, place.physical(i))
            for i, d in enumerate(row) if i in chosen
        ]  # fmt: skip
        self._replace(op, g.Concat(*parts, axis=0), [None])

    def _by_element(self, op: Op, g: RewriteBuilder) -> None:
        if op.type == "CastLike":
            value = op.operand()
            place = self.places[value][0] if value in self.places else None
            self._replace(op, g.Cast(value, to=int(op.operand(1).dtype)), [place])
            return
        require(not op.attr("broadcast", 0), "it broadcasts as before opset 7")
        if op.type == "PRelu":
            require(op.operand() in self.places, "its slopes differ between rows")
            require(len(self._row(op.operand(1))) <= len(self._row(op.operand())), "its slopes add axes")
        if op.type not in BROADCASTING:
            self._lone(op)
        scales = [self._row(v) for v in op.inputs[1:] if v is not None]
        if op.type in {"QuantizeLinear", "DequantizeLinear"} and any(prod(row) != 1 for row in scales):
            value = self._lone(op)
            require(all(len(row) < 2 for row in scales), "it has scales of blocks")
            axis = int(op.attr("axis", 1)) % len(self._row(value))
            free, place = self._free(g, value, {axis})
            self._replace(op, self._again(op, g, (free, *op.inputs[1:]), axis=place.physical(axis)), [place])
            return
        inputs, place = self._broadcast(g, op.inputs)
        self._keep(op, inputs, [place] * len(op.outputs))

    def _broadcast(
        self, g: RewriteBuilder, operands: Sequence[Value | None], core: int = 0
    ) -> tuple[list[Value | None], Place]:
        """Operands that broadcast with the batch at one place of their common shape, and this place.

        The last `core` axes do not broadcast, and the batch is in none of them.
        """
        rank = max(len(self._row(v)) for v in operands if v is not None)
        one = next(v for v in operands if v in self.places)
        axis = self.places[one][0].axis - len(self._row(one))
        operands = [
            v if v is None or v in self.places else self._of_row(g, v, axis + len(self._row(v))) for v in operands
        ]
        rows = {v: self._row(v) for v in operands if v is not None}
        leading = [row[: len(row) - core] for row in rows.values()]
        result = (*_broadcast_shape(leading), *[0] * core)
        padded = {v: (1,) * (rank - len(row)) + row for v, row in rows.items()}
        mine = [v for v in rows if v in self.places]
        candidates = [self.places[v][0].moved(rank - len(rows[v])) for v in mine]

        def fits(place: Place) -> bool:
            a = place.axis
            if place.own or a >= rank - core:
                return False
            return all(padded[v][a] == (result[a] if v in self.places else 1) for v in rows)

        place = next(filter(fits, candidates), None)
        if place is None:
            require(self.size == 1, SEVERAL)
            first = candidates[0]
            p = first.axis + (not first.own and first.outer != 1)
            straight = first.own or first.outer in (1, padded[mine[0]][first.axis])
            place = Place(min(p, rank - core) if straight and p <= rank - core else 0, own=True)
        inputs = list[Value | None]()
        for v in operands:
            if v is None:
                inputs.append(None)
            elif v in self.places:
                now, row = self.places[v]
                row = padded[v] if place.own or len(row) + place.axis < rank else row
                there = place if row == padded[v] else place.moved(len(row) - rank)
                is_there = now == there and row == self.places[v][1]
                inputs.append(v if is_there else self.layout.at(g, v, there, row))
            else:
                skip = place.axis - (rank - len(rows[v]))
                inputs.append(g.Unsqueeze(v, [skip]) if place.own and skip > 0 else v)
        return inputs, place

    def _by_entry(self, op: Op, g: RewriteBuilder) -> None:
        is_parallel = op.type in BY_ENTRY
        value = op.operand() if is_parallel else self._lone(op)
        if op.type == "BatchNormalization":
            require(not any(v.name for v in op.outputs[1:]) and not op.attr("training_mode", 0), MIXES)
        if op.type == "MaxPool":
            require(not any(v.name for v in op.outputs[1:]), "its indices count all rows")
        place = self.places[value][0] if value in self.places else Place(0)
        if place.own or place.axis or (is_parallel and place.outer != 1):
            place = Place(0)
        inputs = list(op.inputs)
        inputs[0] = self.layout.at(g, value, place)
        for i, v in enumerate(op.inputs[1:], 1) if is_parallel else ():
            if v is not None and not self._is_shared(op, i):
                row = self._row(v)
                if op.type == "Attention" and i == 3 and v in self.places:
                    row = (1,) * (4 - len(row)) + row
                inputs[i] = self._spread(g, v, place, row)
        if op.type in {"Resize", "Upsample"} and (sizes := self._sizes_of_images(op, place)) is not None:
            inputs[3] = self.layout.vector(g, sizes)
        self._keep(op, inputs, [place] * len(op.outputs))

    def _is_shared(self, op: Op, index: int) -> bool:
        """Whether an input of an operator on entries is shared by all of them, unless it has rows."""
        row = self._row(op.operand(index))
        is_mask = op.type == "Attention" and index == 3 and (len(row) < 4 or row[0] == 1)
        is_cache = op.type == "RotaryEmbedding" and index in {1, 2} and len(row) == 2
        return op.operand(index) not in self.places and (is_mask or is_cache)

    def _sizes_of_images(self, op: Op, place: Place) -> Extents | None:
        """The sizes of a Resize with sizes for all axes; None for scales. Declines a size for the batch."""
        row, sizes = self._row(op.operand()), op.input(3)
        axes = [a % len(row) for a in op.attr("axes") or range(len(row))]
        require(op.attr("coordinate_transformation_mode") != "tf_crop_and_resize", "it crops")
        if 0 not in axes:
            return None
        if sizes is None:
            given = op.input(1 if op.type == "Upsample" or len(op.inputs) == 2 else 2)
            factors = op.attr("scales") or ([] if given is None else self._array(given).ravel().tolist())
            require(len(factors) == len(axes) and factors[axes.index(0)] == 1, MIXES)
            return None
        numbers = self._numbers(sizes) or []
        require(numbers[axes.index(0)] == sym.multiply(row[0], self.size), MIXES)
        require(axes[0] == 0, "its axes are in another order")
        return (*place.extents(row[:1], self.layout.batch), *numbers[1:])

    def _axes(self, op: Op, rank: int) -> list[int]:
        """The axes along which an op computes."""
        default = 1 if op.type in SOFTMAX and op.version < FIRST_WITH_SOFTMAX_OF_ONE_AXIS else -1
        if op.type in {"CumSum", "CumProd"}:
            axis = (self._numbers(op.operand(1)) or [0])[0]
        else:
            default = 0 if op.type in {"ArgMax", "ArgMin", "Split"} else default
            axis = int(op.attr("axis", default))
        axis %= rank
        flattens = op.type in FROM_AXIS or (op.type in SOFTMAX and op.version < FIRST_WITH_SOFTMAX_OF_ONE_AXIS)
        return list(range(axis, rank)) if flattens else [axis]

    def _along_axis(self, op: Op, g: RewriteBuilder) -> None:
        value = self._lone(op)
        rank = len(self._row(value))
        axes = self._axes(op, rank)
        if op.type in FROM_AXIS:
            require(all(len(self._row(v)) <= len(axes) for v in op.inputs[1:] if v is not None), "it scales more axes")
        free, place = self._free(g, value, axes, mixing=op.type != "Split")
        if place.own and len(axes) > 1 and place.axis > axes[0]:
            place = Place(axes[0] if prod(self._row(value)[axes[0] : place.axis]) == 1 else 0, own=True)
            free = self.layout.at(g, value, place)
        drops = op.type in {"ArgMax", "ArgMin"} and not op.attr("keepdims", 1)
        after = place.moved(-1) if drops and axes[0] < place.axis else place
        axis = place.physical(axes[0])
        if not place.own:
            self._keep(op, (free, *op.inputs[1:]), [after] * len(op.outputs))
        elif op.type in {"CumSum", "CumProd"}:
            self._replace(op, self._again(op, g, (free, np.array(axis, np.int64))), [after])
        else:
            self._replace(op, self._again(op, g, (free, *op.inputs[1:]), axis=axis), [after] * len(op.outputs))

    def _reduce(self, op: Op, g: RewriteBuilder) -> None:
        value = self._lone(op)
        rank = len(self._row(value))
        given = self._list(op, "axes")
        if not given and op.attr("noop_with_empty_axes", 0):
            self._keep(op, op.inputs, [self.places[value][0]])
            return
        axes = sorted({a % rank for a in given or range(rank)})
        free, place = self._free(g, value, axes)
        removed = 0 if op.attr("keepdims", 1) else sum(a < place.axis for a in axes)
        made = self._again(op, g, (free,), axes=[place.physical(a) for a in axes])
        self._replace(op, made, [place.moved(-removed)])

    def _transpose(self, op: Op, g: RewriteBuilder) -> None:
        value = op.operand()
        place, row = self.places[value]
        perm = full_perm(op.attr("perm"), len(row))
        if not place.own:
            self._keep(op, op.inputs, [Place(perm.index(place.axis), place.outer)])
            return
        value = self.layout.at(g, value, LEADING)
        self._replace(op, g.Transpose(value, perm=[0, *(p + 1 for p in perm)]), [LEADING])

    def _reshape(self, op: Op, g: RewriteBuilder) -> None:
        value = self._lone(op)
        place, row = self.places[value]
        before, target = place.before(row), self._row(op.outputs[0])
        if self.size > 1:
            target, found = self._divided(target, before)
        elif not target or (place.own and before == 1 and target[0] != 1):
            found = LEADING
        else:
            found = merged_place(target, before, place.axis)
        have, want = self.layout.dims(value), found.extents(target, self.layout.batch)
        if op.type in {"Squeeze", "Unsqueeze"} and not place.own and not found.own:
            axes = self._list(op, "axes")
            longer = len(row) if op.type == "Squeeze" else len(target)
            if axes is not None:
                left = [a for a in range(longer) if a not in {b % longer for b in axes}]
                there, other = (place, found) if op.type == "Squeeze" else (found, place)
                if there.axis in left and left.index(there.axis) == other.axis and there.outer == other.outer:
                    self._keep(op, op.inputs, [found])
                    return
        made = self.layout.reshape(g, value, have, want)
        self.layout.put(op.outputs[0], found, target)
        self._replace(op, g.Identity(value) if made is value else made, [])

    def _divided(self, dims: Extents, before: SymInt) -> tuple[Extents, Place]:
        """The shape of a row of a reshaped value, and the place of the batch, for the batch that the model has."""
        for axis, extent in enumerate(dims):
            inner = sym.divide(extent, self.size)
            outer = sym.divide(before, prod(dims[:axis]))
            if inner is not None and outer is not None and (outer == 1 or sym.divide(inner, outer) is not None):
                return (*dims[:axis], inner, *dims[axis + 1 :]), Place(axis, outer)
        raise MatchFailure(MIXES)

    def _expand(self, op: Op, g: RewriteBuilder) -> None:
        value = self._lone(op)
        place, row = self.places[value]
        result = self._row(op.outputs[0])
        rank = len(result)
        if self.size > 1 and not place.own:
            after = place.moved(rank - len(row))
            result = self._row_of_result(op, after)
        padded = (1,) * (rank - len(row)) + row
        place = place.moved(rank - len(row))
        if not place.own and padded[place.axis] != result[place.axis]:
            require(self.size == 1, SEVERAL)
            place = Place(place.axis + (place.outer != 1), own=True)
        value = self.layout.at(g, value, place, padded) if place.own else value
        repeats: list[SymInt] = [1 if a == b else b for a, b in zip(padded, result, strict=True)]
        if place.own:
            repeats.insert(place.axis, 1)
        self._replace(op, g.Expand(value, self.layout.vector(g, repeats)), [place])

    def _tile(self, op: Op, g: RewriteBuilder) -> None:
        value = self._lone(op)
        repeats = self._numbers(op.operand(1)) or []
        free, place = self._free(g, value, {a for a, n in enumerate(repeats) if n != 1}, mixing=False)
        if place.own:
            repeats.insert(place.axis, 1)
        self._replace(op, g.Tile(free, np.array(repeats, np.int64)), [place])

    def _slice(self, op: Op, g: RewriteBuilder) -> None:
        value = self._lone(op)
        place, row = self.places[value]
        named = self._list(op, "axes")
        if named and not place.own and place.axis not in {a % len(row) for a in named}:
            self._keep(op, op.inputs, [place])
            return
        bounds = slice_bounds(op, len(row))
        if not place.own and place.axis in bounds:
            begin, end, step = bounds[place.axis]
            if begin == 0 and step == 1 and sym.is_known_le(sym.multiply(row[place.axis], self.size), end):
                del bounds[place.axis]
        free, place = self._free(g, value, bounds, mixing=False)
        if not bounds:
            self._replace(op, g.Identity(value), [place])
            return
        starts, ends = (self.layout.vector(g, [b[i] for b in bounds.values()]) for i in (0, 1))
        axes = np.array([place.physical(a) for a in bounds], np.int64)
        steps = np.array([b[2] for b in bounds.values()], np.int64)
        self._replace(op, g.Slice(free, starts, ends, axes, None if (steps == 1).all() else steps), [place])

    def _pad(self, op: Op, g: RewriteBuilder) -> None:
        value = self._lone(op)
        rank = len(self._row(value))
        amounts = pad_amounts(op, rank)
        touched = {a for a in range(rank) if (amounts[a], amounts[a + rank]) != (0, 0)}
        free, place = self._free(g, value, touched, mixing=False)
        if not place.own:
            self._keep(op, (free, *op.inputs[1:]), [place])
            return
        amounts.insert(rank + place.axis, 0)
        amounts.insert(place.axis, 0)
        made = self._again(op, g, (free, None, op.input(2)), pads=self.layout.vector(g, amounts))
        self._replace(op, made, [place])

    def _along_common_axis(self, op: Op, g: RewriteBuilder) -> None:
        """Concat, GatherElements and ScatterElements: all inputs have the same axes."""
        mine = [v for v in op.inputs if v in self.places]
        rank = len(self._row(op.operand()))
        axis = int(op.attr("axis", 0)) % rank
        _, place = self._free(g, mine[0], {axis}, mixing=False)
        given = [v if v in self.places else self._of_row(g, v, place.axis) for v in op.inputs if v is not None]
        rows = [self._row(v) for v in given]
        if not place.own and any(row[place.axis] != rows[0][place.axis] for row in rows):
            require(self.size == 1, SEVERAL)
            place = Place(place.axis, own=True) if place.outer == 1 else LEADING
        inputs = [self.layout.at(g, v, place) for v in given]
        if place.own:
            self._replace(op, self._again(op, g, inputs, axis=place.physical(axis)), [place])
        else:
            self._keep(op, inputs, [place])

    def _gather(self, op: Op, g: RewriteBuilder) -> None:
        data, indices = op.operand(), op.operand(1)
        rank, axis = len(self._row(data)), int(op.attr("axis", 0)) % len(self._row(data))
        count = len(self._row(indices))
        if data not in self.places:
            place = self.places[indices][0]
            self._keep(op, op.inputs, [place.moved(axis)])
            return
        if indices not in self.places:
            free, place = self._free(g, data, {axis}, mixing=False)
            after = place if place.axis <= axis else place.moved(count - 1)
            self._replace(op, self._again(op, g, (free, indices), axis=place.physical(axis)), [after])
            return
        require(self.size == 1, SEVERAL)
        rows, wanted = self.layout.at(g, data, LEADING), self.layout.at(g, indices, LEADING)
        if axis:
            rows = g.Transpose(rows, perm=[0, axis + 1, *(i for i in range(1, rank + 1) if i != axis + 1)])
        made = g.GatherND(rows, g.Unsqueeze(wanted, [count + 1]), batch_dims=1)
        if axis:
            now = [*range(1 + count, 1 + count + axis), *range(1, 1 + count), *range(1 + count + axis, count + rank)]
            made = g.Transpose(made, perm=[0, *now])
        self._replace(op, made, [LEADING])

    def _gathernd(self, op: Op, g: RewriteBuilder) -> None:
        data, indices = op.operand(), op.operand(1)
        kept = int(op.attr("batch_dims", 0))
        if data not in self.places and not kept:
            free, place = self._free(g, indices, {len(self._row(indices)) - 1})
            self._keep(op, (data, free), [place])
            return
        require(self.size == 1, SEVERAL)
        inputs = [self.layout.at(g, v, LEADING) for v in (data, indices)]
        self._replace(op, g.GatherND(*inputs, batch_dims=kept + 1), [LEADING])

    def _scatternd(self, op: Op, g: RewriteBuilder) -> None:
        require(self.size == 1, SEVERAL)
        data, indices, updates = (self.layout.at(g, v, LEADING) for v in op.inputs if v is not None)
        row = self._row(op.operand(1))
        batch = g.Squeeze(self.layout.extent(g, self.layout.batch), [0])
        places = g.Unsqueeze(g.Range(np.array(0, np.int64), batch, np.array(1, np.int64)), [*range(1, len(row) + 1)])
        first = g.Expand(places, self.layout.vector(g, (1, *row[:-1], 1)))
        made = self._again(op, g, (data, g.Concat(first, indices, axis=len(row)), updates))
        self._replace(op, made, [LEADING])

    def _onehot(self, op: Op, g: RewriteBuilder) -> None:
        value = self._lone(op)
        place, row = self.places[value]
        axis = int(op.attr("axis", -1)) % (len(row) + 1)
        after = place.moved(1) if axis <= place.axis else place
        if place.own:
            after = Place(place.axis + 1, own=True) if axis < place.axis else place
        self._replace(op, self._again(op, g, op.inputs, axis=after.physical(axis) if place.own else axis), [after])

    def _trilu(self, op: Op, g: RewriteBuilder) -> None:
        value = self._lone(op)
        rank = len(self._row(value))
        free, place = self._free(g, value, {rank - 2, rank - 1})
        if place.own and place.axis > rank - 2:
            place = LEADING
            free = self.layout.at(g, value, place)
        self._keep(op, (free, *op.inputs[1:]), [place])

    def _matmul(self, op: Op, g: RewriteBuilder) -> None:
        a, b = op.operand(0), op.operand(1)
        left, right = self._row(a), self._row(b)
        require(all(self._row(v) == () for v in op.inputs[2:] if v is not None), "its zero points are many")
        mine = [v for v in (a, b) if v in self.places]
        place, row = self.places[mine[0]]
        rank = max(len(left), len(right))
        if len(left) < 2 or len(right) < 2:
            require(mine == [a] and len(left) > 1 and place.axis < len(left) - 1, "an operand is a vector")
            self._keep(op, op.inputs, [place])
            return
        if len(mine) == 2:
            ends = [(p.axis - len(r), r) for p, r in (self.places[v] for v in mine) if not p.own]
            if len(ends) == 2:
                found = [(at, r[at]) for at, r in ends]
                require(found not in ([(-2, 1), (-1, 1)], [(-1, 1), (-2, 1)]), MIXES)
        elif not place.own:
            at, whole = place.axis - len(row), row[place.axis]
            end, inside = (-2, -1) if mine[0] is a else (-1, -2)
            require(at != inside or whole != 1, MIXES)
            if at == end:
                self._keep(op, op.inputs, [place.moved(rank - len(row))])
                return
        require(self.size == 1 or not place.own, MIXES)
        inputs, place = self._broadcast(g, (a, b), core=2)
        self._keep(op, (*inputs, *op.inputs[2:]), [place])

    def _gemm(self, op: Op, g: RewriteBuilder) -> None:
        a, b, c = op.operand(0), op.operand(1), op.input(2)
        require(b not in self.places, "its second operand differs between rows")
        row = self._row(a)
        axis = 1 if op.attr("transA", 0) else 0
        if a not in self.places:
            raise MatchFailure("its sum differs between rows")
        place, _ = self.places[a]
        require(place.own or place.axis == axis or row[place.axis] != 1 or row[axis] == 1, MIXES)
        there = place if place.axis == axis and not place.own else Place(axis)
        result = Place(0, there.outer)
        inputs: list[Value | None] = [self.layout.at(g, a, there), b]
        if c is not None:
            shape = self._row(c)
            if c in self.places or (len(shape) == 2 and shape[0] != 1):
                require(len(shape) == 2 and shape[0] == row[axis], "its sum differs between rows")
                c = self.layout.at(g, c, result)
            inputs.append(c)
        self._keep(op, inputs, [result])

    def _recurrent(self, op: Op, g: RewriteBuilder) -> None:
        require(not op.attr("layout", 0), "its layout is batch first")
        require(not any(v in self.places for v in (*op.inputs[1:4], op.input(7))), "its weights differ between rows")
        place = Place(1)
        inputs = list(op.inputs)
        inputs[0] = self.layout.at(g, op.operand(), place)
        for i, v in enumerate(op.inputs):
            if v is not None and i in {4, 5, 6}:  # lengths and initial states
                inputs[i] = self._spread(g, v, Place(0) if i == 4 else place)
        self._keep(op, inputs, [Place(2), place, place])

    def _einsum(self, op: Op, g: RewriteBuilder) -> None:
        equation = str(op.attr("equation")).replace(" ", "")
        require("." not in equation and "->" in equation, "its equation is not explicit")
        terms, result = equation.split("->")
        inputs, letters = list(op.inputs), terms.split(",")
        fresh = next(c for c in "zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA" if c not in equation)
        require(self.size == 1, SEVERAL)
        for i, v in enumerate(op.inputs):
            if v is not None and v in self.places:
                place, row = self.places[v]
                letter = None if place.own else letters[i][place.axis]
                require(letter is None or row[place.axis] != 1 or letter in result, MIXES)
                inputs[i] = self.layout.at(g, v, LEADING)
                letters[i] = fresh + letters[i]
        made = self._again(op, g, inputs, equation=f"{','.join(letters)}->{fresh}{result}")
        self._replace(op, made, [LEADING])
