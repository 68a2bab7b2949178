"""Rows, before anything is measured: what each contender's file is made of, and whether it computes the same."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from sys import float_info
from types import TracebackType
from typing import Self

from ...core.errors import ModelError, ModelLoadError
from ...core.io.model import Model
from ...core.io.model_source import model_source
from ...core.ort.remote_backend import RemoteBackend
from ...core.ort.sessions import SessionConfig
from ...core.verify.oracle import Oracle
from ...core.verify.verdict import Mismatch, Verdict
from ..adapters.default_optimizers import needs_external_data
from ..measure.model_stats import ModelStats, compute_model_stats
from ..verify.verify import interface_differences
from .bisect_advice import BisectAdvisor
from .comparison_report import Row, RowVerdict
from .tool_runs import OptimizerOutput


@dataclass(slots=True)
class RowVerifier:
    """Holds the contenders' files to the `original`, in processes of their own, as `offline` and `online`.

    Without an `oracle` nothing is judged. `folder` is for what onnxruntime saves.
    """

    original: Model
    oracle: Oracle | None
    offline: SessionConfig
    online: SessionConfig
    folder: Path
    advisor: BisectAdvisor
    _remote: RemoteBackend = field(default_factory=RemoteBackend, init=False)
    _number: int = field(default=0, init=False)

    def __enter__(self) -> Self:
        self._remote.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._remote.__exit__(kind, error, at)

    def rows(self, output: OptimizerOutput) -> list[Row]:
        """The file as it is written, and then under ORT ALL, unless it is onnxruntime's own."""
        blank = Row(output.made_by, output.version, online=False, seconds=output.seconds)
        if not output.failure:
            try:
                found = compute_model_stats(output.file)
            except ModelError as e:
                output = replace(output, failure=f"what it wrote cannot be read: {e}")
            else:
                blank = replace(blank, stats=replace(found, checker_error=self._without_folder(found.checker_error)))
        rows = [self._verified_row(output, blank)]
        if not output.level:
            rows.append(self._verified_row(output, replace(blank, online=True)))
        return self.advisor.add_advice(output, rows, self.verify_file)

    def verify_file(self, file: Path, setting: SessionConfig) -> tuple[str, RowVerdict | None]:
        """Why a file does not load, if it does not, and what the oracle says of it under a setting."""
        self._remote.config = setting
        if self.oracle is None:
            return self._load_error(file), None
        if differences := self._interface_differences(file):
            return "", RowVerdict("; ".join(differences))
        verdict = self.oracle.compare(file, backend=self._remote)
        if verdict.failure is not None and verdict.failure.input_set is None:
            return self._without_folder(verdict.failure.reason), None
        return "", _row_verdict(verdict)

    def _verified_row(self, output: OptimizerOutput, row: Row) -> Row:
        if output.failure:
            return replace(row, failure=output.failure)
        setting = self.online if row.online else self.offline
        failure, judged = self.verify_file(output.file, setting)
        row = replace(row, failure=failure, verdict=judged)
        return replace(row, online_stats=self._online_stats(output.file)) if row.online and not failure else row

    def _load_error(self, file: Path) -> str:
        try:
            self._remote(file)
        except ModelLoadError as e:
            return self._without_folder(str(e))
        return ""

    def _without_folder(self, complaint: str) -> str:
        """What is said of a file, without a folder that nobody can look into."""
        return complaint.replace(f"{self.folder}/", "")

    def _interface_differences(self, file: Path) -> list[str]:
        """Why the file cannot be used in the place of the original; none where that shows only in running it."""
        try:
            return interface_differences(self.original, model_source(file, inline=False).load())
        except ModelError:  # it has what only onnxruntime knows
            return []

    def _online_stats(self, file: Path) -> ModelStats | None:
        """What onnxruntime runs in the end; None where it cannot save that, as with what a provider has compiled."""
        self._number += 1
        saved = self.folder / f"left-{self._number}.onnx"
        try:
            external = needs_external_data(file)
            config = replace(self.online, optimized_model_path=str(saved), save_external_data=external)
            self._remote(file, config=config)
            return compute_model_stats(saved)
        except (ModelLoadError, ModelError):
            return None
        finally:
            saved.unlink(missing_ok=True)
            Path(f"{saved}.data").unlink(missing_ok=True)


def _row_verdict(verdict: Verdict) -> RowVerdict:
    """The failure, and the difference that came nearest to what is allowed, or went past it."""
    failure = verdict.failure
    found = [*verdict.differences.values(), *verdict.nonfinite_differences.values()]
    worst = max(found, key=lambda d: (bool(d.reason), d.share_of_allowed), default=None)
    wrong = "" if failure is None else failure.describe("it")
    only = "" if failure is None else _edge_case(failure)
    if worst is None:
        return RowVerdict(wrong, edge_case=only)
    relative = min(worst.error / worst.magnitude, float_info.max) if worst.magnitude else None
    return RowVerdict(wrong, worst.error, worst.allowed, only, relative, sum(d.excused for d in found))


def _edge_case(failure: Mismatch) -> str:
    """What is special about the inputs it was seen on; finite ones are compared first."""
    if failure.is_nonfinite_only:
        return "NaN"
    sizes = failure.input_set.sizes if failure.input_set is not None else {}
    return next((f"{symbol}=0" for symbol, size in sizes.items() if size == 0), "")
