"""A model run under onnxruntime's profiler, in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnx

from ...core.errors import EvaluationError
from ...core.io.files import ModelFile, load
from ...core.ort import value_files
from ...core.ort.sessions import SessionConfig
from ...core.ort.worker_process import RequestFailed, WorkerExit, WorkerProcess, module_command
from .profile_trace import ProfiledRun, read_trace
from .profiler_worker import TOO_MANY_EVENTS
from .skeleton import make_node_names_unique, read_skeleton, write_with_nodes

PROFILE_TIMEOUT = 600.0  # seconds for a model, beside those it is to run
WORKER = module_command(f"{__package__}.profiler_worker")


@dataclass(frozen=True, slots=True)
class Recording:
    """The runs that count, the graph of the file with a name for each node, and what onnxruntime made of it.

    `optimized_graph` is None where the provider cannot tell. Weights are names only in both.
    """

    runs: tuple[ProfiledRun, ...]
    file_graph: onnx.GraphProto
    optimized_graph: onnx.GraphProto | None


def record_profile(
    path: Path,
    config: SessionConfig,
    feeds: Mapping[str, Any],
    min_time: float,
    command: tuple[str, ...] = WORKER,
    timeout: float = PROFILE_TIMEOUT,
) -> Recording:
    """Run the model in `path` for `min_time` seconds after warming up, three times at least.

    Raises ModelError for what is no model, EvaluationError if onnxruntime does not load or run it, or crashes.
    """
    is_external = has_external_weights(path)
    file = read_skeleton(path).graph
    make_node_names_unique(file)
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        copy, saves = folder / "model.onnx", folder / "ran.onnx"
        write_with_nodes(file, path, copy)
        value_files.write_value(dict(feeds), folder / "feeds")
        request = {
            "setting": asdict(replace(config, optimized_model_path=str(saves), profile_prefix=str(folder / "profile"))),
            "model": str(copy),
            "folder": str(path.resolve().parent) if is_external else "",
            "feeds": str(folder / "feeds"),
            "outputs": [v.name for v in file.output],
            "min_time": min_time,
        }
        reply = _request_profile(request, command, timeout + min_time)
        runs = tuple(read_trace(Path(reply["trace"]))[reply["warm"] :])
        if not runs:
            raise EvaluationError(TOO_MANY_EVENTS)
        ran = read_skeleton(saves).graph if reply["saved"] and saves.exists() else None
    return Recording(runs, file, ran)


def has_external_weights(path: Path) -> bool:
    """Whether a model's weights are in other files, too. Raises ModelError, with the reason, if it is no model."""
    file = ModelFile(path)
    load(file, inline=False)
    return bool(file.external_files)


def _request_profile(request: dict[str, Any], command: tuple[str, ...], timeout: float) -> dict[str, Any]:
    try:
        with WorkerProcess(command, timeout) as process:
            return process.request(request)
    except RequestFailed as e:
        raise EvaluationError(str(e)) from e
    except WorkerExit as e:
        raise EvaluationError(f"onnxruntime's profiler gave nothing: {e}") from e
