"""The pipelines that come with passwright."""

from __future__ import annotations

from ..core import Fixpoint, Pass, Pipeline
from .cleanup.identity import DROP_DROPOUT, DROP_IDENTITY
from .cleanup.lift_constants import LiftConstants
from .cleanup.merge_constants import MergeConstants
from .cleanup.merge_duplicates import MergeDuplicates
from .cleanup.remove_unused import RemoveUnused
from .folding.fold_constants import FoldConstants
from .linear.batchnorm import FOLD_BATCHNORM
from .linear.gemm import FUSE_GEMM
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
    FOLD_BATCHNORM,  # before equal ops are merged: a shared Conv has to stay as it is
    MergeDuplicates(),
    FoldConstants(),
    FoldShapes(),
    MergeShapes(),
    WRITE_SHAPES,
    WriteOpenShapes(),
    TAKE_DIMS,
    InlineIf(),
    MERGE_TRANSPOSES,
    FUSE_GEMM,
)

PIPELINES: dict[str, Pass] = {
    "none": Pipeline("none", ()),
    "basic": Fixpoint("basic", BUILT_IN),
}
