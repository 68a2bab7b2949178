"""Rows about the results of jobs, as a folder records them and as tables show them."""

from __future__ import annotations

from collections.abc import Mapping

Cell = str | int | float | None
ResultRow = dict[str, Cell]
COLUMNS: Mapping[str, type[str | int | float]] = {
    "model": str,
    "do": str,
    "outcome": str,
    "exit_code": int,
    "error": str,
    "output": str,
    "verdict": str,
    "share_of_allowed": float,
    "nodes_before": int,
    "nodes_after": int,
    "bytes_before": int,
    "bytes_after": int,
    "opset_before": int,
    "opset_after": int,
    "latency_ratio": float,
    "latency_low": float,
    "latency_high": float,
    "scheme": str,
    "rewrites": int,
    "rules": str,
    "rejected": str,
    "seconds": float,
    "repeated": str,
    "options": str,
}
"""The columns of a row and their types.

`verdict`: "bit-identical", "within tolerance" or "no difference seen"; `share_of_allowed`: the largest difference
divided by the allowed one. `latency_ratio`: the latency divided by that of the original, with its 95 % interval.
`rules`: the number of rewrites by rule, an object of JSON. `rejected`: the rules and places of changes that were
left out, pairs in a list of JSON.
`repeated`: the end of the first process, where a second one did the job. `options`: those of this model.
"""
