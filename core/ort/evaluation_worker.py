"""Worker that runs models of constants: `python -m <this module>`.

A request names a folder with the model and the place of each large input, see `EvaluationProcess`.
"""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import EvaluationError, ModelLoadError
from .process_limits import limit_memory, prepare_to_crash
from .sessions import SessionConfig
from .worker_process import NEXT_WITHIN, Message, serve

IDLE_SECONDS = 60.0
EVALUATE = "evaluate"
"""The name of the request, for workers that serve others too."""
MODEL, FEEDS, RESULTS = "model", "feeds", "results"
"""The files in the folder of a request."""
LOADING, MEMORY, RUNNING = "loading", "memory", "running"
"""The kinds of failures."""


@dataclass(slots=True)
class EvaluationWorker:
    """Evaluation in this process, and the folder of the request that it serves."""

    folder: Path | None = None

    def reply(self, request: Message) -> Iterator[Message]:
        """Run the model of a request once; tensors are written to a file of its folder."""
        self.folder = Path(request["folder"])
        limit_memory(request["memory"])
        yield {NEXT_WITHIN: request["seconds"]}
        try:
            results = self._run(request)
        except (EvaluationError, MemoryError) as e:
            yield {NEXT_WITHIN: None, "error": _kind(e), "reason": str(e) or "there is not enough memory"}
        else:
            yield {NEXT_WITHIN: None, "results": results}
        finally:
            self.folder = None
            limit_memory(None)

    def remove_folder(self) -> None:
        """Remove the files, in place of a parent that was killed."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, request: Message) -> list[Message | None]:
        from .backends import OnnxReference, OnnxRuntime  # noqa: PLC0415 - imports onnx, for which nothing has to wait

        assert self.folder is not None
        model = (self.folder / MODEL).read_bytes()
        feeds = {name: _mapped(place) for name, place in request["feeds"].items()}
        # A pool of threads takes longer to start than small ops to compute.
        config = SessionConfig(intra_op_threads=0 if feeds else 1)
        session = OnnxReference(model) if request["by_reference"] else OnnxRuntime(model, config)
        return _write_results(session.run(request["outputs"], feeds), self.folder / RESULTS)


def _kind(error: EvaluationError | MemoryError) -> str:
    from .backends import is_lack_of_memory  # noqa: PLC0415 - as above

    if is_lack_of_memory(error):
        return MEMORY
    return LOADING if isinstance(error, ModelLoadError) else RUNNING


def _mapped(place: Message) -> np.ndarray[Any, Any]:
    dtype, shape = np.dtype(place["dtype"]), tuple(place["shape"])
    return np.memmap(place["path"], dtype, "r", place["offset"], shape)


def _write_results(results: list[Any], path: Path) -> list[Message | None]:
    """Write tensors to a file; returns the place and the type of each, None for what is no tensor."""
    places: list[Message | None] = []
    with path.open("wb") as f:
        for result in results:
            if isinstance(result, list | dict) or result is None:
                places.append(None)
                continue
            array: np.ndarray[Any, Any] = np.asarray(result, order="C")
            place: Message = {"offset": f.tell()}
            if array.dtype.isbuiltin == 1 and not array.dtype.hasobject:
                array.tofile(f)
                place |= {"dtype": array.dtype.str, "shape": array.shape}
            else:
                numpy_helper: Any = importlib.import_module("onnx.numpy_helper")
                f.write(numpy_helper.from_array(array).SerializeToString())
            places.append(place | {"end": f.tell()})
    return places


def main() -> None:
    """Reply to requests until the input ends."""
    prepare_to_crash()
    importlib.import_module("onnxruntime")
    worker = EvaluationWorker()
    serve(worker.reply, (), idle_limit=lambda: IDLE_SECONDS, clean_up=worker.remove_folder)


if __name__ == "__main__":
    main()
