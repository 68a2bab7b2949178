"""Models of 16-bit floats with the result of each op rounded, as devices that compute in 16 bits give it.

A proof over the reals says nothing of ranges, and onnxruntime computes in 32 bits between ops on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from onnx import TensorProto

from ..errors import EvaluationError
from ..ir.dtypes import FLOATS
from ..verify.proof_guarantees import Guarantee
from ..verify.reference.float64_evaluation import evaluate_rounded
from .obligation import NotApplicable, Obligation, element_types, size_sets
from .replay import as_input
from .verdict import ProofVerdict, unknown

SCALES = (1.0, *(2.0 ** (step / 2) for step in range(8, 21)))
"""Standard deviations of the numbers that are drawn."""
MAX_ELEMENTS = 1 << 16
OVERFLOWS = "rounded to 16 bits after each op, it overflows where the original does not"


def with_overflow(obligation: Obligation, verdicts: Sequence[ProofVerdict]) -> Sequence[ProofVerdict]:
    """The verdicts, without proofs over the reals of models that overflow in 16 bits where the original does not."""
    if all(v.guarantee is not Guarantee.REALS for v in verdicts) or not overflows(obligation):
        return verdicts
    return [unknown(OVERFLOWS) if v.guarantee is Guarantee.REALS else v for v in verdicts]


def overflows(obligation: Obligation) -> bool:
    """Whether models of float16 give a number before and an infinity after, on drawn numbers of some scale."""
    if not any(TensorProto.FLOAT16 in element_types(m).values() for m in obligation.models):
        return False
    outputs = [o.name for o in obligation.before.model.graph.output]
    rng = np.random.default_rng(0)
    for sizes in size_sets(obligation):
        try:
            shapes = dict(obligation.concrete_inputs(sizes))
            if sum(map(prod, shapes.values())) > MAX_ELEMENTS:
                return False
            for scale in SCALES:
                feeds = {
                    i.name: as_input(rng.standard_normal(shape) * scale, i.dtype)
                    if i.dtype in FLOATS
                    else as_input(rng.integers(0, 2, shape), i.dtype)
                    for i, shape in shapes.items()
                }
                before, after = (evaluate_rounded(m, feeds, outputs) for m in obligation.models)
                if any(lost(before[name], after[name]) for name in outputs):
                    return True
        except (EvaluationError, NotApplicable, TypeError, ValueError):
            continue
        return False
    return False


def lost(before: Any, after: Any) -> bool:
    """Whether all numbers are finite before, and some are not after."""
    x, y = np.asarray(before), np.asarray(after)
    is_comparable = x.shape == y.shape and x.dtype == np.float16
    return is_comparable and bool(np.isfinite(x).all()) and not np.isfinite(y).all()
