"""Mistakes: rules and passes that are wrong, each with a model on which it is."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import getdoc, signature
from typing import Any

import numpy as np
import onnx
from passwright.core import ChangeLog, Graph, Pass, Plugin, Rule, RulePass
from passwright.core.plugins.pass_registry import all_rules
from rewriting import OPSET, load

Run = Callable[[Graph, ChangeLog], Any]
Factory = Callable[[], Sequence[Pass]]
Weights = Mapping[str, Any]


@dataclass(frozen=True)
class Mistake:
    """Rules and passes of which some are wrong, their model, the expected rejections, and the ops that remain."""

    name: str
    about: str
    passes: Callable[[], Sequence[Pass]]
    load: Callable[[], onnx.ModelProto]
    inputs: Mapping[str, Any] | None
    wrong: Mapping[tuple[str, str], str]
    after: Mapping[str, int] | None

    @property
    def plugin(self) -> Plugin:
        """The mistake alone, with no state of another run."""
        return Plugin(self.passes())

    @cached_property
    def model(self) -> onnx.ModelProto:
        return self.load()

    @property
    def rules(self) -> dict[str, Rule]:
        """All rules by name, wrong or not."""
        return {r.name: r for p in self.passes() for r in all_rules(p)}


@dataclass(frozen=True)
class FunctionPass:
    """A pass that is one function."""

    name: str
    function: Run

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        return self.function(graph, change_log)


def mistake(
    model: str,
    *,
    wrong: str | Sequence[str] | Mapping[Any, str],
    after: Mapping[str, int] | None = None,
    inputs: Mapping[str, Any] | None = None,
    weights: Weights | Callable[[np.random.Generator], Weights] | None = None,
    opset: int = OPSET,
    domains: Mapping[str, int] | None = None,
) -> Callable[[Rule | Run | Factory], Mistake]:
    """Make a mistake of a rule, of a function that is a pass, or of one without arguments that returns passes.

    `wrong`: the places where the rule or pass is rejected as "wrong"; in general the reason by the place, or by the
    name of a rule or pass and the place. `after`: the ops that are left when all that is right was done; those of the
    model, without Identity, unless given. The model is read as in `rewriting.load`, with `weights` that may be drawn;
    `inputs` are given ones.
    """

    def wrap(item: Rule | Run | Factory) -> Mistake:
        build: Any = item.build if isinstance(item, Rule) else item
        name = build.__name__
        kebab = name.replace("_", "-")
        if isinstance(item, Rule):
            by, passes = name, lambda: [RulePass(kebab, (item,))]
        elif signature(build).parameters:
            by, passes = kebab, lambda: [FunctionPass(kebab, build)]
        else:
            by, passes = kebab, build
        places = (wrong,) if isinstance(wrong, str) else wrong
        reasons = places if isinstance(places, Mapping) else dict.fromkeys(places, "wrong")
        rejected = {at if isinstance(at, tuple) else (by, at): why for at, why in reasons.items()}

        def read() -> onnx.ModelProto:
            drawn = weights(np.random.default_rng(0)) if callable(weights) else weights
            return load(model, opset, drawn, domains)

        return Mistake(name, getdoc(build).partition("\n")[0], passes, read, inputs, rejected, after)

    return wrap
