"""The engine that runs supported parts of a model in OpenVINO, and the rest in onnxruntime."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace as replace_part
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, cast

import onnx
from msgspec.structs import replace
from onnx import helper

from ..errors import EvaluationError
from ..io.files import split_model
from ..io.split_models import SplitModel
from ..ir.op_schemas import canonical_domain
from ..ir.tensor import Tensor
from ..operators.effects import is_nondeterministic
from ..processes.onnx_calls import infer_shapes
from ..serialization.proto_queries import all_nodes, copy_without, has_subgraphs, opset_versions, read_names
from .engines import ONNXRUNTIME, SPLIT, Engine, EngineSession, EngineSettings, OpTime, ValueFacts, find_engine
from .openvino_engine import ELEMENT_TYPES, onnx_type
from .parted_session import DividedModel, Part, PartedSession, kind_of, type_of
from .session_source import whole_model

MOST_REGIONS = 4  # in OpenVINO; each costs calls and copies of values
IN_MESSAGE = 1 << 24  # bytes of weights in a part given as one message; files are mapped instead of copied
WORK = frozenset({
    "Attention", "Conv", "ConvInteger", "ConvTranspose", "DeformConv", "Einsum", "GRU", "Gemm", "LSTM", "MatMul",
    "MatMulInteger", "MatMulNBits", "QLinearConv", "QLinearMatMul", "RNN",
})  # fmt: skip
"""The operators that make it worthwhile to run a region in OpenVINO."""
OPENVINO, ORT = find_engine("openvino"), find_engine(ONNXRUNTIME)


def load(model: bytes | Path, settings: EngineSettings) -> EngineSession:
    """Load the parts of a model; if OpenVINO supports all of it, load it into OpenVINO. Raises EvaluationError."""
    found = division(model)
    return OPENVINO.load(model, settings) if found is None else SplitSession(*found, settings)


class Division(NamedTuple):
    """A divided model, its parts for OpenVINO, its large weights by name, and the types of its values."""

    model: DividedModel
    parts: Sequence[Part]
    tensors: Mapping[str, Tensor]
    types: Mapping[str, onnx.TypeProto]


def division(model: bytes | Path) -> Division | None:
    """Divide a model; None if OpenVINO supports all ops.

    Raises EvaluationError if no part is worth running in OpenVINO.
    """
    split, lacking = split_model(model), {u.place for u in OPENVINO.unsupported(model)}
    message, tensors = split.message, dict(split.tensors)
    for proto in message.graph.initializer:
        if proto.name in {o.name for o in message.graph.output} and proto.name in tensors:
            proto.CopyFrom(tensors.pop(proto.name).to_proto(proto.name))
    types, versions = _types(message, tensors), opset_versions(message)

    def is_lacking(node: onnx.NodeProto) -> bool:
        made = {name for n in all_nodes([node]) for name in n.output if name}
        return not lacking.isdisjoint(made) or not all(
            _is_exchanged(types[name]) for name in (*read_names(node), *node.output) if name in types
        )

    def is_constant(node: onnx.NodeProto) -> bool:
        domain = canonical_domain(node.domain)
        if domain or node.op_type in {"Constant", "Dropout"}:
            return not domain and node.op_type == "Constant"
        is_random = is_nondeterministic(node.op_type, domain, versions.get(domain, 0))
        return not (is_random or has_subgraphs(node) or is_lacking(node))

    others = {name for node in message.graph.node if is_lacking(node) for name in node.output if name}
    if not others:
        return None
    divided = DividedModel(message, is_constant)
    while True:
        parts = divided.parts(lambda node: not others.isdisjoint(node.output))
        regions = sorted((part for part in parts if not part.is_other), key=_work)
        if not regions:
            raise EvaluationError(f"OpenVINO supports no part with a product or convolution; use {ONNXRUNTIME}")
        if _work(regions[0]) and len(regions) <= MOST_REGIONS:
            return Division(divided, parts, tensors, types)
        others.update(name for node in regions[0].nodes for name in node.output if name)


def _work(part: Part) -> int:
    return sum(node.op_type in WORK for node in all_nodes(part.nodes))


def _is_exchanged(kind: onnx.TypeProto) -> bool:
    """Whether OpenVINO can exchange values of a type."""
    if kind.WhichOneof("value") != "tensor_type":
        return not kind.WhichOneof("value")
    name = onnx.TensorProto.DataType.Name(kind.tensor_type.elem_type).lower()
    return name != "string" and name in {*ELEMENT_TYPES.values(), "undefined"}


def _types(model: onnx.ModelProto, tensors: Collection[str]) -> dict[str, onnx.TypeProto]:
    """The types of inputs, and of node outputs where they can be inferred; `tensors` have no elements."""
    graph = copy_without(model.graph, "initializer", "sparse_initializer", "value_info", "output")
    given = {i.name for i in graph.input}
    for t in model.graph.initializer:
        if t.name not in tensors:
            graph.initializer.append(t)
        elif t.name not in given:
            graph.input.append(helper.make_tensor_value_info(t.name, t.data_type, t.dims))
    light = copy_without(model, "graph")
    light.graph.CopyFrom(graph)
    return {v.name: v.type for v in (*graph.input, *infer_shapes(light).graph.value_info)}


class SplitSession(PartedSession):
    """A session for each part, loaded in the first run if the ranks of its inputs are unknown before."""

    def __init__(
        self,
        model: DividedModel,
        parts: Sequence[Part],
        tensors: Mapping[str, Tensor],
        types: Mapping[str, onnx.TypeProto],
        settings: EngineSettings,
    ) -> None:
        super().__init__(model, parts)
        self._model: DividedModel | None = model
        self._settings, self._sessions = settings, dict[tuple[Hashable, ...], EngineSession]()
        self._tensors, self._types = dict(tensors), dict(types)
        graph, self._seconds = model.message.graph, [0.0] * len(parts)
        self._last = dict[int, EngineSession]()
        self._nodes = [tuple(n.name or n.output[0] for n in part.nodes) for part in parts]
        self._where, self._precisions = _where(parts), set[str]()
        self.precision = f"{settings.precision}: {self._where}"  # until a part is loaded in OpenVINO
        known = {i.name: i.type for i in graph.input if i.name not in model.initializers}
        self._given, facts = list[list[str]](), {i.name: ValueFacts(i.name, *_facts(i.type)) for i in graph.input}
        inputs = list(known)
        for number, part in enumerate(parts):
            self._given.append([name for name in part.reads if name in known])
            own = {name: known[name] for name in self._given[-1]}
            if all(_is_known(kind, is_ranked=not part.is_other) for kind in own.values()):
                session = self._load((number,), own)
                facts |= {v.name: v for v in (*session.inputs, *session.outputs)}
            known |= {name: _type_of(types.get(name), facts.get(name)) for name in part.makes}
        self.inputs = [facts[name] for name in inputs]
        self.outputs = [facts.get(o.name, ValueFacts(o.name, *_facts(o.type))) for o in graph.output]
        if len(self._sessions) == len(parts):
            self._model = None
            self._tensors.clear()
            self._types.clear()
            self._parts = [replace_part(part, nodes=()) for part in parts]

    def _load(self, key: tuple[Hashable, ...], types: Mapping[str, onnx.TypeProto]) -> EngineSession:
        assert self._model is not None
        part, settings = self._parts[cast("int", key[0])], self._settings
        engine, chosen = (ORT, EngineSettings(threads=settings.threads)) if part.is_other else (OPENVINO, settings)
        message = self._model.part_model(part, types)
        own = {t.name: self._tensors[t.name] for t in message.graph.initializer if t.name in self._tensors}
        with ExitStack() as exits:
            source = whole_model(SplitModel(message, own), None, exits, IN_MESSAGE)
            session = self._sessions[key] = engine.load(source, chosen)
        self.threads = max(self.threads, session.threads)
        if not part.is_other:
            self._precisions.add(session.precision)
            self.precision = f"{min(self._precisions)}: {self._where}"
        return session

    def run(self, outputs: Sequence[str] | None, feeds: Mapping[str, Any]) -> list[Any]:
        """Run once. Raises the errors of both engines."""
        for name in feeds.keys() - {v.name for v in self.inputs}:
            raise EvaluationError(f"it treats {name} as a constant, so its default cannot be overridden")
        return super().run(outputs, feeds)

    def _run_part(self, number: int, part: Part, values: Mapping[str, Any]) -> list[Any]:
        given = {name: values[name] for name in self._given[number]}
        begin, session = perf_counter(), self._sessions.get((number,))
        if session is None:
            key = number, *map(kind_of, given.values())
            session = self._sessions.get(key) or self._load(
                key, {name: type_of(name, value, self._types.get(name)) for name, value in given.items()}
            )
        self._last[number] = session
        found = session.run(part.makes, given)
        self._seconds[number] = perf_counter() - begin
        return found

    def _engine_sessions(self) -> list[EngineSession]:
        return [*self._sessions.values()]

    def op_times(self) -> list[OpTime]:
        """The times of OpenVINO's ops and of the parts in onnxruntime."""
        found = list[OpTime]()
        for number, part in enumerate(self._parts):
            place = f"part {number + 1}"
            if part.is_other:
                found.append(OpTime(place, "part", ONNXRUNTIME, self._seconds[number], self._nodes[number]))
            else:
                times = self._last[number].op_times()
                found += [replace(t, name=f"{place}: {t.name}") for t in times]
        return found


def _where(parts: Sequence[Part]) -> str:
    """The ops that each engine runs: `212 ops; onnxruntime 1.31.1: 3 ops of ai.onnx.ml`."""
    counts = [sum(len(p.nodes) for p in parts if p.is_other == kind) for kind in (False, True)]
    ours, others = (f"{n} op{'s' * (n != 1)}" for n in counts)
    rest = {canonical_domain(n.domain) or "ai.onnx" for p in parts if p.is_other for n in p.nodes}
    return f"{ours}; {ONNXRUNTIME} {ORT.version()}: {others} of {', '.join(sorted(rest))}"


def _is_known(kind: onnx.TypeProto, *, is_ranked: bool) -> bool:
    return kind.WhichOneof("value") is not None and (kind.tensor_type.HasField("shape") or not is_ranked)


def _type_of(inferred: onnx.TypeProto | None, made: ValueFacts | None) -> onnx.TypeProto:
    """The type of a value, inferred or reported by the session that produces it; empty if unknown."""
    if inferred is not None and _is_known(inferred, is_ranked=inferred.HasField("tensor_type")):
        return inferred
    if made is None or not made.type.startswith("tensor("):
        return inferred or onnx.TypeProto()
    return helper.make_tensor_type_proto(onnx_type(made.type[7:-1]), made.shape or None)


def _facts(kind: onnx.TypeProto) -> tuple[str, tuple[int | str | None, ...]]:
    """The type of a tensor in onnxruntime's notation, and its shape."""
    tensor = kind.tensor_type
    dims = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim)
    return f"tensor({onnx.TensorProto.DataType.Name(tensor.elem_type).lower()})", dims


ENGINE = Engine(
    SPLIT,
    load,
    version=lambda: f"{OPENVINO.version()}+{ORT.version()}",
    precisions=tuple(p for p in OPENVINO.precisions if p not in OPENVINO.weight_schemes),
    devices=OPENVINO.devices,
    install=OPENVINO.install,
)
