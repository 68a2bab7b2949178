"""Proofs of the regions in which two models differ, within a time limit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from msgspec import Struct

from ...core.errors import PassesError
from ...core.io.files import split_model
from ...core.io.model import Model
from ...core.io.split_models import Loadable
from ...core.proof.prover import Prover
from ...core.proof.region_obligations import Regions, RewrittenModel
from ...core.proof.region_proofs import ProofSeconds, RegionProofs, prove_regions
from ...core.proof.smt import SmtProver, is_available
from ...core.proof.traced_array import TracedArray, trace_constants, traced_constants
from ...core.rewriting.change_log import ChangeLog
from ...core.run.pipeline import Pipeline, select, selectable_names
from ...core.run.pipeline_run import PipelineRun
from ..registry.resolved_pipeline import resolve_pipeline

FIELD_SECONDS = 2.0
"""The time in seconds for proofs by the finite field, if verification took less."""
REGION_SECONDS, LEAST_REGION_SECONDS, ELEMENT_SECONDS = 10.0, 1.0, 1.0
"""Time limits of z3, in seconds: the most and least for a region, and for an element."""
PIPELINES = ("basic", "ort")
"""The pipelines that may have folded the weights of a verified model."""


class ProvedModels(Struct, frozen=True):
    """An original, loaded and as a file, its rewritten form, and the rewrites that may have made it.

    The loaded `model` is rewritten when it is used.
    """

    model: Model
    original: Loadable
    rewritten: Loadable
    rewrites: Sequence[PipelineRun]

    def regions(self) -> Regions:
        """The regions in which the models differ."""
        first, second = split_model(self.original), split_model(self.rewritten)
        loaded = [self.model, *(None for _ in self.rewrites[1:])]  # reuses the types that were inferred
        repeated = [partial(repeated_weights, m, model) for m, model in zip(self.rewrites, loaded, strict=False)]
        return Regions.of(RewrittenModel(first, second, self.model.graph), repeated)


def proofs_of(models: ProvedModels, seconds: float, *, exact: bool = False) -> RegionProofs:
    """Prove the regions in which two models differ, in about the `seconds` that verification took.

    z3 is tried if there is time for a region.
    """
    of_region = min(REGION_SECONDS, seconds / 2)
    limits = ProofSeconds(max(seconds, FIELD_SECONDS), seconds - of_region)
    with SmtProver(seconds=of_region, element_seconds=ELEMENT_SECONDS, formulas=False) as smt:
        uses_smt = is_available() and of_region >= LEAST_REGION_SECONDS
        techniques = [Prover().prove, *([smt.prove] if uses_smt else [])]
        return prove_regions(models.regions(), techniques, exact=exact, seconds=limits)


def changing_run(run: PipelineRun, change_log: ChangeLog) -> PipelineRun:
    """The run without passes and rules that changed nothing; it makes the same changes."""
    known = selectable_names(run.pipeline)
    names = {by if by in known else name for name, counts in change_log.counts.items() for by in counts}
    return replace(run, pipeline=select(run.pipeline, names & known) if names else Pipeline("none", ()))


def repeated_weights(run: PipelineRun, loaded: Model | None) -> Mapping[str, TracedArray]:
    """The weights that a repeated rewrite computes from others; it rewrites `loaded` if given. Empty if it fails."""
    model = run.load() if loaded is None else loaded
    trace_constants(model.graph)
    try:
        run.replay(model=model)
    except PassesError:
        return {}
    return traced_constants(model.graph)


def built_in_rewrites(load: Callable[[], Model], opsets: Mapping[str, int]) -> list[PipelineRun]:
    """Runs of the built-in pipelines on a model."""
    return [PipelineRun(load, resolve_pipeline(p).for_opsets(opsets)[0]) for p in PIPELINES]
