"""Measurements of one model in a worker process, stopped while others are measured."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

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
    """A model that cannot be measured, and why, in a line."""


@dataclass(slots=True)
class WorkerProxy:
    """A worker process. A request that fails raises MeasurementFailed and ends it.

    onnxruntime's threads go on looking for work for up to 0.1 s after a call. With users that is as it should be, here
    it would slow down whoever is next; so between turns the process is stopped, by signal.
    """

    folder: Path
    timeout: float = REPLY_TIMEOUT
    command: tuple[str, ...] = (sys.executable, "-P", str(LAUNCHER))
    _process: WorkerProcess = field(init=False)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._process = WorkerProcess(self.command, self.timeout, self.folder / "log")

    def load(self, model: Path, config: SessionConfig, feeds: Mapping[int, Path]) -> dict[str, Any]:
        """Its figures once it has run the first of the batches."""
        told = {str(batch): str(folder) for batch, folder in feeds.items()}
        return self._request("load", model=str(model.resolve()), setting=asdict(config), feeds=told)

    def warm_up(self, batch: int) -> float:
        """The seconds of a call, warm."""
        return self._request("warm_up", batch=batch)["seconds"]

    def time_calls(self, batch: int, calls: int, seconds: float) -> list[float]:
        """The seconds of each of so many calls, of about `seconds`."""
        times = self._request("time_calls", batch=batch, calls=calls, seconds=seconds)["times"]
        return [max(t, 1) / 1e9 for t in times]

    def provider_node_counts(self, feeds: Path) -> dict[str, int]:
        """Nodes by the provider that ran them. The model is not loaded any more after that."""
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
            raise MeasurementFailed(_one_line_error(str(e))) from e
        self._signal(psutil.Process.suspend)
        return reply

    def _signal(self, send: Any) -> None:
        pid = self._process.pid
        if pid is not None:
            with suppress(psutil.NoSuchProcess):
                send(psutil.Process(pid))


def write_feeds(feeds: Mapping[str, Any], folder: Path) -> None:
    """Put inputs where a worker reads them.

    Raises UnverifiableError for values that are neither tensors nor hold some.
    """
    folder.mkdir()
    if not all(_fits_npz(value) for value in feeds.values()):
        value_files.write_value(dict(feeds), folder / "value")
        return
    with (folder / "arrays.npz").open("wb") as file:
        np.savez(file, *(np.asarray(v, str) if v.dtype.kind == "O" else v for v in feeds.values()))
    (folder / "names.json").write_text(json.dumps(list(feeds)), encoding="utf-8")


def _fits_npz(value: Any) -> bool:
    if not isinstance(value, np.ndarray):
        return False
    array = cast("np.ndarray[Any, Any]", value)
    return (array.dtype.kind in NPZ_KINDS and array.dtype.isbuiltin == 1) or array.dtype.kind in "OU"


def _one_line_error(text: str) -> str:
    """A message of onnxruntime, on one line."""
    return " ".join(strip_source_locations(text).split())[:300] or "onnxruntime does not say why"
