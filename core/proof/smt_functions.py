"""Uninterpreted functions of z3 terms, and true statements about their applications over the reals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import combinations
from typing import Any

from .smt_terms import Term, z3

MAX_COMPARED = 10  # applications of one function; each pair of them gets statements
Statements = Callable[[Term, Term], Sequence[Term]]
"""Statements on an argument x and the value y."""
PairStatements = Callable[[Term, Term, Term, Term], Sequence[Term]]
"""Statements on two arguments x1, x2 and their values y1, y2."""


def _increasing(a: Term, b: Term, y: Term, z: Term) -> Sequence[Term]:
    return [(a < b) == (y < z), (a == b) == (y == z)]


def _increasing_odd(a: Term, b: Term, y: Term, z: Term) -> Sequence[Term]:
    return [*_increasing(a, b, y, z), *_odd(a, b, y, z)]


def _odd(a: Term, b: Term, y: Term, z: Term) -> Sequence[Term]:
    return [z3.Implies(a == -b, y == -z)]


def _even(a: Term, b: Term, y: Term, z: Term) -> Sequence[Term]:
    return [z3.Implies(a == -b, y == z)]


def _same_sign(x: Term, y: Term) -> Sequence[Term]:
    return [(x > 0) == (y > 0), (x < 0) == (y < 0)]


def _exp_pair(a: Term, b: Term, y: Term, z: Term) -> Sequence[Term]:
    return [*_increasing(a, b, y, z), z3.Implies(a == -b, y * z == 1)]


def _log_pair(a: Term, b: Term, y: Term, z: Term) -> Sequence[Term]:
    return [z3.Implies(z3.And(a > 0, b > 0), z3.And(*_increasing(a, b, y, z)))]


def _sigmoid_pair(a: Term, b: Term, y: Term, z: Term) -> Sequence[Term]:
    return [*_increasing(a, b, y, z), z3.Implies(a == -b, y + z == 1)]


def _bounded(x: Term, y: Term) -> Sequence[Term]:
    return [y > -1, y < 1, *_same_sign(x, y)]


STATEMENTS: Mapping[str, Statements] = {
    "arctan": _same_sign,
    "cos": lambda x, y: [y >= -1, y <= 1, z3.Implies(x == 0, y == 1)],
    "cosh": lambda x, y: [y >= 1, (x == 0) == (y == 1)],
    "erf": _bounded,
    "exp": lambda x, y: [y > 0, y >= 1 + x, (x == 0) == (y == 1), (x > 0) == (y > 1)],
    "log": lambda x, y: [z3.Implies(x > 0, z3.And(y <= x - 1, (x == 1) == (y == 0), (x > 1) == (y > 0)))],
    "sigmoid": lambda x, y: [y > 0, y < 1, (x > 0) == (2 * y > 1), (x == 0) == (2 * y == 1)],
    "sin": lambda x, y: [y >= -1, y <= 1, z3.Implies(x == 0, y == 0)],
    "sinh": _same_sign,
    "softplus": lambda x, y: [y > 0, y > x],
    "sqrt": lambda x, y: [z3.Implies(x >= 0, z3.And(y >= 0, y * y == x))],
    "tanh": _bounded,
}
PAIR_STATEMENTS: Mapping[str, PairStatements] = {
    "arctan": _increasing_odd,
    "cos": _even,
    "cosh": _even,
    "erf": _increasing_odd,
    "exp": _exp_pair,
    "log": _log_pair,
    "sigmoid": _sigmoid_pair,
    "sin": _odd,
    "sinh": _increasing_odd,
    "softplus": _increasing,
    "tan": _odd,
    "tanh": _increasing_odd,
}


@dataclass(slots=True)
class Functions:
    """Uninterpreted functions by name and sorts, with all applications of functions of one real number."""

    _declared: dict[tuple[str, ...], Any] = field(default_factory=dict[tuple[str, ...], Any])
    _applied: dict[str, dict[int, tuple[Term, Term]]] = field(default_factory=dict[str, dict[int, tuple[Term, Term]]])

    def apply(self, name: str, arguments: Sequence[Term], sort: Any) -> Term:
        """The value of the function `name` for terms; equal arguments have equal values."""
        if not arguments:
            return z3.Const(_short(name), sort)
        sorts = [a.sort() for a in arguments]
        key = (name, *map(str, (*sorts, sort)))
        if key not in self._declared:
            self._declared[key] = z3.Function(_short(" ".join(key)), *sorts, sort)
        value = self._declared[key](*arguments)
        if name in STATEMENTS or name in PAIR_STATEMENTS:
            self._applied.setdefault(name, {})[value.get_id()] = (arguments[0], value)
        return value

    def statements(self, claim: Term) -> Iterator[Term]:
        """Yield the facts about applications to real numbers in a claim."""
        inside = subterms(claim)
        for name, applied in self._applied.items():
            found = [pair for key, pair in applied.items() if key in inside]
            if name in STATEMENTS:
                for x, y in found:
                    yield from STATEMENTS[name](x, y)
            if name in PAIR_STATEMENTS and len(found) <= MAX_COMPARED:
                for (a, y), (b, z) in combinations(found, 2):
                    yield from PAIR_STATEMENTS[name](a, b, y, z)


def subterms(term: Term) -> dict[int, Term]:
    """A term and all of its subterms, by id."""
    found: dict[int, Term] = {}
    queue = [term]
    while queue:
        next_term = queue.pop()
        if next_term.get_id() not in found:
            found[next_term.get_id()] = next_term
            queue += next_term.children()
    return found


def has_unknown_functions(term: Term) -> bool:
    """Whether a term applies uninterpreted functions, for which z3 chooses values."""
    applied = (t for t in subterms(term).values() if z3.is_app(t) and t.num_args())
    return any(t.decl().kind() == z3.Z3_OP_UNINTERPRETED for t in applied)


def _short(name: str) -> str:
    """A name of bounded length."""
    return name if len(name) < 64 else f"{name[:32]} {sha256(name.encode()).hexdigest()[:24]}"
