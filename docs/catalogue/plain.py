"""Examples of rewrites as text: models without unused parts, with round weights."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, parser, printer
from record import Example


def simplified_models(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """The model made plainer and plainer less, itself last."""
    yield with_rounded_weights(without_unused(model))
    yield without_unused(model)
    yield model


def without_unused(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without inputs and constants that nothing reads."""
    out = onnx.ModelProto.FromString(model.SerializeToString())
    read = used_names(model.graph)
    for entries in (out.graph.input, out.graph.initializer):
        for entry in [e for e in entries if e.name not in read]:
            entries.remove(entry)
    return out


def with_rounded_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with at most one decimal in each weight."""
    out = onnx.ModelProto.FromString(model.SerializeToString())
    for tensor in out.graph.initializer:
        array = numpy_helper.to_array(tensor)
        if array.dtype.kind == "f":
            tensor.CopyFrom(numpy_helper.from_array(array.round(1) + array.dtype.type(0), tensor.name))
    return out


def to_example(model: onnx.ModelProto) -> Example:
    """The model as text on one line. Raises ParseError for content that the text form cannot hold."""
    opset = next(o.version for o in model.opset_import if not o.domain)
    text = " ".join(printer.to_text(model.graph).split())
    short = re.sub(r"(?<=\w): (?:int|float|string)s? = ", " = ", text)  # where types of attributes go without saying
    try:
        same = Example(opset, short).model() == Example(opset, text).model()
    except parser.ParseError:
        same = False
    return Example(opset, short if same else text)


def weights(model: onnx.ModelProto) -> list[np.ndarray[Any, Any]]:
    """The initializers of the main graph."""
    return [numpy_helper.to_array(t) for t in model.graph.initializer]


def operators(graph: onnx.GraphProto) -> list[str]:
    """The types of the nodes of a graph and of its bodies."""
    return [*(n.op_type for n in graph.node), *(t for g in bodies(graph) for t in operators(g))]


def used_names(graph: onnx.GraphProto) -> set[str]:
    """The names that the nodes of a graph and of its bodies read, and those of its outputs."""
    own = {*(i for n in graph.node for i in n.input), *(o.name for o in graph.output)}
    return own.union(*map(used_names, bodies(graph)))


def bodies(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    """The graphs right inside the nodes of a graph."""
    return [a.g for n in graph.node for a in n.attribute if a.type == onnx.AttributeProto.GRAPH]
