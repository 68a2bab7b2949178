"""Rules: a pattern to find and a function that builds its replacement.

@rule(lambda g, x: g.Neg(g.Neg(x)), contract=EXACT)
def cancel_negations(g, x):
"Neg(Neg(x)) => x"
return x
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import RuleError
from ..ir.graph import Graph
from ..ir.op import Op
from ..ir.values import Value
from .pattern import OpPattern, match_op, trace_pattern


@dataclass(frozen=True, slots=True)
class Contract:
    """What a rule promises about the numbers: `kind` is exact, rounding or conditional."""

    kind: str
    condition: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.condition}" if self.condition else self.kind


EXACT = Contract("exact")
"""Bit for bit the same results."""
ROUNDING = Contract("rounding")
"""The same in real arithmetic; another order of floating-point operations."""


def conditional(condition: str) -> Contract:
    """The same only where a condition on the numbers holds, which cannot be read off the graph."""
    return Contract("conditional", condition)


@dataclass(frozen=True, slots=True)
class Match:
    """Where a rule applies: what its variables stand for, and the ops covered, the root first."""

    bindings: dict[str, Any]
    ops: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rewrite of one matched root; it keeps no state. Around its `fragile` numbers it is tried hardest."""

    name: str
    equation: str
    pattern: OpPattern
    build: Callable[..., Value | tuple[Value | None, ...]]
    shared: bool
    contract: Contract
    fragile: tuple[float, ...] = ()

    @property
    def is_exact(self) -> bool:
        """Whether results stay bit for bit the same."""
        return self.contract == EXACT

    def matches(self, graph: Graph, root: Op) -> Iterator[Match]:
        """Every way in which the pattern matches at `root`: operands of commutative ops in either order."""
        for bound, ops in match_op(self.pattern, root, graph, {}, ()):
            if self.shared or _inner_values_are_private(graph, bound, ops):
                yield Match(bound, ops)


def rule(
    pattern: Callable[..., OpPattern],
    *,
    contract: Contract = ROUNDING,
    shared: bool = False,
    fragile: Sequence[float] = (),
) -> Callable[[Callable[..., Any]], Rule]:
    """Make a rule of a function `(g, **variables) -> Value`, or `-> tuple` with one value per output of the root.

    The pattern's lambda has the same parameters; `b=None` there marks an input that may be left out,
    `g.const(c)` one that is a constant, and `*xs` takes any number. Inner values may be used elsewhere only if
    `shared`. A rule that states no contract counts as `ROUNDING`. `fragile` names the numbers at which it might
    go wrong, such as the knees of an activation: inputs are drawn on and beside them.
    Raises RuleError if the parameters differ.
    """

    def wrap(build: Callable[..., Any]) -> Rule:
        root, names = trace_pattern(pattern)
        given = list(inspect.signature(build).parameters)[1:]
        if sorted(names) != sorted(given):
            raise RuleError(f"{build.__name__}: the pattern binds {names}, the function takes {given}")
        equation = (inspect.getdoc(build) or "").partition("\n")[0]
        return Rule(build.__name__, equation, root, build, shared, contract, tuple(map(float, fragile)))

    return wrap


def _inner_values_are_private(graph: Graph, bound: dict[str, Any], ops: tuple[Op, ...]) -> bool:
    """Whether the values between the matched ops are seen by nothing else."""
    given = bound_values(bound)
    for v in (v for op in ops[1:] for v in op.outputs):
        if graph.is_output(v) or v in graph.pinned or any(v is x for x in given):
            return False
        if any(user not in ops for user in v.consumers):
            return False
    return True


def bound_values(bound: dict[str, Any]) -> list[Any]:
    """What variables stand for, those of any number of inputs each."""
    given: list[Any] = []
    for b in bound.values():
        given += b if isinstance(b, tuple) else (b,)
    return given
