"""Decompositions of operators that small runtimes lack: three passes, and the pipeline `edge` of these passes."""

from __future__ import annotations

from passwright.core import PassPlacement, Plugin, rule_pass

from . import activations, blocks
from .indices import NARROW_INDICES

__all__ = ["PLUGIN"]

# In the loop, decomposed ops would be fused again: so these passes run after it.
PLUGIN = Plugin(
    passes=(
        PassPlacement(NARROW_INDICES, stage="final"),
        PassPlacement(rule_pass(activations, "spell-out-activations"), stage="final"),
        PassPlacement(rule_pass(blocks, "spell-out-blocks"), stage="final"),
    ),
    pipelines={"edge": "basic,narrow-indices,spell-out-activations,spell-out-blocks"},
    passwright=">=0.1,<1",
    opsets=(13, 25),
)
