"""What a rule may do wrong, and the model that shows it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import onnx

from ..core.verify.verdict import Mismatch
from .case import Case


class FaultKind(StrEnum):
    """What is wrong, in a clause about the rule."""

    RAISED = "raises what is not a decline"
    SILENT_CHANGE = "changes the graph where it says no"
    ENDLESS = "does not end"
    ENDLESS_WITH_OTHERS = "does not end beside the rules next to it"
    INVALID = "leaves an invalid graph"
    INTERFACE = "changes the interface of the model"
    FIRED_UNEXPECTEDLY = "fires where it must not"
    NONDETERMINISTIC = "does not do the same twice"
    NOT_IDEMPOTENT = "changes its own result again"
    REFUSED = "makes a model that onnxruntime refuses, though it runs the one before"
    WRONG = "changes what the model computes"


@dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong on a case: in kind, in a line, and what was made of the model, if anything was.

    `mismatch` says how outputs differ, and on which inputs; `exact` whether they were compared to the last bit;
    `other_rules` which rules it takes besides.
    """

    kind: FaultKind
    message: str
    case: Case
    after: onnx.ModelProto | None = None
    mismatch: Mismatch | None = None
    exact: bool = False
    other_rules: tuple[str, ...] = ()
