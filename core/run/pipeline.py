"""Passes, their composition into pipelines and fixpoints, and selection by name."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from operator import index
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast, runtime_checkable

from ..errors import (
    FailureKind,
    GraphError,
    InstrumentationError,
    ModelError,
    NoFixpoint,
    PassFailed,
    RuleError,
    UnknownNameError,
    UnverifiableError,
    UsageError,
)
from ..ir.cost_model import CostModel
from ..ir.graph import Graph, Runs, total_op_count
from ..ir.op import Op
from ..ir.quantization_spec import QuantizationSpec
from ..processes.watchdog import require_time
from ..rewriting.change_log import ChangeLog
from ..rewriting.driver import RuleIndex, rewrite
from ..rewriting.rules import Rule
from ..support.author_errors import describe_exception, describe_failed_call, is_each, require_argument, require_type
from ..support.suggestions import did_you_mean

BASE_MUTATION_BUDGET, MUTATION_BUDGET_PER_ITEM = 10_000, 50
"""The limit of mutations in one run of a pass: a constant, and a number per op and initializer."""


@runtime_checkable
class Pass(Protocol):
    """A named function that rewrites a graph and returns the number of changes (0: unchanged).

    It must be deterministic, keep no state, and also rewrite subgraphs. A pass that calls `change_log.request_change`
    before each change can be bisected by change; a run of any other pass counts as one change.

    Examples:
        >>> class CountOps:
        ...     "Changes nothing."
        ...     name = "count-ops"
        ...     def run(self, graph: Graph, change_log: ChangeLog) -> int:
        ...         change_log.note(f"{len(graph)} ops")
        ...         return 0
        >>> counter: Pass = CountOps()
        >>> optimize(model, pipeline=counter, verify=False).report.notes
        ['3 ops']
    """

    @property
    def name(self) -> str:
        """The name on the command line: kebab-case."""
        ...

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Rewrite `graph` in place; return the number of changes."""
        ...


@runtime_checkable
class RemarkingPass(Protocol):
    """A pass without patterns that can explain why it leaves a graph unchanged."""

    def remarks(self, graph: Graph, *, exact_only: bool) -> Sequence[str]:
        """The reasons why it does not change `graph` any further; the graph is not modified."""
        ...


def run_pass(p: Pass, graph: Graph, change_log: ChangeLog) -> int:
    """Run one pass, recording its time and changes under its name.

    A pass may use this to run other passes, which are recorded under their names. Raises PassFailed for any error of
    the pass, except ModelError for unreadable weights and requests that the model does not allow, UnverifiableError,
    and InstrumentationError of hooks.

    Examples:
        >>> log = ChangeLog()
        >>> run_pass(RulePass("nothing", ()), graph, log), list(log.seconds)
        (0, ['nothing'])
    """
    _require_passes("run_pass", (p,))
    require_type(graph, Graph, "run_pass", "a Graph, such as model.graph")
    require_type(change_log, ChangeLog, "run_pass", "a ChangeLog")
    require_time()
    bans = change_log.exclusions
    if change_log.stopped or p.name in bans.passes:
        return 0
    if p.name in bans.atomic_passes and not change_log.may_change(p.name, ""):
        return 0
    is_group = isinstance(p, Pipeline | Fixpoint)
    shared, version, made = graph.context, graph.context.mutation_count, change_log.change_count
    change_log.call_hooks("before", p, graph)
    try:
        if is_group:
            with change_log.running_pass(p.name):
                changes, is_changed = p.run(graph, change_log), False
        else:
            outer_limit, budget = shared.mutation_limit, _limit_mutations(graph)
            with change_log.running_pass(p.name, budget):
                change_log.start_change(p.name, "")
                returned: Any = p.run(graph, change_log)
                is_mutated = shared.mutation_count != version
                changes, is_changed = _counted(p, returned, change_log, made, is_mutated=is_mutated)
            shared.mutation_limit = outer_limit
    except (ModelError, UnverifiableError, InstrumentationError, KeyboardInterrupt):
        raise
    except BaseException as e:
        kind = FailureKind.ENDLESS if isinstance(e, NoFixpoint) else FailureKind.RAISED
        is_named = isinstance(e, PassFailed) and (is_group or e.pass_name == p.name)
        code = getattr(function_of(p), "__code__", None)
        is_own = type(p).__module__.partition(".")[0] == __name__.partition(".")[0]  # a pass of this package
        is_misuse = isinstance(e, GraphError | UsageError) or (isinstance(e, RuleError) and not e.rule)
        describe = describe_exception if is_own or not is_misuse else describe_failed_call
        what = describe(e, code)
        failure = e if is_named else PassFailed(p.name, kind, what)
        change_log.call_hooks("failed", p, graph, failure)
        if failure is e:
            raise
        raise failure from e
    if not is_group:
        change_log.passes_run.append(p.name)
        if change_log.validates_graphs and is_changed:  # the groups around a pass need no check
            _require_valid(p, graph)
    change_log.call_hooks("after", p, graph, changes)
    return changes


def function_of(p: Pass) -> Any:
    """The function that rewrites graphs of networkx, of a pass that has one, else the method of the pass."""
    return getattr(p, "rewrite", type(p).run)


def _limit_mutations(graph: Graph) -> int:
    """Limit the mutations in the run of one pass; return the limit of its changes."""
    items = sum(len(g) + len(g.initializers) for g in graph.with_subgraphs())
    budget = BASE_MUTATION_BUDGET + MUTATION_BUDGET_PER_ITEM * items
    graph.context.mutation_limit = graph.context.mutation_count + budget
    return budget


def _counted(p: Pass, returned: Any, change_log: ChangeLog, made: int, *, is_mutated: bool) -> tuple[int, bool]:
    """The number of changes that a pass `returned`, and whether there are any.

    `made` is the number of changes before; mutations not requested from the change log count as one.
    """
    try:
        changes = index(returned)
    except TypeError:
        message = f"run() returned {reprlib.repr(returned)}, not the number of changes"
        raise PassFailed(p.name, FailureKind.RAISED, message) from None
    # Rules that decline after a match also change the mutation count, but never leave the graph changed.
    is_changed = changes > 0 or (is_mutated and not isinstance(p, RulePass))
    if is_changed and change_log.change_count == made:
        change_log.exclusions.atomic_passes.add(p.name)
        change_log.request_change(p.name, "", exact=change_log.exact_only)
        changes = changes or 1
    return changes, is_changed


def _require_valid(p: Pass, graph: Graph) -> None:
    """Raise PassFailed if a pass left an invalid graph."""
    try:
        graph.validate()
    except GraphError as e:
        raise PassFailed(p.name, FailureKind.INVALID, str(e)) from e


@dataclass(frozen=True)
class RulePass:
    """Rules that are applied together until none fires.

    Examples:
        >>> RulePass("drop-relu", (drop_relu,)).run(graph, ChangeLog())
        1
        >>> [op.type for op in graph.ops()]
        ['Add', 'Abs']
    """

    name: str
    rules: tuple[Rule, ...]

    def __post_init__(self) -> None:
        """Check that these are rules with distinct names. Raises UsageError and RuleError."""
        require_type(self.name, str, "RulePass", "a name first")
        require_argument(is_each(self.rules, Rule), "RulePass", "a tuple of rules, such as (first, second)", self.rules)
        known: dict[str, Rule] = {}
        for r in self.rules:
            if (other := known.setdefault(r.name, r)) is not r and other != r:
                codes = (other.build.__code__, r.build.__code__)
                places = (f"{Path(c.co_filename).name}:{c.co_firstlineno}" for c in codes)
                raise RuleError(f"{self.name} has two rules named {r.name}, at {' and at '.join(places)}")

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Apply the rules everywhere. Raises NoFixpoint if they undo each other endlessly."""
        return rewrite(graph, self._index, change_log).total()

    @cached_property
    def _index(self) -> RuleIndex:
        return RuleIndex(self.rules)


def rule_pass(module: ModuleType | str, group: str) -> RulePass:
    """The pass of a module's rules with `group`, in the order of definition; the module may be given by name.

    Raises RuleError if there are none, and UsageError for anything but an imported module.

    Examples:
        >>> @rule(lambda g, x: g.Relu(g.Relu(x)), contract=EXACT, group="drop-clamps")
        ... def drop_relu(g: RewriteBuilder, x: Value) -> Value:
        ...     "Relu(Relu(x)) => Relu(x)"
        ...     return g.Relu(x)
        >>> rule_pass(__name__, "drop-clamps").rules == (drop_relu,)
        True
    """
    found: Any = sys.modules.get(module) if isinstance(module, str) else module
    wanted = 'a module or its name, and the group of rules in it, as in rule_pass(__name__, "my-pass")'
    require_argument(isinstance(found, ModuleType), "rule_pass", wanted, module)
    require_type(group, str, "rule_pass", "the group as a string")
    module = cast("ModuleType", found)
    rules = (item for item in vars(module).values() if isinstance(item, Rule) and item.group == group)
    own = tuple({id(r): r for r in rules if r.build.__module__ == module.__name__}.values())
    if not own:
        raise RuleError(f"{module.__name__} defines no rule with group={group!r}")
    return RulePass(group, own)


def _require_passes(call: str, passes: Any) -> None:
    """Raise UsageError for anything but passes, for example rules."""
    require_argument(isinstance(passes, tuple | list), call, "a tuple of passes", passes)
    for p in cast("Sequence[Any]", passes):
        is_pass = hasattr(p, "run") and hasattr(p, "name") and not isinstance(p, type)
        require_argument(is_pass, call, 'passes, such as RulePass("name", (first, second)) for rules', p)


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Passes in order, run once.

    With `runs` and `obstacle`, its rewrites add only ops that a target supports; `costs` are its costs, by default
    of onnxruntime's CPU provider. With `quantization`, rules may quantize. `fallback`: see Fixpoint.

    Examples:
        >>> once = Pipeline("once", [Fixpoint("none", ())])
        >>> once.name, once.run(graph, ChangeLog())
        ('once', 0)
    """

    name: str
    passes: Sequence[Pass]
    runs: Runs | None = None
    costs: CostModel | None = None
    fallback: str = ""
    quantization: QuantizationSpec | None = None
    obstacle: Callable[[Op], str] | None = None

    def __post_init__(self) -> None:
        """Check that these are passes. Raises UsageError."""
        _require_passes("Pipeline", self.passes)

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Run each pass once."""
        with self.on_target(graph):
            return sum(run_pass(p, graph, change_log) for p in self.passes)

    @contextmanager
    def on_target(self, graph: Graph) -> Generator[None]:
        """Make rewrites of `graph` respect this pipeline's target, if it has one, and its quantization."""
        shared = graph.context
        outer = shared.runs, shared.obstacle, shared.costs, shared.quantization
        shared.runs, shared.costs = self.runs or shared.runs, self.costs or shared.costs
        shared.obstacle = self.obstacle or shared.obstacle
        shared.quantization = self.quantization or shared.quantization
        try:
            yield
        finally:
            shared.runs, shared.obstacle, shared.costs, shared.quantization = outer


@dataclass(frozen=True, slots=True)
class Fixpoint:
    """Passes in order, repeated until none of them changes the graph.

    `fallback` names the pipeline whose result is used if the result of this one is slower than the original; without
    it, the original is used.

    Examples:
        >>> tidy = Fixpoint("tidy", [RulePass("drop-relu", (drop_relu,))], fallback="basic")
        >>> [node.op_type for node in optimize(model, pipeline=tidy).model.graph.node]
        ['Abs', 'Add']
    """

    name: str
    passes: Sequence[Pass]
    patience: int = 50
    fallback: str = ""

    def __post_init__(self) -> None:
        """Check that these are passes. Raises UsageError."""
        _require_passes("Fixpoint", self.passes)

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Run to the fixpoint. Raises NoFixpoint after `patience` rounds without shrinking the model."""
        total, settled = 0, [-1] * len(self.passes)
        least, idle = total_op_count(graph), 0
        changed: list[str] = []
        while idle < self.patience:
            before = total
            changed.clear()
            for i, p in enumerate(self.passes):
                if settled[i] == graph.context.mutation_count:
                    continue  # the graph has not changed since this pass did nothing
                changes = run_pass(p, graph, change_log)
                if changes:
                    changed.append(p.name)
                total += changes
                settled[i] = -1 if changes else graph.context.mutation_count
            if total == before:
                return total
            size = total_op_count(graph)
            least, idle = (size, 0) if size < least else (least, idle + 1)
        advice = f'--skip {changed[-1]} leaves one out, and stage="final" runs one of a plugin once, after all others'
        what = f"{', '.join(changed)}: still changing after {self.patience} idle rounds; {advice}"
        raise NoFixpoint(what, changed[::-1])


def fallback_of(p: Pass) -> str:
    """The name of the pipeline to fall back to; "" for the original."""
    return p.fallback if isinstance(p, Pipeline | Fixpoint) else ""


def find_pass(p: Pass, name: str) -> Pass | None:
    """The pass with that name: `p` itself or one in it."""
    return next((q for q in (p, *nested_passes(p)) if q.name == name), None)


def rules_in(p: Pass) -> tuple[Any, ...]:
    """The `rules` of a single pass, ours or another tool's; each has a name."""
    rules: Any = getattr(p, "rules", ())
    held = cast("tuple[Any, ...]", rules) if isinstance(rules, tuple | list) else ()
    return tuple(r for r in held if hasattr(r, "name"))


def rule_names(p: Pass) -> frozenset[str]:
    """The names under which a single pass records its changes; empty if it uses its own name."""
    return frozenset(str(r.name) for r in rules_in(p))


def has_rule(p: Pass, pass_name: str, name: str) -> bool:
    """Whether the named pass, `p` itself or one in it, records changes under `name`."""
    item = find_pass(p, pass_name)
    return item is not None and name in rule_names(item)


def selectable_rules(p: Pass) -> tuple[Any, ...]:
    """The rules of a single pass that can be deselected, which are in one of its fields."""
    is_field = is_dataclass(p) and any(f.name == "rules" and f.init for f in fields(p))
    return rules_in(p) if is_field else ()


def with_rules(p: Pass, rules: Sequence[Any]) -> Pass:
    """A pass with some of its rules; the pass itself if these are all selectable ones."""
    if len(rules) == len(selectable_rules(p)):
        return p
    return cast("Pass", replace(cast("Any", p), rules=tuple(rules)))


def leaves(p: Pass) -> list[Pass]:
    """The distinct passes that contain no others, in order.

    Examples:
        >>> inner = Fixpoint("inner", [RulePass("a", ()), RulePass("b", ())])
        >>> [p.name for p in leaves(Pipeline("outer", [inner, RulePass("c", ())]))]
        ['a', 'b', 'c']
    """
    if isinstance(p, Pipeline | Fixpoint):
        return list({leaf.name: leaf for inner in p.passes for leaf in leaves(inner)}.values())
    return [p]


def selectable_names(p: Pass) -> set[str]:
    """The names of all passes and rules in a pipeline, and of the groups inside it."""
    rules = {r.name for leaf in leaves(p) for r in selectable_rules(leaf)}
    return rules | {inner.name for inner in nested_passes(p)}


def nested_passes(p: Pass) -> Iterator[Pass]:
    """Yield the passes and groups inside a pipeline, with repetitions; a pass without inner passes yields itself."""
    if not isinstance(p, Pipeline | Fixpoint):
        yield p
        return
    for q in p.passes:
        if isinstance(q, Pipeline | Fixpoint):
            yield q
        yield from nested_passes(q)


def select(p: Pass, only: Collection[str] = (), skip: Collection[str] = ()) -> Pass:
    """Select `only` the named passes and rules, or all that are not in `skip`. Raises UnknownNameError."""
    if not only and not skip:
        return p  # reuses the indexes that its passes built in earlier runs
    names = (*only, *skip)
    known = selectable_names(p) if names else set[str]()
    for name in names:
        if name not in known:
            near = (
                did_you_mean(name, known) or " (see `passes list --search`; add passes outside pipelines with --enable)"
            )
            raise UnknownNameError(f"no pass or rule of the pipeline is named {name}{near}")
    return _select(p, set(only) or selectable_names(p), set(skip))


def exclude(p: Pass, names: Collection[str]) -> Pass:
    """Remove the named passes from a pipeline; rules with these names are kept."""
    if p.name in names:
        return Pipeline(p.name, ())
    if isinstance(p, Pipeline | Fixpoint):
        return replace(p, passes=tuple(exclude(q, names) for q in p.passes if q.name not in names))
    return p


def _select(p: Pass, only: set[str], skip: set[str]) -> Pass:
    if isinstance(p, Pipeline | Fixpoint):
        chosen = [
            q for q in p.passes if q.name not in skip and (q.name in only or not only.isdisjoint(selectable_names(q)))
        ]
        return replace(p, passes=tuple(_select(q, _effective_only(q, only), skip) for q in chosen))
    rules = selectable_rules(p)
    is_whole = p.name in only and only.isdisjoint(r.name for r in rules)
    return with_rules(p, [r for r in rules if r.name not in skip and (is_whole or r.name in only)])


def _effective_only(p: Pass, only: set[str]) -> set[str]:
    """`only`, or all names of a group that is named without any of its members."""
    names = selectable_names(p)
    return names if p.name in only and only.isdisjoint(names - {p.name}) else only


def map_passes(p: Pass, transform: Callable[[Pass], Pass]) -> Pass:
    """Apply `transform` to each pass of a pipeline."""
    if isinstance(p, Pipeline | Fixpoint):
        return replace(p, passes=tuple(map_passes(q, transform) for q in p.passes))
    return transform(p)
