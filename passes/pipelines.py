"""The built-in passes by family, in the order in which they run, and the built-in pipelines."""

from __future__ import annotations

from ..core import Fixpoint, Pass, Pipeline
from ..core.plugins.plugin import Stage
from .arithmetic.clamp_rules import DROP_UNBOUNDED_CLIP, MERGE_CLAMPS
from .arithmetic.constant_chains import MERGE_AFFINE_CHAINS, MERGE_CONSTANT_OPERANDS
from .arithmetic.logic import MERGE_LOGIC
from .arithmetic.negations import CANONICALIZE_NEGATIONS, MERGE_NEGATIONS
from .arithmetic.no_op_arithmetic import DROP_IDEMPOTENT, DROP_NEUTRAL_OPERANDS
from .arithmetic.powers import MERGE_POWERS
from .arithmetic.variadic import MERGE_VARIADIC
from .cleanup.casts import MERGE_CASTS
from .cleanup.constants import Debloat, LiftConstants, MergeConstants
from .cleanup.merge_duplicates import MergeDuplicates
from .cleanup.no_ops import (
    DROP_DROPOUT,
    DROP_IDENTITY,
    DROP_NO_OP_INDEXING,
    DROP_NO_OP_MOVEMENT,
    DROP_NO_OP_POOL_RESIZE,
    DROP_NO_OP_REDUCTIONS,
    DROP_NO_OP_SPLIT_CONCAT,
    DROP_NO_OP_WHERE,
    DropZeroStates,
    RemoveUnused,
)
from .folding.fold_constants import FoldConstants
from .fusion.activations import FUSE_ACTIVATIONS, FUSE_GELU, FUSE_HARD_ACTIVATIONS, FUSE_RECTIFIERS
from .fusion.attention import FUSE_ATTENTION, FUSE_INTO_ATTENTION
from .fusion.norms import FUSE_KERAS_LAYER_NORM, FUSE_LP_NORM, FUSE_NORM, FUSE_NORM_WEIGHTS
from .fusion.reductions import FUSE_REDUCE_MEAN, FUSE_REDUCTIONS
from .fusion.softmaxes import FUSE_SOFTMAX
from .linear.affine_into_conv import FOLD_AFFINE_BEFORE_CONV, FOLD_AFFINE_INTO_CONV, FOLD_BATCHNORM, HOIST_AFFINE
from .linear.conv_merging import MERGE_CONSECUTIVE_CONVS, MERGE_PARALLEL_CONVS
from .linear.conv_padding import FOLD_PAD_INTO_CONV, FOLD_PAD_INTO_POOL
from .linear.einsum import SIMPLIFY_EINSUM
from .linear.gemm import FOLD_BIAS, FOLD_SCALE_INTO_GEMM, FOLD_TRANSPOSE_INTO_GEMM, FUSE_GEMM
from .linear.matmul_merging import MERGE_MATMULS, MERGE_PARALLEL_MATMULS
from .linear.weight_scale import FOLD_BATCHNORM_INTO_GEMM, FOLD_SCALE, FOLD_SCALE_INTO_WEIGHTS
from .movement.concats import BYPASS_CONCATS, CANCEL_CONCATS, MergeConcats
from .movement.expands import DROP_EXPAND_BEFORE_BROADCAST, MERGE_EXPANDS
from .movement.gathers import MERGE_GATHERS, RESHAPE_INDICES
from .movement.layout_propagation.move_transposes import MERGE_TRANSPOSES, MoveTransposes
from .movement.pads import MERGE_PADS
from .movement.reductions import MERGE_REDUCTIONS
from .movement.reshapes import (
    MERGE_RESHAPES,
    MULTIPLY_WITHOUT_RESHAPES,
    SINK_RESHAPES,
    TRANSPOSE_TO_RESHAPE,
    TRANSPOSE_WITHOUT_RESHAPES,
)
from .movement.slices import CANCEL_DEPTH_AND_SPACE, MERGE_SLICES, SlicesToSplit
from .shapes.fold_shapes import SIMPLIFY_SHAPE_READS, FoldShapes, MergeShapes
from .shapes.range_indices import DROP_RANGE_GATHERS
from .shapes.shape_operands import FOLD_SHAPE_OPERANDS, FoldDynamicShapeOperands
from .structure.drop_outputs import DropOutputs
from .structure.hoist_invariants import HoistInvariants
from .structure.inlining import InlineIf, InlineLoop
from .structure.merge_branches import MergeBranches
from .structure.sequences import DROP_OPTIONALS, RESOLVE_SEQUENCES

CONVOLUTION: tuple[Pass, ...] = (
    FOLD_BATCHNORM,
    FOLD_AFFINE_INTO_CONV,
    HOIST_AFFINE,
    FOLD_AFFINE_BEFORE_CONV,
    FOLD_PAD_INTO_CONV,
    FOLD_PAD_INTO_POOL,
    MERGE_PARALLEL_CONVS,
    MERGE_CONSECUTIVE_CONVS,
)
"""Folding of linear ops into Conv and ConvTranspose."""

SHAPES: tuple[Pass, ...] = (
    FoldShapes(),
    MergeShapes(),
    FOLD_SHAPE_OPERANDS,
    FoldDynamicShapeOperands(),
    SIMPLIFY_SHAPE_READS,
    DROP_RANGE_GATHERS,
)
"""Folding of shape computations."""

STRUCTURE: tuple[Pass, ...] = (InlineIf(), MergeBranches(), InlineLoop(), HoistInvariants(), RESOLVE_SEQUENCES)
"""Inlining of subgraphs, and removal of sequences."""

NO_OPS: tuple[Pass, ...] = (
    MERGE_CASTS,
    DROP_OPTIONALS,
    DROP_NO_OP_WHERE,
    DROP_NO_OP_SPLIT_CONCAT,
    DROP_NO_OP_INDEXING,
    DROP_NO_OP_POOL_RESIZE,
    DROP_NO_OP_REDUCTIONS,
    DROP_NO_OP_MOVEMENT,
)
"""Ops without effect."""

FUSION: tuple[Pass, ...] = (
    FUSE_GELU,
    FUSE_ACTIVATIONS,
    FUSE_HARD_ACTIVATIONS,
    FUSE_RECTIFIERS,
    FUSE_REDUCE_MEAN,
    FUSE_NORM,
    FUSE_KERAS_LAYER_NORM,
    FUSE_NORM_WEIGHTS,
    FUSE_SOFTMAX,
    FUSE_REDUCTIONS,
    FUSE_LP_NORM,
    FUSE_ATTENTION,
    FUSE_INTO_ATTENTION,
)
"""Fusion of several ops into one ONNX operator."""

ARITHMETIC: tuple[Pass, ...] = (
    DROP_NEUTRAL_OPERANDS,
    MERGE_LOGIC,
    DROP_IDEMPOTENT,
    MERGE_VARIADIC,
    MERGE_CLAMPS,
    DROP_UNBOUNDED_CLIP,
    MERGE_CONSTANT_OPERANDS,
    MERGE_AFFINE_CHAINS,
    CANONICALIZE_NEGATIONS,
    MERGE_NEGATIONS,
    MERGE_POWERS,
)
"""Elementwise algebra."""

MOVEMENT: tuple[Pass, ...] = (
    MERGE_TRANSPOSES,
    MoveTransposes(),
    TRANSPOSE_WITHOUT_RESHAPES,
    TRANSPOSE_TO_RESHAPE,
    MERGE_RESHAPES,
    SINK_RESHAPES,
    MULTIPLY_WITHOUT_RESHAPES,
    MERGE_REDUCTIONS,
    DROP_EXPAND_BEFORE_BROADCAST,
    MERGE_EXPANDS,
    MERGE_SLICES,
    MERGE_GATHERS,
    RESHAPE_INDICES,
    MERGE_PADS,
    MergeConcats(),
    CANCEL_CONCATS,
    BYPASS_CONCATS,
    CANCEL_DEPTH_AND_SPACE,
    SlicesToSplit(),
)
"""Ops that only move elements."""

MATRIX_PRODUCTS: tuple[Pass, ...] = (
    SIMPLIFY_EINSUM,
    FOLD_BATCHNORM_INTO_GEMM,
    FOLD_SCALE_INTO_WEIGHTS,
    MERGE_MATMULS,
    FUSE_GEMM,
    FOLD_BIAS,
    FOLD_TRANSPOSE_INTO_GEMM,
    FOLD_SCALE_INTO_GEMM,
    FOLD_SCALE,
    MERGE_PARALLEL_MATMULS,
)
"""Linear ops around MatMul, Gemm and Einsum become part of them."""


BUILT_IN: tuple[Pass, ...] = (
    RemoveUnused(),
    DropOutputs(),
    DROP_DROPOUT,
    DROP_IDENTITY,
    LiftConstants(),
    MergeConstants(),
    *CONVOLUTION,  # before equal ops are merged: a shared Conv has to stay as it is
    MergeDuplicates(),
    FoldConstants(),
    DropZeroStates(),
    *SHAPES,
    *STRUCTURE,
    *NO_OPS,
    *FUSION,  # before chains of constants are merged, which are parts of named operators
    *ARITHMETIC,
    *MOVEMENT,
    *MATRIX_PRODUCTS,
)
OPTIONAL_PASSES: tuple[Pass, ...] = (Debloat(),)
"""In no pipeline: they run where they are enabled by name."""

PIPELINES: dict[str, Pass] = {"none": Pipeline("none", ()), "basic": Fixpoint("basic", BUILT_IN)}

STAGES: dict[str, Stage] = {
    **{p.name: "cleanup" for p in BUILT_IN},
    **{p.name: "fold" for p in (*CONVOLUTION, FoldConstants(), *SHAPES, *ARITHMETIC, *MATRIX_PRODUCTS)},
    **{p.name: "fuse" for p in FUSION},
    **{p.name: "layout" for p in MOVEMENT},
}
"""The stage of each pass of `basic`; plugins can be placed after the last pass of a stage.

PRODUCTS fold what is linear, as CONVOLUTION does. So the last pass of stage fuse is that of FUSION, and what stands
behind it sees what it fuses before ARITHMETIC takes that apart.
"""
