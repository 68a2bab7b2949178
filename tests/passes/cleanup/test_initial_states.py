"""Removal of zero initial states."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import to_onnx
from passwright.passes.cleanup.no_ops import DropZeroStates
from rewriting import apply_passes, canonical_nodes, each, load, require_equivalent, stays

PASS = DropZeroStates()
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
RNG = np.random.default_rng(0)


def weights(op: str, directions: int = 1, size: int = 2) -> dict[str, Any]:
    """The weights of a recurrent op for inputs of 5 features."""
    gates = GATES[op] * size
    shapes = {"W": (directions, gates, 5), "R": (directions, gates, size), "B": (directions, 2 * gates)}
    return {name: RNG.normal(size=s).astype(np.float32) for name, s in shapes.items()}


ZERO = np.zeros((1, 3, 2), np.float32)
STATES = {
    "z": ZERO,
    "h1": ZERO + 1,
    "minus": -ZERO,
    "shape": np.array([1, 3, 2]),
    "at": np.array([3]),
    "to": np.array([6]),
    "axis": np.array([1]),
}
L, R, N = "LSTM<hidden_size=2>", "GRU<hidden_size=2>", "RNN<hidden_size=2>"
TEXT = "g (float[4,3,5] x, float[1,3,2] h) => (float[p,q,r,s] y)"
FILLED = "o = ConstantOfShape(shape)"
MANY = (
    " ".join(f"o{i} = ConstantOfShape(shape)" for i in range(20))
    + f" c = Concat<axis=1>({', '.join(f'o{i}' for i in range(20))})"
)


def used(nodes: str) -> dict[str, Any]:
    """The weights and states read by the nodes."""
    op = next(t for t in GATES if t in nodes)
    names = set(re.findall(r"\w+", nodes))
    return {name: a for name, a in (weights(op) | STATES).items() if name in names}


def becomes(before: str, after: str, given: Mapping[str, Any]) -> None:
    """The weights are in both models, unlike in other tables."""
    model = load(before, weights=given)
    result, change_log = apply_passes(model, PASS)
    out = to_onnx(result)
    onnx.checker.check_model(out)
    require_equivalent(model, out, exact=change_log.is_exact)
    assert canonical_nodes(out.graph) == canonical_nodes(load(after, weights=given).graph)


@each(
    ("before", "after"),
    {
        "LSTM": (f"y = {L}( x, W, R, B, , z, z )", f"y = {L}( x, W, R, B )"),
        "GRU": (f"y = {R}( x, W, R, B, , z )", f"y = {R}( x, W, R, B )"),
        "RNN without bias": (f"y = {N}( x, W, R, , , z )", f"y = {N}( x, W, R )"),
        "only the first": (f"y = {L}( x, W, R, B, , z, h )", f"y = {L}( x, W, R, B, , , h )"),
        "only the second": (f"y = {L}( x, W, R, B, , h, z )", f"y = {L}( x, W, R, B, , h )"),
        "filled by default": (f"{FILLED} y = {L}( x, W, R, B, , o, o )", f"{FILLED} y = {L}( x, W, R, B )"),
        "filled and moved": (
            f"{FILLED} n = Neg(h) t = Transpose<perm=[0,1,2]>(o) y = {L}( x, W, R, B, , t, n )",
            f"{FILLED} n = Neg(h) t = Transpose<perm=[0,1,2]>(o) y = {L}( x, W, R, B, , , n )",
        ),
        "joined": (
            f"{FILLED} c = Concat<axis=1>(o, z, o) n = Neg(h) s = Slice(c, at, to, axis) y = {L}( x, W, R, B, , s, n )",
            f"{FILLED} c = Concat<axis=1>(o, z, o) n = Neg(h) s = Slice(c, at, to, axis) y = {L}( x, W, R, B, , , n )",
        ),
        "read inside": (f"a = {R}( x, W, R, B, , z ) y = Neg(a)", f"a = {R}( x, W, R, B ) y = Neg(a)"),
    },
)
def test_becomes(before: str, after: str) -> None:
    becomes(f"{TEXT} {{ {before} }}", f"{TEXT} {{ {after} }}", used(before))


@each(
    "nodes",
    {
        "none given": (f"y = {L}( x, W, R, B )"),
        "known at run time only": (f"y = {L}( x, W, R, B, , h, h )"),
        "joined with ones": (f"c = Concat<axis=1>(z, h1) s = Slice(c, at, to, axis) y = {R}( x, W, R, B, , s )"),
        "joined with others": (f"c = Concat<axis=1>(z, h) s = Slice(c, at, to, axis) y = {R}( x, W, R, B, , s )"),
        "joined of many": (f"{MANY} s = Slice(c, at, to, axis) y = {R}( x, W, R, B, , s )"),
        "ones": (f"y = {R}( x, W, R, B, , h1 )"),
        "negative zeros": (f"y = {R}( x, W, R, B, , minus )"),
        "filled with 1": (f"o = ConstantOfShape<value: tensor = float[1] {{1}}>(shape) y = {R}( x, W, R, B, , o )"),
        "filled and negated": (f"{FILLED} n = Neg(o) y = {R}( x, W, R, B, , n )"),
        "filled and added": (f"{FILLED} n = Add(h, o) y = {R}( x, W, R, B, , n )"),
        "computed": (f"m = Sub(h, h) y = {N}( x, W, R, B, , m )"),
        "moved after other ops": (f"s = ReduceSum(z) e = Expand(s, shape) y = {N}( x, W, R, B, , e )"),
    },
)
def test_stays(nodes: str) -> None:
    stays(f"{TEXT} {{ {nodes} }}", PASS, weights=used(nodes))


def test_overridable_state_stays() -> None:
    zeros = ",".join("0" * 6)
    text = f"g (float[4,3,5] x, float[1,3,2] z = {{{zeros}}}) => (float[p,q,r,s] y) {{ y = {R}(x, W, R, B, , z) }}"
    stays(text, PASS, weights=weights("GRU"))


def test_omitted_outputs_stay_omitted() -> None:
    text = "g (float[4,3,5] x) => (float[p,q,r] y) {{ , y = {}({}) }}"
    before = text.format(L, "x, W, R, B, , z, z")
    becomes(before, text.format(L, "x, W, R, B"), weights("LSTM") | {"z": ZERO})


def test_inside_an_if_body() -> None:
    text = (
        "g (bool c, float[4,3,5] x) => (float[p,q,r,s] y) {{ y = If (c) <then_branch = a () => (float[4,1,3,2] t)"
        " {{ t = {} }}, else_branch = b () => (float[4,1,3,2] u) {{ u = {} }}> }}"
    )
    kept = f"{R}(x, W, R, B)"
    before = text.format(f"{R}(x, W, R, B, , z)", kept)
    becomes(before, text.format(kept, kept), weights("GRU") | {"z": ZERO})


@given(
    st.sampled_from(["LSTM", "GRU", "RNN"]),
    st.sampled_from(["forward", "reverse", "bidirectional"]),
    st.integers(1, 3),
    st.booleans(),
)
def test_states_of_any_parameters(op: str, direction: str, size: int, is_zero: bool) -> None:
    directions = 1 + (direction == "bidirectional")
    given_weights = weights(op, directions, size) | {"z": np.full((directions, 3, size), not is_zero, np.float32)}
    made = f'{op}<hidden_size={size}, direction="{direction}">'
    text = "g (float[4,3,5] x) => (float[p,q,r,s] y)"
    before = f"{text} {{ y = {made}(x, W, R, B, , z) }}"
    if is_zero:
        becomes(before, f"{text} {{ y = {made}(x, W, R, B) }}", given_weights)
    else:
        stays(before, PASS, weights=given_weights)
