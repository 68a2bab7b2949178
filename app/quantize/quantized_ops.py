"""The quantized ops of a candidate: rule, bits, scales and errors."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec import Struct
from onnx import TensorProto

from ...core.io.model_source import model_source
from ...core.ir.dtypes import FLOATS, INTEGER_DTYPES
from ...core.ir.graph import FRESH_NAME_MARK, Graph
from ...core.ir.op import Op
from ...core.ir.tensor import element_bits
from ...core.ir.values import Value
from .candidates import replaced_operators
from .search import BuiltCandidate
from .sensitivity import ValueErrors

WIDEST = 16  # bits of a value that counts as quantized


class QuantizedOp(Struct, frozen=True):
    """The outcome for a `value` of the float model, or of the `operator` that makes it ("" for a weight).

    `bits` are those of the value and `weight_bits` those of weights, None where they stay as wide as they were; `scale`
    is the value's, `weight_scale` the greatest of the weights, None without one number for it. `error` is the power of
    the value's noise on calibration data, divided by that of the signal, and `own_error` the part that its operands do
    not bring; None where they were not measured.
    """

    value: str
    operator: str
    rule: str
    bits: int | None = None
    scale: float | None = None
    weight_bits: int | None = None
    weight_scale: float | None = None
    error: float | None = None
    own_error: float | None = None


def quantized_ops(built: BuiltCandidate, errors: ValueErrors | None = None) -> list[QuantizedOp]:
    """The changed values of a candidate in the order of the float model, weights last."""
    floats = built.builder.source.load()
    graph = model_source(built.path, inline=True).load().graph
    operators = replaced_operators(floats, built.candidate.changes)
    known = {v.name: i for i, v in enumerate(_made_values(floats.graph))}
    made = {v.name: v for v in _made_values(graph)}
    stems = {_stem(v): v for v in made.values()}
    found: list[QuantizedOp] = []
    for change in sorted(built.candidate.changes, key=lambda c: (known.get(c.place, len(known)), c.place)):
        v = made.get(change.place) or stems.get(change.place)
        inner = [] if v is None else list(_group(v, known))
        bits, scale = (None, None) if v is None else _value_width(v, inner)
        weights = [pair for op in inner for pair in _weight_widths(op)]
        scales = [s for _, s in weights if s is not None]
        found.append(
            QuantizedOp(
                change.place,
                operators.get((change.by, change.place), ""),
                change.by,
                bits,
                scale,
                min((n for n, _ in weights), default=None),
                max(scales, default=None),
                None if errors is None else errors.whole.get(change.place),
                None if errors is None else errors.own.get(change.place),
            )
        )
    return found


def _made_values(graph: Graph) -> Iterator[Value]:
    return (v for g in graph.with_subgraphs() for op in g.sorted_ops() for v in op.outputs)


def _stem(value: Value) -> str:
    """The name of the value of the float model after which a value is named."""
    return value.name.partition(FRESH_NAME_MARK)[0]


def _group(value: Value, known: Collection[str]) -> Iterator[Op]:
    """The ops that compute a value from others of the float model or their integers, backward."""
    waiting, seen, own = [value], {value.name}, _stem(value)
    while waiting:
        op = waiting.pop().producer
        if op is None:
            continue
        yield op
        for v in op.inputs:
            if v is not None and v.name not in seen and (_stem(v) == own or _stem(v) not in known):
                seen.add(v.name)
                waiting.append(v)


def _value_width(value: Value, group: list[Op]) -> tuple[int | None, float | None]:
    """The bits and the scale of a value that is quantized, or that its readers quantize; the bits of halves."""
    if not group:
        return None, None
    maker = group[0]
    if maker.type.startswith("QLinear"):  # onnxruntime's own have no inference of types
        last = 0 if maker.type == "QLinearConcat" else len(maker.inputs) - 1
        place = next((i for i in range(last, -1, -1) if _greatest(maker.input(i)) is not None), last)
        zero = maker.input(place + 1)
        return (None if zero is None else element_bits(zero.known_dtype)), _greatest(maker.input(place))
    source = maker.input(0)
    if maker.type == "DequantizeLinear" and source is not None and not source.is_const:
        return _integer_bits(maker, source), _greatest(maker.input(1))
    for op in (maker, *value.consumers):
        if op.type == "QuantizeLinear":
            return _integer_bits(op, op.outputs[0]), _greatest(op.input(1))
    narrow = source if maker.type == "Cast" and source is not None and not source.is_const else value
    is_half = narrow.known_dtype in FLOATS and element_bits(narrow.known_dtype) <= WIDEST
    return (element_bits(narrow.known_dtype) if is_half else None), None


def _integer_bits(op: Op, integers: Value) -> int | None:
    """The bits of the integers of a QuantizeLinear or DequantizeLinear, whose zero point has their type."""
    dtype = (op.input(2) or integers).known_dtype
    return element_bits(dtype) if dtype else None


def _weight_widths(op: Op) -> Iterator[tuple[int, float | None]]:
    """The bits of the weights that an op takes, and their greatest scale, where it is the operand behind them."""
    for i, v in enumerate(op.inputs):
        if v is None or v.tensor is None or len(v.tensor.dims) < 2:
            continue
        if v.known_dtype in FLOATS | INTEGER_DTYPES and element_bits(v.known_dtype) <= WIDEST:
            bits = int(op.attr("bits", 4)) if op.type == "MatMulNBits" else element_bits(v.known_dtype)
            readers = op.outputs[0].consumers if op.type == "Cast" else ()
            factors = [w for r in readers if r.type == "Mul" for w in r.inputs]
            scales = (found for w in (op.input(i + 1), *factors) if (found := _greatest(w)) is not None)
            yield bits, next(scales, None)


def _greatest(scales: Value | None) -> float | None:
    if scales is None or scales.tensor is None or scales.known_dtype != TensorProto.FLOAT or not scales.const.size:
        return None
    return float(scales.const.max())
