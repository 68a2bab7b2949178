"""Given inputs that may come from functions in Python files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ...core.io.model import Model
from ...core.plugins.pass_registry import function_in_file, python_file
from ...core.support.python_files import plugin_errors
from ...core.support.regular_files import is_folder
from ...core.verify.given_inputs import GivenSamples, Inputs, NamedData, read_samples
from ...core.verify.input_specs import input_specs

if TYPE_CHECKING:
    from ...core.verify.given_inputs import DataReader

PLAIN: tuple[type[Any], ...] = (bool, int, float, str, bytes, np.generic, type(None))
DEFAULT_FUNCTION = "reader"  # the function that is looked up in a file


def read_given(given: Inputs | GivenSamples | None, model: Model) -> GivenSamples | None:
    """Read the samples of `--inputs` so that they can be read again. Raises ModelError, PluginError and UsageError."""
    if given is None or isinstance(given, GivenSamples):
        return given
    return read_samples(with_python_data(given, "--inputs"), input_specs(model))


def with_python_data(given: Any, option: str) -> Any:
    """Replace `file.py:function`, or `file.py` with a function `reader`, by the data that the function returns.

    The function takes no arguments; its output goes to standard error. `option` names the inputs in errors. Raises
    PluginError for a file that cannot be run, and UsageError for an unknown function.
    """
    if isinstance(given, list | tuple):
        return [with_python_data(entry, option) for entry in cast("Sequence[Any]", given)]
    if not isinstance(given, str | Path) or python_file(text := str(given)) is None:
        return given
    name, function = function_in_file(option, text, DEFAULT_FUNCTION)
    file = Path(text.removesuffix(f":{name}"))
    label = f"{file.name}:{name}"
    with plugin_errors(text, f"{option} {text}"):
        made = function()
        is_streamed = isinstance(made, Iterable) or callable(getattr(made, "get_next", None))
        if not is_streamed or isinstance(made, str | bytes):
            return NamedData(label, made)
        if isinstance(made, Mapping):
            return NamedData(label, _plain_sample(cast("Mapping[Any, Any]", made)))
        if isinstance(made, Sequence):
            return NamedData(label, [_plain_sample(sample) for sample in cast("Sequence[Any]", made)])
    return NamedData(label, _guarded(made, str(file), label))


def _guarded(data: DataReader | Iterable[Any], file: str, label: str) -> Iterator[Any]:
    """Yield the samples of a reader; its exceptions become PluginErrors."""
    end = object()
    with plugin_errors(file, label):
        get_next = getattr(data, "get_next", None)
        samples: Iterator[Any] = iter(get_next, None) if callable(get_next) else iter(cast("Iterable[Any]", data))
    while True:
        with plugin_errors(file, label):
            sample = _plain_sample(next(samples, end))
        if sample is end:
            return
        yield sample


def _plain_sample(sample: Any) -> Any:
    """Convert a sample to plain arrays, so that reading it later cannot run the user's code."""
    if isinstance(sample, Mapping):
        return {str(k): _plain(v) for k, v in cast("Mapping[object, object]", sample).items()}
    return sample


def _plain(value: Any) -> Any:
    """Convert what NumPy accepts as arrays to arrays, and other containers to lists and dicts of them."""
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in cast("Mapping[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [v if isinstance(v, PLAIN) else _plain(v) for v in cast("Sequence[Any]", value)]
    array = np.asarray(value)
    return value if array.dtype == np.object_ else array


def data_files(given: object) -> list[Path]:
    """The files that given inputs consist of, if they are named."""
    if isinstance(given, list | tuple):
        return [path for entry in cast("Sequence[object]", given) for path in data_files(entry)]
    if not isinstance(given, str | Path):
        return []
    path = python_file(str(given)) or Path(given)
    return [f for f in path.rglob("*") if f.suffix in {".pb", ".npz"}] if is_folder(path) else [path]
