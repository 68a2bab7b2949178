"""Given inputs of which some come from functions in Python files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ...core.io.model import Model
from ...core.plugins.pass_registry import function_in_file, plugin_errors, python_file
from ...core.support.regular_files import is_folder
from ...core.verify.given_inputs import GivenSamples, Inputs, NamedData, read_samples
from ...core.verify.input_specs import input_specs

if TYPE_CHECKING:
    from ...core.verify.given_inputs import DataReader

DEFAULT_FUNCTION = "reader"  # the name of the function in a file


def read_given(given: Inputs | GivenSamples | None, model: Model) -> GivenSamples | None:
    """The samples of `--inputs`, which can be read again; None for None. Raises ModelError, PluginError, UsageError."""
    if given is None or isinstance(given, GivenSamples):
        return given
    return read_samples(with_python_data(given, "--inputs"), input_specs(model))


def with_python_data(given: Any, option: str) -> Any:
    """Given inputs, with the data of a function in place of `file.py:function`, or of `reader` in `file.py`.

    The function takes no arguments; its output goes to standard error. `option` names the inputs in errors. Raises
    PluginError for a file that cannot be run, UsageError for a function that does not exist.
    """
    if isinstance(given, list | tuple):
        return [with_python_data(entry, option) for entry in cast("Sequence[Any]", given)]
    if not isinstance(given, str | Path) or python_file(text := str(given)) is None:
        return given
    name, function = function_in_file(option, text, DEFAULT_FUNCTION)
    with plugin_errors(text, f"{option} {text}"):
        made = function()
    file = Path(text.removesuffix(f":{name}"))
    label = f"{file.name}:{name}"
    is_streamed = isinstance(made, Iterable) or callable(getattr(made, "get_next", None))
    if not is_streamed or isinstance(made, Mapping | Sequence):
        return NamedData(label, made)
    return NamedData(label, _guarded(made, str(file), label))


def _guarded(data: DataReader | Iterable[Any], file: str, label: str) -> Iterator[Any]:
    """The samples of a reader; its exceptions become PluginErrors."""
    get_next = getattr(data, "get_next", None)
    samples: Iterator[Any] = iter(get_next, None) if callable(get_next) else iter(cast("Iterable[Any]", data))
    end = object()
    while True:
        with plugin_errors(file, label):
            sample = next(samples, end)
        if sample is end:
            return
        yield sample


def data_files(given: object) -> list[Path]:
    """The files that given inputs consist of, as far as they are named."""
    if isinstance(given, list | tuple):
        return [path for entry in cast("Sequence[object]", given) for path in data_files(entry)]
    if not isinstance(given, str | Path):
        return []
    path = python_file(str(given)) or Path(given)
    return [f for f in path.rglob("*") if f.suffix in {".pb", ".npz"}] if is_folder(path) else [path]
