"""Integer expressions in canonical form, so that two that are equal are the same.

An expression is a sum of products of atoms with whole factors. Atoms are the model's symbols (their names), numbers
that nobody named (`Unknown`), and floor divisions, minima and maxima of expressions (`Call`). What is a whole number
or one symbol stays an `int` or a `str`.
"""

from __future__ import annotations

from collections.abc import Mapping


class Unknown:
    """A whole number that nobody named: an extent, at least 0, or an element, of which `least` is None.

    Each is equal to itself alone. A `tentative` one may turn out to be something better known.
    """

    __slots__ = ("least", "number", "tentative")

    def __init__(self, number: int, *, least: int | None = 0, tentative: bool = False) -> None:
        self.number, self.least, self.tentative = number, least, tentative

    def __repr__(self) -> str:
        return f"?{self.number}"


class Call:
    """A function of expressions that cannot be worked out: `kind` is //, min or max."""

    __slots__ = ("_hash", "args", "kind", "size")

    def __init__(self, kind: str, args: tuple[Known, ...]) -> None:
        self.kind, self.args = kind, args
        self.size = 1 + sum(map(size_of, args))
        self._hash = hash((kind, args))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and self.kind == other.kind and self.args == other.args

    def __repr__(self) -> str:
        if self.kind == "//":
            return f"({self.args[0]})//({self.args[1]})"
        return f"{self.kind}({', '.join(map(str, self.args))})"


class Expr:
    """A sum: pairs of a product of atoms and its factor, in a fixed order. Made by the functions here only."""

    __slots__ = ("_hash", "size", "terms")

    def __init__(self, terms: tuple[tuple[Product, int], ...]) -> None:
        self.terms = terms
        self.size = sum(1 + sum(a.size if isinstance(a, Call) else 1 for a in product) for product, _ in terms)
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


Atom = str | Unknown | Call
Product = tuple[Atom, ...]
Known = int | str | Expr
"""A dim or an element of which something is known."""
Terms = dict[Product, int]


def rank_of(atom: Atom) -> tuple[int, int, str]:
    """A fixed order of atoms: symbols by name, what has no name by age, calls by what they look like."""
    if isinstance(atom, str):
        return 0, 0, atom
    return (1, atom.number, "") if isinstance(atom, Unknown) else (2, 0, repr(atom))


def _order(product: Product) -> tuple[int, list[tuple[int, int, str]]]:
    return -len(product), [rank_of(a) for a in product]


def size_of(x: Known) -> int:
    """Atoms and factors in `x`, those inside calls too."""
    return x.size if isinstance(x, Expr) else 1


def terms_of(x: Known) -> Terms:
    """`x` as a sum: the factor of each product of atoms."""
    if isinstance(x, int):
        return {(): x} if x else {}
    return {(x,): 1} if isinstance(x, str) else dict(x.terms)


def made_of(terms: Mapping[Product, int]) -> Known:
    """The sum of `terms`, in canonical form."""
    left = [(p, f) for p, f in terms.items() if f]
    if not left:
        return 0
    if len(left) == 1:
        product, factor = left[0]
        if not product:
            return factor
        if factor == 1 and len(product) == 1 and isinstance(product[0], str):
            return product[0]
    return Expr(tuple(sorted(left, key=lambda t: _order(t[0]))))
