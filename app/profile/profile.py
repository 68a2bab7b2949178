"""`profile`: where the time of a model goes, before and after it is optimized."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ...core.errors import EvaluationError
from ...core.io.files import ModelFile, load
from ...core.io.output_paths import Places
from ...core.ort.sessions import Setting
from ...core.pass_manager.pass_selection import BadUsage
from ...core.pass_manager.phase_timer import Stopwatch
from ...core.pass_manager.report import write_json
from ...core.support.gc_pause import no_collection
from ...core.verify.given_inputs import sizes_from_shapes
from ...core.verify.input_specs import signature
from ..environment import versions
from ..measure.execution_provider import Provider
from ..measure.feeds import Feeds, feeds_for
from ..measure.profile_recording import record
from ..registry.pass_sources import Given
from ..run.optimize import Result, optimize
from .profile_builder import Joined, joined
from .profile_report import Profiled
from .timeline import write_timeline

LEVELS = {"disable": "DISABLE_ALL"} | {n: f"ENABLE_{n.upper()}" for n in ("basic", "extended", "layout", "all")}


def profile(
    model: str | Path,
    pipeline: str = "basic",
    plugins: Sequence[Given] = (),
    inputs: str | Path | None = None,
    *,
    optimizes: bool = True,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    batch: int = 1,
    seed: int = 0,
    threads: int = 0,
    provider: Provider | None = None,
    level: str = "all",
    min_time: float = 2.0,
    trace_to: str | Path | None = None,
    report_to: str | Path | None = None,
    page_to: str | Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Profiled:
    """Run a model's file under onnxruntime's profiler as it is and, if it `optimizes`, as `optimize` makes it.

    Both get the same inputs: those in `inputs` (an .npz or a folder of ONNX test data), or some that are made up with
    `shapes` and `dims` for sizes, which the models themselves do not take on, and `batch` samples. They run with
    `threads` (0 for as many as there are cores), a `provider`, onnxruntime's own optimization at `level` (disable,
    basic, extended, layout, all), for `min_time` seconds each beside warming up. `trace_to` is for the timelines in
    the format of chrome://tracing, `report_to` for the profiles as JSON, `page_to` for a page of HTML.

    Raises ModelError for a model or input that is unusable, BadUsage for a pipeline or level that is, EvaluationError
    where onnxruntime does not run a model, Unverifiable if no inputs or nothing to hold the result to can be found.
    """
    if level not in LEVELS:
        raise BadUsage(f"--level {level}: there is no such level (there are {', '.join(LEVELS)})")
    path = Path(model)
    places = Places(*(None, _path(report_to), None, None, _path(page_to), _path(trace_to)))
    others = [Path(p) for p in (inputs, *plugins) if isinstance(p, str | Path)]
    places.require((path, *others))
    watch = Stopwatch(progress)
    with watch.phase("choosing inputs"):
        feeds = _feeds(path, places, others, inputs, shapes or {}, dims or {}, batch, seed)
        given = next(iter(feeds.by_batch.values()))
    setting = (provider or Provider()).setting(LEVELS[level], threads)
    with TemporaryDirectory() as folder:
        result, paths = None, {"before": path}
        if optimizes:
            with watch.phase("optimizing"):
                result = optimize(path, pipeline, plugins, inputs=inputs, seed=seed, story=places.page is not None)
            paths["after"] = Path(folder) / "after.onnx"
            result.save(paths["after"])
        found = [_profiled(label, p, setting, given, min_time, watch) for label, p in paths.items()]
    profiled = _told(path, found, result, level, setting, feeds, watch, places.trace)
    _write(profiled, found, result, places)
    return profiled


def _path(given: str | Path | None) -> Path | None:
    return Path(given) if given is not None else None


def _feeds(
    path: Path,
    places: Places,
    others: Sequence[Path],
    inputs: str | Path | None,
    shapes: Mapping[str, Sequence[int]],
    dims: Mapping[str, int],
    batch: int,
    seed: int,
) -> Feeds:
    """The inputs for both models; what the model's weights are in is not to be written to, either."""
    file = ModelFile(path)
    with no_collection():
        sizes = dict(dims) | sizes_from_shapes(shapes, signature(load(file)))
    places.require((path, *file.externals, *others))
    return feeds_for(path, _path(inputs), [batch], sizes, seed)


def _profiled(
    label: str, path: Path, setting: Setting, feeds: Mapping[str, object], min_time: float, watch: Stopwatch
) -> Joined:
    with watch.phase(f"profiling {label}"):
        try:
            return joined(label, record(path, setting, feeds, min_time))
        except EvaluationError as e:
            raise EvaluationError(f"{label} cannot be profiled: {e}") from e


def _told(
    path: Path,
    found: Sequence[Joined],
    result: Result | None,
    level: str,
    setting: Setting,
    feeds: Feeds,
    watch: Stopwatch,
    trace: Path | None,
) -> Profiled:
    before, *after = (replace(j.profile, trace=trace) for j in found)
    return Profiled(
        str(path),
        before,
        after[0] if after else None,
        level,
        setting.provider,
        setting.threads,
        feeds.sizes,
        watch.seconds,
        versions(),
        [f"{q.label}: {q.message}" for q in result.report.quarantined] if result is not None else [],
        feeds.note,
        next(iter(feeds.by_batch)),
    )


def _write(profiled: Profiled, found: Sequence[Joined], result: Result | None, places: Places) -> None:
    if places.trace is not None:
        write_timeline(found, {"source": profiled.source, "level": profiled.level, **profiled.versions}, places.trace)
    if places.report is not None:
        write_json(profiled.to_json(), places.report)
    if places.page is not None:
        from ..pages.rendering import write_page  # noqa: PLC0415 - seldom needed
        from .page import profile_page  # noqa: PLC0415 - seldom needed

        story, report = (result.story, result.report) if result is not None else (None, None)
        write_page(profile_page(profiled, report, story), places.page)
