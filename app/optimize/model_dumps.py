"""Dumps of the model after runs of passes."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from functools import partial
from pathlib import Path

from ...core.errors import GraphError, InstrumentationError, ModelError, UnknownNameError, UsageError
from ...core.io.files import weight_bytes
from ...core.io.model import Model, serialize
from ...core.io.output_paths import require_writable_folder
from ...core.io.writer import MAX_WHOLE_BYTES, write_model
from ...core.ir.graph import Graph
from ...core.plugins.pass_registry import all_rules
from ...core.run.instrumentation import Instrumentation
from ...core.run.pipeline import Fixpoint, Pass, Pipeline, leaves, nested_passes
from ...core.serialization.exporter import unchanged_names
from ...core.serialization.onnx_text import model_text, short_chunks
from ...core.support.printable_text import file_name
from ...core.support.suggestions import did_you_mean

ALL, CHANGED = "all", "changed"
MAX_ELEMENTS = 16  # of a tensor that the text contains completely; the .onnx file contains all
LOG = logging.getLogger(__name__)


class ModelDumps(Instrumentation):
    """Writes the model after runs of the passes `names` to a new or empty `folder`, numbered in execution order.

    Numbers count the runs of all passes and groups. Each model is written twice: as an .onnx file, and as text without
    the elements of larger tensors. The files of an earlier repetition are removed.
    """

    def __init__(self, folder: Path, names: Collection[str]) -> None:
        self.folder, self.names = folder, names
        self._written = list[Path]()
        self._number = 0
        self._model: Model | None = None

    @classmethod
    def of(cls, names: Sequence[str], folder: Path | None, pipeline: Pass) -> list[ModelDumps]:
        """The dumps for the options of a run with a pipeline, if any.

        Raises UsageError, UnknownNameError, and ModelError for an unusable folder.
        """
        if folder is None and not names:
            return []
        if folder is None:
            raise UsageError("--dump-after needs a folder to write to: give --dump-to")
        if not names:
            raise UsageError("--dump-to needs --dump-after: name a pass, or give all or changed")
        known = {ALL, CHANGED, pipeline.name, *(p.name for p in nested_passes(pipeline))}
        for name in names:
            if name not in known:
                made_by = next((p.name for p in leaves(pipeline) if name in {r.name for r in all_rules(p)}), None)
                if made_by is not None:
                    raise UnknownNameError(f"{name} is a rule: give its pass, {made_by}")
                near = did_you_mean(name, known) or f" (give passes of it, {ALL} or {CHANGED})"
                raise UnknownNameError(f"no pass of the pipeline is named {name}{near}")
        require_writable_folder(folder)
        if folder.is_dir() and any(folder.iterdir()):
            raise ModelError(f"cannot write models to {folder}: it is not empty; name a new folder")
        return [cls(folder, names)]

    def start(self, model: Model) -> None:
        """Remove the files of an earlier repetition."""
        self._model, self._number = model, 0
        for path in self._written:
            path.unlink(missing_ok=True)
        self._written.clear()

    def after(self, p: Pass, graph: Graph, changes: int) -> None:  # noqa: ARG002 - of the base class
        """Write the model, if it is requested after this run."""
        self._number += 1
        is_single = not isinstance(p, Pipeline | Fixpoint)
        is_wanted = is_single and (ALL in self.names or (CHANGED in self.names and changes > 0))
        if p.name in self.names or is_wanted:
            assert self._model is not None
            self._write(self._model, self.folder / file_name(f"{self._number:04d}-{p.name}"))

    def _write(self, model: Model, stem: Path) -> None:
        path, text_path = (stem.with_name(f"{stem.name}{end}") for end in (".onnx", ".onnxtxt"))
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with unchanged_names(model.graph):
                self._written.append(path)
                data = write_model(model, path, external=weight_bytes(model) > MAX_WHOLE_BYTES)
                self._written += [] if data is None else [data]
                short = serialize(model, partial(short_chunks, max_elements=MAX_ELEMENTS)).to_proto()
            self._written.append(text_path)
            text_path.write_text(f"{model_text(short, MAX_ELEMENTS)}\n", encoding="utf-8", errors="backslashreplace")
        except GraphError as e:  # the run also raises this error
            LOG.warning("warning: no model after %s: %s", stem.name, e)
            path.unlink(missing_ok=True)
        except OSError as e:
            raise InstrumentationError(f"cannot write {path}: {e.strerror}") from e
