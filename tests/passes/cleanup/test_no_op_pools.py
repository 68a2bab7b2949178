"""Pools of one element, and resizing to the same size."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.cleanup import no_ops
from passwright.passes.cleanup.no_ops import drop_no_op_average_pool, drop_no_op_max_pool, drop_unit_resize
from rewrite_tables import Rewrites
from rewriting import apply_passes, becomes, each, load, stays

DROP_NO_OP_POOL_RESIZE = rule_pass(no_ops, "drop-no-op-pool-resize")

RULES = DROP_NO_OP_POOL_RESIZE.rules
HEAD = "g (float[n,2,4,3] x) => (float[p,q,r,s] y)"
SMALL = "g (float[n,2,1,1] x) => (float[p,q,r,s] y)"
IMAGE = "g (float[1,2,4,3] x) => (float[p,q,r,s] y)"
ONES, SIZES = np.ones(4, np.float32), np.array([1, 2, 4, 3])


@each(
    ("head", "node"),
    {
        "AveragePool": (HEAD, "AveragePool<kernel_shape=[1,1]>(x)"),
        "AveragePool in full": (HEAD, "AveragePool<kernel_shape=[1,1],strides=[1,1],pads=[0,0,0,0]>(x)"),
        "AveragePool, odd": (HEAD, "AveragePool<kernel_shape=[1,1],count_include_pad=1,ceil_mode=1>(x)"),
        "AveragePool, same size": (HEAD, 'AveragePool<kernel_shape=[1,1],auto_pad="SAME_UPPER">(x)'),
        "AveragePool, nothing to step to": (SMALL, "AveragePool<kernel_shape=[1,1],strides=[2,3]>(x)"),
        "GlobalAveragePool": (SMALL, "GlobalAveragePool(x)"),
        "Resize": (HEAD, "Resize(x, , c)"),
        "corners": (HEAD, 'Resize<mode="linear",coordinate_transformation_mode="align_corners">(x, , c)'),
        "Resize, cubic": (HEAD, 'Resize<mode="cubic",cubic_coeff_a=-0.5,exclude_outside=1>(x, , c)'),
        "Resize, roi ignored": (HEAD, 'Resize<coordinate_transformation_mode="asymmetric">(x, roi, c)'),
        "Resize to sizes": (IMAGE, "Resize(x, , , z)"),
        "Resize to sizes, no scales": (IMAGE, 'Resize<mode="linear">(x, , none, z)'),
    },
)
def test_becomes(head: str, node: str) -> None:
    weights = {"c": ONES, "z": SIZES, "roi": np.zeros(8, np.float32), "none": np.zeros(0, np.float32)}
    becomes(f"{head} {{ t = {node} y = Neg(t) }}", f"{head} {{ y = Neg(x) }}", *RULES, weights=weights)
    becomes(f"{head} {{ y = {node} }}", f"{head} {{ y = Identity(x) }}", *RULES, weights=weights)


no_op_pools = Rewrites(
    "g ({x}) => (float[] y)", *RULES, weights={"n": np.array([], np.float32)}, x="float[1,2,4,3] x, float[1,2,1,1] s"
)

test_becomes_elsewhere = no_op_pools.using(opset=17).all_become("""
    one spatial dim [x=float[1,2,4] x]: t = AveragePool<kernel_shape=[1]>(x) y = Neg(t) => y = Neg(x)
    Resize of an axis [opset=18; x=float[n,2,4,h] x]: t = Resize<axes=[-2]>(x, , , [4]) y = Neg(t) => y = Neg(x)
    Resize, antialiased [opset=18; x=float[n,2,4,3] x]:
        t = Resize<axes=[2,3],antialias=1,mode="linear">(x, , [1.0,1.0]) y = Neg(t) => y = Neg(x)
    Resize, its aspect kept [opset=18; x=float[n,2,4,3] x]:
        t = Resize<axes=[2],keep_aspect_ratio_policy="not_larger">(x, , , [4]) y = Neg(t) => y = Neg(x)
    Resize, symmetric [opset=19; x=float[1,2,4,3] x]:
        t = Resize<coordinate_transformation_mode="half_pixel_symmetric">(x, , , [1,2,4,3]) y = Neg(t) => y = Neg(x)
    inside an If body, captured [x=bool c, float[1,1,2,2] x]: y = If(c) <then_branch = a () => (float[p,q,r,s] e) {
        t = AveragePool<kernel_shape=[1,1]>(x) e = Neg(t) }, else_branch = b () => (float[p,q,r,s] d) { d = Relu(x) }>
        => y = If(c) <then_branch = a () => (float[p,q,r,s] e) { e = Neg(x) },
        else_branch = b () => (float[p,q,r,s] d) { d = Relu(x) }>
    overridable initializer [x=float[1,1,1,1] x = {1}]: t = GlobalAveragePool(x) y = Neg(t) => y = Neg(x)
""")

INTS = "g (int8[1,1,4,h] x) => (float[p,q,r,s] y)"


@each("opset", [12, 22, 26])
@each(
    "node",
    {
        "plain": ("t = MaxPool<kernel_shape=[1,1]>(x)"),
        "dilated": ("t = MaxPool<kernel_shape=[1,1],strides=[1,1],dilations=[2,2],ceil_mode=1>(x)"),
        "in another order": ('t = MaxPool<kernel_shape=[1,1],auto_pad="VALID",storage_order=1>(x)'),
        "the indices are not read": ("t, i = MaxPool<kernel_shape=[1,1]>(x)"),
    },
)
def test_maximum_of_whole_numbers(node: str, opset: int) -> None:
    before, after = f"{INTS} {{ {node} y = Cast<to=1>(t) }}", f"{INTS} {{ y = Cast<to=1>(x) }}"
    becomes(before, after, drop_no_op_max_pool, opset=opset)


@each(
    ("opset", "node", "weights"),
    [
        (7, "AveragePool<kernel_shape=[1,1]>(x)", {}),
        (26, "AveragePool<kernel_shape=[1,1],dilations=[2,2]>(x)", {}),
        (7, "Upsample<scales=[1.0,1.0,1.0,1.0]>(x)", {}),
        (9, 'Upsample<mode="linear">(x, c)', {"c": ONES}),
        (10, "Resize(x, c)", {"c": ONES}),
        (11, "Resize(x, n, c)", {"c": ONES, "n": ONES[:0]}),
        (11, 'Resize<mode="linear">(x, n, n, z)', {"z": SIZES, "n": ONES[:0]}),
        (26, "Resize(x, , , z)", {"z": SIZES}),
    ],
)
def test_every_opset(opset: int, node: str, weights: dict[str, Any]) -> None:
    before, after = f"{IMAGE} {{ t = {node} y = Neg(t) }}", f"{IMAGE} {{ y = Neg(x) }}"
    becomes(before, after, *RULES, opset=opset, weights=weights)


test_stays = no_op_pools.using(runs=False).all_stay("""
    AveragePool of two: y = AveragePool<kernel_shape=[2,1]>(x)
    AveragePool, strides: y = AveragePool<kernel_shape=[1,1],strides=[1,2]>(x)
    AveragePool, pads: y = AveragePool<kernel_shape=[1,1],pads=[0,0,1,0]>(x)
    MaxPool of floats, that may be NaN: y = MaxPool<kernel_shape=[1,1]>(x)
    MaxPool of two: y = MaxPool<kernel_shape=[1,2]>(x)
    GlobalMaxPool of floats, that may be NaN: y = GlobalMaxPool(s)
    LpPool is an absolute value: y = LpPool<kernel_shape=[1,1]>(x)
    GlobalAveragePool of several: y = GlobalAveragePool(x)
    GlobalMaxPool of several: y = GlobalMaxPool(x)
    GlobalLpPool is an absolute value: y = GlobalLpPool(s)
    Resize, by two: y = Resize(x, , [1.0,1.0,2.0,2.0])
    Resize, by nearly one: y = Resize(x, , [1.0,1.0,1.2000000476837158,1.0])
    Resize to other sizes: y = Resize(x, , , [1,2,4,4])
    Resize of a part: y = Resize<coordinate_transformation_mode="tf_crop_and_resize">(x,
        [0.0,0.0,0.0,0.0,1.0,1.0,0.5,0.5], [1.0,1.0,1.0,1.0])
""")

test_stays_elsewhere = no_op_pools.using(runs=False).all_stay("""
    open extents [x=float[n,2,h,w] x]: y = GlobalAveragePool(x)
    no spatial dims [x=float[n,2] x]: y = GlobalAveragePool(x)
    unknown extents, strides [x=float[n,2,h,w] x]: y = AveragePool<kernel_shape=[1,1],strides=[2,2]>(x)
    the indices are an output [graph=g (int8[1,1,2,2] x) => (int8[p,q,r,s] y, int64[p,q,r,s] i)]:
        y, i = MaxPool<kernel_shape=[1,1]>(x)
    open size [x=float[1,2,4,w] x]: y = Resize(x, , , [1,2,4,3])
    scales [x=float[n,2,4,w] x, float[4] c]: y = Resize(x, , c)
    overridable scales [x=float[1,1,2,2] x, float[4] c = {1,1,1,1}]: y = Resize(x, , c)
    MaxPool, strides [graph=g (uint8[1,1,2,2] x) => (uint8[] y)]: y = MaxPool<kernel_shape=[1,1],strides=[2,1]>(x)
    MaxPool, same ratio [graph=g (uint8[1,1,2,2] x) => (uint8[] y)]:
        y = MaxPool<kernel_shape=[1,1],strides=[2,2],auto_pad="SAME_UPPER">(x)
    half an element off, says the operator [opset=11; x=float[1,2,4,3] x]:
        y = Resize<mode="nearest",coordinate_transformation_mode="tf_half_pixel_for_nn">(x, n, n, [1,2,4,3])
""")

RESIZED = (
    "g (float[1,1,2,2] x, int64[4] s, float[4] c) => (float[1,1,2,2] y) <float[1,1,2,2] t> {{ t = {} y = Neg(t) }}"
)


def test_sizes_known_from_the_type() -> None:
    after = "g (float[1,1,2,2] x, int64[4] s, float[4] c) => (float[1,1,2,2] y) { y = Neg(x) }"
    becomes(RESIZED.format("Resize(x, , , s)"), after, drop_unit_resize, runs=False)


@each(
    "node",
    {
        "scales may be nearly one": ("Resize(x, , c)"),
        "sizes may be larger": ('Resize<keep_aspect_ratio_policy="not_larger">(x, , , s)'),
        "a part": ('Resize<coordinate_transformation_mode="tf_crop_and_resize">(x, c, , s)'),
    },
)
def test_same_shape_is_not_enough(node: str) -> None:
    stays(RESIZED.format(node), drop_unit_resize, opset=18, runs=False)


def test_possibly_negative_zeros_stay() -> None:
    """onnxruntime adds to 0, which turns a -0 into 0."""
    model = load(f"{HEAD} {{ y = AveragePool<kernel_shape=[1,1]>(x) }}")
    _, change_log = apply_passes(model, drop_no_op_average_pool, exact_only=True)
    assert not change_log.changes


NUMBERS = st.lists(st.integers(1, 2), min_size=2, max_size=2)


@given(kernel=NUMBERS, strides=NUMBERS, extents=NUMBERS)
def test_dropped_only_if_windows_hold_one_element(kernel: list[int], strides: list[int], extents: list[int]) -> None:
    if any(k > e for k, e in zip(kernel, extents, strict=True)):
        return
    head = f"g (float[1,1,{extents[0]},{extents[1]}] x) => (float[p,q,r,s] y)"
    text = f"{head} {{ t = AveragePool<kernel_shape={kernel},strides={strides}>(x) y = Neg(t) }}"
    if kernel == [1, 1] and all(s == 1 or e == 1 for s, e in zip(strides, extents, strict=True)):
        becomes(text, f"{head} {{ y = Neg(x) }}", *RULES)
    else:
        stays(text, *RULES, runs=False)
