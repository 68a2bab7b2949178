"""Recurrent networks that read weights of few bits in each step.

`scan-recurrent-ops`: GRUs and LSTMs of many units as a Scan over their steps, with products of weights of 4 or 8 bits.

onnxruntime's own kernels read the weights of the state as floats in each step. For one sample, a Scan with 8 bits took
1.10 of the time of a GRU of 256 units, 0.67 of 400, 0.47 of 512 and 0.40 of 768; of an LSTM 0.98, 0.57 and 0.43 of 256,
400 and 512; with floats it took 1.05 to 1.6. DynamicQuantizeLSTM took 0.25 to 0.45, but has one range for all rows,
whereas here the result of a row does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
from msgspec import Struct
from onnx import GraphProto, TensorProto, helper

from ...core import ChangeLog, Graph, MatchFailure, Op, RewriteBuilder, Value, made_from, require
from ...core.serialization.importer import Importer
from ..support.operand_queries import Array, operand
from .weight_rounding import HUGE, Rounded, float_weights
from .weights import block_rows, product_of_bits, remembered, spec_of_weights, stored_places, weight_grid

LEAST_WEIGHTS = 400_000  # of the state: fewer are in a cache, and floats are as fast
LEAST_OPSET = 13  # before it, operators of the body had attributes in place of inputs
STATES = {"GRU": (5,), "LSTM": (5, 6)}
"""The inputs with initial states, by operator."""
UNUSUAL = ("activations", "clip", "input_forget", "layout")
"""Attributes that change the equations, or the order of the axes."""


class ScanRecurrentOps(Struct, frozen=True):
    """GRU(x, w, r) => Scan over the steps of MatMulNBits(x, w), each with MatMulNBits(state, r); so LSTM"""

    name: str = "scan-recurrent-ops"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Replace each GRU and LSTM in a change of its own. O(ops + weights)."""
        if graph.context.quantization is None:
            return 0
        ops = [op for g in graph.with_subgraphs() for op in g.ops(*STATES) if not op.domain]
        return sum(self._replace(op, change_log) for op in sorted(ops, key=lambda op: op.order_key))

    def _replace(self, op: Op, change_log: ChangeLog) -> bool:
        graph, g = op.graph, RewriteBuilder(op.graph, op)
        place = next(v.name for v in op.outputs if v.name)
        try:
            require_usual_steps(g, op)
            rounded = {(i, d): rounded_part(g, op, i, d) for i in stored_places(op) for d in range(len(weights(op, 1)))}
            change_log.require_change(self.name, place, (op,), exact=False)
        except MatchFailure as why:
            change_log.record_decline(self.name, place, str(why))
            return False
        parts = [direction(g, op, rounded, d) for d in range(len(weights(op, 1)))]
        for old, of_directions in zip(op.outputs, zip(*parts, strict=True), strict=False):
            if not graph.is_unused(old):
                axis = 1 if old is op.outputs[0] else 0
                one = len(of_directions) == 1
                graph.take_over(of_directions[0] if one else g.Concat(*of_directions, axis=axis), old)
        for new in g.added_ops:
            made_from(new, self.name, (op,))
        graph.discard((op,))
        graph.prune(reversed(g.added_ops))
        return True


def require_usual_steps(g: RewriteBuilder, op: Op) -> None:
    """Decline an op whose weights are few or computed, or whose equations no Scan of this module has."""
    w, r, bias = operand(op, 1), operand(op, 2), op.input(3)
    require(w.is_const and r.is_const and (bias is None or bias.is_const), "its weights are computed")
    least = prod(r.static_shape[1:])
    require(least >= LEAST_WEIGHTS, f"the {least} weights of its state fit into a cache as floats")
    require(w.dtype == r.dtype == TensorProto.FLOAT, "only weights of single precision were measured")
    require(g.opset >= LEAST_OPSET, f"a Scan of its steps needs opset {LEAST_OPSET}")
    require(not any(op.attr(name, 0) for name in UNUSUAL), "its steps are not the usual ones")
    require(op.type == "LSTM" or bool(op.attr("linear_before_reset", 0)), "its reset gate comes before a product")
    require(op.input(4) is None, "its sequences have lengths of their own")
    require(op.input(7) is None, "it has peepholes")


def weights(op: Op, index: int) -> Array:
    """An input with weights, in float64."""
    return float_weights(operand(op, index))


def rounded_part(g: RewriteBuilder, op: Op, index: int, d: int) -> Rounded:
    """The weights of a direction rounded, with a column for each gate and unit."""
    like, matrix = operand(op, index), weights(op, index)[d].T
    spec = spec_of_weights(g, op.type, like)
    block_rows(spec, len(matrix))
    rounded = remembered(spec, matrix, weight_grid(spec, like), None)
    largest = float(rounded.scales.max()) * (len(matrix) << spec.weight_bits)
    require(largest <= HUGE, f"{like.name} has weights so large that sums of their integers overflow")
    return rounded


def direction(g: RewriteBuilder, op: Op, rounded: Mapping[tuple[int, int], Rounded], d: int) -> list[Value]:
    """The states after all steps in one direction, (steps, 1, batch, units), and the last ones, (1, batch, units)."""
    x, w, r, units = operand(op), operand(op, 1), operand(op, 2), int(op.attr("hidden_size"))
    if (1, d) in rounded:
        inputs = product_of_bits(g, spec_of_weights(g, op.type, w), x, rounded[1, d], w)
    else:
        inputs = g.MatMul(x, g.const(np.ascontiguousarray(w.const[d].T)))
    bias = (
        np.zeros((2, w.static_shape[1]), np.float32) if op.input(3) is None else operand(op, 3).const[d].reshape(2, -1)
    )
    late = bias[1, -units:].copy() if op.type == "GRU" else None  # which the reset gate multiplies
    summed = bias.sum(axis=0) if late is None else bias.sum(axis=0) - np.pad(late, (2 * units, 0))
    steps = g.Add(inputs, g.const(summed))
    body = step_body(g, op, rounded[2, d], r, late)
    is_backward = int(op.attr("direction", "forward") == "reverse" or d == 1)
    states = [initial_state(g, x, op.input(i), d, units) for i in STATES[op.type]]
    *last, ys = g.Scan(
        *states, steps, outputs=len(states) + 1, body=body, num_scan_inputs=1,
        scan_input_directions=[is_backward], scan_output_directions=[is_backward],
    )  # fmt: skip
    return [g.Unsqueeze(ys, [1]), *(g.Unsqueeze(v, [0]) for v in last)]


def initial_state(g: RewriteBuilder, x: Value, given: Value | None, d: int, units: int) -> Value:
    """The state (batch, units) of a direction before the first step."""
    if given is not None:
        return g.Gather(given, g.const(np.array(d)), axis=0)
    dims = g.Concat(g.Gather(g.Shape(x), g.const(np.array([1])), axis=0), g.const(np.array([units])), axis=0)
    return g.ConstantOfShape(dims)


def step_body(g: RewriteBuilder, op: Op, rounded: Rounded, r: Value, late: Array | None) -> Graph:
    """The graph of a step: the next states, and the first of these again, from the states and the product of x."""
    names = [g.graph.fresh_name(op.outputs[0].name) for _ in (*STATES[op.type], "step")]
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
    graph = Importer(g.graph.context).read_graph(GraphProto(name="step", input=infos), [], [], outer=Value)
    build = RewriteBuilder(graph, op)
    h, *cells, step = graph.inputs
    product, units = product_of_bits(build, spec_of_weights(g, op.type, r), h, rounded, r), r.static_shape[2]

    def parts(v: Value, *widths: int) -> tuple[Value, ...]:
        return build.Split(v, [n * units for n in widths], axis=-1, outputs=len(widths))

    if late is not None:
        (gates, inputs), (own, hidden) = parts(step, 2, 1), parts(product, 2, 1)
        update, reset = parts(build.Sigmoid(build.Add(gates, own)), 1, 1)
        new = build.Tanh(build.Add(inputs, build.Mul(reset, build.Add(hidden, build.const(late)))))
        now = [build.Add(new, build.Mul(update, build.Sub(h, new)))]
    else:
        gates, cell = parts(build.Add(step, product), 3, 1)
        entry, out, forget = parts(build.Sigmoid(gates), 1, 1, 1)
        kept = build.Add(build.Mul(forget, cells[0]), build.Mul(entry, build.Tanh(cell)))
        now = [build.Mul(out, build.Tanh(kept)), kept]
    graph.outputs = [*now, build.Identity(now[0])]
    infos = [helper.make_tensor_value_info(v.name, TensorProto.FLOAT, None) for v in graph.outputs]
    graph.declared.outputs += [info.SerializeToString() for info in infos]
    for new in build.added_ops:
        made_from(new, "scan-recurrent-ops", (op,))
    return graph
