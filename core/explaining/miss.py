"""What keeps a rule from firing at an op."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """In what way: no root, an operator, domain, attribute, input, constant or variable of the pattern.

    ORDER: two inputs are the other way round. SHARED: what is inside the match is seen from outside.
    DECLINED: the rule looked at the match and said no. RAISED: it failed. FORBIDDEN: it may not run here.
    DEAD: nothing reads what the op makes.
    """

    OPERATOR = "operator"
    DOMAIN = "domain"
    ATTRIBUTE = "attribute"
    INPUTS = "inputs"
    ORDER = "order"
    CONSTANT = "constant"
    VARIABLE = "variable"
    SHARED = "shared"
    DECLINED = "declined"
    RAISED = "raised"
    FORBIDDEN = "forbidden"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class Miss:
    """One reason: the op it shows at, and why, as a sentence. `values`: what the pattern's variables stand for."""

    kind: Kind
    at: str
    why: str
    values: dict[str, str] | None = None
