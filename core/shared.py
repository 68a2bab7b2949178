"""What graphs have in common, and what the file said about each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import onnx

from .values import Op, Value

if TYPE_CHECKING:
    from .graph import Graph


@dataclass(slots=True)
class Shared:
    """The state of a graph and all its subgraphs."""

    opsets: dict[str, int]
    ir_version: int
    infer: Callable[[Op], None] = lambda _: None
    weight_bytes: int = 0  # of all constants, as loaded
    version: int = 0  # grows with every mutation
    facts: int = 0  # grows when inference may come to know more than before
    root: Graph | None = None
    names: set[str] | None = None  # all that are taken; gathered when the first new one is wanted
    numbers: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def initializers_are_inputs(self) -> bool:
        """Before IR version 4 every initializer had to be an input too, and onnxruntime refuses to override it."""
        return self.ir_version < 4

    def fresh_name(self, stem: str) -> str:
        """A name not yet in `names`, which it joins. O(1) however often a stem is asked for."""
        names = self.names if self.names is not None else set[str]()
        n = self.numbers.get(stem, 0)
        while (name := f"{stem}_{n}" if n else stem) in names:
            n += 1
        self.numbers[stem] = n + 1
        names.add(name)
        return name


@dataclass(slots=True)
class Declarations:
    """What the file said about a graph besides its ops and tensors; written back as it was."""

    header: onnx.GraphProto  # name, doc string, metadata, annotations
    inputs: list[tuple[Value, bytes]] = field(default_factory=list[tuple[Value, bytes]])
    outputs: list[bytes] = field(default_factory=list[bytes])
    tensors: list[Value] = field(default_factory=list[Value])  # initializers and defaults, in order
    values: list[tuple[Value | None, bytes]] = field(default_factory=list[tuple[Value | None, bytes]])
