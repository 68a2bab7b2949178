"""`optimize`: rewriting, verification and writing of a model."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import onnx

from ...core.io.files import ModelFile, in_memory
from ...core.io.graph_interface import default_values
from ...core.io.model_source import ModelLike, ModelSource
from ...core.io.ort_format import SUFFIX
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import Publication
from ...core.ir.tensor import chunk_bytes
from ...core.processes.process_limits import given_memory
from ...core.processes.watchdog import lift_time_limit, time_limit
from ...core.run.model_writer import ExportedModel, RunOutcome
from ...core.run.phase_timer import PROVING, VISUALIZING, PhaseTimer
from ...core.run.pipeline_run import PipelineRun
from ...core.run.report import (
    ChangePlan,
    MissingOperators,
    Report,
    Stats,
    StopPoint,
    TransformRecord,
    graph_size,
    lossy_notes,
    pass_records,
    run_hints,
)
from ...core.run.transforms import SkippedPass
from ...core.run.verifier import Verifier
from ...core.support.gc_pause import gc_paused
from ...core.support.printable_text import json_text, printable
from ...core.verify.oracle_start import start_oracle_worker
from ...core.verify.ort_files import is_ort_place
from ...core.verify.proof_guarantees import ProofCounts
from ..options import Progress, require
from ..registry.environment import versions
from ..registry.guarantees import guarantee_counts
from ..report.progress import phase_callback, with_keywords
from .run_options import RunOptions
from .run_setup import RunSetup

if TYPE_CHECKING:
    from ...core.verify.effort import Effort
    from ...core.verify.given_inputs import Inputs
    from ..report.visualization import Visualization
    from .reproducer import RunRecord
    from .speed_check import SpeedRaces


@dataclass(repr=False)
class Result:
    """An optimized model and the report of its run.

    Examples:
        >>> result = optimize("model.onnx", output="small.onnx", exact=True)
        >>> result.model.graph.output[0].name, result.report.rejected
        ('y', [])
    """

    report: Report
    _source: ModelSource
    _exported: ExportedModel
    visualization: Visualization | None = None

    @property
    def digest(self) -> str:
        """A digest of the optimized model, which is the same on every machine."""
        return self._exported.digest

    @cached_property
    def model(self) -> onnx.ModelProto:
        """The optimized model with all its weights."""
        return self._exported.serialized.to_proto()

    def save(self, path: str | Path) -> None:
        """Write the model to `path` atomically, with external data if the original has external data.

        Raises ModelError if `path` cannot be written or is a file of the original.
        """
        paths = OutputPaths.of(model=path)
        paths.require_distinct(self._source.files)
        with Publication(paths.model) as publication:
            require(not is_ort_place(publication), f"{path}: give output= to optimize, which verifies an .ort file")
            self._exported.stage(publication)
            publication.publish()

    def write(self, file: BinaryIO) -> None:
        """Write the model to an open file as one message, including its weights. Raises ModelError over 2 GB."""
        file.writelines(chunk_bytes(chunk) for chunk in self._exported.serialized.chunks())

    def __repr__(self) -> str:
        """The sizes and the verdict, in one line."""
        from ..report.verdict_text import verdict_line  # noqa: PLC0415 - seldom needed
        from .document import size_line  # noqa: PLC0415 - seldom needed

        return printable(f"<Result {size_line(self.report)}; {verdict_line(self.report.verification)}>")

    def _repr_html_(self) -> str:
        """The card shown in a notebook."""
        from ..report.notebook import card_html  # noqa: PLC0415 - seldom needed
        from .document import describe  # noqa: PLC0415 - seldom needed

        return card_html(describe(self.report, in_notebook=True))


def optimize_model(model: ModelLike, options: RunOptions) -> Result:
    """Rewrite a model, and verify with onnxruntime that its outputs stay the same.

    Selection:
        pipeline: names of pipelines and passes, such as `basic,my-pass{n=3}`, or a Pass.
        plugin: Python files, Plugins, passes or rules to add.
        enable: passes to add to the pipeline, or to set options of.
        only, skip: names of the only passes and rules to run, and of those to skip.
        exact: run only rules that keep every bit.
        target: the engine that the result is for, by name or as a Target. Ops that it does not support are replaced by
            supported ones, and rewrites do not introduce unsupported ones.
        stop_after: the number of changes after which the run ends; see `Result.report.stop`.

    Model, changed before verification compares it with the result:
        opset: convert the model to this opset first; nothing raises the opset further.
        shape, dim: shapes of inputs by name, and sizes of symbols. The declared shapes become these numbers.
        batch: change a fixed batch size to this number, or to a symbol of this name, if the result for each row does
            not depend on the other rows; this is also verified.
        outputs: values of the main graph that become its outputs. Ops that these do not need are removed.
        drop_unused_inputs: remove inputs that no op reads.
        freeze_initializers: turn initializers that are also inputs, which a caller may override, into constants. By
            default, only if nearly all initializers are inputs; False keeps all of them.

    Verification:
        inputs: arrays by input name, or by the names of samples and inputs, such as `s0/x`; an .npz file of them; a
            folder of ONNX test data or .npz files; `file.py:function` or any iterable of samples; a
            CalibrationDataReader of onnxruntime; or a list of these. Without them, inputs are generated from `seed`.
        verify: False, or an effort: "quick", "default" or "thorough".
        memory: the memory limit in bytes of the process that runs the models.
        time_limit: the limit in seconds of the whole run.
        strict: raise an error for a wrong change. By default, it is skipped and listed in `Result.report.rejected`.
        prove: also prove the changed regions that are small enough, with their real weights; see
            `Result.report.proofs`.

    Speed:
        check_speed: time the verified result against the original, both loaded by onnxruntime with its defaults and
            `threads` (0: one per core), for `min_time` seconds each. If the result is slower, beyond the 95 % interval
            of the ratio, use the result of the pipeline's fallback if it has one, otherwise the original.
            `Result.report.speed` has the ratios, and `Result.report.pipeline` the pipeline that was used.

    Output:
        output: the path of the verified model.
        in_place: if anything changes, overwrite `model`, a path, and its external data.
        external_data: "auto" stores weights in a separate file if the original does, and over 2 GB; "always"; "never";
            or the size in bytes from which a tensor is stored there.
        value_info: types and shapes of intermediate values in the result: "keep" those of the model, "write" all known
            ones, or "strip" them. onnxruntime infers them itself and, if they are declared, performs fusions that are
            slower; None therefore strips them unless the pipeline is empty.

    Reports:
        json, html: paths for the report as JSON and as a page.
        map: a path for JSON that says what became of each name.
        repro: a folder for small models that show each skipped change.
        dry_run: add a plan of the changes with their savings, `Result.report.plan`.
        visualize: add pictures of each change and of the model before and after, `Result.visualization`.
        statistics: add the tries, matches, changes and declines of each rule, `Result.report.statistics`.
        dump_after, dump_to: write the model after each run of these passes, of "all", or of those that "changed" it, to
            a new folder.
        instrumentation: objects whose hooks are called around passes and rules.
        reproducer: a path for a file with everything that `replay` needs to repeat the run, even if the run fails.
        progress: a function that is called with each phase, and about ten times a second with its progress, such as
            "verifying: input set 3 of 7". True shows it on a terminal or in a notebook, None only in a notebook.

    A pass of a plugin that does not support the model's opset is skipped; see `Result.report.unfit`.

    Raises:
        ModelError: the model or an input is unusable, or an op cannot be converted to `opset`.
        UsageError: the pipeline or an option is unusable.
        PluginError: a plugin fails.
        VerificationError: a change is wrong and `strict` is set, or the conversion to `opset` is wrong.
        UnverifiableError: the original fails on all inputs, or onnxruntime cannot run the model at `opset`, unless
            `verify` is False.
        TimeLimitError: the time limit was reached.
        TargetError: the `target` does not support the result; it has the list of ops.

    If an error is raised, no model is written.

    Examples:
        >>> result = optimize(model)
        >>> [node.op_type for node in result.model.graph.node]
        ['Abs', 'Add']
        >>> result.report.before.nodes, result.report.after.nodes
        (3, 2)
    """
    no_race = "--check-speed may keep the original, which the target may not support: give only one of them"
    require(not (options.target and options.check_speed), no_race)
    is_fused = options.output is not None and Path(options.output).suffix == SUFFIX
    require(
        not (options.target and is_fused), f"--target: onnxruntime fuses ops of {SUFFIX} files for the CPU: -o an .onnx"
    )
    if options.verify:
        start_oracle_worker()
    timer = PhaseTimer(phase_callback(options.progress))
    label = model.name if isinstance(model, ModelFile) else "the model" if isinstance(model, onnx.ModelProto) else model
    limited_time = time_limit(options.time_limit, lambda: f"{label}: {timer.current}")
    record = nullcontext() if options.reproducer is None else _recorded(model, options)
    with record as outcome_record, limited_time, given_memory(options.memory), options.with_operators():
        setup = RunSetup.of(model, options, timer)
        source, races = setup.source, _speed_races(setup)
        with setup.publication() as publication, source.blamed_if_changed():
            choices = setup.with_fallbacks()
            while True:
                choice = next(choices)
                run, unfit = choice.pipeline_run()
                writer = choice.model_writer(run.pipeline, publication, races)
                with choice.oracle(run.pipeline) as oracle:  # runs the original meanwhile
                    result = run.rewrite(choice.original)
                    if oracle is None or setup.spec is None:
                        outcome = writer.write(run, result)
                    else:
                        verifier = Verifier(oracle, timer, options.exact, setup.spec.uses_half)
                        outcome = verifier.verify(run, result, writer)
                if races is None or not races.has_lost or not choice.options.check_speed:
                    break
            visualization = run_visualization(setup, run, outcome)
            size = publication.model_bytes or outcome.exported.serialized.size
            report = _report(setup, run, outcome, races, unfit, size)
            names = outcome.result.name_map() if setup.paths.name_map is not None else None
            if setup.paths.model is not None and options.wants(report):
                report.written_to = str(setup.paths.model.path)
            elif setup.paths.model is not None:
                publication.discard_model()
            publication.add_text(setup.paths.report, report.to_json)
            publication.add_text(setup.paths.name_map, lambda: json_text(names))
            if visualization is not None and setup.paths.page is not None:
                from ..report.page import page_html  # noqa: PLC0415 - seldom needed
                from .document import describe  # noqa: PLC0415 - seldom needed

                publication.add_text(setup.paths.page, lambda: page_html(describe(report, visualization=visualization)))
            if outcome_record is not None:
                outcome_record.result = outcome.exported.digest
            source.require_unchanged(keep_open=options.in_place)
            lift_time_limit()
            publication.publish()
    return Result(report, source, outcome.exported, visualization)


def _recorded(model: ModelLike, options: RunOptions) -> AbstractContextManager[RunRecord | None]:
    """Record a run for its reproducer, if requested."""
    from .reproducer import recorded_run  # noqa: PLC0415 - seldom needed

    return recorded_run(model, options)


def _report(
    setup: RunSetup,
    run: PipelineRun,
    outcome: RunOutcome,
    races: SpeedRaces | None,
    unfit: list[SkippedPass],
    size: int,
) -> Report:
    """The report of a run without the passes that are `unfit` for the model, whose result takes `size` bytes."""
    change_log, model = outcome.result.change_log, outcome.exported.model
    report = Report(
        setup.source.label,
        run.pipeline.name,
        setup.before,
        Stats.of(model, size),
        pass_records(run.pipeline, change_log),
        outcome.verdict,
        run.rejected,
        run.replays,
        setup.timer.seconds,
        versions(),
        None
        if setup.size_before is None
        else ChangePlan.of(change_log.changes, setup.size_before, graph_size(model.graph)),
        [*(e.unfit for e in setup.transforms if e.unfit is not None), *unfit],
        races.speed_check() if races is not None else None,
        [*setup.notes, *change_log.notes, *lossy_notes(run.pipeline, run.rejected)],
        MissingOperators.of(change_log, model.graph.opsets.get("", 0)),
        len(default_values(model.graph)),
        [TransformRecord(e.item.name, e.changes) for e in setup.transforms if e.unfit is None],
        options=setup.options.chosen,
    )
    report.guarantees = guarantee_counts(report.passes)
    if setup.options.stop_after is not None:
        report.stop = StopPoint.of(setup.options.stop_after, change_log)
    if setup.statistics is not None:
        report.statistics = setup.statistics.records(change_log)
    report.proofs = _proof_counts(setup, run, outcome) if setup.options.prove else None
    if setup.choice.target is not None:
        from ...passes.legalization import Legalize  # noqa: PLC0415 - few runs have a target

        report.target = Legalize(setup.choice.target).fit(model.graph)
        report.target.require()
        report.missing_operators = []  # the hint is about opsets that the target may not support
    report.hints = run_hints(setup.choice.others, model, report)
    return report


def _proof_counts(setup: RunSetup, run: PipelineRun, outcome: RunOutcome) -> ProofCounts:
    """The numbers of proved regions."""
    from .region_proofs import ProvedModels, changing_run, proofs_of  # noqa: PLC0415 - imports z3

    with setup.timer.phase(PROVING):
        rewritten = in_memory(outcome.exported.model, outcome.exported.serialized)
        rewrites = [changing_run(run, outcome.result.change_log)]
        models = ProvedModels(run.load(), setup.source.loadable(), rewritten, rewrites)
        return proofs_of(models, setup.timer.verification_seconds).counts


def _speed_races(setup: RunSetup) -> SpeedRaces | None:
    """The races of results against the original, if requested."""
    if not setup.options.check_speed:
        return None
    from .speed_check import SpeedRaces  # noqa: PLC0415 - seldom needed

    return SpeedRaces(setup.source, setup.options, setup.timer)


def run_visualization(setup: RunSetup, run: PipelineRun, outcome: RunOutcome) -> Visualization | None:
    """The drawings of an accepted run; None without an observer. Re-raises the observer's failure."""
    observer, change_log = outcome.result.observer, outcome.result.change_log
    if observer is None:
        return None
    if change_log.accounting is not None and change_log.accounting.observer_failure is not None:
        raise change_log.accounting.observer_failure
    from ..report.snapshots import SnapshotObserver  # noqa: PLC0415 - seldom needed
    from ..report.visualization import build_visualization  # noqa: PLC0415 - seldom needed

    assert isinstance(observer, SnapshotObserver)
    with gc_paused(), setup.timer.phase(VISUALIZING):
        return build_visualization(
            run.pipeline, change_log.changes, observer, run.load().graph, outcome.exported.model.graph
        )


optimize = with_keywords(RunOptions, "optimize")(optimize_model)


def convert_opset(
    model: ModelLike,
    opset: int,
    verify: bool | Effort = True,
    inputs: Inputs | None = None,
    *,
    exact: bool = False,
    keep_functions: bool = True,
    output: str | Path | None = None,
    memory: int | None = None,
    time_limit: float | None = None,
    seed: int = 0,
    json: str | Path | None = None,
    progress: Progress = None,
) -> Result:
    """Convert a model to a higher or lower opset, without any other change.

    The result is verified in onnxruntime unless `verify` is False. Parameters mean the same as for `optimize`. Without
    `keep_functions`, local functions are inlined, so that the types of their values are known.

    Raises ModelError for an unusable model or input or an op that cannot be converted, UsageError for an opset that the
    installed onnx does not know, VerificationError for a wrong conversion, and UnverifiableError if onnxruntime cannot
    run the model at that opset, or on any input.

    Examples:
        >>> convert_opset(model, 21).model.opset_import[0].version
        21
    """
    require(opset is not None, "opset None: it must be an integer")  # pyright: ignore[reportUnnecessaryComparison]
    return optimize(
        model, "none", opset=opset, verify=verify, inputs=inputs, exact=exact, keep_functions=keep_functions,
        output=output, memory=memory, time_limit=time_limit, seed=seed, json=json, progress=progress,
    )  # fmt: skip
