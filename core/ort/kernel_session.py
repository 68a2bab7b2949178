"""Sessions of models with kernels in Python: an engine runs parts of the model, and kernels run between them."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from time import time_ns
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import onnx
from msgspec.structs import replace as replace_fields
from onnx.external_data_helper import load_external_data_for_model

from ..errors import EvaluationError, ModelLoadError
from ..io.split_models import Loadable, SplitModel, message_of
from ..ir.op_schemas import canonical_domain
from ..operators.declaration import OperatorCall
from ..operators.table import OPERATORS
from ..processes.custom_operators import CustomOperators
from ..serialization.proto_queries import all_nodes, is_constant_node, local_functions, opset_versions, subgraphs
from .engines import EngineSession, ValueFacts
from .ort_values import Array
from .parted_session import DividedModel, Part, PartedSession, element_type, kind_of, type_of
from .python_kernels import Operator, with_functions
from .reference_evaluator import reference_evaluator

LoadPart = Callable[[bytes, Any], EngineSession]
"""Creates a session of an engine for a serialized model and a SessionConfig."""
CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})
KERNEL_EVENT, RUN_EVENT = "_kernel_time", "model_run"
"""The suffix of event names for nodes, and the event name for a run, in onnxruntime's profiles."""


def with_kernels(
    model: Loadable, folder: Path | None, added: CustomOperators, config: Any, load: LoadPart
) -> Loadable | KernelSession:
    """The model with the local functions of custom operators; a session if it has kernels in Python.

    `folder` has the external weights of a model given as bytes. Raises ModelLoadError if onnxruntime should save it.
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
        raise ModelLoadError("onnxruntime cannot optimize a model with kernels in Python")
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


class KernelSession(PartedSession):
    """A session of a model in which some operators are `kernels` in Python.

    The nodes between two kernels are one model for the engine, which is loaded when the types of its inputs are known.
    Bodies of If, Loop and Scan that contain a kernel are also such sessions. Kernels, and other nodes with one in their
    subgraph or function, run in `onnx.reference`. Raises the errors of both. It has no `inputs` and `outputs`: any
    NumPy value is accepted.
    """

    inputs: Sequence[ValueFacts] = ()
    outputs: Sequence[ValueFacts] = ()

    def __init__(self, model: onnx.ModelProto, kernels: set[Operator], config: Any, load: LoadPart) -> None:
        self.version = opset_versions(model).get("", 0)
        self._kernels, self._config, self._load = kernels, config, load
        graph = model.graph
        self._declared = {v.name: v.type for v in (*graph.input, *graph.value_info, *graph.output)}
        self._model = DividedModel(model, is_constant_node)
        in_python = _with_callers(model, kernels)
        super().__init__(self._model, self._model.parts(lambda n: not in_python.isdisjoint(_used([n])), alone=True))
        self._sessions = dict[tuple[int, tuple[Hashable, ...]], Any]()
        self.precision = config.precision
        self._events = list[dict[str, Any]]()

    def run(self, outputs: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """Run the model once."""
        begin = time_ns()
        found = super().run(outputs, feeds)
        self._record("Session", RUN_EVENT, begin)
        return found

    def _engine_sessions(self) -> list[EngineSession]:
        found = [(session, self._parts[number].is_other) for (number, _), session in [*self._sessions.items()]]
        of_bodies = chain.from_iterable(s.sessions.values() for s, _ in found if isinstance(s, _ControlFlow))
        return [*(session for session, is_other in found if not is_other), *of_bodies]

    def _run_part(self, number: int, part: Part, values: Mapping[str, Any]) -> list[Any]:
        given = {name: values[name] for name in part.reads if name in values}
        key = number, () if part.is_other else tuple(kind_of(v) for v in given.values())
        session = self._sessions.get(key)
        if session is None:
            types = {
                name: None if part.is_other else type_of(name, v, self._declared.get(name)) for name, v in given.items()
            }
            model = self._model.part_model(part, types)
            if part.is_other and _is_control_flow(part.nodes[0], self.version):
                session = _ControlFlow(self, part.nodes[0])
            else:
                session = reference_evaluator(model) if part.is_other else self._load_part(model)
            self._sessions[key] = session
        if part.is_other:
            begin, node = time_ns(), part.nodes[0]
            found = session.run(list(part.makes), given)
            args = {"op_name": node.op_type, "provider": "Python", "node_index": str(number)}
            self._record("Node", f"{node.name or node.output[0]}{KERNEL_EVENT}", begin, args)
            for name, value in zip(part.makes, found, strict=True):
                self._require_declared(name, value, node)
            return found
        return session.run(list(part.makes), given)

    def constants(self, names: Iterable[str]) -> dict[str, Any]:
        """The named values that are constants of the model."""
        made = (name for node in self._model.constants for name in node.output)
        known = self._model.initializers.keys() | made
        wanted = [name for name in names if name in known]
        model = self._model.part_model(Part((), is_other=True, makes=tuple(wanted)), {})
        tensors = (self._model.initializers.get(name) for name in wanted)
        model.graph.initializer.extend(t for t in tensors if isinstance(t, onnx.TensorProto))
        return dict(zip(wanted, reference_evaluator(model).run(wanted, {}), strict=True))

    def body(self, graph: onnx.GraphProto, values: Mapping[str, Any]) -> KernelSession:
        """A session of a body that captures values like these, including its inputs."""
        declared = {**self._declared, **{i.name: i.type for i in graph.input}}
        types = {name: type_of(name, value, declared.get(name)) for name, value in values.items()}
        part = Part(graph.node, is_other=False, reads=tuple(values), makes=tuple(o.name for o in graph.output))
        model = self._model.part_model(part, types)
        model.graph.initializer.extend(graph.initializer)
        model.graph.sparse_initializer.extend(graph.sparse_initializer)
        model.graph.value_info.extend(graph.value_info)
        del model.graph.output[:]
        model.graph.output.extend(graph.output)
        return KernelSession(model, self._kernels, replace_fields(self._config, profile_prefix=""), self._load)

    def _load_part(self, model: onnx.ModelProto) -> EngineSession:
        prefix = self._config.profile_prefix
        config = replace_fields(self._config, profile_prefix=f"{prefix}-{len(self._sessions)}" if prefix else "")
        return self._load(model.SerializeToString(), config)

    def _record(self, category: str, name: str, begin: int, args: Mapping[str, str] = MappingProxyType({})) -> None:
        """Add an event to the profile, if there is one; `begin` is in nanoseconds of onnxruntime's clock."""
        if self._config.profile_prefix:
            times = {"ts": begin / 1e3, "dur": (time_ns() - begin) / 1e3}
            self._events.append({"cat": category, "name": name, "args": dict(args), **times})

    def end_profile(self) -> Path:
        """End profiling; return the profile file, which has the nodes of all parts."""
        events = self._events
        for (number, _), session in self._sessions.items():
            if not self._parts[number].is_other:
                start, file = session.session.get_profiling_start_time_ns() / 1e3, session.end_profile()
                of_part: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"), strict=False)
                events += [{**e, "ts": e["ts"] + start} for e in of_part if e.get("cat") == "Node"]
                file.unlink()
        first = min((e["ts"] for e in events), default=0.0)
        path = Path(f"{self._config.profile_prefix}.json")
        path.write_text(json.dumps([{**e, "ts": e["ts"] - first} for e in events]), encoding="utf-8")
        return path

    def _require_declared(self, name: str, value: Any, node: onnx.NodeProto) -> None:
        """Raise EvaluationError for a tensor whose type differs from the model's declaration."""
        wanted = self._declared.get(name, onnx.TypeProto()).tensor_type.elem_type
        if wanted and isinstance(value, np.ndarray) and (found := element_type(cast("Array", value))) != wanted:
            names = [onnx.TensorProto.DataType.Name(t).lower() for t in (found, wanted)]
            raise EvaluationError(f"{node.domain}.{node.op_type} gave {names[0]} for {name}, declared as {names[1]}")


class _ControlFlow:
    """An If, Loop or Scan of a session, run by its meaning; `sessions` of its bodies are created when needed."""

    def __init__(self, around: KernelSession, node: onnx.NodeProto) -> None:
        self._around, self._node = around, node
        self._attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        results = (o.name for graph in subgraphs(node) for o in graph.output)
        self._constants = around.constants(dict.fromkeys((*filter(None, node.input), *results)))
        self.sessions = dict[tuple[Hashable, ...], KernelSession]()

    def run(self, outputs: Sequence[str], values: Mapping[str, Any]) -> list[Any]:
        """The named outputs, computed from what the node and its bodies read."""
        found = {**self._constants, **values}

        def run_body(graph: onnx.GraphProto, given: Sequence[Any]) -> list[Any]:
            own = (np.asarray(v) if hasattr(v, "ndim") else v for v in given)  # an element of a vector is not an array
            feeds: dict[str, Any] = found | {i.name: v for i, v in zip(graph.input, own, strict=True)}
            key = id(graph), *((name, kind_of(v)) for name, v in feeds.items())
            if (session := self.sessions.get(key)) is None:
                session = self.sessions[key] = self._around.body(graph, feeds)
            return session.run([o.name for o in graph.output], feeds)

        call = OperatorCall(self._node, self._around.version, self._attributes, (), run_body)
        results = OPERATORS[self._node.op_type].run(call, *(found[n] if n else None for n in self._node.input))
        return [value for name, value in zip(self._node.output, results, strict=False) if name in outputs]


def _is_control_flow(node: onnx.NodeProto, version: int) -> bool:
    """Whether a node is an If, Loop or Scan that has a meaning at the model's opset."""
    is_known = node.op_type in CONTROL_FLOW and not canonical_domain(node.domain)
    return is_known and OPERATORS[node.op_type].meaning(version) is not None


def _with_callers(model: onnx.ModelProto, kernels: set[Operator]) -> set[Operator]:
    """The kernels, and the local functions that call one of them directly or indirectly."""
    calling = {(canonical_domain(f.domain), f.name): _used(f.node) for f in model.functions}
    found, more = kernels, kernels
    while more:
        more = {key for key, used in calling.items() if key not in found and not used.isdisjoint(found)}
        found = found | more
    return found
