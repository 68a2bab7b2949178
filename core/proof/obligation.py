"""Proof obligations: a fragment, its rewritten form, and the domain on which both must compute the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx
from msgspec import Struct
from onnx import TensorProto

from ..ir.expressions import SymInt, atoms, substitute
from ..processes.onnx_calls import infer_shapes
from ..rewriting.rules import EXACT, Contract
from ..serialization.proto_queries import all_nodes, subgraphs
from .rule_branches import Branch
from .traced_array import Origin

ExactArray = np.ndarray[Any, Any]
"""Exact elements of a float constant: an object array of `fractions.Fraction`; other elements are irrational."""
Dim = SymInt
"""An extent, a symbol, or an expression of symbols; unnamed dims get names of their own."""


@dataclass(frozen=True)
class Fragment:
    """A model and the exact values of its float constants, by name of initializer or output of a Constant node.

    A constant that `exact` lacks has no exact value but the number that it holds. `shadows` has the same constants, and
    irrational and large ones, as `shadow_array.ShadowArray`. Constants that are `computed` follow from inputs of the
    obligation.
    """

    model: onnx.ModelProto
    exact: Mapping[str, ExactArray] = field(default_factory=dict[str, ExactArray], repr=False)
    shadows: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    computed: Mapping[str, Origin] = field(default_factory=dict[str, Origin], repr=False)

    @cached_property
    def element_types(self) -> Mapping[str, int]:
        """The element types of the values of the model, by name (`element_types`)."""
        return element_types(self.model)


class InputType(Struct, frozen=True):
    """An input of both fragments: its element type (TensorProto.DataType) and its dims.

    `is_positive`: only numbers above 0 are drawn, as it stands for weights that are.
    """

    name: str
    dtype: int
    dims: tuple[Dim, ...]
    is_positive: bool = False

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape with those sizes for the symbols. Raises NotApplicable where an extent would be below 0."""
        found = [substitute(d, lambda atom: sizes.get(str(atom))) for d in self.dims]
        extents = tuple(d for d in found if isinstance(d, int) and d >= 0)
        if len(extents) != len(found):
            raise NotApplicable(f"input {self.name} has no extents of these sizes")
        return extents

    @property
    def symbols(self) -> Iterator[str]:
        """The symbols of the dims, and of expressions in them."""
        for dim in self.dims:
            yield from symbols_in(dim)


def symbols_in(dim: Dim) -> list[str]:
    """The symbols of a dim."""
    return [] if isinstance(dim, int) else sorted(map(str, atoms(dim)))


Sizes = Mapping[str, int]
"""The extents that symbols stand for."""


class Visits(Struct, frozen=True):
    """Sizes on both sides of limits of extents, all of which have to be compared.

    `windows` are others, of images and signals, at which a fragment may not run. `searched`: the largest extent up to
    which limits were sought; 0 where no operator decides by an extent.
    """

    sizes: tuple[Sizes, ...] = ()
    windows: tuple[Sizes, ...] = ()
    searched: int = 0


@dataclass(frozen=True, slots=True)
class Obligation:
    """The claim that `after` computes the outputs of `before` wherever `condition` holds.

    `condition` is a model with the inputs of both whose outputs are bools, all of which are assumed to be true;
    `unsaid` the reason for which the contract's has no expression on this model. The outputs of both fragments have the
    same names and order. `build_site` is the line of the rule that returned the replacement, counted from its first
    one; 0 if it is not known; `branches` are those that its code took, of
    `all_branches`. `retyped` gives the obligation of the same
    rule on the model with another type in place of float32 (TensorProto.DataType), and constants times factors; None if
    it does not fire. Without
    `is_thorough`, two sets of sizes are compared, and few points where no decision depends on them. `runs` are the
    sizes that symbols have together, where they are not independent. Draws end once it no longer `has_time`. Symbols
    with `known_extents` stand for these, which are large. `visits` are the sizes beside limits of extents, None before
    they are sought (`extent_limits.with_visits`).
    """

    before: Fragment
    after: Fragment
    inputs: tuple[InputType, ...]
    contract: Contract
    condition: onnx.ModelProto | None = None
    unsaid: str = ""
    rule: str = ""
    build_site: int = 0
    branches: frozenset[Branch] = frozenset()
    all_branches: frozenset[Branch] = frozenset()
    retyped: Callable[[int, Mapping[str, float]], Obligation | None] | None = field(
        default=None, repr=False, compare=False
    )
    is_thorough: bool = True
    runs: tuple[Mapping[str, int], ...] = ()
    has_time: Callable[[], bool] | None = field(default=None, repr=False, compare=False)
    known_extents: Mapping[str, int] = field(default_factory=dict[str, int])
    visits: Visits | None = None

    @property
    def fragments(self) -> tuple[Fragment, Fragment]:
        """Both fragments."""
        return self.before, self.after

    @property
    def models(self) -> tuple[onnx.ModelProto, onnx.ModelProto]:
        """The models of both fragments."""
        return self.before.model, self.after.model

    @property
    def nodes(self) -> Iterator[onnx.NodeProto]:
        """The nodes of both models and of bodies in them."""
        return (n for m in self.models for n in all_nodes(m.graph.node))

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols of the dims, in order of appearance."""
        return tuple(dict.fromkeys(symbol for i in self.inputs for symbol in i.symbols))

    def concrete_inputs(self, sizes: Mapping[str, int]) -> Iterator[tuple[InputType, tuple[int, ...]]]:
        """Each input with its shape at those sizes."""
        return ((i, i.shape(sizes)) for i in self.inputs)


def promises_bits(contract: Contract) -> bool:
    """Whether a contract promises equal bits, for some element types at least."""
    return EXACT in (contract, contract.for_dtypes)


NO_FACTORS: Mapping[str, float] = MappingProxyType({})


class NotApplicable(Exception):
    """Raised by a technique for an obligation outside its domain; the message is the reason."""


OVERRIDABLE_SINCE = 4
"""The IR version from which on initializers that are inputs are their defaults; they are constants before."""
SMALL_SIZES = ((2, 3), (3, 2), (1, 2), (4, 4), (6, 1), (5, 5))
"""Sizes of alternate symbols, one set after another."""
DRAWN_INTEGERS = 3  # of inputs, below which they are drawn at first
LARGE_SIZE = 130
"""Of one symbol: more than the windows, tables and numbers of small models."""


def input_types(model: onnx.ModelProto) -> tuple[InputType, ...]:
    """The inputs, with or without a default. Raises NotApplicable for one that is no tensor of known type and rank."""
    constants = {t.name for t in model.graph.initializer}
    found: list[InputType] = []
    for value in model.graph.input:
        if value.name in constants and model.ir_version < OVERRIDABLE_SINCE:
            continue
        tensor = value.type.tensor_type
        if not value.type.HasField("tensor_type") or not tensor.elem_type:
            raise NotApplicable(f"input {value.name} is not a tensor of known type")
        if not tensor.HasField("shape"):
            raise NotApplicable(f"input {value.name} has an unknown rank")
        dims = (
            d.dim_value if d.HasField("dim_value") and d.dim_value >= 0 else d.dim_param or f"{value.name}.{axis}"
            for axis, d in enumerate(tensor.shape.dim)
        )
        found.append(InputType(value.name, tensor.elem_type, tuple(dims)))
    return tuple(found)


def element_types(model: onnx.ModelProto) -> dict[str, int]:
    """The element types of the values of a model and of bodies in it; 0 where ONNX infers none, as inside of bodies."""
    inferred = infer_shapes(model).graph
    nodes = list(all_nodes(inferred.node))
    graphs = [inferred, *(body for node in nodes for body in subgraphs(node))]
    types = {o: TensorProto.INT64 if n.op_type in {"Shape", "Size"} else 0 for n in nodes for o in n.output if o}
    values = (v for g in graphs for v in (*g.input, *g.output, *g.value_info))
    types |= {v.name: dtype for v in values if (dtype := _tensor_type(v).elem_type)}
    return types | {t.name: t.data_type for g in graphs for t in g.initializer}


def _tensor_type(value: onnx.ValueInfoProto) -> onnx.TypeProto.Tensor:
    """The type of a tensor, or of those in a sequence."""
    sequence = value.type.sequence_type
    return sequence.elem_type.tensor_type if value.type.HasField("sequence_type") else value.type.tensor_type


def beside_limits(obligation: Obligation) -> Sequence[Sizes]:
    """The sizes beside limits of extents, all of which are compared."""
    return (*obligation.visits.sizes, *obligation.visits.windows) if obligation.visits is not None else ()


def must_run(obligation: Obligation, sizes: Sizes) -> bool:
    """Whether the original is known to run at these sizes, beside a limit; drawn indices may exceed small extents."""
    return obligation.visits is not None and sizes in obligation.visits.sizes and max(sizes.values()) > DRAWN_INTEGERS


def size_sets(obligation: Obligation) -> Iterator[dict[str, int]]:
    """Sizes of all symbols: small ones, then a large one for each symbol in turn; one empty set if there are none.

    Those of runs alone if there are any.
    """
    symbols = obligation.symbols
    runs = [run for run in obligation.runs if run.keys() >= set(symbols)]
    if symbols and runs:
        yield from ({s: run[s] for s in symbols} for run in runs)
        return
    if not symbols:
        yield {}
        return
    for sizes in SMALL_SIZES:
        yield {s: sizes[i % 2] for i, s in enumerate(symbols)}
    for large in symbols[:2]:
        yield {s: LARGE_SIZE if s == large else 2 for s in symbols}
