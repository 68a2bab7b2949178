"""Limits of extents: the sizes of symbols at which the decisions of a fragment change, with both sides of each limit.

Operators that compare, crop, round, repeat or stride do so by extents, or by numbers that follow from them. The form
at given sizes is the set of outcomes of all of them. Limits are the sizes at which the form changes; they are bracketed
by a ladder of sizes, which contains the constants of the fragments, and then bisected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import lcm, prod
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..errors import EvaluationError
from ..ir.dtypes import FLOATS
from ..operators.declaration import Trait
from ..operators.table import MOVING, READS_SHAPE, moved_inputs, ops_with, roles
from ..serialization.proto_queries import all_nodes, copy_without, has_subgraphs, needed_nodes, subgraphs
from ..verify.reference.float64_evaluation import EvaluationOrder, evaluate_by_policy, unchanged
from .empty_extents import require_equal_when_empty
from .field_symbols import names_in
from .obligation import Fragment, NotApplicable, Obligation, Sizes, Visits, symbols_in

Array = np.ndarray[Any, Any]
Form = Hashable
Numbers = tuple[tuple[tuple[int, ...], bytes], ...]
"""The shapes and the first bytes of arrays."""
SMALL = (0, 1, 2, 3)
LADDER = (*SMALL, 4, 5, 8, 9, 16, 17, 33, 64, 129, 256, 512, 1024, 2048, 4100, 1 << 14, 1 << 17, 1 << 20)
OTHER_SIZE = 2  # of symbols that are not varied
MAX_SIDES = 8  # sizes of a symbol near its limits that are combined with sizes of other symbols
MAX_DIRECTIONS = 3  # symbols that are varied alone
CROSSED_SIZE = 17  # of symbols that are not varied, when one symbol is varied again
MAX_OTHERS, MAX_CROSSED = 6, 1 << 12  # numbers that are such sizes, too, and the largest one
MAX_WORK = 1 << 16  # elements that one evaluation reads, plus 2^10 for each op; more near a number of a fragment
MAX_WORK_BESIDE, MAX_TOTAL_WORK = 1 << 23, 1 << 24
MAX_CONSTANTS = 12  # numbers near which the ladder has steps
MAX_LISTED = 64  # elements of a constant whose numbers are limits
MAX_LIMIT = 1 << 20
MAX_ARRAY = 1 << 48  # elements of an input of which no number is read
MAX_FORMS = 40
MAX_PERIOD = 8
WORD = 8  # bytes of a number
OP_WORK = 1 << 10


def with_visits(obligation: Obligation) -> Obligation:
    """The obligation with the sizes near its limits.

    Raises NotApplicable if there are too many, and for fragments that differ if an extent is 0.
    """
    return obligation if obligation.visits is not None else replace(obligation, visits=visits_of(obligation))


def visits_of(obligation: Obligation) -> Visits:
    """The sizes near the limits of an obligation. Raises NotApplicable if there are too many."""
    symbols = obligation.symbols
    if not symbols:
        return Visits()
    require_equal_when_empty(obligation)
    watched = [w for f in obligation.fragments if (w := Watched.of(obligation, f)) is not None]
    is_small = all(w.decides_by_small_numbers for w in watched)
    watched = [] if is_small else [w for w in watched if w.decides_by_extents()]
    phases = () if obligation.runs else window_sizes(obligation)
    if all(w.decides_by_small_numbers for w in watched):
        return Visits((), phases)
    search = LimitSearch(watched)
    if obligation.runs:
        require_forms_of_runs(obligation, search)
        return Visits((), phases, search.searched)
    ladder = ladder_of(watched)
    for direction in directions(symbols):
        search.add_limits(direction, ladder)
    search.add_combinations(symbols[:MAX_DIRECTIONS])
    crossed = [w for w in watched if w.decides_by_several_symbols()]
    search.add_crossings(symbols, ladder, beside_numbers(crossed) if crossed else ())
    return Visits(tuple(search.visits), phases, search.searched)


def require_forms_of_runs(obligation: Obligation, search: LimitSearch) -> None:
    """Raise NotApplicable if dependent symbols have sizes at which a fragment has a form that occurs in no run."""
    symbols = obligation.symbols
    seen = {search.form_at({s: run[s] for s in symbols}) for run in obligation.runs if run.keys() >= set(symbols)}
    first = max((n for run in obligation.runs for n in run.values()), default=1)
    ladder = [n for n in ladder_of(search.watched) if n > first]
    for direction in directions(symbols):
        search.add_limits(direction, ladder)
    for sizes in search.visits:
        if search.form_at(sizes) not in seen:
            extent = max(sizes.values())
            raise NotApplicable(f"it differs in form from extent {extent} on, which follows from others")


def directions(symbols: Sequence[str]) -> Iterator[Callable[[int], Sizes]]:
    """The ways of varying sizes: each of the first symbols alone, and all of them."""
    for varied in symbols[:MAX_DIRECTIONS] if len(symbols) > 1 else ():
        yield lambda n, varied=varied: {s: n if s == varied else OTHER_SIZE for s in symbols}
    yield lambda n: dict.fromkeys(symbols, n)


def ladder_of(watched: Sequence[Watched]) -> list[int]:
    """Sizes in ascending order, including those near the numbers on which decisions depend."""
    beside = {n + side for n in numbers_of_decisions(watched) for side in (-1, 0, 1, 2)}
    return sorted({*LADDER, *(n for n in beside if n > 0)})


def beside_numbers(watched: Sequence[Watched]) -> list[int]:
    """Sizes of symbols that are not varied: numbers on which decisions depend, larger ones, and one more."""
    numbers = [n for n in numbers_of_decisions(watched) if n <= MAX_CROSSED][:MAX_OTHERS]
    return sorted({CROSSED_SIZE, *numbers, *(n + 2 for n in numbers)})


def numbers_of_decisions(watched: Sequence[Watched]) -> list[int]:
    """Numbers on which decisions depend, as sizes."""
    numbers: dict[int, None] = {}
    for one in watched:
        nodes = [*all_nodes(n.node for n in one.order.nodes), *(n for n, _ in one.deciding)]
        read = {name for n in nodes for i, name in enumerate(n.input) if "axes" not in roles(n.op_type).get(i, "")}
        for name in read & one.constants.keys():
            numbers.update(dict.fromkeys(_numbers_in(one.constants[name])))
        for name, value in (item for n in nodes for item in attributes_of(n).items()):
            if isinstance(value, onnx.TensorProto):
                numbers.update(dict.fromkeys(_numbers_in(numpy_helper.to_array(value))))
            elif isinstance(value, int | float) and name not in PLACES:
                numbers.update(dict.fromkeys(_as_limits(value)))
    return sorted(n for n in numbers if n > max(SMALL))[-MAX_CONSTANTS:]


PLACES = frozenset({"axis", "batch_axis", "batch_dims", "dtype", "start", "end", "time_axis", "to"})
"""Attributes of numbers that are axes or types."""


def _numbers_in(array: Array) -> Iterator[int]:
    if array.size <= MAX_LISTED and array.dtype.kind in "iuf":
        for number in array.reshape(-1).tolist():
            yield from _as_limits(number)


def _as_limits(number: float) -> Iterator[int]:
    """Yield the whole numbers to which a constant may limit an extent: itself, or its inverse if it is a factor."""
    if np.isfinite(number) and 1 < abs(number) <= MAX_LIMIT:
        yield int(abs(number))
    elif 0 < abs(number) < 1 and 1 / abs(number) <= MAX_LIMIT:
        yield round(1 / abs(number))


@dataclass(slots=True)
class Watched:
    """The part of a fragment that determines its decisions by extents."""

    obligation: Obligation
    model: onnx.ModelProto
    order: EvaluationOrder
    constants: Mapping[str, Array]
    deciding: Sequence[tuple[onnx.NodeProto, Sequence[str]]]
    """The deciding nodes, and the inputs that determine their decisions."""
    inner: frozenset[tuple[str, ...]]
    """The outputs of nodes in bodies that may decide."""
    read: frozenset[str]
    """The inputs whose numbers are read, rather than only their shapes."""
    work: int = 0
    total_work: int = 0
    outcomes: dict[Hashable, Any] = field(default_factory=dict[Hashable, Any])
    numbers: dict[Hashable, Numbers] = field(default_factory=dict[Hashable, Numbers])
    """The inputs that determine the decisions of nodes outside of bodies."""

    @classmethod
    def of(cls, obligation: Obligation, fragment: Fragment) -> Watched | None:
        """The decisions of a fragment; None if there are none."""
        graph = fragment.model.graph
        deciding = [(node, read) for node, read in deciding_nodes(graph, obligation) if read]
        inside = (n for node, _ in deciding for body in subgraphs(node) for n in all_nodes(body.node))
        inner = frozenset(tuple(n.output) for n in inside if n.op_type not in PLAIN and not n.domain)
        outputs = [*dict.fromkeys(name for _, read in deciding for name in read)]
        if not outputs:
            return None
        model = copy_without(fragment.model)
        del model.graph.output[:], model.graph.initializer[:], model.graph.node[:]
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
        tensors = {t.name: t for t in graph.initializer}
        for node in needed_nodes(graph.node, outputs):
            if node.op_type == "Constant" and [a.name for a in node.attribute] == ["value"]:
                tensors[node.output[0]] = node.attribute[0].t
            else:
                model.graph.node.append(node)
        needed = model.graph.node
        names = {*outputs, *(n for node in needed for n in names_in(node))}
        constants = {name: numpy_helper.to_array(tensors[name]) for name in names & tensors.keys()}
        read = {n for node in needed if node.op_type not in READS_SHAPE for n in names_in(node)}
        order = EvaluationOrder.of(model, outputs)
        return cls(obligation, model, order, constants, deciding, inner, frozenset(read))

    @property
    def decides_by_small_numbers(self) -> bool:
        """Whether extents, and sums and products of them, are only compared with -1, 0 and 1."""
        nodes = [n.node.op_type for n in self.order.nodes]
        return LESSENING.isdisjoint(nodes) and all(n.op_type in BY_SMALL_NUMBERS for n, _ in self.deciding)

    def decides_by_extents(self) -> bool:
        """Whether some node decides by numbers that differ between sizes; others are ignored from now on."""
        symbols = self.obligation.symbols
        seen: list[Mapping[Hashable, Numbers]] = []
        for step in (0, 0, 2):
            sizes = {s: OTHER_SIZE + len(seen) + step * i for i, s in enumerate(symbols)}
            if self.form_at(sizes) not in (None, TOO_LARGE):
                seen.append(self.numbers)
        if len(seen) > 1:
            keys = {k for k in seen[0] if any(other.get(k) != seen[0][k] for other in seen)}
            self.deciding = [(n, read) for n, read in self.deciding if has_subgraphs(n) or tuple(n.output) in keys]
        return bool(self.deciding)

    def decides_by_several_symbols(self) -> bool:
        """Whether a number that determines a decision, apart from being small, depends on more than one symbol."""
        symbols = self.obligation.symbols[:MAX_DIRECTIONS]
        if len(symbols) < 2 or self.inner:
            return len(symbols) > 1
        first = dict.fromkeys(self.obligation.symbols, CROSSED_SIZE)
        depending: Counter[Hashable] = Counter()  # the symbols on which each part depends
        numbers = self._numbers_at(first)
        for symbol in symbols:
            others = [self._numbers_at({**first, symbol: n}) for n in (CROSSED_SIZE + 1, 2 * CROSSED_SIZE)]
            if numbers is None or None in others:
                return True
            depending.update({part for other in others for part in changed_parts(numbers, other or {})})
        return any(n > 1 for n in depending.values())

    def _numbers_at(self, sizes: Sizes) -> Mapping[Hashable, Numbers] | None:
        """The numbers that determine decisions, except whether they are small; None if the fragment does not run."""
        small = {tuple(n.output) for n, _ in self.deciding if n.op_type in BY_SMALL_NUMBERS}
        if self.form_at(sizes) in (None, TOO_LARGE):
            return None
        return {k: n for k, n in self.numbers.items() if k not in small}

    def form_at(self, sizes: Sizes) -> Form | None:
        """The outcomes of all decisions; None if the fragment does not run at these sizes, or TOO_LARGE."""
        if self.total_work > MAX_TOTAL_WORK:
            return TOO_LARGE
        self.work, self.outcomes, self.numbers = 0, {}, {}
        try:
            feeds = {i.name: self._feed(i.name, i.dtype, shape) for i, shape in self.obligation.concrete_inputs(sizes)}
            with np.errstate(all="ignore"):
                found = evaluate_by_policy(self.model, feeds, self.constants, unchanged, self.order, self._observe)
                for node, read in self.deciding:
                    if not has_subgraphs(node):
                        arrays = [found[name] for name in read]
                        self.numbers[tuple(node.output)] = numbers_of(node, arrays)
                        self._note(node, arrays, attributes_of(node))
        except TooMuchWork:
            return TOO_LARGE
        except (EvaluationError, NotApplicable, IndexError):
            return None
        finally:
            self.total_work += self.work
        return frozenset((k, tuple(v)) for k, v in self.outcomes.items())

    def _feed(self, name: str, dtype: int, shape: tuple[int, ...]) -> Array:
        """Numbers for an input, a few of which are repeated; zeros that use no memory if they are not read."""
        if prod(shape) > MAX_ARRAY:
            raise TooMuchWork
        wanted = np.dtype(np.float64) if dtype in FLOATS else helper.tensor_dtype_to_np_dtype(dtype)
        if name not in self.read or wanted.kind == "O":
            return np.broadcast_to(np.zeros((), wanted), shape)
        block = NUMBERS if wanted.kind == "f" else (NUMBERS > 0)
        return np.resize(block.astype(wanted), shape)

    def _observe(self, node: onnx.NodeProto, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
        """Count the work of an op, and record the outcomes of one in a body. Raises TooMuchWork."""
        elements = 0
        if node.op_type not in READS_SHAPE:
            elements = sum(a.size for a in inputs if isinstance(a, np.ndarray))
        self._count(OP_WORK + elements * (1 if node.op_type in CHEAP else COSTLY))
        if tuple(node.output) in self.inner:
            self._note(node, inputs, attributes)

    def _count(self, work: int) -> None:
        self.work += work
        if self.work > 2 * MAX_WORK_BESIDE:
            raise TooMuchWork

    def _note(self, node: onnx.NodeProto, inputs: Sequence[Any], attributes: Mapping[str, Any]) -> None:
        arrays: list[Array] = [x for x in inputs if isinstance(x, np.ndarray)]
        is_broadcast = node.op_type in TWO_SIDED and len(arrays) > 1
        self._count(np.broadcast(*arrays[:2]).size if is_broadcast else sum(a.size for a in arrays))
        outcome: Any = np.asarray(outcome_of(node.op_type, arrays, attributes), np.bool_)
        key = tuple(node.output)
        known = self.outcomes.get(key)
        self.outcomes[key] = known | outcome if known is not None and known.shape == outcome.shape else outcome


class TooMuchWork(EvaluationError):
    """Raised for sizes at which an evaluation takes too long."""


TOO_LARGE = "too large"


def numbers_of(node: onnx.NodeProto, arrays: Sequence[Array]) -> Numbers:
    """The numbers that determine a node's decision: extents that it crops, and its inputs, truncated if long."""
    given = [np.asarray(a) for a in arrays]
    found = [(a.shape, a.reshape(-1)[:MAX_LISTED].tobytes()) for a in given]
    if node.op_type == "Slice" and len(given) > 2:
        axes = given[3].reshape(-1).tolist() if len(given) > 3 else range(given[1].size)
        found[0] = tuple(given[0].shape[int(axis)] for axis in axes), b""
    elif node.op_type in BY_OWN_EXTENT:
        found[0] = given[0].shape, b""
    return tuple(found)


def changed_parts(numbers: Mapping[Hashable, Numbers], others: Mapping[Hashable, Numbers]) -> Iterator[Hashable]:
    """The parts of the numbers of nodes that differ, or have different extents."""
    for key, given in numbers.items():
        for at, ((shape, text), (other_shape, other_text)) in enumerate(zip(given, others[key], strict=True)):
            if shape != other_shape:
                yield key, at
            else:
                words = range(0, len(text), WORD)
                yield from ((key, at, k) for k in words if text[k : k + WORD] != other_text[k : k + WORD])


def attributes_of(node: onnx.NodeProto) -> Mapping[str, Any]:
    """The attributes that a node sets."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


NUMBERS = np.random.default_rng(5).standard_normal(509)
SOURCES = READS_SHAPE | {"CumSum", "NonZero", "ReduceSum", "ReduceL1", "ReduceSumSquare", "ReduceProd"}
"""Operators whose results grow with extents."""
PLAIN = (ops_with(Trait.SMOOTH) | ops_with(Trait.RING) | ops_with(Trait.MOVES_DATA) | ops_with(Trait.REDUCTION)
         | {"Asinh", "Atan", "Concat", "Constant", "Cos", "Cosh", "Dropout", "Range", "Sin", "Sinh", "Softplus",
            "Softsign", "Swish", "Tan"}) - {
    "Cast", "Div", "Exp", "Expand", "Gather", "GatherElements", "GatherND", "Log", "Reshape", "Slice", "Split", "Sqrt",
    "Tile", "Compress", "Unsqueeze", "Squeeze",
}  # fmt: skip
"""Operators that are one formula for all numbers."""
PARTIAL = frozenset({"Acos", "Acosh", "Asin", "Atanh", "Exp", "IsInf", "IsNaN", "Log", "Pow", "Sqrt"})
"""Operators whose results contain no number above some number of their input, or that request one."""
ROOTS = frozenset({"Pow", "Sqrt"})
"""Operators that compute the root of a square, which has a kink where that is 0."""
OF_BITS = frozenset({"BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor"})
WRAPPING = frozenset({TensorProto.INT8, TensorProto.UINT8, TensorProto.INT16, TensorProto.UINT16})
"""Types of integers that extents can exceed."""
CHEAP, COSTLY = (
    ops_with(Trait.LINEAR_TIME) | ops_with(Trait.ELEMENTWISE) | ops_with(Trait.BROADCASTING) | MOVING | READS_SHAPE,
    64,
)
"""Operators that take a step for each element, and the steps of others."""
BY_SMALL_NUMBERS = frozenset({"ConstantOfShape", "Expand", "Reshape", "Tile", "Unsqueeze"})
"""Operators that decide whether an extent is -1, 0 or 1."""
LESSENING = frozenset({"Neg", "Sub", "Div", "Mod", "Min"})
"""Operators that convert large numbers to small ones."""
BY_OWN_EXTENT = frozenset({"CenterCropPad", "DFT", "EyeLike", "Slice", "TopK", "Trilu"})
"""Operators that decide by the extents of their inputs, whatever constants say."""


def deciding_nodes(graph: onnx.GraphProto, obligation: Obligation) -> Iterator[tuple[onnx.NodeProto, Sequence[str]]]:
    """Yield the nodes that decide by extents, or by numbers that follow from them, and the inputs that determine this.

    A number that also depends on drawn floats does not count; a comparison of such a number with one that does not,
    does.
    """
    symbolic = {i.name for i in obligation.inputs if not all(isinstance(d, int) for d in i.dims)}
    drawn = {i.name for i in obligation.inputs if i.dtype in FLOATS}
    constants = {t.name for t in graph.initializer if t.data_type not in FLOATS}
    constants |= {o for n in graph.node if n.op_type == "Constant" for o in n.output}
    grown: set[str] = set()
    whole: set[str] = set()  # numbers that are extents, or computed from them without a Cast to floats
    for node in graph.node:
        read = set(names_in(node))
        is_symbolic, follows = not symbolic.isdisjoint(read), not grown.isdisjoint(read)
        is_drawn = node.op_type not in READS_SHAPE and not drawn.isdisjoint(read)
        to = next((a.i for a in node.attribute if a.name == "to"), 0)
        data = moved_inputs(node)
        kept = [n for i, n in enumerate(node.input) if n and i not in data]
        if node.domain not in ("", "ai.onnx"):
            pass
        elif has_subgraphs(node):
            yield from [(node, node.output)] if follows or is_symbolic else ()
        elif is_symbolic and node.op_type in BY_OWN_EXTENT:
            yield node, [*filter(None, node.input)]
        elif node.op_type == "Cast" and whole.issuperset(read) and to not in WRAPPING | {TensorProto.BOOL}:
            pass
        elif node.op_type in PARTIAL | OF_BITS and follows and not is_drawn:
            yield node, [*node.input, *(node.output if node.op_type not in ("IsInf", "IsNaN") else ())]
        elif not grown.isdisjoint(kept) and node.op_type not in PLAIN | READS_SHAPE:
            yield node, [n for n in kept if n in grown or not is_drawn or node.op_type in TWO_SIDED]
        is_whole = node.op_type in READS_SHAPE or (follows and to not in FLOATS and read <= whole | constants)
        whole.update(node.output if is_whole else ())
        symbolic.update(node.output if is_symbolic or follows else ())
        drawn.update(node.output if is_drawn else ())
        grown.update(node.output if not is_drawn and (follows or (is_symbolic and node.op_type in SOURCES)) else ())


def outcome_of(op_type: str, arrays: Sequence[Array], attributes: Mapping[str, Any]) -> list[bool]:
    """The outcomes that occur in one op, as bools in a fixed order."""
    if op_type in TWO_SIDED and len(arrays) > 1:
        return [b for other in arrays[1:] for b in signs(arrays[0], other)]
    if op_type == "Slice" and len(arrays) > 2:
        return sliced(*arrays)
    if op_type in ("Mod", "Div") and len(arrays) > 1 and arrays[0].dtype.kind in "iu":
        return divided(*arrays)
    if op_type in PARTIAL | OF_BITS:
        touched = signs(arrays[0], 0) if op_type in ROOTS else []
        return [*touched, *steps(arrays[-1] if op_type in OF_BITS else np.isfinite(arrays[-1]))]
    if op_type in ("Floor", "Ceil", "Round", "Cast", "CastLike"):
        return rounded_to(arrays[0], attributes.get("to", 0))
    if op_type in ("Trilu", "EyeLike", "TopK", "DFT", "CenterCropPad"):
        return beside_own_extent(op_type, arrays, attributes)
    if op_type in ("Loop", "Scan", "If"):
        return steps(arrays[0]) if arrays else []
    if op_type in KINKS:
        return signs(arrays[0], KINKS[op_type](attributes))
    return [b for a in arrays for b in steps(a)]


TWO_SIDED = frozenset({"Clip", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min"})


def signs(a: Any, b: Any) -> list[bool]:
    """Whether some element is less, equal, or greater."""
    if np.asarray(a).dtype.kind not in "biuf" or np.asarray(b).dtype.kind not in "biuf":
        return [bool(np.any(a == b)), bool(np.any(a != b))]
    return [bool(np.any(a < b)), bool(np.any(a == b)), bool(np.any(a > b))]


def steps(a: Array, last: int = 2) -> list[bool]:
    """Whether each number from -2 to `last` occurs; numbers outside count as the nearest of these."""
    if a.dtype.kind == "b":
        return [bool(a.any()), not a.all()]
    if a.dtype.kind not in "iuf" or not a.size:
        return [a.size > 0]
    low, high = a.min(), a.max()
    within = (bool(low <= n <= high and (a == n).any()) for n in range(-1, last))
    return [bool(low <= -2), *within, bool(high >= last)]


def rounded_to(a: Array, dtype: int = 0) -> list[bool]:
    """The steps of the whole part, and whether there is a fraction; for a narrow type, whether a number exceeds it."""
    if dtype in WRAPPING:
        return signs(a, a.astype(helper.tensor_dtype_to_np_dtype(dtype)))
    if a.dtype.kind != "f":
        return steps(a) if a.dtype.kind == "b" else signs(a, 0)
    finite = a[np.isfinite(a)]
    return [
        *steps(np.floor(finite), 3),
        bool((finite != np.floor(finite)).any()),
        bool((finite == np.floor(finite)).any()),
    ]


def divided(a: Array, b: Array) -> list[bool]:
    """The steps of the quotient, and whether there is a remainder."""
    divisor = np.where(b == 0, 1, b)
    rest = a % divisor
    return [*steps(a // divisor, 3), bool((rest == 0).any()), bool((rest != 0).any())]


def sliced(data: Array, starts: Array, ends: Array, axes: Array | None = None, step: Array | None = None) -> list[bool]:
    """The ends that are cropped, on both sides; whether elements are omitted, also by steps."""
    over = np.arange(starts.size) if axes is None else axes.reshape(-1)
    by = np.ones(starts.size, np.int64) if step is None else step.reshape(-1)
    found: list[bool] = []
    for axis, *window in zip(*(a.reshape(-1).tolist() for a in (over, starts, ends, by)), strict=True):
        extent = data.shape[int(axis)]
        for end in window[:2]:
            beside = end if end >= 0 else -end
            found += [end >= 0, *signs(beside, extent), end == 0]
        first, last, stride = slice(*window).indices(extent)
        taken, span = len(range(first, last, stride)), max(0, (last - first) * np.sign(stride))
        found += [taken > 0, taken == extent, *signs(taken, span), span % stride == 0]
    return [*found, *(steps(step) if step is not None else ())]


def beside_own_extent(op_type: str, arrays: Sequence[Array], attributes: Mapping[str, Any]) -> list[bool]:
    """The extents of the first array and a number or numbers with which they are compared."""
    shape, given = arrays[0].shape, arrays[1].reshape(-1).tolist() if len(arrays) > 1 else [attributes.get("k", 0)]
    extents = shape[-2:] if op_type in ("Trilu", "EyeLike") else shape
    found = [b for n in given for d in extents for side in (0, 1) for b in (*signs(n, d - side), *signs(-n, d - side))]
    if op_type in ("DFT", "CenterCropPad"):  # half the spectrum, and half of what is cropped
        found += [b for d in shape for b in (d % 2 == 0, d % 2 == 1)]
    return found


KINKS: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
    **dict.fromkeys(("Abs", "Celu", "Elu", "LeakyRelu", "PRelu", "Relu", "Selu", "Sign"), lambda _: 0.0),
    "ThresholdedRelu": lambda a: a.get("alpha", 1.0),
    "Shrink": lambda a: a.get("lambd", 0.5),
}
"""The number at which the formula of an operator changes."""


@dataclass(slots=True)
class LimitSearch:
    """The limits found so far, by the forms on both sides."""

    watched: Sequence[Watched]
    searched: int = 0
    visits: list[Sizes] = field(default_factory=list[Sizes])
    changes: set[tuple[Form, Form]] = field(default_factory=set[tuple[Form, Form]])
    known: set[Form] = field(default_factory=set[Form])
    """The forms for which no other sizes are added."""

    def form_at(self, sizes: Sizes) -> tuple[Form | None, ...]:
        """The forms of all fragments."""
        return tuple(w.form_at(sizes) for w in self.watched)

    def add_limits(self, direction: Callable[[int], Sizes], ladder: Sequence[int]) -> None:
        """Add the sizes on both sides of the limits in one direction. Raises NotApplicable for too many."""
        known: dict[int, tuple[Form | None, ...]] = {}

        def form(n: int) -> tuple[Form | None, ...]:
            if n not in known:
                known[n] = self.form_at(direction(n))
            return known[n]

        if TOO_LARGE in form(ladder[0]):
            return
        last = ladder[0]
        for n in ladder[1:]:
            work = max((w.work for w in self.watched), default=0)
            if (
                work * (n / max(last, 1)) ** 2 > (MAX_WORK if n in LADDER else MAX_WORK_BESIDE)
                and work > OP_WORK * MAX_LISTED
            ):
                continue
            if TOO_LARGE in form(n):
                return
            while form(last) != form(n):
                low, high = last, n
                while high - low > 1:
                    middle = (low + high) // 2
                    low, high = (middle, high) if form(middle) == form(last) else (low, middle)
                self._add(direction, low, high, form(low), form(high))
                last = high
            last = n
            self.searched = max(self.searched, n)

    def add_combinations(self, symbols: Sequence[str]) -> None:
        """Add the first combination of sizes near limits of each symbol at which the forms differ."""
        sides = [[*dict.fromkeys(v[s] for v in self.visits)][:MAX_SIDES] for s in symbols]
        known = {self.form_at(v) for v in self.visits} if len(symbols) > 1 else set[tuple[Form | None, ...]]()
        for chosen in product(*sides) if known else ():
            sizes = {**self.visits[0], **dict(zip(symbols, chosen, strict=True))}
            form = self.form_at(sizes)
            if form not in known and None not in form and TOO_LARGE not in form:
                known.add(form)
                self.visits.append(sizes)

    def add_crossings(self, symbols: Sequence[str], ladder: Sequence[int], others: Sequence[int]) -> None:
        """Add sizes of one symbol, with larger others, at which forms are new. Raises NotApplicable for too many."""
        self.known = {self.form_at(v) for v in self.visits}
        for varied, other in product(symbols[:MAX_DIRECTIONS] if len(symbols) > 1 else (), others):
            self.add_limits(lambda n, v=varied, o=other: {s: n if s == v else o for s in symbols}, ladder)

    def _add(self, direction: Callable[[int], Sizes], low: int, high: int, before: Form, after: Form) -> None:
        if (before, after) in self.changes or {before, after} <= self.known:
            return
        if len(self.changes) == MAX_FORMS:
            raise NotApplicable(f"it has more than {MAX_FORMS} forms, by extents")
        self.changes.add((before, after))
        is_run = isinstance(before, tuple) and None not in before, isinstance(after, tuple) and None not in after
        is_new = before not in self.known, after not in self.known
        for n, wanted in ((low, is_run[0] and is_new[0]), (high, is_run[1] and is_new[1])):
            if wanted and (sizes := direction(n)) not in self.visits:
                self.visits.append(sizes)


WINDOW_OPS = frozenset({"AveragePool", "Conv", "ConvInteger", "ConvTranspose", "LpPool", "MaxPool", "QLinearConv"})
FIRST_SPATIAL_AXIS = 2


def window_sizes(obligation: Obligation) -> tuple[Sizes, ...]:
    """Sizes of images and signals above the largest window, with each distance from its last position to the end.

    If they represent larger `known_extents`, only at the distance of these. Raises NotApplicable for too many
    distances.
    """
    reach, periods = 0, list[int]()
    for model in obligation.models:
        windows = [_window_of(n) for n in all_nodes(model.graph.node) if n.op_type in WINDOW_OPS and not n.domain]
        periods.append(prod(stride for stride, _ in windows))
        reach = max([reach, *(size for _, size in windows)])
    period = lcm(*periods)
    spatial = {s for i in obligation.inputs for d in i.dims[FIRST_SPATIAL_AXIS:] for s in symbols_in(d)}
    if not reach or not spatial:
        return ()
    known = obligation.known_extents
    if known:
        first = {s: reach + (known.get(s, reach) - reach) % period for s in spatial}
        starts = [{s: n + more for s, n in first.items()} for more in (0, period)]
    elif period > MAX_PERIOD:
        raise NotApplicable(f"windows end at {period} distances from the end")
    else:
        starts = [dict.fromkeys(spatial, reach + more) for more in range(max(period, 2))]
    return tuple({s: start.get(s, OTHER_SIZE) for s in obligation.symbols} for start in starts)


def _window_of(node: onnx.NodeProto) -> tuple[int, int]:
    """The common multiple of the strides of a window, and its largest extent."""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    kernel = attributes.get("kernel_shape", [MAX_KERNEL] * len(attributes.get("dilations", [1])))
    dilations = attributes.get("dilations", [1] * len(kernel))
    return lcm(*attributes.get("strides", [1])), max((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))


MAX_KERNEL = 3  # of convolutions that do not state it; it is the shape of their weights
