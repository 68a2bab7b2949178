"""Models of 16-bit floats with the result of each op rounded, as devices that compute in 16 bits give it.

A proof over the reals says nothing of ranges, and onnxruntime computes in 32 bits between ops on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from ..errors import EvaluationError
from ..ir.dtypes import FLOATS
from ..verify.noise import float_info
from ..verify.proof_guarantees import Guarantee
from ..verify.reference.float64_evaluation import evaluate_rounded
from .field_symbols import READS_SHAPE, names_in
from .obligation import NotApplicable, Obligation, element_types, size_sets
from .replay import as_input
from .shadow_array import Array
from .verdict import ProofVerdict, unknown


def _positive(scale: float, normal: Array) -> Array:
    return np.abs(normal) * scale


def _large(normal: Array) -> Array:
    return np.clip(np.abs(normal), 0.6, 0.95) * LARGEST


SCALES = (1.0, *(2.0 ** (step / 2) for step in range(8, 21)))
POSITIVE_SCALES = (64.0, 256.0, 1024.0, 2048.0, 4096.0, 8192.0)
LARGEST = float(np.finfo(np.float16).max)
DRAWS: Sequence[Callable[[Array], Array]] = (
    *(partial(np.multiply, scale) for scale in SCALES),
    *(partial(_positive, scale) for scale in POSITIVE_SCALES),
    _large,
)
"""Functions of normal numbers: several scales, one sign so that sums grow, and numbers two of which are too large."""
MAX_ELEMENTS = 1 << 16
OTHER_BITS = "floats are rounded to fewer bits in one of them alone"
OVERFLOWS = "rounded to 16 bits after each op, it overflows where the original does not"


def with_rounding(obligation: Obligation, verdicts: Sequence[ProofVerdict]) -> Sequence[ProofVerdict]:
    """The verdicts, without proofs over the reals of models that round to fewer bits, or overflow in 16 bits."""
    if all(v.guarantee is not Guarantee.REALS for v in verdicts):
        return verdicts
    bits = {found for m in obligation.models if (found := least_bits(m)) is not None}
    reason = OTHER_BITS if len(bits) > 1 else OVERFLOWS if overflows(obligation) else ""
    return [unknown(reason) if reason and v.guarantee is Guarantee.REALS else v for v in verdicts]


def least_bits(model: onnx.ModelProto) -> tuple[int, int] | None:
    """The fewest bits of significands, and of exponents, of floats that follow from inputs; None without any."""
    types, drawn = element_types(model), {i.name for i in model.graph.input}
    read = {o.name for o in model.graph.output}
    for node in model.graph.node:
        names = drawn.intersection(names_in(node))
        drawn.update(node.output if names else ())
        read |= names if node.op_type not in READS_SHAPE else set()
    numpy_types = [helper.tensor_dtype_to_np_dtype(t) for t in {types.get(name, 0) for name in drawn & read} & FLOATS]
    formats = [*map(float_info, numpy_types)]
    return (min(f.nmant for f in formats), min(f.nexp for f in formats)) if formats else None


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
            for draw in DRAWS:
                feeds = {
                    i.name: as_input(draw(rng.standard_normal(shape)), i.dtype)
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
