"""Variants of an example model, with other sizes, types, constants and opsets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference
from onnx.shape_inference import InferenceError

from ...core.errors import Declined, PassesError
from ...core.io.convert import from_onnx
from ...core.ir.dtypes import CPU_FLOATS
from ...core.rewriting.pattern import COMMUTATIVE
from ...core.rewriting.rules import Rule
from ...core.serialization.proto_queries import opset_versions
from .choices import Choices
from .dictionary import Dictionary
from .generator import PatternGenerator
from .model_builder import GenerationError, TypedValue

MAX_OPSET_INCREASE = 4  # up to so many later than the example's


def generate_variant(rule: Rule, example: onnx.ModelProto, generator: PatternGenerator) -> None:
    """Load a variant of `example` into the builder. Raises GenerationError if it is invalid."""
    choices, builder = generator.choices, generator.builder
    model = onnx.ModelProto()
    model.CopyFrom(example)
    builder.opset = opset_versions(model)[""]
    if choices.one_in(3):
        builder.opset += 1 + choices.draw_below(MAX_OPSET_INCREASE)
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
    known = {k.name: k for k in builder.node_outputs}
    root, *inner = choices.pick(matched)
    if root not in known:
        raise GenerationError(f"nobody knows the type of {root}")
    generator.has_extra_constants = len(matched) > 1  # so that nothing is said of what may not fire
    generator.pattern_outputs = [known[n] for n in inner if n in known] + [known[root]]
    outputs = [o.name for o in model.graph.output]
    generator.last_outputs = [known[root], *(known[o] for o in outputs if o in known and o != root)]


def _fix_symbolic_dims(graph: onnx.GraphProto, choices: Choices) -> None:
    """Replace each symbolic size by a number, the same at each occurrence; or keep them all."""
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
    """Replace all float types by another one."""
    graph = model.graph
    for info in (*graph.input, *graph.output):
        if info.type.tensor_type.elem_type in CPU_FLOATS:
            info.type.tensor_type.elem_type = dtype
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    for tensor in (*graph.initializer, *(a.t for node in graph.node for a in node.attribute if a.HasField("t"))):
        if tensor.data_type in CPU_FLOATS:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(kind), tensor.name))


def _replace_constant_values(graph: onnx.GraphProto, choices: Choices, dictionary: Dictionary) -> None:
    """Replace trailing elements of a constant by another number."""
    tensors = [t for t in graph.initializer if t.data_type in CPU_FLOATS]
    if not tensors:
        return
    tensor = choices.pick(tensors)
    array = numpy_helper.to_array(tensor).copy()
    if array.size:
        with np.errstate(over="ignore"):  # of half floats
            array.reshape(-1)[choices.draw_below(array.size) :] = dictionary.draw_number(choices)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _load_into_builder(model: onnx.ModelProto, generator: PatternGenerator) -> None:
    """Load the model into the builder."""
    builder = generator.builder
    builder.domain_versions.update((domain, version) for domain, version in opset_versions(model).items() if domain)
    del model.opset_import[:]
    model.opset_import.extend(builder.opset_imports)
    try:
        inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True).graph
    except (InferenceError, onnx.checker.ValidationError, ValueError) as e:
        raise GenerationError(str(e)) from e
    held = {t.name for t in inferred.initializer}
    builder.nodes += inferred.node
    builder.reserved_names |= {n for node in inferred.node for n in (*node.input, *node.output)}
    builder.inputs += [TypedValue(i.name, i.type) for i in inferred.input if i.name not in held]
    builder.overridable.update(i.name for i in inferred.input if i.name in held)
    for tensor in inferred.initializer:
        type_ = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
        builder.constants.append(TypedValue(tensor.name, type_, numpy_helper.to_array(tensor)))
    made = {o for node in inferred.node for o in node.output}
    infos = {i.name: i.type for i in (*inferred.value_info, *inferred.output) if i.name in made}
    builder.node_outputs += [TypedValue(name, type_) for name, type_ in infos.items()]


def _match_outputs(rule: Rule, model: onnx.ModelProto) -> Iterator[Sequence[str]]:
    """For each match in the main graph, the first outputs of the matched ops, that of the root first."""
    try:
        graph = from_onnx(model).graph
        for root in list(graph.ops(*rule.pattern.types)):
            for match in rule.matches(graph, root):
                yield [op.outputs[0].name for op in match.ops]
    except (Declined, PassesError):
        return
