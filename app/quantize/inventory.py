"""Inventory of a candidate: quantized ops, ops in float, and weights of more than 8 bits, with reasons."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from onnx import TensorProto

from ...core.io.model_source import model_source
from ...core.ir.dtypes import FLOATS, INTEGER_DTYPES
from ...core.ir.graph import FRESH_NAME_MARK, Graph, all_constants, defined_values
from ...core.ir.op import Op
from ...core.ir.tensor import element_bits
from ...core.ir.values import Value
from ...core.operators.declaration import Trait
from ...core.operators.table import ops_with
from ...passes.quantization.half import MIN_STORED_ELEMENTS
from ...passes.quantization.weights import CHANNEL_AXES
from ...passes.support.operand_queries import varying_inputs
from ..optimize.match_report import diagnose_match
from .candidates import replaced_operators
from .report import FloatOp, HighPrecisionWeight, QuantizedOp
from .schemes import STORE_INT8_WEIGHTS, STORE_WEIGHTS
from .search import TAKEN, BuiltCandidate, Trial
from .sensitivity import ValueErrors

QUANTIZERS = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})
INTEGER_PREFIXES = ("QLinear", "QGemm", "QAttention", "ConvInteger", "MatMulInteger", "MatMulNBits", "DynamicQuantize")
"""Prefixes of operators that compute with scaled integers."""
MOVEMENTS = ops_with(Trait.MOVES_DATA)
WIDEST = 16  # bits; wider values do not count as quantized


def quantized_ops(built: BuiltCandidate, errors: ValueErrors | None = None) -> list[QuantizedOp]:
    """The changed values of a candidate in the order of the float model, followed by weights."""
    floats = built.builder.source.load()
    operators = replaced_operators(floats, built.candidate.changes)
    known = {v.name: i for i, v in enumerate(_computed_values(floats.graph))}
    computed = {v.name: v for v in _computed_values(model_source(built.path, inline=True).load().graph)}
    stems = {_stem(v): v for v in computed.values()}
    found: list[QuantizedOp] = []
    for change in sorted(built.candidate.changes, key=lambda c: (known.get(c.place, len(known)), c.place)):
        v = computed.get(change.place, stems.get(change.place))
        inner = [] if v is None else list(_group(v, known))
        bits, scale = (None, None) if v is None else _value_width(v, inner)
        weights = [pair for op in inner for pair in _weight_widths(op)]
        found.append(
            QuantizedOp(
                change.place,
                operators.get((change.by, change.place), ""),
                change.by,
                bits,
                scale,
                min((n for n, _ in weights), default=None),
                max((s for _, s in weights if s is not None), default=None),
                None if errors is None else errors.whole.get(change.place),
                None if errors is None else errors.own.get(change.place),
            )
        )
    return found


def _computed_values(graph: Graph) -> Iterator[Value]:
    return (v for g in graph.with_subgraphs() for op in g.sorted_ops() for v in op.outputs)


def _stem(value: Value) -> str:
    """The name of the float model's value from which a value's name is derived."""
    return value.name.partition(FRESH_NAME_MARK)[0]


def _group(value: Value, known: Collection[str]) -> Iterator[Op]:
    """Yield the ops that compute a value from others of the float model or their integers, in reverse order."""
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
    """The bits and the scale of a value that is quantized, directly or by its readers; the bits of halves."""
    if not group:
        return None, None
    maker = group[0]
    if maker.type.startswith("QLinear"):  # type inference does not know onnxruntime's own ops
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
    """The integer bits of a QuantizeLinear or DequantizeLinear, from the type of its zero point."""
    zero_point = op.input(2)
    dtype = (integers if zero_point is None else zero_point).known_dtype
    return element_bits(dtype) if dtype else None


def _weight_widths(op: Op) -> Iterator[tuple[int, float | None]]:
    """Yield the bits of the weights that an op reads, with their largest scale if the op has it as an operand."""
    for i, v in enumerate(op.inputs):
        if v is None or v.tensor is None or len(v.tensor.dims) < 2:
            continue
        if v.known_dtype in FLOATS | INTEGER_DTYPES and element_bits(v.known_dtype) <= WIDEST:
            bits = int(op.attr("bits", 4)) if op.type == "MatMulNBits" else element_bits(v.known_dtype)
            if op.type == "Gather" and any(r.type == "BitShift" for r in op.outputs[0].consumers):
                bits //= 2  # a byte has two integers
            readers = op.outputs[0].consumers if op.type == "Cast" else ()
            factors = [w for r in readers if r.type == "Mul" for w in r.inputs]
            scales = (found for w in (op.input(i + 1), *factors) if (found := _greatest(w)) is not None)
            yield bits, next(scales, None)


def _greatest(scales: Value | None) -> float | None:
    if scales is None or scales.tensor is None or scales.known_dtype != TensorProto.FLOAT or not scales.const.size:
        return None
    return float(scales.const.max())


def float_ops(built: BuiltCandidate) -> list[FloatOp]:
    """The ops of the float model that compute in float in a candidate, with the reason for each.

    Changed ops, and ops that only move data or run bodies, are not included; ops of which only weights were stored are.
    If a scheme's passes have no rules, these are the ops that the passes declined. Unknown types of values that
    onnxruntime's operators produce are taken from the float model.
    """
    model = model_source(built.path, inline=True).load()
    model.graph.context.quantization = built.builder.spec
    reasons = {**built.candidate.declines, **{place: reason for (_, place), reason in built.left.items()}}
    rules = built.builder.scheme.rules
    storing = {r.name for r in STORE_INT8_WEIGHTS.rules} if not {*rules} <= {*STORE_INT8_WEIGHTS.rules} else set[str]()
    storing |= built.builder.scheme.storing_sources
    changed = {c.place for c in built.candidate.changes if c.by not in storing}
    stored = {c.place for c in built.candidate.changes if c.by in storing}
    source = built.builder.source.load()
    source.graph.context.quantization = built.builder.spec
    before = list(source.graph.with_subgraphs())
    unstored = {v.name: op for g in before for op in g.ops() for v in op.outputs if v.name in stored}
    floats = {v.name for g in before for v in defined_values(g) if v.known_dtype in FLOATS}
    computed = {v.name for g in before for op in g.ops() for v in op.outputs} - changed

    def is_float(v: Value | None) -> bool:
        return v is not None and (v.known_dtype in FLOATS or (not v.known_dtype and v.name in floats))

    def reason_of_rules(op: Op) -> str:
        """The reason that a rule for the operator gives, or that no rule is for the operator.

        The rules see weights as they were before these were stored.
        """
        seen = unstored.get(op.outputs[0].name, op)
        diagnoses = (diagnose_match(r, seen) for r in rules if op.type in r.root_types and r.name not in storing)
        declined = (failure.reason for d in diagnoses for failure in d.failures)
        return next(declined, f"the scheme has no rule for {op.type}")

    found: list[FloatOp] = []
    for op in (op for g in model.graph.with_subgraphs() for op in g.sorted_ops() if op.outputs):
        if op.outputs[0].name not in computed or op.subgraphs:
            continue
        reason = next((reasons[v.name] for v in op.outputs if v.name in reasons), "") or _reason_of_clamp(op, reasons)
        computes_in_float = is_float(op.outputs[0]) and _is_arithmetic(op) and any(map(is_float, varying_inputs(op)))
        if computes_in_float if rules else reason:
            found.append(FloatOp(op.outputs[0].name, op.type, reason or reason_of_rules(op)))
    return found


def compressed_before(graph: Graph) -> int:
    """The number of ops that compute with scaled integers or read the result of a DequantizeLinear."""
    ops = (op for g in graph.with_subgraphs() for op in g.ops() if op.type not in QUANTIZERS)
    return sum(op.type.startswith(INTEGER_PREFIXES) or any(map(_is_dequantized, op.inputs)) for op in ops)


def _is_dequantized(value: Value | None) -> bool:
    return value is not None and value.producer is not None and value.producer.type == "DequantizeLinear"


def _is_arithmetic(op: Op) -> bool:
    """Whether an op does arithmetic outside quantized groups."""
    is_movement = op.type in MOVEMENTS and not op.domain
    if is_movement or op.type in {*QUANTIZERS, "Identity", "Constant"} or op.type.startswith(INTEGER_PREFIXES):
        return False
    return not all(map(_is_dequantized, varying_inputs(op)))


def _reason_of_clamp(op: Op, by_place: Mapping[str, str]) -> str:
    """The reason of an op's group, including the following clamp."""
    readers = list(op.outputs[0].consumers)
    return by_place.get(readers[0].outputs[0].name, "") if len(readers) == 1 and readers[0].outputs else ""


def kept_high_precision(built: BuiltCandidate, trials: Sequence[Trial]) -> list[HighPrecisionWeight]:
    """The float constants of a candidate, except small ones, largest first.

    `trials` are all trials of the search, including combinations of the candidate with ways to store weights.
    """
    refused = _refused_storing(built.trial, trials)
    found: list[HighPrecisionWeight] = []
    for v in all_constants(model_source(built.path, inline=True).load().graph):
        tensor = v.tensor
        if tensor is not None and v.known_dtype in FLOATS and tensor.size >= MIN_STORED_ELEMENTS:
            bits = element_bits(v.known_dtype)
            reason = _reason_of_width(v, bits, built, refused)
            found.append(HighPrecisionWeight(v.name, tensor.size * bits // 8, bits, reason))
    return sorted(found, key=lambda w: (-w.bytes, w.name))


def _refused_storing(trial: Trial, trials: Sequence[Trial]) -> str:
    """The outcomes of combining a trial with ways to store weights, except its own; "" without any."""
    base = trial.variant
    for name in STORE_WEIGHTS:
        base = base.removesuffix(name).removesuffix(", ")
    combined = {f"{base}, {name}" if base else name: name for name in STORE_WEIGHTS}
    others = (t for t in trials if t.scheme == trial.scheme and t.variant in combined and t.variant != trial.variant)
    return "; ".join(f"{combined[t.variant]}: {t.outcome}" for t in others if t.outcome != TAKEN)


def _reason_of_width(v: Value, bits: int, built: BuiltCandidate, refused: str) -> str:
    """Why a constant has more than 8 bits."""
    readers = [r for op in v.consumers for r in (op.outputs[0].consumers if op.type == "Cast" else (op,))]
    scheme = built.builder.scheme
    if any(op.type in QUANTIZERS for op in readers):
        return "the scales of quantized groups are floats"
    is_weight = any(op.type in CHANNEL_AXES and op.inputs[0] is not v for op in readers)
    if (v.tensor is not None and len(v.tensor.dims) < 2) or not is_weight:
        narrow = "only weights with channels can have 8 bits: this is a bias, a scale, or an operand of another op"
        return narrow if bits < 32 else built.candidate.declines.get(v.name) or refused or narrow
    is_stored = bool(scheme.stores) or scheme.name in STORE_WEIGHTS
    return refused or ("8 bits would save nothing" if is_stored else "no scheme that stores weights was requested")
