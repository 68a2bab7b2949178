"""Conditions of a result: digests of the model, options, files, pass sources, versions, and the processor."""

from __future__ import annotations

import inspect
import json
import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cache
from os.path import abspath, lexists
from pathlib import Path
from typing import Any

from ...core.errors import ModelError
from ...core.run.pipeline import RulePass, leaves
from ...core.support.printable_text import json_text
from ..cli.settings import all_texts
from ..optimize.content_digests import content_digest, file_content_digest, model_digest, regular_file_digest
from ..options import PIPELINES_FILE
from ..registry.adapter_names import ONNXSCRIPT
from ..registry.environment import SOURCE_FOLDERS, own_files, vector_instructions, versions
from ..registry.pass_sources import modules_beside
from ..registry.resolved_pipeline import ResolvedPipeline, resolve_pipeline
from .exchange import unpacked
from .model_files import SUFFIX, ModelJob

WITHOUT_INFLUENCE = frozenset(
    {
        "dump_after", "dump_to", "html", "in_place", "instrumentation", "json", "map", "output", "progress", "repro",
        "reproducer", "statistics", "visualize",
    }
)  # fmt: skip
"""Options that do not affect results."""
METADATA = (".dist-info", ".egg-info")  # suffixes of an installed package's metadata folder, after the name and version
SEPARATORS = re.compile(r"[:,]")  # between a file and a name in it, or between files


def conditions_of(job: ModelJob, action: str, options: str) -> str:
    """A digest of the models of a job and of an action with packed options.

    Raises PassesError if a model or a pass is unusable.
    """
    models = [model_digest(model) for model in (job.model, job.other) if model is not None]
    return content_digest([*models, _packed_digest(action, options)])


@cache
def _packed_digest(action: str, options: str) -> str:
    return options_digest(action, unpacked(options))


def result_digest(result: Path | None) -> str | None:
    """The digest of a result; "" if it does not exist, None if it is damaged."""
    with suppress(ModelError):
        return model_digest(result) if result is not None and lexists(result) else ""
    return None


def options_digest(action: str, options: Any) -> str:
    """A digest of everything except the model: options and the files that they name, pass sources, and versions."""
    counted = {f.name: getattr(options, f.name) for f in fields(options) if f.name not in WITHOUT_INFLUENCE}
    given: dict[str, Any] = json.loads(json_text(counted, indent=None, default=str))
    files = [(str(file), _file_digest(file)) for file in (*_named_files(given), PIPELINES_FILE)]
    plugin, only, skip, enable = (given.get(name) or () for name in ("plugin", "only", "skip", "enable"))
    names = given.get("pipeline", "basic")
    chosen: list[str] = [names] if isinstance(names, str) else names
    pipelines = [resolve_pipeline(name, plugin, only, skip, enable) for name in chosen]
    sources = [source_digests(pipeline) for pipeline in pipelines]
    return content_digest([action, given, files, *sources, versions(), *_machine(), *_packages()])


def source_digests(pipeline: ResolvedPipeline) -> Mapping[str, str]:
    """Digests of the files that define the passes of a pipeline, by name."""
    files = {_seen_from_here(file) for file in (*pipeline.read_files, *_plugin_sources(pipeline))}
    return {file: regular_file_digest(Path(file)) for file in sorted(files)}


def _plugin_sources(choice: ResolvedPipeline) -> set[Path]:
    """The Python files of all passes and transforms of a run that are not built in.

    They include loaded modules in the package of such a file, or in its folder if it is in no package.
    """
    passes = [p for pipeline in (choice.pipeline, *choice.fallbacks) for p in leaves(pipeline)]
    makers = [type(item) for item in (*passes, *(transform.item for transform in choice.transforms))]
    functions = [rule.build for p in passes if isinstance(p, RulePass) for rule in p.rules]
    files = set[Path]()
    for maker in (*makers, *functions):
        with suppress(TypeError, OSError):  # not defined in a file
            files.add(Path(inspect.getfile(maker)))
    for tool, _, reference in (p.name.partition(":") for p in passes):
        if tool == ONNXSCRIPT:
            where = reference.rpartition(":")[0]
            file = where if where.endswith(".py") else getattr(sys.modules.get(where), "__file__", None)
            files |= {Path(file)} if file else set()
    plugins = [file for file in files if not any(file.is_relative_to(folder) for folder in SOURCE_FOLDERS)]
    return {path for file in plugins for path in (file, *modules_beside(file))}


def _named_files(values: Any) -> Iterator[Path]:
    """Yield the files and folders that strings in options name, as in `a.npz` and `file.py:function`."""
    for text in all_texts(values):
        for name in dict.fromkeys((text, *SEPARATORS.split(text))):
            with suppress(OSError, ValueError):  # such as a name that is too long
                if name and Path(name).exists():
                    yield Path(name)


def _file_digest(file: Path) -> str:
    """A digest of a file; for a model, including its external data."""
    if file.suffix.casefold() == SUFFIX:
        with suppress(ModelError):
            return model_digest(file)
    return file_content_digest(file)


@cache
def _machine() -> Sequence[object]:
    """Python, the sources of this package, and the processor features that select kernels."""
    own = [regular_file_digest(file) for file in own_files()]
    machine = [platform.system(), platform.machine(), *vector_instructions()]
    return platform.python_version(), machine, own


@cache
def _packages() -> Sequence[str]:
    """All installed packages with their versions, from the names of their metadata folders."""
    folders = (folder for place in sys.path for folder in Path(place).glob("*.*-info"))
    return sorted({folder.name for folder in folders if folder.suffix in METADATA})


def _seen_from_here(file: Path) -> str:
    """The path, relative if the file is in the current folder, so that a project may be moved; otherwise absolute."""
    path = Path(abspath(file))  # noqa: PTH100 - links are kept
    return path.relative_to(Path.cwd()).as_posix() if path.is_relative_to(Path.cwd()) else str(path)
