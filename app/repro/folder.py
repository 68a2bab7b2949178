"""Folders that reproduce the changes left out of a run, for the authors of their rules."""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

from ...core.errors import FailureKind
from ...core.io.files import ModelFile, encode_text, load, write_files
from ...core.pass_manager.pass_manager import CheckedAttempt
from ...core.pass_manager.pipeline import Pass, leaves, selectable_rules
from ...core.pass_manager.quarantine import Quarantined
from ...core.plugins.pass_spec import PassSpec
from .repro import exception_files, failure_alone, mismatch_files

COMPARISON_FAILURES = frozenset({FailureKind.WRONG, FailureKind.REFUSED})
LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """The options of a run that another needs to fail in the same way; `options` are those of all its passes."""

    options: Sequence[str] = ()
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    enable: Sequence[PassSpec] = ()
    exact_only: bool = False

    def arguments(self, only_pass: Pass | None) -> list[str]:
        """The arguments for a run of nothing but `only_pass`, or without one, of all that ran here."""
        if only_pass is None:
            only, skip = ([absolute_name(name) for name in names] for names in (self.only, self.skip))
            return [
                *self.options,
                *_repeated("only", only),
                *_repeated("skip", skip),
                *_repeated("enable", self.enable),
            ]
        rules = [r.name for r in selectable_rules(only_pass)]
        by_rule = rules and (self.skip or any(r in self.only for r in rules))
        name = absolute_name(only_pass.name)
        enabled = [spec for spec in self.enable if spec.name == name]
        return [*self.options, *_repeated("enable", enabled), *_repeated("only", rules if by_rule else [name])]


def absolute_name(name: str) -> str:
    """The name of a pass in a run from any folder: one that holds a file has its full path."""
    return PassSpec(name).with_absolute_paths(Path()).name


def _repeated(option: str, values: Iterable[str | PassSpec]) -> list[str]:
    return [f"--{option} {shlex.quote(str(value))}" for value in values]


@dataclass(frozen=True, slots=True)
class ReproFolder:
    """A writer of a folder below `root` for each change that is left out, whole or not at all.

    Its README has a command with `command_options`, and the installed `versions`.
    """

    root: Path
    pipeline: Pass
    command_options: CommandOptions = CommandOptions()
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    def write(self, quarantined: Quarantined, before: CheckedAttempt, after: CheckedAttempt | None) -> Quarantined:
        """Write the folder of one change; returns it with the folder's name, or as it is where none can be written."""
        culprit = next((p for p in leaves(self.pipeline) if p.name == quarantined.pass_name), None)
        kind, exact_only = quarantined.failure_kind, self.command_options.exact_only
        if kind in COMPARISON_FAILURES and after is not None:
            files = mismatch_files(before, after)
        else:
            files = exception_files(before.attempt.model, culprit, quarantined.place, kind, exact_only=exact_only)
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
        """A folder that does not exist yet, named after rule and place."""
        name = re.sub(r"[^\w.-]+", "_", f"{quarantined.by}-{quarantined.place or 'whole'}")[
            :60
        ]  # of up to 4 bytes each
        number = next(n for n in count(1) if not any(self.root.glob(f"{n:02}-*")))
        return self.root / f"{number:02}-{name}"

    def _command(self, quarantined: Quarantined, stage: Path, culprit: Pass | None, *, exact: bool) -> str:
        """The command that shows the failure with the files in `stage`; empty if they do not suffice."""
        before, after, inputs = (stage / name for name in ("before.onnx", "after.onnx", "inputs.npz"))
        if not before.exists():
            return ""
        if after.exists():
            given = ["--inputs inputs.npz"] if inputs.exists() else []
            return " ".join(("passes verify before.onnx after.onnx", *given, *["--exact"] * exact))
        fails_alone = culprit is not None and self._fails_alone(before, culprit, quarantined.failure_kind)
        return " ".join(
            ("passes bisect before.onnx", *self.command_options.arguments(culprit if fails_alone else None))
        )

    def _fails_alone(self, path: Path, culprit: Pass, kind: FailureKind) -> bool:
        """Whether nothing but this pass has to run: some failures take two."""
        if kind in COMPARISON_FAILURES:
            return True
        file, exact_only = ModelFile(path), self.command_options.exact_only
        try:
            return failure_alone(lambda: load(file, inline=False), culprit, exact_only=exact_only) == kind
        except Exception:  # noqa: BLE001 - a pass may leave a model that does not load again
            return False

    def _readme(self, folder: Path, quarantined: Quarantined, command: str, unwritten: Sequence[str]) -> str:
        """The contents of the folder, and two lines that reproduce the failure."""
        sections = (
            ("Replaced:", quarantined.replaced),
            ("Not written:", unwritten),
            ("Seen with:", [f"{name} {version}" for name, version in self.versions.items()]),
        )
        replaced, missing, installed = (
            f"{title}\n" + "".join(f"\n- {line}" for line in lines) if lines else "" for title, lines in sections
        )
        reproduce = f"To reproduce it:\n\n    cd {shlex.quote(str(folder))}\n    {command}" if command else ""
        title = f"# {quarantined.label}\n\n{quarantined.failure_kind}: {quarantined.message}"
        return "\n\n".join(filter(None, (title, replaced, missing, reproduce, installed))) + "\n"
