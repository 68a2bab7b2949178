"""`onnx.reference` with custom operators, restricted to what it computes correctly."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import onnx

from ..errors import ModelLoadError
from ..operators.reference import normalize_strings
from ..processes.custom_operators import custom_operators
from ..serialization.proto_queries import all_nodes, local_functions, opset_versions
from .python_kernels import kernel_classes, with_functions

RIGHT_IN_REFERENCE_SINCE = MappingProxyType({"BatchNormalization": 14, "Hardmax": 13, "LogSoftmax": 13, "Softmax": 13})
"""The opset version since which `onnx.reference` is correct, for operators whose meaning was different before."""


def reference_evaluator(model: onnx.ModelProto) -> Any:
    """Create a ReferenceEvaluator of a model.

    Raises ModelLoadError for operators that it computes wrongly at the model's opset, PluginError for a kernel that
    cannot be imported, and the errors of onnx.
    """
    from onnx.reference import ReferenceEvaluator  # noqa: PLC0415 - seldom needed and slow to import
    from onnx.reference.op_run import OpRun  # noqa: PLC0415 - as above

    class StringNormalizer(OpRun):  # wrong in onnx.reference
        def _run(self, x: Any, **attributes: Any) -> tuple[Any]:
            return (normalize_strings(x, **{k: v for k, v in attributes.items() if v is not None}),)

    _require_right(model)
    kernels = list[Any]()
    if (added := custom_operators()) is not None:
        model = with_functions(model, added)
        own = local_functions(model)
        kernels += (made for operator, made in kernel_classes(added.kernels).items() if operator not in own)
    return ReferenceEvaluator(model, new_ops=[StringNormalizer, *kernels])


def _require_right(model: onnx.ModelProto) -> None:
    """Raise ModelLoadError for a node that the reference computes wrongly."""
    for holder, nodes in ((model, model.graph.node), *((f, f.node) for f in model.functions)):
        version = opset_versions(holder).get("", 0)
        for node in all_nodes(nodes):
            if not node.domain and version < RIGHT_IN_REFERENCE_SINCE.get(node.op_type, 0):
                raise ModelLoadError(f"onnx.reference is wrong for {node.op_type} of opset {version}")
