"""Targets: runtimes to make models for, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from msgspec import Struct, structs
from onnx import TensorProto

from ..core import QuantizationSpec, Range, Support, Target, rule_pass
from ..core.ir.cost_model import CPU
from ..core.ort.kernels import runs_on_cpu
from ..core.run.target import read_target
from .fusion import norms
from .linear import conv_axes

ORT = Target(
    "ort",
    "onnxruntime on the CPU",
    source="the kernels of the installed onnxruntime",
    others=runs_on_cpu,
    avoided={"Attention": Support(dtypes=("float16", "bfloat16"))},
    costs=replace(CPU, nonempty=frozenset()),
    last=(rule_pass(norms, "keep-norms-apart"), rule_pass(conv_axes, "lift-convs")),
)
"""onnxruntime's CPU provider.

No operator of com.microsoft is added: none was measured to be faster than standard operators (docs/onnxruntime.md).
Nor is Attention of half precision, which rounds scores to half precision even if `softmax_precision` is single: it is
2 to 20 times as inexact as the separate ops, which onnxruntime runs in single precision. Attention of other types is
added even where a size may be 0, on which its kernel fails: this pipeline gives up empty inputs for speed.
"""

LISTS = Path(__file__).parent / "target_lists"
"""The files of the other targets, each with the source of its list."""
OPENVINO_AVOIDED = {"Attention": Support(), "RotaryEmbedding": Support()}
"""Operators that take longer in OpenVINO than the ops that they replace, by benchmarks/openvino_forms.py.

Attention takes 1.1 to 1.4 times as long, RotaryEmbedding 1.4 to 1.5 times; most other operators are divided and fused
there again, and take as long as their parts.
"""
OPENVINO_COSTS = replace(
    CPU,
    op_seconds=0.25e-6,
    output_seconds=0.4e-6,
    block_bytes_per_second=50e9,
    strided_bytes_per_second=10e9,
    slow_kernels={"LpNormalization": 0.06e-9, "ReduceLogSumExp": 0.13e-9},
)
"""OpenVINO 2026.4 on a CPU in one thread: 0.55 us for an op, or nothing for an elementwise op behind another op."""
TARGET_NAMES = ("ort", "webgpu", "openvino")


def shipped_target(name: str) -> Target:
    """The target of one of `TARGET_NAMES`."""
    if name == ORT.name:
        return ORT
    listed = read_target(LISTS / f"{name}.toml")
    is_openvino = name == "openvino"
    return structs.replace(listed, avoided=OPENVINO_AVOIDED, costs=OPENVINO_COSTS) if is_openvino else listed


INTEGER_OPERATORS = frozenset({
    "Add", "Concat", "Conv", "Gemm", "GlobalAveragePool", "HardSigmoid", "HardSwish", "LeakyRelu", "MatMul", "Mul",
    "Sigmoid",
})  # fmt: skip
"""The operators that onnxruntime computes on integers, and not more slowly than between conversions to floats and back.

Softmax of 64x28x28 elements takes 1.9 times as long on integers as between conversions, AveragePool 9 times, and 1.3
times in a chain of convolutions, with a copy in place, and Where 6 times (onnxruntime 1.31, AVX2; they have no code for
VNNI). Its Softmax of integers gives 0 in place of 1 along an axis of one element.
"""


OPENVINO_INTEGER_OPERATORS = frozenset({
    "Add", "AveragePool", "Concat", "Conv", "Gemm", "GlobalAveragePool", "MatMul",
})  # fmt: skip
"""The operators that OpenVINO computes on integers and that take no longer so than in float between two of them.

A chain of convolutions takes 0.33 of the time in float32, or of bfloat16 0.6, of products 0.28, with activations of
either sign and any zero point, and scales for channels or for all. Unsigned weights are slow: convolutions take 1.0 and
products 0.46. Sigmoid, HardSwish, LeakyRelu and Mul take as long between conversions (openvino 2026.4.1, AVX512-VNNI).
"""


class QuantizationTarget(Struct, frozen=True):
    """The integer arithmetic of a processor, in an engine: see `QuantizationSpec`."""

    name: str
    description: str
    activations: int = TensorProto.UINT8
    weights: int = TensorProto.INT8
    weight_limit: int = 127
    min_channels: int = 1
    operators: frozenset[str] = INTEGER_OPERATORS
    engine: str = "onnxruntime"

    @property
    def pipeline(self) -> str:
        """The pipeline of its engine."""
        return "ort" if self.engine == "onnxruntime" else self.engine

    def spec(self, ranges: Mapping[str, Range]) -> QuantizationSpec:
        """The spec for calibrated ranges, one scale for each output channel of weights."""
        return QuantizationSpec(
            ranges, self.activations, self.weights, self.weight_limit, min_channels=self.min_channels,
            operators=self.operators,
        )  # fmt: skip


# Without VNNI, x86 adds two products of a byte and a signed byte in 16 bits, and saturates: 2 * 255 * 64 fits.
SEVEN_BITS = 64
# Of an image: a convolution of 1 to 3 channels takes 1.7 to 3.5 times as long as in float, of 4 1.2 times, of 8 0.75.
MIN_CHANNELS = 5
QUANTIZATION_TARGETS = {
    target.name: target
    for target in (
        QuantizationTarget("x86-vnni", "x86 with AVX512-VNNI or AVX-VNNI", min_channels=MIN_CHANNELS),
        QuantizationTarget(
            "x86", "x86 without VNNI: weights of 7 bits", weight_limit=SEVEN_BITS, min_channels=MIN_CHANNELS
        ),
        QuantizationTarget("arm", "ARM: signed activations", activations=TensorProto.INT8),
        QuantizationTarget(
            "openvino", "OpenVINO on x86 with VNNI", operators=OPENVINO_INTEGER_OPERATORS, engine="openvino"
        ),
        QuantizationTarget("portable", "any processor: 7 bits, which all compute exactly", weight_limit=SEVEN_BITS),
    )
}
"""By name. x86 fuses signed activations only where one op reads them; ARM fuses them everywhere."""
