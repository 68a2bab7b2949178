"""Everything this package raises on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum


class PassesError(Exception):
    """Base class: `except PassesError` catches every expected failure."""


class ModelError(PassesError):
    """The model, or an input given with it, is unusable; the message is one line."""


class GraphError(PassesError):
    """A mutation would break an invariant of the graph, or one is broken already."""


class RuleError(PassesError):
    """A rule is written wrongly: its pattern, its signature or what it returned.

    `rule` and `place` say which and where, if it came up at a match.
    """

    def __init__(self, message: str, rule: str = "", place: str = "") -> None:
        super().__init__(message)
        self.rule, self.place = rule, place


class NoFixpoint(PassesError):
    """A pass, or a group of passes or rules, kept changing the graph past its budget.

    `suspects` are the names of those that did, the likeliest first.
    """

    def __init__(self, message: str, suspects: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.suspects = tuple(suspects)


class FailureKind(StrEnum):
    """What is wrong: other values, a model no backend takes, an exception, a broken graph, no end, or the interface."""

    WRONG = "wrong"
    REFUSED = "refused"
    RAISED = "raised"
    INVALID = "invalid"
    ENDLESS = "endless"
    INTERFACE = "interface"


class PassFailed(PassesError):
    """A pass raised, left an invalid graph or did not end; an exception behind it is its cause."""

    def __init__(self, pass_name: str, kind: FailureKind, message: str) -> None:
        super().__init__(message)
        self.pass_name, self.kind = pass_name, kind


class InterfaceError(PassesError):
    """What a model has to keep, whatever is done to it, was changed: a name, a type, a default, a doc string."""


class EvaluationError(PassesError):
    """No backend could run a model, or a piece of one."""


class ModelLoadError(EvaluationError):
    """A backend refuses a model as such, whatever its inputs."""


class VerificationError(PassesError):
    """The rewritten model no longer computes what the original did."""


class UnverifiableError(PassesError):
    """No input could be found on which the original runs, so nothing can be claimed."""


class PluginError(PassesError):
    """A pass could not be loaded, or two passes share a name. `names` are those of what it stands in the way of."""

    def __init__(self, message: str, names: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.names = tuple(names)


class Declined(Exception):
    """A rule looked at a match and said no. The message says why."""


def format_error(error: BaseException) -> str:
    """What an exception says: its text if it is one of ours, else with its type; whatever its own methods do."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - it is a plugin's
        text = ""
    if isinstance(error, PassesError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def require(condition: object, reason: str) -> None:
    """The one way for a rule to say no: raises `Declined` unless `condition` holds."""
    if not condition:
        raise Declined(reason)
