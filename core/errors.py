"""Everything this package raises on purpose."""

from __future__ import annotations


class PassesError(Exception):
    """Base class: `except PassesError` catches every expected failure."""


class ModelError(PassesError):
    """The model, or an input given with it, is unusable; the message is one line."""


class GraphError(PassesError):
    """A mutation would break an invariant of the graph, or one is broken already."""


class RuleError(PassesError):
    """A rule is written wrongly: its pattern, its signature or what it returned."""


class NoFixpoint(PassesError):
    """A group of passes or rules kept changing the graph past its budget."""


class EvaluationError(PassesError):
    """No backend could run a model, or a piece of one."""


class CannotLoad(EvaluationError):
    """A backend refuses a model as such, whatever its inputs."""


class VerificationError(PassesError):
    """The rewritten model no longer computes what the original did."""


class Unverifiable(PassesError):
    """No input could be found on which the original runs, so nothing can be claimed."""


class PluginError(PassesError):
    """A pass could not be loaded, or two passes share a name."""


class Declined(Exception):
    """A rule looked at a match and said no. The message says why."""


def require(condition: object, reason: str) -> None:
    """The one way for a rule to say no: raises `Declined` unless `condition` holds."""
    if not condition:
        raise Declined(reason)
