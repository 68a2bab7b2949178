"""Instrumentation of runs: hooks that are called around passes, and when rules are tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from time import perf_counter
from typing import Any

from ..errors import InstrumentationError, PassFailed, UsageError
from ..io.model import Model
from ..ir.graph import Graph, GraphContext
from ..ir.op import Op
from ..rewriting.rules import Rule
from ..support.author_errors import describe_exception
from .pipeline import Pass


class Instrumentation:
    """Hooks of a run, which do nothing; subclasses override those that they need.

    Hooks may read the graph, but must not change it. A hook that raises or changes the graph ends the run with
    InstrumentationError, and nothing is written. A run that is repeated without a wrong change begins with `start`
    again; the replays that find the wrong change call no hooks.

    Examples:
        >>> class Changes(Instrumentation):
        ...     def after(self, p: Pass, graph: Graph, changes: int) -> None:
        ...         print(p.name, changes, len(graph))
        >>> result = optimize(model, Pipeline("none", ()), instrumentation=[Changes()])
        none 0 3
    """

    def __init_subclass__(cls) -> None:
        """Raise UsageError for a method whose name resembles a hook's name, because it would never be called."""
        for name, given in vars(cls).items():
            near = get_close_matches(name, HOOKS, n=1, cutoff=MISSPELT) if callable(given) and name not in HOOKS else ()
            if near:
                raise UsageError(f"{cls.__name__} has no hook {name}; did you mean {near[0]}? (begin others with _)")

    def start(self, model: Model) -> None:
        """Called before the first pass, and again for each repetition, with the model to be rewritten."""

    def before(self, p: Pass, graph: Graph) -> None:
        """Called before each run of a pass, or of a group of passes."""

    def after(self, p: Pass, graph: Graph, changes: int) -> None:
        """Called after each run of a pass or group, with the number of its changes."""

    def failed(self, p: Pass, graph: Graph, error: PassFailed) -> None:
        """Called instead of `after` if a pass fails; the graph is as the pass left it."""

    def before_rule(self, r: Rule, op: Op) -> None:
        """Called before a rule is tried at an op that may be the root of a match."""

    def after_rule(self, r: Rule, op: Op, *, is_changed: bool) -> None:
        """Called after the try; `is_changed`: the rule rewrote a match, which may have removed `op`."""

    def declined(self, r: Rule, op: Op, reason: str) -> None:
        """Called for each match that a rule declined, and for a decline while matching."""


MISSPELT = 0.85  # ratio of difflib; aftr, befor_rule and decline exceed it, restart does not
HOOKS = ("start", "before", "after", "failed", "before_rule", "after_rule", "declined")
PASS_HOOKS = HOOKS[:4]


@dataclass(slots=True)
class Hooks:
    """The hooks that `instruments` override, and the seconds that they took."""

    instruments: Sequence[Instrumentation]
    seconds: float = 0.0
    _overridden: dict[str, list[Callable[..., Any]]] = field(init=False)

    def __post_init__(self) -> None:
        """Look up the overridden hooks."""
        self._overridden = {
            name: [
                getattr(i, name) for i in self.instruments if getattr(type(i), name) is not vars(Instrumentation)[name]
            ]
            for name in HOOKS
        }

    @property
    def watches_rules(self) -> bool:
        """Whether a hook for rules is overridden."""
        return any(found for name, found in self._overridden.items() if name not in PASS_HOOKS)

    def call(self, name: str, context: GraphContext, *arguments: Any, **more: Any) -> None:
        """Call a hook of each instrument. Raises InstrumentationError if one raises or changes the graph."""
        start = perf_counter()
        for hook in self._overridden[name]:
            count = context.mutation_count
            try:
                hook(*arguments, **more)
            except (KeyboardInterrupt, InstrumentationError):
                raise
            except BaseException as e:
                code = getattr(hook, "__code__", None)
                raise InstrumentationError(f"{_label(hook, *arguments)} raised {describe_exception(e, code)}") from e
            if context.mutation_count != count:
                what = "changed the graph; hooks may only read it: use a Pass to change it"
                raise InstrumentationError(f"{_label(hook, *arguments)} {what}")
        self.seconds += perf_counter() - start


def _label(hook: Callable[..., Any], subject: Any, *more: Any) -> str:
    """Describe a hook, with the pass, or the rule and op, for which it was called."""
    place = f" at {more[0].label}" if more and isinstance(more[0], Op) else ""
    what = f" ({subject.name}{place})" if more else ""
    return f"hook {hook.__name__} of {type(getattr(hook, '__self__', hook)).__name__}{what}"
