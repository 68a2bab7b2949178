"""`compare`: a model beside what optimizers make of it, judged and measured in one go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ...core.errors import EvaluationError, UnverifiableError
from ...core.io.model import Model
from ...core.io.model_source import ModelSource, model_source
from ...core.ort.sessions import DISABLE_ALL, ENABLE_ALL
from ...core.pass_manager.phase_timer import PhaseTimer
from ...core.pass_manager.report import write_json
from ...core.support.gc_pause import gc_paused
from ...core.verify.oracle import Oracle
from ...core.verify.verification_spec import Inputs, VerificationSpec
from ..environment import machine_summary, versions
from ..measure.feeds import Feeds, make_feeds
from ..run.run_options import RunOptions
from .bisect_advice import ORIGINAL, BisectAdvisor
from .comparison_paths import ComparisonPaths
from .comparison_report import DEFAULT_CONDITIONS, ComparisonReport, Conditions, Row
from .own_run import OwnRun
from .row_timing import measure_rows, online_optimizations
from .row_verification import RowVerifier
from .tool_runs import OptimizerOutput, run_tool
from .tools import Tool, select_tools

BASELINE_ROW = 1  # the place of the original under ORT ALL


def compare(
    model: str | Path,
    pipeline: str = "basic",
    plugins: Sequence[str | Path] = (),
    tool_names: Sequence[str] | None = None,
    inputs: Inputs | None = None,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    enable: Sequence[str] = (),
    conditions: Conditions = DEFAULT_CONDITIONS,
    seed: int = 0,
    report_to: str | Path | None = None,
    page_to: str | Path | None = None,
    keep_to: str | Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> ComparisonReport:
    """Compare the model in a file with what this optimizer, onnxruntime's and `tool_names` make of it.

    `pipeline`, `plugins`, `only`, `skip`, `enable` and `inputs` are as for `optimize`; `shapes` of inputs and sizes of
    symbols (`dims`) say what to judge and measure with, and change no model. `tool_names`: ort, onnxsim, onnxslim,
    onnxoptimizer, onnxscript; None for those installed. `report_to`: a file for all of it as JSON, `page_to` for a
    page; `keep_to`: a folder for the optimized files. What others make that is wrong or missing is told in its row;
    where the original cannot be asked, nothing is judged, and the rest is measured all the same.

    Raises ModelError for a model or input that is unusable, UsageError for optimizers that are not there.
    """
    watch = PhaseTimer(progress)
    path = Path(model)
    chosen, left_out = select_tools(tool_names)
    source = model_source(path, inline=False)
    places = ComparisonPaths.of(report_to, page_to, keep_to)
    names = ["passwright", *(t.key for t in chosen)]
    read = [Path(p) for p in (inputs, *plugins) if isinstance(p, str | Path)]
    places.require([path, *read], names)
    with gc_paused(), watch.phase("loading"):
        original = source.load()
        question = _verification_spec(original, inputs, shapes or {}, dims or {})
    places.require([*source.files, *read], names)
    run = RunOptions(
        pipeline, plugins, inputs=inputs, only=only, skip=skip, enable=enable, seed=seed, visualize=page_to is not None
    )
    with TemporaryDirectory() as name:
        folder = Path(name)
        ours = OwnRun.run(path, run, folder, watch)
        made = [OptimizerOutput(ORIGINAL, "", path, seconds=0.0), ours.output, *_run_tools(chosen, path, folder, watch)]
        with watch.phase("asking the original"):
            asked = _ask_original(source, question, seed)
        options = _bisect_options(inputs, shapes or {}, dims or {}, seed)
        advice = BisectAdvisor(path, options, conditions.session_setting(ENABLE_ALL), places.models_folder)
        rows = _verified_rows(made, original, asked.oracle, conditions, folder, advice, watch)
        feeds = _feeds(path, inputs, conditions.batches, asked.sizes, seed)
        files = {c.made_by: c.file for c in made}
        rows = measure_rows(rows, files, feeds.by_batch, conditions, watch, BASELINE_ROW)
        if places.models_folder is not None:
            with watch.phase("keeping the files"):
                places.copy_models([c.file for c in made if c.file != path and not c.failure])
    found = ComparisonReport(
        str(path),
        ours.report.pipeline,
        rows,
        BASELINE_ROW,
        online_optimizations(rows),
        max((r.measured.threads for r in rows if r.measured is not None), default=conditions.threads),
        conditions.provider.name,
        list(feeds.by_batch),
        feeds.sizes,
        asked.summary,
        feeds.note,
        left_out,
        watch.seconds,
        versions() | {c.made_by: c.version for c in made if c.version and not c.level},
        machine_summary(),
        asked.oracle is not None,
        [*ours.notes, *asked.notes],
        str(places.models_folder or ""),
    )
    _write_reports(found, ours, places)
    return found


@dataclass(frozen=True, slots=True)
class _OracleOutcome:
    """The answers of the original, or why there are none; `sizes` that were asked for, by symbol."""

    oracle: Oracle | None
    summary: str
    sizes: Mapping[str, int]

    @property
    def notes(self) -> list[str]:
        return [] if self.oracle is None else self.oracle.notes


def _verification_spec(
    original: Model, inputs: Inputs | None, shapes: Mapping[str, Sequence[int]], dims: Mapping[str, int]
) -> VerificationSpec | str:
    """What to ask, or why nothing can be asked. Raises ModelError for inputs and sizes that are not the model's."""
    try:
        return VerificationSpec.of(original, inputs, shapes, dims)
    except UnverifiableError as e:
        return str(e)


def _ask_original(source: ModelSource, verification_spec: VerificationSpec | str, seed: int) -> _OracleOutcome:
    if isinstance(verification_spec, str):
        return _OracleOutcome(None, f"nothing was judged: {verification_spec}", {})
    try:
        oracle = verification_spec.build_oracle(source, seed)
    except (UnverifiableError, EvaluationError) as e:
        return _OracleOutcome(None, f"nothing was judged: {e}", verification_spec.fixed_sizes)
    sets = len(oracle.answers)
    told = f"held to {oracle.backend} without optimizations on {sets} set{'s' * (sets != 1)} of inputs"
    return _OracleOutcome(oracle, told, verification_spec.fixed_sizes)


def _feeds(path: Path, inputs: Inputs | None, batches: Sequence[int], sizes: Mapping[str, int], seed: int) -> Feeds:
    try:
        return make_feeds(path, inputs, batches, dict(sizes), seed)
    except (UnverifiableError, EvaluationError) as e:
        return Feeds({}, {}, f"nothing was measured: {e}")


def _run_tools(chosen: Sequence[Tool], path: Path, folder: Path, timer: PhaseTimer) -> list[OptimizerOutput]:
    made: list[OptimizerOutput] = []
    for tool in chosen:
        with timer.phase(f"optimizing with {tool.label}"):
            made.append(run_tool(tool, path, folder))
    return made


def _verified_rows(
    outputs: Sequence[OptimizerOutput],
    original: Model,
    oracle: Oracle | None,
    conditions: Conditions,
    folder: Path,
    advisor: BisectAdvisor,
    timer: PhaseTimer,
) -> list[Row]:
    written = replace(conditions.session_setting(DISABLE_ALL), prepack_weights=False)  # as a run is verified
    online = conditions.session_setting(ENABLE_ALL)
    rows: list[Row] = []
    with timer.phase("judging"), RowVerifier(original, oracle, written, online, folder, advisor) as examination:
        for contender in outputs:
            timer.progress(f"judging {contender.made_by}")
            rows += examination.rows(contender)
    return rows


def _bisect_options(
    inputs: Inputs | None, shapes: Mapping[str, Sequence[int]], dims: Mapping[str, int], seed: int
) -> list[str]:
    """What `passes bisect` is to be given to ask the same."""
    options = ["--inputs", str(inputs)] if isinstance(inputs, str | Path) else []
    for name, shape in shapes.items():
        options += ["--shape", f"{name}:{','.join(map(str, shape))}"]
    for symbol, size in dims.items():
        options += ["--dim", f"{symbol}={size}"]
    return options + (["--seed", str(seed)] if seed else [])


def _write_reports(report: ComparisonReport, own_run: OwnRun, places: ComparisonPaths) -> None:
    if places.report is not None:
        write_json(report.to_json(), places.report)
    if places.page is not None:
        from ..pages.rendering import write_page  # noqa: PLC0415 - seldom needed
        from ..visualization.visualization import Visualization  # noqa: PLC0415 - as above
        from .page import compare_page  # noqa: PLC0415 - seldom needed

        write_page(compare_page(report, own_run.report, own_run.visualization or Visualization()), places.page)
