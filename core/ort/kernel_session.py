"""Sessions of models with kernels in Python: parts of the model run in an engine, and kernels between them."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import time_ns
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import onnx
from msgspec.structs import replace as replace_fields
from onnx import helper, numpy_helper
from onnx.external_data_helper import load_external_data_for_model

from ..errors import EvaluationError, ModelLoadError
from ..io.split_models import Loadable, SplitModel, message_of
from ..ir.op_schemas import canonical_domain
from ..processes.custom_operators import CustomOperators
from ..serialization.proto_queries import all_nodes, local_functions, needed_nodes, read_names
from .engines import EngineSession, ValueFacts
from .ort_values import Array
from .python_kernels import Operator, with_functions
from .reference_evaluator import reference_evaluator

LoadPart = Callable[[bytes, Any], EngineSession]
"""Creates a session of an engine for a serialized model and a SessionConfig."""
KERNEL_EVENT, RUN_EVENT = "_kernel_time", "model_run"
"""The end of the names of events for nodes, and the name of the event for a run, in profiles of onnxruntime."""


def with_kernels(
    model: Loadable, folder: Path | None, added: CustomOperators, config: Any, load: LoadPart
) -> Loadable | KernelSession:
    """The model with the local functions among custom operators; a session if it has kernels in Python.

    `folder` has the external weights of a model given as bytes. Raises ModelLoadError if onnxruntime is to save it.
    """
    message = message_of(model)
    folder = model.parent if isinstance(model, Path) else folder
    complete = with_functions(message, added)
    kernels = {(k.domain, k.op_type) for k in added.kernels} - local_functions(complete)
    if kernels.isdisjoint(_used(complete.graph.node, *(f.node for f in complete.functions))):
        if complete is message:
            return model
        return replace_fields(model, message=complete) if isinstance(model, SplitModel) else _as_given(complete, folder)
    if config.optimized_model_path:
        raise ModelLoadError("onnxruntime does not optimize a model whose kernels are in Python")
    if isinstance(model, SplitModel):
        complete = replace_fields(model, message=complete).whole_message()
    elif folder is not None:
        load_external_data_for_model(complete, str(folder))
    return KernelSession(complete, kernels, config, load)


def _as_given(message: onnx.ModelProto, folder: Path | None) -> bytes:
    if folder is not None:
        load_external_data_for_model(message, str(folder))
    return message.SerializeToString()


def _used(*nodes: Iterable[onnx.NodeProto]) -> set[Operator]:
    return {(canonical_domain(n.domain), n.op_type) for several in nodes for n in all_nodes(several)}


@dataclass(frozen=True)
class _Part:
    """Nodes that run together: what they read from outside, and what they make for others."""

    nodes: Sequence[onnx.NodeProto]
    in_python: bool
    reads: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()


class KernelSession(EngineSession):
    """A session of a model some of whose operators are `kernels` in Python.

    The nodes between two kernels are one model for the engine, which is loaded when the types of its inputs are known.
    A kernel, and a node with one in its subgraph or function, runs in `onnx.reference`. Raises the errors of both. It
    has no `inputs` and `outputs`: any value is taken as NumPy has it.
    """

    inputs: Sequence[ValueFacts] = ()
    outputs: Sequence[ValueFacts] = ()

    def __init__(self, model: onnx.ModelProto, kernels: set[Operator], config: Any, load: LoadPart) -> None:
        self._model, self._config, self._load = model, config, load
        graph = model.graph
        self._declared = {v.name: v.type for v in (*graph.input, *graph.value_info, *graph.output)}
        self._initializers: dict[str, onnx.TensorProto | onnx.SparseTensorProto] = {
            t.name: t for t in graph.initializer
        }
        self._initializers |= {s.values.name: s for s in graph.sparse_initializer}
        order = needed_nodes(graph.node, [o.name for o in graph.output])
        self._constants = {n.output[0]: n for n in order if n.op_type == "Constant" and not canonical_domain(n.domain)}
        self._parts = _parts(order, _with_callers(model, kernels), {o.name for o in graph.output}, set(self._constants))
        self._sessions = dict[tuple[int, tuple[Hashable, ...]], Any]()
        self._is_cancelled = False
        self.precision = config.precision
        self._events = list[dict[str, Any]]()

    def run(self, outputs: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """Run the model once."""
        values, begin, self._is_cancelled = dict(feeds), time_ns(), False
        for number, part in enumerate(self._parts):
            if self._is_cancelled:
                raise EvaluationError("it was terminated")
            values |= zip(part.makes, self._run_part(number, part, values), strict=True)
        self._record("Session", RUN_EVENT, begin)
        names = [o.name for o in self._model.graph.output] if outputs is None else outputs
        return [values[name] if name in values else self._initial(name) for name in names]

    def cancel(self) -> None:
        """End the run after the current part, and let its session end it sooner."""
        self._is_cancelled = True
        for (number, _), session in [*self._sessions.items()]:
            if not self._parts[number].in_python:
                session.cancel()

    def _run_part(self, number: int, part: _Part, values: Mapping[str, Any]) -> list[Any]:
        given = {name: values[name] for name in part.reads if name in values}
        key = number, () if part.in_python else tuple(_kind(v) for v in given.values())
        session = self._sessions.get(key)
        if session is None:
            types = {} if part.in_python else {name: self._type(name, v) for name, v in given.items()}
            model = self._part_model(part, given, types)
            session = reference_evaluator(model) if part.in_python else self._load_part(model)
            self._sessions[key] = session
        if part.in_python:
            begin, node = time_ns(), part.nodes[0]
            found = session.run(list(part.makes), given)
            args = {"op_name": node.op_type, "provider": "Python", "node_index": str(number)}
            self._record("Node", f"{node.name or node.output[0]}{KERNEL_EVENT}", begin, args)
            for name, value in zip(part.makes, found, strict=True):
                self._require_declared(name, value, node)
            return found
        return session.run(list(part.makes), given)

    def _load_part(self, model: onnx.ModelProto) -> EngineSession:
        prefix = self._config.profile_prefix
        config = replace_fields(self._config, profile_prefix=f"{prefix}-{len(self._sessions)}" if prefix else "")
        return self._load(model.SerializeToString(), config)

    def _record(self, category: str, name: str, begin: int, args: Mapping[str, str] = MappingProxyType({})) -> None:
        """Add an event to the profile, if there is one; `begin` is in nanoseconds of the clock of onnxruntime."""
        if self._config.profile_prefix:
            times = {"ts": begin / 1e3, "dur": (time_ns() - begin) / 1e3}
            self._events.append({"cat": category, "name": name, "args": dict(args), **times})

    def end_profile(self) -> Path:
        """End profiling and return the file with the profile, which has the nodes of all parts."""
        events = self._events
        for (number, _), session in self._sessions.items():
            if not self._parts[number].in_python:
                start, file = session.session.get_profiling_start_time_ns() / 1e3, session.end_profile()
                of_part: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"), strict=False)
                events += [{**e, "ts": e["ts"] + start} for e in of_part if e.get("cat") == "Node"]
                file.unlink()
        first = min((e["ts"] for e in events), default=0.0)
        path = Path(f"{self._config.profile_prefix}.json")
        path.write_text(json.dumps([{**e, "ts": e["ts"] - first} for e in events]), encoding="utf-8")
        return path

    def _part_model(
        self, part: _Part, given: Mapping[str, Any], types: Mapping[str, onnx.TypeProto]
    ) -> onnx.ModelProto:
        """The model of a part, with the initializers and constants that it reads."""
        model = onnx.ModelProto(ir_version=self._model.ir_version)
        model.opset_import.extend(self._model.opset_import)
        model.functions.extend(self._model.functions)
        model.graph.name = "part"
        own = {name for node in part.nodes for name in node.output}
        for name in part.reads:
            if name in given:
                model.graph.input.append(onnx.ValueInfoProto(name=name, type=types.get(name)))
            elif (tensor := self._initializers.get(name)) is None:
                if name in self._constants and name not in own:
                    model.graph.node.append(self._constants[name])
            elif isinstance(tensor, onnx.TensorProto):
                model.graph.initializer.append(tensor)
            else:
                model.graph.sparse_initializer.append(tensor)
        model.graph.node.extend(part.nodes)
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in part.makes)
        return model

    def _type(self, name: str, value: Any) -> onnx.TypeProto:
        """The type of a value that a part reads. Raises EvaluationError."""
        declared = self._declared.get(name)
        if isinstance(value, np.ndarray):
            array = cast("Array", value)
            return helper.make_tensor_type_proto(_element_type(array), [None] * array.ndim)
        if declared is not None and declared.WhichOneof("value"):
            return declared
        first = next(iter(_elements(value)), None)
        if not isinstance(first, np.ndarray):
            raise EvaluationError(f"the type of {name} is not known, which a kernel made")
        element = _element_type(cast("Array", first))
        return helper.make_sequence_type_proto(helper.make_tensor_type_proto(element, None))

    def _require_declared(self, name: str, value: Any, node: onnx.NodeProto) -> None:
        """Raise EvaluationError for a tensor that has another type than the model declares."""
        wanted = self._declared.get(name, onnx.TypeProto()).tensor_type.elem_type
        if wanted and isinstance(value, np.ndarray) and (found := _element_type(cast("Array", value))) != wanted:
            names = [onnx.TensorProto.DataType.Name(t).lower() for t in (found, wanted)]
            raise EvaluationError(f"{node.domain}.{node.op_type} gave {names[0]} for {name}, declared as {names[1]}")

    def _initial(self, name: str) -> Any:
        """The value of an initializer that is an output."""
        tensor = self._initializers[name]
        if isinstance(tensor, onnx.TensorProto):
            return numpy_helper.to_array(tensor)
        raise EvaluationError(f"{name} is a sparse initializer, which is no output")


def _element_type(array: Array) -> int:
    if array.dtype.kind in "OUS":
        return onnx.TensorProto.STRING
    try:
        return helper.np_dtype_to_tensor_dtype(array.dtype)
    except (KeyError, ValueError) as e:
        raise EvaluationError(f"a kernel gave an array of {array.dtype}, which ONNX does not have") from e


def _kind(value: Any) -> Hashable:
    """A key for the types of values, and the ranks of tensors."""
    if isinstance(value, np.ndarray):
        array = cast("Array", value)
        return array.dtype, array.ndim
    return isinstance(value, list), *map(_kind, _elements(value)[:1])


def _elements(value: Any) -> list[Any]:
    """The elements of a sequence; none of another value."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def _with_callers(model: onnx.ModelProto, kernels: set[Operator]) -> set[Operator]:
    """The kernels, and the local functions that call one of them, themselves or in functions."""
    calling = {(canonical_domain(f.domain), f.name): _used(f.node) for f in model.functions}
    found, more = kernels, kernels
    while more:
        more = {key for key, used in calling.items() if key not in found and not used.isdisjoint(found)}
        found = found | more
    return found


def _parts(
    order: Sequence[onnx.NodeProto], in_python: set[Operator], outputs: set[str], constants: set[str]
) -> list[_Part]:
    """The parts of sorted nodes, in order; a node is in the first part behind the kernels on which it depends.

    Each part has the `constants` that it reads.
    """
    stages, levels, python = list[list[onnx.NodeProto]](), dict[str, int](), list[list[onnx.NodeProto]]()
    for node in order:
        stage = max((levels.get(name, 0) for name in read_names(node)), default=0)
        is_python = not in_python.isdisjoint(_used([node]))
        while len(stages) <= stage:
            stages.append([])
            python.append([])
        (python if is_python else stages)[stage].append(node)
        levels |= dict.fromkeys(node.output, stage + is_python)
    parts = list[_Part]()
    for together, alone in zip(stages, python, strict=True):
        parts += [
            *([_Part(together, in_python=False)] if together else []),
            *(_Part([n], in_python=True) for n in alone),
        ]
    found = list[_Part]()
    for part in parts:
        made = dict.fromkeys(name for node in part.nodes for name in node.output if name)
        reads = tuple(dict.fromkeys(n for node in part.nodes for n in read_names(node) if n not in made))
        found.append(replace(part, reads=reads, makes=tuple(made)))
    read = outputs.union(*({*part.reads} - constants for part in found))
    found = [replace(part, makes=tuple(name for name in part.makes if name in read)) for part in found]
    return [part for part in found if part.makes]  # others have constants alone
