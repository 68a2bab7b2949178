"""`profile`: where the time of a model goes, before and after it is optimized."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ...core.errors import EvaluationError
from ...core.io.files import ModelFile, load
from ...core.io.output_paths import OutputPaths
from ...core.ort.sessions import ALL_LEVELS, SessionConfig
from ...core.pass_manager.pass_selection import UsageError
from ...core.pass_manager.phase_timer import PhaseTimer
from ...core.pass_manager.report import write_json
from ...core.support.gc_pause import gc_paused
from ...core.verify.given_inputs import sizes_from_shapes
from ...core.verify.input_specs import input_specs
from ..environment import versions
from ..measure.execution_provider import ExecutionProvider
from ..measure.feeds import Feeds, make_feeds
from ..measure.profile_recording import record_profile
from ..registry.pass_sources import PluginLike
from ..run.optimize import Result, optimize
from .profile_builder import RecordedProfile, build_profile
from .profile_report import ProfileReport
from .timeline import write_timeline


def profile(
    model: str | Path,
    pipeline: str = "basic",
    plugins: Sequence[PluginLike] = (),
    inputs: str | Path | None = None,
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
    progress: Callable[[str], None] = lambda _: None,
) -> ProfileReport:
    """Run a model's file under onnxruntime's profiler as it is and, if it `include_optimized`, as `optimize` makes it.

    Both get the same inputs: those in `inputs` (an .npz or a folder of ONNX test data), or some that are made up with
    `shapes` and `dims` for sizes, which the models themselves do not take on, and `batch` samples. They run with
    `threads` (0 for as many as there are cores), a `provider`, onnxruntime's own optimization at `level` (disable,
    basic, extended, layout, all), for `min_time` seconds each beside warming up. `trace_to` is for the timelines in
    the format of chrome://tracing, `report_to` for the profiles as JSON, `page_to` for a page of HTML.

    Raises ModelError for a model or input that is unusable, UsageError for a pipeline or level that is, EvaluationError
    where onnxruntime does not run a model, UnverifiableError if no inputs or nothing to hold the result to can be
    found.
    """
    if level not in ALL_LEVELS:
        raise UsageError(f"--level {level}: there is no such level (there are {', '.join(ALL_LEVELS)})")
    path = Path(model)
    places = OutputPaths(
        *(None, _optional_path(report_to), None, None, _optional_path(page_to), _optional_path(trace_to))
    )
    others = [Path(p) for p in (inputs, *plugins) if isinstance(p, str | Path)]
    places.require_writable((path, *others))
    watch = PhaseTimer(progress)
    with watch.phase("choosing inputs"):
        feeds = _feeds(path, places, others, inputs, shapes or {}, dims or {}, batch, seed)
        given = next(iter(feeds.by_batch.values()))
    setting = (provider or ExecutionProvider()).session_config(ALL_LEVELS[level], threads)
    with TemporaryDirectory() as folder:
        result, paths = None, {"before": path}
        if include_optimized:
            with watch.phase("optimizing"):
                result = optimize(path, pipeline, plugins, inputs=inputs, seed=seed, visualize=places.page is not None)
            paths["after"] = Path(folder) / "after.onnx"
            result.save(paths["after"])
        found = [_profile_file(label, p, setting, given, min_time, watch) for label, p in paths.items()]
    profiled = _report(path, found, result, level, setting, feeds, watch, places.trace)
    _write_reports(profiled, found, result, places)
    return profiled


def _optional_path(given: str | Path | None) -> Path | None:
    return Path(given) if given is not None else None


def _feeds(
    path: Path,
    places: OutputPaths,
    others: Sequence[Path],
    inputs: str | Path | None,
    shapes: Mapping[str, Sequence[int]],
    dims: Mapping[str, int],
    batch: int,
    seed: int,
) -> Feeds:
    """The inputs for both models; what the model's weights are in is not to be written to, either."""
    file = ModelFile(path)
    with gc_paused():
        sizes = dict(dims) | sizes_from_shapes(shapes, input_specs(load(file)))
    places.require_writable((path, *file.external_files, *others))
    return make_feeds(path, _optional_path(inputs), [batch], sizes, seed)


def _profile_file(
    label: str, path: Path, setting: SessionConfig, feeds: Mapping[str, object], min_time: float, timer: PhaseTimer
) -> RecordedProfile:
    with timer.phase(f"profiling {label}"):
        try:
            return build_profile(label, record_profile(path, setting, feeds, min_time))
        except EvaluationError as e:
            raise EvaluationError(f"{label} cannot be profiled: {e}") from e


def _report(
    path: Path,
    found: Sequence[RecordedProfile],
    result: Result | None,
    level: str,
    setting: SessionConfig,
    feeds: Feeds,
    timer: PhaseTimer,
    trace: Path | None,
) -> ProfileReport:
    before, *after = (replace(j.profile, trace=trace) for j in found)
    return ProfileReport(
        str(path),
        before,
        after[0] if after else None,
        level,
        setting.provider,
        setting.intra_op_threads,
        feeds.sizes,
        timer.seconds,
        versions(),
        [f"{q.label}: {q.message}" for q in result.report.quarantined] if result is not None else [],
        feeds.note,
        next(iter(feeds.by_batch)),
    )


def _write_reports(
    profile_report: ProfileReport, found: Sequence[RecordedProfile], result: Result | None, places: OutputPaths
) -> None:
    if places.trace is not None:
        write_timeline(
            found,
            {"source": profile_report.source, "level": profile_report.level, **profile_report.versions},
            places.trace,
        )
    if places.report is not None:
        write_json(profile_report.to_json(), places.report)
    if places.page is not None:
        from ..pages.rendering import write_page  # noqa: PLC0415 - seldom needed
        from .page import profile_page  # noqa: PLC0415 - seldom needed

        story, report = (result.visualization, result.report) if result is not None else (None, None)
        write_page(profile_page(profile_report, report, story), places.page)
