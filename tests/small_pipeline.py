"""A pipeline of a few passes that leaves most models unchanged, for tests of other modules."""

from passwright.core import Fixpoint
from passwright.passes.pipelines import BUILT_IN

PASS_NAMES = (
    "remove-unused", "drop-dropout", "drop-identity", "lift-constants", "merge-constants", "fold-batchnorm",
    "merge-duplicates", "fold-constants", "inline-if", "merge-transposes", "fuse-gemm",
)  # fmt: skip
SMALL_PIPELINE = Fixpoint("families", tuple(p for p in BUILT_IN if p.name in PASS_NAMES))
