"""Targets: runtimes to make models for, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field
from onnx import TensorProto

from ..core import Pass, QuantizationSpec, Range, rule_pass
from ..core.ir.cost_model import CPU, CostModel
from ..core.ir.graph import Runs
from ..core.ir.op_schemas import qualified_op_type
from ..core.ort.kernels import runs_on_cpu
from .fusion import norms
from .linear import conv_axes


class OperatorSupport(Struct, frozen=True):
    """The opsets, from `first` to `last`, and the element types for which a target runs an operator well.

    `dtypes`, of TensorProto.DataType, are the types of the first input; None for any.
    """

    first: int = 1
    last: int | None = None
    dtypes: frozenset[int] | None = None

    def covers(self, version: int, dtypes: Sequence[int]) -> bool:
        """Whether it is true of an op of that opset; an unknown type, 0, counts as supported."""
        is_version = self.first <= version and (self.last is None or version <= self.last)
        return is_version and (self.dtypes is None or not dtypes or dtypes[0] in {0, *self.dtypes})


NEVER = OperatorSupport(last=0)
"""An operator that a target does not run, or only slowly."""


class Target(Struct, frozen=True):
    """A runtime: its opset, the operators that it runs well, and what ops and moving data cost.

    `opset` is the standard opset to which models are raised, as far as all their ops can be; 0: the highest that the
    installed onnxruntime runs. `operators`, as in `Attention` or `com.microsoft.Gelu`, limits the ops that rewrites
    add: of the standard domain all but those listed are free, of other domains none. `runs`, if given, must be true of
    each as well. `costs` serve the rewrites that trade ops for moved data or for one op with a slow kernel. `last` are
    passes after the passes of `basic`.
    `fallback` is the pipeline to use where the result of this one turns out to be slower than the original
    (`passes run --check-speed`).
    """

    name: str
    description: str
    opset: int = 0
    operators: Mapping[str, OperatorSupport] = field(default_factory=dict[str, OperatorSupport])
    runs: Runs | None = None
    costs: CostModel = CPU
    last: Sequence[Pass] = ()
    fallback: str = "basic"

    def may_add(self, op_type: str, domain: str, version: int, dtypes: Sequence[int]) -> bool:
        """Whether rewrites may add an op of that operator, opset of its domain, and element types of its inputs."""
        unlisted = NEVER if domain else OperatorSupport()
        support = self.operators.get(qualified_op_type(domain, op_type), unlisted)
        return support.covers(version, dtypes) and (self.runs is None or self.runs(op_type, domain, version, dtypes))


ORT = Target(
    "ort",
    "onnxruntime on the CPU",
    operators={"Attention": OperatorSupport(dtypes=frozenset({TensorProto.FLOAT, TensorProto.DOUBLE}))},
    runs=runs_on_cpu,
    last=(rule_pass(norms, "keep-norms-apart"), rule_pass(conv_axes, "lift-convs")),
)
"""onnxruntime's CPU provider.

No operator of com.microsoft is added: none was measured to be faster than the standard ones (docs/onnxruntime.md).
Nor is Attention of half precision, which rounds scores to half precision even if `softmax_precision` is single: it is
2 to 20 times as inexact as the separate ops, which onnxruntime runs in single precision.
"""

INTEGER_OPERATORS = frozenset({
    "Add", "Concat", "Conv", "Gemm", "GlobalAveragePool", "HardSigmoid", "HardSwish", "LeakyRelu", "MatMul", "Mul",
    "Sigmoid",
})  # fmt: skip
"""The operators that onnxruntime computes on integers, and not more slowly than between conversions to floats and back.

Softmax of 64x28x28 elements takes 1.9 times as long on integers as between conversions, AveragePool 9 times, and 1.3
times in a chain of convolutions, with a copy in place, and Where 6 times (onnxruntime 1.31, AVX2; they have no code for
VNNI). Its Softmax of integers gives 0 in place of 1 along an axis of one element.
"""


class QuantizationTarget(Struct, frozen=True):
    """The integer arithmetic of a processor: see `QuantizationSpec`."""

    name: str
    description: str
    activations: int = TensorProto.UINT8
    weights: int = TensorProto.INT8
    weight_limit: int = 127
    operators: frozenset[str] = INTEGER_OPERATORS

    def spec(self, ranges: Mapping[str, Range]) -> QuantizationSpec:
        """The spec for calibrated ranges, one scale for each output channel of weights."""
        return QuantizationSpec(ranges, self.activations, self.weights, self.weight_limit, operators=self.operators)


# Without VNNI, x86 adds two products of a byte and a signed byte in 16 bits, and saturates: 2 * 255 * 64 fits.
SEVEN_BITS = 64
QUANTIZATION_TARGETS = {
    target.name: target
    for target in (
        QuantizationTarget("x86-vnni", "x86 with AVX512-VNNI or AVX-VNNI"),
        QuantizationTarget("x86", "x86 without VNNI: weights of 7 bits", weight_limit=SEVEN_BITS),
        QuantizationTarget("arm", "ARM: signed activations", activations=TensorProto.INT8),
        QuantizationTarget("portable", "any processor: 7 bits, which all compute exactly", weight_limit=SEVEN_BITS),
    )
}
"""By name. x86 fuses signed activations only where one op reads them; ARM fuses them everywhere."""
