"""Random models of the patterns of rules and of other operators, drawn by hypothesis; dims and choices shrink."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import onnx
from hypothesis import reject
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from passwright.core.errors import EvaluationError
from passwright.core.ort.backends import LoadedModel
from passwright.core.plugins.pass_registry import all_rules
from passwright.passes.pipelines import PIPELINES
from passwright.testing.models.choices import Choices, Distribution
from passwright.testing.models.dictionary import Dictionary
from passwright.testing.models.generator import PatternGenerator, PreferredType
from passwright.testing.models.model_builder import GenerationError, ModelBuilder
from passwright.testing.models.op_generators import OP_GENERATORS

OPSET = 18
EXCLUDED = ("Loop", "Sequence", "Optional")  # Loops may have no end; other values than tensors are no inputs here
PATTERNS = [
    pattern
    for rule in all_rules(PIPELINES["basic"])
    for pattern in rule.patterns
    if not any(kind in op_type for part in pattern.walk() for op_type in part.types for kind in EXCLUDED)
]
OPERANDS = Dictionary(
    operators=(
        "Relu", "Neg", "Tanh", "Sigmoid", "Abs", "Identity", "Erf", "Softplus", "Floor", "HardSigmoid", "Add", "Mul",
        "Sub", "Max", "Min", "Cast", "Dropout", "MatMul", "Transpose", "Reshape", "Squeeze", "Unsqueeze", "Concat",
        "Slice", "Split", "Gather", "ReduceMean", "ReduceMax", "Softmax", "LogSoftmax", "Conv", "ConvTranspose",
        "BatchNormalization", "Expand", "If",
    )
)  # fmt: skip
USUAL = Distribution(
    constant_operands=3, reused_values=1, extra_producers=2, overridable_constants=0, non_default_attributes=0,
    shapes_from_inputs=0, unknown_parameters=0, zero_dims=False, equal_dims=False, large_dims=0, empty_lists=0,
    repeated_indices=0, filling="various", large_halves=False,
)  # fmt: skip
LAST = 6  # values, whose shapes a pattern may have


@st.composite
def models(draw: Callable[[st.SearchStrategy[Any]], Any], patterns: tuple[int, int] = (2, 14)) -> onnx.ModelProto:
    """A valid model of a few patterns, which may read the values of earlier ones."""
    choices, builder = Choices(lambda count: draw(st.integers(0, count - 1))), ModelBuilder(OPSET)
    generator = PatternGenerator(builder, choices, OPERANDS, OP_GENERATORS, USUAL, TensorProto.FLOAT)
    x = builder.input(TensorProto.FLOAT, generator.draw_shape(2 + choices.draw_below(3)))
    builder.node("Neg", [x], {})
    for _ in range(draw(st.integers(*patterns))):
        generator.bound.clear()
        shapes = [v.known_shape or () for v in (x, *builder.node_outputs)[-LAST:]]
        with suppress(GenerationError):
            generator.generate(choices.pick(PATTERNS), PreferredType(choices.pick(shapes), TensorProto.FLOAT))
    if any(0 in (v.known_shape or ()) for v in builder.node_outputs):
        reject()  # onnxruntime computes for ever over no channels
    read = {name for node in builder.nodes for name in node.input}
    fixed = [v for v in builder.node_outputs if v.known_shape is not None]
    outputs = [v for v in fixed if v.name not in read or choices.one_in(8)] or fixed[:1]
    graph = helper.make_graph(
        builder.nodes,
        "random",
        [helper.make_value_info(v.name, v.type) for v in builder.inputs],
        [helper.make_value_info(v.name, v.type) for v in outputs],
        [numpy_helper.from_array(v.array, v.name) for v in builder.constants if v.array is not None],
    )
    model = helper.make_model(graph, opset_imports=builder.opset_imports, ir_version=10)
    feeds = {v.name: np.ones(v.shape, helper.tensor_dtype_to_np_dtype(v.dtype)) for v in builder.inputs}
    try:
        LoadedModel(model.SerializeToString()).run([v.name for v in outputs], feeds)
    except EvaluationError:
        reject()  # shape inference accepts more than kernels do
    return model
