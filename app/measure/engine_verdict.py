"""Verdicts on an engine: what it computes, compared with the reference."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec.structs import replace as replace_fields

from ...core.io.model_source import ModelSource
from ...core.ir.graph import Graph
from ...core.ort.sessions import SessionConfig
from ...core.verify.comparison_options import ComparisonOptions
from ...core.verify.input_sets import InputSet, ReferenceRun
from ...core.verify.oracle_process import OracleProcess
from ...core.verify.verdict import Mismatch, Verdict


def compare_in_engine(
    oracle: OracleProcess, model: ModelSource, config: SessionConfig | None, *, exact: bool = False
) -> Verdict:
    """The verdict on a model, and with a config on its ops in that engine.

    An engine that is right on finite inputs that are not empty is right; what it does on others is noted.
    """
    demands, notes = ComparisonOptions(exact=exact, compare_regions=config is not None), list[str]()
    while True:
        verdict = oracle.compare(model.loadable(), demands, config=config)
        failure = verdict.failure
        left = None if config is None or failure is None else _input_sets_beside(failure, oracle.runs)
        if not left or failure is None:
            return replace_fields(verdict, notes=(*verdict.notes, *notes))
        notes.append(f"differs on {failure.input_set}: {failure.output}{': ' * bool(failure.output)}{failure.reason}")
        chosen = None if demands.input_sets is None else set(map(id, demands.input_sets))
        demands = replace_fields(demands, input_sets=[s for s in left if chosen is None or id(s) in chosen])


def _input_sets_beside(failure: Mismatch, runs: Sequence[ReferenceRun]) -> list[InputSet]:
    """The finite input sets, or those without a size of 0, for a failure on another one; else none."""
    sets = [run.input_set for run in runs]
    if failure.is_nonfinite_only:
        return [s for s in sets if s.is_finite]
    is_empty = failure.input_set is not None and 0 in failure.input_set.sizes.values()
    return [s for s in sets if 0 not in s.sizes.values()] if is_empty and failure.difference is None else []


def ops_in(graph: Graph, region: Collection[str]) -> list[str]:
    """The ops of a region, in words, by the names of their outputs; without the constants that they read."""
    return [op.label for op in graph.ops() if op.type != "Constant" and any(v.name in region for v in op.outputs)]
