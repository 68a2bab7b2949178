"""Rounding of which a proof over the reals says nothing: of 16-bit results, and of the constants of a rule.

Devices that compute in 16 bits round the result of each op, where onnxruntime has 32 bits between ops on the CPU. A
rule that multiplies two small constants may make 0 of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ..errors import EvaluationError, PassesError
from ..ir.dtypes import FLOATS
from ..verify.noise import float_info
from ..verify.proof_guarantees import Guarantee
from ..verify.reference.float64_evaluation import evaluate_in_float64, evaluate_rounded
from .field_symbols import READS_SHAPE, names_in
from .obligation import NotApplicable, Obligation, Sizes, element_types, size_sets
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
USUAL_SCALES = (1.0, 16.0, 256.0)
MUCH_LESS = 64.0
MAX_ELEMENTS = 1 << 16
MAX_ULPS = 64.0  # of a constant that sums computed
SHARE_OF_LARGEST = 2.0**-10  # of a constant, below which its elements may be left of a sum that cancels
LOST_CONSTANT = "a constant of the result is far from its exact number"
OTHER_BITS = "floats are rounded to fewer bits in one of them alone"
LOST_BITS = "rounded after each op, it loses half of the bits or more, and the original does not"
OVERFLOWS = "rounded to 16 bits after each op, it overflows where the original does not"


def with_rounding(obligation: Obligation, verdicts: Sequence[ProofVerdict]) -> Sequence[ProofVerdict]:
    """The verdicts, without proofs over the reals of models that round to fewer bits, overflow or lose a constant."""
    if all(v.guarantee is not Guarantee.REALS for v in verdicts):
        return verdicts
    bits = {found for m in obligation.models if (found := least_bits(m)) is not None}
    reason = OTHER_BITS if len(bits) > 1 else LOST_CONSTANT if loses_constants(obligation) else ""
    reason = reason or (OVERFLOWS if overflows(obligation) else LOST_BITS if loses_bits(obligation) else "")
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


def loses_constants(obligation: Obligation) -> bool:
    """Whether a constant of the result is far from the one that the same rule computes with doubles."""
    if obligation.retyped is None:
        return False
    try:
        wide = obligation.retyped(TensorProto.DOUBLE)
    except (NotApplicable, PassesError):
        return False
    known = {t.name for t in obligation.before.model.graph.initializer}
    made = [[t for t in o.after.model.graph.initializer if t.name not in known] for o in (obligation, wide) if o]
    if len({tuple((t.name, *t.dims) for t in tensors) for tensors in made}) > 1 or wide is None:
        return False
    return any(is_lost(*map(numpy_helper.to_array, pair)) for pair in zip(*made, strict=True))


def is_lost(narrow: Array, wide: Array) -> bool:
    """Whether a constant in its own type is far from itself as doubles: beyond rounding, or where that underflows."""
    if helper.np_dtype_to_tensor_dtype(narrow.dtype) not in FLOATS or not wide.size:
        return False
    form = float_info(narrow.dtype)
    size = np.abs(wide)
    error, allowed = np.abs(narrow.astype(np.float64) - wide), MAX_ULPS * float(form.eps)
    is_far = error > allowed * np.maximum(size, SHARE_OF_LARGEST * size.max())
    return bool((is_far | ((size < float(form.tiny)) & (error > allowed * size))).any())


def loses_bits(obligation: Obligation) -> bool:
    """Whether the result of a rule, rounded after each op, has lost half of its bits, and the original much less.

    Under a condition nothing is known of most draws.
    """
    outputs = [o.name for o in obligation.before.model.graph.output]
    is_conditional = obligation.condition is not None or bool(obligation.unsaid)
    rng = np.random.default_rng(0)
    for sizes in size_sets(obligation) if obligation.is_thorough and not is_conditional else ():
        try:
            for scale in USUAL_SCALES:
                feeds = drawn_feeds(obligation, sizes, partial(np.multiply, scale), rng)
                exact = evaluate_in_float64(obligation.before.model, feeds, outputs)
                first, second = (evaluate_rounded(m, feeds, outputs) for m in obligation.models)
                if any(has_lost_bits(exact[name].value, first[name], second[name]) for name in outputs):
                    return True
        except (EvaluationError, NotApplicable, TypeError, ValueError):
            continue
        return False
    return False


def has_lost_bits(exact: Any, before: Any, after: Any) -> bool:
    """Whether a result is off by more than the root of the relative rounding, and by far more than the original."""
    x, y, wanted = (np.asarray(a) for a in (before, after, exact))
    if not x.shape == y.shape == wanted.shape or x.dtype != y.dtype or not x.size:
        return False
    if helper.np_dtype_to_tensor_dtype(x.dtype) not in FLOATS or not np.isfinite(wanted).all():
        return False
    first, second = (float(np.max(np.abs(a.astype(np.float64) - wanted))) for a in (x, y))
    share = float(float_info(x.dtype).eps) ** 0.5
    return second > max(share * float(np.max(np.abs(wanted))), MUCH_LESS * first)


def overflows(obligation: Obligation) -> bool:
    """Whether models of float16 give a number before and an infinity after, on drawn numbers of some scale."""
    if not any(TensorProto.FLOAT16 in element_types(m).values() for m in obligation.models):
        return False
    outputs = [o.name for o in obligation.before.model.graph.output]
    rng = np.random.default_rng(0)
    for sizes in size_sets(obligation):
        try:
            for draw in DRAWS:
                feeds = drawn_feeds(obligation, sizes, draw, rng)
                before, after = (evaluate_rounded(m, feeds, outputs) for m in obligation.models)
                if any(lost(before[name], after[name]) for name in outputs):
                    return True
        except (EvaluationError, NotApplicable, TypeError, ValueError):
            continue
        return False
    return False


def drawn_feeds(
    obligation: Obligation, sizes: Sizes, draw: Callable[[Array], Array], rng: np.random.Generator
) -> dict[str, Array]:
    """Inputs of a function of normal numbers; integers of 0 and 1. Raises NotApplicable for large ones."""
    shapes = dict(obligation.concrete_inputs(sizes))
    if sum(map(prod, shapes.values())) > MAX_ELEMENTS:
        raise NotApplicable("an input is large")
    return {
        i.name: as_input(draw(rng.standard_normal(shape)), i.dtype)
        if i.dtype in FLOATS
        else as_input(rng.integers(0, 2, shape), i.dtype)
        for i, shape in shapes.items()
    }


def lost(before: Any, after: Any) -> bool:
    """Whether all numbers are finite before, and some are not after."""
    x, y = np.asarray(before), np.asarray(after)
    is_comparable = x.shape == y.shape and x.dtype == np.float16
    return is_comparable and bool(np.isfinite(x).all()) and not np.isfinite(y).all()
