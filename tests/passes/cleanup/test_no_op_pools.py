"""Pools of one element, and resizing to the same size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.core import rule_pass
from passwright.passes.cleanup import no_ops
from passwright.passes.cleanup.no_ops import drop_no_op_average_pool, drop_no_op_max_pool, drop_unit_resize
from rewriting import apply_passes, becomes, cases, load, stays

DROP_NO_OP_POOL_RESIZE = rule_pass(no_ops, "drop-no-op-pool-resize")

RULES = DROP_NO_OP_POOL_RESIZE.rules
HEAD = "g (float[n,2,4,3] x) => (float[p,q,r,s] y)"
SMALL = "g (float[n,2,1,1] x) => (float[p,q,r,s] y)"
IMAGE = "g (float[1,2,4,3] x) => (float[p,q,r,s] y)"
ONES, SIZES = np.ones(4, np.float32), np.array([1, 2, 4, 3])


@cases(
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


@cases(
    ("before", "after", "opset"),
    {
        "one spatial dim": (
            "g (float[1,2,4] x) => (float[p,q,r] y) { t = AveragePool<kernel_shape=[1]>(x) y = Neg(t) }",
            "g (float[1,2,4] x) => (float[p,q,r] y) { y = Neg(x) }",
            17,
        ),
        "Resize of an axis": (
            "g (float[n,2,4,h] x) => (float[p,q,r,s] y) { t = Resize<axes=[-2]>(x, , , f) y = Neg(t) }",
            "g (float[n,2,4,h] x) => (float[p,q,r,s] y) { y = Neg(x) }",
            18,
        ),
        "Resize, antialiased": (
            (
                "g (float[n,2,4,3] x) => (float[p,q,r,s] y)"
                ' { t = Resize<axes=[2,3],antialias=1,mode="linear">(x, , o) y = Neg(t) }'
            ),
            "g (float[n,2,4,3] x) => (float[p,q,r,s] y) { y = Neg(x) }",
            18,
        ),
        "Resize, its aspect kept": (
            (
                "g (float[n,2,4,3] x) => (float[p,q,r,s] y)"
                ' { t = Resize<axes=[2],keep_aspect_ratio_policy="not_larger">(x, , , f) y = Neg(t) }'
            ),
            "g (float[n,2,4,3] x) => (float[p,q,r,s] y) { y = Neg(x) }",
            18,
        ),
        "Resize, symmetric": (
            (
                "g (float[1,2,4,3] x) => (float[p,q,r,s] y)"
                ' { t = Resize<coordinate_transformation_mode="half_pixel_symmetric">(x, , , z) y = Neg(t) }'
            ),
            "g (float[1,2,4,3] x) => (float[p,q,r,s] y) { y = Neg(x) }",
            19,
        ),
        "inside an If body, captured": (
            (
                "g (bool c, float[1,1,2,2] x) => (float[p,q,r,s] y) { y = If (c) <then_branch = a () =>"
                " (float[p,q,r,s] e)"
                " { t = AveragePool<kernel_shape=[1,1]>(x) e = Neg(t) }, else_branch = b () => (float[p,q,r,s] d)"
                " { d = Relu(x) }> }"
            ),
            (
                "g (bool c, float[1,1,2,2] x) => (float[p,q,r,s] y) { y = If (c) <then_branch = a () =>"
                " (float[p,q,r,s] e)"
                " { e = Neg(x) }, else_branch = b () => (float[p,q,r,s] d) { d = Relu(x) }> }"
            ),
            17,
        ),
        "overridable initializer": (
            "g (float[1,1,1,1] x = {1}) => (float[p,q,r,s] y) { t = GlobalAveragePool(x) y = Neg(t) }",
            "g (float[1,1,1,1] x = {1}) => (float[p,q,r,s] y) { y = Neg(x) }",
            17,
        ),
    },
)
def test_becomes_elsewhere(before: str, after: str, opset: int) -> None:
    weights = {"z": SIZES, "f": np.array([4]), "o": np.ones(2, np.float32)}
    becomes(before, after, *RULES, opset=opset, weights=weights)


INTS = "g (int8[1,1,4,h] x) => (float[p,q,r,s] y)"


@pytest.mark.parametrize("opset", [12, 22, 26])
@cases(
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


@pytest.mark.parametrize(
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


@cases(
    "node",
    {
        "AveragePool of two": ("AveragePool<kernel_shape=[2,1]>(x)"),
        "AveragePool, strides": ("AveragePool<kernel_shape=[1,1],strides=[1,2]>(x)"),
        "AveragePool, pads": ("AveragePool<kernel_shape=[1,1],pads=[0,0,1,0]>(x)"),
        "MaxPool of floats, that may be NaN": ("MaxPool<kernel_shape=[1,1]>(x)"),
        "MaxPool of two": ("MaxPool<kernel_shape=[1,2]>(x)"),
        "GlobalMaxPool of floats, that may be NaN": ("GlobalMaxPool(s)"),
        "LpPool is an absolute value": ("LpPool<kernel_shape=[1,1]>(x)"),
        "GlobalAveragePool of several": ("GlobalAveragePool(x)"),
        "GlobalMaxPool of several": ("GlobalMaxPool(x)"),
        "GlobalLpPool is an absolute value": ("GlobalLpPool(s)"),
        "Resize, by two": ("Resize(x, , two)"),
        "Resize, by nearly one": ("Resize(x, , nearly)"),
        "Resize to other sizes": ("Resize(x, , , other)"),
        "Resize of a part": ('Resize<coordinate_transformation_mode="tf_crop_and_resize">(x, roi, c)'),
    },
)
def test_stays(node: str) -> None:
    head = "g (float[1,2,4,3] x, float[1,2,1,1] s) => (float[p,q,r,t] y)"
    weights = {
        "two": np.array([1, 1, 2, 2], np.float32), "nearly": np.array([1, 1, 1.2, 1], np.float32), "c": ONES,
        "other": np.array([1, 2, 4, 4]), "roi": np.array([0, 0, 0, 0, 1, 1, 0.5, 0.5], np.float32),
    }  # fmt: skip
    stays(f"{head} {{ y = {node} }}", *RULES, weights=weights, runs=False)


@cases(
    ("text", "opset"),
    {
        "open extents": ("g (float[n,2,h,w] x) => (float[p,q,r,s] y) { y = GlobalAveragePool(x) }", 17),
        "no spatial dims": ("g (float[n,2] x) => (float[p,q] y) { y = GlobalAveragePool(x) }", 17),
        "unknown extents, strides": (
            "g (float[n,2,h,w] x) => (float[p,q,r,s] y) { y = AveragePool<kernel_shape=[1,1],strides=[2,2]>(x) }",
            17,
        ),
        "the indices are an output": (
            "g (int8[1,1,2,2] x) => (int8[p,q,r,s] y, int64[p,q,r,s] i) { y, i = MaxPool<kernel_shape=[1,1]>(x) }",
            17,
        ),
        "open size": ("g (float[1,2,4,w] x) => (float[p,q,r,s] y) { y = Resize(x, , , z) }", 17),
        "scales": ("g (float[n,2,4,w] x, float[4] c) => (float[p,q,r,s] y) { y = Resize(x, , c) }", 17),
        "overridable scales": (
            "g (float[1,1,2,2] x, float[4] c = {1,1,1,1}) => (float[p,q,r,s] y) { y = Resize(x, , c) }",
            17,
        ),
        "MaxPool, strides": (
            "g (uint8[1,1,2,2] x) => (uint8[p,q,r,s] y) { y = MaxPool<kernel_shape=[1,1],strides=[2,1]>(x) }",
            17,
        ),
        "MaxPool, same ratio": (
            (
                "g (uint8[1,1,2,2] x) => (uint8[p,q,r,s] y)"
                ' { y = MaxPool<kernel_shape=[1,1],strides=[2,2],auto_pad="SAME_UPPER">(x) }'
            ),
            17,
        ),
        "half an element off, says the operator": (
            (
                'g (float[1,2,4,3] x) => (float[p,q,r,s] y) <float[0] n = {}> { y = Resize<mode="nearest",'
                'coordinate_transformation_mode="tf_half_pixel_for_nn">(x, n, n, z) }'
            ),
            11,
        ),
    },
)
def test_stays_elsewhere(text: str, opset: int) -> None:
    stays(text, *RULES, opset=opset, weights={"z": SIZES}, runs=False)


RESIZED = (
    "g (float[1,1,2,2] x, int64[4] s, float[4] c) => (float[1,1,2,2] y) <float[1,1,2,2] t> {{ t = {} y = Neg(t) }}"
)


def test_sizes_known_from_the_type() -> None:
    after = "g (float[1,1,2,2] x, int64[4] s, float[4] c) => (float[1,1,2,2] y) { y = Neg(x) }"
    becomes(RESIZED.format("Resize(x, , , s)"), after, drop_unit_resize, runs=False)


@cases(
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
