"""What to do about a result of onnxruntime's that is wrong: the command that finds the optimizer to blame."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...core.ort.sessions import CPU, LEVELS, SessionConfig
from .comparison_report import Row, RowVerdict
from .tool_runs import OptimizerOutput

ORIGINAL = "original"
FileJudge = Callable[[Path, SessionConfig], tuple[str, RowVerdict | None]]


@dataclass(slots=True)
class BisectAdvisor:
    """Gives rows their advice. `options` of `passes bisect` that make it ask what was asked here.

    `models_folder` is the folder that the contenders' files go to, if they are kept. `online` is the setting of ORT
    ALL.
    """

    model: Path
    options: list[str]
    online: SessionConfig
    models_folder: Path | None = None
    _is_original_bad: bool = field(default=False, init=False)

    def add_advice(self, output: OptimizerOutput, rows: list[Row], judge: FileJudge) -> list[Row]:
        """The rows of a contender; those of the original come first."""
        if self.online.provider != CPU:
            return rows  # bisect asks the CPU
        if output.level:
            return [
                replace(r, advice=self._advice_for_saved(output.level, judge) if r.is_unusable else "") for r in rows
            ]
        written, online = rows
        if written.is_unusable or not online.is_unusable:  # it is not onnxruntime's optimization
            return rows
        return [written, replace(online, advice=self._advice_for_online(output))]

    def _advice_for_saved(self, level: str, judge: FileJudge) -> str:
        failure, judged = judge(self.model, replace(self.online, optimization_level=LEVELS[level]))
        if failure or (judged is not None and judged.wrong):
            return self._bisect_command(self.model, level)
        return "only what onnxruntime saves is wrong: it is right when it optimizes as it loads the original"

    def _advice_for_online(self, output: OptimizerOutput) -> str:
        if output.made_by == ORIGINAL:
            self._is_original_bad = True
        if self._is_original_bad:
            return self._bisect_command(self.model, "all")
        if self.models_folder is not None:
            return self._bisect_command(self.models_folder / output.file.name, "all")
        return f"{self._bisect_command(Path('DIR') / output.file.name, 'all')}, after --keep DIR"

    def _bisect_command(self, model: Path, level: str) -> str:
        return shlex.join(["passes", "bisect", str(model), "--ort", level, *self.options])
