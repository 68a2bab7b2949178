"""Conditions of a run, on which its result depends: model, options, files, sources of passes, versions, processor."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ..optimize.content_digests import (
    bytes_digest,
    content_digest,
    file_content_digest,
    model_digest,
    regular_file_digest,
)
from ..optimize.run_options import RunOptions
from ..registry.environment import own_files, vector_instructions, versions

if TYPE_CHECKING:  # these import onnx
    from ..registry.resolved_pipeline import ResolvedPipeline

WITHOUT_INFLUENCE = frozenset({
    "output", "in_place", "map_to", "repro_to", "page_to", "report_to", "visualize", "progress",
})  # fmt: skip
"""Options that change no result."""
PIPELINES_FILE = Path("pipelines.toml")


def run_conditions(model: Path, text: str) -> str:
    """The digest for a model and the text of options. Raises PassesError if the model or a pass is unusable."""
    return content_digest([model_digest(model), _options_digest(text)])


@cache
def _options_digest(text: str) -> str:
    """The digest for the text of options, and for all files and packages that their pipeline reads."""
    from ..registry.resolved_pipeline import resolve_pipeline  # noqa: PLC0415 - imports onnx and the passes
    from .run_exchange import options_from_text  # noqa: PLC0415 - of a worker

    options = options_from_text(text)
    choice = resolve_pipeline(options.pipeline, options.plugins, options.only, options.skip, options.enabled)
    return content_digest([options_digest(options), pipeline_sources(choice)])


def pipeline_sources(choice: ResolvedPipeline) -> list[Mapping[str, str]]:
    """Digests of the files with the passes and pipelines of a choice, and versions of their packages, by name."""
    from ..registry.plugin_sources import plugin_sources  # noqa: PLC0415 - imports the adapters

    sources, packages = plugin_sources(choice)
    files = sorted({_seen_from_here(file) for file in (*choice.read_files, *sources)})
    digests = {file: regular_file_digest(Path(file)) for file in files}
    return [digests, {package: _version(package) for package in sorted(packages)}]


def options_digest(options: RunOptions) -> str:
    """The digest of all but the model that is known before a run: options, files that they name, versions, processor.

    Of Python code that gives inputs, the file counts.
    """
    counted = (f.name for f in fields(options) if f.name not in WITHOUT_INFLUENCE | {"inputs"})
    values = {name: getattr(options, name) or None for name in counted}  # no list, or an empty one
    named = [(str(file), file_content_digest(file)) for file in (*options.plugin_files, PIPELINES_FILE)]
    return content_digest([values, _inputs_digest(options.inputs), named, *surroundings()])


def _inputs_digest(given: Any) -> Any:
    """Data that change with given inputs: files, folders, and arrays by name."""
    if isinstance(given, list | tuple):
        return [_inputs_digest(entry) for entry in cast("Sequence[object]", given)]
    if isinstance(given, str | Path):
        text = str(given)
        file = text if text.endswith(".py") or ".py:" not in text else text.rpartition(":")[0]
        return [text, file_content_digest(Path(file))]
    if isinstance(given, Mapping):
        return {str(name): _array_digest(array) for name, array in cast("Mapping[object, object]", given).items()}
    return given


def _array_digest(array: object) -> str:
    import numpy as np  # noqa: PLC0415 - used seldom

    found = np.asarray(array)
    content = repr(found.tolist()).encode() if found.dtype.hasobject else found.tobytes()
    return content_digest([str(found.dtype), found.shape, bytes_digest(content)])


def surroundings() -> list[object]:
    """Versions of packages, Python, the sources of this package, and the processor, on which every result depends."""
    return [versions(), *_machine()]


@cache
def _machine() -> list[object]:
    """Python, the sources of this package, and the processor, as far as kernels are chosen by it."""
    own = [regular_file_digest(file) for file in own_files()]
    machine = [platform.system(), platform.machine(), *vector_instructions()]
    return [_version("numpy"), platform.python_version(), machine, content_digest(own)]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _seen_from_here(file: Path) -> str:
    """A path from the current folder for a file in it, so that a project may be moved; of others, the absolute one."""
    path = Path(os.path.abspath(file))  # noqa: PTH100 - links stay
    return path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else str(path)
