"""Backends that run models: engines (by default, onnxruntime without optimizations), and `onnx.reference`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any, cast

import onnx

from ..errors import OUT_OF_MEMORY, EvaluationError, MemoryExhausted, ModelLoadError, PassesError, format_error
from ..io.ort_format import is_ort_file
from ..io.split_models import Loadable, SplitModel, message_of
from ..ir.op_schemas import is_foreign, qualified_op_type
from ..ir.tensor import first_line
from ..processes.custom_operators import CustomOperators, custom_operators
from ..processes.process_limits import memory_for_model
from ..processes.watchdog import call_after
from ..serialization.proto_queries import all_nodes, local_functions
from .call_monitor import backend_call
from .engines import ValueFacts, checked_results
from .sessions import UNOPTIMIZED, SessionConfig, create_session

if TYPE_CHECKING:
    from .kernel_session import KernelSession
    from .sessions import OrtSession

Arrays = Mapping[str, Any]
LOAD_TIMEOUT = 300.0  # seconds to load a model
TERMINATION_GRACE = 10.0  # seconds for a run to end after its timeout

SOURCE_LOCATION = re.compile(
    r"\S+\.(?:cc|cpp|hpp|h):\d+(?:: | .*?\)(?: const)? | )|\[ONNXRuntimeError\] : \d+ : \w+ : "
)
"""Source locations in error messages of C++ libraries: file, line, declaration of the function, and a number."""

LOADED_FILE = re.compile(r"Load model from .*? failed:\s*")
"""The name of the loaded file in a message of onnxruntime; the file is often a temporary copy."""

MEMORY_ERRORS = ("bad allocation", "bad_alloc", "Failed to allocate memory", "pthread_create failed")
"""Parts of onnxruntime's out-of-memory messages (bfc_arena.cc, C++'s std::bad_alloc, env.cc of POSIX)."""


def session_memory(model: Loadable, config: SessionConfig = UNOPTIMIZED, callers: int = 1) -> int:
    """The limit, in bytes, of a process with a session of a model, which so many threads call."""
    from ..io.files import model_bytes  # noqa: PLC0415 - imports graphs, which the process of the session does not need

    return memory_for_model(model_bytes(model), config.intra_op_threads + config.inter_op_threads + callers)


class LoadedModel:
    """A model loaded by the engine of a config; by default, onnxruntime's CPU provider without graph optimizations.

    Prepacking is off, so that a weight has the same effect whether it is computed or constant. ml_dtypes are used for
    element types that NumPy lacks. `folder` has the external weights of a model given as bytes. `session` is the
    session of the engine. Raises ModelLoadError for a model without kernels or with inputs that Python cannot provide,
    and EvaluationError for a failing run.
    """

    def __init__(self, model: Loadable, config: SessionConfig = UNOPTIMIZED, *, folder: Path | None = None) -> None:
        self.config, self.name = config, config.engine_name
        # Code of a plugin may raise anything, KeyboardInterrupt too: its process ignores Ctrl-C.
        self._failures = (Exception, SystemExit) if config.is_onnxruntime else (BaseException,)
        try:
            with backend_call(LOAD_TIMEOUT):
                self.session = create_session(model, config, folder)
        except self._failures as e:
            if isinstance(e, PassesError) and (isinstance(e, ModelLoadError) or not isinstance(e, EvaluationError)):
                raise
            known = f"{self.name} {OUT_OF_MEMORY}" if is_lack_of_memory(e) else missing_kernels(e, model)
            raise ModelLoadError(known or f"{self.name} cannot load it: {engine_message(e, self.config)}") from e

    def run(self, outputs: Sequence[str], feeds: Arrays, timeout: float | None = None) -> list[Any]:
        """Run once, for at most `timeout` seconds."""
        with (
            backend_call(None if timeout is None else timeout + TERMINATION_GRACE),
            call_after(timeout, self.session.cancel) as late,
        ):
            try:
                found = self.session.run(outputs, feeds)
                return found if self.config.is_onnxruntime else checked_results(found, outputs)
            except self._failures as e:
                if late.is_set():
                    raise EvaluationError(f"{self.name} does not end within {round(timeout or 0.0, 1):g} s") from e
                if isinstance(e, EvaluationError) and not self.config.is_onnxruntime:  # raised by the engine
                    raise type(e)(f"{self.name} cannot run it: {e}") from e
                if not (self.config.is_onnxruntime or is_lack_of_memory(e)):
                    raise EvaluationError(f"{self.name} cannot run it: {engine_message(e, self.config)}") from e
                raise run_error(self.name, e) from e

    @property
    def outputs(self) -> Sequence[ValueFacts]:
        """The outputs, with the `type` and `shape` that the engine infers."""
        return self.session.outputs

    @property
    def precision(self) -> str:
        """The precision in which the engine computes."""
        return self.session.precision

    def end_profile(self) -> Path:
        """End profiling and return the file with the profile of onnxruntime."""
        return cast("OrtSession | KernelSession", self.session).end_profile()


class OnnxReference:
    """`onnx.reference`: slow, but complete if onnxruntime lacks a kernel.

    Raises ModelLoadError, also for operators that it computes wrongly at the model's opset, and EvaluationError.
    """

    name = "onnx.reference"

    def __init__(self, model: Loadable) -> None:
        library: Any = onnx
        try:
            if isinstance(model, SplitModel):
                proto = model.whole_message()
            else:
                proto = onnx.load_from_string(model) if isinstance(model, bytes) else library.load(str(model))
            with backend_call(LOAD_TIMEOUT):
                from .reference_evaluator import reference_evaluator  # noqa: PLC0415 - imports operators, as above

                self._evaluator: Any = reference_evaluator(proto)
        except PassesError:
            raise
        except Exception as e:
            raise ModelLoadError(
                missing_kernels(e, model) or f"onnx.reference cannot load it: {backend_message(e)}"
            ) from e

    def run(self, outputs: Sequence[str], feeds: Arrays, timeout: float | None = None) -> list[Any]:
        """Run once. Python code cannot be stopped after `timeout` seconds, but a monitor can end the process."""
        try:
            with backend_call(None if timeout is None else timeout + TERMINATION_GRACE):
                return list(self._evaluator.run(list(outputs), dict(feeds)))
        except Exception as e:
            raise run_error("onnx.reference", e) from e


def engine_message(error: BaseException, config: SessionConfig) -> str:
    """The message of the engine; for a Python exception in a plugin's engine, with its type and location."""
    is_plain = isinstance(error, EvaluationError) or type(error).__module__ != "builtins"
    if config.is_onnxruntime or is_plain:
        return backend_message(error)
    frame = extract_tb(error.__traceback__)[-1]
    return f"{format_error(error)} ({Path(frame.filename).name}:{frame.lineno})"


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether `error` is an out-of-memory error of Python or onnxruntime."""
    marks = (*MEMORY_ERRORS, OUT_OF_MEMORY)
    return isinstance(error, MemoryExhausted | MemoryError) or any(mark in str(error) for mark in marks)


def run_error(backend: str, error: BaseException) -> EvaluationError:
    """The error for a run that raised `error`."""
    if is_lack_of_memory(error):
        return MemoryExhausted(f"{backend} {OUT_OF_MEMORY}")
    if isinstance(error, EvaluationError):  # raised by a kernel in Python
        return error
    return EvaluationError(f"{backend} cannot run it: {backend_message(error)}")


UNKNOWN_OPERATORS = (
    r"(?P<domain>[^\s:]+):(?P<op>\w+)\(-1\) is not a registered function/op",
    r"Node type '(?P<op>[^']*)' from domain '(?P<domain>[^']+)' is unknown",
    r"No opset import for domain '(?P<domain>[^']+)'(?P<op>)",
    r"Domain '(?P<domain>[^']+)' \(node type: '(?P<op>[^']*)'\) is not specified",
)
"""Patterns of errors of onnxruntime and `onnx.reference` for an operator in an unknown domain."""


def missing_kernels(error: BaseException, model: Loadable) -> str:
    """A hint on the operators of a model that a backend does not know; "" for other errors."""
    found = next(filter(None, (re.search(pattern, str(error)) for pattern in UNKNOWN_OPERATORS)), None)
    if found is None or (isinstance(model, Path) and is_ort_file(model)):
        return ""
    added, foreign = custom_operators() or CustomOperators(), dict.fromkeys(_foreign_operators(model))
    known = {(k.domain, k.op_type) for k in added.kernels}
    known |= {(f.domain, f.name) for f in map(onnx.FunctionProto.FromString, added.functions)}
    if found["op"] and added.libraries:  # they may have other operators
        foreign = dict.fromkeys([(found["domain"], found["op"])])
    operators = sorted(qualified_op_type(*o) for o in foreign if o not in known)
    if not any(domain == found["domain"] for domain, _ in foreign):
        return ""
    files = ", ".join(Path(path).name for path in added.libraries)
    return (
        f"there is no kernel for {', '.join(operators)}{f' in {files}' if files else ''}: give a library with "
        "--custom-ops, a kernel in Python with --kernels, or a local function in the model"
    )


def _foreign_operators(model: Loadable) -> Iterator[tuple[str, str]]:
    """Yield the operators of a model in domains of neither ONNX nor onnxruntime, except local functions."""
    message = message_of(model)
    local = local_functions(message)
    for nodes in (message.graph.node, *(f.node for f in message.functions)):
        for node in all_nodes(nodes):
            if is_foreign(node.domain) and (node.domain, node.op_type) not in local:
                yield node.domain, node.op_type


def strip_source_locations(text: str) -> str:
    """Remove source locations from a library's message."""
    return SOURCE_LOCATION.sub("", text)


def backend_message(error: BaseException) -> str:
    """A backend's error message in one line, without source locations."""
    text = LOADED_FILE.sub("", strip_source_locations(first_line(error)))
    for mark in (" : ", "Status Message: "):
        text = text.rpartition(mark)[2] or text
    return text[:300]
