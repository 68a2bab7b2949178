"""If, Loop and Scan: what they give has the types of what their bodies give back."""

from __future__ import annotations

from ..ir.dims import Shape
from ..ir.op import Op


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
