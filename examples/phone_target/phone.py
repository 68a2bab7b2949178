"""A target: a runtime on phones that stopped at opset 17, and normalizes layers with elementwise ops.

passes run model.onnx -o phone.onnx --plugin phone.py --target phone
"""

from __future__ import annotations

from dataclasses import replace

from passwright.core import CPU, NEVER, Support, Target

PHONE = Target(
    "phone",
    "a runtime on phones, of opset 17",
    opset=17,
    operators={"LayerNormalization": NEVER, "Softmax": Support(first=13, dtypes=("float", "float16"))},
    others="standard",
    # Memory is slow there, and so is one fused kernel, by that many seconds for an element.
    costs=replace(CPU, block_bytes_per_second=4e9, strided_bytes_per_second=1e9, slow_kernels={"PRelu": 8e-9}),
)
