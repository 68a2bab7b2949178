"""Benchmarks of one model in a worker process that is stopped while others run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from ...core.ort import value_files
from ...core.ort.backends import strip_source_locations
from ...core.ort.sessions import SessionConfig
from ...core.ort.worker_process import RequestFailed, WorkerExit, WorkerProcess

REPLY_TIMEOUT = 900.0  # seconds for one reply
NPZ_KINDS = "biufc"
LAUNCHER = Path(__file__).with_name("worker_launcher.py")


class MeasurementFailed(Exception):
    """A model cannot be measured; the reason is one line."""


@dataclass(slots=True)
class WorkerProxy:
    """A worker process. A request that fails raises MeasurementFailed and ends it.

    onnxruntime's threads poll for work for up to 0.1 s after a call, which would slow down the next model; so the
    process is stopped by a signal between its blocks.
    """

    folder: Path
    timeout: float = REPLY_TIMEOUT
    command: tuple[str, ...] = (sys.executable, "-P", str(LAUNCHER))
    _process: WorkerProcess = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._process = WorkerProcess(self.command, self.timeout, self.folder / "log")

    def load(self, model: Path, config: SessionConfig, feeds: Mapping[int, Path]) -> dict[str, Any]:
        """Load a model, and run the first batch: the metrics of that."""
        folders = {str(batch): str(folder) for batch, folder in feeds.items()}
        return self._request("load", model=str(model.resolve()), setting=asdict(config), feeds=folders)

    def warm_up(self, batch: int) -> float:
        """Run until warm; the seconds of a call."""
        return self._request("warm_up", batch=batch)["seconds"]

    def time_calls(self, batch: int, calls: int, seconds: float) -> list[float]:
        """The seconds of each of so many calls, of about `seconds` each."""
        times = self._request("time_calls", batch=batch, calls=calls, seconds=seconds)["times"]
        return [max(t, 1) / 1e9 for t in times]

    def provider_node_counts(self, feeds: Path) -> dict[str, int]:
        """The number of nodes by the provider that ran them. This unloads the model."""
        return self._request("provider_node_counts", feeds=str(feeds))["providers"]

    def terminate(self) -> None:
        """End the process."""
        self._process.terminate()

    def _request(self, method: str, **arguments: Any) -> dict[str, Any]:
        self._signal(psutil.Process.resume)
        try:
            reply = self._process.request({"do": method, **arguments})
        except WorkerExit as e:
            raise MeasurementFailed(str(e)) from e
        except RequestFailed as e:
            self.terminate()
            message = " ".join(strip_source_locations(str(e)).split())[:300]
            raise MeasurementFailed(message or "onnxruntime gives no reason") from e
        self._signal(psutil.Process.suspend)
        return reply

    def _signal(self, send: Callable[[psutil.Process], None]) -> None:
        pid = self._process.pid
        if pid is not None:
            with suppress(psutil.NoSuchProcess):
                send(psutil.Process(pid))


def write_feeds(feeds: Mapping[str, Any], folder: Path) -> None:
    """Write inputs for a worker. Raises UnverifiableError for values that cannot be stored."""
    folder.mkdir()
    arrays: dict[str, Any] = {name: value for name, value in feeds.items() if isinstance(value, np.ndarray)}
    kinds = {a.dtype.kind if a.dtype.isbuiltin == 1 or a.dtype.kind in "OU" else "" for a in arrays.values()}
    if len(arrays) < len(feeds) or not kinds <= {*NPZ_KINDS, "O", "U"}:
        value_files.write_value(dict(feeds), folder / "value")
        return
    with (folder / "arrays.npz").open("wb") as file:
        np.savez(file, *(np.asarray(a, str) if a.dtype.kind == "O" else a for a in arrays.values()))
    (folder / "names.json").write_text(json.dumps(list(feeds)), encoding="utf-8")
