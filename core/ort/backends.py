"""Backends that run models: onnxruntime without optimizations, and the ONNX reference evaluator."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import onnx

from ..errors import OUT_OF_MEMORY, EvaluationError, MemoryExhausted, ModelLoadError
from ..io.files import model_bytes
from ..io.split_models import Loadable, SplitModel
from ..ir.tensor import first_line
from ..operators.reference import normalize_strings
from ..processes.process_limits import memory_for_model
from ..processes.watchdog import call_after
from ..serialization.proto_queries import all_nodes, opset_versions
from .call_monitor import backend_call
from .ort_values import from_ortvalue, is_exchangeable, lacks_numpy_dtype, to_ortvalue
from .sessions import UNOPTIMIZED, SessionConfig, create_session

Arrays = Mapping[str, Any]
LOAD_TIMEOUT = 300.0  # seconds to load a model
MANY_ENDS = 4000  # inputs and outputs of a session, above which it takes long to find the type of each array
TERMINATION_GRACE = 10.0  # seconds for a run to stop after its timeout

SOURCE_LOCATION = re.compile(
    r"\S+\.(?:cc|cpp|hpp|h):\d+(?:: | .*?\)(?: const)? | )|\[ONNXRuntimeError\] : \d+ : \w+ : "
)
"""The source locations in error messages of C++ libraries: file, line, the function's declaration, a number."""


MEMORY_ERRORS = ("bad allocation", "bad_alloc", "Failed to allocate memory", "pthread_create failed")
"""The marks of onnxruntime's errors for lack of memory (bfc_arena.cc, C++'s std::bad_alloc, env.cc of POSIX)."""


def session_memory(model: Loadable, config: SessionConfig = UNOPTIMIZED, callers: int = 1) -> int:
    """The limit, in bytes, of a process with a session of a model, which so many threads call."""
    return memory_for_model(model_bytes(model), config.intra_op_threads + config.inter_op_threads + callers)


class OnnxRuntime:
    """onnxruntime's CPU provider, by default without graph optimizations and prepacked weights.

    Prepacking is off so that a weight gives the same bits whether it is computed or constant. Element types that NumPy
    lacks are exchanged as ml_dtypes. `folder` has the external weights of a model given as bytes. Raises ModelLoadError
    for a model without kernels or with inputs that Python cannot provide, EvaluationError for a failing run.
    """

    name = "onnxruntime"

    def __init__(self, model: Loadable, config: SessionConfig = UNOPTIMIZED, *, folder: Path | None = None) -> None:
        self.config = config
        try:
            with backend_call(LOAD_TIMEOUT):
                self._session: Any = create_session(model, config, folder)
        except Exception as e:
            lacks_memory = f"onnxruntime {OUT_OF_MEMORY}" if is_lack_of_memory(e) else ""
            raise ModelLoadError(lacks_memory or f"onnxruntime cannot load it: {backend_message(e)}") from e
        session = self._session
        self._run_options: Any = importlib.import_module("onnxruntime").RunOptions
        ends = (*session.get_inputs(), *session.get_overridable_initializers(), *session.get_outputs())
        kinds: list[str] = [end.type for end in ends]
        lacks_dtypes = any(map(lacks_numpy_dtype, kinds))
        if lacks_dtypes and not is_exchangeable(kinds):
            raise ModelLoadError(f"onnxruntime does not exchange {', '.join(dict.fromkeys(kinds))} with Python")
        has_many = len(ends) > MANY_ENDS and is_exchangeable(kinds)
        self._needs_ortvalues = lacks_dtypes or has_many

    def run(self, outputs: Sequence[str], feeds: Arrays, timeout: float | None = None) -> list[Any]:
        """Run once, for at most `timeout` seconds."""
        options = self._run_options()
        with (
            backend_call(None if timeout is None else timeout + TERMINATION_GRACE),
            call_after(timeout, lambda: setattr(options, "terminate", True)) as late,
        ):
            try:
                if not self._needs_ortvalues:
                    return list(self._session.run(list(outputs), dict(feeds), options))
                made = {name: to_ortvalue(np.asarray(a, order="C")) for name, a in feeds.items()}
                return self._run_bound(outputs, {name: value for name, (value, _) in made.items()}, options)
            except Exception as e:
                if late.is_set():
                    raise EvaluationError(f"onnxruntime does not end within {round(timeout or 0.0, 1):g} s") from e
                raise run_error("onnxruntime", e) from e

    def _run_bound(self, outputs: Sequence[str], values: Mapping[str, Any], options: Any) -> list[Any]:
        """Run with OrtValues in linear time. Other ways look each name up among those of all inputs."""
        binding, names = self._session.io_binding(), dict.fromkeys(outputs)
        for name, value in values.items():
            binding.bind_ortvalue_input(name, value)
        for name in names:
            binding.bind_output(name)
        self._session.run_with_iobinding(binding, options)
        found = dict(zip(names, map(from_ortvalue, binding.get_outputs()), strict=True))
        return [found[name] for name in outputs]

    def end_profile(self) -> Path:
        """End profiling and return the file with the profile."""
        return Path(self._session.end_profiling())


RIGHT_IN_REFERENCE_SINCE = MappingProxyType({"BatchNormalization": 14, "Hardmax": 13, "LogSoftmax": 13, "Softmax": 13})
"""The opset version from which `onnx.reference` is right, for operators with another meaning in earlier ones."""


class OnnxReference:
    """`onnx.reference`: slow, but complete where onnxruntime lacks a kernel.

    Raises ModelLoadError, also for operators of which it is wrong in the opset of the model, and EvaluationError.
    """

    name = "onnx.reference"

    def __init__(self, model: Loadable) -> None:
        from onnx.reference import ReferenceEvaluator  # noqa: PLC0415 - seldom needed and slow to import
        from onnx.reference.op_run import OpRun  # noqa: PLC0415 - as above

        class StringNormalizer(OpRun):  # wrong in onnx.reference
            def _run(self, x: Any, **attributes: Any) -> tuple[Any]:
                return (normalize_strings(x, **{k: v for k, v in attributes.items() if v is not None}),)

        library: Any = onnx
        try:
            if isinstance(model, SplitModel):
                proto = model.whole_message()
            else:
                proto = onnx.load_from_string(model) if isinstance(model, bytes) else library.load(str(model))
            _require_right(proto)
            with backend_call(LOAD_TIMEOUT):
                self._evaluator: Any = ReferenceEvaluator(proto, new_ops=[StringNormalizer])
        except ModelLoadError:
            raise
        except Exception as e:
            raise ModelLoadError(f"onnx.reference cannot load it: {backend_message(e)}") from e

    def run(self, outputs: Sequence[str], feeds: Arrays, timeout: float | None = None) -> list[Any]:
        """Run once; Python code cannot be stopped after `timeout` seconds, but a monitor can end the process."""
        try:
            with backend_call(None if timeout is None else timeout + TERMINATION_GRACE):
                return list(self._evaluator.run(list(outputs), dict(feeds)))
        except Exception as e:
            raise run_error("onnx.reference", e) from e


def _require_right(model: onnx.ModelProto) -> None:
    """Raise ModelLoadError for a node of which the reference is wrong."""
    for holder, nodes in ((model, model.graph.node), *((f, f.node) for f in model.functions)):
        version = opset_versions(holder).get("", 0)
        for node in all_nodes(nodes):
            if not node.domain and version < RIGHT_IN_REFERENCE_SINCE.get(node.op_type, 0):
                raise ModelLoadError(f"onnx.reference is wrong about {node.op_type} of opset {version}")


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether `error` is one of Python or onnxruntime for lack of memory."""
    marks = (*MEMORY_ERRORS, OUT_OF_MEMORY)
    return isinstance(error, MemoryExhausted | MemoryError) or any(mark in str(error) for mark in marks)


def run_error(backend: str, error: Exception) -> EvaluationError:
    """The error for a run that raised `error`."""
    if is_lack_of_memory(error):
        return MemoryExhausted(f"{backend} {OUT_OF_MEMORY}")
    return EvaluationError(f"{backend} cannot run it: {backend_message(error)}")


def strip_source_locations(text: str) -> str:
    """A message of a library without locations in its source."""
    return SOURCE_LOCATION.sub("", text)


def backend_message(error: BaseException) -> str:
    """The error message of a backend, on one line and without locations in its source."""
    text = strip_source_locations(first_line(error))
    for mark in (" : ", "Status Message: "):
        text = text.rpartition(mark)[2] or text
    return text[:300]
