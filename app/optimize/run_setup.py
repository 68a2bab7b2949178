"""The model, pipeline and files of a run, according to its options."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from msgspec import Struct, structs

from ...core.errors import UsageError
from ...core.io.graph_interface import default_values, lists_all_initializers
from ...core.io.model import Model
from ...core.io.model_source import ModelLike, ModelSource, model_source, transformed_source
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import Publication
from ...core.ir.graph import ValueInfo
from ...core.processes.custom_operators import custom_operators
from ...core.run.instrumentation import Instrumentation
from ...core.run.model_writer import ExternalData, ModelWriter
from ...core.run.name_map import log_replacements
from ...core.run.phase_timer import LOADING, WRITING, PhaseTimer
from ...core.run.pipeline import Pass, RulePass, leaves
from ...core.run.pipeline_run import OnRejected, PipelineRun
from ...core.run.report import Savings, Stats, graph_size
from ...core.run.transforms import ModelTransform, RequestedTransform, SkippedPass
from ...core.support.gc_pause import gc_paused
from ...core.transform.specialize import Specialize
from ...core.verify.oracle_process import OracleProcess
from ...core.verify.verification_spec import VerificationSpec
from ...passes.structure.opset import ConvertOpset
from ...passes.transforms.interface import ChangeBatch, CutInputs, DropUnusedInputs, FreezeInitializers, KeepOutputs
from ..options import InitializerOptions
from ..registry.environment import versions
from ..registry.python_data import read_given
from ..registry.resolved_pipeline import ResolvedPipeline, resolve_pipeline
from ..report.number_text import plural
from .model_dumps import ModelDumps
from .run_options import RewriteOptions, RunOptions
from .statistics import RunStatistics

if TYPE_CHECKING:
    from ...core.rewriting.change_log import ChangeObserver
    from .speed_check import SpeedRaces

EXTERNAL_DATA = {"auto": None, "always": True, "never": False}
LARGE_BYTES = 200_000_000  # models from this size on report how much was written


class RunSetup(Struct, frozen=True):
    """A run before it starts: `original` is loaded with the requested `transforms`, and will be rewritten.

    `options` have the inputs as read. `before` is the size of the file, and `size_before` that of the original, for a
    plan. `spec` says how to verify; None without verification and given inputs. `instruments` have the hooks of the
    run, including the `statistics` if requested.
    """

    options: RunOptions
    timer: PhaseTimer
    source: ModelSource
    original: Model
    choice: ResolvedPipeline
    transforms: list[RequestedTransform]
    notes: list[str]
    paths: OutputPaths
    before: Stats
    size_before: Savings | None
    spec: VerificationSpec | None
    statistics: RunStatistics | None
    instruments: Sequence[Instrumentation]

    @classmethod
    def of(cls, model: ModelLike, options: RunOptions, timer: PhaseTimer) -> RunSetup:
        """Load the model, inputs and pipeline. Raises ModelError, UsageError, PluginError and UnverifiableError."""
        effort = options.effort
        source = model_source(model, inline=not options.keep_functions)
        paths = OutputPaths.of(
            model=options.place_of_result(source.files[0] if source.files else None),
            report=options.json,
            name_map=options.map,
            repro_folder=options.repro,
            page=options.html,
            reproducer=options.reproducer,
        )
        read_files = options.input_files
        paths.require_distinct((*_files_to_keep(source, options), *read_files))
        with gc_paused():
            choice = resolve_pipeline(
                options.pipeline, options.plugin, options.only, options.skip, options.enabled, options.target
            )
            transforms = [*optional_transforms(options), *choice.transforms]
            with timer.phase(LOADING):
                original = source.load()
                notes = list[str]()
                if options.freeze_initializers is None and lists_all_initializers(original.graph):
                    notes.append(frozen_note(original))
                    transforms.insert(0, RequestedTransform(FreezeInitializers()))
                before = Stats.of(original, source.size)
                if transforms:
                    logs = [log_replacements] * (options.map is not None)
                    source = transformed_source(source, [*logs, *transforms])
                    original = source.load()
                size_before = graph_size(original.graph) if options.dry_run else None
                spec = None
                if options.verify or options.inputs is not None:  # given inputs are always checked
                    options = replace(options, inputs=read_given(options.inputs, original))
                    spec = VerificationSpec.of(original, options.inputs, effort=effort, memory=options.memory)
            if options.batch is not None and options.verify:
                from .batch_comparison import compare_rows  # noqa: PLC0415 - seldom needed

                notes.append(compare_rows(source, options, timer))
        paths.require_distinct((*_files_to_keep(source, options), *read_files, *choice.read_files))
        statistics = RunStatistics() if options.statistics else None
        dumps = ModelDumps.of(
            options.dump_after, None if options.dump_to is None else Path(options.dump_to), choice.pipeline
        )
        instruments = [*options.instrumentation, *([statistics] if statistics is not None else []), *dumps]
        return cls(
            options, timer, source, original, choice, transforms, notes, paths, before, size_before, spec, statistics,
            instruments,
        )  # fmt: skip

    def with_fallbacks(self) -> Iterator[RunSetup]:
        """Yield this setup, then the setups of fallback pipelines, each with an original; the last is not raced."""
        yield self
        for fallback in self.choice.fallbacks:
            choice = structs.replace(self.choice, pipeline=fallback, spec=fallback.name)
            yield structs.replace(self, original=self.source.load(), choice=choice)
        last = self.choice.last_fallback
        choice = structs.replace(self.choice, pipeline=last, spec=last.name)
        options = replace(self.options, value_info=None, check_speed=False)
        yield structs.replace(self, original=self.source.load(), choice=choice, options=options)

    def pipeline_run(self) -> tuple[PipelineRun, list[SkippedPass]]:
        """The run, which has not started, and the passes that it skips."""
        options = self.options
        pipeline, unfit = self.choice.for_opsets(self.original.graph.opsets)
        new_observer: Callable[[], ChangeObserver] | None = None
        if options.visualize or options.html is not None:
            from ..report.snapshots import SnapshotObserver  # noqa: PLC0415 - seldom needed

            new_observer = SnapshotObserver
        run = PipelineRun(
            self.source.load,
            pipeline,
            options.exact,
            self.timer,
            value_info=value_info_policy(options.value_info, pipeline),
            strict=options.strict,
            required={p.name for p in leaves(pipeline) if isinstance(p, ConvertOpset)},
            track_names=options.map is not None,
            record_changes=options.dry_run,
            new_observer=new_observer,
            on_rejected=repro_writer(options, pipeline, self.choice),
            stop_after=options.stop_after,
            instruments=self.instruments,
        )
        return run, unfit

    def oracle(self, pipeline: Pass) -> AbstractContextManager[OracleProcess | None]:
        """The process that runs the original, starting now; None without verification."""
        if self.spec is None or not self.options.verify:
            return nullcontext()
        rules = (r for p in leaves(pipeline) if isinstance(p, RulePass) for r in p.rules)
        boundaries = sorted({number for r in rules for number in r.critical_values})
        return OracleProcess(
            self.source.loadable(),
            self.spec,
            self.options.seed,
            boundaries,
            label=self.source.label,
            report=self.timer.report,
        )

    def publication(self) -> Publication:
        """The output files."""
        replaced_data = self.source.files[1:] if self.options.in_place else ()
        return Publication(self.paths.model, replaced_data, partial(_report_bytes, self.timer))

    def model_writer(self, pipeline: Pass, publication: Publication, races: SpeedRaces | None) -> ModelWriter:
        """The writer of a pipeline's result, which must not lose a race if there are `races`."""
        external_data = external_data_choice(self.options.external_data)
        if external_data.choice is None and self.source.is_external:
            external_data = structs.replace(external_data, choice=True)
        if races is not None and self.options.check_speed and leaves(pipeline):
            return ModelWriter(self.timer, external_data, publication, partial(races.is_accepted, pipeline.name))
        return ModelWriter(self.timer, external_data, publication if publication.model is not None else None)


def _files_to_keep(source: ModelSource, options: RunOptions) -> tuple[Path, ...]:
    """The files of the original, which no output may replace."""
    return () if options.in_place else source.files


def _report_bytes(timer: PhaseTimer, written: int, total: int) -> None:
    """Report how much of a large model has been written."""
    if total >= LARGE_BYTES:
        timer.report(lambda: f"{written / 1e9:.1f} of {total / 1e9:.1f} GB", phase=WRITING)


def frozen_note(model: Model) -> str:
    """The note on a model that lists all of its initializers as inputs, which became constants."""
    count = plural(len(default_values(model.graph)), "initializer")
    return f"{count} that the model also lists as inputs became constants; --keep-overridable keeps them as inputs"


def frozen_source(source: ModelSource, options: InitializerOptions) -> tuple[ModelSource, list[str]]:
    """The source with overridable initializers frozen as the options require, and a note if they do not specify it."""
    if options.freeze_initializers is False:
        return source, []
    model = source.load()
    is_frozen = bool(options.freeze_initializers) or lists_all_initializers(model.graph)
    if not is_frozen or not default_values(model.graph):
        return source, []
    notes = [frozen_note(model)] if options.freeze_initializers is None else []
    return transformed_source(source, [RequestedTransform(FreezeInitializers())]), notes


def optional_transforms(options: RewriteOptions) -> list[RequestedTransform]:
    """The transforms with options, in order, including the options of `explain`."""
    transforms: list[ModelTransform] = []
    given = options if isinstance(options, RunOptions) else RunOptions()
    if given.freeze_initializers:
        transforms.append(FreezeInitializers())
    if options.shape or options.dim:
        transforms.append(Specialize(options.shape or {}, options.dim or {}))
    if given.cut_inputs:
        transforms.append(CutInputs(tuple(given.cut_inputs)))
    if given.outputs:
        transforms.append(KeepOutputs(tuple(given.outputs)))
    if given.drop_unused_inputs:
        transforms.append(DropUnusedInputs())
    if given.batch is not None:
        transforms.append(ChangeBatch(given.batch))
    return list(map(RequestedTransform, transforms))


def external_data_choice(choice: str | int) -> ExternalData:
    """The place to store weights, for the choice of a caller. Raises UsageError for an unknown one."""
    if isinstance(choice, int):
        return ExternalData(choice=True, above=choice - 1)
    if choice not in EXTERNAL_DATA:
        raise UsageError(
            f"--external-data {choice}: choose from {', '.join(EXTERNAL_DATA)}, or give a size such as 1MB"
        )
    return ExternalData(EXTERNAL_DATA[choice])


def value_info_policy(choice: str | None, pipeline: Pass) -> ValueInfo:
    """The chosen policy, or the default for a pipeline. Raises UsageError for an unknown one."""
    default: ValueInfo = "strip" if any(not isinstance(p, ConvertOpset) for p in leaves(pipeline)) else "keep"
    policies: tuple[ValueInfo, ...] = get_args(ValueInfo)
    for policy in policies:
        if policy == (choice or default):
            return policy
    hint = "; --shape sets the shape of an input" if ":" in str(choice) else ""
    raise UsageError(f"--value-info {choice}: choose from {', '.join(policies)}{hint}")


def repro_writer(options: RunOptions, pipeline: Pass, choice: ResolvedPipeline) -> OnRejected | None:
    """A function that writes the repros of a run; None if no folder was given."""
    if options.repro is None:
        return None
    from .repro import CommandOptions, ReproFolder  # noqa: PLC0415 - seldom needed

    texts = [f"--pipeline {shlex.quote(choice.spec)}"] if choice.spec not in {"", "basic"} else []
    texts += [f"--target {shlex.quote(options.target)}"] if isinstance(options.target, str) else []
    plugins = [f"--plugin {shlex.quote(str(file.resolve()))}" for file in options.plugin_files]
    operators = [
        f"{name} {shlex.quote(str(Path(file).resolve() if Path(file).exists() else file))}"
        for name, files in {"--custom-ops": options.custom_ops, "--kernels": options.kernels}.items()
        for file in files
        if isinstance(file, str | Path)
    ]
    texts += [*plugins, *operators]
    operators += plugins if custom_operators() is not None else []
    texts += ["--exact"] * options.exact + ["--keep-functions"] * options.keep_functions
    chosen = tuple(options.only), tuple(options.skip), choice.enabled_specs
    repeated = CommandOptions(texts, *chosen, options.exact, operators)
    return ReproFolder(Path(options.repro), pipeline, repeated, versions()).write
