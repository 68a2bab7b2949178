"""Operators as `onnx.reference` computes them, where it is right in each version and computes in float64.

Operators on strings and on signals are declared here.
"""

from __future__ import annotations

from typing import Any

import onnx
from onnx import helper

from .declaration import Family, T
from .element_types import Array


def cast(array: Array, to: int, *, saturate: bool = True) -> Array:
    """`array` with elements of another type (operator Cast)."""
    node = helper.make_node("Cast", ["x"], ["y"], to=to, saturate=int(saturate))
    return run_node(node, onnx.defs.onnx_opset_version(), array)[0]


def run_node(node: onnx.NodeProto, version: int, *inputs: Any) -> tuple[Any, ...]:
    """The outputs of a node of the standard domain or of ai.onnx.ml."""
    from onnx.reference import ReferenceEvaluator  # noqa: PLC0415 - seldom needed and slow to import

    if node.domain:
        from onnx.reference.ops.aionnxml import load_op as load_ml_op  # noqa: PLC0415 - as above

        operator: Any = load_ml_op(node.domain, node.op_type, version)
    else:
        from onnx.reference.ops import load_op  # noqa: PLC0415 - as above

        operator = load_op(node.domain, node.op_type, version)
    settings: dict[str, Any] = {
        "log": "{} {}".format,
        "opsets": {node.domain: version},
        "verbose": 0,
        "new_ops": None,
        "evaluator_cls": ReferenceEvaluator,
    }
    return operator(node, settings).run(*inputs)


def by_reference(*inputs: Any, node: onnx.NodeProto, version: int) -> tuple[Any, ...]:
    """The outputs of the operator of a node: the meaning of operators that are evaluated here."""
    return run_node(node, version, *inputs)


REFERENCE = Family()
REFERENCE.declare("RegexFullMatch", T.SAME_SHAPE, by_reference)
REFERENCE.declare("StringConcat", T.SAME_DTYPE | T.LINEAR_TIME, by_reference)
REFERENCE.declare("StringNormalizer", T.SAME_DTYPE | T.DATA_DEPENDENT | T.JUMPS | T.LINEAR_TIME, by_reference)
REFERENCE.declare("StringSplit", T.SAME_DTYPE | T.DATA_DEPENDENT | T.JUMPS, by_reference)
REFERENCE.declare("TfIdfVectorizer", meaning=by_reference)
REFERENCE.declare("BlackmanWindow HammingWindow HannWindow", T.LINEAR_TIME, by_reference, roles={0: "extent"})
REFERENCE.declare("DFT", T.SAME_DTYPE, by_reference, roles={1: "extent", 2: "axes"})
REFERENCE.declare("MelWeightMatrix", meaning=by_reference, roles={0: "extent", 1: "extent"})
REFERENCE.declare("STFT", T.SAME_DTYPE, by_reference, roles={1: "extent", 3: "extent"})
