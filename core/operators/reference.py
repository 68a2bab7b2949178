"""Operators computed by `onnx.reference`, if it is correct in all versions and computes in float64.

Operators on strings and signals are declared here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
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
    """Compute the outputs of a node's operator: the meaning of operators evaluated here."""
    return run_node(node, version, *inputs)


REFERENCE = Family()
REFERENCE.declare("RegexFullMatch", T.SAME_SHAPE, by_reference)
REFERENCE.declare("StringConcat", T.SAME_DTYPE | T.LINEAR_TIME, by_reference)
REFERENCE.declare("StringSplit", T.SAME_DTYPE | T.DATA_DEPENDENT | T.JUMPS, by_reference)
REFERENCE.declare("TfIdfVectorizer", meaning=by_reference)
REFERENCE.declare("BlackmanWindow HammingWindow HannWindow", T.LINEAR_TIME, by_reference, roles={0: "extent"})
REFERENCE.declare("DFT", T.SAME_DTYPE, by_reference, roles={1: "extent", 2: "axes"})
REFERENCE.declare("MelWeightMatrix", meaning=by_reference, roles={0: "extent", 1: "extent"})
REFERENCE.declare("STFT", T.SAME_DTYPE, by_reference, roles={1: "extent", 3: "extent"})


@REFERENCE.operator("StringNormalizer", T.SAME_DTYPE | T.DATA_DEPENDENT | T.JUMPS | T.LINEAR_TIME)
def normalize_strings(
    x: Array,
    *,
    stopwords: Sequence[str] = (),
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str = "",
) -> Array:
    """The strings of an array of shape (n) or (1, n) without stop words, in one letter case; [""] if none is left.

    As in onnxruntime, each character is converted to one character, and words are compared in the letter case of the
    result, or in lower case. `onnx.reference` also removes accents, empty strings and words within a string, compares
    some letter cases wrongly, and sets the locale of the process. Raises ValueError for other shapes, and
    NotImplementedError for Turkic locales, in which "i" has another upper case.
    """
    if locale[:2] in {"az", "tr"}:
        raise NotImplementedError(f"letter cases of the locale {locale}")
    if x.ndim not in {1, 2} or (x.ndim == 2 and len(x) != 1):
        raise ValueError(f"StringNormalizer takes shape [n] or [1, n], not {list(x.shape)}")
    is_ascii = locale in {"C", "POSIX"}

    def upper(character: str) -> str:
        found = character.upper()
        return found if len(found) == 1 else title if len(title := character.title()) == 1 else character

    def changed(text: str) -> str:
        action = upper if case_change_action == "UPPER" else lambda c: c.lower()[0]
        return "".join(c if is_ascii and not c.isascii() else action(c) for c in text)

    same = str if is_case_sensitive else changed
    dropped = {same(w) for w in stopwords}
    kept = [s for s in map(str, x.reshape(-1)) if same(s) not in dropped]
    result = kept if case_change_action == "NONE" else [changed(s) for s in kept]
    return np.array(result or [""], object).reshape(*x.shape[:-1], -1)
