"""Which rules can match at an op at all, told from its type and from what feeds it, without trying them."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.op import Op
from .pattern import OpPattern, Var
from .rules import Rule

InputSignature = tuple[str, bool]
"""What a pattern sees of an input at first: the type of the op here that makes it, and whether it is constant."""
InputSignatures = tuple[InputSignature, ...] | frozenset[InputSignature]
MAX_ORDERED_INPUTS = 4  # inputs that are told apart; of more, only which kinds are among them


class RuleIndex:
    """Rules by root operator and feeders.

    Ops that look alike from there share one answer, so that rules that do not match cost next to nothing,
    however many there are.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.by_root_type: dict[str, list[Rule]] = {}
        for r in rules:
            for op_type in r.pattern.types:
                self.by_root_type.setdefault(op_type, []).append(r)
        self._cache: dict[tuple[str, InputSignatures], list[Rule]] = {}
        self._required_producers = {
            op_type: _required_producer_types(found) for op_type, found in self.by_root_type.items()
        }

    def candidates_at(self, op: Op) -> list[Rule]:
        """The rules worth trying at `op`, in their order."""
        rules = self.by_root_type.get(op.type)
        if rules is None:
            return []
        wanted = self._required_producers[op.type]
        if wanted is not None and not _has_required_producer(op, wanted):
            return []
        home = op.graph
        kinds: list[InputSignature] = []
        for v in op.inputs:
            if v is not None:
                maker = v.producer
                made_by = maker.type if maker is not None and maker.graph is home else ""
                kinds.append((made_by, v.tensor is not None))
        key = (op.type, tuple(kinds) if len(kinds) <= MAX_ORDERED_INPUTS else frozenset(kinds))
        found = self._cache.get(key)
        if found is None:
            found = self._cache[key] = [r for r in rules if _may_match(r.pattern, key[1])]
        return found


def _required_producer_types(rules: list[Rule]) -> frozenset[str] | None:
    """Of which types one feeder at least has to be for any of the rules to match, "" for a constant; None: of any."""
    found: set[str] = set()
    for r in rules:
        particular = next((want for want in r.pattern.inputs if _constrains_input(want)), None)
        if particular is None:
            return None
        found.update(particular.types if isinstance(particular, OpPattern) else ("",))
    return frozenset(found)


def _has_required_producer(op: Op, required: frozenset[str]) -> bool:
    """Whether one of the inputs is a constant, if `required` has "", or made by an op of one of its types."""
    for v in op.inputs:
        if v is None:
            continue
        if (v.tensor is not None and "" in required) or (v.producer is not None and v.producer.type in required):
            return True
    return False


def _constrains_input(want: object) -> bool:
    """Whether not any value will do for an input."""
    return isinstance(want, OpPattern) or (isinstance(want, Var) and want.constant and not want.optional)


def _may_match(pattern: OpPattern, kinds: InputSignatures) -> bool:
    """Whether for each input that the pattern is particular about there is one that could be it."""
    makers = [want for want in pattern.inputs if isinstance(want, OpPattern)]
    for want in makers:
        if not any(made_by in want.types for made_by, _ in kinds):
            return False
    if isinstance(kinds, tuple):
        types = {t for want in makers for t in want.types}
        if sum(made_by in types for made_by, _ in kinds) < len(makers):
            return False
    fixed = any(is_fixed for _, is_fixed in kinds)
    return fixed or not any(isinstance(want, Var) and _constrains_input(want) for want in pattern.inputs)
