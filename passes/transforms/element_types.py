"""Transforms of element types: integers and floats with fewer bits."""

from __future__ import annotations

from dataclasses import dataclass, field

from onnx import TensorProto

from ...core import Ledger, Model
from ...core.errors import UsageError
from ...core.transform.interface_types import cast_inputs, make_interface_half


@dataclass(frozen=True, slots=True)
class Int32Inputs:
    """Makes inputs of int64 int32 ones, with a Cast behind each, for callers and runtimes without int64.

    Inputs with defaults, and those that are outputs, stay as they are.
    """

    name: str = "int32-inputs"

    def transform(self, model: Model) -> int:
        """Change the inputs of the main graph. O(inputs + their uses). Raises ModelError before opset 6."""
        return cast_inputs(model, TensorProto.INT64, TensorProto.INT32)


@dataclass(frozen=True, slots=True)
class ConvertFloats:
    """Converts single precision to half, where each op bears it; what the conversion costs is not verified.

    `passes quantize --scheme half` is the same with a budget of accuracy, measured on data.
    """

    weights_only: bool = field(default=False, metadata={"doc": "store weights in 16 bits, and compute as before"})
    keep_interface: bool = field(default=True, metadata={"doc": "whether inputs and outputs stay as they are"})
    name: str = "convert-to-half"

    def __post_init__(self) -> None:
        """Raise UsageError for options that contradict each other."""
        if self.weights_only and not self.keep_interface:
            raise UsageError("weights_only computes in single precision, and so keeps the interface")

    def transform(self, model: Model) -> int:
        """Convert the ops, or the weights alone; returns how many. O(ops + weights)."""
        from ..quantization.half import ConvertToHalf, StoreWeights  # noqa: PLC0415 - seldom needed

        changes = 0 if self.keep_interface else make_interface_half(model)
        convert = StoreWeights() if self.weights_only else ConvertToHalf()
        return changes + convert.run(model.graph, Ledger())
