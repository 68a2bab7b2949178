"""Proofs of the regions in which two models differ, within limits of time."""

from __future__ import annotations

from ...core.io.files import split_model
from ...core.io.model import Model
from ...core.ort.sessions import Loadable
from ...core.ort.split_models import SplitModel
from ...core.proof.prover import Prover
from ...core.proof.region_proofs import RegionProofs, RewrittenModel, prove_regions
from ...core.proof.smt import SmtProver, is_available

PROOF_SECONDS, REGION_SECONDS, ELEMENT_SECONDS = 120.0, 10.0, 1.0
"""Limits of all proofs, of z3 on one region and on one element."""


def proofs_of(
    model: Model, original: Loadable | SplitModel, other: Loadable | SplitModel, *, exact: bool = False
) -> RegionProofs:
    """The proofs of the regions in which two models differ."""
    models = RewrittenModel(split_model(original), split_model(other), model.graph)
    with SmtProver(seconds=REGION_SECONDS, element_seconds=ELEMENT_SECONDS) as smt:
        techniques = [Prover().prove, *([smt.prove] if is_available() else [])]
        return prove_regions(models, techniques, exact=exact, seconds=PROOF_SECONDS)
