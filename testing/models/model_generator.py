"""Generation of a model from a rule's pattern: its opset, its distribution of features, the graph around."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import onnx
from onnx import TensorProto

from ...core.rewriting.pattern import OpPattern
from ...core.rewriting.rules import Rule
from ..case import Case
from .choices import Choices, Key
from .dictionary import Dictionary
from .distribution import LEVELS, draw_distribution
from .enclosing_model import SYMBOLIC_ONE_IN, EnclosingModel
from .generator import DTYPES_BY_TYPE_STR as BY_NAME
from .generator import Hint, PatternGenerator
from .model_builder import GenerationError, ModelBuilder, schema
from .op_generators import OP_GENERATORS
from .variants import generate_variant

OPSETS = (18, 21, 17, 13, 20, 22, 11, 23, 9, 12, 7, 24)
DTYPES = (
    TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64, TensorProto.DOUBLE,
    TensorProto.FLOAT16, TensorProto.INT32, TensorProto.FLOAT16, TensorProto.UINT8, TensorProto.INT8, TensorProto.BOOL,
)  # fmt: skip
MODEL_WIDE_CHOICES: Mapping[Key, int] = MappingProxyType({
    ("/dtype", 0): len(DTYPES),
    ("/setting/open", 0): SYMBOLIC_ONE_IN,
    **{(f"/distribution/{field}", 0): len(levels) for field, levels in LEVELS.items()},
})  # fmt: skip
"""The model-wide choices, and the number of options of each."""
RANKS = (2, 3, 4, 1, 4, 0, 5)


def generate_case(
    rule: Rule, choices: Choices, dictionary: Dictionary, examples: Sequence[onnx.ModelProto] = ()
) -> Case:
    """A model with the pattern of `rule`, or a variant of one of `examples`.

    Raises GenerationError if the choices lead to none.
    """
    which = choices.draw_below(1 + 2 * len(examples))
    with choices.scope("dtype"):
        dtype = choices.pick(DTYPES)
    grower = PatternGenerator(ModelBuilder(1), choices, dictionary, OP_GENERATORS, draw_distribution(choices), dtype)
    if which:
        generate_variant(rule, examples[(which - 1) // 2], grower)
    else:
        grower.builder.opset = _opset(rule.pattern, dtype, choices)
        shape = grower.draw_shape(choices.pick(RANKS))
        grower.generate(rule.pattern, Hint(shape, grower.dtype))
    with choices.scope("setting"):
        return EnclosingModel(rule, grower).build_case()


def _opset(pattern: OpPattern, dtype: int, choices: Choices) -> int:
    """An opset with the operators of a pattern; if possible, one in which its root supports that type."""
    opsets = [o for o in OPSETS if _exists(pattern, o)]
    if not opsets:
        raise GenerationError(f"the pattern from {pattern.types[0]} on exists at no opset")
    return choices.pick([o for o in opsets if _can_produce(pattern, dtype, o)] or opsets)


def _can_produce(pattern: OpPattern, dtype: int, opset: int) -> bool:
    specs = (schema(t, pattern.domain, opset) for t in pattern.types)
    return any(dtype in map(BY_NAME.get, spec.outputs[0].types) for spec in specs if spec is not None)


def _exists(pattern: OpPattern, opset: int) -> bool:
    """Whether every operator of the pattern, or one of its alternatives, exists at that opset."""
    if all(schema(t, pattern.domain, opset) is None for t in pattern.types):
        return False
    return all(_exists(want, opset) for want in pattern.inputs if isinstance(want, OpPattern))
