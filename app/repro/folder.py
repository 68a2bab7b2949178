"""Folders that show what was left out of a run, to be sent to whoever wrote it."""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ...core.errors import Why
from ...core.io.files import ModelFile, load
from ...core.io.folders import encoded, write_all
from ...core.pass_manager.attempt_check import Trial
from ...core.pass_manager.pipeline import Pass, choosable_rules, leaves
from ...core.pass_manager.quarantine import Quarantined
from ...core.plugins.pass_spec import Spec
from .repro import fails_alone, of_difference, of_exception

DIFFERS = frozenset({Why.WRONG, Why.REFUSED})
LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a run was asked to do, as far as another has to be asked the same to go wrong in the same way.

    `options` are those of the command line that always count, such as the pipeline and the plugins.
    """

    options: Sequence[str] = ()
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    enable: Sequence[Spec] = ()
    exact: bool = False

    def arguments(self, alone: Pass | None) -> list[str]:
        """The arguments for a run of nothing but `alone`, or without one, of all that ran here."""
        enabled = [*map(str, self.enable)]
        if alone is None:
            only, skip = map(in_full, self.only), map(in_full, self.skip)
            return [*self.options, *_each("only", only), *_each("skip", skip), *_each("enable", enabled)]
        rules = [r.name for r in choosable_rules(alone)]
        by_rule = rules and (self.skip or any(r in self.only for r in rules))
        name = in_full(alone.name)
        enabled = [str(spec) for spec in self.enable if spec.name == name]
        return [*self.options, *_each("enable", enabled), *_each("only", rules if by_rule else [name])]


def in_full(name: str) -> str:
    """The name of a pass in a run from any folder: one that holds a file is looked for there."""
    return Spec(name).from_anywhere(Path()).name


def _each(option: str, names: Iterable[str]) -> list[str]:
    return [f"--{option} {shlex.quote(name)}" for name in names]


@dataclass(frozen=True, slots=True)
class ReproFolder:
    """Writes a folder below `root` for each change that is left out, whole or not at all.

    `asked` is repeated where the failure is shown; `versions` is what is installed.
    """

    root: Path
    pipeline: Pass
    asked: Asked = Asked()
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    def keep(self, found: Quarantined, before: Trial, after: Trial | None) -> Quarantined:
        """Write the folder of one change; returns it with the folder's name, or as it is where none can be written."""
        culprit = next((p for p in leaves(self.pipeline) if p.name == found.pass_name), None)
        if found.why in DIFFERS and after is not None:
            files = of_difference(before, after)
        else:
            model = before.attempt.model
            files = of_exception(model, culprit, found.place, found.why, exact=self.asked.exact)
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            folder = self._free(found)
            with TemporaryDirectory(dir=self.root, prefix=".") as name:
                stage = Path(name)
                lost = write_all(stage, files)
                command = self._command(found, stage, culprit, bits=after is not None and after.bits)
                (stage / "README.md").write_bytes(encoded(self._text(folder, found, command, lost)))
                folder.mkdir()
                for file in stage.iterdir():
                    file.replace(folder / file.name)
        except OSError as e:
            LOG.warning("warning: cannot write a repro to %s: %s", self.root, e.strerror)
            return found
        return replace(found, repro=str(folder))

    def _free(self, found: Quarantined) -> Path:
        """A folder that does not exist yet, named after who and where."""
        name = re.sub(r"[^\w.-]+", "_", f"{found.by}-{found.place or 'whole'}")[:60]  # of up to 4 bytes each
        number = 1
        while any(self.root.glob(f"{number:02}-*")):
            number += 1
        return self.root / f"{number:02}-{name}"

    def _command(self, found: Quarantined, stage: Path, culprit: Pass | None, *, bits: bool) -> str:
        """What shows the failure, with the files that could be written; empty if that takes more."""
        before, after, inputs = (stage / name for name in ("before.onnx", "after.onnx", "inputs.npz"))
        if not before.exists():
            return ""
        if after.exists():
            given = ["--inputs inputs.npz"] if inputs.exists() else []
            return " ".join(("passes verify before.onnx after.onnx", *given, *["--exact"] * bits))
        alone = culprit if culprit is not None and self._shows(before, culprit, found.why) else None
        return " ".join(("passes bisect before.onnx", *self.asked.arguments(alone)))

    def _shows(self, path: Path, culprit: Pass, why: Why) -> bool:
        """Whether nothing but this pass has to run: some failures take two."""
        if why in DIFFERS:
            return True
        try:
            return fails_alone(lambda: load(ModelFile(path), inline=False), culprit, exact=self.asked.exact) == why
        except Exception:  # noqa: BLE001 - a pass may leave anything, and what it left may not load again
            return False

    def _text(self, folder: Path, found: Quarantined, command: str, lost: Sequence[str]) -> str:
        """What is in the folder, and the two lines that show it."""
        replaced = "".join(f"\n- {name}" for name in found.replaced)
        installed = "".join(f"\n- {name} {version}" for name, version in self.versions.items())
        missing = "".join(f"\n- {name}" for name in lost)
        parts = (
            f"# {found.label}",
            f"{found.why}: {found.message}",
            f"What it replaced:\n{replaced}" if replaced else "",
            f"What could not be written:\n{missing}" if missing else "",
            f"Two lines show it:\n\n    cd {shlex.quote(str(folder))}\n    {command}" if command else "",
            f"Seen with:\n{installed}",
        )
        return "\n\n".join(filter(None, parts)) + "\n"
