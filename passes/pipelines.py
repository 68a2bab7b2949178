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
    LiftConstants(),
    MergeConstants(),
    DROP_DROPOUT,
    DROP_IDENTITY,
    FoldConstants(),
    InlineIf(),
    MERGE_TRANSPOSES,
    FOLD_BATCHNORM,
    FUSE_GEMM,
    MergeDuplicates(),  # last, since a shared op fits fewer patterns
)

PIPELINES: dict[str, Pass] = {
    "none": Pipeline("none", ()),
    "basic": Fixpoint("basic", BUILT_IN),
}
