"""The built-in pipelines."""

from __future__ import annotations

from ..core import Fixpoint, Pass, Pipeline
from ..core.plugins.plugin import Stage
from .cleanup.debloat import Debloat
from .cleanup.identity import DROP_DROPOUT, DROP_IDENTITY
from .cleanup.initial_states import DropZeroStates
from .cleanup.lift_constants import LiftConstants
from .cleanup.merge_constants import MergeConstants
from .cleanup.merge_duplicates import MergeDuplicates
from .cleanup.remove_unused import RemoveUnused
from .families import ARITHMETIC, CONVOLUTION, FUSION, MATRIX_PRODUCTS, MOVEMENT, NO_OPS, SHAPES, STRUCTURE
from .folding.fold_constants import FoldConstants
from .structure.drop_outputs import DropOutputs

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
    *FUSION,  # before chains of constants are merged, which are parts of what has a name
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
"""What the passes of `basic` are for: other passes ask to stand behind the last of a stage.

PRODUCTS fold what is linear, as CONVOLUTION does. So the last pass of stage fuse is that of FUSION, and what stands
behind it sees what it fuses before ARITHMETIC takes that apart.
"""
