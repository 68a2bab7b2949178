"""A rule that gives up bits, which runs where a pipeline quantizes."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, lossy, require, rule


@rule(lambda g, x: g.Sigmoid(x), contract=lossy(0.1))
def harden_sigmoid(g: RewriteBuilder, x: Value) -> Value:
    """Sigmoid(x) => HardSigmoid(x)"""
    require(x.dtype == np.float32, "the kernel is for single precision")
    return g.HardSigmoid(x, alpha=1 / 6, beta=0.5)
