"""If, Loop and Scan: what they give has the types of what their bodies give back.

Lets values learn their types, shapes and elements, op by op, when someone asks, and never twice for the same facts.

The commonest operators are done here, with symbolic dims; all others by the inference functions of their ONNX schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import onnx

from ..errors import Declined
from ..ir.dims import Dim, Elements, Shape, is_open
from ..ir.expressions import Expr, size_of
from ..ir.op import Op
from ..ir.values import Value
from .broadcasting import broadcast, product_shape
from .data_movement_shapes import MOVEMENT
from .element_inference import UNWIELDY, elements_of, is_followed
from .schema_inference import learn_from_schema
from .window_shapes import conv_shape, conv_transpose_shape, pool_shape


def learn_from_bodies(op: Op) -> None:
    """Let the outputs of an op with subgraphs learn what those tell of them."""
    if op.type == "If" and len(op.subgraphs) == 2:
        for out, a, b in zip(op.outputs, *(sub.outputs for sub in op.subgraphs), strict=False):
            if a.stated[0] == b.stated[0]:
                out.conclude(a.stated[0], _agreed(a.stated[1], b.stated[1]))
    elif op.type in {"Loop", "Scan"}:
        results = op.subgraphs[0].outputs[1 if op.type == "Loop" else 0 :]
        for out, v in zip(op.outputs, results, strict=False):
            out.conclude(v.stated[0], None)


def _agreed(a: Shape | None, b: Shape | None) -> Shape | None:
    if a is None or b is None or len(a) != len(b):
        return None
    return tuple(x if x == y else None for x, y in zip(a, b, strict=True))


Facts = tuple[int, Shape | None]

SAME_AS_INPUT = frozenset({
    "Abs", "Acos", "Asin", "Atan", "Ceil", "Celu", "Clip", "Cos", "Cosh", "Dropout", "Elu", "Erf", "Exp", "Floor",
    "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "LogSoftmax", "Mish", "Neg", "Not", "PRelu",
    "Reciprocal", "Relu", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softmax", "Softplus", "Softsign", "Sqrt",
    "Tan", "Tanh", "ThresholdedRelu",
})  # fmt: skip
BROADCAST = frozenset({"Add", "And", "Div", "Mod", "Mul", "Or", "Pow", "Sub", "Xor", "Max", "Min", "Sum", "Mean"})
BROADCAST_TO_BOOL = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
BROADCASTS_SINCE = 8  # the variadic ones were the last to get multidirectional broadcasting
WINDOWS: dict[str, Callable[[Op], Shape | None]] = {
    "Conv": conv_shape,
    "ConvTranspose": conv_transpose_shape,
    **dict.fromkeys(("AveragePool", "LpPool"), pool_shape),
}
COUNTS = frozenset({"NonZero", "Shape", "Size"})
# What these give is decided by the data; no rewrite will tell more of it.
DECIDED_BY_DATA = frozenset({
    "ArgMax", "ArgMin", "Compress", "NonMaxSuppression", "NonZero", "StringSplit", "TopK", "Unique",
})  # fmt: skip


def infer(op: Op) -> None:
    """Let the outputs of `op`, and of all it depends on, learn what can be known. O(ops not yet asked)."""
    now = op.graph.shared.facts
    stack = [op]
    while stack:
        here = stack[-1]
        waiting = [] if here.inferred_at == now else [p for p in _feeders(here) if p.inferred_at != now]
        if waiting:
            stack += waiting
            continue
        stack.pop()
        if here.inferred_at != now:
            is_new, here.inferred_at = here.inferred_at < 0, now
            before = [(v.stated[1], v.elements) for v in here.outputs] if is_new else []
            _learn(here)
            if any(_says_more(v, *told) for v, told in zip(here.outputs, before, strict=False)):
                op.graph.shared.facts += 1  # the op took another's place, and others have read what that one said


def _says_more(v: Value, shape: Shape | None, elements: Elements | None) -> bool:
    """Whether something that was given a name until more is known of it is better known now."""
    found = (*(v.stated[1] or ()), *(v.elements or ()))
    return any(isinstance(x, Expr) and is_open(x) and x not in found for x in (*(shape or ()), *(elements or ())))


def _feeders(op: Op) -> Iterator[Op]:
    """The ops whose answers `op` needs and that still have something to learn."""
    results = (v for sub in op.subgraphs for v in sub.outputs)
    for v in (*op.inputs, *results):
        maker = v.producer if v is not None and v.tensor is None else None
        if maker is not None and v is not None and (maker.inferred_at < 0 or not v.is_settled):
            yield maker


def _learn(op: Op) -> None:
    spec = op.schema
    if spec is None:
        pass
    elif op.subgraphs:
        learn_from_bodies(op)
    elif op.domain or not _learned_here(op, spec):
        learn_from_schema(op, spec)
    for v in op.outputs:
        _name_unknowns(op, v)
    if spec is not None and not op.domain:
        _learn_elements(op)


def _learned_here(op: Op, spec: onnx.defs.OpSchema) -> bool:
    """Whether types and shapes of all outputs could be told with what is known here."""
    try:
        found = _known_operator(op, spec)
    except Declined:
        return False
    if len(found) < len(op.outputs) or any(shape is None for _, shape in found):
        return False
    for v, (dtype, shape) in zip(op.outputs, found, strict=False):
        v.conclude(dtype, shape and tuple(d if d is None or size_of(d) <= UNWIELDY else None for d in shape))
    return True


def _known_operator(op: Op, spec: onnx.defs.OpSchema) -> list[Facts]:
    """Type and shape of the outputs, for the operators done here; nothing for all others."""
    known = [v.stated for v in op.inputs if v is not None]
    if len(known) < spec.min_input or not known or any(v is not None and v.type is not None for v in op.inputs):
        return []
    dtype, shape = known[0]
    if op.type in MOVEMENT:
        return [(_moved_type(op, dtype), s) for s in MOVEMENT[op.type](op)]
    if len(op.outputs) != 1 or op.version < 1:
        return []
    if op.type in SAME_AS_INPUT:
        return [known[0]]
    if op.type in WINDOWS:
        return [(dtype, WINDOWS[op.type](op))]
    if op.type == "MaxPool":
        return [(dtype, pool_shape(op))]
    if op.type == "MatMul":
        return [(dtype, product_shape(shape, known[1][1]))]
    return _broadcast(op, known) if op.graph.opsets.get("", 0) >= BROADCASTS_SINCE else []


def _moved_type(op: Op, dtype: int) -> int:
    """The element type of what an op that moves elements gives."""
    if op.type in COUNTS:
        return onnx.TensorProto.INT64
    if op.type != "ConstantOfShape":
        return dtype
    fill = op.attr("value")
    return onnx.TensorProto.FLOAT if fill is None else fill.dtype


def _broadcast(op: Op, known: list[Facts]) -> list[Facts]:
    if op.type in BROADCAST:
        return [(known[0][0], broadcast([s for _, s in known]))]
    if op.type in BROADCAST_TO_BOOL:
        return [(onnx.TensorProto.BOOL, broadcast([s for _, s in known]))]
    if op.type == "Where" and len(known) == 3:
        return [(known[1][0], broadcast([s for _, s in known]))]
    return []


def _name_unknowns(op: Op, value: Value) -> None:
    """Let each dim that nothing is known of be a number of its own."""
    shape = value.stated[1]
    if shape is None or None not in shape:
        return
    shared, tentative = op.graph.shared, op.type not in DECIDED_BY_DATA
    named: list[Dim] = [shared.unknown(tentative=tentative) if d is None else d for d in shape]
    value.conclude(0, tuple(named))


def _learn_elements(op: Op) -> None:
    """What is known of elements; each that is not is a number of its own."""
    followed = [v for v in op.outputs if v.tensor is None and is_followed(v)]
    if not followed:
        return
    found = dict(zip(op.outputs, elements_of(op), strict=False))
    shared, tentative = op.graph.shared, op.type not in DECIDED_BY_DATA
    for v in followed:
        shape = v.stated[1]
        size = int(str(shape[0])) if shape else 1
        known = found.get(v, ())
        if len(known) != size:
            known = v.elements if v.elements is not None else [None] * size
        v.elements = tuple(shared.unknown(least=None, tentative=tentative) if x is None else x for x in known)
