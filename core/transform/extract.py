"""Reduction of a model to the part between some of its values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import chain

import onnx

from ..errors import ModelError
from ..inference import forget_inferred_types
from ..io.convert import training_info_names
from ..io.model import Model, serialize
from ..ir.graph import Graph, constant_bytes, defined_values
from ..ir.op import Op
from ..ir.tensor import SMALL_TENSOR_BYTES, Tensor
from ..ir.values import Value, inferred_type_proto
from ..processes.onnx_calls import infer_shapes
from ..serialization.importer import declare_input
from ..support.suggestions import did_you_mean


def keep_outputs(model: Model, names: Sequence[str]) -> int:
    """Make the named values of the main graph its outputs, in that order, and remove the ops that none of them needs.

    Inputs do not change. Returns the number of outputs that are added or removed; 1 if only the order changes.

    Raises ModelError for a name that is unknown or repeated, or a value of unknown type.
    """
    graph = model.graph
    if not names:
        raise ModelError("no outputs are named, such as keep-outputs{names=a:b}")
    wanted = _values_named(graph, names, "output")
    infos = _infos(model, wanted, "output")
    old = graph.outputs
    changes = len(set(old) ^ set(wanted)) or int(list(old) != wanted)
    known = {v for v, _ in graph.declared.value_infos}
    former = zip(graph.outputs, graph.declared.outputs, strict=True)
    graph.declared.value_infos += [(v, info) for v, info in former if v not in known and v not in graph.inputs]
    graph.outputs = wanted
    graph.declared.outputs[:] = infos
    _keep_only(graph, _required_ops(graph, wanted), training_info_names(model.header))
    graph.context.weight_bytes = constant_bytes(graph)
    return changes


def cut_inputs(model: Model, names: Sequence[str]) -> int:
    """Make the named values of the main graph its first inputs, in that order, and remove the ops that computed them.

    Inputs that the outputs still need follow; inputs that only removed ops read are removed. Returns the number of
    inputs that are added or removed; 1 if only the order changes. Raises ModelError for a name that is unknown or
    repeated, a sparse constant, or a value of unknown type.
    """
    graph = model.graph
    if not names:
        raise ModelError("no inputs are named, such as cut-inputs{names=a:b}")
    wanted = _values_named(graph, names, "input")
    infos = _input_infos(model, wanted)
    former, read = graph.inputs, {v for v in graph.inputs if not graph.is_unused(v)}
    for v, info in zip(wanted, infos, strict=True):
        if v not in former:
            graph.make_input(v)
            declare_input(v, onnx.ValueInfoProto.FromString(info).type, graph.context)
    rest = [v for v in former if v not in wanted]
    declared = {**dict(graph.declared.inputs), **{v: i for v, i in zip(wanted, infos, strict=True) if v not in former}}
    graph.inputs = [*wanted, *rest]
    graph.declared.inputs[:] = [*((v, declared.pop(v)) for v in wanted), *declared.items()]
    graph.declared.value_infos[:] = [(v, info) for v, info in graph.declared.value_infos if v not in wanted]
    forget_inferred_types(graph)
    _keep_only(graph, _required_ops(graph, graph.outputs), training_info_names(model.header))
    _drop_inputs(graph, {v for v in rest if v in read and graph.is_unused(v)})
    graph.context.weight_bytes = constant_bytes(graph)
    return len(set(former) ^ set(graph.inputs)) or int(former != graph.inputs)


def drop_unused_inputs(model: Model) -> int:
    """Remove the inputs that nothing reads, including overridable ones, after the ops that no output needs.

    Returns the number of inputs.
    """
    graph = model.graph
    graph.prune(reversed(graph.sorted_ops()))
    unused = unused_inputs(graph)
    _drop_inputs(graph, unused)
    return len(unused)


def unused_inputs(graph: Graph) -> set[Value]:
    """The inputs that nothing reads."""
    return {v for v in graph.inputs if graph.is_unused(v)}


def _drop_inputs(graph: Graph, unused: set[Value]) -> None:
    for v in unused:
        graph.input_defaults.pop(v, None)
        graph.sparse_initializers.pop(v, None)
    graph.inputs = [v for v in graph.inputs if v not in unused]
    _drop_declarations(graph, unused)
    graph.mark_changed()


def require_known(name: str, known: Collection[str], what: str) -> None:
    """Raise ModelError, with similar names, unless the model has an input, initializer or other value of that name."""
    if name not in known:
        raise ModelError(f"the model has no {what} named '{name}'{did_you_mean(name, known)}")


def _values_named(graph: Graph, names: Sequence[str], what: str) -> list[Value]:
    known = {v.name: v for v in defined_values(graph) if v.name}
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ModelError(f"{what} {name} is named twice")
        if name not in known:
            inner = any(v.name == name for g in graph.with_subgraphs() if g is not graph for v in defined_values(g))
            if inner:
                raise ModelError(f"{name} is inside a subgraph; only values of the main graph can be {what}s")
        require_known(name, known, "value")
    return [known[name] for name in names]


def _input_infos(model: Model, wanted: Sequence[Value]) -> list[bytes]:
    """The declarations of values as inputs, which must state their rank. Raises ModelError."""
    graph = model.graph
    for v in wanted:
        if v in graph.sparse_initializers and v not in graph.inputs:
            raise ModelError(f"{v.name} is a sparse constant, which no input can replace")
    infos = _infos(model, wanted, "input")
    for v, info in zip(wanted, infos, strict=True):
        declared = onnx.ValueInfoProto.FromString(info).type
        if declared.HasField("tensor_type") and not declared.tensor_type.HasField("shape"):
            raise ModelError(f"{v.name} cannot be an input: its rank is unknown")
    return infos


def _infos(model: Model, wanted: Sequence[Value], what: str) -> list[bytes]:
    """The declarations of new inputs or outputs: from the file if it has any, completed with the type."""
    graph = model.graph
    stated = {v: info for v, info in graph.declared.value_infos if v is not None}
    stated.update(graph.declared.inputs)
    stated.update(zip(graph.outputs, graph.declared.outputs, strict=True))
    infos = [onnx.ValueInfoProto.FromString(stated.get(v, b"")) for v in wanted]
    for value, info in zip(wanted, infos, strict=True):
        info.name = value.name
        if not info.type.WhichOneof("value"):
            proto = inferred_type_proto(value)
            if proto is None:
                raise ModelError(f"{value.name} cannot be an {what}: its type is unknown")
            info.type.CopyFrom(proto)
    # Outputs must state their rank (ONNX IR, Static tensor shapes); where none is known, ONNX may infer it.
    unranked = {i.name: i for i in infos if i.type.HasField("tensor_type") and not i.type.tensor_type.HasField("shape")}
    whole = serialize(model, _chunks_without_large_data).to_proto() if unranked else onnx.ModelProto()
    for found in infer_shapes(whole).graph.value_info if unranked else ():
        if found.name in unranked and found.type.tensor_type.HasField("shape"):
            unranked[found.name].type.tensor_type.shape.CopyFrom(found.type.tensor_type.shape)
    return [info.SerializeToString(deterministic=True) for info in infos]


def _chunks_without_large_data(tensor: Tensor, name: str) -> Iterator[bytes]:
    """A tensor for shape inference; a large one without its elements."""
    proto = tensor.to_proto(name) if tensor.nbytes <= SMALL_TENSOR_BYTES else tensor.proto_without_elements(name)
    yield proto.SerializeToString(deterministic=True)


def _required_ops(graph: Graph, wanted: Sequence[Value]) -> set[Op]:
    """The ops that some values depend on, and the producers of values that their quantization annotations name.

    O(V + E) for each step in a chain of annotations.
    """
    import networkx as nx  # noqa: PLC0415 - takes longer to import than a small model to optimize

    upstream = graph.nx.reverse(copy=False)
    named = {v.name: v for v in graph.pinned if v in upstream}
    sources = set(wanted)
    while True:
        needed = {n for n in chain.from_iterable(nx.bfs_layers(upstream, sources)) if isinstance(n, Op)}
        made = {v.name for op in needed for v in op.outputs}
        notes = (n for n in graph.declared.header.quantization_annotation if n.tensor_name in made)
        parameters = {named[p.value] for n in notes for p in n.quant_parameter_tensor_names if p.value in named}
        if parameters <= sources:
            return needed
        sources |= parameters


def _keep_only(graph: Graph, needed: set[Op], training_names: set[str]) -> None:
    """Remove all other ops, and then the constants and annotations that are no longer needed."""
    pinned, graph.pinned = graph.pinned, set()
    for op in reversed(graph.sorted_ops()):
        if op not in needed:
            graph.remove_op(op)
    there = {v.name: v for v in defined_values(graph) if v.producer is not None or v.consumers or graph.is_output(v)}
    there.update((v.name, v) for v in graph.inputs)
    header = graph.declared.header
    notes = [n for n in header.quantization_annotation if n.tensor_name in there]
    noted = {p.value for n in notes for p in n.quant_parameter_tensor_names} | {n.tensor_name for n in notes}
    del header.quantization_annotation[:]
    header.quantization_annotation.extend(notes)
    graph.pinned = {v for v in pinned if v.name in noted or v.name in training_names}
    unused = {
        v for v in (*graph.initializers, *graph.sparse_initializers) if graph.is_unused(v) and v not in graph.inputs
    }
    for v in unused:
        graph.initializers.pop(v, None)
        graph.sparse_initializers.pop(v, None)
    _drop_declarations(graph, unused)
    graph.mark_changed()


def _drop_declarations(graph: Graph, removed: set[Value]) -> None:
    """Remove the declarations of removed values, and duplicate declarations of outputs."""
    declared, here = graph.declared, set(defined_values(graph))
    declared.inputs[:] = [(v, info) for v, info in declared.inputs if v not in removed]
    declared.initializers[:] = [v for v in declared.initializers if v not in removed]
    declared.value_infos[:] = [
        (v, info) for v, info in declared.value_infos if v is not None and v in here and not graph.is_output(v)
    ]
