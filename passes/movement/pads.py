"""Merging of Pads."""

from __future__ import annotations

from typing import Any

from ...core import EXACT, Op, RewriteBuilder, Value, require, rule
from ..support.operand_queries import pads_of


@rule(
    lambda g, x, inner, outer: g.Pad(g.Pad(x, ...) @ inner, ...) @ outer,
    allow_other_uses=True,
    contract=EXACT,
    group="merge-pads",
)
def merge_pads(g: RewriteBuilder, x: Value, inner: Op, outer: Op) -> Value:
    """Pad(Pad(x, p), q) => Pad(x, p + q), in one mode and with one value"""
    mode = outer.attr("mode", "constant")
    require(mode == inner.attr("mode", "constant"), "the modes differ")
    require(outer.version >= 2, "Pad of opset 1 is another operator")
    if mode == "constant":
        same = inner.input(2) is outer.input(2) and inner.attr("value", 0.0) == outer.attr("value", 0.0)
        require(same or _pad_value_bits(inner) == _pad_value_bits(outer), "the pad values differ")
    first, second = pads_of(inner, x.rank), pads_of(outer, x.rank)
    pads = [_merged_pad(mode, p, q) for p, q in zip(first, second, strict=True)]
    if mode not in {"constant", "edge"}:
        touched = [{i % x.rank for i, n in enumerate(p) if n} for p in (first, second)]
        require(touched[0].isdisjoint(touched[1]), f"mode {mode} does not compose")
    if outer.version < 11:
        attrs: dict[str, Any] = {**outer.attrs, "pads": pads}
        return g.Pad(x, **attrs)
    return g.Pad(x, pads, outer.input(2), mode=outer.attrs.get("mode"))


def _pad_value_bits(op: Op) -> Any:
    if op.version < 11:
        return float(op.attr("value", 0.0)).hex()
    value = op.input(2)
    if value is None:
        return b""
    data = value.const.reshape(-1)
    if data.dtype.kind in "OUST":
        return data.tolist()
    bits = data.tobytes()
    return bits if any(bits) else b""  # as if it were left out


def _merged_pad(mode: str, first: int, second: int) -> int:
    """One pad on a side for two; declines a crop followed by a pad, or the reverse, that does not compose."""
    grows = first >= 0 and second >= 0
    cuts = first <= 0 and second <= 0
    require(grows or (mode == "constant" and (cuts or first >= -second > 0)), "one pads and the other crops")
    return first + second
