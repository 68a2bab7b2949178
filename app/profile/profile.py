"""`profile`: the time of each node of a model, before and after optimization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from ...core.errors import EvaluationError
from ...core.io.files import ModelFile, load
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import Publication
from ...core.run.phase_timer import CHOOSING_INPUTS, PhaseTimer
from ...core.support.gc_pause import gc_paused
from ...core.support.scratch_folder import ScratchFolder
from ...core.verify.given_inputs import Inputs, sizes_from_shapes
from ...core.verify.input_specs import input_specs
from ..measure.execution_provider import ExecutionProvider, optimization_level
from ..measure.feeds import make_feeds
from ..optimize.optimize import optimize
from ..optimize.run_options import plugin_files
from ..registry.environment import versions
from ..registry.pass_sources import PluginLike
from ..registry.python_data import data_files, read_given
from ..report.progress import Progress, phase_callback, shows_progress
from .profile_builder import RecordedProfile, build_profile, timeline
from .profile_recording import record_profile
from .profile_report import ProfileReport


@shows_progress
def profile(
    model: str | Path,
    pipeline: str = "basic",
    plugins: Sequence[PluginLike] = (),
    inputs: Inputs | None = None,
    *,
    include_optimized: bool = True,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    batch: int = 1,
    seed: int = 0,
    threads: int = 0,
    provider: ExecutionProvider | None = None,
    level: str = "all",
    min_time: float = 2.0,
    trace_to: str | Path | None = None,
    report_to: str | Path | None = None,
    page_to: str | Path | None = None,
    progress: Progress = None,
) -> ProfileReport:
    """Run a model file under onnxruntime's profiler as it is and, if it `include_optimized`, as optimized.

    Both have the same inputs: the first sample of `inputs`, which are as for `optimize`, or inputs generated with
    `shapes` and `dims`, which do not change the models, and `batch` samples. They run with `threads` (0 for one on each
    core), a `provider`, onnxruntime's own optimization at `level` (disable, basic, extended, layout, all), for
    `min_time` seconds each after warming up. `trace_to` is for the timelines in the format of chrome://tracing,
    `report_to` for the profiles as JSON, `page_to` for a page of HTML.

    Raises ModelError for an unusable model or input, UsageError for an unusable pipeline or level, EvaluationError if
    onnxruntime does not run a model, UnverifiableError if no inputs can be generated or the result cannot be verified.
    """
    level_name = optimization_level(level)
    path = Path(model)
    paths = OutputPaths.of(report=report_to, page=page_to, trace=trace_to)
    read = [path, *data_files(inputs), *plugin_files(plugins)]
    paths.require_distinct(read)
    timer = PhaseTimer(phase_callback(progress))
    with timer.phase(CHOOSING_INPUTS):
        file = ModelFile(path)
        with gc_paused():
            loaded = load(file)
            sizes = dict(dims or {}) | sizes_from_shapes(shapes or {}, input_specs(loaded))
            given = read_given(inputs, loaded)
        paths.require_distinct((*read, *file.external_files))
        feeds = make_feeds(path, given, [batch], sizes, seed)
    config = (provider or ExecutionProvider()).session_config(level_name, threads)
    with ScratchFolder() as folder:
        result, models = None, {"before": path}
        if include_optimized:
            with timer.phase("optimizing"):
                result = optimize(
                    path, pipeline, plugins, inputs=given, seed=seed, visualize=paths.page is not None, progress=False
                )
            models["after"] = folder / "after.onnx"
            result.save(models["after"])
        recorded: list[RecordedProfile] = []
        for label, file_path in models.items():
            with timer.phase(f"profiling {label}"):
                try:
                    recording = record_profile(file_path, config, next(iter(feeds.by_batch.values())), min_time)
                except EvaluationError as e:
                    raise EvaluationError(f"{label} cannot be profiled: {e}") from e
                recorded.append(build_profile(label, recording))
    trace = None if paths.trace is None else paths.trace.path
    before, *after = (replace(r.profile, trace=trace) for r in recorded)
    report = ProfileReport(
        str(path),
        before,
        after[0] if after else None,
        level,
        config.provider,
        config.intra_op_threads,
        feeds.sizes,
        timer.seconds,
        versions(),
        [q.description for q in result.report.rejected] if result is not None else [],
        feeds.note,
        next(iter(feeds.by_batch)),
    )
    with Publication() as publication:
        settings = {"source": report.source, "level": level, **report.versions}
        publication.add_text(paths.trace, partial(timeline, recorded, settings))
        publication.add_text(paths.report, report.to_json)
        if paths.page is not None:
            from .page import profile_page  # noqa: PLC0415 - seldom needed

            run = (result.report, result.visualization) if result is not None else (None, None)
            publication.add_text(paths.page, partial(profile_page, report, *run))
        publication.publish()
    return report
