"""The pipelines that come with passwright."""

from __future__ import annotations

from ..core import Fixpoint, Pass, Pipeline
from .cleanup.casts import MERGE_CASTS
from .cleanup.identity import DROP_DROPOUT, DROP_IDENTITY
from .cleanup.idle_indices import DROP_IDLE_INDICES
from .cleanup.idle_movement import DROP_IDLE_MOVEMENT
from .cleanup.idle_pieces import DROP_IDLE_PIECES
from .cleanup.idle_reductions import DROP_IDLE_REDUCTIONS
from .cleanup.idle_windows import DROP_IDLE_WINDOWS
from .cleanup.lift_constants import LiftConstants
from .cleanup.merge_constants import MergeConstants
from .cleanup.merge_duplicates import MergeDuplicates
from .cleanup.optionals import DROP_OPTIONALS
from .cleanup.remove_unused import RemoveUnused
from .cleanup.selections import DROP_IDLE_SELECTIONS
from .folding.fold_constants import FoldConstants
from .fusion.activations import FUSE_ACTIVATIONS
from .fusion.affine_norms import FUSE_AFFINE_NORM
from .fusion.attention import FUSE_ATTENTION
from .fusion.attention_operands import FUSE_INTO_ATTENTION
from .fusion.gelu import FUSE_GELU
from .fusion.hard_activations import FUSE_HARD_ACTIVATIONS
from .fusion.lp_norms import FUSE_LP_NORM
from .fusion.norm_weights import FUSE_NORM_WEIGHTS
from .fusion.norms import FUSE_NORM
from .fusion.rectifiers import FUSE_RECTIFIERS
from .fusion.reductions import FUSE_REDUCE_MEAN, FUSE_REDUCTIONS
from .fusion.softmaxes import FUSE_SOFTMAX
from .linear.affine_after import FOLD_AFFINE_INTO_CONV
from .linear.affine_before import FOLD_AFFINE_BEFORE_CONV
from .linear.batchnorm import FOLD_BATCHNORM
from .linear.branches import MERGE_PARALLEL_CONVS
from .linear.commuting import PASS_AFFINE_BACK
from .linear.gemm import FUSE_GEMM
from .linear.padding import FOLD_PAD_INTO_CONV
from .linear.pointwise import MERGE_CONSECUTIVE_CONVS
from .linear.pool_padding import FOLD_PAD_INTO_POOL
from .movement.transpose import MERGE_TRANSPOSES
from .shapes.fold_shapes import FoldShapes, MergeShapes
from .shapes.sources import TAKE_DIMS
from .shapes.targets import WRITE_SHAPES, WriteOpenShapes
from .structure.inline_if import InlineIf

BUILT_IN: tuple[Pass, ...] = (
    RemoveUnused(),
    DROP_DROPOUT,
    DROP_IDENTITY,
    LiftConstants(),
    MergeConstants(),
    FOLD_BATCHNORM,  # these before equal ops are merged: a shared Conv has to stay as it is
    FOLD_AFFINE_INTO_CONV,
    PASS_AFFINE_BACK,
    FOLD_AFFINE_BEFORE_CONV,  # before pads are folded: a shift folds only where there are none
    FOLD_PAD_INTO_CONV,
    FOLD_PAD_INTO_POOL,
    MERGE_PARALLEL_CONVS,
    MERGE_CONSECUTIVE_CONVS,
    MergeDuplicates(),
    FoldConstants(),
    FoldShapes(),
    MergeShapes(),
    WRITE_SHAPES,
    WriteOpenShapes(),
    TAKE_DIMS,
    InlineIf(),
    MERGE_CASTS,
    DROP_OPTIONALS,
    DROP_IDLE_SELECTIONS,
    DROP_IDLE_PIECES,
    DROP_IDLE_INDICES,
    DROP_IDLE_WINDOWS,
    DROP_IDLE_REDUCTIONS,
    DROP_IDLE_MOVEMENT,
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
    MERGE_TRANSPOSES,
    FUSE_GEMM,
)

PIPELINES: dict[str, Pass] = {
    "none": Pipeline("none", ()),
    "basic": Fixpoint("basic", BUILT_IN),
}
