"""The operators of ai.onnx.ml."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.op import Op
from .declaration import Family, T
from .element_types import Array
from .reference import by_reference

ML = Family()
ML.declare(
    "ArrayFeatureExtractor DictVectorizer FeatureVectorizer LabelEncoder LinearRegressor Normalizer OneHotEncoder "
    "SVMRegressor Scaler",
    meaning=by_reference,
)
ML.declare(
    "Binarizer Imputer LinearClassifier SVMClassifier TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor",
    T.DECIDES,
    by_reference,
)

TREES = frozenset({"TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"})


@ML.operator("ZipMap")
def _zip_map(
    x: Array, *, classlabels_strings: Sequence[str] = (), classlabels_int64s: Sequence[int] = ()
) -> list[dict[Any, float]]:
    labels = classlabels_strings or classlabels_int64s
    return [dict(zip(labels, row, strict=True)) for row in np.atleast_2d(x).tolist()]


@ML.operator("CategoryMapper")
def _category_mapper(
    x: Array, *, cats_strings: Sequence[str], cats_int64s: Sequence[int], default_int64: int = -1,
    default_string: str = "_Unused",
) -> Array:  # fmt: skip
    if x.dtype.kind in "OUS":
        codes = dict(zip(cats_strings, cats_int64s, strict=True))
        return np.array([codes.get(v, default_int64) for v in x.reshape(-1)], np.int64).reshape(x.shape)
    texts = dict(zip(cats_int64s, cats_strings, strict=True))
    return np.array([texts.get(v, default_string) for v in x.reshape(-1).tolist()], object).reshape(x.shape)


def has_cyclic_tree(op: Op) -> bool:
    """Whether a decision tree has a cycle, so that its evaluation may not end. O(nodes)."""
    if op.type not in TREES:
        return False

    def numbers(name: str) -> list[Any]:
        found = op.attr(f"nodes_{name}")
        return list(found) if isinstance(found, Sequence) else []

    branches = (numbers("truenodeids"), numbers("falsenodeids"))
    if op.type == "TreeEnsemble":
        ends = [numbers("trueleafs"), numbers("falseleafs")]
        below = [
            [
                i
                for ids, leaves in zip(branches, ends, strict=True)
                for i, is_leaf in [(ids[n], leaves[n])]
                if not is_leaf
            ]
            for n in range(min(map(len, (*branches, *ends))))
        ]
    else:
        trees, ids, modes = numbers("treeids"), numbers("nodeids"), numbers("modes")
        place = {key: n for n, key in enumerate(zip(trees, ids, strict=False))}
        below = [
            [] if mode in {b"LEAF", "LEAF"} else [place.get((tree, i), -1) for i in (yes, no)]
            for tree, mode, yes, no in zip(trees, modes, *branches, strict=False)
        ]
    above = Counter(n for found in below for n in found)
    free = [n for n in range(len(below)) if not above[n]]
    for n in free:  # grows during the loop
        for child in below[n]:
            above[child] -= 1
            if not above[child] and 0 <= child < len(below):
                free.append(child)
    return len(free) < len(below)
