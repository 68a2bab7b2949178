"""Which rules can match at an op at all, told from its type and from what feeds it, without trying them."""

from __future__ import annotations

from collections.abc import Iterable

from .ir.values import Op, Value
from .pattern import OpPattern, Var
from .rules import Rule

Kind = tuple[str, bool]
"""What a pattern sees of an input at first: the type of the op here that makes it, and whether it is constant."""


class Candidates:
    """Rules by root operator and feeders.

    Ops that look alike from there share one answer, so that rules that do not match cost next to nothing,
    however many there are.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.roots: dict[str, list[Rule]] = {}
        for r in rules:
            for op_type in r.pattern.types:
                self.roots.setdefault(op_type, []).append(r)
        self._known: dict[tuple[str, frozenset[Kind]], list[Rule]] = {}

    def at(self, op: Op) -> list[Rule]:
        """The rules worth trying at `op`, in their order."""
        rules = self.roots.get(op.type)
        if rules is None:
            return []
        key = (op.type, frozenset([_kind(op, v) for v in op.inputs if v is not None]))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = [r for r in rules if _may_match(r.pattern, key[1])]
        return found


def _kind(op: Op, value: Value) -> Kind:
    maker = value.producer
    return maker.type if maker is not None and maker.graph is op.graph else "", value.tensor is not None


def _may_match(pattern: OpPattern, kinds: frozenset[Kind]) -> bool:
    """Whether for each input that the pattern is particular about there is one that could be it."""
    for want in pattern.inputs:
        if isinstance(want, OpPattern) and not any(made_by in want.types for made_by, _ in kinds):
            return False
        if isinstance(want, Var) and want.constant and not want.optional and not any(fixed for _, fixed in kinds):
            return False
    return True
