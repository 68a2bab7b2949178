"""Verification and measurement of the rows of a comparison, in onnxruntime and other engines."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from sys import float_info
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ...core.errors import ModelError, ModelLoadError, PassesError, format_error
from ...core.io.model import Model
from ...core.io.model_source import ModelSource, model_source
from ...core.ort.remote_backend import RemoteBackend
from ...core.ort.sessions import CPU, LEVELS, SessionConfig
from ...core.run.phase_timer import MEASURING, PhaseTimer
from ...core.support.confidence_intervals import mean_interval
from ...core.verify.engine_verdict import compare_in_engine
from ...core.verify.oracle_process import OracleProcess
from ...core.verify.verdict import Verdict
from ...core.verify.verification_spec import VerificationSpec
from ..measure import benchmark
from ..measure.metrics import ModelMetrics, latency_ratios
from ..measure.model_stats import ModelStats, compute_model_stats
from ..registry.tool_functions import needs_external_data
from ..report.result_row import NO_DIFFERENCE, WITHIN_TOLERANCE, WRONG
from ..verify.accuracy_loss import measure_loss
from ..verify.interfaces import Interfaces
from ..verify.verify_options import DEFAULT_BUDGET, VerifyOptions
from .comparison_report import ORIGINAL, ComparisonVerdict, EngineRow, OnlineOptimization, Row, offline_online_pairs
from .tool_runs import OptimizerOutput


class EngineRuns(Struct, frozen=True):
    """Verification of models in other engines, with their `configs`, against the `original`."""

    configs: Sequence[SessionConfig]
    original: ModelSource
    verifier: RowVerifier
    spec: VerificationSpec | None
    timer: PhaseTimer
    seed: int

    def rows(self, outputs: Sequence[OptimizerOutput]) -> Iterator[tuple[EngineRow, SessionConfig]]:
        """Yield a row for each model that was made, engine and precision."""
        for output in outputs:
            for config in self.configs if not output.row.failure else ():
                self.timer.progress(f"verifying {output.row.made_by} in {config.engine_name}")
                row = EngineRow(output.row.made_by, config.engine_name, config.precision)
                try:
                    yield self._verified(row, output, config), config
                except PassesError as e:
                    yield replace(row, failure=format_error(e)), config

    def _verified(self, row: EngineRow, output: OptimizerOutput, config: SessionConfig) -> EngineRow:
        if config.is_lossy and self.spec is not None:
            options = VerifyOptions(budget=DEFAULT_BUDGET, seed=self.seed, effort="quick")
            model = model_source(output.file, inline=False)
            loss, precision = measure_loss(self.original, model, self.spec, options, self.timer, config)
            text = f"{loss.outcome}: {loss.figure_text}"
            return replace(row, precision=precision, verdict=text, is_wrong=not loss.is_within)
        failure, verdict = self.verifier.verify_file(output.file, config)
        wrong = verdict.wrong if verdict is not None else ""
        return replace(row, failure=failure, verdict=_words(verdict), is_wrong=bool(wrong))


def _words(verdict: ComparisonVerdict | None) -> str:
    if verdict is None:
        return ""
    if verdict.wrong:
        return f"{WRONG}: {verdict.wrong}"
    text = NO_DIFFERENCE if verdict.is_exact else f"{WITHIN_TOLERANCE} ({verdict.share or 0:.0%} of it)"
    return f"{text} where {' and '.join(verdict.limits)}" if verdict.limits else text


def with_measurements(
    rows: Sequence[EngineRow], measured: Sequence[ModelMetrics], baseline: ModelMetrics | None
) -> list[EngineRow]:
    """The rows with the measurements of those without failures; ratios are relative to the `baseline`."""
    left, result = iter(measured), list[EngineRow]()
    for row in rows:
        found = None if row.failure else next(left, None)
        if found is not None and not found.failure:
            ratios = latency_ratios(found, baseline)
            result.append(replace(row, measured=found, precision=found.precision, ratios=ratios))
        else:
            result.append(row if found is None else replace(row, failure=found.failure))
    return result


@dataclass(slots=True)
class RowVerifier:
    """Compares the files of optimizers with the `original`, in a worker process, under `offline` and `online`.

    Without an `oracle` there are no verdicts. Files that onnxruntime saves are kept in `folder` temporarily. `model`,
    `bisect_options` and `models_folder`, the folder of kept files, are used in the commands of advice.
    """

    remote: RemoteBackend
    original: Model
    oracle: OracleProcess | None
    offline: SessionConfig
    online: SessionConfig
    folder: Path
    model: Path
    bisect_options: list[str] = field(default_factory=list[str])
    models_folder: Path | None = None
    _is_original_wrong: bool = field(default=False, init=False)
    _numbers: count[int] = field(default_factory=count, init=False)

    def rows(self, output: OptimizerOutput) -> list[Row]:
        """The row of the file without online optimization and, unless onnxruntime saved it, the row under ORT ALL.

        The rows of the original come first.
        """
        row = output.row
        if not row.failure:
            try:
                stats = compute_model_stats(output.file)
                row = replace(row, stats=replace(stats, checker_error=self._without_folder(stats.checker_error)))
            except ModelError as e:
                row = replace(row, failure=f"its result cannot be read: {e}")
        written = self._verified(row, output.file)
        if output.level:
            is_advised = written.is_unusable and self.online.provider == CPU
            return [replace(written, advice=self._saved_model_advice(output.level)) if is_advised else written]
        online = self._verified(replace(row, online=True), output.file)
        return [written, self._with_advice(output.file, written, online)]

    def _verified(self, row: Row, file: Path) -> Row:
        if row.failure:
            return row
        failure, verdict = self.verify_file(file, self.online if row.online else self.offline)
        stats = self._online_stats(file) if row.online and not failure else None
        return replace(row, failure=failure, verdict=verdict, online_stats=stats)

    def verify_file(self, file: Path, config: SessionConfig) -> tuple[str, ComparisonVerdict | None]:
        """Verify a file under a config: return why it does not load, or "" and its verdict."""
        if self.oracle is None:
            try:
                self.remote(file, config=config)
            except ModelLoadError as e:
                return self._without_folder(str(e)), None
            return "", None
        source, differs = model_source(file, inline=False), ""
        try:
            interfaces = Interfaces.of(self.original, source.load())
        except ModelError:  # it has operators or types that exist only in onnxruntime
            pass
        else:
            if differences := sorted((*interfaces.differences, *interfaces.float_types)):
                differs = f"interface differs: {'; '.join(differences)}"
                if interfaces.obstacle or len(interfaces.outputs) < len(self.original.graph.outputs):
                    return "", ComparisonVerdict(differs)
                source = interfaces.adapted(source, self.original)
        compare = self.oracle.compare if config.is_onnxruntime else partial(compare_in_engine, self.oracle)
        verdict = compare(source.loadable(), config=config)
        if verdict.failure is not None and verdict.failure.input_set is None:
            return self._without_folder(verdict.failure.reason), None
        found = _row_verdict(verdict)
        if differs:
            wrong = f"{differs}; {found.wrong or 'the values agree'}"
            return "", replace(found, wrong=wrong, edge_case="", is_refused=False)
        return "", found

    def _without_folder(self, message: str) -> str:
        """A message about a file, without the path of the temporary folder."""
        return message.replace(f"{self.folder}/", "")

    def _online_stats(self, file: Path) -> ModelStats | None:
        """The stats of the model that onnxruntime runs; None if it cannot save that model, as with compiled nodes."""
        saved = self.folder / f"left-{next(self._numbers)}.onnx"
        try:
            external = needs_external_data(file)
            config = replace(self.online, optimized_model_path=str(saved), save_external_data=external)
            self.remote(file, config=config)
            return compute_model_stats(saved)
        except (ModelLoadError, ModelError):
            return None
        finally:
            saved.unlink(missing_ok=True)
            Path(f"{saved}.data").unlink(missing_ok=True)

    def _saved_model_advice(self, level: str) -> str:
        failure, verdict = self.verify_file(self.model, replace(self.online, optimization_level=LEVELS[level]))
        if failure or (verdict is not None and verdict.wrong):
            return self._bisect_command(self.model, level)
        return "only the saved file is wrong: onnxruntime is correct when it optimizes the original while loading it"

    def _with_advice(self, file: Path, written: Row, online: Row) -> Row:
        """The online row, with advice if onnxruntime's own optimization is wrong; `passes bisect` runs on the CPU."""
        if self.online.provider != CPU or written.is_unusable or not online.is_unusable:
            return online
        self._is_original_wrong |= written.made_by == ORIGINAL
        if self._is_original_wrong:
            return replace(online, advice=self._bisect_command(self.model, "all"))
        command = self._bisect_command((self.models_folder or Path("DIR")) / file.name, "all")
        return replace(online, advice=command if self.models_folder is not None else f"{command}, after --keep DIR")

    def _bisect_command(self, model: Path, level: str) -> str:
        return shlex.join(["passes", "bisect", str(model), "--ort", level, *self.bisect_options])


def _row_verdict(verdict: Verdict) -> ComparisonVerdict:
    """The failure, and the difference that takes the largest share of its tolerance."""
    failure = verdict.failure
    differences = [*verdict.differences.values(), *verdict.nonfinite_differences.values()]
    worst = max(differences, key=lambda d: (bool(d.reason), d.share_of_allowed), default=None)
    wrong, edge_case = "", ""
    if failure is not None:
        wrong = failure.describe("it")
        sizes = failure.input_set.sizes if failure.input_set is not None else {}
        empty = next((f"{symbol}=0" for symbol, size in sizes.items() if size == 0), "")
        edge_case = "NaN" if failure.is_nonfinite_only else empty
    is_refused = bool(edge_case) and failure is not None and not failure.output
    if worst is None:
        return ComparisonVerdict(wrong, edge_case=edge_case, is_refused=is_refused)
    relative = min(worst.error / worst.magnitude, float_info.max) if worst.magnitude else None
    excused = sum(d.excused for d in differences)
    return ComparisonVerdict(
        wrong, worst.error, worst.allowed, edge_case, relative, excused, is_refused, verdict.limits
    )


def measure_rows(
    rows: Sequence[Row],
    files: Mapping[str, Path],
    feeds: Mapping[int, Mapping[str, Any]],
    sessions: Mapping[bool, SessionConfig],
    effort: benchmark.BenchmarkConfig,
    timer: PhaseTimer,
    baseline: int,
    others: Sequence[benchmark.BenchmarkTarget] = (),
) -> tuple[list[Row], list[ModelMetrics]]:
    """Time the rows that load, and `others`, interleaved; ratios are relative to row `baseline`.

    `sessions` are the sessions without online optimization (False) and with it (True).
    """
    indices = [i for i, row in enumerate(rows) if not row.failure]
    timed = [rows[i] for i in indices]
    targets = [benchmark.BenchmarkTarget(files[row.made_by], sessions[row.online]) for row in timed]
    first = indices.index(baseline) if baseline in indices else 0
    result, of_others = list(rows), list[ModelMetrics]()
    if targets and feeds:
        with timer.phase(MEASURING):
            measured = benchmark.run_benchmark([*targets, *others], feeds, effort, timer.progress, first)
        for i, metrics in zip(indices, measured, strict=False):
            result[i] = replace(result[i], measured=metrics, failure=metrics.failure)
        of_others = measured[len(targets) :]
    base = result[baseline].measured
    found = [r if i == baseline else replace(r, ratios=latency_ratios(r.measured, base)) for i, r in enumerate(result)]
    return found, of_others


def online_optimizations(rows: Sequence[Row]) -> list[OnlineOptimization]:
    """The effect of onnxruntime's optimizer on each model that runs both with and without it."""
    result: list[OnlineOptimization] = []
    for row, then in offline_online_pairs(rows):
        if row.stats is None or row.measured is None or then is None:
            continue
        if then.online_stats is None or then.measured is None:
            continue
        extra = [a - b for a, b in zip(then.measured.creations, row.measured.creations, strict=False)]
        extra = extra or [then.measured.creation_seconds - row.measured.creation_seconds]
        middle, *interval = mean_interval(extra) if len(extra) > 1 else extra
        ratio = next(iter(latency_ratios(then.measured, row.measured).values()), None)
        bounds = (interval[0], interval[1]) if interval else None
        nodes = row.stats.nodes, then.online_stats.nodes
        result.append(OnlineOptimization(row.made_by, *nodes, middle, ratio, bounds))
    return result
