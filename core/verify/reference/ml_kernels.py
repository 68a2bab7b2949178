"""Kernels of the operators of ai.onnx.ml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .kernel_call import Array, Kernel, KernelCall
from .reference_kernels import run_call


def _labels(call: KernelCall) -> list[Any]:
    return call.get("classlabels_strings") or call.get("classlabels_int64s")


def _zip_map(call: KernelCall, x: Array) -> list[dict[Any, float]]:
    return [dict(zip(_labels(call), row, strict=True)) for row in np.atleast_2d(x).tolist()]


def _category_mapper(call: KernelCall, x: Array) -> Array:
    names, numbers = call.get("cats_strings"), call.get("cats_int64s")
    if x.dtype.kind in "OUS":
        codes, default = dict(zip(names, numbers, strict=True)), call.get("default_int64", -1)
        return np.array([codes.get(v, default) for v in x.reshape(-1)], np.int64).reshape(x.shape)
    texts, missing = dict(zip(numbers, names, strict=True)), call.get("default_string", "_Unused")
    return np.array([texts.get(v, missing) for v in x.reshape(-1).tolist()], object).reshape(x.shape)


OPERATORS = (
    "ArrayFeatureExtractor", "Binarizer", "DictVectorizer", "FeatureVectorizer", "Imputer", "LabelEncoder",
    "LinearClassifier", "LinearRegressor", "Normalizer", "OneHotEncoder", "SVMClassifier", "SVMRegressor", "Scaler",
    "TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor",
)  # fmt: skip
"""Those that `onnx.reference` computes."""
KERNELS: Mapping[str, Kernel] = {
    **dict.fromkeys(OPERATORS, run_call),
    "CategoryMapper": _category_mapper,
    "ZipMap": _zip_map,
}
