"""What to do about a result of onnxruntime's that is wrong: the command that finds the optimizer to blame."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...core.ort.sessions import CPU, Setting
from .comparison_report import Judged, Row
from .tool_runs import Contender

ORIGINAL = "original"
Judge = Callable[[Path, Setting], tuple[str, Judged | None]]


@dataclass(slots=True)
class Advice:
    """Gives rows their advice. `options` of `passes bisect` that make it ask what was asked here.

    `kept` is the folder that the contenders' files go to, if they are kept. `online` is the setting of ORT ALL.
    """

    model: Path
    options: list[str]
    online: Setting
    kept: Path | None = None
    _is_original_bad: bool = field(default=False, init=False)

    def given(self, contender: Contender, rows: list[Row], judge: Judge) -> list[Row]:
        """The rows of a contender; those of the original come first."""
        if self.online.provider != CPU:
            return rows  # bisect asks the CPU
        if contender.level:
            return [replace(r, advice=self._of_saved(contender.level, judge) if r.is_bad else "") for r in rows]
        written, online = rows
        if written.is_bad or not online.is_bad:  # it is not onnxruntime's optimization
            return rows
        return [written, replace(online, advice=self._of_online(contender))]

    def _of_saved(self, level: str, judge: Judge) -> str:
        failure, judged = judge(self.model, replace(self.online, level=f"ENABLE_{level.upper()}"))
        if failure or (judged is not None and judged.wrong):
            return self._command(self.model, level)
        return "only what onnxruntime saves is wrong: it is right when it optimizes as it loads the original"

    def _of_online(self, contender: Contender) -> str:
        if contender.made_by == ORIGINAL:
            self._is_original_bad = True
        if self._is_original_bad:
            return self._command(self.model, "all")
        if self.kept is not None:
            return self._command(self.kept / contender.file.name, "all")
        return f"{self._command(Path('DIR') / contender.file.name, 'all')}, after --keep DIR"

    def _command(self, model: Path, level: str) -> str:
        return shlex.join(["passes", "bisect", str(model), "--ort", level, *self.options])
