"""Verdicts on an engine, whose outputs are compared with the reference."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType

from msgspec.structs import replace

from ..io.split_models import Loadable
from ..ir.graph import Graph
from ..ort.sessions import SessionConfig
from .comparison_options import USUAL, ComparisonOptions
from .input_sets import InputSet
from .oracle_process import OracleProcess
from .verdict import Verdict

RANDOM_WHOLE = "outputs are random, and random ops in an .ort file get no seeds"
LIMITS: Mapping[str, Callable[[InputSet], bool]] = MappingProxyType({
    "no input is NaN or infinite": lambda s: s.is_finite,
    "no size is 0": lambda s: 0 not in s.sizes.values(),
})  # fmt: skip
"""Limits within which an engine may be correct, and whether an input set is within each."""


def compare_in_engine(
    oracle: OracleProcess, model: Loadable, options: ComparisonOptions = USUAL, *, config: SessionConfig
) -> Verdict:
    """The verdict on a model in the engine of a config.

    The outputs must be correct on inputs that the user gives, and on all inputs within the `LIMITS`. If they differ on
    other inputs, the verdict says so: the required limits, the number of input sets beyond them, and a note for each.
    """
    notes, limits, beyond = list[str](), list[str](), 0
    while True:
        verdict = oracle.compare(model, options, config=config)
        failure, sets = verdict.failure, [run.input_set for run in oracle.runs]
        if options.input_sets is not None:
            chosen = set(map(id, options.input_sets))
            sets = [s for s in sets if id(s) in chosen]
        shown_by = None if failure is None or failure.input_set is None else failure.input_set
        needed = (
            [] if shown_by is None or shown_by.is_given else [n for n, holds in LIMITS.items() if not holds(shown_by)]
        )
        left = [s for s in sets if s.is_given or all(LIMITS[n](s) for n in needed)]
        if failure is None or not needed or not left:
            return replace(verdict, notes=(*verdict.notes, *notes), limits=tuple(limits), excused_sets=beyond)
        notes.append(f"differs on {failure.input_set}: {failure.output}{': ' * bool(failure.output)}{failure.reason}")
        limits += needed
        beyond += len(sets) - len(left)
        options = replace(options, input_sets=left)


def ops_in(graph: Graph, region: Collection[str]) -> list[str]:
    """The ops of a region as text, by the names of their outputs, without the constants that they read."""
    return [op.label for op in graph.ops() if op.type != "Constant" and any(v.name in region for v in op.outputs)]
