"""The changes of a rule or pass in a run, and the reasons why it made no others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from operator import attrgetter
from typing import Any

import networkx as nx
from msgspec import Struct, field, structs

from ...core.errors import FailureKind, ModelError, plugin_failures
from ...core.io.model import Model
from ...core.io.model_source import ModelLike, model_source, transformed_source
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import publish_text
from ...core.ir.graph import Graph
from ...core.ir.op import Op
from ...core.rewriting.change_log import Change
from ...core.rewriting.pattern import OpPattern
from ...core.rewriting.rules import Rule
from ...core.run.failures import RejectedChange
from ...core.run.instrumentation import Instrumentation
from ...core.run.phase_timer import PhaseTimer
from ...core.run.pipeline import Fixpoint, Pass, Pipeline, RemarkingPass, RulePass, leaves, rule_names, selectable_rules
from ...core.run.pipeline_run import PipelineRun
from ...core.support.gc_pause import gc_paused
from ...core.support.suggestions import did_you_mean
from ..optimize.match_report import MatchReport, report_matches
from ..optimize.run_options import plugin_files
from ..optimize.run_setup import optional_transforms
from ..options import with_process_options
from ..registry.environment import versions
from ..registry.pass_sources import Decompositions, Subject, find_subject
from ..registry.resolved_pipeline import resolve_pipeline
from ..report.descriptions import pass_doc
from ..report.notebook import report_card, report_json, report_line
from ..report.progress import phase_callback, with_keywords_after_two
from .explain_options import ExplainOptions

NO_ROOTS = (2,)
"""The rank of a rule without a root op."""


class RuleExplanation(Struct, frozen=True):
    """One rule: its changes in the run, and its matches and near misses in the result (or in the file, if `as_is`)."""

    name: str
    pass_name: str
    equation: str
    contract: str
    changes: list[Change]
    match_report: MatchReport | None

    @property
    def rank(self) -> tuple[int, ...]:
        """The rank in reports: first rules that fire, then near misses, then rules without roots."""
        if self.changes or self.match_report is None or self.match_report.matches:
            return (0,)
        if not self.match_report.near_misses:
            return NO_ROOTS
        nearest = self.match_report.near_misses[0]
        return (1, *nearest.rank[:2], -nearest.matched, *nearest.rank[2:])  # a larger match is more relevant


class PassExplanation(Struct, frozen=True):
    """One pass without rules, and therefore without patterns to compare.

    `declines` has the reasons why its last run did not make a change, by place.
    """

    name: str
    summary: str
    changes: list[Change]
    declines: dict[str, str]


@dataclass(slots=True)
class Explanation:
    """The matches, changes and near misses of `subject`, a rule, pass or pipeline; the nearest `rules` come first.

    Nothing is verified. `is_group`: the subject is a pipeline or group of passes. `as_is`: no pipeline ran, and the
    rules were matched in the file as loaded. `at`: the node or value to which the explanation is limited. `rejected`:
    the changes that failed and were skipped in the run.

    Examples:
        >>> found = explain("model.onnx", "fuse-gemm")
        >>> [(r.name, r.changes) for r in found.rules if r.match_report is None]
        []
    """

    source: str
    subject: str
    is_group: bool
    pipeline: str
    as_is: bool
    at: str
    rules: list[RuleExplanation]
    passes: list[PassExplanation]
    rejected: list[RejectedChange]
    notes: list[str]
    seconds: dict[str, float]
    versions: dict[str, str]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    to_json, __repr__, _repr_html_ = report_json, report_line, report_card


class _RunOutcome(Struct, frozen=True):
    """A model, the changes that led to it (none if it is as loaded), and the declined and rejected changes."""

    model: Model
    changes: Sequence[Change] = ()
    declines: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    rejected: Sequence[RejectedChange] = ()


class _InnerPasses(Instrumentation):
    """The passes that each pass runs through `run_pass`, in the last repetition of a run."""

    def __init__(self) -> None:
        self.by_name: dict[str, dict[str, Pass]] = {}
        self._running: list[Pass] = []

    def start(self, model: Model) -> None:  # noqa: ARG002 - of the base class
        """Forget an earlier repetition."""
        self.by_name.clear()
        self._running.clear()

    def before(self, p: Pass, graph: Graph) -> None:  # noqa: ARG002 - of the base class
        """Add a pass to all passes that run it, except groups."""
        for outer in (q for q in self._running if not isinstance(q, Pipeline | Fixpoint)):
            self.by_name.setdefault(outer.name, {})[p.name] = p
        self._running.append(p)

    def after(self, p: Pass, graph: Graph, changes: int) -> None:  # noqa: ARG002 - of the base class
        """Return to the enclosing pass."""
        self._running.pop()

    def extend(self, subject: Subject) -> Subject:
        """The subject, extended by the passes that it ran and their rules."""
        inner = {name: p for q in subject.passes for name, p in self.by_name.get(q.name, {}).items()}
        single = [p for p in inner.values() if not isinstance(p, Pipeline | Fixpoint)]
        rules = tuple((r, p) for p in single if isinstance(p, RulePass) for r in p.rules)
        others = tuple(p for p in single if not isinstance(p, RulePass))
        return structs.replace(subject, rules=subject.rules + rules, passes=subject.passes + others)


@with_process_options
def explain_model(model: ModelLike, name: str, options: ExplainOptions) -> Explanation:
    """Show where the rule, pass or group `name` applies in a run of `pipeline`, and why not elsewhere in the result.

    With `as_is`, match in the model as loaded instead. `at` limits the explanation to a node, or to the producer of a
    value. `limit` is the number of near misses to keep for each rule, the nearest first. Other parameters mean the same
    as for `optimize`, but nothing is verified and no model is written. Raises ModelError for an unusable model and for
    an unknown node or value, UnknownNameError, and PluginError.

    Examples:
        >>> found = explain("model.onnx", "fuse-gemm")
        >>> found.subject
        'fuse-gemm'
    """
    timer = PhaseTimer(phase_callback(options.progress))
    source = model_source(model, inline=not options.keep_functions)
    paths = OutputPaths.of(report=options.json)
    inputs = [*source.files, *plugin_files(options.plugin), *options.custom_operator_files]
    paths.require_distinct(inputs)
    choice = resolve_pipeline(options.pipeline, options.plugin, (), (), options.enabled, options.target)
    source = transformed_source(source, [*optional_transforms(options), *choice.transforms])
    subject = find_subject(name, choice.pipeline, options.plugin)
    with gc_paused(), timer.phase("loading"):
        original = source.load()
    paths.require_distinct(inputs)
    chosen, unfit = choice.for_opsets(original.graph.opsets)
    target = chosen if isinstance(chosen, Pipeline) else Pipeline("any target", ())
    if options.at:
        _require_op_name(options.at, original.graph)
    types = Counter(op.type for g in original.graph.with_subgraphs() for op in g.ops() if not options.at)
    run = _RunOutcome(original)
    if (
        not options.as_is or subject.passes
    ):  # passes without patterns run on a copy of the model if it is explained as loaded
        pipeline = replace(target, name="as it is", passes=_whole(subject.passes, chosen)) if options.as_is else chosen
        inner = _InnerPasses()
        attempt = PipelineRun(
            source.load, pipeline, options.exact, timer, record_changes=True, instruments=[inner] * bool(subject.passes)
        )
        result = attempt.rewrite(source.load() if options.as_is else original)
        subject = inner.extend(subject)
        explained, log = original if options.as_is else result.model, result.change_log
        run = _RunOutcome(explained, log.changes, log.declines, attempt.rejected)
    with gc_paused(), timer.phase("explaining"), target.on_target(run.model.graph):
        layers = _downstream_layers(_ops_named(run.model.graph, options.at)) if options.at else None
        rules = [_explain_rule(r, p, run, layers, types, options) for r, p in subject.rules]
        made = [c for c in run.changes if not options.at or _concerns(c, options.at)]
        passes = list[PassExplanation]()
        for p in subject.passes:
            own = rule_names(p)  # changes are in the name of the pass or of one of its rules
            by_pass = [c for c in made if c.pass_name == p.name and (not own or c.by in {p.name, *own})]
            declines = _declines(p, name, run, options.at)
            passes.append(PassExplanation(p.name, pass_doc(p).partition("\n")[0], by_pass, declines))
    subjects = {p.name for p in (*subject.passes, *(p for _, p in subject.rules))}
    names = subjects | {r.name for r, _ in subject.rules}
    notes = [str(u) for u in unfit if u.pass_name in subjects]
    for p in (p for p in subject.passes if isinstance(p, RemarkingPass)):
        with plugin_failures(f"{p.name} gives no remarks"):
            notes += (f"{p.name}: {remark}" for remark in p.remarks(run.model.graph, exact_only=options.exact))
    if not subject.in_pipeline:
        targets = [p.name for _, p in subject.rules if isinstance(p, Decompositions)]
        how = f"it with `--target {targets[0]}`" if targets else "its pass with `--enable`"
        notes.append(f"{name} is not in the pipeline {chosen.name}; `passes run` runs {how}")
    if options.at and not _ops_named(run.model.graph, options.at):
        last = next((c for c in reversed(run.changes) if _concerns(c, options.at)), None)
        who = f": {last.by} {last.where} changed it last (#{last.ordinal})" if last is not None else ""
        notes.append(f"{options.at} no longer exists{who}")
    found = Explanation(
        source.label, name, subject.is_group, chosen.name, options.as_is, options.at,
        sorted(rules, key=attrgetter("rank")), passes, [q for q in run.rejected if q.by in names], notes,
        timer.seconds, versions(),
            options=options.chosen,
    )  # fmt: skip
    publish_text(paths.report, found.to_json)
    return found


explain = with_keywords_after_two(ExplainOptions, "explain")(explain_model)


def _explain_rule(
    r: Rule, p: Pass, run: _RunOutcome, layers: list[list[Op]] | None, types: Counter[str], options: ExplainOptions
) -> RuleExplanation:
    """Explain a rule of a pass, in the whole model or near the ops in the first of `layers`."""
    changes = [c for c in run.changes if c.by == r.name and (not options.at or _concerns(c, options.at))]
    report = None
    if not any(q.by == r.name and q.failure_kind == FailureKind.ENDLESS for q in run.rejected):
        selected = _pattern_roots(layers, r).__contains__ if layers is not None else None
        report = report_matches(r, run.model.graph, options.limit, selected, exact_only=options.exact)
        if not report.roots and not changes:
            report = structs.replace(report, remark=report.remark + _lost_roots(r, types, run))
    return RuleExplanation(r.name, p.name, r.equation, str(r.contract), changes, report)


def _whole(passes: Sequence[Pass], pipeline: Pass) -> list[Pass]:
    """The passes; those that legalize get all decompositions of the pipeline, because they plan chains of them."""
    from ...passes.legalization import Legalize  # noqa: PLC0415 - few rules are explained in a file as it is

    complete = {p.name: p for p in leaves(pipeline) if isinstance(p, Legalize)}
    return [complete.get(p.name, p) for p in passes]


def _declines(p: Pass, name: str, run: _RunOutcome, at: str) -> dict[str, str]:
    """The reasons of a pass, or of its rule with that name, by place; reasons of several rules are combined."""
    found: dict[str, list[str]] = {}
    rules = [r.name for r in selectable_rules(p)]
    for by in [name] if name in rules else [p.name, *rules]:
        for place, why in run.declines.get(by, {}).items():
            if at in {"", place}:
                found.setdefault(place, []).append(why)
    return {place: "; ".join(reasons) for place, reasons in found.items()}


def _lost_roots(r: Rule, types: Counter[str], run: _RunOutcome) -> str:
    """Name the change that replaced the last possible root of a rule, if the file had one."""
    count, heads = sum(types[t] for t in r.root_types), tuple(f"{t} " for t in r.root_types)
    last = next((c for c in reversed(run.changes) if any(label.startswith(heads) for label in c.replaced)), None)
    if last is None or not count:
        return ""
    return f"; the file had {count}, and the last was removed by {last.by} {last.where} (#{last.ordinal})"


def _concerns(change: Change, name: str) -> bool:
    """Whether a change was made at a value with that name, or replaced it or its producer."""
    return change.place == name or any(label == name or label.endswith(f" {name}") for label in change.replaced)


def _ops_named(graph: Graph, name: str) -> list[Op]:
    """The nodes with that name, and the producers of values with that name, including bodies."""
    return [op for g in graph.with_subgraphs() for op in g.ops() if name in (op.name, *(v.name for v in op.outputs))]


def _require_op_name(name: str, graph: Graph) -> None:
    """Raise ModelError if no node, and no value that a node produces, has this name."""
    ops = [op for g in graph.with_subgraphs() for op in g.ops()]
    names = {n for op in ops for n in (op.name, *(v.name for v in op.outputs)) if n}
    if name not in names:
        raise ModelError(f"no node or value is named {name}{did_you_mean(name, names)}")


def _downstream_layers(ops: list[Op]) -> list[list[Op]]:
    """The ops, then the consumers of their results, and so on; each op once. O(V + E)."""
    by_graph = [nx.bfs_layers(g.nx, {op for op in ops if op.graph is g}) for g in dict.fromkeys(op.graph for op in ops)]
    return [[n for n in chain(*layers) if isinstance(n, Op)] for layers in zip_longest(*by_graph, fillvalue=())][::2]


def _pattern_roots(layers: list[list[Op]], rule: Rule) -> set[Op]:
    """The possible roots of a pattern in the first layer; if there are none, all from which one reaches that layer."""
    roots = {op for op in chain(*layers[:1]) if op.type in rule.root_types}
    return roots or set(chain(*layers[: max(map(_depth, rule.patterns))]))


def _depth(pattern: OpPattern) -> int:
    """The number of operators on the longest path of a pattern."""
    return 1 + max(map(_depth, (*pattern.parts, *pattern.others)), default=0)
