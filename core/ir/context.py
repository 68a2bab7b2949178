"""State shared by a graph and its subgraphs, and the declarations of each in the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import onnx

from .cost_model import CPU, CostModel
from .expressions import SymInt, Unknown, from_atom
from .mutation_log import MutationLog, ReplacementLog
from .op import Op
from .quantization_spec import QuantizationSpec
from .tensor import Tensor
from .values import Value

if TYPE_CHECKING:
    from .graph import Graph

FRESH_NAME_MARK = "_pw"  # before the number of each name made here
ValueInfo = Literal["keep", "write", "strip"]
"""The `value_info` of a written model: that of the file, all that inference knows, or none that it can infer."""
Runs = Callable[[str, str, int, Sequence[int]], bool]
"""Whether a target runs an operator, by type, domain and opset, on inputs of some element types (0: unknown)."""


@dataclass(slots=True)
class GraphContext:
    """The state of a graph and all its subgraphs."""

    opsets: dict[str, int]
    ir_version: int
    infer: Callable[[Op], None] = lambda _: None
    infer_dtype: Callable[[Value], None] = lambda _: None
    weight_bytes: int = 0  # of all constants, as loaded
    mutation_count: int = 0  # grows with every mutation
    mutation_limit: int | None = None  # the mutation count past which a pass is taken not to terminate
    folding_work: tuple[int, int] = (0, 0)  # bytes and multiplications that constant folding has taken
    inference_epoch: int = 1  # grows when inference of all ops may find more than before
    root: Graph | None = None
    reserved_names: set[str] | None = None  # names of the model that `fresh_name` might generate
    fresh_name_count: int = 0
    unknown_count: int = 0
    input_symbols: set[str] = field(default_factory=set[str])  # of the dims of graph inputs, those of bodies too
    interned_tensors: dict[bytes, Tensor] = field(default_factory=dict[bytes, Tensor])  # small ones made by rewrites
    replacement_log: ReplacementLog | None = None  # kept for name maps
    mutation_log: MutationLog | None = None  # kept where the size of each change is recorded
    functions: Sequence[onnx.FunctionProto] = ()  # local functions that are not inlined
    function_attributes: frozenset[str] = frozenset()  # to which nodes may refer, in the body of a local function
    value_info: ValueInfo = "keep"  # of an export
    runs: Runs | None = None  # whether a rewrite may add an op; None: any
    costs: CostModel = CPU  # of the target
    quantization: QuantizationSpec | None = None  # for rules that quantize; None: they decline

    @property
    def initializers_are_inputs(self) -> bool:
        """Whether every initializer is an input too, before IR version 4; onnxruntime does not let callers set it."""
        return self.ir_version < 4

    def new_unknown(self, *, lower_bound: int | None = 0, tentative: bool = False) -> SymInt:
        """A new unknown integer, such as an unnamed extent or an element; only its `lower_bound` is known."""
        self.unknown_count += 1
        return from_atom(Unknown(self.unknown_count, lower_bound=lower_bound, tentative=tentative))

    def fresh_name(self, stem: str) -> str:
        """An unused name from `stem`; the number of a generated stem is replaced, not added to."""
        stem = stem.partition(FRESH_NAME_MARK)[0]
        taken = self.reserved_names or ()
        while True:
            self.fresh_name_count += 1
            name = f"{stem}{FRESH_NAME_MARK}{self.fresh_name_count}"
            if name not in taken:
                return name


@dataclass(slots=True)
class Declarations:
    """The parts of a GraphProto besides its nodes and tensors, written back unchanged."""

    header: onnx.GraphProto  # name, doc string, metadata, annotations
    inputs: list[tuple[Value, bytes]] = field(default_factory=list[tuple[Value, bytes]])
    outputs: list[bytes] = field(default_factory=list[bytes])
    initializers: list[Value] = field(default_factory=list[Value])  # initializers and defaults, in order
    value_infos: list[tuple[Value | None, bytes]] = field(default_factory=list[tuple[Value | None, bytes]])
