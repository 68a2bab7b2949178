"""What graphs have in common, and what the file said about each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import onnx

from ..errors import NoFixpoint
from .expressions import SymInt, Unknown, from_atom
from .mutation_log import MutationLog, ReplacementLog
from .op import Op
from .tensor import Tensor
from .values import Value

if TYPE_CHECKING:
    from .graph import Graph

FRESH_NAME_MARK = "_pw"  # before the number of each name made here


@dataclass(slots=True)
class GraphContext:
    """The state of a graph and all its subgraphs."""

    opsets: dict[str, int]
    ir_version: int
    infer: Callable[[Op], None] = lambda _: None
    weight_bytes: int = 0  # of all constants, as loaded
    mutation_count: int = 0  # grows with every mutation
    mutation_limit: int | None = None  # the version past which a pass is taken to be without end
    inference_epoch: int = 0  # grows when inference may come to know more than before
    root: Graph | None = None
    reserved_names: set[str] | None = None  # that might be made again; gathered when the first new one is wanted
    fresh_name_count: int = 0
    unknown_count: int = 0
    interned_tensors: dict[bytes, Tensor] = field(default_factory=dict[bytes, Tensor])  # small ones made by rewrites
    replacement_log: ReplacementLog | None = None  # kept where a name map is wanted
    mutation_log: MutationLog | None = None  # kept where changes are to be weighed
    functions: Sequence[onnx.FunctionProto] = ()  # local ones that are called as they are

    @property
    def initializers_are_inputs(self) -> bool:
        """Before IR version 4 every initializer had to be an input too, and onnxruntime refuses to override it."""
        return self.ir_version < 4

    def count_mutation(self) -> None:
        """Note a mutation. Raises NoFixpoint past the ceiling."""
        self.mutation_count += 1
        if self.mutation_limit is not None and self.mutation_count > self.mutation_limit:
            self.mutation_limit = None
            raise NoFixpoint("it keeps changing the graph, far more often than there is anything in it")

    def reinfer(self, op: Op) -> None:
        """Let an op tell what it knows of outputs that another one made before."""
        op.inferred_epoch = -1
        self.infer(op)

    def new_unknown(self, *, lower_bound: int | None = 0, tentative: bool = False) -> SymInt:
        """A whole number of which nothing is known but its `lower_bound`: an extent that nobody named, an element."""
        self.unknown_count += 1
        return from_atom(Unknown(self.unknown_count, lower_bound=lower_bound, tentative=tentative))

    def reserve_names(self, names: Iterable[str]) -> None:
        """Keep those of the model's names that a new one could be equal to."""
        self.reserved_names = {name for name in names if FRESH_NAME_MARK in name}

    def fresh_name(self, stem: str) -> str:
        """A name that nothing bears. What was made from a name that was made carries one number, not two."""
        stem = stem.partition(FRESH_NAME_MARK)[0]
        taken = self.reserved_names or ()
        while True:
            self.fresh_name_count += 1
            name = f"{stem}{FRESH_NAME_MARK}{self.fresh_name_count}"
            if name not in taken:
                return name


@dataclass(slots=True)
class Declarations:
    """What the file said about a graph besides its ops and tensors; written back as it was."""

    header: onnx.GraphProto  # name, doc string, metadata, annotations
    inputs: list[tuple[Value, bytes]] = field(default_factory=list[tuple[Value, bytes]])
    outputs: list[bytes] = field(default_factory=list[bytes])
    initializers: list[Value] = field(default_factory=list[Value])  # initializers and defaults, in order
    value_infos: list[tuple[Value | None, bytes]] = field(default_factory=list[tuple[Value | None, bytes]])
