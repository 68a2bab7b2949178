"""`optimize`: verified and reported runs of a pipeline on a model."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import onnx

from ...core.io.graph_interface import default_values
from ...core.io.model import Model
from ...core.io.model_source import ModelSource, edited_source, model_source
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import Publication
from ...core.ir.context import ValueInfo
from ...core.pass_manager.pass_manager import CheckOptions, PassManager
from ...core.pass_manager.pass_selection import UsageError
from ...core.pass_manager.phase_timer import DRAWING, LOADING, RUNNING_ORIGINAL, WRITING, PhaseTimer
from ...core.pass_manager.pipeline import Pass, Pipeline, RulePass, leaves
from ...core.pass_manager.quarantine import OnQuarantine, Quarantine
from ...core.pass_manager.report import MissingOperators, Plan, Report, SkippedPass, Stats, graph_size, pass_records
from ...core.pass_manager.verified_run import Accept, Candidate, VerifiedRun, attempt_comparer
from ...core.support.gc_pause import gc_paused
from ...core.support.printable_text import json_text
from ...core.support.watchdog import lift_time_limit, time_limit
from ...core.transform.model_edits import requested_edits
from ...core.verify.oracle_process import OracleProcess
from ...core.verify.oracle_start import start_oracle_worker
from ...core.verify.verdict import Verdict
from ...core.verify.verification_spec import VerificationSpec
from ..environment import versions
from ..registry.resolved_pipeline import ResolvedPipeline, resolve_pipeline
from .run_options import RunOptions, with_keywords

if TYPE_CHECKING:
    from ...core.rewriting.changes import ChangeObserver
    from ..visualization.visualization import Visualization
    from .speed_check import SpeedRaces


@dataclass
class Result:
    """An optimized model and the report of its run."""

    report: Report
    _source: ModelSource = field(repr=False)
    _candidate: Candidate = field(repr=False)
    visualization: Visualization | None = field(default=None, repr=False)

    @cached_property
    def model(self) -> onnx.ModelProto:
        """The optimized model, with all its weights."""
        return self._candidate.exported.to_proto()

    def save(self, path: str | Path) -> None:
        """Write the model to `path`, whole or not at all; with external data if the original has some.

        Raises ModelError if `path` cannot be written or is a file of the original.
        """
        paths = OutputPaths.of(model=path)
        paths.require_distinct(self._source.files)
        with Publication(paths.model) as publication:
            self._candidate.stage(publication)
            publication.publish()


def run_pipeline(model: onnx.ModelProto | str | Path, options: RunOptions) -> Result:
    """Rewrite a model, and verify with onnxruntime that its outputs stay the same.

    `pipeline`: names of pipelines and passes, as in `basic,my-pass{n=3}`, or a Pass. `plugins`: Python files, Plugins,
    passes or rules to add to it.
    `inputs`: arrays by input name, an .npz, or a folder of ONNX test data; without them inputs are generated
    from `seed`. `verify`: False, or an effort: "quick", "default" or "thorough"; `memory`: the limit in bytes for the
    process that runs the models; `time_limit`: that in seconds for everything. `shapes` of inputs (by name) and sizes
    of symbols (`dims`) specialise the model first: the declared shapes become those numbers. `outputs`: values of the
    main graph that become its outputs; ops that they do not need are removed first, and `drop_unused_inputs` removes
    inputs without consumers; `freeze_initializers` makes initializers that are inputs as well, which a caller may
    override, constants. Verification then compares with the edited model. `only`, `skip`: passes and rules by
    name. `enable`: passes to add, or to set options of, as in `my-pass{n=3}`. `exact` runs only rules that keep every
    bit.

    A wrong change is found, left out and listed in `Result.report.quarantined`; with `strict` it
    ends the run. `output`: where to write the verified model; `report_to`: the report, `map_to`: the fate of each
    name, both as JSON; `page_to`: a page of HTML. `repro_to`: a folder for small models that show each change
    left out. With `plan`, `Result.report.plan` lists each change with its savings; with `visualize`,
    `Result.visualization` has pictures of each change, and of the model before and after. `progress` is called with
    the name of each phase.

    `value_info`: the types and shapes of intermediate values in the result: "keep" those of the model, "write" all that
    are known, or "strip" them, because onnxruntime infers them itself and fuses ops where they are given that are
    faster apart; None strips them unless the pipeline is empty.

    With `check_speed` the verified result races the original, both loaded by onnxruntime with its defaults and
    `threads` (0: one for each core), with calls of `min_time` seconds each, on `inputs` or generated ones. If it is
    slower, beyond the 95 % interval of the ratio, the result of the pipeline's fallback is taken, if it has one, and
    in the end the original: `Result.report.speed` has the ratios, `Result.report.pipeline` the pipeline taken.

    A pass of a plugin that does not support the model's opset is left out, see `Result.report.unfit`.

    Raises ModelError for an unusable model or input, UsageError for an unusable pipeline, PluginError,
    VerificationError if a change is wrong and `strict` (nothing is written), UnverifiableError if no inputs work,
    TimeLimitError at the time limit, before anything is written; a verification in time may leave out input sets.
    """
    timer = PhaseTimer(options.progress)
    label = "the model" if isinstance(model, onnx.ModelProto) else str(model)
    with time_limit(options.time_limit, lambda: f"{label}: {timer.current}"):
        return _run_pipeline(model, options, timer)


def _run_pipeline(model: onnx.ModelProto | str | Path, options: RunOptions, timer: PhaseTimer) -> Result:
    effort = options.effort
    if options.verify:
        start_oracle_worker()
    source = edited_source(
        model_source(model, inline=not options.keep_functions),
        requested_edits(
            options.shapes,
            options.dims,
            options.outputs,
            drop_inputs=options.drop_unused_inputs,
            freeze=options.freeze_initializers,
        ),
    )
    paths = OutputPaths.of(
        model=options.output,
        report=options.report_to,
        name_map=options.map_to,
        repro_folder=options.repro_to,
        page=options.page_to,
    )
    paths.require_distinct((*source.files, *options.input_files))
    with gc_paused():
        choice = resolve_pipeline(options.pipeline, options.plugins, options.only, options.skip, options.enable)
        with timer.phase(LOADING):
            original = source.load()
            before = Stats.of(original, source.size)
            size_before = graph_size(original.graph) if options.plan else None
            is_specified = options.verify or options.inputs is not None  # given inputs are checked in any case
            spec = None
            if is_specified:
                spec = VerificationSpec.of(original, options.inputs, effort=effort, memory=options.memory)
    paths.require_distinct((*source.files, *options.input_files, *choice.read_files))
    races = None
    if options.check_speed:
        from .speed_check import SpeedRaces  # noqa: PLC0415 - seldom needed

        races = SpeedRaces(source, options, timer)
    with Publication(paths.model) as publication, source.blamed_if_changed():
        attempt = run_attempt(choice, source, original, spec, options, timer, races, publication)
        for fallback in (*choice.fallbacks, ORIGINAL):
            if races is None or not races.has_lost:
                break
            other = replace(choice, pipeline=fallback, spec=fallback.name)
            other_options = options if fallback is not ORIGINAL else replace(options, value_info=None)
            attempt = run_attempt(other, source, source.load(), spec, other_options, timer, races, publication)
        pipeline, run, candidate = attempt.pipeline, attempt.run, attempt.candidate
        visualization = run_visualization(run, pipeline, candidate)
        ledger = run.attempt.ledger
        report = Report(
            source.label,
            pipeline.name,
            before,
            Stats.of(candidate.model, candidate.exported.size),
            pass_records(pipeline, ledger),
            attempt.verdict,
            run.quarantine.quarantined,
            run.quarantine.replays,
            timer.seconds,
            versions(),
            Plan.of(ledger.changes, size_before, graph_size(candidate.model.graph))
            if size_before is not None
            else None,
            attempt.unfit,
            races.speed_check() if races is not None else None,
            ledger.notes,
            MissingOperators.of(ledger, candidate.model.graph.opsets.get("", 0)),
            len(default_values(candidate.model.graph)),
        )
        publication.add_text(paths.report, report.to_json)
        publication.add_text(paths.name_map, lambda: json_text(run.name_map()))
        if visualization is not None and paths.page is not None:
            from .page import run_page  # noqa: PLC0415 - seldom needed

            publication.add_text(paths.page, partial(run_page, report, visualization))
        source.require_unchanged()
        lift_time_limit()
        publication.publish()
    return Result(report, source, candidate, visualization)


optimize = with_keywords(RunOptions, "optimize")(run_pipeline)


ORIGINAL = Pipeline("none", ())
"""The last pipeline to fall back to."""


@dataclass(frozen=True, slots=True)
class RunAttempt:
    """A verified run of a pipeline, without the passes that are `unfit` for the model."""

    pipeline: Pass
    unfit: list[SkippedPass]
    run: VerifiedRun
    candidate: Candidate
    verdict: Verdict | None


def run_attempt(
    choice: ResolvedPipeline,
    source: ModelSource,
    original: Model,
    spec: VerificationSpec | None,
    options: RunOptions,
    timer: PhaseTimer,
    races: SpeedRaces | None,
    publication: Publication,
) -> RunAttempt:
    """Run a pipeline on `original`, which is rewritten.

    If the result is right and not slower, it is added to `publication`, unless that has no place for a model.
    """
    pipeline, unfit = choice.for_opsets(original.graph.opsets)
    new_observer: Callable[[], ChangeObserver] | None = None
    if options.visualize or options.page_to is not None:
        from ..visualization.snapshots import SnapshotObserver  # noqa: PLC0415 - seldom needed

        new_observer = SnapshotObserver
    manager = PassManager(
        source.load, pipeline, options.exact, value_info=value_info_policy(options.value_info, pipeline)
    )
    run = VerifiedRun(
        source,
        Quarantine(manager, CheckOptions(), repro_writer(options, pipeline, choice)),
        timer,
        options.strict,
        track_names=options.map_to is not None,
        record_changes=options.plan,
        new_observer=new_observer,
    )
    run.start(original)
    accept = partial(races.is_accepted, pipeline.name) if races is not None and leaves(pipeline) else None
    verified_with, files = spec if options.verify else None, publication if publication.model is not None else None
    candidate, verdict = verified_candidate(run, pipeline, verified_with, options, accept, files)
    return RunAttempt(pipeline, unfit, run, candidate, verdict)


def value_info_policy(choice: str | None, pipeline: Pass) -> ValueInfo:
    """The chosen policy, or the default for a pipeline. Raises UsageError for an unknown one."""
    default: ValueInfo = "strip" if leaves(pipeline) else "keep"
    policies: tuple[ValueInfo, ...] = get_args(ValueInfo)
    for policy in policies:
        if policy == (choice or default):
            return policy
    hint = "; --shape sets the shape of an input" if ":" in str(choice) else ""
    raise UsageError(f"--shapes {choice}: choose from {', '.join(policies)}{hint}")


def verified_candidate(
    run: VerifiedRun,
    pipeline: Pass,
    spec: VerificationSpec | None,
    options: RunOptions,
    accept: Accept | None,
    publication: Publication | None,
) -> tuple[Candidate, Verdict | None]:
    """The first candidate that is correct, or without a `spec` the first; if accepted, it is in `publication`."""
    if spec is None:
        candidate = run.candidate()
        if publication is not None or accept is not None:
            with run.timer.phase(WRITING):
                candidate.stage_if(accept or (lambda _: True), publication)
        return candidate, None
    with run.timer.phase(RUNNING_ORIGINAL):
        fired = {by for counts in run.attempt.ledger.counts.values() for by in counts}
        rules = (r for p in leaves(pipeline) if isinstance(p, RulePass) for r in p.rules if r.name in fired)
        boundaries = sorted({number for r in rules for number in r.fragile})
        oracle = OracleProcess(run.source.loadable(), spec, options.seed, boundaries, label=run.source.label)
    with oracle:
        run.quarantine.options = CheckOptions(
            attempt_comparer(oracle, lambda: run.quarantine.keeps_names, run.may_round)
        )
        return run.verify(oracle, publication, exact=options.exact, uses_half=spec.uses_half, accept=accept)


def run_visualization(run: VerifiedRun, pipeline: Pass, candidate: Candidate) -> Visualization | None:
    """The drawings of an accepted run, None without an observer. Raises the observer's failure."""
    if run.observer is None:
        return None
    ledger = run.attempt.ledger
    if ledger.accounting is not None and ledger.accounting.observer_failure is not None:
        raise ledger.accounting.observer_failure
    from ..visualization.snapshots import SnapshotObserver  # noqa: PLC0415 - seldom needed
    from ..visualization.visualization import build_visualization  # noqa: PLC0415 - seldom needed

    assert isinstance(run.observer, SnapshotObserver)
    with gc_paused(), run.timer.phase(DRAWING):
        return build_visualization(
            pipeline, ledger.changes, run.observer, run.source.load().graph, candidate.model.graph
        )


def repro_writer(options: RunOptions, pipeline: Pass, choice: ResolvedPipeline) -> OnQuarantine | None:
    """A function that writes the repros of a run; None without a folder for them."""
    if options.repro_to is None:
        return None
    from ..repro.repro import CommandOptions, ReproFolder  # noqa: PLC0415 - seldom needed

    texts = [f"--pipeline {shlex.quote(choice.spec)}"] if choice.spec not in {"", "basic"} else []
    texts += [f"--plugin {shlex.quote(str(file.resolve()))}" for file in options.plugin_files]
    texts += ["--exact"] * options.exact + ["--keep-functions"] * options.keep_functions
    repeated = CommandOptions(texts, tuple(options.only), tuple(options.skip), choice.enabled_specs, options.exact)
    return ReproFolder(Path(options.repro_to), pipeline, repeated, versions()).write
