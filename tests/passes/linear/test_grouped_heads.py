"""Products with the repeated heads of grouped-query attention."""

from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.linear import grouped_heads
from rewrite_tables import Rewrites

GROUP_HEADS = rule_pass(grouped_heads, "group-heads")

grouped = Rewrites("g (float[{q}] q, float[{k}] k) => (float[] y)", GROUP_HEADS, q="B,4,1,3", k="B,2,T,3")
REPEAT = "u = Unsqueeze(k, [2]) e = Expand(u, [1,1,2,1,1]) r = Reshape(e, [0,4,-1,3])"
KEYS = f"{REPEAT} t = Transpose<perm=[0,1,3,2]>(r) y = MatMul(q, t)"
LAST_REPEAT = "u = Unsqueeze(k, [3]) e = Expand(u, [1,1,1,2,1]) r = Reshape(e, [0,0,4,3])"
LAST_KEYS = f"{LAST_REPEAT} t = Transpose<perm=[0,2,3,1]>(r) y = MatMul(q, t)"
VALUES = f"{REPEAT} y = MatMul(q, r)"
PRODUCT = "x = Reshape(q, a) m = MatMul(x, {}) y = Reshape(m, b)"
ROWS = {
    "keys": (f"{KEYS} => t = Transpose<perm=[0,1,3,2]>(k) {PRODUCT.format('t')}", {}),
    "values": (f"{VALUES} => {PRODUCT.format('k')}", {"q": "B,4,1,T"}),
    "keys whose heads move after they are repeated": (
        f"{LAST_KEYS} => t = Transpose<perm=[0,2,3,1]>(k) {PRODUCT.format('t')}",
        {"k": "B,T,2,3"},
    ),
    "several rows": (f"{VALUES} => {PRODUCT.format('k')}", {"q": "1,4,5,7", "k": "1,2,7,3"}),
}
test_becomes = grouped.all_become(
    {
        f"{name}, {opset}": (text, {**dims, "opset": opset})
        for name, (text, dims) in ROWS.items()
        for opset in (13, 17, 22)
    }
)
test_stays = grouped.all_stay(f"""
    Attention does it [opset=23]: {KEYS}
    rows are unknown [q=B,4,S,3]: {KEYS}
    many rows [q=1,4,600,3; k=1,2,600,3]: {KEYS}
    queries are broadcast [q=1,4,1,3]: {KEYS}
    one head of queries [q=B,1,1,3]: {KEYS}
    no batch [q=4,1,3]: {KEYS}
    all heads are repeated in turn: {KEYS.replace("u, [1,1,2", "u, [1,2,1").replace("(k, [2])", "(k, [1])")}
    heads stay on axis 2 [q=B,5,1,3; k=B,5,2,3]: {LAST_KEYS.replace("0,2,3,1", "0,1,3,2")}
    the first factor [q=B,4,3,1]: {REPEAT} y = MatMul(r, q)
    read elsewhere [q=B,4,1,1; k=B,2,1,3]: {VALUES.replace("y =", "z =")} y = Add(z, r)
""")


@given(groups=st.integers(1, 3), repeats=st.integers(1, 3), rows=st.integers(1, 3), width=st.integers(1, 4))
def test_any_heads(groups: int, repeats: int, rows: int, width: int) -> None:
    heads = groups * repeats
    before = KEYS.replace("[1,1,2,", f"[1,1,{repeats},").replace("[0,4,-1,3]", f"[0,{heads},-1,{width}]")
    q, k = f"2,{heads},{rows},{width}", f"2,{groups},5,{width}"
    grouped.becomes(before, f"t = Transpose<perm=[0,1,3,2]>(k) {PRODUCT.format('t')}", q=q, k=k)
