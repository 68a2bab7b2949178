"""Gelus and normalizations spelled out: onnxruntime fuses the whole chain, and nothing if its last op is gone."""

from __future__ import annotations

from ...core import Value, require


def require_no_gelu(x: Value) -> None:
    """Decline where `x` is `c * (u * (Erf(z) + 1))`, or the same with Tanh."""
    sums = (
        v
        for y in computed_inputs(x, "Mul")
        for u in computed_inputs(y, "Mul")
        for v in computed_inputs(u, "Add", "Sum")
    )
    require(not any(is_produced_by(v, "Erf", "Tanh") for v in sums), f"{x.name} is a Gelu")


def require_no_norm(x: Value) -> None:
    """Decline where `x` is `scale * (u / Sqrt(v))`, or that and a shift."""
    scaled = (x, *computed_inputs(x, "Add"))
    divisors = (v for y in scaled for u in computed_inputs(y, "Mul") for v in computed_inputs(u, "Div"))
    require(not any(is_produced_by(v, "Sqrt") for v in divisors), f"{x.name} is normalized")


def computed_inputs(x: Value, *types: str) -> list[Value]:
    """What varies among the inputs of the op that makes `x`; nothing if that is of none of these types."""
    op = x.producer
    return (
        []
        if op is None or not is_produced_by(x, *types)
        else [v for v in op.inputs if v is not None and not v.is_const]
    )


def is_produced_by(x: Value, *types: str) -> bool:
    """Whether a standard op of one of these types makes `x`."""
    op = x.producer
    return op is not None and not op.domain and op.type in types
