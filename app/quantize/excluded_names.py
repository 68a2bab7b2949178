"""Ops that the caller keeps in float, by names of the original model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...core.errors import UsageError
from ...core.ir.graph import Graph
from ...core.ir.op import Op
from ...core.run.name_map import UniqueNames
from ...core.support.suggestions import did_you_mean


def excluded_names(
    names: Sequence[str], original: Graph, floats: Graph, name_map: Path | None
) -> tuple[frozenset[str], list[str]]:
    """Find the values and operators of the float model that `names` refer to, with a note for each without any.

    A name of the original that the float model lacks refers to the ops that were made from its ops, according to the
    file `name_map`. Raises UsageError for a name that neither model has.
    """
    known, here = _known_names(original), _known_names(floats)
    found: set[str] = set()
    notes: list[str] = []
    for name in names:
        if name not in known | here:
            raise UsageError(
                f"--leave {name or repr(name)}: the model has no such value or operator{did_you_mean(name, known)}"
            )
        made = {name} if name in here else _successors(name, original, floats, name_map) & here
        found |= made
        if not made:
            notes.append(f"--leave {name}: the optimized float model computes no part of it, so it is not quantized")
    return frozenset(found), notes


def _ops(graph: Graph) -> list[Op]:
    return [op for g in graph.with_subgraphs() for op in g.ops()]


def _known_names(graph: Graph) -> set[str]:
    """The names of a graph's ops and of the values that they produce."""
    return {name for op in _ops(graph) for name in (op.type, *(v.name for v in op.outputs)) if name}


def _successors(name: str, original: Graph, floats: Graph, name_map: Path | None) -> set[str]:
    """The values of the float model that equal a value of the original, or else those made from its ops."""
    fates: dict[str, Any] = json.loads(name_map.read_text(encoding="utf-8")) if name_map is not None else {}
    tensors: dict[str, str | None] = fates.get("tensors", {})
    nodes: dict[str, list[str]] = fates.get("nodes", {})
    unique, made = UniqueNames.of(original), {text: op for op, text in UniqueNames.of(floats).ops.items()}
    found: set[str] = set()
    for op in (op for op in _ops(original) if name in {op.type, *(v.name for v in op.outputs)}):
        equal = {now for v in op.outputs if v.name and (now := tensors.get(unique.values[v])) is not None}
        successors = [made[text] for text in nodes.get(unique.ops[op], ()) if text in made]
        found |= equal or {v.name for other in successors for v in other.outputs if v.name}
    return found
