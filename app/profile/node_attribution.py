"""What the nodes that onnxruntime runs stand for in the file that it was given.

Its rewrites keep the names of the values that are left, so a node does the work of the file's nodes between what it
reads and what it gives. Where a layout change or a cast hides a value, its name is in that of the node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import onnx

from ...core.serialization.proto_queries import all_nodes, named_subgraphs

INSERTED_OPS = frozenset({"ReorderInput", "ReorderOutput", "MemcpyFromHost", "MemcpyToHost"})
MAYBE_INSERTED_OPS = frozenset({"Cast", "Transpose"})
NAME_DECORATION = re.compile(
    r"^InsertedPrecisionFreeCast_|^fused |(?:_bn)?_nchwc(?=_token_\d+$|$)|_token_\d+$|/\w+Fusion/?$"
)
# What a convolution does besides, where its result loses its name.
EPILOGUE_OPS = frozenset(
    {"Add", "Sum", "BatchNormalization", "Relu", "LeakyRelu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh"}
)


@dataclass(frozen=True, slots=True)
class NodeAttribution:
    """A node as it runs, and the names of the nodes of the file that it does the work of, in their order."""

    name: str
    op: str
    file_nodes: tuple[str, ...]


def attribute_nodes(file_graph: onnx.GraphProto, optimized_graph: onnx.GraphProto) -> list[NodeAttribution]:
    """One for each node of `optimized_graph`, bodies included.

    Nodes of `file_graph` have names of their own. Linear in both.
    """
    return list(_attribute_graph(file_graph, optimized_graph))


def _attribute_graph(file_graph: onnx.GraphProto, optimized_graph: onnx.GraphProto) -> Iterator[NodeAttribution]:
    scope = _GraphAttribution(file_graph, optimized_graph)
    scope.run()
    for node, own in zip(optimized_graph.node, scope.attributed, strict=True):
        names = [file_graph.node[i].name for i in sorted(own)]
        yield NodeAttribution(node.name, node.op_type, tuple(names))
        for attribute, body in named_subgraphs(node):
            twins = (b for i in sorted(own) for a, b in named_subgraphs(file_graph.node[i]) if a == attribute)
            twin = next(twins, None)
            if twin is not None:
                yield from _attribute_graph(twin, body)
            else:
                yield from (NodeAttribution(n.name, n.op_type, tuple(names)) for n in all_nodes(body.node))


def eliminated_nodes(file_graph: onnx.GraphProto, attributions: Iterable[NodeAttribution]) -> list[str]:
    """The nodes of the file that nothing stands for: computed ahead, merged into an equal one, or left out."""
    busy = {name for s in attributions for name in s.file_nodes}
    return [n.name for n in all_nodes(file_graph.node) if n.op_type != "Constant" and n.name not in busy]


@dataclass(slots=True)
class _GraphAttribution:
    """A graph of the file beside what became of it; `found` has the file's nodes for each node that runs, by place."""

    file_graph: onnx.GraphProto
    optimized_graph: onnx.GraphProto
    attributed: list[set[int]] = field(default_factory=list[set[int]])
    producers: dict[str, int] = field(default_factory=dict[str, int])
    by_name: dict[str, int] = field(default_factory=dict[str, int])
    file_values: dict[str, str] = field(default_factory=dict[str, str])
    constant_nodes: set[int] = field(default_factory=set[int])

    def __post_init__(self) -> None:
        self.producers = {v: i for i, node in enumerate(self.file_graph.node) for v in node.output if v}
        self.by_name = {node.name: i for i, node in enumerate(self.file_graph.node)}
        self.constant_nodes = set(_constant_nodes(self.file_graph))

    def run(self) -> None:
        """Roots first, then what lies behind them, then what is left between."""
        self.file_values = self._known_file_values()
        added = [self._is_inserted(node) for node in self.optimized_graph.node]
        self._propagate_through_inserted(added)
        self.attributed = [
            set() if a else self._root_nodes(node) for node, a in zip(self.optimized_graph.node, added, strict=True)
        ]
        self._absorb_consumers(self._attributed_nodes(), lambda node: node.op_type in EPILOGUE_OPS)
        there, taken = self._available_values(), self._attributed_nodes()
        for own in self.attributed:
            own.update(self._upstream_nodes(own, there, taken))
        self._absorb_consumers(self._attributed_nodes(), lambda _: True)
        self._attribute_remaining(added)

    def _known_file_values(self) -> dict[str, str]:
        """The file's value for a value that runs, where their names tell."""
        named = ((v, self._file_value(v)) for node in self.optimized_graph.node for v in node.output if v)
        return {v: value for v, value in named if value}

    def _file_value(self, name: str) -> str:
        return (
            name if name in self.producers else next((c for c in _undecorated_names(name) if c in self.producers), "")
        )

    def _is_inserted(self, node: onnx.NodeProto) -> bool:
        """Whether onnxruntime put a node in: a type of its own, or one like nothing that the file has there."""
        if node.op_type in INSERTED_OPS:
            return True
        if node.op_type not in MAYBE_INSERTED_OPS or node.name in self.by_name:
            return False
        made = [self.producers[v] for v in node.output if v in self.producers]
        return all(self.file_graph.node[i].op_type != node.op_type for i in made)

    def _propagate_through_inserted(self, added: Sequence[bool]) -> None:
        """Let what goes into a node that was added be the value that comes out, and the other way round."""
        passed = [n for n, a in zip(self.optimized_graph.node, added, strict=True) if a and n.input and n.output]
        for node in reversed(passed):
            if node.output[0] in self.file_values:
                self.file_values.setdefault(node.input[0], self.file_values[node.output[0]])
        for node in passed:
            if node.input[0] in self.file_values:
                self.file_values.setdefault(node.output[0], self.file_values[node.input[0]])

    def _root_nodes(self, node: onnx.NodeProto) -> set[int]:
        """The nodes that give what this one gives, and the one that it is named for."""
        roots = {self.producers[self.file_values[v]] for v in node.output if v in self.file_values}
        for name in (node.name, *_undecorated_names(node.name)):
            if name in self.by_name:
                return roots | {self.by_name[name]}
            if name in self.producers and not roots:
                return {self.producers[name]}
        return roots

    def _available_values(self) -> set[str]:
        """The file's values that are there when the model runs, those computed ahead included."""
        outer = {v.name for v in self.optimized_graph.input} | {t.name for t in self.optimized_graph.initializer}
        outer |= {s.values.name for s in self.optimized_graph.sparse_initializer}
        return outer | set(self.file_values.values())

    def _upstream_nodes(self, roots: Collection[int], available: Collection[str], taken: Collection[int]) -> set[int]:
        """The nodes that `roots` depend on, as far as what is there."""
        found, ahead = set(roots), list(roots)
        while ahead:
            for value in names_read(self.file_graph.node[ahead.pop()]):
                i = self.producers.get(value, -1)
                if (
                    i >= 0
                    and i not in found
                    and i not in taken
                    and value not in available
                    and i not in self.constant_nodes
                ):
                    found.add(i)
                    ahead.append(i)
        return found

    def _attributed_nodes(self) -> set[int]:
        return {i for own in self.attributed for i in own}

    def _absorb_consumers(self, taken: set[int], is_absorbed: Callable[[onnx.NodeProto], bool]) -> None:
        """Give nodes that are left to the one before them whose result has no name of the file any more.

        The last one first: it is that which a sum of two results is merged into.
        """
        readers = _consumers(self.file_graph)
        for node, own in zip(reversed(self.optimized_graph.node), reversed(self.attributed), strict=True):
            ahead = [] if any(v in self.file_values for v in node.output) else list(own)
            while ahead:
                after = [j for v in self.file_graph.node[ahead.pop()].output for j in readers.get(v, ())]
                if len(after) == 1 and after[0] not in taken and is_absorbed(self.file_graph.node[after[0]]):
                    taken.add(after[0])
                    own.add(after[0])
                    ahead.append(after[0])

    def _attribute_remaining(self, added: Sequence[bool]) -> None:
        """Let a node of which nothing is known, as of a function's body, stand for what it is on the way to."""
        readers = _consumers(self.optimized_graph)
        reached: dict[int, set[int]] = {}
        for i in reversed(range(len(self.attributed))):
            after = {r for v in self.optimized_graph.node[i].output for j in readers.get(v, ()) for r in reached[j]}
            if not self.attributed[i] and not added[i]:
                self.attributed[i] = after
            reached[i] = self._result_nodes(i) or after

    def _result_nodes(self, i: int) -> set[int]:
        """Of what a node stands for, the nodes that give its results; all of it where that is not known."""
        return {
            self.producers[self.file_values[v]] for v in self.optimized_graph.node[i].output if v in self.file_values
        } or self.attributed[i]


def _undecorated_names(name: str) -> Iterator[str]:
    """A name without what onnxruntime puts around it."""
    while (shorter := NAME_DECORATION.sub("", name)) != name:
        name = shorter
        yield name


def _constant_nodes(graph: onnx.GraphProto) -> Iterator[int]:
    """The nodes that depend on nothing that comes in."""
    values = {t.name for t in graph.initializer} - {v.name for v in graph.input}
    for i, node in enumerate(graph.node):
        needed = names_read(node)
        if node.op_type == "Constant" or (needed and needed <= values):
            values.update(node.output)
            yield i


def _consumers(graph: onnx.GraphProto) -> dict[str, list[int]]:
    readers: dict[str, list[int]] = {}
    for i, node in enumerate(graph.node):
        for value in names_read(node):
            readers.setdefault(value, []).append(i)
    return readers


def names_read(node: onnx.NodeProto) -> set[str]:
    """The values that a node takes in, those that its bodies take from around them included."""
    values = {v for v in node.input if v}
    for _, body in named_subgraphs(node):
        inner = {v.name for v in body.output} | {v for n in body.node for v in names_read(n)}
        own = {v for n in body.node for v in n.output} | {v.name for v in body.input}
        values |= inner - own - {t.name for t in body.initializer}
    return values
