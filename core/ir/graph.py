"""Graphs of ops and values, their invariants, and the mutators that keep them.

A graph is bipartite, as in ONNX. Order, repetition and omitted optional inputs are in `Op.inputs` and `Op.outputs`,
which only the mutators here write. `Graph.nx` presents the same graph to networkx algorithms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, KeysView, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast

import onnx

from ..errors import GraphError, MatchFailure, NoFixpoint, require
from .cost_model import CPU, CostModel
from .expressions import SymInt, Unknown, from_atom
from .op import NOT_INFERRED, OUTDATED, SLOTS_THRESHOLD, IndexedSequence, Op, may_drop, record_source, replaced
from .quantization_spec import QuantizationSpec
from .tensor import Tensor
from .values import Value

if TYPE_CHECKING:
    import networkx as nx


FRESH_NAME_MARK = "_pw"  # precedes the number in each generated name
ValueInfo = Literal["keep", "write", "strip"]
"""The `value_info` of a written model: as in the file, with all inferred types, or without inferable types."""
T = TypeVar("T")
Runs = Callable[[str, str, int, Sequence[int]], bool]
"""Whether a target runs an operator, by type, domain and opset, on inputs with some element type (0: unknown)."""


class Mutation(NamedTuple):
    """Nodes and bytes of constants that were added or, if negative, removed, and the op that contains them."""

    node_delta: int
    byte_delta: int
    op: Op | None = None


@dataclass(slots=True)
class MutationLog:
    """The mutations that have not been drained yet. Recorded only if the sizes of changes are needed."""

    entries: list[Mutation] = field(default_factory=list[Mutation])

    def drain(self, count: int | None = None) -> list[Mutation]:
        """Remove and return the first `count` mutations, or all."""
        taken, self.entries = self.entries[:count], [] if count is None else self.entries[count:]
        return taken

    def record(self, graph: Graph, node_delta: int, byte_delta: int, op: Op | None = None) -> None:
        """Log a mutation of `graph`, unless the graph was removed with its owner while a pass still rewrites it."""
        if all(g.owner is None or g.owner in g.owner.graph for g in graph.with_enclosing()):
            self.entries.append(Mutation(node_delta, byte_delta, op))

    def record_removal(self, op: Op) -> None:
        """Log that `op` is about to be removed, with its subgraphs unless another op already owns them."""
        inner = [g for sub in op.subgraphs if sub.owner is op for g in sub.with_subgraphs()]
        constants = (*op.outputs, *(v for g in inner for v in _own_constants(g)))
        self.record(op.graph, -1 - sum(map(len, inner)), -sum(map(constant_nbytes, constants)), op)


def _own_constants(graph: Graph) -> Iterator[Value]:
    """Yield the constants removed with a subgraph, except those moved to an enclosing graph."""
    outer = list(graph.with_enclosing())[1:]
    yield from (v for v in graph.initializers if not any(v in g.initializers for g in outer))
    for op in graph.ops():
        yield from op.outputs


def constant_nbytes(value: Value) -> int:
    """The bytes of a constant's elements; 0 for a computed value."""
    return value.tensor.nbytes if value.tensor is not None else 0


@dataclass(slots=True)
class ReplacementLog:
    """Replacements of values and ops during a run. It uses memory, so it is kept only for name maps.

    `replaced_values`: the replacement of a value. `derived_ops`: the ops made from an op. `equivalent_ops`: the op
    whose outputs replace the outputs of another. `original_labels`: the label of an op before its outputs changed.
    `removed_ops`: in the order of removal. `value_names`, `op_names`: unique names of all values and ops at the
    beginning; `initializers`: the values that then had contents and no producer.
    """

    value_names: dict[Value, str]
    op_names: dict[Op, str]
    initializers: tuple[Value, ...]

    replaced_values: dict[Value, Value] = field(default_factory=dict[Value, Value])
    derived_ops: dict[Op, dict[Op, None]] = field(default_factory=dict[Op, dict[Op, None]])
    equivalent_ops: dict[Op, Op] = field(default_factory=dict[Op, Op])
    original_labels: dict[Op, str] = field(default_factory=dict[Op, str])
    removed_ops: list[Op] = field(default_factory=list[Op])


def record_use_replacement(log: ReplacementLog | None, old: Value, new: Value, *, swaps: bool) -> None:
    """Record that consumers of `old` are about to read the equal `new`; with `swaps`, names are exchanged."""
    if swaps:
        record_source(old.producer)
        record_source(new.producer)
    if log is None:
        return
    log.replaced_values[old] = new
    if old.producer is not None:
        log.original_labels[old.producer] = old.producer.label
        if new.producer is not None:
            log.original_labels[new.producer] = new.producer.label
            log.equivalent_ops[old.producer] = new.producer


FUNCTIONS_IR_VERSION = 8


def _without_view(_: Graph) -> nx.MultiDiGraph[Op | Value]:
    raise GraphError("this graph has no view for networkx: make it with from_onnx")


@dataclass(slots=True)
class GraphContext:
    """The state shared by a graph and all its subgraphs."""

    opsets: dict[str, int]
    ir_version: int
    infer: Callable[[Op], None] = lambda _: None
    infer_dtype: Callable[[Value], None] = lambda _: None
    view: Callable[[Graph], nx.MultiDiGraph[Op | Value]] = _without_view
    text_of: Callable[[Graph], str] = repr  # used by `print`
    weight_bytes: int = 0  # of all constants, as loaded
    mutation_count: int = 0  # incremented by every mutation
    analyses: dict[tuple[Graph, Callable[[Graph], Any]], Any] = field(default_factory=dict[Any, Any])  # of this count
    mutation_limit: int | None = None  # the mutation count beyond which a pass is considered nonterminating
    folding_work: tuple[int, int] = (0, 0)  # bytes and multiplications used by constant folding
    aborted_calls: int = 0  # of onnx's native code, by inference
    inference_epoch: int = 1  # incremented when inference of all ops may find more than before
    root: Graph | None = None
    reserved_names: set[str] | None = None  # names of the model that `fresh_name` might generate
    fresh_name_count: int = 0
    unknown_count: int = 0
    input_symbols: set[str] = field(default_factory=set[str])  # of the dims of inputs, of graphs and bodies
    interned_tensors: dict[bytes, Tensor] = field(default_factory=dict[bytes, Tensor])  # small tensors made by rewrites
    replacement_log: ReplacementLog | None = None  # kept for name maps
    mutation_log: MutationLog | None = None  # kept where the size of each change is recorded
    functions: Sequence[onnx.FunctionProto] = ()  # local functions that were not inlined
    added_functions: list[onnx.FunctionProto] = field(default_factory=list[onnx.FunctionProto])  # by passes
    function_attributes: frozenset[str] = frozenset()  # that nodes may refer to, in the body of a local function
    value_info: ValueInfo = "keep"  # of an export
    runs: Runs | None = None  # whether a rewrite may add an op; None: any
    obstacle: Callable[[Op], str] | None = None  # why the target does not support an op, or ""
    costs: CostModel = CPU  # of the target
    quantization: QuantizationSpec | None = None  # for rules that quantize; None: they decline
    has_provenance: bool = True  # written as metadata of nodes

    @property
    def initializers_are_inputs(self) -> bool:
        """Whether every initializer is also an input (before IR version 4); onnxruntime does not let callers set it."""
        return self.ir_version < 4

    def new_unknown(self, *, lower_bound: int | None = 0, tentative: bool = False) -> SymInt:
        """A new unknown integer, such as an unnamed extent or element, with a known `lower_bound`."""
        self.unknown_count += 1
        return from_atom(Unknown(self.unknown_count, lower_bound=lower_bound, tentative=tentative))

    def fresh_name(self, stem: str) -> str:
        """An unused name based on `stem`; the number of a generated stem is replaced."""
        stem = stem.partition(FRESH_NAME_MARK)[0]
        taken = self.reserved_names or ()
        while True:
            self.fresh_name_count += 1
            name = f"{stem}{FRESH_NAME_MARK}{self.fresh_name_count}"
            if name not in taken:
                return name


@dataclass(slots=True)
class Declarations:
    """The parts of a GraphProto besides its nodes and tensors; written back unchanged."""

    header: onnx.GraphProto  # name, doc string, metadata, annotations
    inputs: list[tuple[Value, bytes]] = field(default_factory=list[tuple[Value, bytes]])
    outputs: list[bytes] = field(default_factory=list[bytes])
    initializers: list[Value] = field(default_factory=list[Value])  # initializers and defaults, in order
    value_infos: list[tuple[Value | None, bytes]] = field(default_factory=list[tuple[Value | None, bytes]])


def revise_declarations(graph: Graph, revise: Callable[[Value | None, bytes], bytes]) -> None:
    """Replace each declaration of an input, output or other value, which is None if the graph does not have it."""
    declared = graph.declared
    declared.inputs[:] = [(v, revise(v, info)) for v, info in declared.inputs]
    declared.outputs[:] = [revise(v, info) for v, info in zip(graph.outputs, declared.outputs, strict=True)]
    declared.value_infos[:] = [(v, revise(v, info)) for v, info in declared.value_infos]


def dependencies(op: Op) -> Iterator[Op]:
    """Yield the ops of the same graph that `op` depends on, including through its subgraphs."""
    values = (*op.inputs, *op.captures) if op.subgraphs else op.inputs
    for v in values:
        if v is not None and (p := v.producer) is not None and p.graph is op.graph:
            yield p


def depth_first_order(order: list[Op]) -> list[Op]:
    """Sort depth-first from each op in turn; ops in topological order keep their order. O(V + E)."""
    done: dict[Op, None] = {}
    for start in order:
        path: dict[Op, Iterator[Op]] = {} if start in done else {start: dependencies(start)}
        while path:
            op, waiting = next(reversed(path.items()))
            pending = next((p for p in waiting if p not in done), None)
            if pending is None:
                path.popitem()
                done[op] = None
            elif pending in path:
                cycle = [o.label for o in path][list(path).index(pending) :]
                raise GraphError(f"the graph has a cycle: {' <- '.join(cycle[:8])}")
            else:
                path[pending] = dependencies(pending)
    return list(done)


def invalidate_dependents(value: Value) -> None:
    """Make the ops that depend on `value` be inferred again if they can be refined, because more is known about it.

    O(ops inferred since the last time). A global epoch would cause all ops to be inferred again, also those before
    them, which takes quadratic time for a chain that is rewritten from start to end.
    """
    invalidate_inference(_users(value))


def invalidate_inference(ops: Iterable[Op]) -> None:
    """Make `ops`, and ops that depend on them, be inferred again if they can be refined."""
    stack = list(ops)
    while stack:
        op = stack.pop()
        if op.inferred_epoch != op.graph.context.inference_epoch:
            continue  # then ops that depend on values that it may refine were not inferred either
        op.inferred_epoch = OUTDATED
        for v in op.outputs:
            if not v.is_fully_known:
                stack += _users(v)


def _users(value: Value) -> Iterable[Op]:
    """Yield the ops that infer from `value`: its consumers, and the op whose body returns it."""
    maker = value.producer
    owner = maker.graph.owner if maker is not None and maker.graph.is_output(value) else None
    return value.consumers if owner is None else (*value.consumers, owner)


def _remove_with_constants(op: Op) -> list[Op]:
    """Remove an op and the constants that only it read; return the producers of its inputs."""
    home = op.graph
    read = {v: None for v in (*op.inputs, *op.captures) if v is not None}
    home.remove_op(op)
    for v in read:
        if v.producer is None and not v.consumers:
            home.drop_initializer(v)
    return [v.producer for v in read if v.producer is not None]


def force_remove(op: Op) -> None:
    """Remove an op from its graph even if its outputs are used; these then have no producer."""
    home = op.graph
    if (replacements := home.context.replacement_log) is not None:
        replacements.removed_ops.append(op)
    if (mutations := home.context.mutation_log) is not None:
        mutations.record_removal(op)
    for v in op.outputs:
        v.producer = None
    _drop_uses(op)
    home.unlink_op(op)
    home.mark_changed()


def _replace_reads(op: Op, old: Value, new: Value) -> None:
    """Make an op, and the results of its bodies, read `new` instead of `old`, which still lists it as a consumer."""
    op.replace_edge("inputs", old, new)
    for sub in op.subgraphs:
        sub.replace_output(old, new)
    new.add_consumer(op)


def _connect_inputs(op: Op, inputs: Sequence[Value | None]) -> None:
    """Set the inputs of an op, and register it as a consumer of all values that it reads."""
    op.set_edges("inputs", inputs)
    for v in inputs:
        if v is not None:
            v.add_consumer(op)
    for v in op.captures if op.subgraphs else ():
        if any(sub.is_output(v) for sub in op.subgraphs):
            v.add_consumer(op)


def _drop_uses(op: Op) -> None:
    """Remove the uses of values by a removed op and by the ops in its subgraphs."""
    for v in op.inputs:
        if v is not None:
            v.remove_consumer(op)
    for sub in op.subgraphs:
        for v in sub.outputs:
            v.remove_consumer(op)
        for inner in sub.ops():
            _drop_uses(inner)


def attribute_graphs(op: Op) -> list[Graph]:
    """The graphs among the attributes of an op: its bodies, or the bodies of another op that it takes over."""
    return [value for value in op.attrs.values() if isinstance(value, Graph)]


def drop_output(op: Op, index: int) -> None:
    """Drop an unused output of `op`: trailing outputs are removed, others lose their names."""
    value = op.outputs[index]
    if not op.graph.is_unused(value):
        raise GraphError(f"cannot drop {value.name} of {op.label}: it is still used")
    record_source(op)
    value.producer = None
    unnamed = Value("")
    unnamed.producer = op
    kept = [*op.outputs[:index], unnamed, *op.outputs[index + 1 :]]
    while len(kept) > 1 and not kept[-1].name:
        kept.pop().producer = None
    op.set_edges("outputs", kept)
    op.graph.mark_changed()


class Graph:
    """A graph or subgraph. The names and order of `inputs` and `outputs` never change.

    Examples:
        >>> [op.type for op in graph.sorted_ops()], [v.name for v in graph.outputs]
        (['Abs', 'Relu', 'Add'], ['y'])
        >>> relu = next(graph.ops("Relu"))
        >>> build = RewriteBuilder(graph, relu)
        >>> graph.take_over(build.Max(relu.input(0), 0.0), relu.outputs[0])  # the Max produces what the Relu did
        >>> graph.discard([relu])
        1
        >>> [op.type for op in graph.sorted_ops()]
        ['Abs', 'Max', 'Add']
    """

    def __init__(self, context: GraphContext) -> None:
        self.context = context
        self.declared = Declarations(onnx.GraphProto())
        self.owner: Op | None = None  # the op with an attribute that contains this graph
        self.inputs: list[Value] = []
        self.input_defaults: dict[Value, Tensor] = {}  # of inputs that a caller may omit
        self.initializers: dict[Value, None] = {}
        self.sparse_initializers: dict[Value, onnx.SparseTensorProto] = {}
        self.pinned: set[Value] = set()  # values that something other than ops refers to by name
        self._outputs: IndexedSequence[Value] = IndexedSequence()
        self._ops: dict[Op, None] = {}
        self._by_type: dict[str, dict[Op, None]] = {}
        self._ops_with_subgraphs: dict[Op, None] = {}
        self._used_outputs: dict[Op, int] = {}  # for ops with many outputs: one that was used before

    def __str__(self) -> str:
        """The graph in the syntax that `onnx.parser.parse_graph` reads, with all weights."""
        return self.context.text_of(self)

    @property
    def opsets(self) -> dict[str, int]:
        """Opset version by domain; the standard domain is ""."""
        return self.context.opsets

    @property
    def outputs(self) -> tuple[Value, ...]:
        """The graph's outputs, in order."""
        return tuple(self._outputs)

    @outputs.setter
    def outputs(self, values: Iterable[Value]) -> None:
        self._outputs = IndexedSequence(values)

    def set_outputs(self, values: Sequence[Value]) -> None:
        """Replace all outputs of a body by values of the body or of an enclosing graph.

        Values that the body does not compute are passed through an Identity (ONNX IR, Graphs). Raises GraphError for
        the main graph, whose outputs keep their names and order, and for a different number of values.
        """
        owner = self.owner
        if owner is None:
            raise GraphError("the outputs of a model keep their names: use replace_value to change their producers")
        if len(values) != len(self.outputs):
            raise GraphError(f"a body of {owner.label} has {len(self.outputs)} outputs, not {len(values)}")
        made = tuple(self._own_value(v) for v in values)
        for v in self.outputs:
            v.remove_consumer(owner)
        self.outputs = made
        _connect_inputs(owner, owner.inputs)
        invalidate_inference([owner])
        self.mark_changed()

    def _own_value(self, value: Value) -> Value:
        """The value, or the result of an Identity if it belongs to an enclosing graph."""
        if value in self.inputs or value in self.initializers or self.producer(value) is not None:
            return value
        identity = self.add_op(Op("Identity", "", "", {}, None), [value], [Value(self.fresh_name(value.name))])
        return identity.outputs[0]

    def add_function(self, function: onnx.FunctionProto) -> None:
        """Add a local function, which ops call by its domain and name; it is written only if an op calls it.

        `RewriteBuilder(graph, op).domain("mine").AddRelu(a, b)` is a call. onnxruntime inlines calls, so that results
        are compared as if the body's ops were used. Raises MatchFailure before IR version 8, which has no functions,
        and GraphError if the model has a different function with that name.
        """
        require(self.context.ir_version >= FUNCTIONS_IR_VERSION, "models have functions since IR version 8")
        for known in (*self.context.functions, *self.context.added_functions):
            if (known.domain, known.name) == (function.domain, function.name):
                if known != function:
                    raise GraphError(f"the model has another function {function.domain}.{function.name}")
                return
        self.context.added_functions.append(function)

    def ops(self, *types: str) -> Iterator[Op]:
        """Yield ops of the given types, or all ops, in order of insertion. O(result)."""
        if not types:
            yield from tuple(self._ops)
        for t in types:
            yield from tuple(self._by_type.get(t, ()))

    @property
    def op_types(self) -> KeysView[str]:
        """The types of current and former ops."""
        return self._by_type.keys()

    def __contains__(self, op: Op) -> bool:
        return op in self._ops

    def __len__(self) -> int:
        return len(self._ops)

    def is_output(self, value: Value) -> bool:
        """Whether `value` is an output of this graph."""
        return value in self._outputs

    def is_unused(self, value: Value) -> bool:
        """Whether `value` has no consumers and is not a graph output."""
        return not value.consumers and value not in self._outputs and value not in self.pinned

    def is_dead(self, op: Op) -> bool:
        """Whether `op` is in this graph and none of its outputs are used.

        If there are many outputs, the one that was used last time is tested first. As outputs become unused one by one,
        all calls together test each output about once.
        """
        if op not in self._ops:
            return False
        outputs = op.outputs
        if len(outputs) <= SLOTS_THRESHOLD:
            return all(map(self.is_unused, outputs))
        start = self._used_outputs.get(op, 0)
        for i in chain(range(start, len(outputs)), range(min(start, len(outputs)))):
            if not self.is_unused(outputs[i]):
                self._used_outputs[op] = i
                return False
        return True

    def producer(self, value: Value | None) -> Op | None:
        """The op of this graph that produces `value`; None if another graph or no op does."""
        op = value.producer if value is not None else None
        return op if op is not None and op.graph is self else None

    @property
    def can_hold_initializers(self) -> bool:
        """Whether initializers may be added: not in a subgraph before IR version 4, where they must be inputs."""
        return self.owner is None or not self.context.initializers_are_inputs

    def with_subgraphs(self) -> Iterator[Graph]:
        """Yield the graph, then all graphs inside it, outermost first."""
        yield self
        for op in sorted(self._ops_with_subgraphs, key=attrgetter("order_key")):
            for sub in op.subgraphs:
                yield from sub.with_subgraphs()

    def with_enclosing(self) -> Iterator[Graph]:
        """Yield the graph, then all enclosing graphs, innermost first."""
        graph: Graph | None = self
        while graph is not None:
            yield graph
            graph = graph.owner.graph if graph.owner is not None else None

    def captured_values(self) -> Iterator[Value]:
        """Yield values of enclosing graphs that this graph or a graph inside it reads; may repeat."""
        ops = list(self.ops())
        own = {*self.inputs, *self.initializers, *self.sparse_initializers}
        own.update(v for op in ops for v in op.outputs)
        for op in ops:
            yield from (v for v in op.inputs if v is not None and v not in own)
        for op in ops:
            for sub in op.subgraphs:
                yield from (v for v in sub.captured_values() if v not in own)
        yield from (v for v in self.outputs if v not in own)

    def sorted_ops(self) -> list[Op]:
        """All ops in topological order, with ties in file order. Raises GraphError on a cycle."""
        order = sorted(self._ops, key=attrgetter("order_key"))
        seen: set[Op] = set()
        for op in order:  # inlined, because every pass over a whole graph runs this
            for v in (*op.inputs, *op.captures) if op.subgraphs else op.inputs:
                if v is not None and (p := v.producer) is not None and p not in seen and p.graph is self:
                    return depth_first_order(order)
            seen.add(op)
        return order

    @property
    def nx(self) -> nx.MultiDiGraph[Op | Value]:
        """A read-only networkx MultiDiGraph of the graph (value -> op -> value), valid until the next change.

        Nodes have `kind` (op, input, initializer, value, or outer for values of enclosing graphs) and `name`. An op has
        `op_type`, `domain` and `attributes`; a value has `dtype`, `shape`, `nbytes` and, if constant, `tensor`.
        Operands are edges with `index`, which is also the key, and `nbytes`. Unknown data is omitted.
        """
        return self.analysis(self.context.view)

    def analysis(self, kind: Callable[[Graph], T]) -> T:
        """The result of an analysis, `kind(graph)`, cached until this or an enclosing graph changes.

        An analysis is a class or function that takes a graph, such as `Liveness`. It must not change the graph.
        """
        known = self.context.analyses
        if (self, kind) not in known:
            known[self, kind] = kind(self)
        return known[self, kind]

    def reorder(self, ops: Sequence[Op]) -> None:
        """Set the file order of all ops in this graph. Raises GraphError unless each op follows those it depends on."""
        keys = {op: i for i, op in enumerate(ops)}
        if keys.keys() != self._ops.keys() or len(keys) != len(ops):
            raise GraphError("an order must contain each op of the graph exactly once")
        for op in ops:
            if (late := next((p for p in dependencies(op) if keys[p] > keys[op]), None)) is not None:
                raise GraphError(f"{op.label} is before {late.label}, on which it depends")
        for op, key in keys.items():
            op.order_key = key
        self.mark_changed()

    def mark_changed(self) -> None:
        """Count a mutation of the graph. Raises NoFixpoint past the limit."""
        context = self.context
        context.mutation_count += 1
        if context.analyses:
            context.analyses.clear()
        if context.mutation_limit is not None and context.mutation_count > context.mutation_limit:
            context.mutation_limit = None
            raise NoFixpoint("it keeps changing the graph; its changes far outnumber the graph's ops and initializers")

    def fresh_name(self, stem: str) -> str:
        """An unused name in the model."""
        if self.context.reserved_names is None:
            names = all_value_names(self.context.root or self)
            self.context.reserved_names = {name for name in names if FRESH_NAME_MARK in name}
        return self.context.fresh_name(stem)

    def add_constant(self, tensor: Tensor, stem: str = "const") -> Value:
        """Add a new constant to this graph."""
        value = Value(self.fresh_name(stem))
        self._set_constant(value, tensor)
        (self if self.can_hold_initializers else self.context.root or self).initializers[value] = None
        self.mark_changed()
        return value

    def add_op(self, op: Op, inputs: Sequence[Value | None], outputs: Sequence[Value]) -> Op:
        """Add `op` to the graph. Raises GraphError if an output already has a producer."""
        for v in outputs:
            if v.producer is not None:
                raise GraphError(f"{v.name} is produced by both {v.producer.label} and {op.label}")
        if len(set(outputs)) < len(outputs):
            twice = next(v.name for v in outputs if outputs.count(v) > 1)
            raise GraphError(f"{twice} is produced by both {op.label} and itself")
        op.graph = self
        op.set_edges("outputs", outputs)
        op.version = self.opsets.get(op.domain, 0)
        for v in outputs:
            v.producer = op
        for sub in op.subgraphs:
            sub.owner = op
        _connect_inputs(op, inputs)
        self._index(op)
        if self.context.mutation_log is not None:
            self.context.mutation_log.record(self, 1, 0, op)
        self.mark_changed()
        return op

    def remove_op(self, op: Op) -> None:
        """Remove an op whose outputs are unused. Raises GraphError if one is used."""
        for v in op.outputs:
            if not self.is_unused(v):
                raise GraphError(f"cannot remove {op.label}: {v.name} is still used")
        force_remove(op)

    def set_inputs(self, op: Op, inputs: Sequence[Value | None]) -> None:
        """Replace all inputs of `op`. O(arity)."""
        for v in op.inputs:
            if v is not None:
                v.remove_consumer(op)
        _connect_inputs(op, inputs)
        invalidate_inference([op])
        self.mark_changed()

    def replace_uses(self, old: Value, new: Value) -> None:
        """Replace all uses of `old` by `new`; a graph output keeps its name. O(uses).

        Declines if both are graph inputs or outputs, which only an Identity can connect.
        """
        self.require_replaceable(old, new)
        swaps = self.is_output(old)
        record_use_replacement(self.context.replacement_log, old, new, swaps=swaps)
        was_inferred = old.producer is None or old.producer.inferred_epoch != NOT_INFERRED
        is_refined = was_inferred and not old.is_fully_known and new.known_facts != old.recorded_facts
        if is_refined or (new.is_const and not old.is_const):
            invalidate_dependents(old)
        for op in old.consumers:
            _replace_reads(op, old, new)
        old.clear_consumers()
        if swaps:
            new.name, old.name = old.name, new.name
            self._outputs.replace(old, new)
        new.merge_type(*old.recorded_type)
        self.mark_changed()

    def require_replaceable(self, old: Value, new: Value) -> None:
        """Decline unless `replace_uses` is possible."""
        is_foreign = self.producer(new) is None and new not in self.initializers
        if self.is_output(old) and (is_foreign or self.is_output(new) or new in self.pinned):
            raise MatchFailure(f"{old.name} and {new.name} must keep their names; only an Identity can connect them")
        if old in self.pinned:
            raise MatchFailure(f"{old.name} is referred to by name")

    def replace_output(self, old: Value, new: Value) -> None:
        """Replace `old` by `new` only among the outputs; the name of a model's output is lost.

        Only for the mutators of Graph. `replace_value` and `insert_behind` keep the names of outputs.
        """
        self._outputs.replace(old, new)

    def take_over(self, new: Value, old: Value) -> None:
        """Make the producer of `new` produce `old` instead. Consumers of `old` do not change."""
        op = new.producer
        if op is None:
            raise GraphError(f"nothing produces {new.name}, so nothing can take over {old.name}")
        record_source(op)
        if self.context.replacement_log is not None:
            self.context.replacement_log.replaced_values[new] = old
        was_inferred = old.producer is not None and old.producer.inferred_epoch != NOT_INFERRED
        self._detach(old)
        for user in tuple(new.consumers):
            user.graph.set_inputs(user, replaced(user.inputs, new, old))
        op.replace_edge("outputs", new, old)
        old.producer, new.producer = op, None
        if was_inferred and not old.is_fully_known:
            recorded, op.inferred_epoch = old.recorded_facts, NOT_INFERRED
            if old.known_facts != recorded:
                invalidate_dependents(old)
        self.mark_changed()

    def insert_behind(self, value: Value, new: Value, readers: Collection[Op]) -> None:
        """Insert ops that compute `new` from `value`: everything else that reads `value` then reads `new`. O(uses).

        `readers` are these ops, `build.added_ops`, and others that should still read the old value. A computed value
        keeps its name, and therefore so do outputs: its producer and `readers` share a new value. Raises GraphError for
        an input that is also an output, because both have the same name.
        """
        if (producer := value.producer) is None:
            if self.is_output(value):
                raise GraphError(f"no op can be inserted between the input {value.name} and the output with that name")
            for op in [op for op in value.consumers if op not in readers]:
                _replace_reads(op, value, new)
                value.remove_consumer(op)
                invalidate_inference([op])
            self.mark_changed()
            return
        position = producer.outputs.index(value)
        self._detach(value)
        before = producer.outputs[position]
        before.take_facts(value, declared=self.is_output(value))
        for op in [op for op in value.consumers if op in readers]:
            _replace_reads(op, value, before)
            value.remove_consumer(op)
        self.take_over(new, value)
        invalidate_dependents(value)

    def replace_value(self, old: Value, new: Value) -> Op | None:
        """Like `replace_uses`; if both names must be kept, insert an Identity between them, and return it."""
        try:
            self.replace_uses(old, new)
        except MatchFailure:
            identity = Op("Identity", "", "", {}, None)
            identity.order_key = old.producer.order_key if old.producer is not None else 0
            self.take_over(self.add_op(identity, [new], [Value(self.fresh_name(old.name))]).outputs[0], old)
            return identity
        return None

    def make_constant(self, value: Value, tensor: Tensor) -> None:
        """Turn a computed value into an initializer of the same name."""
        self._detach(value)
        if value.tensor is None:  # otherwise it was the output of a Constant op
            invalidate_dependents(value)
        self._set_constant(value, tensor)
        self.initializers[value] = None
        self.mark_changed()

    def make_input(self, value: Value) -> None:
        """Make a computed or constant value an input; the caller must declare its type and set `inputs`."""
        self._detach(value)
        self.initializers.pop(value, None)
        value.reset()
        self.mark_changed()

    def _set_constant(self, value: Value, tensor: Tensor) -> None:
        if (log := self.context.mutation_log) is not None:
            log.entries.append(Mutation(0, tensor.nbytes - constant_nbytes(value)))
        value.set_constant(tensor)

    def _detach(self, value: Value) -> None:
        """Remove the producer of `value`, which gets a new unused output instead."""
        if (op := value.producer) is not None:
            record_source(op)
            if self.context.replacement_log is not None:
                self.context.replacement_log.original_labels[op] = op.label
            spare = Value(self.fresh_name(value.name))
            spare.producer = op
            op.replace_edge("outputs", value, spare)
            value.producer = None

    def splice_op(self, op: Op, key: int) -> None:
        """Move `op` from a subgraph or enclosing graph to position `key` of this graph."""
        op.graph.unlink_op(op)
        op.graph, op.order_key = self, key
        self._index(op)
        if self.owner is not None:
            for v in filter(self.is_output, op.outputs):
                v.remove_consumer(self.owner)  # the owner returned it from outside
        self.mark_changed()

    def take_bodies(self, op: Op) -> None:
        """Make the graphs among the attributes of `op` its bodies, instead of the bodies of ops to be removed.

        A pass's RewriteBuilder does this itself: `build.If(condition, then_branch=body, else_branch=other)`.
        """
        bodies = attribute_graphs(op)
        for body in bodies:
            if body.owner is not None and body.owner is not op:
                for v in body.outputs:
                    v.remove_consumer(body.owner)
                body.owner.subgraphs = ()
            body.owner = op
        if bodies:
            op.subgraphs = tuple(bodies)
            self._ops_with_subgraphs[op] = None
            _connect_inputs(op, op.inputs)
            self.mark_changed()

    def unlink_op(self, op: Op) -> None:
        """Remove `op` from the indexes; its edges do not change."""
        del self._ops[op]
        del self._by_type[op.type][op]
        self._ops_with_subgraphs.pop(op, None)
        self._used_outputs.pop(op, None)

    def _index(self, op: Op) -> None:
        self._ops[op] = None
        self._by_type.setdefault(op.type, {})[op] = None
        if op.subgraphs:
            self._ops_with_subgraphs[op] = None

    def prune(self, ops: Iterable[Op]) -> int:
        """Remove the removable dead ops among `ops`, and ops that then become dead. O(removed)."""
        stack, removed = list(ops), 0
        while stack:
            op = stack.pop()
            if may_drop(op) and op.graph.is_dead(op):
                removed += 1
                stack += _remove_with_constants(op)
        return removed

    def discard(self, ops: Iterable[Op]) -> int:
        """Like `prune`, but remove all of `ops`, even opaque ones. O(removed)."""
        removed = 0
        for op in ops:
            if op.graph.is_dead(op):
                removed += 1 + self.prune(_remove_with_constants(op))
        return removed

    def drop_initializer(self, value: Value) -> bool:
        """Remove an unused constant from the enclosing graph that contains it."""
        home = next((g for g in self.with_enclosing() if value in g.initializers), None)
        if home is None or not home.is_unused(value):
            return False
        if (log := home.context.mutation_log) is not None and value.tensor is not None:
            log.record(home, 0, -value.tensor.nbytes)
        del home.initializers[value]
        home.mark_changed()
        return True

    def validate(self) -> None:
        """Raise GraphError unless edges and indexes are consistent, outputs are defined, and there is no cycle.

        O(V + E) including subgraphs. Consumers are checked only from the outermost graph.
        """
        ops = list(self.ops())
        for op in ops:
            if op.graph is not self or op not in self._by_type.get(op.type, ()):
                raise GraphError(f"{op.label} is not in the index of its graph")
            for v in op.outputs:
                if v.producer is not op:
                    raise GraphError(f"{op.label} does not produce {v.name}, which it lists")
                if v.tensor is not None and op.type != "Constant":
                    raise GraphError(f"{v.name} is a constant, and produced by {op.label}")
            for sub in op.subgraphs:
                if sub.owner is not op:
                    raise GraphError(f"a subgraph of {op.label} has another owner")
                sub.validate()
        if sum(map(len, self._by_type.values())) != len(ops):
            raise GraphError("the op-type index is stale")
        _check_names_and_outputs(self)
        if self.owner is None:
            _check_edges(self)
        self.sorted_ops()


def enclosing_op(graph: Graph, op: Op) -> Op | None:
    """The op in `graph` itself that is `op` or contains it in a subgraph."""
    while op.graph is not graph:
        if op.graph.owner is None:
            return None
        op = op.graph.owner
    return op


def all_value_names(graph: Graph) -> Iterator[str]:
    """Yield every value name in a graph and its subgraphs."""
    for g in graph.with_subgraphs():
        yield from (v.name for v in (*g.inputs, *g.initializers, *g.sparse_initializers))
        yield from (v.name for v, _ in g.declared.inputs)
        for op in g.ops():
            yield from (v.name for v in op.outputs)


def defined_values(graph: Graph) -> Iterator[Value]:
    """Yield the values that this graph defines: inputs, constants, and outputs of its ops."""
    yield from dict.fromkeys((*graph.inputs, *graph.initializers, *graph.sparse_initializers))
    for op in graph.ops():
        yield from op.outputs


def _check_names_and_outputs(graph: Graph) -> None:
    for v in graph.initializers:
        if v.tensor is None:
            raise GraphError(f"initializer {v.name} has no tensor")
        if v.producer is not None:
            raise GraphError(f"initializer {v.name} is produced by {v.producer.label}")
    names = Counter(v.name for v in defined_values(graph) if v.name)
    twice = next((name for name, n in names.items() if n > 1), None)
    if twice is not None:
        raise GraphError(f"two values are named {twice}")
    outputs = set(graph.outputs)
    for v in {*outputs, *defined_values(graph)}:
        if graph.is_output(v) != (v in outputs):
            raise GraphError(f"the graph's outputs and their index disagree about {v.name}")
    if graph.owner is None:
        declared = [onnx.ValueInfoProto.FromString(info).name for info in graph.declared.outputs]
        if declared != [v.name for v in graph.outputs]:
            raise GraphError(f"the outputs are {', '.join(v.name for v in graph.outputs)}, not {', '.join(declared)}")


def _check_edges(root: Graph) -> None:
    """Raise GraphError unless every value that is read is defined, and its consumers are exactly its readers."""
    graphs = list(root.with_subgraphs())
    home = {v: g for g in graphs for v in defined_values(g)}
    users: dict[Value, set[Op]] = {v: set() for v in home}
    for g in graphs:
        visible = set(g.with_enclosing())
        for v, user in ((v, op) for op in g.ops() for v in op.inputs if v is not None):
            if home.get(v) not in visible:
                raise GraphError(f"{v.name} is read by {user.label}, but not defined in any graph")
            users[v].add(user)
        for v in g.outputs:
            if home.get(v) not in visible:
                raise GraphError(f"output {v.name} is gone")
            if g.owner is not None and home[v] is not g:
                users[v].add(g.owner)
    for v, expected in users.items():
        known = set(v.consumers)
        for op in known ^ expected:
            state = "is listed as a consumer of, but does not read," if op in known else "is not listed, but reads"
            raise GraphError(f"{op.label} {state} {v.name}")


def is_counted(op: Op) -> bool:
    """Whether an op counts as a node in reports; Constant ops do not, because they are like initializers."""
    return op.type != "Constant" or bool(op.domain)


def total_op_count(graph: Graph) -> int:
    """The number of ops in a graph and its subgraphs, including Constant ops."""
    return sum(map(len, graph.with_subgraphs()))


def all_constants(graph: Graph) -> Iterator[Value]:
    """Yield the constants of a graph and its subgraphs: initializers and outputs of Constant ops."""
    for g in graph.with_subgraphs():
        yield from g.initializers
        for op in g.ops("Constant"):
            yield from op.outputs


def constant_bytes(graph: Graph) -> int:
    """The bytes of the constants in a graph and its subgraphs."""
    return sum(v.tensor.nbytes for v in all_constants(graph) if v.tensor is not None)


def subgraphs_by_attribute(op: Op) -> dict[str, Graph]:
    """The subgraphs of an op by attribute; the subgraphs in a list are numbered."""
    found: dict[str, Graph] = {}
    for name, value in op.attrs.items() if op.subgraphs else ():
        if isinstance(value, Graph):
            found[name] = value
        elif isinstance(value, list):
            entries = cast("list[object]", value)
            found.update((f"{name}[{i}]", g) for i, g in enumerate(entries) if isinstance(g, Graph))
    return found
