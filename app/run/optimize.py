"""`optimize`: verified and reported runs of a pipeline on a model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import onnx

from ...core.io.files import ModelFile, in_memory
from ...core.io.graph_interface import default_values
from ...core.io.model_source import ModelSource, model_source, transformed_source
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import Publication
from ...core.ir.tensor import chunk_bytes
from ...core.run.name_map import log_replacements
from ...core.run.phase_timer import DRAWING, LOADING, PROVING, WRITING, PhaseTimer
from ...core.run.pipeline import Pass
from ...core.run.report import (
    MissingOperators,
    Plan,
    Report,
    Stats,
    TransformRecord,
    graph_size,
    pass_records,
    run_hints,
)
from ...core.run.transforms import ModelTransform, RequestedTransform
from ...core.run.verified_run import Candidate, VerifiedRun
from ...core.support.gc_pause import gc_paused
from ...core.support.printable_text import json_text, printable
from ...core.support.watchdog import lift_time_limit, time_limit
from ...core.transform.specialize import Specialize
from ...core.verify.guarantee import ProofCounts
from ...core.verify.oracle_process import preload_original
from ...core.verify.oracle_start import start_oracle_worker
from ...core.verify.verification_spec import VerificationSpec
from ...passes.transforms.extraction import CutInputs, DropUnusedInputs, KeepOutputs
from ...passes.transforms.initializers import FreezeInitializers
from ..environment import versions
from ..measure.python_data import read_given
from ..notebook_cards import card_html
from ..progress import phase_callback, shows_progress
from ..registry.guarantees import guarantee_counts
from ..registry.resolved_pipeline import resolve_pipeline
from ..run_options import ConversionOptions, RunOptions, SharedOptions, with_keywords
from .attempts import Attempts

if TYPE_CHECKING:
    from ..visualization.visualization import Visualization
    from .speed_check import SpeedRaces

LARGE_BYTES = 200_000_000  # of a model of which it is reported how much is written


@dataclass(repr=False)
class Result:
    """An optimized model and the report of its run."""

    report: Report
    _source: ModelSource
    _candidate: Candidate
    visualization: Visualization | None = None

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

    def write(self, file: BinaryIO) -> None:
        """Write the model to an open file as one message, with all its weights. Raises ModelError beyond 2 GB."""
        file.writelines(chunk_bytes(chunk) for chunk in self._candidate.exported.chunks())

    def __repr__(self) -> str:
        """The sizes and the verdict, in a line."""
        from ..verify.render import verdict_line  # noqa: PLC0415 - imports rich
        from .render import size_line  # noqa: PLC0415 - as above

        return printable(f"<Result {size_line(self.report)}; {verdict_line(self.report.verification)}>")

    def _repr_html_(self) -> str:
        """The card that a notebook shows."""
        return card_html(self.report)


def run_pipeline(model: onnx.ModelProto | str | Path | ModelFile, options: RunOptions) -> Result:
    """Rewrite a model, and verify with onnxruntime that its outputs stay the same.

    `pipeline`: names of pipelines and passes, as in `basic,my-pass{n=3}`, or a Pass. `plugins`: Python files, Plugins,
    passes or rules to add to it.
    `inputs`: arrays by input name, or by the names of samples and inputs, as in `s0/x`; an .npz of them; a folder of
    ONNX test data or of .npz; `file.py:function` or any iterable for samples; a CalibrationDataReader of onnxruntime; a
    list of these. Without them inputs are generated from `seed`. `verify`: False, or an effort: "quick", "default" or
    "thorough"; `memory`: the limit in bytes for the process that runs the models; `time_limit`: that in seconds for
    everything. `shapes` of inputs (by name) and sizes of symbols (`dims`) specialise the model first: the declared
    shapes become those numbers. `outputs`: values of the main graph that become its outputs; ops that they do not need
    are removed first, and `drop_unused_inputs` removes inputs without consumers; `freeze_initializers` makes
    initializers that are inputs as well, which a caller may override, constants. Verification then compares with the
    transformed model. `only`, `skip`: passes and rules by name. `enable`: passes to add, or to set options of, as in
    `my-pass{n=3}`. `opset`: the model is converted to it before all other passes, and nothing raises it further.
    `exact` runs only rules that keep every bit.

    A wrong change is found, left out and listed in `Result.report.quarantined`; with `strict` it
    ends the run. `output`: where to write the verified model; `in_place`: in place of `model`, a path, if anything
    changes it, and its external data with it; `report_to`: the report, `map_to`: the fate of each
    name, both as JSON; `page_to`: a page of HTML. `repro_to`: a folder for small models that show each change
    left out. With `plan`, `Result.report.plan` lists each change with its savings; with `visualize`,
    `Result.visualization` has pictures of each change, and of the model before and after. `progress` is called with
    each phase, and some ten times a second with how far it is, as in "verifying: input set 3 of 7"; True shows it on a
    terminal or in a notebook, None in a notebook alone, False nowhere.

    `value_info`: the types and shapes of intermediate values in the result: "keep" those of the model, "write" all that
    are known, or "strip" them, because onnxruntime infers them itself and fuses ops where they are given that are
    faster apart; None strips them unless the pipeline is empty.

    `external_data`: "auto" writes weights to a file of their own as in the original, and beyond 2 GB; "always" and
    "never"; or the size in bytes from which a tensor is written there.

    With `check_speed` the verified result races the original, both loaded by onnxruntime with its defaults and
    `threads` (0: one for each core), with calls of `min_time` seconds each, on `inputs` or generated ones. If it is
    slower, beyond the 95 % interval of the ratio, the result of the pipeline's fallback is taken, if it has one, and
    in the end the original: `Result.report.speed` has the ratios, `Result.report.pipeline` the pipeline taken.

    With `prove`, the regions in which the result differs are also proved, on their real weights, as far as they are
    small enough: `Result.report.proofs` has the numbers.

    A pass of a plugin that does not support the model's opset is left out, see `Result.report.unfit`.

    Raises ModelError for an unusable model or input, UsageError for an unusable pipeline, PluginError,
    VerificationError if a change is wrong and `strict` (nothing is written), UnverifiableError if no inputs work,
    TimeLimitError at the time limit, before anything is written; a verification in time may leave out input sets.
    For an `opset` that an op cannot be converted to ModelError, if its conversion is wrong VerificationError, and
    UnverifiableError if onnxruntime runs it there no more, unless `verify` is False.
    """
    timer = PhaseTimer(phase_callback(options.progress))
    label = model.name if isinstance(model, ModelFile) else "the model" if isinstance(model, onnx.ModelProto) else model
    with time_limit(options.time_limit, lambda: f"{label}: {timer.current}"):
        return _run_pipeline(model, options, timer)


def _run_pipeline(model: onnx.ModelProto | str | Path | ModelFile, options: RunOptions, timer: PhaseTimer) -> Result:
    effort = options.effort
    if options.verify:
        start_oracle_worker()
    source = model_source(model, inline=not options.keep_functions)
    paths = OutputPaths.of(
        model=options.place_of_result(source.files[0] if source.files else None),
        report=options.report_to,
        name_map=options.map_to,
        repro_folder=options.repro_to,
        page=options.page_to,
    )
    read_files = options.input_files
    paths.require_distinct((*_files_to_keep(source, options), *read_files))
    with gc_paused():
        choice = resolve_pipeline(options.pipeline, options.plugins, options.only, options.skip, options.enabled)
        transforms = [*optional_transforms(options), *choice.transforms]
        with timer.phase(LOADING):
            if options.verify and not transforms:
                preload_original(source, options.memory)
            original = source.load()
            before = Stats.of(original, source.size)
            if transforms:
                source = transformed_source(source, [*[log_replacements] * (options.map_to is not None), *transforms])
                original = source.load()
            size_before = graph_size(original.graph) if options.plan else None
            is_specified = options.verify or options.inputs is not None  # given inputs are checked in any case
            spec = None
            if is_specified:
                options = replace(options, inputs=read_given(options.inputs, original))
                spec = VerificationSpec.of(original, options.inputs, effort=effort, memory=options.memory)
    paths.require_distinct((*_files_to_keep(source, options), *read_files, *choice.read_files))
    races = _speed_races(source, options, timer)
    with (
        Publication(
            paths.model, source.files[1:] if options.in_place else (), partial(_report_bytes, timer)
        ) as publication,
        source.blamed_if_changed(),
    ):
        attempt = Attempts(source, spec, options, timer, races, publication).first_accepted(choice, original)
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
            [*(e.unfit for e in transforms if e.unfit is not None), *attempt.unfit],
            races.speed_check() if races is not None else None,
            ledger.notes,
            MissingOperators.of(ledger, candidate.model.graph.opsets.get("", 0)),
            len(default_values(candidate.model.graph)),
            [TransformRecord(e.item.name, e.changes) for e in transforms if e.unfit is None],
        )
        report.guarantees = guarantee_counts(report.passes)
        report.proofs = _proof_counts(run, candidate, options, timer)
        report.hints = run_hints(choice.others, candidate.model, report)
        names = run.name_map() if paths.name_map is not None else None
        if paths.model is not None and options.wants(report):
            report.written_to = str(paths.model.path)
        elif paths.model is not None:
            publication.discard_model()
        publication.add_text(paths.report, report.to_json)
        publication.add_text(paths.name_map, lambda: json_text(names))
        if visualization is not None and paths.page is not None:
            from .page import run_page  # noqa: PLC0415 - seldom needed

            publication.add_text(paths.page, partial(run_page, report, visualization))
        source.require_unchanged(keep_open=options.in_place)
        lift_time_limit()
        publication.publish()
    return Result(report, source, candidate, visualization)


def _proof_counts(run: VerifiedRun, candidate: Candidate, options: RunOptions, timer: PhaseTimer) -> ProofCounts | None:
    """The numbers of proved regions, if that is wanted."""
    if not options.prove:
        return None
    from ..verify.region_proofs import ProvedModels, changing_run, proofs_of  # noqa: PLC0415 - imports z3

    with timer.phase(PROVING):
        rewritten = in_memory(candidate.model, candidate.exported)
        rewrites = [changing_run(run.quarantine.manager, run.attempt.ledger)]
        models = ProvedModels(run.source.load(), run.source.loadable(), rewritten, rewrites)
        return proofs_of(models, timer.verification_seconds).counts


def _speed_races(source: ModelSource, options: RunOptions, timer: PhaseTimer) -> SpeedRaces | None:
    """The races of results against the original, if they are wanted."""
    if not options.check_speed:
        return None
    from .speed_check import SpeedRaces  # noqa: PLC0415 - seldom needed

    return SpeedRaces(source, options, timer)


def optional_transforms(options: SharedOptions) -> list[RequestedTransform]:
    """The transforms with options of their own, in order; those that `explain` has too."""
    transforms: list[ModelTransform] = []
    given = options if isinstance(options, RunOptions) else RunOptions()
    if given.freeze_initializers:
        transforms.append(FreezeInitializers())
    if options.shapes or options.dims:
        transforms.append(Specialize(options.shapes or {}, options.dims or {}))
    if given.cut_inputs:
        transforms.append(CutInputs(tuple(given.cut_inputs)))
    if given.outputs:
        transforms.append(KeepOutputs(tuple(given.outputs)))
    if given.drop_unused_inputs:
        transforms.append(DropUnusedInputs())
    return list(map(RequestedTransform, transforms))


def _files_to_keep(source: ModelSource, options: RunOptions) -> tuple[Path, ...]:
    """The files of the original that no output may replace."""
    return () if options.in_place else source.files


optimize = shows_progress(with_keywords(RunOptions, "optimize")(run_pipeline))


@shows_progress
@with_keywords(ConversionOptions, "convert_opset")
def convert_opset(model: onnx.ModelProto | str | Path, options: ConversionOptions) -> Result:
    """Convert a model to another opset, higher or lower, and change nothing else.

    The result computes the same as the original in onnxruntime, unless `verify` is False. The parameters are those of
    `optimize`; local functions are inlined only without `keep_functions`, which makes the types of their values known.

    Raises ModelError for an unusable model or input, or an op that cannot be converted, UsageError for an opset that
    the installed onnx does not know, VerificationError for a wrong conversion, UnverifiableError if onnxruntime does
    not run the model at that opset, or on any input.
    """
    return run_pipeline(model, options.run_options)


def _report_bytes(timer: PhaseTimer, written: int, total: int) -> None:
    """Report how much of a large model is written."""
    if total >= LARGE_BYTES:
        timer.report(lambda: f"{written / 1e9:.1f} of {total / 1e9:.1f} GB", phase=WRITING)


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
