"""The element types that onnxruntime exchanges with NumPy."""

from __future__ import annotations

import re

# In onnxruntime's own words.
NATIVE = frozenset({
    "float", "double", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
    "string", "complex64", "complex128",
})  # fmt: skip
ELEMENT = re.compile(r"tensor\((\w+)\)")


def is_foreign(kind: str) -> bool:
    """Whether a type, as onnxruntime writes it, has elements that NumPy lacks: `tensor(bfloat16)`."""
    return not NATIVE.issuperset(ELEMENT.findall(kind))
