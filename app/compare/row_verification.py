"""Rows, before anything is measured: what each contender's file is made of, and whether it computes the same."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from sys import float_info
from types import TracebackType
from typing import Self

from ...core.errors import CannotLoad, ModelError
from ...core.io.model import Model
from ...core.io.model_source import source_of
from ...core.ort.remote_backend import Remote
from ...core.ort.sessions import Setting
from ...core.verify.oracle import Oracle
from ...core.verify.verdict import Mismatch, Verdict
from ..adapters.default_optimizers import is_apart
from ..measure.model_stats import Anatomy, anatomy
from ..verify.verify import interface_differences
from .bisect_advice import Advice
from .comparison_report import Judged, Row
from .tool_runs import Contender


@dataclass(slots=True)
class Examination:
    """Holds the contenders' files to the `original`, in processes of their own, as `written` and `online`.

    Without an `oracle` nothing is judged. `folder` is for what onnxruntime saves.
    """

    original: Model
    oracle: Oracle | None
    written: Setting
    online: Setting
    folder: Path
    advice: Advice
    _remote: Remote = field(default_factory=Remote, init=False)
    _number: int = field(default=0, init=False)

    def __enter__(self) -> Self:
        self._remote.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._remote.__exit__(kind, error, at)

    def rows(self, contender: Contender) -> list[Row]:
        """The file as it is written, and then under ORT ALL, unless it is onnxruntime's own."""
        blank = Row(contender.made_by, contender.version, online=False, seconds=contender.seconds)
        if not contender.failure:
            try:
                found = anatomy(contender.file)
            except ModelError as e:
                contender = replace(contender, failure=f"what it wrote cannot be read: {e}")
            else:
                blank = replace(blank, anatomy=replace(found, invalid=self._plain(found.invalid)))
        rows = [self._examined(contender, blank)]
        if not contender.level:
            rows.append(self._examined(contender, replace(blank, online=True)))
        return self.advice.given(contender, rows, self.judged)

    def judged(self, file: Path, setting: Setting) -> tuple[str, Judged | None]:
        """Why a file does not load, if it does not, and what the oracle says of it under a setting."""
        self._remote.setting = setting
        if self.oracle is None:
            return self._refusal(file), None
        if differences := self._differences(file):
            return "", Judged("; ".join(differences))
        verdict = self.oracle.judge(file, backend=self._remote)
        if verdict.failure is not None and verdict.failure.draw is None:
            return self._plain(verdict.failure.reason), None
        return "", _judged(verdict)

    def _examined(self, contender: Contender, row: Row) -> Row:
        if contender.failure:
            return replace(row, failure=contender.failure)
        setting = self.online if row.online else self.written
        failure, judged = self.judged(contender.file, setting)
        row = replace(row, failure=failure, judged=judged)
        return replace(row, left=self._left(contender.file)) if row.online and not failure else row

    def _refusal(self, file: Path) -> str:
        try:
            self._remote(file)
        except CannotLoad as e:
            return self._plain(str(e))
        return ""

    def _plain(self, complaint: str) -> str:
        """What is said of a file, without a folder that nobody can look into."""
        return complaint.replace(f"{self.folder}/", "")

    def _differences(self, file: Path) -> list[str]:
        """Why the file cannot be used in the place of the original; none where that shows only in running it."""
        try:
            return interface_differences(self.original, source_of(file, inline=False).load())
        except ModelError:  # it has what only onnxruntime knows
            return []

    def _left(self, file: Path) -> Anatomy | None:
        """What onnxruntime runs in the end; None where it cannot save that, as with what a provider has compiled."""
        self._number += 1
        saved = self.folder / f"left-{self._number}.onnx"
        try:
            self._remote(file, setting=replace(self.online, saves=str(saved), saves_apart=is_apart(file)))
            return anatomy(saved)
        except (CannotLoad, ModelError):
            return None
        finally:
            saved.unlink(missing_ok=True)
            Path(f"{saved}.data").unlink(missing_ok=True)


def _judged(verdict: Verdict) -> Judged:
    """The failure, and the difference that came nearest to what is allowed, or went past it."""
    failure = verdict.failure
    found = [*verdict.differences.values(), *verdict.nonfinite.values()]
    worst = max(found, key=lambda d: (bool(d.reason), d.share), default=None)
    wrong = "" if failure is None else failure.told_of("it")
    only = "" if failure is None else _edge(failure)
    if worst is None:
        return Judged(wrong, only=only)
    relative = min(worst.error / worst.magnitude, float_info.max) if worst.magnitude else None
    return Judged(wrong, worst.error, worst.allowed, only, relative, sum(d.excused for d in found))


def _edge(failure: Mismatch) -> str:
    """What is special about the inputs it was seen on; finite ones are compared first."""
    if failure.only_nonfinite:
        return "NaN"
    sizes = failure.draw.sizes if failure.draw is not None else {}
    return next((f"{symbol}=0" for symbol, size in sizes.items() if size == 0), "")
