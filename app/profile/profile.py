"""`profile`: the time of each node of a model, before and after optimization."""

from __future__ import annotations

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
from ...core.verify.given_inputs import sizes_from_shapes
from ...core.verify.input_specs import input_specs
from ..measure.execution_provider import engine_versions, session_configs
from ..measure.feeds import make_feeds
from ..optimize.optimize import optimize
from ..optimize.run_options import plugin_files
from ..options import with_process_options
from ..registry.python_data import data_files, read_given
from ..report.page import page_html
from ..report.progress import phase_callback, with_keywords
from .document import MAX_NODES, describe
from .profile_builder import RecordedProfile, build_profile, timeline
from .profile_options import ProfileOptions
from .profile_recording import record_profile
from .profile_report import ProfileReport


@with_process_options
def profile_model(model: str | Path, options: ProfileOptions) -> ProfileReport:
    """Run a model file under the profiler of an `engine` as it is and, unless `no_optimize`, as optimized.

    Both have the same inputs: the first sample of `inputs`, which are as for `optimize`, or inputs generated with
    `shape` and `dim`, which do not change the models, and `batch` samples. They run with `threads` (0 for one on each
    core), a provider `ep`, onnxruntime's own optimization at `level` (disable, basic, extended, layout, all), for
    `min_time` seconds each after warming up. `trace` is for the timelines in the format of chrome://tracing,
    `json` for the profiles as JSON, `html` for a page of HTML.

    Raises ModelError for an unusable model or input, UsageError for an unusable pipeline or level, EvaluationError if
    the engine does not run a model, UnverifiableError if no inputs can be generated or the result cannot be verified.

    Examples:
        >>> report = profile("model.onnx", min_time=0.01, threads=1)
        >>> report.level
        'all'
    """
    config = session_configs(options, [options.engine], options.level)[0]
    path = Path(model)
    paths = OutputPaths.of(report=options.json, page=options.html, trace=options.trace)
    read = [path, *data_files(options.inputs), *plugin_files(options.plugin), *options.custom_operator_files]
    paths.require_distinct(read)
    timer = PhaseTimer(phase_callback(options.progress))
    with timer.phase(CHOOSING_INPUTS):
        file = ModelFile(path)
        with gc_paused():
            loaded = load(file)
            sizes = dict(options.dim or {}) | sizes_from_shapes(options.shape or {}, input_specs(loaded))
            given = read_given(options.inputs, loaded)
        paths.require_distinct((*read, *file.external_files))
        feeds = make_feeds(path, given, [options.batch], sizes, options.seed)
    with ScratchFolder() as folder:
        result, models = None, {"before": path}
        if not options.no_optimize:
            with timer.phase("optimizing"):
                result = optimize(
                    path,
                    options.pipeline,
                    options.plugin,
                    enable=options.enable,
                    inputs=given,
                    seed=options.seed,
                    visualize=paths.page is not None,
                    progress=False,
                )
            models["after"] = folder / "after.onnx"
            result.save(models["after"])
        recorded: list[RecordedProfile] = []
        for label, file_path in models.items():
            with timer.phase(f"profiling {label}"):
                try:
                    recording = record_profile(file_path, config, next(iter(feeds.by_batch.values())), options.min_time)
                except EvaluationError as e:
                    raise EvaluationError(f"the model {label} optimization cannot be profiled: {e}") from e
                recorded.append(build_profile(label, recording))
    trace = None if paths.trace is None else paths.trace.path
    before, *after = (replace(r.profile, trace=trace) for r in recorded)
    report = ProfileReport(
        str(path),
        before,
        after[0] if after else None,
        options.level,
        config.provider,
        config.intra_op_threads,
        feeds.sizes,
        timer.seconds,
        engine_versions([config]),
        [q.description for q in result.report.rejected] if result is not None else [],
        feeds.note,
        next(iter(feeds.by_batch)),
        config.engine_name,
        options=options.chosen,
    )
    with Publication() as publication:
        settings = {"source": report.source, "level": options.level, **report.versions}
        publication.add_text(paths.trace, partial(timeline, recorded, settings))
        publication.add_text(paths.report, report.to_json)
        if paths.page is not None:
            run, drawn = (result.report, result.visualization) if result is not None else (None, None)
            publication.add_text(paths.page, lambda: page_html(describe(report, MAX_NODES, run, drawn)))
        publication.publish()
    return report


profile = with_keywords(ProfileOptions, "profile")(profile_model)
