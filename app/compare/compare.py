"""`compare`: verification and measurement of a model and of other optimizers' results for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec.structs import replace

from ...core.errors import EvaluationError, ModelError, UnverifiableError
from ...core.io.model_source import ModelLike, ModelSource, model_source
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import publish_copy, publish_report
from ...core.ort.engines import ONNXRUNTIME, parse_engine
from ...core.ort.remote_backend import RemoteBackend
from ...core.ort.sessions import DISABLE_ALL, SessionConfig
from ...core.run.phase_timer import LOADING, RUNNING_ORIGINAL, PhaseTimer
from ...core.support.gc_pause import gc_paused
from ...core.support.scratch_folder import ScratchFolder
from ...core.verify.given_inputs import GivenSamples, Inputs
from ...core.verify.oracle_process import OracleProcess
from ...core.verify.verification_spec import VerificationSpec
from ..measure.benchmark import BenchmarkConfig, BenchmarkTarget
from ..measure.execution_provider import engine_versions, session_configs
from ..measure.feeds import Feeds, make_feeds
from ..measure.tuned_settings import read_tuned_settings, settings_words
from ..optimize.run_options import RunOptions, plugin_files
from ..optimize.run_setup import frozen_source
from ..options import with_process_options
from ..registry.environment import machine_summary
from ..registry.python_data import data_files, read_given
from ..report.page import page_html
from ..report.progress import phase_callback, with_keywords
from ..report.verdict_text import input_sets_text
from .compare_options import CompareOptions
from .comparison_report import ORIGINAL, ComparisonReport, Row
from .document import describe
from .rows import EngineRuns, RowVerifier, measure_rows, online_optimizations, with_measurements
from .tool_runs import OptimizerOutput, run_own, run_tool, select_tools

BASELINE_ROW = 1  # index of the original under ORT ALL


@with_process_options
def compare_model(model: ModelLike, options: CompareOptions) -> ComparisonReport:
    """Compare a model file with the results of passwright, onnxruntime and the optimizers `tools` for it.

    `pipeline`, `plugin`, `only`, `skip`, `enable` and `inputs` mean the same as for `optimize`. The `shape` of inputs
    and sizes of symbols (`dim`) apply to verification and measurement, and do not change the model. `tools` are ort,
    onnxsim, onnxslim, onnxoptimizer and onnxscript; None selects those installed. Each model has a further row for each
    other `engine`, such as openvino or openvino:bf16. `json` is a file for the report as JSON, `html` one for a page,
    and `keep` a folder for the optimized files.

    A tool that fails or is wrong has a row with the reason. If the original cannot be run, nothing is verified, but
    other figures are still measured. Raises ModelError for an unusable model or input, and UsageError for optimizers
    that are not installed.

    Examples:
        >>> report = compare("model.onnx", tools=(), batch=(1,), min_time=0.01, threads=1)
        >>> {row.made_by for row in report.rows} >= {'passwright'}
        True
    """
    with ScratchFolder() as folder:
        return _compare(model_source(model, inline=False).in_file(folder), options)


def _compare(source: ModelSource, options: CompareOptions) -> ComparisonReport:
    """Like `compare_model`, for a file."""
    timer, (online, *others) = PhaseTimer(phase_callback(options.progress)), session_configs_of(options)
    offline = replace(online, optimization_level=DISABLE_ALL, disabled_optimizers=())
    path = source.files[0]
    tools, skipped = select_tools(options.tools)
    paths = OutputPaths.of(report=options.json, page=options.html, repro_folder=options.keep)
    names = ["passwright", *(t.key for t in tools)]
    read = [*data_files(options.inputs), *plugin_files(options.plugin), *options.custom_operator_files]
    _require_writable(paths, [path, *read], names)
    with gc_paused(), timer.phase(LOADING):
        source, frozen = frozen_source(source, options)
        original = source.load()
        given = read_given(options.inputs, original)
        try:
            spec, failure = VerificationSpec.of(original, given, options.shape or {}, options.dim or {}), ""
        except UnverifiableError as e:
            spec, failure = None, str(e)
    _require_writable(paths, [*source.files, *read], names)
    run_options = RunOptions(
        options.pipeline,
        options.plugin,
        inputs=given,
        only=options.only,
        skip=options.skip,
        enable=options.enable,
        freeze_initializers=options.freeze_initializers,
        seed=options.seed,
        visualize=options.html is not None,
    )
    with ScratchFolder() as folder, ExitStack() as exits:
        own_output, own, notes = run_own(path, run_options, folder, timer)
        outputs = [OptimizerOutput(Row(ORIGINAL, "", online=False, seconds=0.0), path), own_output]
        for tool in tools:
            with timer.phase(f"optimizing with {tool.label}"):
                outputs.append(run_tool(tool, path, folder))
        with timer.phase(RUNNING_ORIGINAL):
            oracle, verification = _oracle(source, spec, failure, options.seed, timer)
            if oracle is not None:
                exits.enter_context(oracle)
        rows: list[Row] = []
        with timer.phase("verifying rows"), RemoteBackend() as remote:
            verifier = RowVerifier(
                remote,
                original,
                oracle,
                # As a run is verified.
                replace(offline, prepack_weights=False, allow_spinning=False, memory_patterns=False),
                online,
                folder,
                path,
                _bisect_options(options.inputs, options.shape or {}, options.dim or {}, options.seed),
                paths.repro_folder,
            )
            for output in outputs:
                timer.progress(f"verifying {output.row.made_by}")
                rows += verifier.rows(output)
            in_engines = [*EngineRuns(others, source, verifier, spec, timer, options.seed).rows(outputs)]
        sizes = spec.fixed_sizes if spec is not None else {}
        try:
            feeds = make_feeds(path, given, options.batch, sizes, options.seed)
        except (UnverifiableError, EvaluationError) as e:
            feeds = Feeds({}, {}, f"nothing was measured: {e}")
        files = {output.row.made_by: output.file for output in outputs}
        effort = BenchmarkConfig(options.min_time, seed=options.seed)
        targets = [BenchmarkTarget(files[r.made_by], config) for r, config in in_engines if not r.failure]
        rows, found = measure_rows(
            rows, files, feeds.by_batch, {False: offline, True: online}, effort, timer, BASELINE_ROW, targets
        )
        engine_rows = with_measurements([row for row, _ in in_engines], found, rows[BASELINE_ROW].measured)
        if paths.repro_folder is not None:
            with timer.phase("keeping the files"):
                _copy_models([o.file for o in outputs if o.file != path and not o.row.failure], paths.repro_folder)
    report = ComparisonReport(
        source.label,
        own.report.pipeline,
        rows,
        BASELINE_ROW,
        online_optimizations(rows),
        max((r.measured.threads for r in rows if r.measured is not None), default=online.intra_op_threads),
        online.provider,
        list(feeds.by_batch),
        feeds.sizes,
        verification,
        feeds.note,
        skipped,
        timer.seconds,
        engine_versions(others) | {o.row.made_by: o.row.version for o in outputs if o.row.version and not o.level},
        machine_summary(),
        oracle is not None,
        frozen + notes + (oracle.notes if oracle is not None else []),
        str(paths.repro_folder or ""),
        "" if options.settings is None else ", ".join(settings_words(online)) or "onnxruntime's defaults",
        engine_rows,
        options=options.chosen,
    )
    publish_report(paths, report.to_json, lambda: page_html(describe(report, own.report, own.visualization)))
    return report


compare = with_keywords(CompareOptions, "compare")(compare_model)


def session_configs_of(options: CompareOptions) -> list[SessionConfig]:
    """The session of the online rows, and the sessions of other engines.

    Raises UsageError for an unusable engine, provider or settings file.
    """
    engines = [text for text in options.engine if parse_engine(text).name != ONNXRUNTIME]
    online, *others = session_configs(options, [ONNXRUNTIME, *engines])
    if options.settings is not None:
        online = read_tuned_settings(Path(options.settings)).session.config()
    return [online, *others]


def _require_writable(paths: OutputPaths, read: Sequence[Path], names: Iterable[str]) -> None:
    """Raise ModelError unless all paths can be written, including models with these `names` in the folder."""
    paths.require_distinct(read)
    if paths.repro_folder is not None and paths.repro_folder.is_dir():
        for name in names:
            OutputPaths.of(model=paths.repro_folder / f"{name}.onnx").require_distinct(read)


def _oracle(
    source: ModelSource, spec: VerificationSpec | None, failure: str, seed: int, timer: PhaseTimer
) -> tuple[OracleProcess | None, str]:
    """The results of the original, and a description; or None and the reason."""
    if spec is None:
        return None, f"nothing was verified: {failure}"
    try:
        oracle = OracleProcess(source.loadable(), spec, seed, label=source.label, report=timer.report).wait()
    except (UnverifiableError, EvaluationError) as e:
        return None, f"nothing was verified: {e}"
    sets = input_sets_text([str(run.input_set) for run in oracle.runs])
    return oracle, f"compared with {oracle.backend} without optimizations on {sets}"


def _bisect_options(
    inputs: Inputs | GivenSamples | None, shapes: Mapping[str, Sequence[int]], dims: Mapping[str, int], seed: int
) -> list[str]:
    """The options that make `passes bisect` use the same inputs."""
    given: Sequence[object] = inputs if isinstance(inputs, list | tuple) else [inputs]
    options = [word for name in given if isinstance(name, str | Path) for word in ("--inputs", str(name))]
    for name, shape in shapes.items():
        options += ["--shape", f"{name}:{','.join(map(str, shape))}"]
    for symbol, size in dims.items():
        options += ["--dim", f"{symbol}={size}"]
    return options + (["--seed", str(seed)] if seed else [])


def _copy_models(files: Sequence[Path], folder: Path) -> None:
    """Copy models and their external data, whose file names begin with the models' names. Raises ModelError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise ModelError(f"cannot write to {folder}: {e.strerror}") from e
    for file in files:
        if file.is_file():
            data = [p for p in file.parent.iterdir() if p.name.startswith(f"{file.name}.")]
            publish_copy(file, data, folder)
