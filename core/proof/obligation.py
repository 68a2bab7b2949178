"""Proof obligations: a fragment, its rewritten form, and the domain on which both must compute the same values."""

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

    The exact value of a constant that `exact` lacks is its number. `shadows` has the same constants, and irrational and
    large ones, as `shadow_array.ShadowArray`. Constants that are `computed` follow from inputs of the obligation.
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

    `is_positive`: only positive numbers are drawn, because it represents weights that are.
    """

    name: str
    dtype: int
    dims: tuple[Dim, ...]
    is_positive: bool = False

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape with those sizes of symbols. Raises NotApplicable if an extent would be negative."""
        found = [substitute(d, lambda atom: sizes.get(str(atom))) for d in self.dims]
        extents = tuple(d for d in found if isinstance(d, int) and d >= 0)
        if len(extents) != len(found):
            raise NotApplicable(f"input {self.name} has no extents of these sizes")
        return extents

    @property
    def symbols(self) -> Iterator[str]:
        """Yield the symbols of the dims, also in expressions."""
        for dim in self.dims:
            yield from symbols_in(dim)


def symbols_in(dim: Dim) -> list[str]:
    """The symbols of a dim."""
    return [] if isinstance(dim, int) else sorted(map(str, atoms(dim)))


Sizes = Mapping[str, int]
"""The extents that symbols represent."""


class Visits(Struct, frozen=True):
    """Sizes on both sides of limits of extents; all of them must be compared.

    `windows` are further sizes, of images and signals, at which a fragment may not run. `searched` is the largest
    extent up to which limits were sought; 0 if no operator decides by an extent.
    """

    sizes: tuple[Sizes, ...] = ()
    windows: tuple[Sizes, ...] = ()
    searched: int = 0


@dataclass(frozen=True, slots=True)
class Obligation:
    """The claim that `after` computes the outputs of `before` wherever `condition` holds.

    Attributes:
        before, after: both fragments have the same names and order of outputs.
        condition: a model with the inputs of both fragments and bool outputs, all of which are assumed to be true.
        unsaid: the reason why the condition of the contract has no expression on this model.
        build_site: the line of the rule that returned the replacement, counted from its first line; 0 if unknown.
        branches: those that its code took, out of `all_branches`.
        retyped: returns the obligation of the same rule on the model with another type instead of float32
            (TensorProto.DataType), and constants times factors; None if the rule does not fire.
        is_thorough: otherwise, two sets of sizes are compared, and few points if no decision depends on them.
        runs: the sizes that symbols have together, if they are not independent.
        has_time: draws end once it returns False.
        known_extents: the large extents that symbols represent.
        visits: the sizes near limits of extents; None before they are sought (`extent_limits.with_visits`).
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
        """Yield the nodes of both models and of bodies in them."""
        return (n for m in self.models for n in all_nodes(m.graph.node))

    @property
    def symbols(self) -> tuple[str, ...]:
        """The symbols of the dims, in order of appearance."""
        return tuple(dict.fromkeys(symbol for i in self.inputs for symbol in i.symbols))

    def concrete_inputs(self, sizes: Mapping[str, int]) -> Iterator[tuple[InputType, tuple[int, ...]]]:
        """Yield each input with its shape at those sizes."""
        return ((i, i.shape(sizes)) for i in self.inputs)


def promises_bits(contract: Contract) -> bool:
    """Whether a contract promises equal bits, at least for some element types."""
    return EXACT in (contract, contract.for_dtypes)


NO_FACTORS: Mapping[str, float] = MappingProxyType({})


class NotApplicable(Exception):
    """Raised by a technique for an obligation outside its domain; the message is the reason."""


OVERRIDABLE_SINCE = 4
"""The IR version from which on initializers that are inputs are defaults; before, they are constants."""
SMALL_SIZES = ((2, 3), (3, 2), (1, 2), (4, 4), (6, 1), (5, 5))
"""Sizes of alternate symbols, one set after another."""
DRAWN_INTEGERS = 3  # of inputs, below which they are drawn at first
LARGE_SIZE = 130
"""Of one symbol: more than the windows, tables and numbers of small models."""


def input_types(model: onnx.ModelProto) -> tuple[InputType, ...]:
    """The inputs, with or without a default. Raises NotApplicable for other than tensors of known type and rank."""
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
    """The element types of the values of a model and of bodies in it; 0 if ONNX infers none, such as in bodies."""
    inferred = infer_shapes(model).graph
    nodes = list(all_nodes(inferred.node))
    graphs = [inferred, *(body for node in nodes for body in subgraphs(node))]
    types = {o: TensorProto.INT64 if n.op_type in {"Shape", "Size"} else 0 for n in nodes for o in n.output if o}
    values = (v for g in graphs for v in (*g.input, *g.output, *g.value_info))
    types |= {v.name: dtype for v in values if (dtype := _tensor_type(v).elem_type)}
    return types | {t.name: t.data_type for g in graphs for t in g.initializer}


def _tensor_type(value: onnx.ValueInfoProto) -> onnx.TypeProto.Tensor:
    """The type of a tensor, or of the tensors in a sequence."""
    sequence = value.type.sequence_type
    return sequence.elem_type.tensor_type if value.type.HasField("sequence_type") else value.type.tensor_type


def beside_limits(obligation: Obligation) -> Sequence[Sizes]:
    """The sizes near limits of extents, all of which are compared."""
    return (*obligation.visits.sizes, *obligation.visits.windows) if obligation.visits is not None else ()


def must_run(obligation: Obligation, sizes: Sizes) -> bool:
    """Whether the original is known to run at these sizes near a limit; drawn indices may exceed small extents."""
    return obligation.visits is not None and sizes in obligation.visits.sizes and max(sizes.values()) > DRAWN_INTEGERS


def size_sets(obligation: Obligation) -> Iterator[dict[str, int]]:
    """Yield sizes of all symbols: small ones, then a large one for each symbol in turn; one empty set without symbols.

    If there are sizes of runs, only those.
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
