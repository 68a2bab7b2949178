"""Folders that show what was left out of a run, to be sent to whoever wrote it."""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ...core.errors import FailureKind
from ...core.io.files import ModelFile, encode_text, load, write_files
from ...core.pass_manager.attempt_check import CheckedAttempt
from ...core.pass_manager.pipeline import Pass, leaves, selectable_rules
from ...core.pass_manager.quarantine import Quarantined
from ...core.plugins.pass_spec import PassSpec
from .repro import exception_files, failure_alone, mismatch_files

COMPARISON_FAILURES = frozenset({FailureKind.WRONG, FailureKind.REFUSED})
LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """What a run was asked to do, as far as another has to be asked the same to go wrong in the same way.

    `options` are those of the command line that always count, such as the pipeline and the plugins.
    """

    options: Sequence[str] = ()
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    enable: Sequence[PassSpec] = ()
    exact_only: bool = False

    def arguments(self, only_pass: Pass | None) -> list[str]:
        """The arguments for a run of nothing but `only_pass`, or without one, of all that ran here."""
        enabled = [*map(str, self.enable)]
        if only_pass is None:
            only, skip = map(absolute_name, self.only), map(absolute_name, self.skip)
            return [
                *self.options,
                *_repeated_option("only", only),
                *_repeated_option("skip", skip),
                *_repeated_option("enable", enabled),
            ]
        rules = [r.name for r in selectable_rules(only_pass)]
        by_rule = rules and (self.skip or any(r in self.only for r in rules))
        name = absolute_name(only_pass.name)
        enabled = [str(spec) for spec in self.enable if spec.name == name]
        return [
            *self.options,
            *_repeated_option("enable", enabled),
            *_repeated_option("only", rules if by_rule else [name]),
        ]


def absolute_name(name: str) -> str:
    """The name of a pass in a run from any folder: one that holds a file is looked for there."""
    return PassSpec(name).with_absolute_paths(Path()).name


def _repeated_option(option: str, names: Iterable[str]) -> list[str]:
    return [f"--{option} {shlex.quote(name)}" for name in names]


@dataclass(frozen=True, slots=True)
class ReproFolder:
    """Writes a folder below `root` for each change that is left out, whole or not at all.

    `command_options` is repeated where the failure is shown; `versions` is what is installed.
    """

    root: Path
    pipeline: Pass
    command_options: CommandOptions = CommandOptions()
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    def write(self, quarantined: Quarantined, before: CheckedAttempt, after: CheckedAttempt | None) -> Quarantined:
        """Write the folder of one change; returns it with the folder's name, or as it is where none can be written."""
        culprit = next((p for p in leaves(self.pipeline) if p.name == quarantined.pass_name), None)
        if quarantined.failure_kind in COMPARISON_FAILURES and after is not None:
            files = mismatch_files(before, after)
        else:
            model = before.attempt.model
            files = exception_files(
                model, culprit, quarantined.place, quarantined.failure_kind, exact_only=self.command_options.exact_only
            )
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            folder = self._new_folder(quarantined)
            with TemporaryDirectory(dir=self.root, prefix=".") as name:
                stage = Path(name)
                lost = write_files(stage, files)
                command = self._command(quarantined, stage, culprit, exact=after is not None and after.exact)
                (stage / "README.md").write_bytes(encode_text(self._readme(folder, quarantined, command, lost)))
                folder.mkdir()
                for file in stage.iterdir():
                    file.replace(folder / file.name)
        except OSError as e:
            LOG.warning("warning: cannot write a repro to %s: %s", self.root, e.strerror)
            return quarantined
        return replace(quarantined, repro=str(folder))

    def _new_folder(self, quarantined: Quarantined) -> Path:
        """A folder that does not exist yet, named after who and where."""
        name = re.sub(r"[^\w.-]+", "_", f"{quarantined.by}-{quarantined.place or 'whole'}")[
            :60
        ]  # of up to 4 bytes each
        number = 1
        while any(self.root.glob(f"{number:02}-*")):
            number += 1
        return self.root / f"{number:02}-{name}"

    def _command(self, quarantined: Quarantined, stage: Path, culprit: Pass | None, *, exact: bool) -> str:
        """What shows the failure, with the files that could be written; empty if that takes more."""
        before, after, inputs = (stage / name for name in ("before.onnx", "after.onnx", "inputs.npz"))
        if not before.exists():
            return ""
        if after.exists():
            given = ["--inputs inputs.npz"] if inputs.exists() else []
            return " ".join(("passes verify before.onnx after.onnx", *given, *["--exact"] * exact))
        alone = (
            culprit if culprit is not None and self._fails_alone(before, culprit, quarantined.failure_kind) else None
        )
        return " ".join(("passes bisect before.onnx", *self.command_options.arguments(alone)))

    def _fails_alone(self, path: Path, culprit: Pass, kind: FailureKind) -> bool:
        """Whether nothing but this pass has to run: some failures take two."""
        if kind in COMPARISON_FAILURES:
            return True
        try:
            return (
                failure_alone(
                    lambda: load(ModelFile(path), inline=False), culprit, exact_only=self.command_options.exact_only
                )
                == kind
            )
        except Exception:  # noqa: BLE001 - a pass may leave anything, and what it left may not load again
            return False

    def _readme(self, folder: Path, quarantined: Quarantined, command: str, unwritten: Sequence[str]) -> str:
        """What is in the folder, and the two lines that show it."""
        replaced = "".join(f"\n- {name}" for name in quarantined.replaced)
        installed = "".join(f"\n- {name} {version}" for name, version in self.versions.items())
        missing = "".join(f"\n- {name}" for name in unwritten)
        parts = (
            f"# {quarantined.label}",
            f"{quarantined.failure_kind}: {quarantined.message}",
            f"What it replaced:\n{replaced}" if replaced else "",
            f"What could not be written:\n{missing}" if missing else "",
            f"Two lines show it:\n\n    cd {shlex.quote(str(folder))}\n    {command}" if command else "",
            f"Seen with:\n{installed}",
        )
        return "\n\n".join(filter(None, parts)) + "\n"
