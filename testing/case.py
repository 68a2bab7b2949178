"""Test cases for rules, and the faults that they show."""

from __future__ import annotations

from enum import StrEnum

import onnx
from msgspec import Struct

from ..core.rewriting.rules import Rule
from ..core.verify.verdict import Mismatch


class Case(Struct, frozen=True):
    """A model with a match of a rule's pattern.

    `place` is the name of the root's output; `traits` describe special features of the model ("inside an If", "an inner
    value is an output", "a dim of 0"). With a `no_fire_reason`, the rule must not fire at `place`.
    """

    model: onnx.ModelProto
    place: str
    traits: tuple[str, ...] = ()
    no_fire_reason: str = ""


class FaultKind(StrEnum):
    """Kinds of faults, as predicates whose subject is the rule."""

    RAISED = "fails"
    ENDLESS = "does not terminate"
    ENDLESS_WITH_OTHERS = "does not terminate together with other rules"
    INVALID = "leaves an invalid graph"
    INTERFACE = "changes the interface of the model"
    FIRED_UNEXPECTEDLY = "fires where it must not"
    NONDETERMINISTIC = "is not deterministic"
    NOT_IDEMPOTENT = "changes its own result again"
    REFUSED = "makes a model that onnxruntime does not run, unlike the one before"
    WRONG = "changes the results of the model"
    GAINED = "gives finite results instead of NaN or infinity"


class Fault(Struct, frozen=True):
    """A fault on a case: its kind, a one-line message, and the rewritten model, if any.

    `mismatch` has the differing output and inputs; `exact` says whether outputs were compared bit for bit;
    `other_rules` are the rules that are also necessary.
    """

    kind: FaultKind
    message: str
    case: Case
    after: onnx.ModelProto | None = None
    mismatch: Mismatch | None = None
    exact: bool = False
    other_rules: tuple[Rule, ...] = ()
