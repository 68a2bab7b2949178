"""Rewriting of subgraph bodies: hoisting, inlining, and pruning of inputs and outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...core import Graph, Op, Value, made_from
from ...core.ir.graph import Declarations, all_value_names, dependencies, record_use_replacement
from ...core.ir.op import inherit_name, record_source, replaced


@dataclass(slots=True)
class NameDisambiguator:
    """Disambiguates names while values move between the graphs of a model."""

    root: Graph
    _name_counts: Counter[str] | None = field(default=None)

    def make_unique(self, values: Iterable[Value]) -> None:
        """Rename the `values`, about to move, whose names other values have too."""
        if self._name_counts is None:
            self._name_counts = Counter(all_value_names(self.root))
        for v in values:
            if v.name and self._name_counts[v.name] > 1:
                self._name_counts[v.name] -= 1
                record_source(v.producer)
                v.name = self.root.fresh_name(v.name)


def is_attached(op: Op) -> bool:
    """Whether an op, and each op around it, is still in its graph."""
    around = (g.owner for g in op.graph.with_enclosing())
    return all(at is None or at in at.graph for at in (op, *around))


def defined_values(body: Graph) -> dict[Value, None]:
    """The values of a body but for its inputs."""
    return dict.fromkeys((*body.initializers, *body.sparse_initializers, *(v for op in body.ops() for v in op.outputs)))


def skip_identities(v: Value, body: Graph) -> Value:
    """The value before the Identities of a body; it may be an outer value."""
    while (op := body.producer(v)) is not None and op.type == "Identity" and not op.domain and op.inputs[0] is not None:
        v = op.inputs[0]
    return v


def backward_slice(body: Graph, wanted: Iterable[Value]) -> dict[Op, None]:
    """The ops of a body that some of its values depend on. O(those ops)."""
    found: dict[Op, None] = {}
    stack = [op for v in wanted if (op := body.producer(v)) is not None]
    while stack:
        op = stack.pop()
        if op not in found:
            found[op] = None
            stack += dependencies(op)
    return found


def constants_read_by(body: Graph, ops: Iterable[Op]) -> dict[Value, None]:
    """The constants of a body that some ops read, in bodies of their own too."""
    read = (v for op in ops for v in (*op.inputs, *(op.captures if op.subgraphs else ())))
    return dict.fromkeys(v for v in read if v is not None and v in body.initializers)


def hoist_ops(
    body: Graph, ops: Collection[Op], constants: Iterable[Value], to: Graph, key: int, namer: NameDisambiguator
) -> None:
    """Move ops and constants of a body to the graph around it, at position `key`."""
    constants = list(constants)
    namer.make_unique([*constants, *(v for op in ops for v in op.outputs)])
    for v in constants:
        body.initializers.pop(v, None)
        to.initializers[v] = None
    for op in [op for op in body.sorted_ops() if op in ops]:
        to.splice_op(op, key)


def inline_body(
    op: Op, body: Graph, arguments: Mapping[Value, Value], results: Sequence[Value], by: str, namer: NameDisambiguator
) -> None:
    """Replace `op` by the ops of `body`; `arguments` are the values of its inputs, `results` the outputs of `op`."""
    graph, ops, own = op.graph, body.sorted_ops(), defined_values(body)
    outputs = body.outputs
    for v in outputs:
        if v not in own:
            v.remove_consumer(op)
    body.outputs = ()
    for old, new in arguments.items():
        replace_body_input(old, new)
    namer.make_unique(own)
    graph.initializers.update(body.initializers)
    graph.sparse_initializers.update(body.sparse_initializers)
    graph.pinned |= body.pinned
    for inner in ops:
        graph.splice_op(inner, op.order_key)
    for old, new in zip(op.outputs, results, strict=False):
        if old.consumers or graph.is_output(old):
            replace_output(old, arguments.get(new, new), by, op)
    remove_with_operands(op)  # and with it the ops of another branch, which never run
    graph.prune(reversed(ops))


def replace_body_input(old: Value, new: Value) -> None:
    """Replace an input of a body by another value, whose declared type may differ."""
    for user in tuple(old.consumers):
        for sub in user.subgraphs:
            if sub.is_output(old):
                sub.replace_output(old, new)
        user.graph.set_inputs(user, replaced(user.inputs, old, new))
        old.remove_consumer(user)
        record_use_replacement(user.graph.context.replacement_log, old, new, swaps=False)


def replace_output(old: Value, new: Value, by: str, op: Op) -> None:
    """Replace an output of `op` by `new`; an Identity that is needed between them has `op` as its origin."""
    identity = op.graph.replace_value(old, new)
    if identity is not None:
        made_from(identity, by, (op,))


def remove_with_operands(op: Op) -> None:
    """Remove an op, and the constants and ops that nothing else read."""
    graph, read = op.graph, dict.fromkeys(v for v in (*op.inputs, *op.captures) if v is not None)
    graph.remove_op(op)
    for v in read:
        if v.producer is not None:
            v.producer.graph.prune([v.producer])
        elif not v.consumers:
            graph.drop_initializer(v)


def prune_body(body: Graph, inputs: Collection[int], outputs: Sequence[int], by: str) -> Graph:
    """A body with some of the inputs and outputs of `body`, by position, and all that it held that they need.

    A value from outside is handed on by an Identity: no body may return one itself.
    """
    new = Graph(body.context)
    kept = {body.inputs[i]: None for i in inputs}
    old = body.declared
    new.inputs = list(kept)
    given = [(v, info) for v, info in old.inputs if v in kept or v.tensor is not None]
    infos = [old.outputs[i] for i in outputs]
    new.declared = Declarations(old.header, given, infos, list(old.initializers), list(old.value_infos))
    new.initializers, body.initializers = body.initializers, {}
    new.input_defaults, body.input_defaults = body.input_defaults, {}
    new.sparse_initializers, body.sparse_initializers = body.sparse_initializers, {}
    new.pinned, body.pinned = body.pinned, set()
    for op in body.sorted_ops():
        new.splice_op(op, op.order_key)
    own = {*new.inputs, *defined_values(new)}
    origin = () if body.owner is None else (body.owner,)
    returned = [body.outputs[i] for i in outputs]
    new.outputs = [v if v in own else append_op(new, "Identity", [v], {}, by, origin) for v in returned]
    return new


def append_op(
    body: Graph, op_type: str, inputs: Sequence[Value], attrs: dict[str, object], by: str, origin: Sequence[Op]
) -> Value:
    """The result of a new op at the end of a body."""
    new = Op(op_type, "", "", attrs, None)
    new.order_key = max((op.order_key for op in body.ops()), default=0)
    made_from(body.add_op(new, inputs, [Value(body.fresh_name(inputs[0].name))]), by, origin)
    return new.outputs[0]


def rebuild_op(
    op: Op, by: str, inputs: Sequence[Value | None], outputs: Sequence[int], attrs: Mapping[str, object]
) -> Op:
    """An op in the place of `op` with other inputs and attributes (bodies among them) and some of the outputs."""
    graph = op.graph
    merged = {**op.attrs, **attrs}
    new = Op(op.type, op.domain, "", merged, None)
    new.subgraphs = tuple(g for g in merged.values() if isinstance(g, Graph))
    new.order_key = op.order_key
    made_from(new, by, (op,))
    inherit_name(new, op)
    graph.add_op(new, inputs, [Value(graph.fresh_name(op.outputs[i].name)) for i in outputs])
    for fresh, i in zip(new.outputs, outputs, strict=True):
        graph.take_over(fresh, op.outputs[i])
    remove_with_operands(op)
    for sub in new.subgraphs:
        sub.prune(reversed(sub.sorted_ops()))
    return new
