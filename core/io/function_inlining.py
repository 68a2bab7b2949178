"""Inlining of local functions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

import onnx
from msgspec import Struct

from ..errors import ModelError
from ..ir import op_schemas
from ..ir.tensor import Tensor, first_line
from ..processes.onnx_calls import OnnxError, inline_model_functions
from ..processes.watchdog import require_time
from ..serialization.proto_queries import all_nodes, copy_without, opset_versions, subgraphs

MAX_INLINED_NODES = 100_000  # that inlining makes, with those in subgraphs,
MAX_INLINED_BYTES = 100_000_000  # and their size, without the weights of the model;
MAX_INLINING_GROWTH = 100  # more if they are at most this number of times those of the file
MAX_COUNT = 10**18  # beyond it nothing is counted, so that numbers stay short


def inline_functions(
    header: onnx.ModelProto, info: onnx.GraphProto, nodes: Iterable[onnx.NodeProto], initializers: Sequence[Tensor]
) -> tuple[onnx.ModelProto, Iterator[onnx.NodeProto]]:
    """The header and the nodes with each call replaced by its body, except calls that cannot be inlined."""
    skeleton = onnx.ModelProto()
    skeleton.CopyFrom(header)
    skeleton.graph.CopyFrom(info)
    skeleton.graph.node.extend(nodes)
    skeleton.graph.initializer.extend(t.proto_without_elements(t.name) for t in initializers)
    flat = with_inlined_functions(skeleton)
    kept = copy_without(header, "functions", "opset_import")
    kept.functions.extend(flat.functions)
    kept.opset_import.extend(flat.opset_import)
    return kept, iter(flat.graph.node)


def with_inlined_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with each call replaced by its body, except of functions that are kept.

    A function is kept if ONNX defines it as an operator, if an operator in its body means something else at the opset
    of the model, or if another kept function calls it. Default attributes and the opsets of the model are written into
    the functions of `model`. Raises ModelError if a function calls itself, or if the result would be too large.
    """
    require_moderate_growth(model)
    _write_default_attributes(model)
    kept = [(f.domain, f.name) for f in _kept_functions(model)]
    imported = {_key(f): {e.domain: e.version for e in f.opset_import} for f in model.functions}
    versions = opset_versions(model)
    for f in model.functions:  # the inliner refuses other versions, even in functions that it keeps
        _import_opsets(f, {d: versions.get(op_schemas.canonical_domain(d), v) for d, v in imported[_key(f)].items()})
    try:
        flat = inline_model_functions(model, kept)
    except OnnxError as e:
        raise ModelError(f"its local functions cannot be inlined: {first_line(e)}") from e
    for f in flat.functions:
        _import_opsets(f, imported[_key(f)])
    return flat


def _import_opsets(function: onnx.FunctionProto, versions: Mapping[str, int]) -> None:
    for entry in function.opset_import:
        entry.version = versions[entry.domain]


def _kept_functions(model: onnx.ModelProto) -> list[onnx.FunctionProto]:
    """The functions of a model that are not inlined."""
    functions, versions = {_key(f): f for f in model.functions}, opset_versions(model)
    kept = {key: f for key, f in functions.items() if not _is_inlinable(f, versions, functions)}
    queue = list(kept.values())
    for f in queue:
        called = {k: functions[k] for k in map(_called, all_nodes(f.node)) if k in functions and k not in kept}
        kept |= called
        queue += called.values()
    return list(kept.values())


def _is_inlinable(function: onnx.FunctionProto, versions: Mapping[str, int], functions: Container[FunctionKey]) -> bool:
    """Whether a function is no operator of ONNX, and each operator in its body means the same at opsets `versions`.

    Where ONNX defines an operator, onnxruntime runs its own kernel, not the function.
    """
    domain, name, _ = _key(function)
    if op_schemas.schema(name, domain, versions.get(domain, 0)) is not None:
        return False
    others = {d: v for d, v in opset_versions(function).items() if versions.get(d, v) != v}
    used = (_called(node) for node in all_nodes(function.node) if others)
    return all(
        key in functions or op_schemas.is_same_operator(key[1], key[0], others[key[0]], versions[key[0]])
        for key in used
        if key[0] in others
    )


def _write_default_attributes(model: onnx.ModelProto) -> None:
    """Write the default attributes of each call, which the inliner would lose."""
    functions = {(f.domain, f.name, f.overload): f for f in model.functions if f.attribute_proto}
    if not functions:
        return
    for node in all_nodes((*model.graph.node, *(node for f in model.functions for node in f.node))):
        given = {a.name for a in node.attribute}
        called = functions.get((node.domain, node.op_type, node.overload))
        if called is not None:
            node.attribute.extend(a for a in called.attribute_proto if a.name not in given)


def require_moderate_growth(model: onnx.ModelProto) -> None:
    """Raise ModelError if the model with its functions inlined would be too large. O(nodes of the model)."""
    functions = {_key(f): f for f in model.functions}
    sizes: dict[FunctionKey, InlinedSize] = {}
    for key in _callees_first(functions):
        sizes[key] = _inlined_size(functions[key].node, sizes, functions)
    whole = _inlined_size(model.graph.node, sizes, functions)
    given = sum(1 for nodes in (model.graph.node, *(f.node for f in model.functions)) for _ in all_nodes(nodes))
    for unit, made, before, least in (
        ("nodes", whole.nodes, given, MAX_INLINED_NODES),
        ("bytes", whole.bytes, model.ByteSize(), MAX_INLINED_BYTES),
    ):
        allowed = max(least, before * MAX_INLINING_GROWTH)
        if made > allowed:
            number = f"{made:,}" if made < MAX_COUNT else "countless"
            raise ModelError(
                f"its local functions would make {number} {unit} of {before:,}, and at most {allowed:,} are inlined: "
                "keep the functions, with --keep-functions or keep_functions=True"
            )


FunctionKey = tuple[str, str, str]
"""Canonical domain, name and overload."""


class InlinedSize(Struct, frozen=True):
    """The nodes and bytes of nodes with their calls inlined, and how often each name is written in them.

    Names are those of values, and of attributes with a leading `@`.
    """

    nodes: int
    bytes: int
    uses: Mapping[str, int]


def _callees_first(functions: Mapping[FunctionKey, onnx.FunctionProto]) -> list[FunctionKey]:
    """The functions, each after those that it calls; without those in a cycle, which the inliner refuses."""
    waits_for = {
        key: {k for k in map(_called, all_nodes(function.node)) if k in functions}
        for key, function in functions.items()
    }
    callers: dict[FunctionKey, list[FunctionKey]] = defaultdict(list)
    for key, callees in waits_for.items():
        for callee in callees:
            callers[callee].append(key)
    order = [key for key, callees in waits_for.items() if not callees]
    for key in order:
        for caller in callers[key]:
            waits_for[caller].remove(key)
            if not waits_for[caller]:
                order.append(caller)
    return order


def _key(function: onnx.FunctionProto) -> FunctionKey:
    return op_schemas.canonical_domain(function.domain), function.name, function.overload


def _called(node: onnx.NodeProto) -> FunctionKey:
    return op_schemas.canonical_domain(node.domain), node.op_type, node.overload


def _inlined_size(
    nodes: Iterable[onnx.NodeProto],
    sizes: Mapping[FunctionKey, InlinedSize],
    functions: Mapping[FunctionKey, onnx.FunctionProto],
) -> InlinedSize:
    """The size of `nodes` when calls of the functions in `sizes` are inlined.

    Each use of a parameter or an attribute in a body becomes the name or the attribute that the call gives.
    """
    count = size = 0
    uses = Counter[str]()
    for node in all_nodes(nodes):
        require_time()
        body = sizes.get(_called(node))
        references = [(a.name, a.ref_attr_name) for a in node.attribute if a.ref_attr_name]
        if body is None:
            count += 1
            size += node.ByteSize() - sum(inner.ByteSize() for graph in subgraphs(node) for inner in graph.node)
            uses.update((*node.input, *node.output, *(f"@{outer}" for _, outer in references)))
            continue
        function = functions[_called(node)]
        count += body.nodes
        size += body.bytes
        parameters = (*zip(function.input, node.input, strict=False), *zip(function.output, node.output, strict=False))
        for formal, name in parameters:
            size += body.uses.get(formal, 0) * len(name.encode())
            uses[name] += body.uses.get(formal, 0)
        given = {a.name: a for a in node.attribute}
        for attribute in ({a.name: a for a in function.attribute_proto} | given).values():
            size += (body.uses.get(f"@{attribute.name}", 0) + 1) * attribute.ByteSize()
        for formal, outer in references:
            uses[f"@{outer}"] += body.uses.get(f"@{formal}", 0)
    return InlinedSize(min(count, MAX_COUNT), min(size, MAX_COUNT), {n: min(k, MAX_COUNT) for n, k in uses.items()})
