"""What the nodes that onnxruntime runs stand for in the file that it was given.

Its rewrites keep the names of the values that are left, so a node does the work of the file's nodes between what it
reads and what it gives. Where a layout change or a cast hides a value, its name is in that of the node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import onnx

from ..measure.skeleton import all_nodes, bodies

ADDED = frozenset({"ReorderInput", "ReorderOutput", "MemcpyFromHost", "MemcpyToHost"})
MAY_BE_ADDED = frozenset({"Cast", "Transpose"})
DECORATION = re.compile(
    r"^InsertedPrecisionFreeCast_|^fused |(?:_bn)?_nchwc(?=_token_\d+$|$)|_token_\d+$|/\w+Fusion/?$"
)
# What a convolution does besides, where its result loses its name.
EPILOGUES = frozenset(
    {"Add", "Sum", "BatchNormalization", "Relu", "LeakyRelu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh"}
)


@dataclass(frozen=True, slots=True)
class Standing:
    """A node as it runs, and the names of the nodes of the file that it does the work of, in their order."""

    name: str
    op: str
    stands_for: tuple[str, ...]


def standings(file: onnx.GraphProto, ran: onnx.GraphProto) -> list[Standing]:
    """One for each node of `ran`, bodies included. Nodes of `file` have names of their own. Linear in both."""
    return list(_standings(file, ran))


def _standings(file: onnx.GraphProto, ran: onnx.GraphProto) -> Iterator[Standing]:
    scope = _Scope(file, ran)
    scope.find()
    for node, own in zip(ran.node, scope.found, strict=True):
        names = [file.node[i].name for i in sorted(own)]
        yield Standing(node.name, node.op_type, tuple(names))
        for attribute, body in bodies(node):
            twins = (b for i in sorted(own) for a, b in bodies(file.node[i]) if a == attribute)
            twin = next(twins, None)
            if twin is not None:
                yield from _standings(twin, body)
            else:
                yield from (Standing(n.name, n.op_type, tuple(names)) for n in all_nodes(body))


def idle(file: onnx.GraphProto, found: Iterable[Standing]) -> list[str]:
    """The nodes of the file that nothing stands for: computed ahead, merged into an equal one, or left out."""
    busy = {name for s in found for name in s.stands_for}
    return [n.name for n in all_nodes(file) if n.op_type != "Constant" and n.name not in busy]


@dataclass(slots=True)
class _Scope:
    """A graph of the file beside what became of it; `found` has the file's nodes for each node that runs, by place."""

    file: onnx.GraphProto
    ran: onnx.GraphProto
    found: list[set[int]] = field(default_factory=list[set[int]])
    made_by: dict[str, int] = field(default_factory=dict[str, int])
    by_name: dict[str, int] = field(default_factory=dict[str, int])
    known: dict[str, str] = field(default_factory=dict[str, str])
    constant: set[int] = field(default_factory=set[int])

    def __post_init__(self) -> None:
        self.made_by = {v: i for i, node in enumerate(self.file.node) for v in node.output if v}
        self.by_name = {node.name: i for i, node in enumerate(self.file.node)}
        self.constant = set(_constant(self.file))

    def find(self) -> None:
        """Roots first, then what lies behind them, then what is left between."""
        self.known = self._known()
        added = [self._is_added(node) for node in self.ran.node]
        self._look_through(added)
        self.found = [set() if a else self._roots(node) for node, a in zip(self.ran.node, added, strict=True)]
        self._follow(self._labelled(), lambda node: node.op_type in EPILOGUES)
        there, taken = self._there(), self._labelled()
        for own in self.found:
            own.update(self._behind(own, there, taken))
        self._follow(self._labelled(), lambda _: True)
        self._guess(added)

    def _known(self) -> dict[str, str]:
        """The file's value for a value that runs, where their names tell."""
        named = ((v, self._value(v)) for node in self.ran.node for v in node.output if v)
        return {v: value for v, value in named if value}

    def _value(self, name: str) -> str:
        return name if name in self.made_by else next((c for c in _bare(name) if c in self.made_by), "")

    def _is_added(self, node: onnx.NodeProto) -> bool:
        """Whether onnxruntime put a node in: a type of its own, or one like nothing that the file has there."""
        if node.op_type in ADDED:
            return True
        if node.op_type not in MAY_BE_ADDED or node.name in self.by_name:
            return False
        made = [self.made_by[v] for v in node.output if v in self.made_by]
        return all(self.file.node[i].op_type != node.op_type for i in made)

    def _look_through(self, added: Sequence[bool]) -> None:
        """Let what goes into a node that was added be the value that comes out, and the other way round."""
        passed = [n for n, a in zip(self.ran.node, added, strict=True) if a and n.input and n.output]
        for node in reversed(passed):
            if node.output[0] in self.known:
                self.known.setdefault(node.input[0], self.known[node.output[0]])
        for node in passed:
            if node.input[0] in self.known:
                self.known.setdefault(node.output[0], self.known[node.input[0]])

    def _roots(self, node: onnx.NodeProto) -> set[int]:
        """The nodes that give what this one gives, and the one that it is named for."""
        roots = {self.made_by[self.known[v]] for v in node.output if v in self.known}
        for name in (node.name, *_bare(node.name)):
            if name in self.by_name:
                return roots | {self.by_name[name]}
            if name in self.made_by and not roots:
                return {self.made_by[name]}
        return roots

    def _there(self) -> set[str]:
        """The file's values that are there when the model runs, those computed ahead included."""
        outer = {v.name for v in self.ran.input} | {t.name for t in self.ran.initializer}
        outer |= {s.values.name for s in self.ran.sparse_initializer}
        return outer | set(self.known.values())

    def _behind(self, roots: Collection[int], there: Collection[str], taken: Collection[int]) -> set[int]:
        """The nodes that `roots` depend on, as far as what is there."""
        found, ahead = set(roots), list(roots)
        while ahead:
            for value in reads(self.file.node[ahead.pop()]):
                i = self.made_by.get(value, -1)
                if i >= 0 and i not in found and i not in taken and value not in there and i not in self.constant:
                    found.add(i)
                    ahead.append(i)
        return found

    def _labelled(self) -> set[int]:
        return {i for own in self.found for i in own}

    def _follow(self, taken: set[int], takes: Callable[[onnx.NodeProto], bool]) -> None:
        """Give nodes that are left to the one before them whose result has no name of the file any more.

        The last one first: it is that which a sum of two results is merged into.
        """
        readers = _readers(self.file)
        for node, own in zip(reversed(self.ran.node), reversed(self.found), strict=True):
            ahead = [] if any(v in self.known for v in node.output) else list(own)
            while ahead:
                after = [j for v in self.file.node[ahead.pop()].output for j in readers.get(v, ())]
                if len(after) == 1 and after[0] not in taken and takes(self.file.node[after[0]]):
                    taken.add(after[0])
                    own.add(after[0])
                    ahead.append(after[0])

    def _guess(self, added: Sequence[bool]) -> None:
        """Let a node of which nothing is known, as of a function's body, stand for what it is on the way to."""
        readers = _readers(self.ran)
        reached: dict[int, set[int]] = {}
        for i in reversed(range(len(self.found))):
            after = {r for v in self.ran.node[i].output for j in readers.get(v, ()) for r in reached[j]}
            if not self.found[i] and not added[i]:
                self.found[i] = after
            reached[i] = self._results(i) or after

    def _results(self, i: int) -> set[int]:
        """Of what a node stands for, the nodes that give its results; all of it where that is not known."""
        return {self.made_by[self.known[v]] for v in self.ran.node[i].output if v in self.known} or self.found[i]


def _bare(name: str) -> Iterator[str]:
    """A name without what onnxruntime puts around it."""
    while (shorter := DECORATION.sub("", name)) != name:
        name = shorter
        yield name


def _constant(graph: onnx.GraphProto) -> Iterator[int]:
    """The nodes that depend on nothing that comes in."""
    values = {t.name for t in graph.initializer} - {v.name for v in graph.input}
    for i, node in enumerate(graph.node):
        needed = reads(node)
        if node.op_type == "Constant" or (needed and needed <= values):
            values.update(node.output)
            yield i


def _readers(graph: onnx.GraphProto) -> dict[str, list[int]]:
    readers: dict[str, list[int]] = {}
    for i, node in enumerate(graph.node):
        for value in reads(node):
            readers.setdefault(value, []).append(i)
    return readers


def reads(node: onnx.NodeProto) -> set[str]:
    """The values that a node takes in, those that its bodies take from around them included."""
    values = {v for v in node.input if v}
    for _, body in bodies(node):
        inner = {v.name for v in body.output} | {v for n in body.node for v in reads(n)}
        own = {v for n in body.node for v in n.output} | {v.name for v in body.input}
        values |= inner - own - {t.name for t in body.initializer}
    return values
