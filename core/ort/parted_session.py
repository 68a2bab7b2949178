"""Models divided into parts of two kinds, each of which is a separate model, and sessions that run them in turn."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ..errors import EvaluationError
from ..serialization.proto_queries import needed_nodes, read_names
from .engines import EngineSession
from .ort_values import Array

NodeTest = Callable[[onnx.NodeProto], bool]


@dataclass(frozen=True)
class Part:
    """Nodes that run together: the values that they read from outside, and those that they produce for others."""

    nodes: Sequence[onnx.NodeProto]
    is_other: bool
    reads: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()


class DividedModel:
    """A model divided into parts. Constant nodes are part of each part that needs them.

    `is_constant` says whether a node returns the same in each run if its inputs are the same.
    """

    def __init__(self, model: onnx.ModelProto, is_constant: NodeTest) -> None:
        graph = model.graph
        self.message, self.outputs = model, [o.name for o in graph.output]
        self.initializers: dict[str, onnx.TensorProto | onnx.SparseTensorProto] = {t.name: t for t in graph.initializer}
        self.initializers |= {s.values.name: s for s in graph.sparse_initializer}
        known = self.initializers.keys() - {i.name for i in graph.input}
        self.constants = list[onnx.NodeProto]()
        self.nodes = list[onnx.NodeProto]()
        for node in needed_nodes(graph.node, self.outputs):
            if is_here := is_constant(node) and known.issuperset(read_names(node)):
                known.update(node.output)
                self.constants.append(node)
            if not is_here or not {*node.output}.isdisjoint(self.outputs):
                self.nodes.append(node)

    def parts(self, is_other: NodeTest, *, alone: bool = False) -> list[Part]:
        """The parts in order, alternating between the two kinds; each node is in the first possible part.

        `alone`: each node of the other kind is a separate part.
        """
        stages, levels = list[list[onnx.NodeProto]](), dict[str, int]()
        for node in self.nodes:
            stage = max((levels.get(name, 0) for name in read_names(node)), default=0)
            stage += (stage % 2 == 1) != is_other(node)
            stages += [[] for _ in range(stage + 1 - len(stages))]
            stages[stage].append(node)
            levels |= dict.fromkeys(node.output, stage)
        parts = list[Part]()
        for number, nodes in enumerate(stages):
            own = number % 2 == 1
            parts += [Part(group, own) for group in ([[n] for n in nodes] if own and alone else [nodes]) if group]
        found = list[Part]()
        for part in parts:
            made = dict.fromkeys(name for node in part.nodes for name in node.output if name)
            reads = tuple(dict.fromkeys(n for node in part.nodes for n in read_names(node) if n not in made))
            found.append(replace(part, reads=reads, makes=tuple(made)))
        read = {*self.outputs}.union(*(part.reads for part in found))
        return [replace(part, makes=tuple(name for name in part.makes if name in read)) for part in found]

    def part_model(self, part: Part, types: Mapping[str, onnx.TypeProto | None]) -> onnx.ModelProto:
        """The model of a part, with the initializers and constants that it reads; `types` are its inputs' types."""
        model = onnx.ModelProto(ir_version=self.message.ir_version)
        model.opset_import.extend(self.message.opset_import)
        model.functions.extend(self.message.functions)
        model.graph.name = "part"
        constants = [node for node in self.constants if types.keys().isdisjoint(node.output)]
        nodes = needed_nodes([*constants, *part.nodes], part.makes)
        model.graph.input.extend(onnx.ValueInfoProto(name=n, type=types[n]) for n in part.reads if n in types)
        for name in dict.fromkeys(name for node in nodes for name in read_names(node) if name not in types):
            tensor = self.initializers.get(name)
            if isinstance(tensor, onnx.TensorProto):
                model.graph.initializer.append(tensor)
            elif tensor is not None:
                model.graph.sparse_initializer.append(tensor)
        model.graph.node.extend(nodes)
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in part.makes)
        return model


class PartedSession(EngineSession):
    """A session that runs the parts of a model, and passes their values on."""

    def __init__(self, model: DividedModel, parts: Sequence[Part]) -> None:
        self._parts, self._names, self._is_cancelled = parts, model.outputs, False
        own = {name: model.initializers[name] for name in model.outputs if name in model.initializers}
        self._constant_outputs = {
            name: numpy_helper.to_array(tensor) for name, tensor in own.items() if isinstance(tensor, onnx.TensorProto)
        }

    def run(self, outputs: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """Run the model once."""
        values, self._is_cancelled = dict(feeds), False
        for number, part in enumerate(self._parts):
            if self._is_cancelled:
                raise EvaluationError("it was terminated")
            values |= zip(part.makes, self._run_part(number, part, values), strict=True)
        names = self._names if outputs is None else outputs
        found = {**self._constant_outputs, **values}
        if missing := next((name for name in names if name not in found), None):
            raise EvaluationError(f"{missing} is a sparse initializer, which cannot be an output")
        return [found[name] for name in names]

    def cancel(self) -> None:
        """End the run after the current part, and make its session end early."""
        self._is_cancelled = True
        for session in self._engine_sessions():
            session.cancel()

    @abstractmethod
    def _run_part(self, number: int, part: Part, values: Mapping[str, Any]) -> list[Any]:
        """The values that a part computes from the current values."""

    @abstractmethod
    def _engine_sessions(self) -> Iterable[EngineSession]:
        """The sessions of parts in engines."""


def type_of(name: str, value: Any, declared: onnx.TypeProto | None) -> onnx.TypeProto:
    """The type of a value that a part reads. Raises EvaluationError."""
    if isinstance(value, np.ndarray):
        array = cast("Array", value)
        return helper.make_tensor_type_proto(element_type(array), [None] * array.ndim)
    if declared is not None and declared.WhichOneof("value"):
        return declared
    first = next(iter(_elements(value)), None)
    if not isinstance(first, np.ndarray):
        raise EvaluationError(f"the type of {name}, which another part produced, is unknown")
    element = element_type(cast("Array", first))
    return helper.make_sequence_type_proto(helper.make_tensor_type_proto(element, None))


def element_type(array: Array) -> int:
    """The element type of an array. Raises EvaluationError."""
    if array.dtype.kind in "OUS":
        return onnx.TensorProto.STRING
    try:
        return helper.np_dtype_to_tensor_dtype(array.dtype)
    except (KeyError, ValueError) as e:
        raise EvaluationError(f"a kernel returned an array of {array.dtype}, which ONNX does not support") from e


def kind_of(value: Any) -> Hashable:
    """A key for the types of values and the ranks of tensors."""
    if isinstance(value, np.ndarray):
        array = cast("Array", value)
        return array.dtype, array.ndim
    return isinstance(value, list), *map(kind_of, _elements(value)[:1])


def _elements(value: Any) -> list[Any]:
    """The elements of a sequence; empty for other values."""
    return cast("list[Any]", value) if isinstance(value, list) else []
