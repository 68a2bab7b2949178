"""Taking bodies apart: what a body holds moves out of it, or into one with fewer inputs and outputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ...core import Graph, Op, Value, made_from
from ...core.ir.context import Declarations
from ...core.ir.graph import feeders
from ...core.ir.mutation_log import note_moved
from ...core.ir.op import exchanged
from ...core.ir.origin import inherit
from ..support.unique_names import Namer


def stands(op: Op) -> bool:
    """Whether an op is still there, and so is each that it is inside of."""
    at: Op | None = op
    while at is not None:
        if at not in at.graph:
            return False
        at = at.graph.owner
    return True


def owned(body: Graph) -> dict[Value, None]:
    """The values that come to be in a body, but for its inputs."""
    return dict.fromkeys((*body.initializers, *body.sparse, *(v for op in body.ops() for v in op.outputs)))


def source(v: Value, body: Graph) -> Value:
    """What stands before the Identities of a body that hand a value on; it may be an outer value."""
    while (op := body.producer(v)) is not None and op.type == "Identity" and not op.domain and op.inputs[0] is not None:
        v = op.inputs[0]
    return v


def cone(body: Graph, wanted: Iterable[Value]) -> dict[Op, None]:
    """The ops of a body that some of its values depend on. O(those ops)."""
    found: dict[Op, None] = {}
    stack = [op for v in wanted if (op := body.producer(v)) is not None]
    while stack:
        op = stack.pop()
        if op not in found:
            found[op] = None
            stack += feeders(op)
    return found


def constants_of(body: Graph, ops: Iterable[Op]) -> dict[Value, None]:
    """The constants of a body that some ops read, in bodies of their own too."""
    read = (v for op in ops for v in (*op.inputs, *(op.captures if op.subgraphs else ())))
    return dict.fromkeys(v for v in read if v is not None and v in body.initializers)


def move_out(body: Graph, ops: Collection[Op], constants: Iterable[Value], to: Graph, key: int, namer: Namer) -> None:
    """Let ops of a body, and constants, stand in the graph around it, at position `key`."""
    constants = list(constants)
    namer.tell_apart([*constants, *(v for op in ops for v in op.outputs)])
    for v in constants:
        body.initializers.pop(v, None)
        to.initializers[v] = None
    for op in [op for op in body.sorted_ops() if op in ops]:
        to.adopt(op, key)
    to.shared.facts += 1


def splice(op: Op, body: Graph, given: Mapping[Value, Value], results: Sequence[Value], by: str, namer: Namer) -> None:
    """Put what `body` holds in the place of `op`: `given` are the values of its inputs, `results` those of `op`."""
    graph, ops, own = op.graph, body.sorted_ops(), owned(body)
    outputs = body.outputs
    for v in outputs:
        if v not in own:
            v.drop_use(op)
    body.outputs = ()
    for old, new in given.items():
        read_instead(old, new)
    namer.tell_apart(own)
    graph.initializers.update(body.initializers)
    graph.sparse.update(body.sparse)
    graph.shared.facts += 1
    graph.pinned |= body.pinned
    for inner in ops:
        graph.adopt(inner, op.key)
    for old, new in zip(op.outputs, results, strict=False):
        if old.uses or graph.is_output(old):
            stand_in(old, given.get(new, new), by, op)
    read = dict.fromkeys(v for v in op.inputs if v is not None)
    graph.remove_op(op)  # what another branch holds never runs, whatever it is
    drop_unread(graph, read)
    graph.prune(reversed(ops))


def read_instead(given: Value, new: Value) -> None:
    """Let what reads an input of a body read another value; what the file says of the one may not hold of the other."""
    for user in tuple(given.uses):
        for sub in user.subgraphs:
            if sub.is_output(given):
                sub.swap_output(given, new)
        user.graph.set_inputs(user, exchanged(user.inputs, given, new))
        given.drop_use(user)
        user.graph.shared.facts += 1
        note_moved(user.graph.shared.trace, given, new, swaps=False)


def stand_in(old: Value, new: Value, by: str, op: Op) -> None:
    """Let `new` stand for an output of `op`; an Identity that has to stand between them is made of that."""
    identity = op.graph.substitute(old, new)
    if identity is not None:
        made_from(identity, by, (op,))


def drop_unread(graph: Graph, values: Iterable[Value]) -> None:
    """Remove constants and ops that nothing reads any more."""
    for v in values:
        if v.producer is not None:
            v.producer.graph.prune([v.producer])
        elif not v.uses:
            graph.drop_initializer(v)


def reduced(body: Graph, inputs: Collection[int], outputs: Sequence[int], by: str) -> Graph:
    """A body with some of the inputs and outputs of `body`, by position, and all that it held that they need.

    A value from outside is handed on by an Identity: no body may return one itself.
    """
    new = Graph(body.shared)
    kept = {body.inputs[i]: None for i in inputs}
    old = body.declared
    new.inputs = list(kept)
    given = [(v, info) for v, info in old.inputs if v in kept or v.tensor is not None]
    infos = [old.outputs[i] for i in outputs]
    new.declared = Declarations(old.header, given, infos, list(old.tensors), list(old.values))
    new.initializers, body.initializers = body.initializers, {}
    new.defaults, body.defaults = body.defaults, {}
    new.sparse, body.sparse = body.sparse, {}
    new.pinned, body.pinned = body.pinned, set()
    for op in body.sorted_ops():
        new.adopt(op, op.key)
    own = {*new.inputs, *owned(new)}
    new.outputs = [v if v in own else _handed_on(v, new, body.owner, by) for v in (body.outputs[i] for i in outputs)]
    return new


def _handed_on(v: Value, body: Graph, owner: Op | None, by: str) -> Value:
    identity = Op("Identity", "", "", {}, None)
    identity.key = max((op.key for op in body.ops()), default=0)
    body.add_op(identity, [v], [Value(body.fresh_name(v.name))])
    made_from(identity, by, () if owner is None else (owner,))
    return identity.outputs[0]


def rebuilt(op: Op, by: str, inputs: Sequence[Value | None], outputs: Sequence[int], attrs: Mapping[str, object]) -> Op:
    """An op in the place of `op` with other inputs and attributes (bodies among them) and some of the outputs."""
    graph = op.graph
    merged = {**op.attrs, **attrs}
    new = Op(op.type, op.domain, "", merged, None)
    new.subgraphs = tuple(g for g in merged.values() if isinstance(g, Graph))
    new.key = op.key
    made_from(new, by, (op,))
    inherit(new, op)
    graph.add_op(new, inputs, [Value(graph.fresh_name(op.outputs[i].name)) for i in outputs])
    for fresh, i in zip(new.outputs, outputs, strict=True):
        graph.take_over(fresh, op.outputs[i])
    read = dict.fromkeys(v for v in (*op.inputs, *op.captures) if v is not None)
    graph.remove_op(op)
    for sub in new.subgraphs:
        sub.prune(reversed(sub.sorted_ops()))
    drop_unread(graph, read)
    return new


def unread(op: Op) -> Iterator[int]:
    """The positions of outputs that nothing looks at."""
    return (i for i, v in enumerate(op.outputs) if op.graph.is_free(v))
