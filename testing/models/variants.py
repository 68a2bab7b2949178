"""Variants of an example: the same nodes with other sizes, types, numbers and opsets, and other things around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference
from onnx.shape_inference import InferenceError

from ...core.errors import Declined, PassesError
from ...core.io.convert import from_onnx
from ...core.rewriting.pattern import COMMUTATIVE
from ...core.rewriting.rules import Rule
from ...core.serialization.proto_queries import opset_versions
from .choices import Choices
from .dictionary import Dictionary
from .generator import PatternGenerator
from .model_builder import GenerationError, TypedValue

MAX_OPSET_INCREASE = 4  # up to so many later than the example's
FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE})


def generate_variant(rule: Rule, example: onnx.ModelProto, generator: PatternGenerator) -> None:
    """Put a variant of `example` into the sketch. Raises Unmade where it is no model any more."""
    choices, sketch = generator.choices, generator.builder
    model = onnx.ModelProto()
    model.CopyFrom(example)
    sketch.opset = opset_versions(model)[""]
    if choices.one_in(3):
        sketch.opset += 1 + choices.draw_below(MAX_OPSET_INCREASE)
    _fix_symbolic_dims(model.graph, choices)
    if choices.one_in(3):
        _replace_float_type(model, choices.pick((TensorProto.FLOAT16, TensorProto.DOUBLE)))
        generator.add_trait("of another type")
    for node in model.graph.node:
        if node.op_type in COMMUTATIVE and len(node.input) == 2 and choices.one_in(3):
            node.input[:] = list(node.input)[::-1]
    if choices.one_in(3):
        _replace_constant_values(model.graph, choices, generator.dictionary)
    _load_into_builder(model, generator)
    matched = list(_match_outputs(rule, model))
    if not matched:
        raise GenerationError("the pattern matches nowhere in the example")
    known = {k.name: k for k in sketch.node_outputs}
    root, *inner = choices.pick(matched)
    if root not in known:
        raise GenerationError(f"nobody knows the type of {root}")
    generator.has_extra_constants = len(matched) > 1  # so that nothing is said of what may not fire
    generator.pattern_outputs = [known[n] for n in inner if n in known] + [known[root]]
    outputs = [o.name for o in model.graph.output]
    generator.last_outputs = [known[root], *(known[o] for o in outputs if o in known and o != root)]


def _fix_symbolic_dims(graph: onnx.GraphProto, choices: Choices) -> None:
    """Give each symbolic size a number, the same wherever it stands; or leave them all open."""
    sizes: dict[str, int] = {}
    stay = choices.one_in(3)
    for info in graph.input:
        for dim in info.type.tensor_type.shape.dim:
            if not dim.HasField("dim_value") and not stay:
                dim.dim_value = sizes.setdefault(dim.dim_param, choices.pick((2, 3, 1, 4, 0)))
    del graph.value_info[:]
    for info in graph.output:
        info.type.tensor_type.ClearField("shape")


def _replace_float_type(model: onnx.ModelProto, dtype: int) -> None:
    """Have floats of another type all through."""
    graph = model.graph
    for info in (*graph.input, *graph.output):
        if info.type.tensor_type.elem_type in FLOATS:
            info.type.tensor_type.elem_type = dtype
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    for tensor in (*graph.initializer, *(a.t for node in graph.node for a in node.attribute if a.HasField("t"))):
        if tensor.data_type in FLOATS:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(kind), tensor.name))


def _replace_constant_values(graph: onnx.GraphProto, choices: Choices, dictionary: Dictionary) -> None:
    """Another number in the place of one that a constant is full of, or in one of its places."""
    tensors = [t for t in graph.initializer if t.data_type in FLOATS]
    if not tensors:
        return
    tensor = choices.pick(tensors)
    array = numpy_helper.to_array(tensor).copy()
    if array.size:
        with np.errstate(over="ignore"):  # of half floats
            array.reshape(-1)[choices.draw_below(array.size) :] = dictionary.draw_number(choices)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _load_into_builder(model: onnx.ModelProto, generator: PatternGenerator) -> None:
    """Read the model into the sketch."""
    sketch = generator.builder
    sketch.domain_versions.update((domain, version) for domain, version in opset_versions(model).items() if domain)
    del model.opset_import[:]
    model.opset_import.extend(sketch.opset_imports)
    try:
        inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True).graph
    except (InferenceError, onnx.checker.ValidationError, ValueError) as e:
        raise GenerationError(str(e)) from e
    held = {t.name for t in inferred.initializer}
    sketch.nodes += inferred.node
    sketch.reserved_names |= {n for node in inferred.node for n in (*node.input, *node.output)}
    sketch.inputs += [TypedValue(i.name, i.type) for i in inferred.input if i.name not in held]
    sketch.overridable.update(i.name for i in inferred.input if i.name in held)
    for tensor in inferred.initializer:
        type_ = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        sketch.constants.append(TypedValue(tensor.name, type_, numpy_helper.to_array(tensor)))
    made = {o for node in inferred.node for o in node.output}
    infos = {i.name: i.type for i in (*inferred.value_info, *inferred.output) if i.name in made}
    sketch.node_outputs += [TypedValue(name, type_) for name, type_ in infos.items()]


def _match_outputs(rule: Rule, model: onnx.ModelProto) -> Iterator[Sequence[str]]:
    """For each match in the main graph, what the matched ops make: the root's first output, then that of the others."""
    try:
        graph = from_onnx(model).graph
        for root in list(graph.ops(*rule.pattern.types)):
            for match in rule.matches(graph, root):
                yield [op.outputs[0].name for op in match.ops]
    except (Declined, PassesError):
        return
