"""The passes by family; families, and the passes of each, in the order in which they run."""

from __future__ import annotations

from ..core import Pass
from .arithmetic.affine_chains import MERGE_AFFINE
from .arithmetic.clamp_rules import DROP_UNBOUNDED_CLIP, MERGE_CLAMPS
from .arithmetic.constant_chains import MERGE_CONSTANTS_IN_CHAINS
from .arithmetic.idempotent import DROP_REPEATED
from .arithmetic.logic import MERGE_LOGIC
from .arithmetic.negations import MERGE_NEGATIONS, WRITE_NEGATIONS
from .arithmetic.neutral_elements import DROP_NEUTRAL
from .arithmetic.powers import MERGE_POWERS
from .arithmetic.variadic import MERGE_VARIADIC
from .cleanup.casts import MERGE_CASTS
from .cleanup.no_op_indexing import DROP_IDLE_INDICES
from .cleanup.no_op_movement import DROP_IDLE_MOVEMENT, DROP_IDLE_PIECES
from .cleanup.no_op_pool_resize import DROP_IDLE_WINDOWS
from .cleanup.no_op_reductions import DROP_IDLE_REDUCTIONS
from .cleanup.no_op_where import DROP_IDLE_SELECTIONS
from .cleanup.optionals import DROP_OPTIONALS
from .fusion.activations import FUSE_ACTIVATIONS
from .fusion.attention import FUSE_ATTENTION
from .fusion.attention_operands import FUSE_INTO_ATTENTION
from .fusion.gelu import FUSE_GELU
from .fusion.hard_activations import FUSE_HARD_ACTIVATIONS
from .fusion.keras_layer_norm import FUSE_AFFINE_NORM
from .fusion.lp_norms import FUSE_LP_NORM
from .fusion.norm_weights import FUSE_NORM_WEIGHTS
from .fusion.norms import FUSE_NORM
from .fusion.rectifiers import FUSE_RECTIFIERS
from .fusion.reductions import FUSE_REDUCE_MEAN, FUSE_REDUCTIONS
from .fusion.softmaxes import FUSE_SOFTMAX
from .linear.affine_before_conv import FOLD_AFFINE_BEFORE_CONV
from .linear.affine_into_conv import FOLD_AFFINE_INTO_CONV
from .linear.batchnorm import FOLD_BATCHNORM
from .linear.consecutive_convs import MERGE_CONSECUTIVE_CONVS
from .linear.conv_padding import FOLD_PAD_INTO_CONV, FOLD_PAD_INTO_POOL
from .linear.einsum import SIMPLIFY_EINSUM
from .linear.fold_scale import FOLD_SCALE
from .linear.gemm import FUSE_GEMM
from .linear.gemm_alpha import SCALE_GEMM
from .linear.gemm_batchnorm import FOLD_BATCHNORM_INTO_GEMM
from .linear.gemm_bias import FOLD_BIAS
from .linear.gemm_transpose import TRANSPOSE_GEMM
from .linear.hoist_affine import PASS_AFFINE_BACK
from .linear.matmul_chains import MERGE_PRODUCTS
from .linear.parallel_convs import MERGE_PARALLEL_CONVS
from .linear.parallel_matmuls import MERGE_SIBLINGS
from .linear.weight_scale import SCALE_WEIGHTS
from .movement.concats import JOIN_PIECES, MergeConcats
from .movement.expands import MERGE_EXPANDS
from .movement.gathers import MERGE_GATHERS, RESHAPE_INDICES
from .movement.implicit_broadcasts import BROADCAST_INSTEAD
from .movement.layout_propagation.move_transposes import MoveTransposes
from .movement.matmul_reshapes import MULTIPLY_WITHOUT_RESHAPES
from .movement.pads import MERGE_PADS
from .movement.reductions import MERGE_REDUCTIONS
from .movement.reshape_sinking import KEEP_BATCHES, ROUND_TRIPS
from .movement.reshapes import MERGE_RESHAPES, RESHAPE_TRANSPOSES
from .movement.slices import CANCEL_DEPTH_AND_SPACE, MERGE_SLICES
from .movement.slices_to_split import SlicesToSplit
from .movement.split_concat import TAKE_PIECES
from .movement.transposes import MERGE_TRANSPOSES
from .shapes.fold_shapes import FoldShapes, MergeShapes
from .shapes.range_indices import READ_IN_ORDER
from .shapes.shape_operands import WRITE_SHAPES, WriteOpenShapes
from .shapes.shape_reads import TAKE_DIMS
from .structure.hoist_invariants import HoistInvariants
from .structure.inline_if import InlineIf
from .structure.inline_loop import InlineLoop
from .structure.merge_branches import MergeBranches
from .structure.sequences import RESOLVE_SEQUENCES

CONVOLUTION: tuple[Pass, ...] = (
    FOLD_BATCHNORM,
    FOLD_AFFINE_INTO_CONV,
    PASS_AFFINE_BACK,
    FOLD_AFFINE_BEFORE_CONV,
    FOLD_PAD_INTO_CONV,
    FOLD_PAD_INTO_POOL,
    MERGE_PARALLEL_CONVS,
    MERGE_CONSECUTIVE_CONVS,
)
"""Conv and ConvTranspose take in what is linear around them."""

SHAPES: tuple[Pass, ...] = (
    FoldShapes(),
    MergeShapes(),
    WRITE_SHAPES,
    WriteOpenShapes(),
    TAKE_DIMS,
    READ_IN_ORDER,
)
"""What is computed from shapes is written down."""

STRUCTURE: tuple[Pass, ...] = (
    InlineIf(),
    MergeBranches(),
    InlineLoop(),
    HoistInvariants(),
    RESOLVE_SEQUENCES,
)
"""Bodies that need not be bodies, and sequences that need not be made."""

IDLE: tuple[Pass, ...] = (
    MERGE_CASTS,
    DROP_OPTIONALS,
    DROP_IDLE_SELECTIONS,
    DROP_IDLE_PIECES,
    DROP_IDLE_INDICES,
    DROP_IDLE_WINDOWS,
    DROP_IDLE_REDUCTIONS,
    DROP_IDLE_MOVEMENT,
)
"""Ops that hand on what they are given."""

FUSION: tuple[Pass, ...] = (
    FUSE_GELU,
    FUSE_ACTIVATIONS,
    FUSE_HARD_ACTIVATIONS,
    FUSE_RECTIFIERS,
    FUSE_REDUCE_MEAN,
    FUSE_NORM,
    FUSE_AFFINE_NORM,
    FUSE_NORM_WEIGHTS,
    FUSE_SOFTMAX,
    FUSE_REDUCTIONS,
    FUSE_LP_NORM,
    FUSE_ATTENTION,
    FUSE_INTO_ATTENTION,
)
"""Several ops that ONNX has one name for."""

ARITHMETIC: tuple[Pass, ...] = (
    DROP_NEUTRAL,
    MERGE_LOGIC,
    DROP_REPEATED,
    MERGE_VARIADIC,
    MERGE_CLAMPS,
    DROP_UNBOUNDED_CLIP,
    MERGE_CONSTANTS_IN_CHAINS,
    MERGE_AFFINE,
    WRITE_NEGATIONS,
    MERGE_NEGATIONS,
    MERGE_POWERS,
)
"""Elementwise algebra."""

MOVEMENT: tuple[Pass, ...] = (
    MERGE_TRANSPOSES,
    MoveTransposes(),
    KEEP_BATCHES,
    RESHAPE_TRANSPOSES,
    MERGE_RESHAPES,
    ROUND_TRIPS,
    MULTIPLY_WITHOUT_RESHAPES,
    MERGE_REDUCTIONS,
    BROADCAST_INSTEAD,
    MERGE_EXPANDS,
    MERGE_SLICES,
    MERGE_GATHERS,
    RESHAPE_INDICES,
    MERGE_PADS,
    MergeConcats(),
    JOIN_PIECES,
    TAKE_PIECES,
    CANCEL_DEPTH_AND_SPACE,
    SlicesToSplit(),
)
"""Ops that only move elements."""

PRODUCTS: tuple[Pass, ...] = (
    SIMPLIFY_EINSUM,
    FOLD_BATCHNORM_INTO_GEMM,
    SCALE_WEIGHTS,
    MERGE_PRODUCTS,
    FUSE_GEMM,
    FOLD_BIAS,
    TRANSPOSE_GEMM,
    SCALE_GEMM,
    FOLD_SCALE,
    MERGE_SIBLINGS,
)
"""MatMul, Gemm and Einsum take in what is linear around them."""
