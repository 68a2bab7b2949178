"""Does a model run as it stands, on inputs drawn from its signature?"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from .recipe import Recipe

BATCH_SIZES = (1, 2, 3)


class BadModelError(Exception):
    """A model that is invalid, does not run, or yields something that is not finite."""


def check(path: Path, recipe: Recipe) -> None:
    """Raise BadModelError unless the model is valid and runs without optimizations to finite outputs at every size."""
    try:
        onnx.checker.check_model(path, full_check=True)
        session = _session(path)
        for size in BATCH_SIZES:
            draw = np.random.default_rng(size)
            feeds = {value.name: _random_input(value, recipe, size, draw) for value in session.get_inputs()}
            _check_finite(session, feeds)
    except BadModelError:
        raise
    except Exception as error:
        raise BadModelError(" ".join(str(error).split())[:300]) from error


def _session(path: Path) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def _random_input(value: onnxruntime.NodeArg, recipe: Recipe, size: int, rng: np.random.Generator) -> np.ndarray:
    shape = [dim if isinstance(dim, int) else recipe.sizes.get(dim, size) for dim in value.shape]
    if value.type == "tensor(string)":
        return rng.choice(np.array(recipe.values[value.name], dtype=object), shape)
    if value.type == "tensor(int64)":
        return rng.choice(np.array(recipe.values.get(value.name, range(2)), dtype=np.int64), shape)
    if value.type == "tensor(bool)":
        return np.asarray(rng.integers(2, size=shape), dtype=bool)
    dtype = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16}[value.type]
    return rng.normal(size=shape).astype(dtype)


def _check_finite(session: onnxruntime.InferenceSession, feeds: dict[str, np.ndarray]) -> None:
    for value, result in zip(session.get_outputs(), session.run(None, feeds), strict=True):
        for array in _arrays(result):
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise BadModelError(f"{value.name} is not finite")


def _arrays(result: object) -> Iterator[np.ndarray]:
    """Yield the arrays in a tensor, or in a sequence of maps."""
    if isinstance(result, list):
        for item in result:
            yield np.array(list(item.values()))
    else:
        yield np.asarray(result)
