"""`explain`: where a rule or pass changed a model, and what kept it from changing more."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from pathlib import Path

import onnx

from ...core.errors import FailureKind
from ...core.io.model import Model
from ...core.io.model_source import ModelSource, model_source
from ...core.io.output_paths import OutputPaths
from ...core.pass_manager.attempt_check import CheckOptions
from ...core.pass_manager.pass_manager import PassManager
from ...core.pass_manager.phase_timer import PhaseTimer
from ...core.pass_manager.pipeline import Pass, Pipeline, rule_names
from ...core.pass_manager.quarantine import Quarantine, Quarantined
from ...core.pass_manager.report import SkippedPass, write_json
from ...core.pass_manager.verified_run import VerifiedRun
from ...core.rewriting.changes import Change
from ...core.rewriting.rules import Rule
from ...core.support.gc_pause import gc_paused
from ...core.transform.model_edits import edited_source, requested_edits
from ..environment import versions
from ..listing.listing import pass_doc
from ..registry.pass_sources import PluginLike
from ..registry.resolved_pipeline import resolve_pipeline
from ..registry.subject import Subject, find_subject
from .match_report import MatchReport, report_matches
from .op_lookup import all_op_names, downstream_layers, ops_named, pattern_roots_near, require_op_name

NO_ROOTS = (2,)
"""The rank of a rule that has nothing to start at."""


@dataclass(frozen=True, slots=True)
class RuleExplanation:
    """One rule: the changes it `changes` in the run, and where it stands in what is left (or in the file, as it is)."""

    name: str
    pass_name: str
    equation: str
    contract: str
    changes: list[Change]
    match_report: MatchReport | None

    @property
    def rank(self) -> tuple[int, ...]:
        """The lower, the more it has to say: what fires, then what nearly does, then what has nowhere to start."""
        if self.changes or self.match_report is None or self.match_report.matches:
            return (0,)
        if not self.match_report.near_misses:
            return NO_ROOTS
        nearest = self.match_report.near_misses[0]
        return (1, *nearest.rank[:2], -nearest.matched, *nearest.rank[2:])  # of large patterns it says more to fit


@dataclass(frozen=True, slots=True)
class PassExplanation:
    """One pass that is not made of rules, and so has no pattern to compare: what it is, and the changes it made."""

    name: str
    summary: str
    changes: list[Change]


@dataclass(slots=True)
class Explanation:
    """What there is to say on `subject`, a rule, pass or pipeline; the nearest `rules` come first.

    Nothing of it is verified: it is about matching. `is_group`: whether it is a pipeline or group of passes. `as_is`:
    no pipeline was run; the rules were held to the file as it is loaded. `at`: only what is around that node or value.
    `quarantined`: what the run had to leave out, since it failed.
    """

    source: str
    subject: str
    is_group: bool
    pipeline: str
    as_is: bool
    at: str
    rules: list[RuleExplanation]
    passes: list[PassExplanation]
    quarantined: list[Quarantined]
    notes: list[str]
    seconds: dict[str, float]
    versions: dict[str, str]

    def to_json(self) -> str:
        """The explanation as JSON text."""
        return json.dumps(asdict(self), indent=1, allow_nan=False)


def explain(
    model: onnx.ModelProto | str | Path,
    name: str,
    pipeline: str | Pass = "basic",
    plugins: Sequence[PluginLike] = (),
    *,
    as_is: bool = False,
    at: str = "",
    limit: int = 10,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    enable: Collection[str] = (),
    exact: bool = False,
    keep_functions: bool = False,
    report_to: str | Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Explanation:
    """Say where the rule, pass or group `name` fires in a run of `pipeline`, and why not elsewhere in what is left.

    `as_is` holds it to the model as it is loaded instead. `at`: a node or a value that one makes, to hear of that
    alone. `limit` near misses are kept for each rule, the nearest. The rest is as for `optimize`, but nothing is
    verified and no model is written. Raises ModelError for a model or a place in it that is not to be had,
    UnknownNameError, PluginError.
    """
    watch = PhaseTimer(progress)
    source = edited_source(model_source(model, inline=not keep_functions), requested_edits(shapes, dims))
    places = OutputPaths(report=Path(report_to) if report_to is not None else None)
    others = [Path(p) for p in plugins if isinstance(p, str | Path)]
    places.require_writable((*source.files, *others))
    choice = resolve_pipeline(pipeline, plugins, (), (), enable)
    subject = find_subject(name, choice.pipeline, plugins)
    with gc_paused(), watch.phase("loading"):
        original = source.load()
    places.require_writable((*source.files, *others))
    chosen, unfit = choice.for_opsets(original.graph.opsets)
    if at:
        require_op_name(at, all_op_names(original.graph))
    types = Counter(op.type for g in original.graph.with_subgraphs() for op in g.ops() if not at)
    run = (
        _run_as_loaded(source, original, subject, watch, exact)
        if as_is
        else _run_pipeline(source, original, chosen, watch, exact)
    )
    with gc_paused(), watch.phase("explaining"):
        rules, passes = _explain_subject(subject, run, at, limit, exact)
        rules = [_note_removed_roots(e, r, types, run.changes) for e, (r, _) in zip(rules, subject.rules, strict=True)]
    found = Explanation(
        source.label, name, subject.is_group, chosen.name, as_is, at, sorted(rules, key=attrgetter("rank")), passes,
        _concerning_subject(subject, run.quarantined),
        [*_unfit_notes(subject, unfit), *_notes(subject, run, name, chosen.name, at)], watch.seconds, versions(),
    )  # fmt: skip
    if places.report is not None:
        write_json(found.to_json(), places.report)
    return found


@dataclass(frozen=True, slots=True)
class _RunOutcome:
    """A model to look at, the changes that led to it (none, if it is as it was loaded), and what was left out."""

    model: Model
    changes: list[Change]
    quarantined: list[Quarantined]


def _run_pipeline(source: ModelSource, original: Model, chosen: Pass, timer: PhaseTimer, exact: bool) -> _RunOutcome:
    """The model after the pipeline, less what raised, did not end or broke the graph."""
    quarantine = Quarantine(PassManager(source.load, chosen, exact), CheckOptions())
    proof = VerifiedRun(source, quarantine, timer, record_changes=True)
    model = proof.start(original)
    return _RunOutcome(model, proof.checked.attempt.ledger.changes, quarantine.quarantined)


def _run_as_loaded(
    source: ModelSource, original: Model, subject: Subject, timer: PhaseTimer, exact: bool
) -> _RunOutcome:
    """The model as it is loaded; what passes without rules would do to it is found out on another load."""
    if not subject.passes:
        return _RunOutcome(original, [], [])
    run = _run_pipeline(source, source.load(), Pipeline("as it is", subject.passes), timer, exact)
    return _RunOutcome(original, run.changes, run.quarantined)


def _explain_subject(
    subject: Subject, run: _RunOutcome, at: str, limit: int, exact: bool
) -> tuple[list[RuleExplanation], list[PassExplanation]]:
    graph = run.model.graph
    made = [c for c in run.changes if not at or _touches(c, at)]
    layers = downstream_layers(ops_named(graph, at)) if at else None
    hung = {q.by for q in run.quarantined if q.failure_kind == FailureKind.ENDLESS}
    rules: list[RuleExplanation] = []
    for r, p in subject.rules:
        here = pattern_roots_near(layers, r.pattern).__contains__ if layers is not None else None
        left = None if r.name in hung else report_matches(r, graph, limit, here, exact_only=exact)
        rules.append(
            RuleExplanation(r.name, p.name, r.equation, str(r.contract), [c for c in made if c.by == r.name], left)
        )
    passes = [
        PassExplanation(p.name, pass_doc(p).partition("\n")[0], [c for c in made if _is_by(c, p)])
        for p in subject.passes
    ]
    return rules, passes


def _is_by(change: Change, p: Pass) -> bool:
    """Whether a pass made a change, in its own name or that of a rule that it has."""
    rules = rule_names(p)
    return change.pass_name == p.name and (not rules or change.by in {p.name, *rules})


def _note_removed_roots(
    explanation: RuleExplanation, r: Rule, types: Mapping[str, int], changes: Sequence[Change]
) -> RuleExplanation:
    """Add where the ops went at which a rule could have started, if it came too late for all of them."""
    count = sum(types.get(t, 0) for t in r.pattern.types)
    if explanation.match_report is None or explanation.match_report.roots or explanation.changes or not count:
        return explanation
    heads = tuple(f"{t} " for t in r.pattern.types)
    last = next((c for c in changes[::-1] if any(label.startswith(heads) for label in c.replaced)), None)
    if last is None:
        return explanation
    gone = f"; the file had {count}, and the last went with {last.by} {last.where} (#{last.ordinal})"
    return replace(
        explanation, match_report=replace(explanation.match_report, remark=explanation.match_report.remark + gone)
    )


def _touches(change: Change, name: str) -> bool:
    """Whether a change was made at a value of that name, or replaced it or its maker."""
    return change.place == name or any(label == name or label.endswith(f" {name}") for label in change.replaced)


def _concerning_subject(subject: Subject, quarantined: Sequence[Quarantined]) -> list[Quarantined]:
    names = {r.name for r, _ in subject.rules} | {p.name for _, p in subject.rules} | {p.name for p in subject.passes}
    return [q for q in quarantined if q.by in names]


def _unfit_notes(subject: Subject, unfit: Sequence[SkippedPass]) -> list[str]:
    """What is asked about and did not run, as it is not for this model."""
    asked = {p.name for p in (*subject.passes, *(p for _, p in subject.rules))}
    return [str(u) for u in unfit if u.pass_name in asked]


def _notes(subject: Subject, run: _RunOutcome, name: str, pipeline: str, at: str) -> list[str]:
    """What else there is to know."""
    notes: list[str] = []
    if not subject.in_pipeline:
        notes.append(f"{name} is not in the pipeline {pipeline}; `passes run` takes its pass with --enable")
    if at and not ops_named(run.model.graph, at):
        last = next((c for c in run.changes[::-1] if _touches(c, at)), None)
        who = f": {last.by} {last.where} was the last to change it (#{last.ordinal})" if last is not None else ""
        notes.append(f"{at} is not there any more{who}")
    return notes
