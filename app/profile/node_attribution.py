"""Attribution of the nodes that onnxruntime runs to the nodes of the file.

Its rewrites keep the names of the remaining values, so a node computes what the file's nodes between its inputs and
outputs compute. If a layout change or a cast renames a value, the old name is part of the new one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import onnx
from msgspec import Struct

from ...core.serialization.proto_queries import all_nodes, named_subgraphs, read_names

INSERTED_OPS = frozenset({"ReorderInput", "ReorderOutput", "MemcpyFromHost", "MemcpyToHost"})
MAYBE_INSERTED_OPS = frozenset({"Cast", "Transpose"})
NAME_DECORATION = re.compile(
    r"^InsertedPrecisionFreeCast_|^fused |(?:_bn)?_nchwc(?=_token_\d+$|$)|_token_\d+$|/\w+Fusion/?$"
)
# Ops that onnxruntime fuses into a convolution, whose result then has another name.
EPILOGUE_OPS = frozenset(
    {"Add", "Sum", "BatchNormalization", "Relu", "LeakyRelu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh"}
)


class NodeAttribution(Struct, frozen=True):
    """A node that runs, and the names of the file's nodes that it implements, in graph order."""

    name: str
    op: str
    file_nodes: tuple[str, ...]


def attribute_nodes(file_graph: onnx.GraphProto, optimized_graph: onnx.GraphProto) -> list[NodeAttribution]:
    """Attribute each node of `optimized_graph`, including bodies. O(nodes of both).

    Nodes of `file_graph` have unique names.
    """
    found: list[NodeAttribution] = []
    scope = _GraphAttribution(file_graph, optimized_graph)
    scope.run()
    for node, own in zip(optimized_graph.node, scope.attributed, strict=True):
        names = tuple(file_graph.node[i].name for i in sorted(own))
        found.append(NodeAttribution(node.name, node.op_type, names))
        for attribute, body in named_subgraphs(node):
            bodies = (b for i in sorted(own) for a, b in named_subgraphs(file_graph.node[i]) if a == attribute)
            file_body = next(bodies, None)
            if file_body is not None:
                found += attribute_nodes(file_body, body)
            else:
                found += (NodeAttribution(n.name, n.op_type, names) for n in all_nodes(body.node))
    return found


def eliminated_nodes(file_graph: onnx.GraphProto, attributions: Iterable[NodeAttribution]) -> list[str]:
    """The file's nodes to which no node is attributed: folded, merged into equal ones, or removed."""
    used = {name for a in attributions for name in a.file_nodes}
    return [n.name for n in all_nodes(file_graph.node) if n.op_type != "Constant" and n.name not in used]


class _GraphAttribution:
    """A graph of the file and its optimized form; `attributed` has the file's node indices for each node that runs.

    `file_values` maps values of the optimized graph to values of the file.
    """

    def __init__(self, file_graph: onnx.GraphProto, optimized_graph: onnx.GraphProto) -> None:
        self.file_graph, self.optimized_graph = file_graph, optimized_graph
        self.attributed: list[set[int]] = []
        self.file_values: dict[str, str] = {}
        self.producers = {v: i for i, node in enumerate(file_graph.node) for v in node.output if v}
        self.by_name = {node.name: i for i, node in enumerate(file_graph.node)}
        self.constant_nodes = set(_constant_nodes(file_graph))

    def run(self) -> None:
        """Attribute root nodes first, then nodes upstream of them, then the others."""
        for value in (v for node in self.optimized_graph.node for v in node.output if v):
            if named := next((n for n in (value, *_undecorated_names(value)) if n in self.producers), None):
                self.file_values[value] = named
        added = [self._is_inserted(node) for node in self.optimized_graph.node]
        self._propagate_through_inserted(added)
        self.attributed = [
            set() if a else self._root_nodes(node) for node, a in zip(self.optimized_graph.node, added, strict=True)
        ]
        self._absorb_consumers(self._attributed_nodes(), lambda node: node.op_type in EPILOGUE_OPS)
        available, taken = set(self.file_values.values()), self._attributed_nodes()
        available |= {v.name for v in self.optimized_graph.input} | {t.name for t in self.optimized_graph.initializer}
        available |= {s.values.name for s in self.optimized_graph.sparse_initializer}
        for own in self.attributed:
            own.update(self._upstream_nodes(own, available, taken))
        self._absorb_consumers(self._attributed_nodes(), lambda _: True)
        self._attribute_remaining(added)

    def _is_inserted(self, node: onnx.NodeProto) -> bool:
        """Whether onnxruntime inserted a node, judged by its type and the types of the file's nodes around it."""
        if node.op_type in INSERTED_OPS:
            return True
        if node.op_type not in MAYBE_INSERTED_OPS or node.name in self.by_name:
            return False
        made = [self.producers[v] for v in node.output if v in self.producers]
        return all(self.file_graph.node[i].op_type != node.op_type for i in made)

    def _propagate_through_inserted(self, added: Sequence[bool]) -> None:
        """Treat the inputs and outputs of inserted nodes as equal."""
        passed = [n for n, a in zip(self.optimized_graph.node, added, strict=True) if a and n.input and n.output]
        for node in reversed(passed):
            if node.output[0] in self.file_values:
                self.file_values.setdefault(node.input[0], self.file_values[node.output[0]])
        for node in passed:
            if node.input[0] in self.file_values:
                self.file_values.setdefault(node.output[0], self.file_values[node.input[0]])

    def _root_nodes(self, node: onnx.NodeProto) -> set[int]:
        """The file's nodes with the same outputs, and the one with the same name."""
        roots = {self.producers[self.file_values[v]] for v in node.output if v in self.file_values}
        for name in (node.name, *_undecorated_names(node.name)):
            if name in self.by_name:
                return roots | {self.by_name[name]}
            if name in self.producers and not roots:
                return {self.producers[name]}
        return roots

    def _upstream_nodes(self, roots: Collection[int], available: Collection[str], taken: Collection[int]) -> set[int]:
        """The nodes on which `roots` depend, up to available values."""
        found, ahead = set(roots), list(roots)
        while ahead:
            for value in read_names(self.file_graph.node[ahead.pop()]):
                i = self.producers.get(value, -1)
                if i >= 0 and value not in available and not any(i in s for s in (found, taken, self.constant_nodes)):
                    found.add(i)
                    ahead.append(i)
        return found

    def _attributed_nodes(self) -> set[int]:
        return {i for own in self.attributed for i in own}

    def _absorb_consumers(self, taken: set[int], is_absorbed: Callable[[onnx.NodeProto], bool]) -> None:
        """Attribute remaining nodes to a preceding node whose outputs are not values of the file.

        This is done in reverse order: a sum of two results is merged into the last one.
        """
        consumers = _consumers(self.file_graph)
        for node, own in zip(reversed(self.optimized_graph.node), reversed(self.attributed), strict=True):
            ahead = [] if any(v in self.file_values for v in node.output) else list(own)
            while ahead:
                after = [j for v in self.file_graph.node[ahead.pop()].output for j in consumers.get(v, ())]
                if len(after) == 1 and after[0] not in taken and is_absorbed(self.file_graph.node[after[0]]):
                    taken.add(after[0])
                    own.add(after[0])
                    ahead.append(after[0])

    def _attribute_remaining(self, added: Sequence[bool]) -> None:
        """Attribute unknown nodes, such as the nodes of a function's body, to the results that depend on them."""
        consumers = _consumers(self.optimized_graph)
        reached: dict[int, set[int]] = {}
        for i in reversed(range(len(self.attributed))):
            after = {r for v in self.optimized_graph.node[i].output for j in consumers.get(v, ()) for r in reached[j]}
            if not self.attributed[i] and not added[i]:
                self.attributed[i] = after
            outputs = self.optimized_graph.node[i].output
            results = {self.producers[self.file_values[v]] for v in outputs if v in self.file_values}
            reached[i] = results or self.attributed[i] or after


def _undecorated_names(name: str) -> Iterator[str]:
    """Yield a name with successively more of onnxruntime's prefixes and suffixes removed."""
    while (shorter := NAME_DECORATION.sub("", name)) != name:
        name = shorter
        yield name


def _constant_nodes(graph: onnx.GraphProto) -> Iterator[int]:
    """The nodes that do not depend on inputs."""
    values = {t.name for t in graph.initializer} - {v.name for v in graph.input}
    for i, node in enumerate(graph.node):
        needed = set(read_names(node))
        if node.op_type == "Constant" or (needed and needed <= values):
            values.update(node.output)
            yield i


def _consumers(graph: onnx.GraphProto) -> dict[str, list[int]]:
    consumers: dict[str, list[int]] = {}
    for i, node in enumerate(graph.node):
        for value in dict.fromkeys(read_names(node)):
            consumers.setdefault(value, []).append(i)
    return consumers
