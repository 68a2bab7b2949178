"""Configurations: ways to make a model and to run it, and the decisions by which they differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ...core.ort.sessions import ENABLE_ALL, SessionConfig
from ..measure.execution_provider import ExecutionProvider

ORIGINAL = "none"  # the pipeline without passes
USERS_SESSION = ExecutionProvider().session_config(ENABLE_ALL, 0)
"""A session with onnxruntime's defaults."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """A way to make a model of the original: a pipeline, passes that are left out or added, and the opset.

    `opset` is None for that of the model or the pipeline. With a `scheme` of `passes quantize`, the rest is that of
    this command.
    """

    pipeline: str = ORIGINAL
    skip: tuple[str, ...] = ()
    enable: tuple[str, ...] = ()
    opset: int | None = None
    scheme: str = ""

    @property
    def is_original(self) -> bool:
        """Whether the model stays as it is."""
        return self == Recipe()


@dataclass(frozen=True, slots=True)
class Configuration:
    """A model and a session. `callers`: threads that call the session at the same time."""

    recipe: Recipe = Recipe()
    session: SessionConfig = USERS_SESSION
    callers: int = 1

    @property
    def key(self) -> str:
        """A text that differs between configurations, and is the same in another process."""
        return repr(asdict(self))


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to decide something: fields of the recipe, the session or the configuration that it sets.

    `skip` and `enable` are added to those of other choices.
    """

    decision: str
    label: str
    recipe: Mapping[str, Any] = field(default_factory=dict[str, Any])
    session: Mapping[str, Any] = field(default_factory=dict[str, Any])
    skip: tuple[str, ...] = ()
    enable: tuple[str, ...] = ()
    callers: int = 0

    def __str__(self) -> str:
        return f"{self.decision}: {self.label}"

    @property
    def is_of_model(self) -> bool:
        """Whether it decides about the model, and not about its session."""
        return bool(self.recipe or self.skip or self.enable)

    def applied(self, to: Configuration) -> Configuration:
        """A configuration with this choice."""
        recipe = replace(
            to.recipe,
            **self.recipe,
            skip=_united(to.recipe.skip, self.skip),
            enable=_united(to.recipe.enable, self.enable),
        )
        session = replace(to.session, **self.session)
        if "disabled_optimizers" in self.session:
            disabled = _united(to.session.disabled_optimizers, self.session["disabled_optimizers"])
            session = replace(session, disabled_optimizers=disabled)
        return replace(to, recipe=recipe, session=session, callers=self.callers or to.callers)


def configured(choices: Iterable[Choice], start: Configuration) -> Configuration:
    """The configuration of several choices, in order.

    Passes are chosen for a pipeline alone, and no setting that changes values for a scheme, whose loss was measured
    without it. Settings of threads that a session does not have are those of `start`.
    """
    found = start
    for choice in choices:
        found = choice.applied(found)
    if found.session.intra_op_threads == 1 and not found.session.parallel:
        of_threads = {name: getattr(start.session, name) for name in ("allow_spinning", "dynamic_block_base")}
        found = replace(found, session=replace(found.session, **of_threads))
    if found.recipe.scheme:
        session = replace(found.session, denormals_as_zero=start.session.denormals_as_zero)
        return replace(found, recipe=Recipe(scheme=found.recipe.scheme), session=session)
    if found.recipe.pipeline == ORIGINAL:
        return replace(found, recipe=Recipe(opset=found.recipe.opset))
    return found


def _united(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))
