"""What graphs have in common, and what the file said about each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import onnx

from ..errors import NoFixpoint
from .expressions import Known, Unknown, atom
from .mutation_log import Moves, Trace
from .op import Op
from .tensor import Tensor
from .values import Value

if TYPE_CHECKING:
    from .graph import Graph

MARK = "_pw"  # before the number of each name made here


@dataclass(slots=True)
class Shared:
    """The state of a graph and all its subgraphs."""

    opsets: dict[str, int]
    ir_version: int
    infer: Callable[[Op], None] = lambda _: None
    weight_bytes: int = 0  # of all constants, as loaded
    version: int = 0  # grows with every mutation
    ceiling: int | None = None  # the version past which a pass is taken to be without end
    facts: int = 0  # grows when inference may come to know more than before
    root: Graph | None = None
    names: set[str] | None = None  # that might be made again; gathered when the first new one is wanted
    made: int = 0
    unknowns: int = 0
    tensors: dict[bytes, Tensor] = field(default_factory=dict[bytes, Tensor])  # small ones made by rewrites
    trace: Trace | None = None  # kept where a name map is wanted
    moves: Moves | None = None  # kept where changes are to be weighed
    functions: Sequence[onnx.FunctionProto] = ()  # local ones that are called as they are

    @property
    def initializers_are_inputs(self) -> bool:
        """Before IR version 4 every initializer had to be an input too, and onnxruntime refuses to override it."""
        return self.ir_version < 4

    def moved(self) -> None:
        """Note a mutation. Raises NoFixpoint past the ceiling."""
        self.version += 1
        if self.ceiling is not None and self.version > self.ceiling:
            self.ceiling = None
            raise NoFixpoint("it keeps changing the graph, far more often than there is anything in it")

    def ask_again(self, op: Op) -> None:
        """Let an op tell what it knows of outputs that another one made before."""
        op.inferred_at = -1
        self.infer(op)

    def unknown(self, *, least: int | None = 0, tentative: bool = False) -> Known:
        """A whole number of which nothing is known but its `least`: an extent that nobody named, an element."""
        self.unknowns += 1
        return atom(Unknown(self.unknowns, least=least, tentative=tentative))

    def gather(self, names: Iterable[str]) -> None:
        """Keep those of the model's names that a new one could be equal to."""
        self.names = {name for name in names if MARK in name}

    def fresh_name(self, stem: str) -> str:
        """A name that nothing bears. What was made from a name that was made carries one number, not two."""
        stem = stem.partition(MARK)[0]
        taken = self.names or ()
        while True:
            self.made += 1
            name = f"{stem}{MARK}{self.made}"
            if name not in taken:
                return name


@dataclass(slots=True)
class Declarations:
    """What the file said about a graph besides its ops and tensors; written back as it was."""

    header: onnx.GraphProto  # name, doc string, metadata, annotations
    inputs: list[tuple[Value, bytes]] = field(default_factory=list[tuple[Value, bytes]])
    outputs: list[bytes] = field(default_factory=list[bytes])
    tensors: list[Value] = field(default_factory=list[Value])  # initializers and defaults, in order
    values: list[tuple[Value | None, bytes]] = field(default_factory=list[tuple[Value | None, bytes]])
