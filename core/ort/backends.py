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

from ..errors import CannotLoad, EvaluationError
from ..ir.tensor import one_line
from ..support.watchdog import called_after
from .ort_values import from_ort, is_exchangeable, is_foreign, to_ort
from .sessions import AS_WRITTEN, Loadable, Setting, session

Arrays = Mapping[str, Any]

POSITION = re.compile(r"\S+\.(?:cc|cpp|hpp|h):\d+(?:: | .*?\)(?: const)? | )|\[ONNXRuntimeError\] : \d+ : \w+ : ")
"""How libraries in C++ say where in their source they complain: file, line, the function's declaration, a number."""


class OnnxRuntime:
    """onnxruntime's CPU provider; unless `setting` says otherwise, graph optimizations disabled, weights not repacked.

    Repacking is off so that a weight gives the same bits whether it is computed or constant.
    Element types that NumPy lacks go in and come out as ml_dtypes. Raises CannotLoad for a model that it has
    no kernels for or whose inputs it cannot be given, EvaluationError for a failing run. `folder` is where the
    external weights of a model given as bytes are.
    """

    name = "onnxruntime"

    def __init__(self, model: Loadable, setting: Setting = AS_WRITTEN, *, folder: Path | None = None) -> None:
        self.setting = setting
        try:
            self._session: Any = session(model, setting, folder)
        except Exception as e:
            raise CannotLoad(f"onnxruntime cannot load it: {short(e)}") from e
        ends = (
            *self._session.get_inputs(),
            *self._session.get_overridable_initializers(),
            *self._session.get_outputs(),
        )
        kinds: list[str] = [end.type for end in ends]
        self._is_foreign = any(map(is_foreign, kinds))
        if self._is_foreign and not is_exchangeable(kinds):
            raise CannotLoad(f"onnxruntime does not exchange {', '.join(dict.fromkeys(kinds))} with Python")

    def run(self, outputs: Sequence[str], feeds: Arrays, limit: float | None = None) -> list[Any]:
        """Run once, for at most `limit` seconds."""
        options = importlib.import_module("onnxruntime").RunOptions()
        with called_after(limit, lambda: setattr(options, "terminate", True)) as late:
            try:
                if self._is_foreign:
                    return self._run_foreign(outputs, feeds, options)
                return list(self._session.run(list(outputs), dict(feeds), options))
            except Exception as e:
                if late.is_set():
                    raise EvaluationError(f"onnxruntime does not end within {limit:g} s") from e
                raise EvaluationError(f"onnxruntime cannot run it: {short(e)}") from e

    def end_profile(self) -> Path:
        """End the profile that the setting asked for; the file that it is in."""
        return Path(self._session.end_profiling())

    def _run_foreign(self, outputs: Sequence[str], feeds: Arrays, options: Any) -> list[Any]:
        made = {name: to_ort(np.asarray(a, order="C")) for name, a in feeds.items()}
        values = {name: value for name, (value, _) in made.items()}
        return [from_ort(v) for v in self._session.run_with_ort_values(list(outputs), values, options)]


class Reference:
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
            raise CannotLoad(f"onnx.reference cannot load it: {short(e)}") from e

    def run(self, outputs: Sequence[str], feeds: Arrays, limit: float | None = None) -> list[Any]:  # noqa: ARG002
        """Run once; it cannot be stopped, whatever the `limit`."""
        try:
            return list(self._evaluator.run(list(outputs), dict(feeds)))
        except Exception as e:
            raise EvaluationError(f"onnx.reference cannot run it: {short(e)}") from e


def without_positions(text: str) -> str:
    """What a library says, without where in its own source."""
    return POSITION.sub("", text)


def short(error: BaseException) -> str:
    """What a backend complains about, on one line and without its own source positions."""
    text = without_positions(one_line(error))
    for mark in (" : ", "Status Message: "):
        text = text.rpartition(mark)[2] or text
    return text[:300]
