"""The weights of a compressed model that have more than 8 bits, with the reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from ...core.io.model_source import model_source
from ...core.ir.dtypes import FLOATS
from ...core.ir.graph import all_constants
from ...core.ir.op import Op
from ...core.ir.tensor import element_bits
from ...core.ir.values import Value
from ...passes.quantization.half import MIN_STORED_ELEMENTS
from ...passes.quantization.weights import CHANNEL_AXES
from .float_ops import QUANTIZERS
from .schemes import STORE_WEIGHTS
from .search import TAKEN, BuiltCandidate, Trial


class HighPrecisionWeight(Struct, frozen=True):
    """A constant of floats by its name: its bytes, the bits of an element, and why these are not 8."""

    name: str
    bytes: int
    bits: int
    reason: str


def kept_high_precision(built: BuiltCandidate, trials: Sequence[Trial]) -> list[HighPrecisionWeight]:
    """The constants of floats of a candidate, but for small ones, the largest first.

    `trials` are those of the search, among them combinations of the candidate with ways of storing weights.
    """
    refused = refused_storing(built.trial, trials)
    found: list[HighPrecisionWeight] = []
    for v in all_constants(model_source(built.path, inline=True).load().graph):
        tensor = v.tensor
        if tensor is not None and v.known_dtype in FLOATS and tensor.size >= MIN_STORED_ELEMENTS:
            bits = element_bits(v.known_dtype)
            found.append(HighPrecisionWeight(v.name, tensor.size * bits // 8, bits, _reason(v, bits, built, refused)))
    return sorted(found, key=lambda w: (-w.bytes, w.name))


def refused_storing(trial: Trial, trials: Sequence[Trial]) -> str:
    """The outcomes of the combinations of a trial with ways of storing weights, but for its own; "" without any."""
    base = trial.variant
    for name in STORE_WEIGHTS:
        base = base.removesuffix(name).removesuffix(", ")
    combined = {f"{base}, {name}" if base else name: name for name in STORE_WEIGHTS}
    others = (t for t in trials if t.scheme == trial.scheme and t.variant in combined and t.variant != trial.variant)
    return "; ".join(f"as by {combined[t.variant]}: {t.outcome}" for t in others if t.outcome != TAKEN)


def _reason(v: Value, bits: int, built: BuiltCandidate, refused: str) -> str:
    """The reason why a constant has more than 8 bits."""
    readers = list(_readers(v))
    scheme = built.builder.scheme
    if any(op.type in QUANTIZERS for op in readers):
        return "scales of a quantized group are floats"
    is_weight = any(op.type in CHANNEL_AXES and op.inputs[0] is not v for op in readers)
    if (v.tensor is not None and len(v.tensor.dims) < 2) or not is_weight:
        narrow = "8 bits are for weights with channels: it is a bias, a scale or an operand of another op"
        return narrow if bits < 32 else built.candidate.declines.get(v.name) or refused or narrow
    is_stored = bool(scheme.stores) or scheme.name in STORE_WEIGHTS
    return refused or ("8 bits would save nothing" if is_stored else "no scheme that stores weights was asked for")


def _readers(v: Value) -> Iterator[Op]:
    """The ops that read a constant, those behind a Cast in its place."""
    for op in v.consumers:
        yield from op.outputs[0].consumers if op.type == "Cast" else (op,)
