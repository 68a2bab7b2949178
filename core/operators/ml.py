"""The operators of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

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
