"""OpenVINO's own runtime as an engine.

Its frontend drops unused inputs, treats overridable initializers as constants, and loses the name of one of two
outputs that have the same value; outputs are therefore mapped by position.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from threading import local
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ..errors import EvaluationError
from ..io.files import load_without_weights
from ..ir.op_schemas import qualified_op_type, split_op_type
from ..serialization.proto_queries import all_nodes
from .engines import SINGLE, Engine, EngineSession, EngineSettings, OpTime, Unsupported, ValueFacts
from .ort_values import packed_elements

Array = np.ndarray[Any, Any]
DEVICE = "CPU"
TELEMETRY = "openvino_telemetry"
INT8 = "int8"
"""The precision in which groups of activations are quantized before being multiplied by 8-bit or 4-bit weights."""
PRECISIONS = (SINGLE, "bf16", "f16", INT8)
GROUP = 128  # activations per int8 scale; with 64, models took 1.02 to 1.15 times as long; few support 256
ELEMENT_TYPES = MappingProxyType({
    "f32": "float", "f64": "double", "f16": "float16", "bf16": "bfloat16", "boolean": "bool", "i8": "int8",
    "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "i4": "int4", "u4": "uint4", "f8e4m3": "float8e4m3fn", "f8e5m2": "float8e5m2", "string": "string",
})  # fmt: skip
"""OpenVINO's element types, and ONNX's."""
NOISE = re.compile(
    r"Exception from \S+:\d+:|Check '.*?' failed at \S+:\d+:|Summary:|FrontEnd API failed with \w+:"
    r"|To facilitate .*|While validating node .*"
)
"""Parts of its messages about source locations, which do not concern the model."""
NAMING = "operation name"
"""The part of a message that names an op."""
OF_WEIGHTS = frozenset({"u8", "i8", "u4", "i4"})
"""The runtime precisions of a product with weights of few bits."""
WITH_BODIES = frozenset({"If", "Loop", "TensorIterator"})
"""The types of ops in a compiled model whose bodies are not reported."""
UNCONVERTED = frozenset({"NotSupportedONNXNode", "ONNXFrameworkNode"})
"""The types of ops that its frontend did not convert."""


@cache
def _library() -> Any:
    """Import the package `openvino` without its telemetry.

    Importing it would send an event to Google Analytics and write to ~/intel, unless `opt_in_out --opt_out` had created
    a file there. OpenVINO has a stub in case the telemetry package is missing, and that stub is used here.
    """
    sys.modules.setdefault(TELEMETRY, cast("Any", None))
    try:
        return import_module("openvino")
    finally:
        if cast("Any", sys.modules[TELEMETRY]) is None:
            del sys.modules[TELEMETRY]


@cache
def _core() -> Any:
    return _library().Core()


def _has_bf16() -> bool:
    """Whether the processor has instructions for bfloat16, which otherwise is emulated."""
    return "BF16" in _core().get_property(DEVICE, "OPTIMIZATION_CAPABILITIES")


def compile_options(settings: EngineSettings) -> dict[str, Any]:
    """The options of `compile_model`."""
    is_int8, usual = settings.precision == INT8, settings.precision
    return {
        "INFERENCE_PRECISION_HINT": ("bf16" if _has_bf16() else SINGLE) if is_int8 else usual,
        "PERFORMANCE_HINT": "THROUGHPUT" if settings.streams > 1 else "LATENCY",
        **({"INFERENCE_NUM_THREADS": settings.threads} if settings.threads else {}),
        **({"NUM_STREAMS": settings.streams} if settings.streams else {}),
        **({"PERF_COUNT": "YES"} if settings.profiles else {}),
        "DYNAMIC_QUANTIZATION_GROUP_SIZE": GROUP if is_int8 else 0,  # the default is 32, in all precisions
        **settings.options,
    }


def script(settings: EngineSettings) -> list[str]:
    """Lines of Python that compile `model`, a path."""
    return [
        "import sys",
        f"sys.modules.setdefault({TELEMETRY!r}, None)  # importing openvino would send an event to its vendor",
        "import openvino",
        "",
        f"session = openvino.Core().compile_model(model, {DEVICE!r}, {compile_options(settings)!r})",
    ]


def load(model: bytes | Path, settings: EngineSettings) -> EngineSession:
    """Compile a model for the CPU. Raises EvaluationError."""
    message = _message(model)
    _require_tensors(message)
    read: Any = None
    try:
        read = _core().read_model(model if isinstance(model, bytes) else str(model))
        compiled = _core().compile_model(read, DEVICE, compile_options(settings))
    except Exception as e:
        if found := unsupported(model):
            named, functions = dict.fromkeys(u.op_type for u in found), {f.name for f in message.functions}
            are_local = all(split_op_type(name)[1] in functions for name in named)
            advice = "; `passes run --pipeline none` inlines functions" * are_local
            raise EvaluationError(f"it has no {', '.join(named)}, at {found[0].place}{advice}") from e
        text = message_of(e)
        place = "" if read is None or NAMING in text.casefold() else _first_failing(read, settings)
        raise EvaluationError(f"{text}{place}") from e
    return OpenvinoSession(message.graph, compiled)


def _first_failing(model: Any, settings: EngineSettings) -> str:
    """Describe the first op such that the graph up to it does not compile."""
    ops = [op for op in model.get_ordered_ops() if op.get_type_name() not in {"Parameter", "Constant", "Result"}]

    def fails(end: int) -> bool:
        try:
            part = _library().Model(ops[end - 1].outputs(), model.get_parameters())
            _core().compile_model(part, DEVICE, compile_options(settings))
        except Exception:  # noqa: BLE001 - any error
            return True
        return False

    number = bisect_left(range(1, len(ops) + 1), True, key=fails)
    return f", first at {ops[number].get_type_name()} {ops[number].get_friendly_name()}" if number < len(ops) else ""


def _message(model: bytes | Path) -> onnx.ModelProto:
    """The model without external weights."""
    return onnx.ModelProto.FromString(model) if isinstance(model, bytes) else load_without_weights(model)


def _require_tensors(message: onnx.ModelProto) -> None:
    """Raise EvaluationError for inputs and outputs that are not numeric tensors."""
    for v in (*message.graph.input, *message.graph.output):
        kind = v.type.WhichOneof("value")
        if kind is not None and kind != "tensor_type":
            raise EvaluationError(f"it cannot exchange a {kind.removesuffix('_type')} with Python, such as {v.name}")
        if v.type.tensor_type.elem_type == onnx.TensorProto.STRING:
            raise EvaluationError(f"it cannot exchange strings, such as {v.name}")


def message_of(error: BaseException) -> str:
    """An exception's message in one line, without locations in OpenVINO's source."""
    return " ".join(NOISE.sub("", str(error)).split())[:300] or type(error).__name__


def unsupported(model: bytes | Path) -> list[Unsupported]:
    """The ops that OpenVINO's frontend cannot convert."""
    manager: Any = _library().frontend.FrontEndManager()
    frontend = manager.load_by_framework("onnx")
    try:
        found = frontend.convert_partially(frontend.load(BytesIO(model) if isinstance(model, bytes) else str(model)))
    except Exception:  # noqa: BLE001 - the error of loading explains why a model cannot be read
        return []
    nodes = [*all_nodes(_message(model).graph.node)]
    named = {name: node for node in nodes for name in (node.name, *node.output) if name}
    left = (op for op in _all_ops(found) if op.get_type_name() in UNCONVERTED)
    names = ([op.get_friendly_name(), *(name for port in op.outputs() for name in port.get_names())] for op in left)
    known = {id(node): node for own in names if (node := next((named[n] for n in own if n in named), None)) is not None}
    return [
        Unsupported(qualified_op_type(n.domain, n.op_type), next(filter(None, n.output), ""), "it cannot be converted")
        for n in nodes
        if id(n) in known
    ]


def _all_ops(model: Any) -> Iterator[Any]:
    """Yield the ops of a model, including ops in bodies."""
    for op in model.get_ops():
        yield op
        if op.get_type_name() in WITH_BODIES:
            is_if = op.get_type_name() == "If"
            for body in (op.get_then_body(), op.get_else_body()) if is_if else (op.get_function(),):
                yield from _all_ops(body)


class OpenvinoSession(EngineSession):
    """A compiled model. Results are copies, because OpenVINO reuses its memory in the next run."""

    def __init__(self, graph: onnx.GraphProto, compiled: Any) -> None:
        self._compiled, self._initializers = compiled, {t.name for t in graph.initializer}
        names = [o.name for o in graph.output]
        if len(names) != len(compiled.outputs):
            raise EvaluationError(f"it has {len(compiled.outputs)} outputs instead of {len(names)}")
        self._ports = dict(zip(names, range(len(names)), strict=True))
        inputs = [i.name for i in graph.input]
        known = [(port, {*port.get_names(), port.get_node().get_friendly_name()}) for port in compiled.inputs]
        own = {name: port for port, names in known for name in inputs if name in names}
        if len(own) != len(compiled.inputs):
            raise EvaluationError("it does not keep the names of its inputs")
        self._inputs = {name: (own[name], _element_type(own[name])) for name in inputs if name in own}
        self._given = set(inputs) - self._initializers
        self._output_types = [_element_type(port) for port in compiled.outputs]
        self.inputs = [ValueFacts(name, f"tensor({kind})", _shape(p)) for name, (p, kind) in self._inputs.items()]
        ports = zip(names, compiled.outputs, self._output_types, strict=True)
        self.outputs = [ValueFacts(name, f"tensor({kind})", _shape(port)) for name, port, kind in ports]
        self.precision = running_precision(compiled)
        self.threads = int(compiled.get_property("INFERENCE_NUM_THREADS"))
        self._requests = local()
        self._last: Any = self._request()

    def run(self, outputs: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """Run once. Raises EvaluationError."""
        request = self._last = self._request()
        try:
            request.infer(self._tensors(feeds), share_inputs=True, share_outputs=True)
        except EvaluationError:
            raise
        except Exception as e:
            raise EvaluationError(message_of(e)) from e
        wanted = list(self._ports) if outputs is None else outputs
        return [self._result(request, self._ports[name]) for name in wanted]

    def _request(self) -> Any:
        """The request of this thread."""
        if not hasattr(self._requests, "own"):
            self._requests.own = self._compiled.create_infer_request()
        return self._requests.own

    def _tensors(self, feeds: Mapping[str, Any]) -> dict[Any, Any]:
        """The tensors of the inputs that the compiled model has."""
        for name in feeds.keys() - self._inputs.keys():
            if name not in self._given:  # an unused input may have any value
                raise EvaluationError(f"it treats {name} as a constant, so its default cannot be overridden")
        return {port: _tensor(feeds[name], kind, name) for name, (port, kind) in self._inputs.items()}

    def _result(self, request: Any, index: int) -> Array:
        tensor, kind = request.get_output_tensor(index), self._output_types[index]
        if _has_numpy_type(kind):
            return np.array(tensor.data)
        raw = np.array(tensor.data).tobytes()
        proto = onnx.TensorProto(data_type=onnx_type(kind), dims=list(tensor.shape), raw_data=raw)
        return numpy_helper.to_array(proto)

    def bind(self, feeds: Mapping[str, Any]) -> Callable[[], object]:
        """Make a call like users do: inputs are shared, results are copied, and each thread has its own request."""
        tensors = self._tensors(feeds)
        return lambda: self._request().infer(tensors, share_inputs=True, share_outputs=False)

    def cancel(self) -> None:
        """Make OpenVINO end the run."""
        self._last.cancel()

    def op_times(self) -> list[OpTime]:
        """The time of each op of the compiled model in the last run."""
        originals = {
            op.get_friendly_name(): str(op.get_rt_info()["originalLayersNames"].astype(str))
            for op in self._compiled.get_runtime_model().get_ops()
        }
        return [
            OpTime(
                p.node_name,
                p.node_type,
                p.exec_type,
                p.real_time.total_seconds(),
                tuple(name for name in originals.get(p.node_name, "").split(",") if name),
            )
            for p in self._last.get_profiling_info()
            if str(p.status).endswith("EXECUTED")
        ]


def _element_type(port: Any) -> str:
    """The element type of an input or output, with its ONNX name. Raises EvaluationError."""
    name = port.get_element_type().get_type_name()
    if name not in ELEMENT_TYPES:
        raise EvaluationError(f"elements of its type {name} cannot be exchanged with Python")
    return ELEMENT_TYPES[name]


def _shape(port: Any) -> tuple[int | None, ...]:
    shape = port.get_partial_shape()
    if shape.rank.is_dynamic:
        return ()
    return tuple(None if d.is_dynamic else d.get_length() for d in shape)


def onnx_type(kind: str) -> int:
    """The element type of TensorProto for its name in a type."""
    return onnx.TensorProto.DataType.Value(kind.upper())


def _has_numpy_type(kind: str) -> bool:
    return np.dtype(helper.tensor_dtype_to_np_dtype(onnx_type(kind))).isbuiltin == 1


def _tensor(value: Any, kind: str, name: str) -> Any:
    """The tensor for an input. Raises EvaluationError for an array of another type."""
    array, wanted = np.asarray(value, order="C"), helper.tensor_dtype_to_np_dtype(onnx_type(kind))
    if array.dtype != wanted:
        raise EvaluationError(f"{name} has elements of {array.dtype} instead of {wanted}")
    ov, array = _library(), array.view(wanted)  # OpenVINO accepts np.int64, but not np.longlong
    if _has_numpy_type(kind):
        return ov.Tensor(array, shared_memory=True) if array.size else ov.Tensor(array)
    own = next(name for name, text in ELEMENT_TYPES.items() if text == kind)
    tensor = ov.Tensor(getattr(ov.Type, own), ov.Shape(list(array.shape)))
    if array.size:
        data: Array = np.asarray(tensor.data).view(np.uint8).reshape(-1)
        data[:] = packed_elements(array)
    return tensor


def running_precision(compiled: Any) -> str:
    """The precision of a compiled model: its hint, if any op runs in it, or if bodies may contain such ops.

    It is int8 if the model has quantized weights.
    """
    hint = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    is_int8 = int(compiled.get_property("DYNAMIC_QUANTIZATION_GROUP_SIZE")) == GROUP
    if hint == SINGLE and not is_int8:
        return SINGLE
    facts = [op.get_rt_info() for op in compiled.get_runtime_model().get_ops()]
    if is_int8 and any(
        fact["layerType"].astype(str) == "FullyConnected" and fact["runtimePrecision"].astype(str).lower() in OF_WEIGHTS
        for fact in facts
    ):
        return INT8
    kinds = {fact["runtimePrecision"].astype(str).lower() for fact in facts}
    has_bodies = any(fact["layerType"].astype(str) in WITH_BODIES for fact in facts)
    return hint if hint in kinds or has_bodies else SINGLE


ENGINE = Engine(
    "openvino",
    load,
    version=lambda: version("openvino"),
    precisions=PRECISIONS,
    weight_schemes=MappingProxyType({INT8: "weights8"}),
    unsupported=unsupported,
    devices=lambda: list(_core().available_devices),
    install="pip install 'passwright[openvino]'",
    script=script,
)
