"""Plugins: the passes that a package or file provides, their positions, and the supported versions."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from msgspec import Struct, field

from ..errors import PluginError
from ..ir.graph import Graph
from ..rewriting.rules import Rule
from ..run.pipeline import Fixpoint, Pass, Pipeline, RulePass, leaves
from ..run.target import Target
from ..run.transforms import ModelTransform, TransformPass

if TYPE_CHECKING:
    import networkx as nx


PipelineStage = Literal["cleanup", "fold", "fuse", "layout", "final"]
STAGES: tuple[PipelineStage, ...] = get_args(PipelineStage)
FINAL: PipelineStage = "final"
RESERVED_CHARACTERS = set(",{}")  # of the texts that select passes


class PassPlacement(Struct, frozen=True):
    """A pass or rule, and its position in a pipeline in which it is enabled; transforms come first and have none.

    `stage`: after the last pass of that stage; `final` runs once, after the loop. `before`, `after`: names of passes;
    those not in the pipeline are ignored. With only `after`, it follows the last of them; with only `before`, it
    directly precedes the first; with neither, it is at the end of the loop. Raises PluginError for an unknown stage.

    Examples:
        >>> PLUGIN = Plugin(passes=(PassPlacement(drop_relu, stage="fuse", after=("fuse-gelu",)),))
        >>> [node.op_type for node in optimize(model, plugin=[PLUGIN]).model.graph.node]
        ['Abs', 'Add']
    """

    item: Pass | Rule | ModelTransform
    stage: PipelineStage | None = None
    before: Sequence[str] = ()
    after: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check arguments, because plugins may not be type-checked."""
        _require_item(self.item)
        if self.stage is not None and self.stage not in STAGES:
            raise PluginError(f"{self.item.name}: unknown stage {self.stage}; choose from {', '.join(STAGES)}")
        positions: dict[str, Any] = {"before": self.before, "after": self.after}
        for option, given in positions.items():
            names = cast("Collection[Any]", given)
            is_several = isinstance(given, Collection) and not isinstance(given, str)
            if not is_several or not all(isinstance(n, str) for n in names):
                example = f'{option}=("fuse-gemm",)'
                raise PluginError(
                    f"{self.item.name}: {option} must be names, such as {example}, not {reprlib.repr(names)}"
                )

    @property
    def named(self) -> frozenset[str]:
        """The names of the passes that it must precede or follow."""
        return frozenset((*self.before, *self.after))

    @property
    def is_unconstrained(self) -> bool:
        """Whether it may have any position."""
        return self.stage is None and not self.named


class Plugin(Struct, frozen=True):
    """All passes and pipelines of a package or file. Raises PluginError for invalid arguments.

    Attributes:
        passes: passes, transforms and rules. Rules of one group form one pass; each other rule is a separate pass.
        pipelines: texts for `--pipeline`, or Passes, by name.
        targets: engines for `--target`; each has a pipeline with its name.
        analyses: functions or classes of a graph by name, whose results `passes info` shows as text.
        kernels: kernels of the custom operators in its models and rules, as for `kernels=` of `optimize`.
        passwright: the supported versions of passwright, such as `>=0.1,<1` (PEP 440).
        opsets: the first and last supported standard opset; None for any.

    Examples:
        >>> PLUGIN = Plugin(passes=(drop_relu,), pipelines={"tidy": "basic,drop-relu"}, opsets=(13, 25))
        >>> optimize(model, plugin=[PLUGIN], pipeline="tidy").report.passes[-1].name
        'drop-relu'
    """

    passes: Sequence[Pass | Rule | ModelTransform | PassPlacement] = ()
    pipelines: Mapping[str, str | Pass] = field(default_factory=dict[str, "str | Pass"])
    passwright: str = ""
    opsets: tuple[int, int] | None = None
    targets: Sequence[Target] = ()
    analyses: Mapping[str, Callable[[Graph], object]] = field(default_factory=dict[str, "Callable[[Graph], object]"])
    kernels: Sequence[Any] = ()

    def __post_init__(self) -> None:
        """Check arguments, because plugins may not be type-checked."""
        _require_list("passes", self.passes)
        _require_list("kernels", self.kernels)
        for item in self.passes:
            if not isinstance(item, PassPlacement):
                _require_item(item)
        _require_pipelines(self.pipelines)
        for target in cast("Sequence[Any]", self.targets):
            if not isinstance(target, Target):
                raise PluginError(f"targets has {reprlib.repr(target)}, which is not a Target")
            _require_name(target.name)
        _require_analyses(self.analyses)
        match cast("Any", self.opsets):
            case None:
                pass
            case (int(first), int(last)) if 1 <= first <= last:
                pass
            case wrong:
                raise PluginError(f"opsets={wrong!r} is not the first and last opset, such as (13, 25)")
        if self.passwright != "":
            from packaging.specifiers import InvalidSpecifier, SpecifierSet  # noqa: PLC0415 - seldom needed

            try:
                wanted = cast("Any", self.passwright)
                SpecifierSet(wanted if isinstance(wanted, str) else repr(wanted))
            except InvalidSpecifier as e:
                raise PluginError(f"passwright={self.passwright!r} is not of the form >=0.1,<1") from e

    def placed_passes(self) -> list[PassPlacement]:
        """The passes with their positions; the rules of a group are one pass, at the position of the first rule."""
        groups: dict[str, list[Rule]] = {}
        for r in self.passes:
            if isinstance(r, Rule) and r.group:
                groups.setdefault(r.group, []).append(r)
        placed: list[PassPlacement] = []
        for item in self.passes:
            if isinstance(item, PassPlacement):
                placed.append(item)
            elif not isinstance(item, Rule) or not item.group:
                placed.append(PassPlacement(item))
            elif rules := groups.pop(item.group, None):
                placed.append(PassPlacement(RulePass(item.group, tuple(dict.fromkeys(rules)))))
        return placed

    def supports(self, version: str) -> bool:
        """Whether the plugin declares support for that version of passwright."""
        if not self.passwright:
            return True
        from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - seldom needed

        return SpecifierSet(self.passwright).contains(version, prereleases=True)


PluginLike = str | Path | Pass | Rule | ModelTransform | PassPlacement | Plugin | Target
"""A Python file with passes, transforms, rules or targets, or such an object, or an object that contains them."""


def as_pass(item: Pass | Rule | ModelTransform) -> Pass:
    """The pass itself, or a pass of a transform or single rule, named after its group or in kebab-case."""
    if isinstance(item, Rule):
        return RulePass(item.group or item.name.replace("_", "-"), (item,))
    return item if isinstance(item, Pass) else TransformPass(item)


def _require_list(name: str, items: Any) -> None:
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise PluginError(f"{name} must be a tuple or a list, not {reprlib.repr(items)}")


def _require_item(item: Any, complaint: str = "is neither a pass nor a rule") -> None:
    if isinstance(item, type):
        raise PluginError(f"{complaint}: {item.__name__} is a class; use an instance, such as {item.__name__}()")
    if not isinstance(item, Pass | Rule | ModelTransform):
        raise PluginError(f"{complaint}: {reprlib.repr(item)}")
    _require_name(item.name)


def _require_name(name: Any) -> None:
    is_text = isinstance(name, str) and name != "" and name == name.strip() and name.isprintable()
    if not is_text or set(name) & RESERVED_CHARACTERS:
        raise PluginError(f"{reprlib.repr(name)} is not a valid name in a text such as a,b{{n=3}}")


def _require_analyses(analyses: Any) -> None:
    if not isinstance(analyses, Mapping):
        raise PluginError(f"analyses must be a dict by name, not {reprlib.repr(analyses)}")
    for name, analysis in cast("Mapping[Any, Any]", analyses).items():
        _require_name(name)
        if not callable(analysis):
            raise PluginError(f"analysis {name} is {reprlib.repr(analysis)}, not a function or class of a graph")


def _require_pipelines(pipelines: Any) -> None:
    if not isinstance(pipelines, Mapping):
        raise PluginError(f"pipelines must be a dict by name, not {reprlib.repr(pipelines)}")
    for name, content in cast("Mapping[Any, Any]", pipelines).items():
        _require_name(name)
        if not isinstance(content, str):
            _require_item(content, f"pipeline {name} is neither a string nor a pass")


def insert_passes(p: Pass, added: Sequence[PassPlacement], stages: Mapping[str, str]) -> Pass:
    """Insert passes at their positions in a pipeline's first loop, and passes of the final stage after it.

    `stages` are the stages of the existing passes. Raises PluginError for contradictory positions.
    """
    last = [q for q in added if q.stage == FINAL]
    others = [q for q in added if q.stage != FINAL]
    looped = _insert_in_loop(p, others, stages)
    _require_none_after_final(last, others, looped)
    if not last:
        return looped
    end = order_passes((), last, stages)
    if isinstance(looped, Pipeline):
        return replace(looped, passes=(*looped.passes, *end))
    return Pipeline(p.name, (looped, *end)) if isinstance(looped, Fixpoint) else _unnamed_pipeline((looped, *end))


def _unnamed_pipeline(passes: Sequence[Pass]) -> Pipeline:
    """Passes as a pipeline with a name that no pass has."""
    return Pipeline(",".join(q.name for q in passes), passes)


def _insert_in_loop(p: Pass, added: Sequence[PassPlacement], stages: Mapping[str, str]) -> Pass:
    """Insert passes into a pipeline's first loop, or next to it if they name passes there but none in the loop."""
    if not added:
        return p
    if isinstance(p, Pipeline):
        at = next((i for i, q in enumerate(p.passes) if _has_loop(q)), None)
        if at is not None:
            inside = {leaf.name for leaf in leaves(p.passes[at])}
            beside = {leaf.name for i, q in enumerate(p.passes) if i != at for leaf in leaves(q)}
            outside = [q for q in added if not q.named.isdisjoint(beside) and q.named.isdisjoint(inside)]
            loop = _insert_in_loop(p.passes[at], [q for q in added if q not in outside], stages)
            return replace(p, passes=order_passes((*p.passes[:at], loop, *p.passes[at + 1 :]), outside, stages))
    if isinstance(p, Pipeline | Fixpoint):
        return replace(p, passes=order_passes(p.passes, added, stages))
    return _unnamed_pipeline(order_passes((p,), added, stages))


def _has_loop(p: Pass) -> bool:
    return isinstance(p, Fixpoint) or (isinstance(p, Pipeline) and any(map(_has_loop, p.passes)))


def _require_none_after_final(final: Sequence[PassPlacement], others: Sequence[PassPlacement], looped: Pass) -> None:
    """Raise PluginError if a pass is placed after the final stage."""
    inside, end = {leaf.name for leaf in leaves(looped)}, {q.item.name for q in final}
    pairs = [(q.item.name, name) for q in final for name in q.before if name in inside]
    pairs += [(name, q.item.name) for q in others for name in q.after if name in end]
    for name, other in pairs:
        raise PluginError(f"{name} cannot run before {other}: its stage {FINAL} follows all others")


def order_passes(
    existing: Sequence[Pass], added: Sequence[PassPlacement], stages: Mapping[str, str]
) -> tuple[Pass, ...]:
    """Order passes so that all positions are satisfied; existing passes keep their order.

    Passes for the same position have the order of `added`.
    """
    import networkx as nx  # noqa: PLC0415 - takes longer to import than a small model to optimize

    algorithms: Any = nx
    items = [*existing, *(as_pass(q.item) for q in added)]
    order = _required_order(nx.DiGraph(), existing, added)
    _require_acyclic(order, [p.name for p in items], len(existing))
    keys = {i: (i, -1) for i in range(len(existing))}
    for node, q in enumerate(added, len(existing)):
        later, earlier = algorithms.descendants(order, node), algorithms.ancestors(order, node)
        anchor = _anchor_index(q, existing, stages, later, earlier)
        keys[node] = anchor, node
    order.add_edges_from((anchor, node) for node, (anchor, _) in keys.items() if 0 <= anchor < len(existing) <= node)
    return tuple(items[i] for i in nx.lexicographical_topological_sort(order, keys.__getitem__))


def _required_order(
    order: nx.DiGraph[int], existing: Sequence[Pass], added: Sequence[PassPlacement]
) -> nx.DiGraph[int]:
    """The passes by number, existing ones first, with edges to passes that must come later."""
    order.add_nodes_from(range(len(existing) + len(added)))
    order.add_edges_from((i - 1, i) for i in range(1, len(existing)))
    named: dict[str, list[int]] = {}
    for i, p in enumerate(existing):
        for name in {p.name, *(leaf.name for leaf in leaves(p))}:
            named.setdefault(name, []).append(i)
    for node, q in enumerate(added, len(existing)):
        named.setdefault(q.item.name, []).append(node)
    for node, q in enumerate(added, len(existing)):
        order.add_edges_from((node, later) for name in q.before for later in named.get(name, ()))
        order.add_edges_from((earlier, node) for name in q.after for earlier in named.get(name, ()))
    return order


def _require_acyclic(order: nx.DiGraph[int], names: Sequence[str], existing_count: int) -> None:
    import networkx as nx  # noqa: PLC0415 - as above

    if nx.is_directed_acyclic_graph(order):
        return
    algorithms: Any = nx
    cycle: list[tuple[int, int]] = algorithms.find_cycle(order)
    wanted = ", ".join(f"{names[a]} before {names[b]}" for a, b in cycle if max(a, b) >= existing_count)
    fixed = sorted({a for a, _ in cycle if a < existing_count})
    known = f"; in the pipeline {names[fixed[0]]} comes before {names[fixed[-1]]}" if len(fixed) > 1 else ""
    raise PluginError(f"these positions contradict each other: {wanted}{known}")


def _anchor_index(
    q: PassPlacement,
    existing: Sequence[Pass],
    stages: Mapping[str, str],
    successors: Collection[int],
    predecessors: Collection[int],
) -> int:
    """The index of the existing pass that `q` directly follows; -1 if it comes first."""
    first = min((i for i in successors if i < len(existing)), default=len(existing))
    last = max((i for i in predecessors if i < len(existing)), default=-1)
    wanted = last if q.after and last >= 0 else len(existing) - 1
    if q.stage is not None:  # after the last pass of the stage, or of the nearest earlier stage in the pipeline
        stages_of = [{stages.get(leaf.name) for leaf in leaves(p)} for p in existing]
        up_to = STAGES[STAGES.index(q.stage) :: -1]
        by_stage = ([i for i, own in enumerate(stages_of) if stage in own] for stage in up_to)
        wanted = next((indices[-1] for indices in by_stage if indices), -1)
    return max(min(wanted, first - 1), last)
