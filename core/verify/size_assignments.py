"""Size assignments to try for the symbolic dims of a model's inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations_with_replacement, islice, permutations
from math import prod

from .dim_expressions import Sizes, extent
from .input_specs import InputSpec, free_symbols

UNIFORM_SIZES = (2, 4, 8, 16, 32, 64, 128, 224, 256, 512)  # tried in turn until the model accepts one for all symbols
DIVISIBLE_SIZES = (6, 12, 60)  # also tried, because a model may split a dim into three or five
MAX_ADDRESSED = 1 << 58  # elements, of up to 16 bytes, of an array without its empty axes
MAX_ELEMENTS = 1 << 23  # in an input set, as long as sizes are free
CHEAP_ELEMENTS = 1 << 16  # above that, all kinds are drawn at the smallest accepted sizes
MAX_REQUIRED_ELEMENTS = 1 << 26  # if the model or the user determines the sizes; larger models need given inputs
MANY_ROWS = 64  # of the first symbol
UNUSUAL_SIZE = 17  # of all symbols: more than most constants
EQUAL_SIZE = 3  # of all symbols
# Sizes of one symbol at a time: even sizes, multiples, powers of two and their neighbors, and long ones. Sizes that
# find most mistakes come first, because there may not be time for all.
LADDER = (4, 8, 64, 6, 33, 16, 128, 5, 256, 24, 48, 512, 12, 1024, 32, 96, 31, 2, 192, 384, 4101, 16_385, 131_073)
BATCH_LADDER = (4, 8, 64, 33, 5, 256, 48, 1024)  # of the first of several symbols, usually the batch
EQUAL_LADDER = (4, 8, 16, 48, 64)  # of all symbols
MAX_DISTANCE = 2  # of extents from a constant
MAX_VARIATIONS = 16  # assignments of unusual sizes, of one kind
MAX_SUM_SYMBOLS = 12  # symbols among which sums are tried: the number of assignments grows with the cube


def size_assignments(inputs: list[InputSpec], fixed: Sizes) -> Iterator[Sizes]:
    """Sizes for the symbolic dims: distinct ones first, because equal ones hide swapped axes; then uniform ones.

    Assignments with the sizes that the weights determine come first, those that make an input empty last.
    """
    if all(s in fixed for s in free_symbols(inputs)):
        yield from _within_memory(inputs, iter([dict(fixed)]))
        return
    weights = required_sizes(inputs, fixed)
    yield from _within_memory(inputs, _assignments(inputs, fixed | weights))
    if weights:
        yield from _within_memory(inputs, _assignments(inputs, fixed))


def _within_memory(inputs: list[InputSpec], assignments: Iterator[Sizes]) -> Iterator[Sizes]:
    """Yield the assignments that fit into memory, with an empty input last; the smallest one if all are large."""
    empty: list[Sizes] = []
    too_large: list[Sizes] = []
    found = False
    for sizes in assignments:
        if element_count(inputs, sizes) > MAX_ELEMENTS:
            too_large.append(sizes)
        elif any(extent(d, sizes) == 0 for i in inputs for d in i.shape if isinstance(d, str)):
            empty.append(sizes)
        else:
            found = True
            yield sizes
    least = min(too_large, key=lambda sizes: element_count(inputs, sizes), default=None)
    if least is not None and not found and element_count(inputs, least) <= MAX_REQUIRED_ELEMENTS:
        yield least
    yield from empty


def _assignments(inputs: list[InputSpec], fixed: Sizes) -> Iterator[Sizes]:
    free = [s for s in free_symbols(inputs) if s not in fixed]
    distinct = {s: i + 2 for i, s in enumerate(free)} | _numbers_of_axes(inputs, free) | fixed
    yield distinct
    if not free:
        return
    by_axis = [_sizes_by_axis(inputs, free, from_end=from_end) for from_end in (False, True)]
    yield from (sizes | fixed for sizes in by_axis if len(set(sizes.values())) > 1)
    yield from (dict.fromkeys(free, size) | fixed for size in UNIFORM_SIZES[:4])
    yield from (distinct | {a: 2, b: 3, total: 5} for total, a, b in sum_relations(free))
    yield from (dict.fromkeys(free, size) | fixed for size in (*DIVISIBLE_SIZES, *UNIFORM_SIZES[4:]))
    yield dict.fromkeys(free, 1) | fixed


def _numbers_of_axes(inputs: list[InputSpec], free: list[str]) -> Sizes:
    """Values for symbols that only state how many axes an input lists: one less, because all axes hide mistakes."""
    used = Counter(d for i in inputs for d in i.shape)
    listed = {str(i.shape[0]): i.role.bound for i in inputs if i.role.kind == "axes" and len(i.shape) == 1}
    return {s: max(1, rank - 1) for s, rank in listed.items() if isinstance(rank, int) and used[s] == 1 and s in free}


def _sizes_by_axis(inputs: list[InputSpec], free: list[str], *, from_end: bool) -> Sizes:
    """Equal sizes on equal axes: exporters may name each dim anew even if all inputs share a batch and a length."""
    found: Sizes = {}
    known = set(free)
    for i in inputs:
        for axis, d in enumerate(i.shape):
            if d in known:
                found.setdefault(str(d), 2 + (len(i.shape) - 1 - axis if from_end else axis))
    return dict.fromkeys(free, 2) | found


def with_one_distinct(sizes: Sizes, symbol: str, others: Collection[int]) -> Iterator[Sizes]:
    """Yield `sizes` with other sizes for a symbol that are not among `others`: somewhat larger ones, then multiples."""
    size = sizes[symbol]
    larger = (n for n in range(size + 1, size + len(others) + 2) if n not in others)
    multiples = (n for n in range(2 * size, (len(others) + 3) * size, size) if n not in others)
    for candidates in (larger, multiples):
        if (found := next(candidates, None)) is not None:
            yield sizes | {symbol: found}


def sum_relations(free: list[str]) -> Iterator[tuple[str, str, str]]:
    """Each symbol as the sum of two others, such as the length of a mask, which is past plus present."""
    for total, a, b in permutations(free[:MAX_SUM_SYMBOLS], 3):
        if free.index(a) < free.index(b):
            yield total, a, b


def required_sizes(inputs: list[InputSpec], fixed: Sizes) -> Sizes:
    """The sizes of symbols that the weights determine, without the `fixed` ones."""
    free = {s for s in free_symbols(inputs) if s not in fixed}
    found: Sizes = {}
    for i in inputs:
        for axis, size in i.required_extents.items():
            symbol = i.shape[axis]
            if isinstance(symbol, str) and symbol in free:
                found.setdefault(symbol, size)
    return found


def element_count(inputs: list[InputSpec], sizes: Sizes) -> int:
    """The number of elements of all inputs at those sizes.

    If NumPy cannot address the non-zero extents of an empty input, it counts as if it had only those.
    """
    return sum(_element_count(i.shape_at(sizes)) for i in inputs)


def _element_count(extents: Sequence[int]) -> int:
    others = prod(e for e in extents if e)
    return others if others > MAX_ADDRESSED else prod(extents)


def with_ones(inputs: list[InputSpec], base: Sizes, fixed: Sizes) -> Iterator[Sizes]:
    """Assignments with symbols of 1: all together, then each alone."""
    free = [s for s in free_symbols(inputs) if s not in fixed]
    if free:
        yield base | dict.fromkeys(free, 1)
    if len(free) > 1:
        yield from _with_one_changed(base, free, 1)


def with_more(inputs: list[InputSpec], base: Sizes, fixed: Sizes) -> Iterator[Sizes]:
    """Assignments with a larger size for one symbol that is 1, each alone."""
    free = [s for s in free_symbols(inputs) if s not in fixed and base[s] == 1]
    yield from (base | {s: n} for s in free for n in (2, 3))


def with_zeros(inputs: list[InputSpec], base: Sizes, fixed: Collection[str]) -> Iterator[Sizes]:
    """Assignments with symbols of 0, each alone, then all: no past, an empty batch."""
    free = [s for s in free_symbols(inputs) if s not in fixed]
    yield from islice(_with_one_changed(base, free, 0), MAX_VARIATIONS)
    if len(free) > 1:
        yield base | dict.fromkeys(free, 0)


def unusual_sizes(kind: str, base: Sizes, fixed: Collection[str]) -> Iterator[Sizes]:
    """Yield preferred sizes for a kind of input set, best first, to find mistakes that the usual sizes do not show.

    Mixed numbers: 17 everywhere, because a rewrite may be correct only for the first 16. Wide ones: 64 for the first
    symbol, usually the batch, with 17 for the others if possible. Negative ones: equal sizes, or each one larger: some
    mistakes need three rows to show.
    """
    free = [s for s in base if s not in fixed]
    if not free:
        return
    if kind == "mixed":
        large = base | dict.fromkeys(free, UNUSUAL_SIZE)
        yield large
        yield from islice(_with_sums(base, large, free), MAX_VARIATIONS)
        yield base | {s: max(base[s], UNUSUAL_SIZE) for s in free}
    elif kind == "wide":
        yield base | dict.fromkeys(free, UNUSUAL_SIZE) | {free[0]: MANY_ROWS}
        yield base | {free[0]: MANY_ROWS}
    elif kind == "negative":
        equal = base | dict.fromkeys(free, EQUAL_SIZE)
        yield equal
        yield from islice(_with_sums(base, equal, free), MAX_VARIATIONS)
        yield base | dict.fromkeys(free, max(base[s] for s in free) + 1)
        yield base | {s: base[s] + 1 for s in free}


def sizes_near(constants: Sequence[int], base: Sizes, fixed: Collection[str]) -> Iterator[Sizes]:
    """Yield `base` with one symbol, then all, near each constant, starting with small constants.

    A relative position reaches a constant at an extent of one more, and exceeds it at two more.
    """
    free = [s for s in base if s not in fixed][:MAX_SUM_SYMBOLS]
    near = ((c + offset, offset) for offset in (2, 0, 1, -1) for c in constants if c + offset > 0)
    return _in_turn(base, free, ((size, free, offset == 2) for size, offset in near))


def ladder_of_sizes(base: Sizes, fixed: Collection[str]) -> Iterator[Sizes]:
    """Yield `base` with each size of the ladder for one symbol, then for all."""
    free = [s for s in base if s not in fixed][:MAX_SUM_SYMBOLS]
    all_but_batch = free[1:] or free
    steps = ((size, free if size in BATCH_LADDER else all_but_batch, size in EQUAL_LADDER) for size in LADDER)
    return _in_turn(base, free, steps)


def _in_turn(base: Sizes, free: list[str], steps: Iterable[tuple[int, list[str], bool]]) -> Iterator[Sizes]:
    """Yield `base` with each size for some symbols alone and, if wanted, for all of several; none twice."""
    tried = [base]
    for size, symbols, is_for_all in steps:
        alone = (sizes for s in symbols for sizes in _with_one_changed(base, [s], size, free))
        together = [base | dict.fromkeys(free, size)] if len(free) > 1 and is_for_all else []
        for sizes in (*alone, *together):
            if sizes not in tried:
                tried.append(sizes)
                yield sizes


def combined_sizes(constants: Sequence[int], limit: int) -> list[int]:
    """The sums and products of two constants, up to `limit`, that are not near a constant: frames of a window."""
    pairs = [*combinations_with_replacement(constants, 2)]
    found = sorted({n for a, b in pairs for n in (a + b, a * b) if n <= limit})
    return [n for n in found if all(abs(n - c) > MAX_DISTANCE for c in constants)]


def _with_one_changed(base: Sizes, changed: list[str], size: int, free: list[str] | None = None) -> Iterator[Sizes]:
    """Yield `base` with that size for each of the `changed` symbols alone, then also with sums that change with it."""
    for s in changed:
        sizes = base | {s: size}
        yield sizes
        yield from _with_sums(base, sizes, changed if free is None else free)


def _with_sums(base: Sizes, sizes: Sizes, free: list[str]) -> Iterator[Sizes]:
    """Yield `sizes` with the sum of two others for each symbol in turn that is such a sum in `base`."""
    for total, a, b in sum_relations(free):
        if base[total] == base[a] + base[b] and sizes[total] != sizes[a] + sizes[b]:
            yield sizes | {total: sizes[a] + sizes[b]}
