"""Arrays that record how NumPy computed them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from passwright.core.proof.traced_array import Leaf, TracedArray, compute, leaves_of, rounding_of, structure_of, traced

W = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
B = np.arange(1, 5, dtype=np.float32)


def with_item(w: Any, b: Any) -> Any:
    found = w.copy()
    found[1] = b
    return found * 2


def in_place(w: Any, b: Any) -> Any:
    found = w.copy()
    found += b
    found *= found
    return found


COMPUTATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "arithmetic": lambda w, b: w * b + np.float32(1) / np.sqrt(b + 1e-5),
    "product": lambda w, b: w @ b,
    "movement": lambda w, b: np.concatenate([w.T.reshape(-1), b])[2:].astype(np.float64),
    "split": lambda w, _: np.split(w, 2, axis=1)[1],
    "reduction": lambda w, _: w.sum(axis=0) + np.max(w),
    "item": with_item,
    "in place": in_place,
    "where": lambda w, b: np.where(w > 0, w, b),
    "einsum": lambda w, b: np.einsum("ij,j->i", w, b),
}


@pytest.mark.parametrize("computation", COMPUTATIONS.values(), ids=list(COMPUTATIONS))
def test_an_array_is_computed_again_of_other_numbers(computation: Callable[[Any, Any], Any]) -> None:
    found = computation(traced(W.copy(), Leaf("w")), traced(B.copy(), Leaf("b")))
    assert isinstance(found, TracedArray)
    assert found.origin is not None
    np.testing.assert_array_equal(np.array(found), computation(W.copy(), B.copy()))
    wide, other = W.astype(np.float64), B.astype(np.float64) / 3
    again = compute(found.origin, {"w": wide, "b": other})
    if computation is not COMPUTATIONS["where"]:  # the condition was decided by the numbers of then
        np.testing.assert_allclose(again, computation(wide, other), rtol=1e-12)


def test_a_lost_origin_is_lost() -> None:
    w = traced(W.copy(), Leaf("w"))
    assert not isinstance(np.float32(w.item(0)), TracedArray)
    view = w.view()
    assert view.origin is None
    assert not isinstance(view + 1, TracedArray) or (view + 1).origin is None
    changed = traced(W.copy(), Leaf("w"))
    np.copyto(changed, np.zeros_like(W))
    assert changed.origin is None


def test_the_rounding_of_an_array_is_measured() -> None:
    product = traced(W.copy(), Leaf("w")) * traced(B.copy(), Leaf("b"))
    constants = {"w": W, "b": B}
    assert 0 < rounding_of(np.array(product), product.origin, constants) <= 0.5
    off = np.array(product)
    off[1, 2] += 4 * np.spacing(off[1, 2])
    assert 3 < rounding_of(off, product.origin, constants) < 5
    assert rounding_of(off[0], product.origin, constants) is None


def test_equal_structures_have_one_key() -> None:
    first, second = (traced(W.copy(), Leaf(n)) * 2 + 1 for n in "vw")
    third = traced(W.copy(), Leaf("w")) * 3 + 1
    keys = [structure_of(a.origin, lambda _: "n") for a in (first, second, third)]
    assert keys[0] == keys[1] != keys[2]
    assert list(leaves_of(first.origin)) == ["v"]
