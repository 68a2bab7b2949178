"""A model that computes the rows of a batch one by one with the original; a converted batch must equal it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import compose, helper, numpy_helper

from ..errors import UnverifiableError
from .batch import BatchPlan, ResultRows

FIRST_WITH_SCAN = 9  # the first opset whose Scan has no batch axis
ROW, STACKED = "row/", "stacked/"


def row_by_row(original: onnx.ModelProto, plan: BatchPlan) -> onnx.ModelProto:
    """The model whose Scan runs the `original` for each row, with the inputs and outputs of the converted model.

    An original for several rows gets each row in the first place, followed by the rows after it. Raises
    UnverifiableError if this cannot be expressed at the opset of the model.
    """
    if max(o.version for o in original.opset_import if o.domain in {"", "ai.onnx"}) < FIRST_WITH_SCAN:
        raise UnverifiableError(f"rows are compared by a Scan of opset {FIRST_WITH_SCAN}: raise the opset of the model")
    weights = {t.name for t in original.graph.initializer}
    inside = onnx.GraphProto(name="row", node=original.graph.node, output=original.graph.output)
    inside.value_info.extend(v for v in original.graph.value_info if v.name not in weights)
    given = [v for v in original.graph.input if v.name not in weights]
    inside.input.extend(v for v in given if v.name in plan.inputs)
    body = compose.add_prefix_graph(inside, ROW, rename_initializers=False)
    _read_outside(body, {ROW + v.name: v.name for v in given if v.name not in plan.inputs})
    del body.output[:]
    body.output.extend(_of_rank(v, ROW + v.name) for v in original.graph.output)
    nodes = _Nodes(plan)
    scanned = [nodes.add("Gather", [name, nodes.indices]) for name in plan.inputs]
    names = [v.name for v in original.graph.output]
    nodes.add("Scan", scanned, [STACKED + name for name in names], body=body, num_scan_inputs=len(scanned))
    for name in names:
        nodes.join(name, plan.outputs.get(name))
    inputs, outputs = (
        [helper.make_tensor_value_info(v.name, v.type.tensor_type.elem_type, None) for v in values]
        for values in (given, original.graph.output)
    )
    graph = helper.make_graph(nodes.nodes, "rows", inputs, outputs, [*original.graph.initializer, *nodes.constants])
    graph.sparse_initializer.extend(original.graph.sparse_initializer)
    made = helper.make_model(graph, opset_imports=original.opset_import, functions=original.functions)
    made.ir_version = max(original.ir_version, 4)  # the first version in which initializers need not be inputs
    return made


def _of_rank(value: onnx.ValueInfoProto, name: str) -> onnx.ValueInfoProto:
    """The declaration of a value with the same type and rank, which Scan requires of its results."""
    tensor = value.type.tensor_type
    return helper.make_tensor_value_info(name, tensor.elem_type, [None] * len(tensor.shape.dim))


def _read_outside(graph: onnx.GraphProto, names: Mapping[str, str]) -> None:
    """Let the nodes of a body read values of the enclosing graph."""
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        for a in node.attribute:
            for inner in (*a.graphs, *([a.g] if a.HasField("g") else [])):
                _read_outside(inner, names)


class _Nodes:
    """The nodes around the Scan, with operators that have the same form at all opsets."""

    def __init__(self, plan: BatchPlan) -> None:
        """Compute the number of rows, and for each row the indices of the rows that the original gets."""
        self.size = plan.size
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.count = self.add("Gather", [self.add("Shape", [plan.inputs[0]]), self.const([0])])
        one = numpy_helper.from_array(np.array([1], np.int64))
        places = self.add("NonZero", [self.add("ConstantOfShape", [self.count], value=one)])
        ahead = self.add("Add", [self.add("Reshape", [places, self.const([-1, 1])]), self.const(range(self.size))])
        whole = self.add("Mul", [self.add("Div", [ahead, self.count]), self.count])
        self.indices = self.add("Sub", [ahead, whole])

    def add(self, op_type: str, inputs: Sequence[str], outputs: Sequence[str] = (), **attrs: Any) -> str:
        """Add a node; returns its first output."""
        outputs = outputs or [f"rows/{len(self.nodes)}"]
        self.nodes.append(helper.make_node(op_type, inputs, outputs, **attrs))
        return outputs[0]

    def const(self, numbers: Any) -> str:
        """The name of a constant."""
        self.constants.append(numpy_helper.from_array(np.array(numbers, np.int64), f"rows/c{len(self.constants)}"))
        return self.constants[-1].name

    def join(self, name: str, rows: ResultRows | None) -> None:
        """Compute an output from the results of all rows, or, without `rows`, from the first result."""
        stacked = STACKED + name
        if rows is None:
            self.add("Gather", [stacked, self.const(0)], [name])
            return
        if rows.axis is None:
            self.add("Identity", [stacked], [name])
            return
        if not isinstance(rows.outer, int):
            raise UnverifiableError(f"the rows of {name} are behind {rows.outer} of its elements")
        shape = self.add("Shape", [stacked])
        dims = [self.add("Gather", [shape, self.const([i + 1])]) for i in range(rows.rank)]
        before = self.const([rows.outer])
        for dim in dims[: rows.axis]:
            before = self.add("Mul", [before, dim])
        apart = self.add("Concat", [self.count, before, self.const([self.size]), self.const([-1])], axis=0)
        first = self.add("Gather", [self.add("Reshape", [stacked, apart]), self.const([0])], axis=2)
        together = self.add("Transpose", [first], perm=[1, 0, 2, 3])
        row = self.add("Div", [dims[rows.axis], self.const([self.size])])
        dims[rows.axis] = self.add("Mul", [row, self.count])
        self.add("Reshape", [together, self.add("Concat", dims, axis=0)], [name])
