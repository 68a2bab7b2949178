"""An epsilon leaves its root; beside the normalized numbers is a time in seconds, above a billion."""

from __future__ import annotations

from passwright.core import RewriteBuilder, Value, rule

MODEL = """g (float[N,6] x, int64[N,1] t) => (float[N,7] y, float[N,6] z)
  <float epsilon = {1e-5}, float nothing = {0.0}, int64 epoch = {1700000000}> {
    m = ReduceMean<axes=[-1]>(x)
    d = Sub(x, m)
    q = Mul(d, d)
    v = ReduceMean<axes=[-1]>(q)
    e = Add(v, epsilon)
    r = Sqrt(e)
    n = Div(d, r)
    s = Add(t, epoch)
    f = Cast<to=1>(s)
    y = Concat<axis=-1>(n, f)
    u = Abs(x)
    w = Add(u, nothing)
    z = Sqrt(w)
}"""
WRONG = (("epsilon_outside", "r"),)
WHY = "wrong"
AFTER = {"Abs": 1, "Add": 3, "Cast": 1, "Concat": 1, "Div": 1, "Mul": 1, "ReduceMean": 2, "Sqrt": 2, "Sub": 1}


@rule(lambda g, v, e: g.Sqrt(g.Add(v, g.const(e))))
def epsilon_outside(g: RewriteBuilder, v: Value, e: Value) -> Value:
    """Sqrt(v + e) => Sqrt(v) + e"""
    return g.Add(g.Sqrt(v), e)
