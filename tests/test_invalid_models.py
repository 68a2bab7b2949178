"""Rewrites of models with invalid operands: axes beyond the rank, lists of other lengths, constants of other ranks."""

from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, numpy_helper
from passwright.core import Pass, from_onnx, leaves
from passwright.core.errors import PassesError
from passwright.core.plugins.pass_registry import all_rules
from passwright.core.run.pipeline_run import PipelineRun
from passwright.passes.pipelines import BUILT_IN
from record import load_examples
from tiers import slow_unless

EXAMPLES = load_examples()
PASSES = {leaf.name: leaf for p in BUILT_IN for leaf in leaves(p)}
PASSES |= {r.name: leaf for leaf in PASSES.copy().values() for r in all_rules(leaf)}
NAMES = sorted(PASSES.keys() & EXAMPLES.keys())
NUMBERS = (9, -9, 3, -4, 0, -1)
SHAPES = ((), (0,), (9,), (1, 1))
LIST_NAMES = {"axes", "perm", "split", "pads", "strides", "kernel_shape", "starts", "ends", "shape"}
OTHER_IMPORTS = (("elsewhere", 1), ("", 1), ("", onnx.defs.onnx_opset_version()))  # without schemas, or with other ones
NUMBER_NAMES = {"axis", "batch_dims", "to", "start", "end", "group", "blocksize", "num_outputs"}


def invalid_variants(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """Copies of the model with one attribute, constant, input shape or opset changed."""
    for node in model.graph.node:
        for attribute in node.attribute:
            yield from attribute_variants(model, attribute)
    for tensor in model.graph.initializer:
        array = numpy_helper.to_array(tensor)
        arrays = [np.ones(shape, array.dtype) for shape in SHAPES if shape != array.shape]
        arrays += [np.full_like(array, n) for n in NUMBERS if array.dtype.kind == "i"]
        yield from variants(model, tensor, (numpy_helper.from_array(a, tensor.name) for a in arrays))
    for info in model.graph.input:
        ranks = (onnx.helper.make_tensor_value_info(info.name, info.type.tensor_type.elem_type, s) for s in SHAPES)
        yield from variants(model, info, ranks if info.type.HasField("tensor_type") else ())
    yield from variants(model, model.opset_import[0], (onnx.helper.make_opsetid(*i) for i in OTHER_IMPORTS))


def attribute_variants(model: onnx.ModelProto, attribute: AttributeProto) -> Iterator[onnx.ModelProto]:
    """Copies of the model with another number or list of numbers."""
    name = attribute.name
    if name in NUMBER_NAMES and attribute.type == AttributeProto.INT:
        yield from variants(model, attribute, (onnx.helper.make_attribute(name, n) for n in NUMBERS))
    elif name in LIST_NAMES and attribute.type == AttributeProto.INTS:
        ints = list(attribute.ints)
        lists = ([9], [0] * 9, [9] * len(ints), [-9] * len(ints), [0] * len(ints), ints[:-1])
        yield from variants(
            model, attribute, (onnx.helper.make_attribute(name, v, attr_type=AttributeProto.INTS) for v in lists)
        )


def variants(
    model: onnx.ModelProto, part: object, replacements: Iterator[object] | tuple[()]
) -> Iterator[onnx.ModelProto]:
    """The model with each of the replacements in place of one of its parts."""
    original = type(part)()
    original.CopyFrom(part)
    for other in replacements:
        part.CopyFrom(other)
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        yield changed
    part.CopyFrom(original)


def failure(p: Pass, model: onnx.ModelProto) -> str:
    """The failure of a pass on a model that can be loaded, or of the inference of its types; or ""."""
    try:
        from_onnx(model)
    except PassesError:
        return ""
    result = PipelineRun(lambda: from_onnx(model), p, no_progress_timeout=300.0).replay(tries_export=True)
    found = result.failure
    return "" if found is None else f"{found.message} in {onnx.printer.to_text(model)}"


@pytest.mark.parametrize("name", slow_unless(NAMES[::12], NAMES))
def test_invalid_operands_are_left_alone(name: str) -> None:
    model = EXAMPLES[name].model()
    assert [f for changed in invalid_variants(model) if (f := failure(PASSES[name], changed))] == []


@pytest.mark.parametrize("step", slow_unless({12}, (12, 1)))
def test_types_of_invalid_ops_are_unknown(step: int) -> None:
    for name in NAMES[::step]:
        for changed in invalid_variants(EXAMPLES[name].model()):
            try:
                graph = from_onnx(changed).graph
            except PassesError:
                continue
            for op in graph.ops():
                assert all(v.known_dtype >= 0 for v in op.outputs)
