"""A rule that is wrong in more places than anyone wants to hear of is left out as a whole."""

from __future__ import annotations

import numpy as np
from passwright.core import RewriteBuilder, Value, rule

PLACES = 22
MODEL = f"""g (float[N,4] x) => ({", ".join(f"float[N,4] y{i}" for i in range(PLACES))}, float[N,4] z) {{
    {" ".join(f"a{i} = Add(x, c{i}) y{i} = Abs(a{i})" for i in range(PLACES))}
    b = Identity(x)
    z = Exp(b)
}}"""
WEIGHTS = {f"c{i}": np.array(i, np.float32) for i in range(PLACES)}
WRONG = (*(("drop_abs", f"y{i}") for i in range(20)), ("drop_abs", ""))
WHY = "wrong"
AFTER = {"Abs": PLACES, "Add": PLACES, "Exp": 1}


@rule(lambda g, x: g.Abs(x))
def drop_abs(g: RewriteBuilder, x: Value) -> Value:
    """Abs(x) => x"""
    return x
