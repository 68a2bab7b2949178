"""Folders that show what was left out of a run, to be sent to whoever wrote it."""

from __future__ import annotations

import re
import shlex
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx

from ..errors import ModelError, Why
from ..io.files import publish, staged
from ..io.model import Model
from ..pipeline import Pass, leaves
from .quarantine import Quarantined
from .repro import Files, of_difference, of_exception
from .trial import Trial


@dataclass(frozen=True, slots=True)
class ReproFolder:
    """Writes a folder below `root` for each change that is left out, whole or not at all.

    `arguments` are those that name plugins on the command line; `versions` what is installed.
    """

    root: Path
    pipeline: Pass
    arguments: Sequence[str] = ()
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    def keep(self, found: Quarantined, before: Trial, after: Trial | None) -> Quarantined:
        """Write the folder of one change; returns it with the folder's name. Raises ModelError."""
        if found.why in {Why.WRONG, Why.REFUSED} and after is not None:
            files = of_difference(before, after)
        else:
            culprit = next((p for p in leaves(self.pipeline) if p.name == found.pass_name), None)
            files = of_exception(before.attempt.model, culprit, found.place)
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            folder = self._free(found)
            with TemporaryDirectory(dir=self.root, prefix=".") as stage:
                for name, content in files.items():
                    write(Path(stage) / name, content)
                text = self._text(folder, found, files, exact=after is not None and after.bits)
                (Path(stage) / "README.md").write_text(text, encoding="utf-8")
                folder.mkdir()
                for file in Path(stage).iterdir():
                    file.replace(folder / file.name)
        except OSError as e:
            raise ModelError(f"cannot write a repro to {self.root}: {e.strerror}") from e
        return replace(found, repro=str(folder))

    def _free(self, found: Quarantined) -> Path:
        """A folder that does not exist yet, named after who and where."""
        name = re.sub(r"[^\w.-]+", "_", f"{found.by}-{found.place or 'whole'}")[:80]
        number = 1
        while any(self.root.glob(f"{number:02}-*")):
            number += 1
        return self.root / f"{number:02}-{name}"

    def _text(self, folder: Path, found: Quarantined, files: Files, *, exact: bool) -> str:
        """What is in the folder, and the two lines that show it."""
        if "after.onnx" in files:
            inputs = " --inputs inputs.npz" if files["inputs.npz"] else ""
            command = f"passes verify before.onnx after.onnx{inputs}{' --exact' if exact else ''}"
        else:
            command = " ".join(("passes bisect before.onnx", *self.arguments, f"--only {shlex.quote(found.pass_name)}"))
        replaced = "".join(f"\n- {name}" for name in found.replaced)
        installed = "".join(f"\n- {name} {version}" for name, version in self.versions.items())
        parts = (
            f"# {found.label}",
            f"{found.why}: {found.message}",
            f"What it replaced:\n{replaced}" if replaced else "",
            f"Two lines show it:\n\n    cd {shlex.quote(str(folder))}\n    {command}",
            f"Seen with:\n{installed}",
        )
        return "\n\n".join(filter(None, parts)) + "\n"


def write(path: Path, content: Any) -> None:
    """Write a model, or arrays by name as an .npz, if there are any."""
    if isinstance(content, onnx.ModelProto):
        path.write_bytes(content.SerializeToString())
        return
    if isinstance(content, Model):
        with staged(content, path) as stage:
            publish(stage, path)
        return
    arrays: dict[str, Any] = content
    if not arrays:
        return
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:  # np.savez takes no array called `file`
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as f:
                np.lib.format.write_array(f, _plain(np.asarray(array)), allow_pickle=False)


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Strings in the form that needs no pickle."""
    return array.astype(np.str_) if array.dtype == np.object_ else array
