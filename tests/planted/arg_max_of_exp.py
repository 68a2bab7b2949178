"""ArgMax looks through Exp, which is monotone in real numbers but makes ties of what over- or underflows.

Known from onnxsim and onnxoptimizer.
"""

from __future__ import annotations

from passwright.core import EXACT, Op, RewriteBuilder, Value, rule

MODEL = """g (float[N,5] x) => (int64[N,1] y, int64[N,1] z) {
    a = Exp(x)
    y = ArgMax<axis=1>(a)
    s = Sign(x)
    e = Exp(s)
    i = Identity(e)
    z = ArgMax<axis=1>(i)
}"""
WRONG = (("arg_max_of_exp", "y"),)
WHY = "wrong"
AFTER = {"ArgMax": 2, "Exp": 1, "Sign": 1}


@rule(lambda g, x, arg: g.ArgMax(g.Exp(x)) @ arg, contract=EXACT)
def arg_max_of_exp(g: RewriteBuilder, x: Value, arg: Op) -> Value:
    """ArgMax(Exp(x)) => ArgMax(x)"""
    return g.ArgMax(x, **arg.attrs)
