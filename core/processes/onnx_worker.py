"""Worker that calls onnx's native code: schema inference, version conversion and the checker.

It imports only the extension module of onnx. The whole package takes five times as long to import, and needs NumPy.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from msgspec import Struct

from ..errors import OUT_OF_MEMORY, MemoryExhausted
from .process_limits import limit_memory, prepare_to_crash
from .worker_process import Parent

IDLE_SECONDS = 60.0
BASE_MEMORY, MEMORY_FACTOR = 1 << 30, 16
"""Bytes that a call may allocate: a base, and a multiple of the bytes of its arguments."""
MAX_TYPE_BYTES = 1 << 16  # for the outputs of a node; a shape may have as many dims as a constant has elements
Answer = tuple[bool, Any]
"""True and the result of a call, or False and the message of its exception."""


class OnnxCode:
    """Functions of onnx's extension module, in this process. Models, nodes and types are serialized."""

    def __init__(self) -> None:
        self.library: Any = importlib.import_module("onnx.onnx_cpp2py_export")

    def infer_node_outputs(
        self, operator: tuple[str, str, int], node: bytes, types: Mapping[str, bytes], data: Mapping[str, bytes],
        opsets: Mapping[str, int],
    ) -> dict[str, bytes]:  # fmt: skip
        """The types of a node's outputs, by name."""
        found = self._schema(operator)._infer_node_outputs(node, types, data, {}, opsets)  # noqa: SLF001 - no other
        if sum(map(len, found.values())) > MAX_TYPE_BYTES:
            raise ValueError("the types of the outputs are too large")
        return found

    def function_body(self, operator: tuple[str, str, int], version: int, node: bytes, types: list[bytes]) -> bytes:
        """The function that defines an operator for a node with these input types; empty if there is none."""
        return self._schema(operator).get_context_dependent_function_with_opset_version(version, node, types)

    def infer_shapes(self, model: bytes, data_prop: bool) -> bytes:
        """The model with the types of its values."""
        return self.library.shape_inference.infer_shapes(model, False, False, data_prop)

    def convert_version(self, model: bytes, version: int) -> bytes:
        """The model at another opset."""
        return self.library.version_converter.convert_version(model, version)

    def check_file(self, path: str) -> None:
        """Raise the checker's error for a model file."""
        self.library.checker.check_model_path(path, False, False, False)

    def _schema(self, operator: tuple[str, str, int]) -> Any:
        """The schema of an operator, given by domain and the opset in which it was added."""
        op_type, domain, version = operator
        return self.library.defs.get_schema(op_type, version, domain)

    def answer(self, name: str, arguments: tuple[Any, ...]) -> Answer:
        """Call a function of this class. Raises MemoryError."""
        try:
            return True, getattr(self, name)(*arguments)
        except MemoryError:
            raise
        except Exception as e:  # noqa: BLE001 - errors of onnx's C++ code have no common type
            return False, str(e) or type(e).__name__


class OnnxWorker(Struct):
    """onnx's native code in this process, for its parent."""

    parent: Parent
    code: OnnxCode

    def answer(self, name: str, arguments: tuple[Any, ...], size: int, seconds: float) -> Answer:
        """Call a function with arguments of `size` bytes, for at most `seconds`."""
        limit_memory(BASE_MEMORY + MEMORY_FACTOR * size)
        self.parent.expect_within(seconds)
        try:
            return self.code.answer(name, arguments)
        except MemoryError as e:
            raise MemoryExhausted(OUT_OF_MEMORY) from e


def main() -> None:
    """Serve the parent until it ends."""
    prepare_to_crash()
    spec = find_spec("onnx")  # modules in its package become importable without the package itself
    assert spec is not None
    package = ModuleType("onnx")
    package.__path__ = list(spec.submodule_search_locations or ())
    sys.modules["onnx"] = package
    parent = Parent()
    parent.serve(OnnxWorker(parent, OnnxCode()), idle_limit=lambda: IDLE_SECONDS)
