"""Serialization of rewritten models, and writing of those that are correct and accepted."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from ..errors import FailureKind, GraphError, VerificationError
from ..io.files import in_memory, weight_bytes
from ..io.model import MAX_MESSAGE_BYTES, Model, SerializedModel, serialize
from ..io.publishing import Publication
from ..io.split_models import Loadable
from ..ir.tensor import SMALL_TENSOR_BYTES, chunk_bytes
from ..support.gc_pause import gc_paused
from ..verify.ort_files import is_ort_place, write_ort
from ..verify.verdict import Verdict
from .failures import RewriteFailure
from .phase_timer import EXPORTING, WRITING, PhaseTimer
from .pipeline_run import PipelineRun, RewriteResult

MAX_WRITTEN_FIRST_BYTES = 1 << 30  # bytes of weights; up to this size, the written file is compared

DIGEST_BYTES = 16

Accept = Callable[[Path], bool]
"""Whether to write a model, which is in that file."""


class ExternalData(Struct, frozen=True):
    """Whether weights are in a separate file: over 2 GB if None, otherwise always or never.

    `above`: the size in bytes from which a tensor is stored there.
    """

    choice: bool | None = None
    above: int = SMALL_TENSOR_BYTES


class ExportedModel(Struct, frozen=True):
    """A rewritten model, ready to be written."""

    model: Model
    serialized: SerializedModel
    external_data: ExternalData = field(default_factory=ExternalData)

    @property
    def digest(self) -> str:
        """A digest of the model as one message, of any size."""
        found = blake2b(digest_size=DIGEST_BYTES)
        pieces = (piece for tensor in self.serialized.initializers for piece in tensor)
        for chunk in (self.serialized.header, self.serialized.body, *pieces):
            found.update(chunk_bytes(chunk))
        return found.hexdigest()

    def stage(self, publication: Publication) -> Path:
        """Add the model to the files of `publication`; return the staged file."""
        choice = self.external_data.choice
        is_external = weight_bytes(self.model) > MAX_MESSAGE_BYTES if choice is None else choice
        model = self.model if is_external else self.serialized
        convert = write_ort if is_ort_place(publication) else None
        return publication.add_model(
            model, external=is_external, external_above=self.external_data.above, convert=convert
        )


class RunOutcome(Struct, frozen=True):
    """The result of a run as written, and the verdict if it was compared with the original."""

    result: RewriteResult
    exported: ExportedModel
    verdict: Verdict | None = None


class ModelWriter(Struct, frozen=True):
    """Serializes the model of a run, and adds it to `publication`, if given, if it is correct and accepted.

    If the publication has no model path, the model is staged only for `accept`.
    """

    timer: PhaseTimer
    external_data: ExternalData = field(default_factory=ExternalData)
    publication: Publication | None = None
    accept: Accept = lambda _: True

    def without_files(self) -> ModelWriter:
        """A writer that only serializes."""
        return replace(self, publication=None)

    def export(self, run: PipelineRun, result: RewriteResult) -> tuple[RewriteResult, ExportedModel]:
        """Serialize the model of a result, or of the first repetition without a change that prevents writing."""
        while True:
            try:
                with gc_paused(), self.timer.phase(EXPORTING):
                    return result, ExportedModel(result.model, serialize(result.model), self.external_data)
            except GraphError as e:
                run.reject(result.failing(RewriteFailure(FailureKind.INVALID, str(e))))
                result = run.rewrite()

    def write(self, run: PipelineRun, result: RewriteResult) -> RunOutcome:
        """Write the model of a result, or of the first repetition that can be written, without a comparison."""
        result, exported = self.export(run, result)
        self._stage_accepted(exported)
        return RunOutcome(result, exported)

    def write_verified(
        self,
        exported: ExportedModel,
        compare: Callable[[Loadable], Verdict],
        compare_file: Callable[[Loadable, Path], Verdict],
    ) -> Verdict:
        """Compare a model with the original, and add it to the publication if it is correct and accepted.

        With more than 1 GB of weights it is written only afterwards, because they are copied between files. A file in
        onnxruntime's own format is made from a correct model, and compared by `compare_file`. Raises VerificationError
        if that file is wrong, because no change is the cause.
        """
        if self.publication is not None and is_ort_place(self.publication):
            verdict = compare(model := in_memory(exported.model, exported.serialized))
            if verdict.failure is not None:
                return verdict
            with self.timer.phase(WRITING):
                path = exported.stage(self.publication)
            of_file = compare_file(model, path)
            if of_file.failure is not None:
                raise VerificationError(
                    f"{path.name}, written by onnxruntime, is wrong: {of_file.failure.describe('it')}; the same model "
                    "is correct as an .onnx file"
                )
            if not self._keeps(path):
                self.publication.discard_model()
            size = f"the file {path.name} with {path.stat().st_size:,} bytes was compared"
            return replace(of_file, changed_regions=verdict.changed_regions, notes=(*of_file.notes, size))
        if self.publication is None or weight_bytes(exported.model) > MAX_WRITTEN_FIRST_BYTES:
            verdict = compare(in_memory(exported.model, exported.serialized))
            if verdict.failure is None:
                self._stage_accepted(exported)
            return verdict
        with self.timer.phase(WRITING):
            path = exported.stage(self.publication)
            verdict = compare(path)
            if verdict.failure is not None or not self._keeps(path):
                self.publication.discard_model()
        return verdict

    def _stage_accepted(self, exported: ExportedModel) -> None:
        if self.publication is not None:
            with self.timer.phase(WRITING):
                if not self._keeps(exported.stage(self.publication)):
                    self.publication.discard_model()

    def _keeps(self, stage: Path) -> bool:
        """Whether a staged model is accepted."""
        return self.accept(stage) and self.publication is not None and self.publication.model is not None
