"""Running models: onnxruntime with every optimization off, the ONNX reference evaluator where it cannot."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.external_data_helper import load_external_data_for_model

from ..errors import EvaluationError, ModelLoadError
from ..ir.tensor import first_line
from ..support.watchdog import call_after
from .ort_values import from_ortvalue, is_exchangeable, lacks_numpy_dtype, to_ortvalue
from .sessions import UNOPTIMIZED, Loadable, SessionConfig, create_session

Arrays = Mapping[str, Any]

SOURCE_LOCATION = re.compile(
    r"\S+\.(?:cc|cpp|hpp|h):\d+(?:: | .*?\)(?: const)? | )|\[ONNXRuntimeError\] : \d+ : \w+ : "
)
"""How libraries in C++ say where in their source they complain: file, line, the function's declaration, a number."""


class OnnxRuntime:
    """onnxruntime's CPU provider; unless `config` says otherwise, graph optimizations disabled, weights not repacked.

    Repacking is off so that a weight gives the same bits whether it is computed or constant.
    Element types that NumPy lacks go in and come out as ml_dtypes. Raises ModelLoadError for a model that it has
    no kernels for or whose inputs it cannot be given, EvaluationError for a failing run. `folder` is where the
    external weights of a model given as bytes are.
    """

    name = "onnxruntime"

    def __init__(self, model: Loadable, config: SessionConfig = UNOPTIMIZED, *, folder: Path | None = None) -> None:
        self.config = config
        try:
            self._session: Any = create_session(model, config, folder)
        except Exception as e:
            raise ModelLoadError(f"onnxruntime cannot load it: {backend_message(e)}") from e
        ends = (
            *self._session.get_inputs(),
            *self._session.get_overridable_initializers(),
            *self._session.get_outputs(),
        )
        kinds: list[str] = [end.type for end in ends]
        self._needs_ortvalues = any(map(lacks_numpy_dtype, kinds))
        if self._needs_ortvalues and not is_exchangeable(kinds):
            raise ModelLoadError(f"onnxruntime does not exchange {', '.join(dict.fromkeys(kinds))} with Python")

    def run(self, outputs: Sequence[str], feeds: Arrays, timeout: float | None = None) -> list[Any]:
        """Run once, for at most `timeout` seconds."""
        options = importlib.import_module("onnxruntime").RunOptions()
        with call_after(timeout, lambda: setattr(options, "terminate", True)) as late:
            try:
                if self._needs_ortvalues:
                    return self._run_with_ortvalues(outputs, feeds, options)
                return list(self._session.run(list(outputs), dict(feeds), options))
            except Exception as e:
                if late.is_set():
                    raise EvaluationError(f"onnxruntime does not end within {timeout:g} s") from e
                raise EvaluationError(f"onnxruntime cannot run it: {backend_message(e)}") from e

    def end_profile(self) -> Path:
        """End the profile that the setting asked for; the file that it is in."""
        return Path(self._session.end_profiling())

    def _run_with_ortvalues(self, outputs: Sequence[str], feeds: Arrays, options: Any) -> list[Any]:
        made = {name: to_ortvalue(np.asarray(a, order="C")) for name, a in feeds.items()}
        values = {name: value for name, (value, _) in made.items()}
        return [from_ortvalue(v) for v in self._session.run_with_ort_values(list(outputs), values, options)]


class OnnxReference:
    """`onnx.reference`: slow, and complete where onnxruntime lacks a kernel. Raises EvaluationError."""

    name = "onnx.reference"

    def __init__(self, model: Loadable, folder: Path | None = None) -> None:
        from onnx.reference import ReferenceEvaluator  # noqa: PLC0415 - seldom needed and slow to import

        library: Any = onnx
        try:
            proto = onnx.load_from_string(model) if isinstance(model, bytes) else library.load(str(model))
            if folder is not None:
                load_external_data_for_model(proto, str(folder))
            self._evaluator: Any = ReferenceEvaluator(proto)
        except Exception as e:
            raise ModelLoadError(f"onnx.reference cannot load it: {backend_message(e)}") from e

    def run(self, outputs: Sequence[str], feeds: Arrays, timeout: float | None = None) -> list[Any]:  # noqa: ARG002
        """Run once; it cannot be stopped, whatever the `timeout`."""
        try:
            return list(self._evaluator.run(list(outputs), dict(feeds)))
        except Exception as e:
            raise EvaluationError(f"onnx.reference cannot run it: {backend_message(e)}") from e


def strip_source_locations(text: str) -> str:
    """What a library says, without where in its own source."""
    return SOURCE_LOCATION.sub("", text)


def backend_message(error: BaseException) -> str:
    """What a backend complains about, on one line and without its own source positions."""
    text = strip_source_locations(first_line(error))
    for mark in (" : ", "Status Message: "):
        text = text.rpartition(mark)[2] or text
    return text[:300]
