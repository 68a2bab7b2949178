"""Obligations of the regions in which a rewritten model differs from the original.

A region computes one value that both models share from other shared values, as verification separates regions.
Weights that both models have are inputs of a region if a proof does not need their numbers. A weight into which a
rewrite folded others is computed from these.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from math import prod
from typing import Any

import msgspec
import numpy as np
import onnx
from msgspec import Struct, structs
from onnx import TensorProto, helper, numpy_helper

from ..errors import ModelError
from ..io.function_inlining import with_inlined_functions
from ..io.split_models import SplitModel
from ..ir.dtypes import FLOATS
from ..ir.expressions import SymInt, atoms, substitute
from ..ir.graph import Graph
from ..ir.tensor import Tensor, digest, tensors_equal
from ..operators.table import READS_SHAPE
from ..rewriting.rules import EXACT, ROUNDING
from ..serialization.proto_queries import captured_by, copy_without, needed_nodes, read_names
from ..verify.regions.region_models import cut_region
from ..verify.regions.shared_values import SharedValues
from ..verify.regions.value_graph import ValueGraph
from .common_parts import with_inputs, without_common_parts
from .element_dependence import ELEMENTWISE
from .finite_field_constants import lift, lift_exactly
from .obligation import Fragment, InputType, NotApplicable, Obligation, input_types
from .run_sizes import sizes_of_runs
from .shadow_array import shadowed
from .traced_array import Origin, TracedArray, leaves_of, rounding_of, structure_of

MAX_WEIGHTS = 1 << 20  # elements of the weights of a region
MAX_ULPS = 64.0  # rounding error of a folded weight; sums of branches cancel in some elements
RESULT = "result of the region"
"""The name of the output of a region in both models."""


class RewrittenModel(Struct, frozen=True):
    """An original, whose values `graph` describes, and its rewritten form."""

    original: SplitModel
    rewritten: SplitModel
    graph: Graph


FoldedWeights = Callable[[], Mapping[str, TracedArray]]
"""Returns the weights that a repeated rewrite computes, by name."""


def by_digest(folded: FoldedWeights) -> Mapping[bytes, TracedArray]:
    """The first of equal weights, by digest: a repeated rewrite may choose other names."""
    found: dict[bytes, TracedArray] = {}
    for array in folded().values():
        found.setdefault(digest(Tensor.from_array(np.array(array))), array)
    return found


class ValueType(Struct, frozen=True):
    """The element type of a value of the original (TensorProto.DataType), and its dims; None if its rank is unknown."""

    dtype: int
    dims: tuple[SymInt | None, ...] | None

    @property
    def is_vector(self) -> bool:
        """Whether it has at most one axis, like extents."""
        return self.dims is not None and len(self.dims) <= 1

    def open_dims(self, name: str, free: Collection[str]) -> tuple[str | None, ...]:
        """Names for the dims that do not follow from `free` symbols; None for other dims."""
        dims = enumerate(self.dims or ())
        return tuple(None if is_given(d, free) else f"{name}.{axis}" for axis, d in dims)

    def as_input(self, name: str, open_dims: Sequence[str | None]) -> InputType | None:
        """An input of this type, with names for some of its dims; None if the rank is unknown."""
        if not self.dtype or self.dims is None:
            return None
        dims = (named or d for named, d in zip(open_dims, self.dims, strict=True))
        return InputType(name, self.dtype, tuple(d for d in dims if d is not None))


def is_given(dim: SymInt | None, symbols: Collection[str]) -> bool:
    """Whether a dim is a number or follows from symbols."""
    return isinstance(dim, int) or (dim is not None and all(str(a) in symbols for a in atoms(dim)))


class RegionClaim(Struct, frozen=True):
    """An obligation for a region: `rounded` has the folded weights in it, and their rounding errors in ulps.

    `small_extents`: images and signals have other extents than in the model. `is_of_real_weights`: its constants are
    the numbers of both models, except for values that both compute equally.
    """

    obligation: Obligation
    rounded: Mapping[str, float] = msgspec.field(default_factory=dict[str, float])
    small_extents: bool = False
    is_of_real_weights: bool = False

    @property
    def key(self) -> Hashable:
        """A key that claims share if they differ only in names."""
        return key_of(self.obligation)


class Regions(Struct, frozen=True):
    """Two models, the values that they share, and the types of values of the original."""

    original: ValueGraph
    rewritten: ValueGraph
    shared: SharedValues
    types: Mapping[str, ValueType]
    folded: Sequence[Callable[[], Mapping[bytes, TracedArray]]] = ()
    """The weights of each repeated rewrite by digest; a rewrite is repeated if those before it lack a weight."""
    runs: Callable[[], Sequence[Mapping[str, int]]] = tuple
    """The sizes of symbols, and of unknown dims, in runs of the original."""
    symbols: frozenset[str] = frozenset()
    """The symbols in the dims of the inputs of the original, which may have any sizes."""

    @classmethod
    def of(cls, models: RewrittenModel, folded: Sequence[FoldedWeights] = ()) -> Regions:
        """The regions of two models; shapes, places, sequences and optionals are inside of them.

        Integers mostly follow from the shapes of other values; as variables, they would be independent of those.
        """
        first, second = ValueGraph.of(models.original), ValueGraph.of(models.rewritten)
        outputs = [v for op in models.graph.ops() for v in op.outputs]
        types = {v.name: ValueType(v.known_dtype, v.known_shape) for v in outputs if v.known_dtype}
        of_extents = extents_in(first)
        kept = {n for n, t in types.items() if t.dtype in VARIABLES and not (n in of_extents and t.is_vector)}
        free = frozenset(s for i in input_types(models.original.whole_message()) for s in i.symbols)
        open_dims = {n: d for n in kept if any(d := types[n].open_dims(n, free))}
        runs = cache(lambda: sizes_of_runs(models.original.whole_message(), open_dims))
        weights = [cache(partial(by_digest, made)) for made in folded]
        shared = SharedValues.of(first, second, first.producers.keys() - kept, compared=first.outputs)
        return cls(first, second, shared, types, weights, runs, free)

    @property
    def cut_points(self) -> tuple[str, ...]:
        """The shared values that the models compute in different ways."""
        return self.shared.cut_points

    def op_count(self, cut_point: str) -> int:
        """The number of ops in the region of a cut point in the original."""
        return len(self.original.ancestors((cut_point,), self.shared.names.__contains__)[0])

    def claims(self, cut_point: str, *, exact: bool = False) -> Iterator[RegionClaim]:
        """Yield claims, each of which says that both models compute the same value at a cut point, most general first.

        Raises NotApplicable.
        """
        whole = self._whole(cut_point, exact=exact)
        rounded: dict[str, float] = {}
        if new := {t.name for t in _weights(whole.after) if not self._is_original(t)}:
            folded = {n: found for n in new if (found := self._folded_weight(n)) is not None}
            rounded = {n: ulps for n, (_, ulps) in folded.items()}
            whole = replace(whole, after=replace(whole.after, computed={n: o for n, (o, _) in folded.items()}))
        _require_small(whole)

        def claim(obligation: Obligation, **options: bool) -> RegionClaim:
            kept = {n: rounded[n] for n in obligation.after.computed}
            return RegionClaim(self._at_runs(obligation), kept, **options)

        general = without_common_parts(with_free_weights(whole, self.original.constants), self._as_input)
        if (small := with_small_extents(general, self.original.constants)) is not None:
            yield claim(small, small_extents=True)
        yield claim(general)
        numbers = with_real_weights(whole, self.original.constants)
        cut = claim(without_common_parts(numbers, self._as_computed_input))
        yield structs.replace(cut, is_of_real_weights=not cut.rounded)
        yield claim(numbers)

    def _at_runs(self, obligation: Obligation) -> Obligation:
        """The obligation at the sizes of runs if dims are unknown, which may follow from others."""
        is_free = self.symbols.issuperset(obligation.symbols)
        return obligation if is_free else replace(obligation, runs=tuple(self.runs()))

    def _input(self, name: str) -> InputType | None:
        """A value of the original as an input; None if its rank is unknown."""
        found = self.types.get(name)
        if found is None:
            return None
        named = found.open_dims(name, self.symbols)
        has_runs = any(named) and bool(self.runs())
        of_runs = [d is None or has_runs for d in found.dims or ()]
        return found.as_input(name, [n if known else None for n, known in zip(named, of_runs, strict=True)])

    def _is_original(self, tensor: onnx.TensorProto) -> bool:
        """Whether the original has an equal constant with this name."""
        known = self.original.constants.get(tensor.name)
        return isinstance(known, Tensor) and tensors_equal(known, Tensor.from_proto(tensor))

    def _folded_weight(self, name: str) -> tuple[Origin, float] | None:
        """How a weight was computed, and its error in ulps; None unless a rewrite computed it bit for bit."""
        held = self.rewritten.constants.get(name)
        if not isinstance(held, Tensor):
            return None
        key = digest(held)
        for made in (weights[key] for of_rewrite in self.folded if key in (weights := of_rewrite())):
            if made.origin is None:
                continue
            leaves = {n: self.original.constants.get(n) for n in leaves_of(made.origin)}
            arrays = {n: t.array for n, t in leaves.items() if isinstance(t, Tensor)}
            ulps = rounding_of(np.array(made), made.origin, arrays) if arrays.keys() == leaves.keys() else None
            if ulps is not None and ulps <= MAX_ULPS:
                return made.origin, ulps
        return None

    def _whole(self, cut_point: str, *, exact: bool) -> Obligation:
        names = self.shared.names
        before = self._fragment(self.original, cut_point, names.__contains__)
        after = self._fragment(self.rewritten, cut_point, partial(self.shared.is_given_to, self.rewritten))
        given: dict[str, InputType] = {}
        for fragment in (before, after):
            for own in input_types(fragment.model):
                given.setdefault(own.name, self._input(own.name) or own)
        contract = EXACT if exact else ROUNDING
        return Obligation(before, after, tuple(given.values()), contract, rule=cut_point, is_thorough=False)

    def _fragment(self, values: ValueGraph, cut_point: str, is_given: Callable[[str], bool]) -> Fragment:
        _, outside = values.ancestors((cut_point,), is_given)
        types = {name: self._type(name) for name in outside if is_given(name) and name not in values.inputs}
        region = cut_region(values, (cut_point,), is_given, types)
        model = region.model.whole_message()
        for name, tensor in region.constants.items():
            model.graph.initializer.append(tensor.to_proto(name))
        del model.graph.output[:]
        model.graph.node.append(helper.make_node("Identity", [region.outputs.get(cut_point, cut_point)], [RESULT]))
        model.graph.output.append(onnx.ValueInfoProto(name=RESULT))
        try:
            model = with_inlined_functions(model) if model.functions else model
        except ModelError as e:
            raise NotApplicable(str(e)) from e
        if model.functions:
            raise NotApplicable(f"its function {model.functions[0].name} cannot be inlined")
        drop_identities(model.graph)
        return Fragment(model)

    def _type(self, name: str) -> onnx.TypeProto:
        found = self.types.get(name)
        if found is None or found.dims is None:
            raise NotApplicable(f"the type of {name} is not known")
        return helper.make_tensor_type_proto(found.dtype, [d if isinstance(d, int) else None for d in found.dims])

    def _as_computed_input(self, name: str) -> InputType | None:
        """The type of a computed value of floats or bools as an input with a name of its own."""
        found = self.types.get(name)
        given = self._input(name) if found is not None and found.dtype in VARIABLES else None
        return given if given is None else structs.replace(given, name=f"{name} (given)")

    def _as_input(self, name: str) -> InputType | None:
        """The type of a computed value or of a weight as an input."""
        return free_weight(name, self.original.constants.get(name)) or self._as_computed_input(name)


def drop_identities(graph: onnx.GraphProto) -> None:
    """Let all nodes read the input of an Identity, so that regions with and without it have the same key."""
    kept = {o.name for o in graph.output} | {name for node in graph.node for name in captured_by(node)}
    sources: dict[str, str] = {}
    dropped: list[onnx.NodeProto] = []
    for node in graph.node:
        for i, name in enumerate(node.input):
            node.input[i] = sources.get(name, name)
        if node.op_type == "Identity" and not node.domain and node.output[0] not in kept:
            sources[node.output[0]] = node.input[0]
            dropped.append(node)
    for node in dropped:
        graph.node.remove(node)


def extents_in(values: ValueGraph) -> frozenset[str]:
    """The values of a model that follow from extents and constants."""
    found: set[str] = set()
    for node, reads in zip(values.nodes, values.reads, strict=True):
        follows = all(r in found or r in values.constants for r in reads if r) and not found.isdisjoint(reads)
        if node.op_type in READS_SHAPE or follows:
            found.update(node.output)
    return frozenset(found)


VARIABLES = FLOATS | {TensorProto.BOOL}
"""Element types of values that regions are given."""


def _weights(fragment: Fragment) -> list[onnx.TensorProto]:
    return [t for t in fragment.model.graph.initializer if t.data_type in FLOATS]


def _require_small(obligation: Obligation) -> None:
    """Raise NotApplicable for weights that take too long to evaluate."""
    tensors = (*obligation.before.model.graph.initializer, *obligation.after.model.graph.initializer)
    if sum(prod(t.dims) for t in tensors) > 2 * MAX_WEIGHTS:
        raise NotApplicable(f"its weights have more than {MAX_WEIGHTS} elements")


def with_small_extents(obligation: Obligation, weights: Collection[str]) -> Obligation | None:
    """The obligation with symbols for the large extents of images and signals; None if these may matter.

    Inputs that are `weights` keep their extents.
    """
    nodes = [n for m in obligation.models for n in m.graph.node]
    inputs = tuple(i if i.name in weights else _with_symbols(i) for i in obligation.inputs)
    if inputs == obligation.inputs or obligation.runs or not any(n.op_type in WINDOWS for n in nodes):
        return None
    images = {i.name for i in obligation.inputs if i.name not in weights}
    if not all(_does_the_same_everywhere(m.graph, images) for m in obligation.models):
        return None
    before, after = (replace(f, model=copy_without(f.model)) for f in obligation.fragments)
    dims = {d for i in obligation.inputs for d in i.dims if isinstance(d, int)}
    known = {extent_symbol(d): d for d in dims if d >= LARGE_EXTENT}
    return with_inputs(replace(obligation, inputs=inputs, known_extents=known), before, after, ())


def _does_the_same_everywhere(graph: onnx.GraphProto, images: Collection[str]) -> bool:
    """Whether all nodes that read `images`, or values computed from these, do the same at all places."""
    found = set(images)
    for node in graph.node:
        read = node.input[:1] if node.op_type == "CastLike" else [*read_names(node)]
        if found.isdisjoint(read):
            continue
        if node.op_type not in ANY_EXTENT or node.domain not in ("", "ai.onnx"):
            return False
        found.update(node.output)
    return True


def _with_symbols(given: InputType) -> InputType:
    """An activation with a symbol for each large extent of its images or signals."""
    dims = (
        extent_symbol(d) if axis >= FIRST_EXTENT and isinstance(d, int) and d >= LARGE_EXTENT else d
        for axis, d in enumerate(given.dims)
    )
    return structs.replace(given, dims=tuple(dims))


def extent_symbol(extent: int) -> str:
    """The symbol that stands for a large extent."""
    return f"extent {extent}"


FIRST_EXTENT, LARGE_EXTENT = 2, 6
WINDOWS = frozenset({"Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool"})
ANY_EXTENT = WINDOWS | ELEMENTWISE | {"BatchNormalization", "CastLike", "Identity", "InstanceNormalization", "Pad"}
"""Operators that do the same at all places of an image or signal."""


def free_weight(name: str, constant: object) -> InputType | None:
    """A weight of the original, of two elements or more, as an input; None for another constant."""
    if not isinstance(constant, Tensor) or constant.dtype not in FLOATS or prod(constant.dims) <= 1:
        return None
    return InputType(name, constant.dtype, constant.dims, bool((constant.array > 0).all()))


def with_free_weights(obligation: Obligation, constants: Mapping[str, object]) -> Obligation:
    """The obligation whose inputs are the original weights used by folded weights; other weights are lifted."""
    leaves = {name for origin in obligation.after.computed.values() for name in leaves_of(origin)}
    free = {n: i for n in leaves if (i := free_weight(n, constants.get(n))) is not None}
    before = without_initializers(obligation.before, free)
    after = without_initializers(obligation.after, free)
    fixed = shadows_of(leaves - free.keys(), constants)
    return with_inputs(
        obligation, with_shadows(before, fixed), with_shadows(after, fixed), (*obligation.inputs, *free.values())
    )


def with_real_weights(obligation: Obligation, constants: Mapping[str, object]) -> Obligation:
    """The obligation with the exact numbers of all weights, and of the weights used by folded ones."""
    leaves = {name for origin in obligation.after.computed.values() for name in leaves_of(origin)}
    fixed = shadows_of(leaves, constants)
    before, after = (with_shadows(f, fixed) for f in obligation.fragments)
    return replace(obligation, before=before, after=after)


def without_initializers(fragment: Fragment, names: Mapping[str, object]) -> Fragment:
    """A fragment that gets some of its initializers as inputs."""
    model = copy_without(fragment.model)
    del model.graph.initializer[:]
    model.graph.initializer.extend(t for t in fragment.model.graph.initializer if t.name not in names)
    return replace(fragment, model=model)


def shadows_of(names: set[str], constants: Mapping[str, object]) -> LazyArrays:
    """Constants with their exact elements."""
    found = {n: constants.get(n) for n in names}
    return LazyArrays({n: partial(_shadow_of, t) for n, t in found.items() if isinstance(t, Tensor)})


def _shadow_of(tensor: Tensor | onnx.TensorProto) -> Any:
    """A constant with its field elements; a single number represents the simplest number that rounds to it."""
    array = tensor.array if isinstance(tensor, Tensor) else numpy_helper.to_array(tensor)
    if array.size <= 1:
        return shadowed(array, lift(array, is_held=True))
    return shadowed(array.astype(np.float64), lift_exactly(array))


def with_shadows(fragment: Fragment, shadows: LazyArrays) -> Fragment:
    """A fragment with the exact elements of its weights and other constants."""
    own = {t.name: partial(_shadow_of, t) for t in _weights(fragment) if t.name not in fragment.computed}
    return replace(fragment, shadows=LazyArrays({**own, **shadows.makers}))


@dataclass(frozen=True, eq=False)
class LazyArrays(Mapping[str, Any]):
    """Arrays by name, each created when it is first read."""

    makers: Mapping[str, Callable[[], Any]]
    _made: dict[str, Any] = field(default_factory=dict[str, Any])

    def __getitem__(self, name: str) -> Any:
        """The array with a name."""
        if name not in self._made:
            self._made[name] = self.makers[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self.makers)

    def __len__(self) -> int:
        """The number of arrays."""
        return len(self.makers)


def key_of(obligation: Obligation) -> Hashable:
    """A key that obligations share if they differ only in names."""
    given = {i.name for i in obligation.inputs}
    names = Renaming()
    parts = [tuple(_parts_of(obligation.before, given, names))]
    names = names.keeping(given)
    parts.append(tuple(_parts_of(obligation.after, given, names)))
    symbols = Renaming()
    inputs = [
        (names(i.name), i.dtype, i.is_positive, tuple(str(substitute(d, lambda a: symbols(str(a)))) for d in i.dims))
        for i in obligation.inputs
    ]
    runs = tuple(tuple(run.get(s) for s in obligation.symbols) for run in obligation.runs)
    known = tuple(obligation.known_extents.get(s) for s in obligation.symbols)
    return *parts, tuple(inputs), runs, known, str(obligation.contract)


@dataclass(slots=True)
class Renaming:
    """New names, numbered in the order of requests."""

    known: dict[str, str] = field(default_factory=lambda: {"": ""})
    count: int = 0

    def __call__(self, name: str) -> str:
        """The new name."""
        if name not in self.known:
            self.count += 1
            self.known[name] = f"n{self.count}"
        return self.known[name]

    def place(self, name: str) -> int:
        """The position of a name among the requested ones."""
        return int(self(name).removeprefix("n"))

    def keeping(self, names: Collection[str]) -> Renaming:
        """A renaming that knows only these names."""
        return Renaming({n: new for n, new in self.known.items() if n in names or not n}, self.count)


def _parts_of(fragment: Fragment, given: Collection[str], renamed: Renaming) -> Iterator[Hashable]:
    """Yield the nodes and constants of a fragment, with other names, in the order in which its outputs need them."""
    graph = fragment.model.graph
    for node in needed_nodes(graph.node, [o.name for o in graph.output]):
        plain = copy_without(node, "name", "doc_string", "metadata_props")
        for names in (plain.input, plain.output):
            for i, name in enumerate(names):
                names[i] = renamed(name)
        captured = tuple((n, renamed(n)) for n in captured_by(node))
        yield plain.SerializeToString(deterministic=True), captured
    for tensor in sorted(graph.initializer, key=lambda t: renamed.place(t.name)):
        if tensor.name in fragment.computed:
            origin = fragment.computed[tensor.name]
            yield renamed(tensor.name), structure_of(origin, renamed)
            fixed = (n for n in leaves_of(origin) if n not in given)
            yield tuple((renamed(n), np.asarray(fragment.shadows[n]).tobytes()) for n in fixed)
            continue
        plain = copy_without(tensor)
        plain.name = renamed(tensor.name)
        yield plain.SerializeToString(deterministic=True)
