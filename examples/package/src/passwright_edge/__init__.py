"""Decompositions of operators that small runtimes lack: three passes, and the pipeline `edge` of them."""

from __future__ import annotations

from passwright.core import PassPlacement, Plugin

from .activations import DECOMPOSE_ACTIVATIONS
from .blocks import DECOMPOSE_BLOCKS
from .indices import NARROW_INDICES

__all__ = ["PLUGIN"]

# In the loop, decomposed ops would be fused again: so these passes run after it.
PLUGIN = Plugin(
    passes=tuple(PassPlacement(p, stage="final") for p in (NARROW_INDICES, DECOMPOSE_ACTIVATIONS, DECOMPOSE_BLOCKS)),
    pipelines={"edge": "basic,narrow-indices,spell-out-activations,spell-out-blocks"},
    passwright=">=0.1,<1",
    opsets=(13, 25),
)
