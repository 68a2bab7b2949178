"""Settings of a batch: options of the command that it does, limits, and places of its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from msgspec import Struct

from ...core.support.printable_text import json_text
from ..cli.options import require
from .action_command import action_command
from .actions import ACTIONS, Action
from .batch_command import ARGUMENTS

if TYPE_CHECKING:
    from .sources import BatchJob


class OutputLocations(Struct, frozen=True):
    """The folder of the results; the table and the page, None for those of the usual names in it; JSON, if any."""

    folder: Path
    table: Path | None = None
    page: Path | None = None
    json: Path | None = None


class BatchConditions(Struct, frozen=True):
    """The seconds for a model; processes and bytes of memory, None for the defaults; the address of a cluster, or "".

    `store`: a folder, or a URL, for the results in place of that with the record. `resume`: results that would be the
    same are kept; `keep_reports`: the report of each model is written.
    """

    seconds: float
    processes: int | None = None
    memory: int | None = None
    cluster: str = ""
    store: Path | None = None
    resume: bool = False
    keep_reports: bool = False


@dataclass(slots=True)
class ActionOptions:
    """The values of the options of a command, from arguments and settings."""

    ctx: Any
    name: str
    _known: dict[tuple[str, ...], dict[str, Any]] = field(
        default_factory=dict[tuple[str, ...], dict[str, Any]], init=False
    )

    @property
    def action(self) -> Action:
        """The command that is done."""
        return ACTIONS[self.name]

    def values(self, arguments: Sequence[str] = (), place: str = "") -> dict[str, Any]:
        """The values by parameter, with further `arguments`, which stand at a place in a table.

        Raises UsageError for these, and typer.BadParameter for others.
        """
        key = tuple(arguments)
        if key not in self._known:
            self._known[key] = self._parse(key, place)
        return self._known[key]

    def text(self, job: BatchJob) -> str:
        """The name of the command and the values for a job, for its worker. Raises UsageError."""
        values = self.values(job.arguments, job.place)
        if self.action.other:
            require(job.other is not None, f"{job.place or job.job.model}: nothing to compare with: give --other DIR")
            values = {**values, self.action.other: str(job.other)}
        return json_text([self.name, values], indent=None, default=str)

    def _parse(self, arguments: Sequence[str], place: str) -> dict[str, Any]:
        command, action = action_command(self.name), self.action
        stand_in = [*["--output=model"] * bool(action.output), "--", "model", *["other"] * bool(action.other)]
        try:
            ctx = command.make_context(
                self.name, [*self.ctx.meta[ARGUMENTS], *arguments, *stand_in], parent=self.ctx.parent
            )
        except typer.BadParameter as e:
            require(not arguments, f"{place}: {e.format_message()}")
            raise
        set_for_each = {action.model, action.output, action.other}
        return {name: value for name, value in ctx.params.items() if name not in set_for_each}
