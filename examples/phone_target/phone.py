"""A target: a runtime on phones that stopped at opset 17, and normalizes layers with elementwise ops.

passes run model.onnx -o phone.onnx --plugin phone.py --pipeline phone
"""

from __future__ import annotations

from dataclasses import replace

from onnx import TensorProto
from passwright.core import Plugin
from passwright.core.ir.cost_model import CPU
from passwright.passes.pipelines import pipeline_for
from passwright.passes.targets import NEVER, OperatorSupport, Target

FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16})

PHONE = Target(
    "phone",
    "a runtime on phones, of opset 17",
    opset=17,
    operators={"LayerNormalization": NEVER, "Softmax": OperatorSupport(first=13, dtypes=FLOATS)},
    # Memory is slow there, and so is one fused kernel, by that many seconds for an element.
    costs=replace(CPU, block_bytes_per_second=4e9, strided_bytes_per_second=1e9, slow_kernels={"PRelu": 8e-9}),
)

PLUGIN = Plugin(pipelines={PHONE.name: pipeline_for(PHONE)})
