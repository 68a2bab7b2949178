"""Groups of passes that trade one cost for another, so that some models run faster without them, or with them."""

from __future__ import annotations

from collections.abc import Mapping

from ..core import Pass
from .cleanup import constants
from .decomposition import activations as activation_parts
from .decomposition import norms as norm_parts
from .decomposition import products
from .fusion import activations, attention, norms, reductions, rotary, skip_norms, softmaxes
from .linear import (
    affine_into_conv,
    conv_axes,
    conv_merging,
    conv_products,
    conv_resizing,
    factor_scales,
    gemm,
    grouped_heads,
    matmul_merging,
    weight_scale,
)
from .movement import concats, reshapes, slices
from .movement.layout_propagation import move_transposes


def _names(*passes: Pass) -> tuple[str, ...]:
    return tuple(p.name for p in passes)


TRADING: Mapping[str, tuple[str, ...]] = {
    "attention": _names(attention.FUSE_ATTENTION, attention.FUSE_INTO_ATTENTION, attention.FUSE_CACHE_INTO_ATTENTION),
    "rotary embeddings": _names(rotary.FUSE_ROTARY),
    "normalizations": _names(norms.FUSE_NORM, norms.FUSE_KERAS_LAYER_NORM, norms.FUSE_NORM_WEIGHTS, norms.FUSE_LP_NORM),
    "norms apart": _names(skip_norms.KEEP_NORMS_APART),
    "activations": _names(
        activations.FUSE_GELU,
        activations.FUSE_ACTIVATIONS,
        activations.FUSE_HARD_ACTIVATIONS,
        activations.FUSE_RECTIFIERS,
    ),
    "softmaxes": _names(softmaxes.FUSE_SOFTMAX),
    "reductions": _names(reductions.FUSE_REDUCTIONS, reductions.FUSE_REDUCE_MEAN),
    "layouts": _names(move_transposes.MoveTransposes(), reshapes.TRANSPOSE_WITHOUT_RESHAPES),
    "reshapes": _names(reshapes.SINK_RESHAPES, reshapes.MULTIPLY_WITHOUT_RESHAPES),
    "parallel products": _names(matmul_merging.MERGE_PARALLEL_MATMULS, conv_merging.MERGE_PARALLEL_CONVS),
    "consecutive products": _names(matmul_merging.MERGE_MATMULS, conv_merging.MERGE_CONSECUTIVE_CONVS),
    "groups of heads": _names(grouped_heads.GROUP_HEADS),
    "scales": _names(weight_scale.FOLD_SCALE_INTO_WEIGHTS, weight_scale.FOLD_SCALE, factor_scales.MOVE_SCALES),
    "Gemm": _names(gemm.FUSE_GEMM, gemm.FOLD_BIAS, gemm.FOLD_TRANSPOSE_INTO_GEMM, gemm.FOLD_SCALE_INTO_GEMM),
    "affine ops": _names(
        affine_into_conv.HOIST_AFFINE,
        affine_into_conv.FOLD_AFFINE_INTO_CONV,
        affine_into_conv.FOLD_AFFINE_BEFORE_CONV,
    ),
    "convolutions of one axis": _names(conv_axes.LIFT_CONVS),
    "products of images": _names(conv_products.CONVOLVE_PRODUCTS),
    "resizes": _names(conv_resizing.SINK_RESIZES),
    "slices": _names(slices.SlicesToSplit(), concats.BYPASS_CONCATS),
}
"""Names of passes of pipelines, by the name of the group: their results cost something, as kernels, copies or bytes."""
OPTIONAL: Mapping[str, tuple[str, ...]] = {
    "Swish": _names(activations.FUSE_SWISH),
    "split Gemm": _names(products.SPLIT_GEMM),
    "split activations": _names(activation_parts.SPLIT_ACTIVATIONS),
    "split norms": _names(norm_parts.SPLIT_NORMS),
    "computed constants": _names(constants.Debloat()),
}
"""Names of passes that are in no pipeline, as most models are slower or larger with them."""
