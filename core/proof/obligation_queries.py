"""Queries on the models of an obligation: what they decide by numbers or extents, and the sizes at which that shows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..ir.dtypes import FLOATS, INTEGERS
from ..operators.declaration import Trait
from ..operators.table import READS_SHAPE, ops_with
from ..serialization.proto_queries import all_nodes
from .field_symbols import SymbolicInputs, names_in
from .obligation import Fragment, NotApplicable, Obligation, Sizes, beside_limits, size_sets
from .shadow_array import Array

MAX_LISTED_BOOLS = 2
STEPS = ops_with(Trait.DECIDES) | ops_with(Trait.DECIDES, "ai.onnx.ml")
"""Operators that jump, about which random points say nothing."""
CONTINUOUS_STEPS = frozenset({"MaxPool"})
ROUNDING_OPS = frozenset({"QuantizeLinear", "DynamicQuantizeLinear", "BitCast", "StringNormalizer", "TfIdfVectorizer"})
RANDOM_OPS = ops_with(Trait.RANDOM)


def keeps_floats(fragment: Fragment) -> bool:
    """Whether operators that read floats return floats of the same type, and none computes bools or places from them.

    Comparisons, ArgMax and Hardmax are evaluated at random points, without ties and NaN, and a Cast there does not
    round. Operators of other domains, such as trees, may do either internally.
    """
    types = fragment.element_types
    for node in all_nodes(fragment.model.graph.node):
        if node.domain not in ("", "ai.onnx"):
            return False
        if node.op_type in STEPS - CONTINUOUS_STEPS:
            return False
        read = {types.get(name, 0) for name in node.input if name} & (FLOATS | {0})
        made = {types.get(name, 0) for name in node.output if name}
        if read and node.op_type not in READS_SHAPE and (len(read | made) != 1 or 0 in read | made):
            return False
    return True


def jumps_of(obligation: Obligation, *, of_numbers: bool = True) -> frozenset[str]:
    """The operators that jump; for regions, only those that read drawn numbers, or, otherwise, those that read none.

    The latter read extents, which are the same in each draw; inputs other than floats may be extents themselves.
    """
    found: set[str] = set()
    for fragment in obligation.fragments:
        drawn = {i.name for i in obligation.inputs} | fragment.computed.keys()
        knows_extents = not obligation.is_thorough and reads_extents_alone(obligation, fragment.model)
        for node in fragment.model.graph.node:
            knows_extents = knows_extents and drawn.isdisjoint(
                node.input[EXTENTS_FROM.get(node.op_type, len(node.input)) :]
            )
            reads = not knows_extents or not drawn.isdisjoint(names_in(node))
            if reads and node.op_type not in READS_SHAPE:
                drawn.update(node.output)
            if reads is of_numbers:
                found.update(n.op_type for n in all_nodes([node]))
    return frozenset(found & STEPS)


def decides_by_numbers(obligation: Obligation) -> bool:
    """Whether a region may depend on which drawn number is larger, or on drawn bools; a rule always may."""
    if obligation.is_thorough or obligation.before.computed or obligation.after.computed:
        return True
    for model in obligation.models:
        drawn = {i.name for i in obligation.inputs}
        for node in model.graph.node:
            read = [at for at, name in enumerate(node.input) if name in drawn]
            if node.op_type in READS_SHAPE or (not read and drawn.isdisjoint(names_in(node))):
                continue
            if node.op_type not in SMOOTH and (node.op_type != "Where" or 0 in read):
                return True
            drawn.update(node.output)
    return False


SMOOTH = ops_with(Trait.MOVES_DATA) | ops_with(Trait.SMOOTH)
"""Operators that are the same formula for all numbers, or whose meanings choose between equal forms."""


def has_roots(obligation: Obligation) -> bool:
    """Whether results may depend only on signs, such as the root of a square."""
    return any(n.op_type in ROOTS for n in obligation.nodes)


ROOTS = frozenset({"Log", "LpNormalization", "Pow", "ReduceL2", "Sqrt"})


def reads_shapes_alone(obligation: Obligation) -> bool:
    """Whether a region reads only the shapes of its inputs, so that each draw is the same."""
    given = {i.name for i in obligation.inputs}
    reads_numbers = any(n.op_type not in READS_SHAPE and not given.isdisjoint(names_in(n)) for n in obligation.nodes)
    computes = obligation.before.computed or obligation.after.computed
    return not (obligation.is_thorough or reads_numbers or computes)


def reads_extents_alone(obligation: Obligation, model: onnx.ModelProto) -> bool:
    """Whether a model reads only the extents of inputs that are not floats."""
    others = {i.name for i in obligation.inputs if i.dtype not in FLOATS}
    return all(n.op_type in READS_SHAPE or others.isdisjoint(names_in(n)) for n in model.graph.node)


def sizes_of(obligation: Obligation) -> Iterator[Sizes]:
    """Yield the sizes at which an obligation is tried, starting with those near limits, all of which are compared."""
    beside = beside_limits(obligation)
    yield from beside
    yield from (sizes for sizes in size_sets(obligation) if sizes not in beside)


EXTENTS_FROM = {"Range": 0, "Resize": 1, "Upsample": 1}
"""The first input of operators for which the numbers of floats determine the shape of the result."""


def has_drawn_integers(obligation: Obligation, symbolic: SymbolicInputs) -> bool:
    """Whether inputs are drawn as numbers that are neither all tried nor only extents."""
    covered = symbolic.names | listed_bools(obligation).keys() | extent_inputs(obligation)
    return any(i.dtype not in FLOATS and i.name not in covered for i in obligation.inputs)


def extent_inputs(obligation: Obligation) -> frozenset[str]:
    """The inputs that both fragments read only as shapes; drawn numbers are then sizes, like the sizes of symbols."""
    found = {i.name for i in obligation.inputs if i.dtype == TensorProto.INT64}
    for model in obligation.models:
        for node in all_nodes(model.graph.node):
            read = (name for at, name in enumerate(node.input) if EXTENT_POSITIONS.get(node.op_type) != at)
            found -= {*read} | {o.name for a in node.attribute for body in (a.g, *a.graphs) for o in body.output}
        found -= {o.name for o in model.graph.output}
    return frozenset(found)


EXTENT_POSITIONS = {"ConstantOfShape": 0, "Expand": 1}
"""The input of an operator that is the shape of its result."""


def has_bools(obligation: Obligation) -> bool:
    """Whether all inputs except floats are bools."""
    types = {i.dtype for i in obligation.inputs} - FLOATS
    return types == {TensorProto.BOOL}


def listed_bools(obligation: Obligation) -> dict[str, int]:
    """The inputs of one bool each, for which every combination is drawn, with their numbers."""
    single = [i.name for i in obligation.inputs if i.dtype == TensorProto.BOOL and all(d == 1 for d in i.dims)]
    return {name: bit for bit, name in enumerate(single[:MAX_LISTED_BOOLS])}


def require_applicable(obligation: Obligation, symbolic: SymbolicInputs) -> None:
    """Raise NotApplicable for types and operators that have no meaning in the field."""
    for given in obligation.inputs:
        if given.name not in symbolic.names and given.dtype not in FLOATS | INTEGERS | {TensorProto.BOOL}:
            raise NotApplicable(f"input {given.name} has elements of type {TensorProto.DataType.Name(given.dtype)}")
    for node in obligation.nodes:
        if node.op_type in ROUNDING_OPS | RANDOM_OPS:
            raise NotApplicable(f"{node.op_type} has no meaning in the field")
    for fragment in obligation.fragments:
        require_no_rounding_casts(fragment)


def require_no_rounding_casts(fragment: Fragment) -> None:
    """Raise NotApplicable for a Cast of floats to integers or bools."""
    model = fragment.model
    if not any(n.op_type in ("Cast", "CastLike") for n in all_nodes(model.graph.node)):
        return
    types = fragment.element_types
    fills = {n.output[0]: fill_of(n) for n in model.graph.node if n.op_type == "ConstantOfShape"}
    for node in all_nodes(model.graph.node):
        is_cast = node.op_type in ("Cast", "CastLike") and types.get(node.input[0], 0) in FLOATS | {0}
        to = types.get(node.output[0], 0)
        if is_cast and to not in FLOATS and not (to in INTEGERS and fits(fills.get(node.input[0]), to)):
            raise NotApplicable("a Cast of floats rounds to integers or bools")


def fill_of(node: onnx.NodeProto) -> Array:
    """The number of a ConstantOfShape."""
    given = next((a.t for a in node.attribute if a.name == "value"), None)
    return np.zeros(1, np.float32) if given is None else numpy_helper.to_array(given)


def fits(number: Array | None, dtype: int) -> bool:
    """Whether a Cast of a known number to an integer type is defined: towards zero, within its range."""
    if number is None or not np.isfinite(number).all():
        return False
    limits = np.iinfo(helper.tensor_dtype_to_np_dtype(dtype))
    return all(limits.min <= int(x) <= limits.max for x in number.astype(np.float64).reshape(-1))
