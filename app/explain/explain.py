"""`explain`: where a rule or pass changed a model, and what kept it from changing more."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from operator import attrgetter
from pathlib import Path

import onnx

from ...core.errors import Why
from ...core.io.model import Model
from ...core.io.model_source import Source, source_of
from ...core.io.output_paths import Places
from ...core.pass_manager.attempt_check import Look
from ...core.pass_manager.pass_manager import Manager
from ...core.pass_manager.phase_timer import Stopwatch
from ...core.pass_manager.pipeline import Pass, Pipeline, rule_names
from ...core.pass_manager.quarantine import Quarantine, Quarantined
from ...core.pass_manager.report import Unfit, write_json
from ...core.pass_manager.verified_run import Proof
from ...core.rewriting.changes import Change
from ...core.rewriting.rules import Rule
from ...core.support.gc_pause import no_collection
from ...core.transform.model_edits import edited, edits_for
from ..environment import versions
from ..listing.listing import doc_of
from ..registry.pass_sources import Given
from ..registry.resolved_pipeline import choose
from ..registry.subject import Subject, subject_of
from .match_report import Account, account
from .op_lookup import all_op_names, named_ops, require_known, roots_around

NOWHERE = (2,)
"""The rank of a rule that has nothing to start at."""


@dataclass(frozen=True, slots=True)
class RuleExplained:
    """One rule: the changes it `made` in the run, and where it stands in what is left (or in the file, as it is)."""

    name: str
    pass_name: str
    equation: str
    contract: str
    made: list[Change]
    left: Account | None

    @property
    def rank(self) -> tuple[int, ...]:
        """The lower, the more it has to say: what fires, then what nearly does, then what has nowhere to start."""
        if self.made or self.left is None or self.left.fires:
            return (0,)
        if not self.left.misses:
            return NOWHERE
        nearest = self.left.misses[0]
        return (1, *nearest.rank[:2], -nearest.matched, *nearest.rank[2:])  # of large patterns it says more to fit


@dataclass(frozen=True, slots=True)
class PassExplained:
    """One pass that is not made of rules, and so has no pattern to compare: what it is, and the changes it made."""

    name: str
    summary: str
    made: list[Change]


@dataclass(slots=True)
class Explanation:
    """What there is to say on `subject`, a rule, pass or pipeline; the nearest `rules` come first.

    Nothing of it is verified: it is about matching. `is_group`: whether it is a pipeline or group of passes. `as_is`:
    no pipeline was run; the rules were held to the file as it is loaded. `at`: only what is around that node or value.
    `left_out`: what the run had to leave out, since it failed.
    """

    source: str
    subject: str
    is_group: bool
    pipeline: str
    as_is: bool
    at: str
    rules: list[RuleExplained]
    passes: list[PassExplained]
    left_out: list[Quarantined]
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
    plugins: Sequence[Given] = (),
    *,
    as_is: bool = False,
    at: str = "",
    most: int = 10,
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
    alone. `most` near misses are kept for each rule, the nearest. The rest is as for `optimize`, but nothing is
    verified and no model is written. Raises ModelError for a model or a place in it that is not to be had,
    UnknownName, PluginError.
    """
    watch = Stopwatch(progress)
    source = edited(source_of(model, inline=not keep_functions), edits_for(shapes, dims))
    places = Places(report=Path(report_to) if report_to is not None else None)
    others = [Path(p) for p in plugins if isinstance(p, str | Path)]
    places.require((*source.files, *others))
    choice = choose(pipeline, plugins, (), (), enable)
    subject = subject_of(name, choice.pipeline, plugins)
    with no_collection(), watch.phase("loading"):
        original = source.load()
    places.require((*source.files, *others))
    chosen, unfit = choice.fitting(original.graph.opsets)
    if at:
        require_known(at, all_op_names(original.graph))
    types = Counter(op.type for g in original.graph.with_subgraphs() for op in g.ops() if not at)
    run = _as_loaded(source, original, subject, watch, exact) if as_is else _run(source, original, chosen, watch, exact)
    with no_collection(), watch.phase("explaining"):
        rules, passes = _explained(subject, run, at, most, exact)
        rules = [_with_what_was_there(e, r, types, run.changes) for e, (r, _) in zip(rules, subject.rules, strict=True)]
    found = Explanation(
        source.label, name, subject.is_group, chosen.name, as_is, at, sorted(rules, key=attrgetter("rank")), passes,
        _of_subject(subject, run.left_out),
        [*_unfit(subject, unfit), *_notes(subject, run, name, chosen.name, at)], watch.seconds, versions(),
    )  # fmt: skip
    if places.report is not None:
        write_json(found.to_json(), places.report)
    return found


@dataclass(frozen=True, slots=True)
class _Run:
    """A model to look at, the changes that led to it (none, if it is as it was loaded), and what was left out."""

    model: Model
    changes: list[Change]
    left_out: list[Quarantined]


def _run(source: Source, original: Model, chosen: Pass, watch: Stopwatch, exact: bool) -> _Run:
    """The model after the pipeline, less what raised, did not end or broke the graph."""
    quarantine = Quarantine(Manager(source.load, chosen, exact), Look())
    proof = Proof(source, quarantine, watch, record=True)
    model = proof.start(original)
    return _Run(model, proof.trial.attempt.ledger.changes, quarantine.found)


def _as_loaded(source: Source, original: Model, subject: Subject, watch: Stopwatch, exact: bool) -> _Run:
    """The model as it is loaded; what passes without rules would do to it is found out on another load."""
    if not subject.passes:
        return _Run(original, [], [])
    run = _run(source, source.load(), Pipeline("as it is", subject.passes), watch, exact)
    return _Run(original, run.changes, run.left_out)


def _explained(
    subject: Subject, run: _Run, at: str, most: int, exact: bool
) -> tuple[list[RuleExplained], list[PassExplained]]:
    graph = run.model.graph
    made = [c for c in run.changes if not at or _touches(c, at)]
    focus = named_ops(graph, at) if at else None
    hung = {q.by for q in run.left_out if q.why == Why.ENDLESS}
    rules: list[RuleExplained] = []
    for r, p in subject.rules:
        here = roots_around(focus, r.pattern).__contains__ if focus is not None else None
        left = None if r.name in hung else account(r, graph, most, here, exact_only=exact)
        rules.append(
            RuleExplained(r.name, p.name, r.equation, str(r.contract), [c for c in made if c.by == r.name], left)
        )
    passes = [
        PassExplained(p.name, doc_of(p).partition("\n")[0], [c for c in made if _is_by(c, p)]) for p in subject.passes
    ]
    return rules, passes


def _is_by(change: Change, p: Pass) -> bool:
    """Whether a pass made a change, in its own name or that of a rule that it has."""
    rules = rule_names(p)
    return change.pass_name == p.name and (not rules or change.by in {p.name, *rules})


def _with_what_was_there(
    told: RuleExplained, r: Rule, types: Mapping[str, int], changes: Sequence[Change]
) -> RuleExplained:
    """Add where the ops went at which a rule could have started, if it came too late for all of them."""
    count = sum(types.get(t, 0) for t in r.pattern.types)
    if told.left is None or told.left.roots or told.made or not count:
        return told
    heads = tuple(f"{t} " for t in r.pattern.types)
    last = next((c for c in changes[::-1] if any(label.startswith(heads) for label in c.replaced)), None)
    if last is None:
        return told
    gone = f"; the file had {count}, and the last went with {last.by} {last.where} (#{last.ordinal})"
    return replace(told, left=replace(told.left, remark=told.left.remark + gone))


def _touches(change: Change, name: str) -> bool:
    """Whether a change was made at a value of that name, or replaced it or its maker."""
    return change.place == name or any(label == name or label.endswith(f" {name}") for label in change.replaced)


def _of_subject(subject: Subject, left_out: Sequence[Quarantined]) -> list[Quarantined]:
    names = {r.name for r, _ in subject.rules} | {p.name for _, p in subject.rules} | {p.name for p in subject.passes}
    return [q for q in left_out if q.by in names]


def _unfit(subject: Subject, unfit: Sequence[Unfit]) -> list[str]:
    """What is asked about and did not run, as it is not for this model."""
    asked = {p.name for p in (*subject.passes, *(p for _, p in subject.rules))}
    return [str(u) for u in unfit if u.pass_name in asked]


def _notes(subject: Subject, run: _Run, name: str, pipeline: str, at: str) -> list[str]:
    """What else there is to know."""
    notes: list[str] = []
    if not subject.in_pipeline:
        notes.append(f"{name} is not in the pipeline {pipeline}; `passes run` takes its pass with --enable")
    if at and not named_ops(run.model.graph, at):
        last = next((c for c in run.changes[::-1] if _touches(c, at)), None)
        who = f": {last.by} {last.where} was the last to change it (#{last.ordinal})" if last is not None else ""
        notes.append(f"{at} is not there any more{who}")
    return notes
