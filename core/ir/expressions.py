"""Dims of shapes: symbolic integer expressions in canonical form, and merging of two facts about a dim.

An expression is a sum of products of atoms with integer factors; equal sums compare equal. Atoms are the model's
symbols (their names), unnamed integers (`Unknown`), and floor divisions, minima and maxima of expressions
(`FunctionTerm`). An expression that is a single number or symbol is an `int` or a `str`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from math import gcd
from operator import itemgetter


@dataclass(slots=True, eq=False)
class Unknown:
    """An unnamed integer: an extent, which is at least 0, or an element, whose `lower_bound` is None.

    Each is equal only to itself. Inference may later replace a `tentative` one.
    """

    number: int
    lower_bound: int | None = 0
    tentative: bool = False

    def __repr__(self) -> str:
        return f"?{self.number}"


class DeclaredSymbol(str):
    """A symbol, equal to a plain `str`, that only declared types of computed values name. Inference may replace it."""

    __slots__ = ()


class FunctionTerm:
    """An unevaluated function of expressions; `function` is //, min or max."""

    __slots__ = ("_hash", "args", "function", "is_tentative", "largest", "size")

    def __init__(self, function: str, args: tuple[SymInt, ...]) -> None:
        self.function, self.args = function, args
        self.is_tentative = any(map(is_tentative, args))
        self.size = 1 + sum(map(expr_size, args))
        self.largest = max(map(_largest_number, args))
        self._hash = hash((function, args))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FunctionTerm) and self.function == other.function and self.args == other.args

    def __repr__(self) -> str:
        if self.function == "//":
            return f"({self.args[0]})//({self.args[1]})"
        return f"{self.function}({', '.join(map(str, self.args))})"


class Expr:
    """A sum: pairs of a product of atoms and its factor, in a fixed order. Only functions of this module create it."""

    __slots__ = ("_hash", "is_tentative", "largest", "size", "terms")

    def __init__(self, terms: tuple[tuple[Product, int], ...]) -> None:
        size, largest, tentative = len(terms), 0, False
        for product, factor in terms:  # a single loop, because inference creates many
            largest = max(largest, abs(factor))
            for a in product:
                if isinstance(a, FunctionTerm):
                    size, largest = size + a.size, max(largest, a.largest)
                    tentative = tentative or a.is_tentative
                else:
                    size += 1
                    tentative = tentative or (a.tentative if isinstance(a, Unknown) else isinstance(a, DeclaredSymbol))
        self.terms, self.size, self.largest, self.is_tentative = terms, size, largest, tentative
        self._hash = hash(terms)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Expr) and self._hash == other._hash and self.terms == other.terms)

    def __repr__(self) -> str:
        out = ""
        for product, factor in self.terms:
            body = "*".join(map(str, product))
            size = body if abs(factor) == 1 and body else "*".join(filter(None, (str(abs(factor)), body)))
            sign = "-" if factor < 0 else "+"
            out += f" {sign} {size}" if out else ("-" * (factor < 0) + size)
        return out


Atom = str | Unknown | FunctionTerm
Product = tuple[Atom, ...]
SymInt = int | str | Expr
"""A dim or element about which something is known."""
Dim = SymInt | None
"""An extent: a number, a symbol, an expression of them, or unknown."""
Shape = tuple[Dim, ...]
Elements = tuple[SymInt, ...]
"""The elements of a few integers."""
Terms = dict[Product, int]


def atom_sort_key(atom: Atom) -> tuple[int, int, str]:
    """A fixed order of atoms: symbols by name, unknowns by age, functions by their text."""
    if isinstance(atom, str):
        return 0, 0, atom
    return (1, atom.number, "") if isinstance(atom, Unknown) else (2, 0, repr(atom))


def expr_size(x: SymInt) -> int:
    """The number of atoms and factors in `x`, including those in functions."""
    return x.size if isinstance(x, Expr) else 1


def _largest_number(x: SymInt) -> int:
    """The largest magnitude of a number in `x`."""
    if isinstance(x, int):
        return abs(x)
    return x.largest if isinstance(x, Expr) else 1


MAX_EXPR_SIZE = 200
"""The size of the largest tracked expression, in atoms and factors."""
MAX_EXPR_NUMBER = (1 << 31) - 1
"""The largest number in it. With symbols below 2**31, sums fit into int64, in which onnxruntime computes."""


def is_simple(x: SymInt) -> bool:
    """Whether `x` is a number, or an expression small enough to be tracked."""
    return not isinstance(x, Expr) or (x.size <= MAX_EXPR_SIZE and x.largest <= MAX_EXPR_NUMBER)


def terms_of(x: SymInt) -> Terms:
    """`x` as a sum: the factor of each product of atoms."""
    if isinstance(x, int):
        return {(): x} if x else {}
    return {(x,): 1} if isinstance(x, str) else dict(x.terms)


def from_terms(terms: Mapping[Product, int]) -> SymInt:
    """The sum of `terms`, in canonical form."""
    left = [(p, f) for p, f in terms.items() if f]
    match left:
        case []:
            return 0
        case [((), factor)]:
            return factor
        case [((str(symbol),), 1)]:
            return symbol
        case [_]:
            return Expr(tuple(left))
        case _:
            return Expr(tuple(sorted(left, key=lambda t: (-len(t[0]), [*map(atom_sort_key, t[0])]))))


def from_atom(a: Atom) -> SymInt:
    """An atom as an expression."""
    return a if isinstance(a, str) else Expr((((a,), 1),))


def add(a: SymInt, b: SymInt) -> SymInt:
    """The sum a + b."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    terms = terms_of(a)
    for product, factor in terms_of(b).items():
        terms[product] = terms.get(product, 0) + factor
    return from_terms(terms)


def multiply(a: SymInt, b: SymInt) -> SymInt:
    """The product a * b."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if a == 1 or b == 1:
        return b if a == 1 else a
    out: Terms = {}
    for p, f in terms_of(a).items():
        for q, h in terms_of(b).items():
            product = tuple(sorted((*p, *q), key=atom_sort_key)) if p and q else p or q
            out[product] = out.get(product, 0) + f * h
    return from_terms(out)


def subtract(a: SymInt, b: SymInt) -> SymInt:
    """The difference a - b."""
    return a - b if isinstance(a, int) and isinstance(b, int) else add(a, multiply(b, -1))


def prod(factors: Iterable[SymInt]) -> SymInt:
    """The product of several factors; 1 if there are none. The number of elements of a tensor with such dims."""
    return reduce(multiply, factors, 1)


def floor_divide(a: SymInt, b: SymInt) -> SymInt | None:
    """The quotient a // b by a positive b; None if b may be 0 and does not cancel."""
    if isinstance(b, int):
        if b <= 0:
            return None
        if isinstance(a, int):
            return a // b
        whole = {p: f // b for p, f in terms_of(a).items() if f % b == 0}
        rest = from_terms({p: f for p, f in terms_of(a).items() if f % b})
        return add(from_terms(whole), _floor_divide_by_int(rest, b))
    exact = divide(a, b)
    if exact is not None:
        return exact
    return from_atom(FunctionTerm("//", (a, b))) if (low := lower_bound(b)) is not None and low > 0 else None


def _floor_divide_by_int(rest: SymInt, b: int) -> SymInt:
    if isinstance(rest, int):
        return rest // b
    if b == 1:
        return rest
    common = gcd(b, *terms_of(rest).values())
    if common > 1:
        return _floor_divide_by_int(from_terms({p: f // common for p, f in terms_of(rest).items()}), b // common)
    constant = terms_of(rest).get((), 0)
    if not 0 <= constant < b:
        return add(constant // b, _floor_divide_by_int(subtract(rest, constant // b * b), b))
    return from_atom(FunctionTerm("//", (rest, b)))


def divide(a: SymInt, b: SymInt) -> SymInt | None:
    """The exact quotient a / b by a single product b; None if there is none. Valid if b is not 0."""
    by = terms_of(b)
    if len(by) != 1:
        return 1 if a == b and by else None
    ((divisor, factor),) = by.items()
    out: Terms = {}
    for product, f in terms_of(a).items():
        left = list(product)
        for x in divisor:
            if x not in left:
                return None
            left.remove(x)
        if f % factor:
            return None
        out[tuple(left)] = f // factor
    return from_terms(out)


MAX_CASES = 32
"""The maximum number of cases of minima and maxima into which an expression is divided for a bound."""


def _divide_into_cases(x: SymInt, limit: int) -> tuple[bool, list[SymInt]]:
    """Expressions whose minimum (True) or maximum is `x`, from one of its minima or maxima; [] without one.

    A minimum is taken first: if `x` has both, a bound may choose a different case of the maximum for each of them.
    """
    terms = terms_of(x)
    splits = [
        ((call.function == "min") == (factor > 0), (call,), call.args)
        for (call, *others), factor in ((p, f) for p, f in terms.items() if p)
        if not others and isinstance(call, FunctionTerm) and call.function != "//" and len(call.args) <= limit
    ]
    if not splits:
        return True, []
    is_least, product, args = max(splits, key=itemgetter(0))
    factor = terms.pop(product)
    rest = from_terms(terms)
    return is_least, [add(rest, multiply(a, factor)) for a in args]


def least_of(x: SymInt, limit: int = MAX_CASES) -> list[SymInt]:
    """At most `limit` expressions whose minimum is `x`: for `n + min(m, 3)`, `n + m` and `n + 3`."""
    is_least, cases = _divide_into_cases(x, limit)
    return [y for case in cases for y in least_of(case, limit // len(cases))] if is_least and cases else [x]


def lower_bound(x: SymInt, limit: int = MAX_CASES) -> int | None:
    """A lower bound of `x`, given that extents are not negative; None if none is known."""
    if isinstance(x, int | str):
        return x if isinstance(x, int) else 0
    is_least, cases = _divide_into_cases(x, limit)
    if not cases:
        return _lower_bound_of_sum(x, limit)
    bounds = [lower_bound(case, limit // len(cases)) for case in cases]
    known = [low for low in bounds if low is not None]
    if not is_least:
        return max(known, default=None)
    return min(known) if len(known) == len(bounds) else None


def _lower_bound_of_sum(x: Expr, limit: int) -> int | None:
    out = 0
    for product, factor in x.terms:
        low = 1
        for a in product:
            known = _lower_bound_of_atom(a, limit)
            if known is None or (known < 0 and len(product) > 1):
                return None
            low *= known
        if factor < 0 and product:
            return None
        out += factor * low
    return out


def _lower_bound_of_atom(a: Atom, limit: int) -> int | None:
    if isinstance(a, str):
        return 0
    if isinstance(a, Unknown):
        return a.lower_bound
    bounds = [lower_bound(x, limit) for x in a.args]
    known = [low for low in bounds if low is not None]
    if a.function == "max":
        return max(known, default=None)
    if a.function == "min":
        return min(known) if len(known) == len(bounds) else None
    low, divisor = bounds[0], a.args[1]
    if low is None or not (isinstance(divisor, int) or low >= 0):
        return None
    return low // divisor if isinstance(divisor, int) else 0


def is_known_le(a: SymInt, b: SymInt) -> bool:
    """Whether a <= b for all values of the symbols."""
    low = lower_bound(subtract(b, a))
    return low is not None and low >= 0


def is_known_nonnegative(x: SymInt) -> bool:
    """Whether x >= 0 for all values of the symbols; true for extents, but not for the -1 of a Reshape."""
    return is_known_le(0, x)


def minimum(a: SymInt, b: SymInt) -> SymInt:
    """The minimum of both."""
    return _min_or_max("min", a, b)


def maximum(a: SymInt, b: SymInt) -> SymInt:
    """The maximum of both."""
    return _min_or_max("max", a, b)


def _min_or_max(kind: str, a: SymInt, b: SymInt) -> SymInt:
    """The minimum or maximum of the arguments of `a` and `b`, without those bounded by another argument."""
    args: dict[SymInt, None] = {}
    for x in (a, b):
        match x.terms if isinstance(x, Expr) else ():
            case (((FunctionTerm(function=function, args=inner),), 1),) if function == kind:
                args.update(dict.fromkeys(inner))
            case _:
                args[x] = None
    left = list(args)
    for x in args:
        others = [y for y in left if y is not x]
        if any(is_known_le(y, x) if kind == "min" else is_known_le(x, y) for y in others):
            left = others
    return from_atom(FunctionTerm(kind, tuple(sorted(left, key=str)))) if len(left) > 1 else left[0]


def atoms(x: SymInt) -> set[Atom]:
    """The symbols and unknowns in `x`, including those in functions."""
    found: set[Atom] = set()
    for product in terms_of(x):
        for a in product:
            found.update(*map(atoms, a.args)) if isinstance(a, FunctionTerm) else found.add(a)
    return found


def is_tentative(x: SymInt) -> bool:
    """Whether inference may still replace a part of `x`."""
    return x.is_tentative if isinstance(x, Expr) else isinstance(x, DeclaredSymbol)


def is_symbolic_only(x: SymInt) -> bool:
    """Whether all atoms of `x` are symbols."""
    return not isinstance(x, Expr) or all(isinstance(a, str) for a in atoms(x))


def substitute(x: SymInt, values: Callable[[Atom], SymInt | None]) -> SymInt:
    """Replace each atom of `x` for which `values` returns an expression."""
    if isinstance(x, int):
        return x
    out: SymInt = 0
    for product, factor in terms_of(x).items():
        term: SymInt = factor
        for a in product:
            term = multiply(term, _substitute_atom(a, values))
        out = add(out, term)
    return out


def _substitute_atom(a: Atom, values: Callable[[Atom], SymInt | None]) -> SymInt:
    new = values(a)
    if new is not None:
        return new
    if not isinstance(a, FunctionTerm):
        return from_atom(a)
    args = [substitute(x, values) for x in a.args]
    if a.function == "//":
        quotient = floor_divide(args[0], args[1])
        return from_atom(FunctionTerm("//", tuple(args))) if quotient is None else quotient
    return reduce(minimum if a.function == "min" else maximum, args)


MAX_EXTENT = (1 << 63) - 1


def possible_dim(dim: Dim) -> Dim:
    """A computed dim; None if no tensor has such an extent, or if the expression is too large to track."""
    if isinstance(dim, int):
        return dim if 0 <= dim <= MAX_EXTENT else None
    return dim if dim is not None and is_simple(dim) else None


def as_integers(dims: Iterable[Dim]) -> tuple[int, ...] | None:
    """Dims, or elements, as integers; None if one is symbolic or unknown."""
    given = tuple(dims)
    found = tuple(d for d in given if isinstance(d, int))
    return found if len(found) == len(given) else None


def is_unresolved(dim: Dim) -> bool:
    """Whether inference may still refine a dim."""
    return dim is None or is_tentative(dim)


def contradict(a: Shape | None, b: Shape | None) -> bool:
    """Whether two shapes of the same rank have different numbers in a dim."""
    if a is None or b is None or len(a) != len(b):
        return False
    return any(m != n for m, n in zip(a, b, strict=True) if isinstance(m, int) and isinstance(n, int))


def merge_dim(a: Dim, b: Dim) -> Dim:
    """The more precise of two facts about a dim: number, symbol, declared symbol, tentative unknown; otherwise `a`."""
    return b if _precision(b) > _precision(a) else a


def _precision(dim: Dim) -> int:
    if dim is None or isinstance(dim, int):
        return 0 if dim is None else 4
    if not is_tentative(dim):
        return 3
    return 2 if is_symbolic_only(dim) else 1


def merge_inferred_dim(a: Dim, b: Dim) -> Dim:
    """Merge the declared dim `a` with the inferred `b` like `merge_dim`, but prefer symbols and numbers of `b`."""
    return merge_dim(a, b) if isinstance(a, int) and not isinstance(b, int) else merge_dim(b, a)
