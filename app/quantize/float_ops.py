"""Reasons for which ops stay in float."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from ...core.io.model_source import model_source
from ...core.ir.dtypes import FLOATS
from ...core.ir.graph import Graph, defined_values
from ...core.ir.op import Op
from ...core.ir.values import Value
from ...core.operators.declaration import Trait
from ...core.operators.table import ops_with
from ...core.rewriting.rules import Rule
from ...passes.quantization.weights import store_int8_weights
from ..optimize.match_report import diagnose_match
from .search import BuiltCandidate

QUANTIZERS = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})
INTEGER_PREFIXES = ("QLinear", "QGemm", "QAttention", "ConvInteger", "MatMulInteger", "MatMulNBits", "DynamicQuantize")
"""Starts of the names of operators that compute on integers with a scale."""
MOVEMENTS = ops_with(Trait.MOVES_DATA)


class FloatOp(Struct, frozen=True):
    """An op that computes in float: the value of its first output, its operator, and the reason."""

    value: str
    operator: str
    reason: str


def float_ops(built: BuiltCandidate) -> list[FloatOp]:
    """The ops of the float model that compute in float in a candidate, with the reason of each.

    Those that only move data or run bodies, and the changed ones, are left out; those of which weights alone were
    stored are not. Of a scheme whose passes have no rules, the ops that these declined. Types that are unknown behind
    operators of onnxruntime are those of the float model.
    """
    model = model_source(built.path, inline=True).load()
    model.graph.context.quantization = built.builder.spec
    reasons = {place: reason for (_, place), reason in built.left.items()}
    rules = built.builder.scheme.rules
    if not rules:
        reasons |= built.candidate.declines
    storing = {store_int8_weights.name} if len(rules) > 1 else set[str]()
    changed = {c.place for c in built.candidate.changes if c.by not in storing}
    before = list(built.builder.source.load().graph.with_subgraphs())
    floats = {v.name for g in before for v in defined_values(g) if v.known_dtype in FLOATS}
    computed = {v.name for g in before for op in g.ops() for v in op.outputs} - changed

    def is_float(v: Value | None) -> bool:
        return v is not None and (v.known_dtype in FLOATS or (not v.known_dtype and v.name in floats))

    found: list[FloatOp] = []
    for op in (op for g in model.graph.with_subgraphs() for op in g.sorted_ops() if op.outputs):
        if op.outputs[0].name not in computed or op.subgraphs:
            continue
        reason = next((reasons[v.name] for v in op.outputs if v.name in reasons), "") or _clamped(op, reasons)
        computes_in_float = (
            is_float(op.outputs[0]) and _is_arithmetic(op) and any(map(is_float, _computed_operands(op)))
        )
        if computes_in_float if rules else reason:
            found.append(FloatOp(op.outputs[0].name, op.type, reason or _reason(op, rules)))
    return found


def compressed_before(graph: Graph) -> int:
    """The number of ops that compute on integers with a scale, or read the result of a DequantizeLinear."""
    ops = (op for g in graph.with_subgraphs() for op in g.ops() if op.type not in QUANTIZERS)
    return sum(op.type.startswith(INTEGER_PREFIXES) or any(map(_is_dequantized, op.inputs)) for op in ops)


def _is_dequantized(value: Value | None) -> bool:
    return value is not None and value.producer is not None and value.producer.type == "DequantizeLinear"


def _computed_operands(op: Op) -> list[Value]:
    return [v for v in op.inputs if v is not None and not v.is_const]


def _is_arithmetic(op: Op) -> bool:
    """Whether an op does arithmetic that is not part of a quantized group."""
    is_movement = op.type in MOVEMENTS and not op.domain
    if is_movement or op.type in {*QUANTIZERS, "Identity", "Constant"} or op.type.startswith(INTEGER_PREFIXES):
        return False
    return not all(map(_is_dequantized, _computed_operands(op)))


def _clamped(op: Op, by_place: Mapping[str, str]) -> str:
    """The reason of the group of an op with the clamp behind it."""
    readers = list(op.outputs[0].consumers)
    return by_place.get(readers[0].outputs[0].name, "") if len(readers) == 1 and readers[0].outputs else ""


def _reason(op: Op, rules: list[Rule]) -> str:
    """The reason that a rule for the operator gives; that there is none for other operators."""
    return next(_declines(op, rules), f"the scheme has no rule for {op.type}")


def _declines(op: Op, rules: list[Rule]) -> Iterator[str]:
    for r in (r for r in rules if op.type in r.root_types):
        for failure in diagnose_match(r, op).failures:
            yield failure.reason
