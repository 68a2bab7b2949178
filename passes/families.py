"""The built-in passes by family, in the order in which they run."""

from __future__ import annotations

from ..core import Pass
from .arithmetic.affine_chains import MERGE_AFFINE_CHAINS
from .arithmetic.clamp_rules import DROP_UNBOUNDED_CLIP, MERGE_CLAMPS
from .arithmetic.constant_chains import MERGE_CONSTANT_OPERANDS
from .arithmetic.idempotent import DROP_IDEMPOTENT
from .arithmetic.logic import MERGE_LOGIC
from .arithmetic.negations import CANONICALIZE_NEGATIONS, MERGE_NEGATIONS
from .arithmetic.neutral_elements import DROP_NEUTRAL_OPERANDS
from .arithmetic.powers import MERGE_POWERS
from .arithmetic.variadic import MERGE_VARIADIC
from .cleanup.casts import MERGE_CASTS
from .cleanup.no_op_indexing import DROP_NO_OP_INDEXING
from .cleanup.no_op_movement import DROP_NO_OP_MOVEMENT, DROP_NO_OP_SPLIT_CONCAT
from .cleanup.no_op_pool_resize import DROP_NO_OP_POOL_RESIZE
from .cleanup.no_op_reductions import DROP_NO_OP_REDUCTIONS
from .cleanup.no_op_where import DROP_NO_OP_WHERE
from .cleanup.optionals import DROP_OPTIONALS
from .fusion.activations import FUSE_ACTIVATIONS
from .fusion.attention import FUSE_ATTENTION
from .fusion.attention_operands import FUSE_INTO_ATTENTION
from .fusion.gelu import FUSE_GELU
from .fusion.hard_activations import FUSE_HARD_ACTIVATIONS
from .fusion.keras_layer_norm import FUSE_KERAS_LAYER_NORM
from .fusion.lp_norms import FUSE_LP_NORM
from .fusion.norm_weights import FUSE_NORM_WEIGHTS
from .fusion.norms import FUSE_NORM
from .fusion.rectifiers import FUSE_RECTIFIERS
from .fusion.reductions import FUSE_REDUCE_MEAN, FUSE_REDUCTIONS
from .fusion.softmaxes import FUSE_SOFTMAX
from .linear.affine_before_conv import FOLD_AFFINE_BEFORE_CONV
from .linear.affine_into_conv import FOLD_AFFINE_INTO_CONV, FOLD_BATCHNORM
from .linear.consecutive_convs import MERGE_CONSECUTIVE_CONVS
from .linear.conv_padding import FOLD_PAD_INTO_CONV, FOLD_PAD_INTO_POOL
from .linear.einsum import SIMPLIFY_EINSUM
from .linear.fold_scale import FOLD_SCALE
from .linear.gemm import FUSE_GEMM
from .linear.gemm_alpha import FOLD_SCALE_INTO_GEMM
from .linear.gemm_batchnorm import FOLD_BATCHNORM_INTO_GEMM
from .linear.gemm_bias import FOLD_BIAS
from .linear.gemm_transpose import FOLD_TRANSPOSE_INTO_GEMM
from .linear.hoist_affine import HOIST_AFFINE
from .linear.matmul_chains import MERGE_MATMULS
from .linear.parallel_convs import MERGE_PARALLEL_CONVS
from .linear.parallel_matmuls import MERGE_PARALLEL_MATMULS
from .linear.weight_scale import FOLD_SCALE_INTO_WEIGHTS
from .movement.concats import CANCEL_CONCATS, MergeConcats
from .movement.expands import MERGE_EXPANDS
from .movement.gathers import MERGE_GATHERS, RESHAPE_INDICES
from .movement.implicit_broadcasts import DROP_EXPAND_BEFORE_BROADCAST
from .movement.layout_propagation.move_transposes import MoveTransposes
from .movement.matmul_reshapes import MULTIPLY_WITHOUT_RESHAPES
from .movement.pads import MERGE_PADS
from .movement.reductions import MERGE_REDUCTIONS
from .movement.reshape_sinking import SINK_RESHAPES, TRANSPOSE_WITHOUT_RESHAPES
from .movement.reshapes import MERGE_RESHAPES, TRANSPOSE_TO_RESHAPE
from .movement.slices import CANCEL_DEPTH_AND_SPACE, MERGE_SLICES
from .movement.slices_to_split import SlicesToSplit
from .movement.split_concat import BYPASS_CONCATS
from .movement.transposes import MERGE_TRANSPOSES
from .shapes.fold_shapes import FoldShapes, MergeShapes
from .shapes.range_indices import DROP_RANGE_GATHERS
from .shapes.shape_operands import FOLD_SHAPE_OPERANDS, FoldDynamicShapeOperands
from .shapes.shape_reads import SIMPLIFY_SHAPE_READS
from .structure.hoist_invariants import HoistInvariants
from .structure.inline_if import InlineIf
from .structure.inline_loop import InlineLoop
from .structure.merge_branches import MergeBranches
from .structure.sequences import RESOLVE_SEQUENCES

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
"""MatMul, Gemm and Einsum take in what is linear around them."""
