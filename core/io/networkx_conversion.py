"""Lossless conversion between models and editable graphs of networkx."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import onnx

from ..errors import ModelError
from ..ir import op_schemas
from ..ir.graph import Graph
from ..ir.op import Op, attribute_value
from ..ir.tensor import SMALL_TENSOR_BYTES, STRING, Tensor, tensors_equal
from ..ir.values import Value
from ..serialization.exporter import graph_header, rename_shadowed_values, written_initializers
from ..serialization.proto_queries import copy_without
from ..support.suggestions import did_you_mean
from .convert import from_onnx, import_model, opsets_of
from .foreign_models import main_graph_model
from .model import Model, export_header

if TYPE_CHECKING:
    import networkx as nx

OP = "op"
VALUE_KINDS = ("input", "initializer", "value", "outer")
OP_KEYS = ("kind", "name", "op_type", "domain", "attributes", "node", "operands")
VALUE_KEYS = ("kind", "name", "dtype", "shape", "nbytes", "tensor")
BODY = "body"  # the index of the edge from a value to the op whose body reads it by its `name`
BY_REFERENCE = "passwright:tensor"  # the location of a tensor that is passed without its elements


def to_networkx(model: onnx.ModelProto | Model | Graph) -> nx.MultiDiGraph[Any]:
    """Convert a model to an editable graph of networkx; `from_networkx` converts it back without loss.

    Nodes and edges have the data of `Graph.nx`; edges to ops with bodies have the `name` that the bodies read. The key
    of a value is its name, the key of an op its type with its name or first output, and the key of an edge the
    operand's index. A body is also such a graph, in the attributes of its op. `node` of an op is its message in the
    file; `net.graph` has the rest of the file as the messages "graph" and "model". Weights are not copied.

    Examples:
        >>> net = to_networkx(model)
        >>> list(net)
        ['c', 'x', 'Abs a', 'a', 'Relu r', 'r', 'Add y', 'y']
        >>> net.nodes["Add y"]["op_type"], net.nodes["r"]["shape"], net.edges["c", "Add y", 1]
        ('Add', ('N', 4), {'index': 1, 'nbytes': 16})
    """
    whole = from_onnx(model) if isinstance(model, onnx.ModelProto) else model
    whole = main_graph_model(whole) if isinstance(whole, Graph) else whole
    net = _net(whole.graph)
    net.graph["model"] = export_header(whole)
    return net


def _net(graph: Graph) -> nx.MultiDiGraph[Any]:
    import networkx as nx  # noqa: PLC0415 - takes longer to import than a small model to optimize

    if graph.owner is not None:
        rename_shadowed_values(graph)
    view = graph.nx
    net: nx.MultiDiGraph[Any] = nx.MultiDiGraph(graph=graph_header(graph))
    tensors = dict(written_initializers(graph))
    keys = _keys(view, tensors)
    for item, key in keys.items():
        data: dict[str, Any] = dict(view.nodes[item])
        if isinstance(item, Op):
            data["attributes"] = {name: _as_nets(value) for name, value in data["attributes"].items()}
            data.update(_as_in_file(item))
        elif item in tensors:
            data["tensor"] = tensors[item]
        net.add_node(key, **data)
    for u, v, key, data in view.edges(keys=True, data=True):
        net.add_edge(keys[u], keys[v], key, **data, **({"name": u.name} if key == BODY else {}))
    return net


def _keys(view: nx.MultiDiGraph[Op | Value], first: Collection[Value]) -> dict[Op | Value, str]:
    """A key for each node; initializers come first, in file order."""
    items = dict.fromkeys((*first, *view))
    taken = {item.name for item in items if isinstance(item, Value)}
    keys: dict[Op | Value, str] = {}
    repeated = Counter[str]()
    for item in items:
        label = key = item.name if isinstance(item, Value) else item.label
        while isinstance(item, Op) and key in taken:
            repeated[label] += 1
            key = f"{label} #{repeated[label]}"
        taken.add(key)
        keys[item] = key
    return keys


def _as_nets(value: Any) -> Any:
    """An attribute with bodies converted to graphs of networkx."""
    if isinstance(value, Graph):
        return _net(value)
    return [_as_nets(v) for v in cast("list[Any]", value)] if isinstance(value, list) else value


def _as_in_file(op: Op) -> dict[str, Any]:
    """The message of an op that comes from the file, and the number of its operands if the last ones are omitted."""
    found: dict[str, Any] = {} if op.proto_bytes is None else {"node": op.proto_bytes}
    if (op.inputs and op.inputs[-1] is None) or (op.outputs and not op.outputs[-1].name):
        found["operands"] = len(op.inputs), len(op.outputs)
    return found


def from_networkx(net: nx.MultiDiGraph[Any]) -> Model:
    """Convert a graph made by `to_networkx`, edited or not, to a model; independent ops keep their order.

    Keys only serve as names of values without one. The index of an operand is `index` of its edge, or its key. A body
    reads the source of the edge with its `name`. `dtype`, `shape`, `nbytes`, and data whose names begin with an
    underscore are ignored. Raises ModelError for a graph that does not represent a model.

    Examples:
        >>> net = to_networkx(model)
        >>> to_onnx(from_networkx(net)) == model
        True
        >>> net.nodes["Relu r"]["op_type"] = "Neg"
        >>> [node.op_type for node in to_onnx(from_networkx(net)).graph.node]
        ['Abs', 'Neg', 'Add']
    """
    _require_net(net)
    if not isinstance(header := net.graph.get("model"), onnx.ModelProto):
        raise ModelError("net.graph lacks the ModelProto 'model' from to_networkx")
    reader = NetReader(opsets_of(header))
    info, tensors, nodes = reader.read(net)
    return import_model(copy_without(header), info, nodes, tensors, reader.tensor, inline=False)


class NetReader:
    """Reads graphs of networkx into messages; `tensors` are those that messages only refer to."""

    def __init__(self, versions: Mapping[str, int]) -> None:
        self.versions = versions
        self.tensors: list[Tensor] = []

    def tensor(self, proto: onnx.TensorProto) -> Tensor:
        """The tensor in a message, or the one that it refers to."""
        if proto.external_data and proto.external_data[0].value == BY_REFERENCE:
            return self.tensors[int(proto.external_data[1].value)]
        return Tensor.from_proto(proto)

    def read(
        self, net: nx.MultiDiGraph[Any], moved: Mapping[str, str] = MappingProxyType({})
    ) -> tuple[onnx.GraphProto, list[Tensor], list[onnx.NodeProto]]:
        """The message of a graph without nodes and initializers, and separately these two. Raises ModelError.

        `moved` maps the names that a body reads to the names that it should read.
        """
        info = copy_without(_require_net(net))
        for o in info.output:
            o.name = moved.get(o.name, o.name)
        names = _value_names(net, moved)
        given = ((key, d) for key, d in net.nodes(data=True) if d["kind"] in {"input", "initializer"})
        tensors = [_named_tensor(d["tensor"], names[key]) for key, d in given if d.get("tensor") is not None]
        declared, there = {i.name for i in info.input}, set(names.values())
        if (gone := next((o.name for o in info.output if o.name not in there), None)) is not None:
            raise ModelError(f"no node provides output {gone}")
        for key, d in net.nodes(data=True):
            if d["kind"] == "input" and names[key] not in declared:
                raise ModelError(f"input {names[key]} is not declared in net.graph['graph'].input")
        return info, tensors, [self._node(net, key, names) for key in net if key not in names]

    def _node(self, net: nx.MultiDiGraph[Any], key: Any, names: Mapping[Any, str]) -> onnx.NodeProto:
        """The message of an op."""
        data: Mapping[str, Any] = net.nodes[key]
        node = onnx.NodeProto.FromString(data.get("node", b""))
        old = {a.name: a for a in node.attribute}
        counts = data.get("operands", (0, 0))
        inputs = _operands(net, key, [(u, k, d) for u, _, k, d in net.in_edges(key, keys=True, data=True)], names)
        outputs = _operands(net, key, [(v, k, d) for _, v, k, d in net.out_edges(key, keys=True, data=True)], names)
        domain: str = data.get("domain", "")
        if op_schemas.canonical_domain(node.domain) != op_schemas.canonical_domain(domain):
            node.domain = domain
        node.op_type = data["op_type"]
        if data.get("name", node.name) != node.name:
            node.name = data["name"]
        del node.attribute[:]
        schema = op_schemas.schema(node.op_type, op_schemas.canonical_domain(domain), self.versions.get(domain, 0))
        _require_inputs(key, inputs, schema)
        read = [
            (d["name"], names[u]) for u, _, k, d in net.in_edges(key, keys=True, data=True) if k == BODY and "name" in d
        ]
        moved = {before: name for before, name in read if before != name}
        for name, value in data.get("attributes", {}).items():
            node.attribute.append(self._attribute(name, value, old.get(name), key, schema, moved))
        node.input.extend(inputs + [""] * (counts[0] - len(inputs)))
        node.output.extend(outputs + [""] * (counts[1] - len(outputs)))
        return node

    def _attribute(
        self,
        name: str,
        value: Any,
        old: onnx.AttributeProto | None,
        op: Any,
        schema: onnx.defs.OpSchema | None,
        moved: Mapping[str, str],
    ) -> onnx.AttributeProto:
        """An attribute, with its message from the file if that is equal."""
        if isinstance(value, onnx.AttributeProto):
            return value
        is_apart = old is not None and old.type == onnx.AttributeProto.TENSOR and not old.t.data_type
        if old is not None and not is_apart and _is_equal(attribute_value(old), value):
            return old
        rest = ("t", "tensors", "g", "graphs")
        found = copy_without(old, *rest) if old is not None else onnx.AttributeProto(name=name)
        parts = cast("list[Any]", value if isinstance(value, list) else [value])
        if parts and all(isinstance(p, Tensor | np.ndarray) for p in parts):
            messages = [self._reference(_named_tensor(p, getattr(p, "name", ""))) for p in parts]
            return _filled(found, "t", "tensors", messages, is_list=isinstance(value, list))
        if parts and all(hasattr(p, "add_node") for p in parts):
            messages = [self._body(p, moved) for p in parts]
            return _filled(found, "g", "graphs", messages, is_list=isinstance(value, list))
        try:
            made = op_schemas.make_attribute(name, value, schema)
        except (TypeError, ValueError, AttributeError) as e:
            raise ModelError(f"op {op!r}: its attribute {name} cannot be {value!r}") from e
        return made

    def _body(self, net: nx.MultiDiGraph[Any], moved: Mapping[str, str]) -> onnx.GraphProto:
        info, tensors, nodes = self.read(net, moved)
        info.node.extend(nodes)
        info.initializer.extend(map(self._reference, tensors))
        return info

    def _reference(self, tensor: Tensor) -> onnx.TensorProto:
        """The message of a small tensor, or a reference to a large one."""
        if tensor.dtype == STRING or (tensor.nbytes <= SMALL_TENSOR_BYTES and not tensor.is_external):
            return tensor.to_proto(tensor.name)
        proto = onnx.TensorProto(name=tensor.name, data_type=tensor.dtype, dims=tensor.dims)
        proto.data_location = onnx.TensorProto.EXTERNAL
        proto.external_data.add(key="location", value=BY_REFERENCE)
        proto.external_data.add(key="offset", value=str(len(self.tensors)))
        self.tensors.append(tensor)
        return proto


def _require_inputs(op: Any, inputs: list[str], schema: onnx.defs.OpSchema | None) -> None:
    """Raise ModelError if an input that the operator needs is omitted."""
    formal: Sequence[onnx.defs.OpSchema.FormalParameter] = schema.inputs if schema is not None else ()
    for i in (i for i, name in enumerate(inputs) if not name and formal):
        declared = formal[min(i, len(formal) - 1)]
        if declared.option == onnx.defs.OpSchema.FormalParameterOption.Single:
            raise ModelError(f"op {op!r} lacks its operand {i}, {declared.name}")


def _filled(
    a: onnx.AttributeProto, one: str, several: str, messages: list[Any], *, is_list: bool
) -> onnx.AttributeProto:
    """An attribute with one message or a list of them."""
    if is_list:
        getattr(a, several).extend(messages)
    else:
        getattr(a, one).CopyFrom(messages[0])
    kind = {"t": "TENSOR", "g": "GRAPH"}[one] + "S" * is_list
    a.MergeFrom(onnx.AttributeProto(type=kind))
    return a


def _is_equal(old: object, new: object) -> bool:
    pair = old, new
    if isinstance(old, list) and isinstance(new, list):
        before, after = cast("list[object]", old), cast("list[object]", new)
        return len(before) == len(after) and all(map(_is_equal, before, after))
    if isinstance(old, Tensor) and isinstance(new, Tensor):
        return old.name == new.name and not (old.is_external or new.is_external) and tensors_equal(old, new)
    return type(pair[0]) is type(pair[1]) and pair[0] == pair[1]


def _named_tensor(given: Any, name: str) -> Tensor:
    """Convert a tensor or array to a tensor with that name."""
    array: Any = given
    tensor = given if isinstance(given, Tensor) else Tensor.from_array(np.array(array))
    if tensor.name != name:
        tensor = copy(tensor)
        tensor.name = name
    return tensor


def _value_names(net: nx.MultiDiGraph[Any], moved: Mapping[str, str]) -> dict[Any, str]:
    """The names of the values by key, replaced in a body by `moved`. Raises ModelError for invalid nodes or names."""
    names: dict[Any, str] = {}
    known: dict[str, Any] = {}
    sparse = {t.values.name for t in net.graph["graph"].sparse_initializer}
    for key, data in net.nodes(data=True):
        kind = data.get("kind")
        if kind not in {OP, *VALUE_KINDS}:
            raise ModelError(f"node {key!r} has the kind {kind!r}, not one of {', '.join((OP, *VALUE_KINDS))}")
        allowed = OP_KEYS if kind == OP else VALUE_KEYS
        if (unknown := next((d for d in data if d not in allowed and not str(d).startswith("_")), None)) is not None:
            hint = did_you_mean(str(unknown), allowed) or "; names of your own begin with an underscore"
            raise ModelError(f"node {key!r} has data {unknown!r}, which no {kind} has{hint}")
        if kind == OP:
            if not isinstance(data.get("op_type"), str):
                raise ModelError(f"op {key!r} has no op_type")
            continue
        name = data.get("name", key)
        if not isinstance(name, str) or not name:
            raise ModelError(f"value {key!r} needs a name, because its key is not a string")
        name = moved.get(name, name) if kind == "outer" else name
        other = known.setdefault(name, key)
        if other != key and not kind == net.nodes[other]["kind"] == "outer":
            raise ModelError(f"two values are named {name}: nodes {other!r} and {key!r}")
        if kind == "initializer" and data.get("tensor") is None and name not in sparse:
            raise ModelError(f"initializer {name} has no tensor")
        names[key] = name
    wrong = next(((u, v) for u, v in net.edges() if (u in names) == (v in names)), None)
    if wrong is not None:
        raise ModelError(f"the edge from {wrong[0]!r} to {wrong[1]!r} is invalid: edges connect ops and values")
    return names


def _require_net(net: Any) -> onnx.GraphProto:
    import networkx as nx  # noqa: PLC0415 - as above

    if not isinstance(net, nx.MultiDiGraph):
        raise ModelError(f"a networkx.MultiDiGraph is needed, not {type(net).__name__}")
    info = cast("nx.MultiDiGraph[Any]", net).graph.get("graph")
    if not isinstance(info, onnx.GraphProto):
        raise ModelError("net.graph lacks the GraphProto 'graph' from to_networkx")
    return info


def _operands(
    net: nx.MultiDiGraph[Any], op: Any, edges: list[tuple[Any, Any, Mapping[str, Any]]], names: Mapping[Any, str]
) -> list[str]:
    """The names of an op's inputs or outputs in order; "" for omitted ones. Raises ModelError."""
    found: dict[int, str] = {}
    for value, key, data in edges:
        index = data.get("index", key)
        if index == BODY:
            continue  # it is determined by the body
        if not isinstance(index, int) or index < 0:
            raise ModelError(f"the edge between {value!r} and {op!r} has the invalid operand index {index!r}")
        if index in found:
            raise ModelError(f"op {op!r} has two operands with index {index}: {found[index]} and {names[value]}")
        found[index] = names[value]
    return [found.get(i, "") for i in range(max(found, default=-1) + 1)]
