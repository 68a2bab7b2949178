"""The pipelines that come with passwright."""

from __future__ import annotations

from ..core import Fixpoint, Pass, Pipeline
from .batchnorm import FOLD_BATCHNORM
from .fold_constants import FoldConstants
from .gemm import FUSE_GEMM
from .identity import DROP_DROPOUT, DROP_IDENTITY
from .inline_if import InlineIf
from .lift_constants import LiftConstants
from .merge_constants import MergeConstants
from .merge_duplicates import MergeDuplicates
from .remove_unused import RemoveUnused
from .transpose import MERGE_TRANSPOSES

BUILT_IN: tuple[Pass, ...] = (
    RemoveUnused(),
    DROP_DROPOUT,
    DROP_IDENTITY,
    LiftConstants(),
    MergeConstants(),
    FOLD_BATCHNORM,  # before equal ops are merged: a shared Conv has to stay as it is
    MergeDuplicates(),
    FoldConstants(),
    InlineIf(),
    MERGE_TRANSPOSES,
    FUSE_GEMM,
)

PIPELINES: dict[str, Pass] = {
    "none": Pipeline("none", ()),
    "basic": Fixpoint("basic", BUILT_IN),
}
