"""The built-in passes by family, in the order in which they run, and the built-in pipelines."""

from __future__ import annotations

from ..core import Fixpoint, Pass, Pipeline
from ..core.plugins.plugin import Stage
from ..core.run.transforms import ModelTransform
from .arithmetic import clamp_rules, constant_chains, logic, negations, no_op_arithmetic, powers, variadic
from .cleanup import casts, constants, merge_duplicates, no_ops, quantization
from .decomposition import activations as activation_parts
from .decomposition import norms as norm_parts
from .decomposition import products
from .folding import fold_constants
from .fusion import activations, attention, norms, reductions, rotary, softmaxes
from .linear import (
    affine_into_conv,
    conv_merging,
    conv_padding,
    conv_products,
    conv_resizing,
    einsum,
    factor_scales,
    gemm,
    grouped_heads,
    matmul_merging,
    weight_scale,
)
from .movement import concats, expands, gathers, pads, reduced_axes, reshapes, slices
from .movement.layout_propagation import move_transposes
from .shapes import fold_shapes, range_indices
from .structure import conditionals, drop_outputs, loops, opset, sequences
from .targets import ORT, Target
from .transforms import element_types, extraction, initializers, names, texts

CONVOLUTION: tuple[Pass, ...] = (
    affine_into_conv.FOLD_BATCHNORM,
    affine_into_conv.FOLD_AFFINE_INTO_CONV,
    affine_into_conv.HOIST_AFFINE,
    affine_into_conv.FOLD_AFFINE_BEFORE_CONV,
    conv_padding.FOLD_PAD_INTO_CONV,
    conv_padding.FOLD_PAD_INTO_POOL,
    conv_merging.MERGE_PARALLEL_CONVS,
    conv_merging.MERGE_CONSECUTIVE_CONVS,
    conv_resizing.SINK_RESIZES,
    conv_products.CONVOLVE_PRODUCTS,
)
"""Folding of linear ops into Conv and ConvTranspose."""

SHAPES: tuple[Pass, ...] = (
    fold_shapes.FoldShapes(),
    fold_shapes.MergeShapes(),
    fold_shapes.FOLD_SHAPE_OPERANDS,
    fold_shapes.FoldDynamicShapeOperands(),
    fold_shapes.SIMPLIFY_SHAPE_READS,
    range_indices.DROP_RANGE_GATHERS,
)
"""Folding of shape computations."""

STRUCTURE: tuple[Pass, ...] = (
    conditionals.InlineIf(),
    conditionals.MergeBranches(),
    loops.InlineLoop(),
    loops.HoistInvariants(),
    sequences.RESOLVE_SEQUENCES,
)
"""Inlining of subgraphs, and removal of sequences."""

NO_OPS: tuple[Pass, ...] = (
    casts.MERGE_CASTS,
    sequences.DROP_OPTIONALS,
    no_ops.DROP_NO_OP_WHERE,
    no_ops.DROP_NO_OP_SPLIT_CONCAT,
    no_ops.DROP_NO_OP_INDEXING,
    no_ops.DROP_NO_OP_POOL_RESIZE,
    no_ops.DROP_NO_OP_REDUCTIONS,
    no_ops.DROP_NO_OP_MOVEMENT,
    quantization.SIMPLIFY_QUANTIZATION,
)
"""Ops without effect."""

FUSION: tuple[Pass, ...] = (
    activations.FUSE_GELU,
    activations.FUSE_ACTIVATIONS,
    activations.FUSE_HARD_ACTIVATIONS,
    activations.FUSE_RECTIFIERS,
    reductions.FUSE_REDUCE_MEAN,
    norms.FUSE_NORM,
    norms.FUSE_KERAS_LAYER_NORM,
    norms.FUSE_NORM_WEIGHTS,
    softmaxes.FUSE_SOFTMAX,
    reductions.FUSE_REDUCTIONS,
    norms.FUSE_LP_NORM,
    attention.FUSE_ATTENTION,
    attention.FUSE_INTO_ATTENTION,
    attention.FUSE_CACHE_INTO_ATTENTION,
    rotary.FUSE_ROTARY,
)
"""Fusion of several ops into one ONNX operator."""

ARITHMETIC: tuple[Pass, ...] = (
    no_op_arithmetic.DROP_NEUTRAL_OPERANDS,
    logic.MERGE_LOGIC,
    no_op_arithmetic.DROP_IDEMPOTENT,
    variadic.MERGE_VARIADIC,
    clamp_rules.MERGE_CLAMPS,
    clamp_rules.DROP_UNBOUNDED_CLIP,
    constant_chains.MERGE_CONSTANT_OPERANDS,
    constant_chains.MERGE_AFFINE_CHAINS,
    negations.CANONICALIZE_NEGATIONS,
    negations.MERGE_NEGATIONS,
    powers.MERGE_POWERS,
)
"""Elementwise algebra."""

MOVEMENT: tuple[Pass, ...] = (
    move_transposes.MERGE_TRANSPOSES,
    move_transposes.MoveTransposes(),
    reshapes.TRANSPOSE_WITHOUT_RESHAPES,
    reshapes.TRANSPOSE_TO_RESHAPE,
    reshapes.MERGE_RESHAPES,
    reshapes.SINK_RESHAPES,
    reshapes.MULTIPLY_WITHOUT_RESHAPES,
    reduced_axes.MERGE_REDUCTIONS,
    expands.DROP_EXPAND_BEFORE_BROADCAST,
    expands.MERGE_EXPANDS,
    slices.MERGE_SLICES,
    gathers.MERGE_GATHERS,
    gathers.RESHAPE_INDICES,
    pads.MERGE_PADS,
    concats.MERGE_CONCATS,
    concats.CANCEL_CONCATS,
    concats.BYPASS_CONCATS,
    slices.CANCEL_DEPTH_AND_SPACE,
    slices.SlicesToSplit(),
)
"""Ops that only move elements."""

MATRIX_PRODUCTS: tuple[Pass, ...] = (
    einsum.SIMPLIFY_EINSUM,
    weight_scale.FOLD_BATCHNORM_INTO_GEMM,
    weight_scale.FOLD_SCALE_INTO_WEIGHTS,
    matmul_merging.MERGE_MATMULS,
    gemm.FUSE_GEMM,
    gemm.FOLD_BIAS,
    gemm.FOLD_TRANSPOSE_INTO_GEMM,
    gemm.FOLD_SCALE_INTO_GEMM,
    weight_scale.FOLD_SCALE,
    factor_scales.MOVE_SCALES,
    matmul_merging.MERGE_PARALLEL_MATMULS,
    grouped_heads.GROUP_HEADS,
)
"""Linear ops around MatMul, Gemm and Einsum become part of them."""


BUILT_IN: tuple[Pass, ...] = (
    no_ops.RemoveUnused(),
    drop_outputs.DropOutputs(),
    no_ops.DROP_DROPOUT,
    no_ops.DROP_IDENTITY,
    constants.LiftConstants(),
    constants.MergeConstants(),
    *CONVOLUTION,  # before equal ops are merged: a shared Conv has to stay as it is
    merge_duplicates.MergeDuplicates(),
    fold_constants.FoldConstants(),
    no_ops.DropZeroStates(),
    *SHAPES,
    *STRUCTURE,
    *NO_OPS,
    *FUSION,  # before chains of constants are merged, which are parts of named operators
    *ARITHMETIC,
    *MOVEMENT,
    *MATRIX_PRODUCTS,
)
DECOMPOSITION: tuple[Pass, ...] = (
    products.SPLIT_GEMM,
    activation_parts.SPLIT_ACTIVATIONS,
    norm_parts.SPLIT_NORMS,
)
"""Enabled by name, they run after the loop, whose fusions would undo them."""

OPTIONAL_PASSES: tuple[Pass, ...] = (
    opset.ConvertOpset(),
    opset.RaiseOpset(),
    *ORT.last,
    constants.Debloat(),
    activations.FUSE_SWISH,
    *DECOMPOSITION,
)
"""Not in `basic`: they run in pipelines of targets, or where they are enabled by name."""

TRANSFORMS: tuple[ModelTransform, ...] = (
    names.UniqueNodeNames(),
    initializers.FreezeInitializers(),
    initializers.ExposeInitializers(),
    extraction.CutInputs(),
    extraction.KeepOutputs(),
    extraction.DropUnusedInputs(),
    element_types.Int32Inputs(),
    element_types.ConvertFloats(),
    names.ShortNames(),
    texts.ClearDocs(),
    texts.ClearMetadata(),
)
"""Made where they are enabled by name or by an option of their own, before anything runs."""

BASIC = Fixpoint("basic", BUILT_IN)


def pipeline_for(target: Target) -> Pipeline:
    """The pipeline of the target's name: raise the opset, run the passes of `basic`, then those that come last."""
    passes = (opset.RaiseOpset(target.opset), BASIC, *target.last)
    return Pipeline(target.name, passes, target.may_add, target.costs, target.fallback)


PIPELINES: dict[str, Pass] = {p.name: p for p in (Pipeline("none", ()), BASIC, pipeline_for(ORT))}

STAGES: dict[str, Stage] = {
    **{p.name: "cleanup" for p in BUILT_IN},
    **{p.name: "fold" for p in (*CONVOLUTION, fold_constants.FoldConstants(), *SHAPES, *ARITHMETIC, *MATRIX_PRODUCTS)},
    **{p.name: "fuse" for p in FUSION},
    **{p.name: "layout" for p in MOVEMENT},
    **{p.name: "final" for p in DECOMPOSITION},
}
"""The stage of each pass of `basic` and after it; plugins can be placed after the last pass of a stage.

MATRIX_PRODUCTS fold linear ops, as CONVOLUTION does. So the last pass of stage fuse is the last of FUSION, and a pass
after it sees fused operators before ARITHMETIC takes them apart.
"""
