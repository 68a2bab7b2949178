"""A whole model grown from a rule's pattern: its opset, its mood, and what stands around the pattern."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import TensorProto

from ...core.ir import schemas
from ...core.pattern import OpPattern
from ...core.rules import Rule
from ..case import Case
from .choices import Choices
from .dictionary import Dictionary
from .grower import Grower
from .makers import MAKERS
from .mood import mood
from .setting import Setting
from .site import Hint
from .sketch import Sketch, Unmade
from .variants import varied

OPSETS = (18, 21, 17, 13, 20, 22, 11, 23, 9, 12, 7, 24)
DTYPE = ("/dtype", 0)  # the choice among these
DTYPES = (
    TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64, TensorProto.DOUBLE,
    TensorProto.FLOAT16, TensorProto.INT32, TensorProto.BOOL, TensorProto.UINT8, TensorProto.INT8,
)  # fmt: skip
RANKS = (2, 3, 4, 1, 4, 0, 5)


def grown(rule: Rule, choices: Choices, words: Dictionary, examples: Sequence[onnx.ModelProto] = ()) -> Case:
    """A model that holds the pattern of `rule`, or a variant of one of `examples`.

    Raises Unmade where the choices lead to none.
    """
    which = choices.below(1 + 2 * len(examples))
    with choices.about("dtype"):
        dtype = choices.pick(DTYPES)
    grower = Grower(Sketch(1), choices, words, MAKERS, mood(choices), dtype)
    if which:
        varied(rule, examples[(which - 1) // 2], grower)
    else:
        grower.sketch.opset = _opset(rule, choices)
        shape = grower.shape_of_rank(choices.pick(RANKS))
        grower.grow(rule.pattern, Hint(shape, grower.dtype))
    with choices.about("setting"):
        return Setting(rule, grower).case()


def _opset(rule: Rule, choices: Choices) -> int:
    opsets = [o for o in OPSETS if _exists(rule.pattern, o)]
    if not opsets:
        raise Unmade(f"the pattern of {rule.name} exists at no opset")
    return choices.pick(opsets)


def _exists(pattern: OpPattern, opset: int) -> bool:
    """Whether every operator of the pattern does at that opset, or one of those that it may be."""
    if all(schemas.schema(t, pattern.domain, opset) is None for t in pattern.types):
        return False
    return all(_exists(want, opset) for want in pattern.inputs if isinstance(want, OpPattern))
