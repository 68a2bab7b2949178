"""Models named by the arguments of a command, and the paths of their results."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from glob import glob, has_magic
from pathlib import Path

from msgspec import Struct

from ...core.errors import ModelError, UsageError
from .remote_files import is_remote, place_of, remote_models

STREAM = Path("-")
"""Stands for standard input or output instead of a file."""
SUFFIX = ".onnx"


class ModelJob(Struct, frozen=True):
    """A model to run, and the path of its result, or None; the same path if the model is replaced.

    `arguments` are options for this model only, found at `place` in a table. `other` is the second model, if the
    command compares two.
    """

    model: Path
    output: Path | None = None
    arguments: tuple[str, ...] = ()
    place: str = ""
    other: Path | None = None


def single_job(files: Sequence[Path], output: Path | None) -> ModelJob:
    """The job of a command for one model; the result goes to `output`, or to the second of the `files`.

    An existing file is not accepted as the second one: a shell may have expanded a pattern to two models. Raises
    UsageError, and ModelError for a folder.
    """
    several = "give --output-dir DIR or --in-place"
    model, *others = (f for name in files for f in (_matches(name) if is_pattern(name) else [name]))
    if is_folder(model):
        raise ModelError(f"{model} is a folder, not a model; for the models in it, {several}")
    if output is not None and others:
        raise UsageError(f"-o takes one model, not {1 + len(others)}: {several}")
    if len(others) > 1 or (others and is_pattern(files[-1])):
        raise UsageError(
            f"{1 + len(others)} models, and no place for their results: {several}, or --check to write nothing"
        )
    if others and is_folder(others[0]):
        raise UsageError(f"{others[0]} is a folder: give --output-dir {others[0]}")
    if others and others[0].is_file():
        raise UsageError(f"{others[0]} exists: to replace it, give -o {others[0]}; to run both models, {several}")
    return ModelJob(model, output or next(iter(others), None))


def model_jobs(arguments: Sequence[Path], output_dir: Path | None = None, *, in_place: bool = False) -> list[ModelJob]:
    """A job for each model named by files, folders, patterns and URLs, in their order, without duplicates.

    Results in `output_dir` keep their relative paths below the common folder of all models. Models inside `output_dir`
    are skipped when found through folders and patterns. Raises UsageError for a result that would replace a model or
    another result.
    """
    found = dict[Path, Path]()  # by absolute path; links are resolved if models are replaced
    bases = list[Path]()
    for argument in arguments:
        base, files = _named_files(Path(place_of(argument)), output_dir)
        bases.append(base)
        for file in files:
            found.setdefault(Path(os.path.realpath(file) if in_place else os.path.abspath(file)), file)  # noqa: PTH100
    if in_place:
        return [ModelJob(file, file) for file in found.values()]
    if output_dir is None:
        return [ModelJob(file) for file in found.values()]
    common = _common_folder((*bases, *(path.parent for path in found)))
    jobs = [ModelJob(file, output_dir / path.relative_to(common)) for path, file in found.items()]
    require_distinct(jobs)
    return jobs


def _named_files(argument: Path, output_dir: Path | None) -> tuple[Path, Sequence[Path]]:
    """The absolute folder below which an argument names models, and the models. Raises UsageError if there are none."""
    if argument == STREAM:
        raise UsageError("- (standard input) must be the only model: give -o FILE, or --check")
    if is_remote(argument):
        return _remote_files(argument)
    if is_folder(argument):
        base, files = argument, list(_models_below(argument))
        if not files:
            raise UsageError(f"{argument} contains no models: no file in it matches *{SUFFIX}")
    elif is_pattern(argument):
        base, files = Path(*argument.parts[: _first_magic(argument)]), _matches(argument)
    else:
        if argument.suffix.casefold() != SUFFIX and not os.path.lexists(argument):  # most likely a folder
            raise UsageError(f"{argument} does not exist")
        return _absolute(argument.parent), [argument]
    base = _absolute(base)
    own = None if output_dir is None else _absolute(output_dir)
    if own is not None and own != base and own.is_relative_to(base):
        files = [file for file in files if not _absolute(file).is_relative_to(own)]
        if not files:
            raise UsageError(f"{argument} contains no models except those in {output_dir}")
    return base, files


def _remote_files(argument: Path) -> tuple[Path, Sequence[Path]]:
    """Like `_named_files` for a URL; URLs are treated as relative paths."""
    files = [Path(url) for url in remote_models(place_of(argument), SUFFIX)]
    if not files:
        raise UsageError(f"{place_of(argument)} contains no models: no file there matches *{SUFFIX}")
    if has_magic(str(argument)):
        return _absolute(Path(*argument.parts[: _first_magic(argument)])), files
    return _absolute(argument.parent if files == [argument] else argument), files


def _models_below(folder: Path) -> Iterator[Path]:
    """Yield the models in a folder and its subfolders, sorted, without hidden ones."""
    for path, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        shown = (name for name in sorted(names) if not name.startswith("."))
        yield from (Path(path, name) for name in shown if name.casefold().endswith(SUFFIX))


def _matches(pattern: Path) -> list[Path]:
    """The files that match a pattern that the shell did not expand, sorted. Raises UsageError if there are none."""
    files = sorted(file for name in glob(str(pattern), recursive=True) if not is_folder(file := Path(name)))  # noqa: PTH207
    if not files:
        raise UsageError(f"no file matches {pattern}")
    return files


def is_pattern(path: Path) -> bool:
    """Whether a path is a pattern rather than the name of a file."""
    return has_magic(str(path)) and not os.path.lexists(path)


def _first_magic(pattern: Path) -> int:
    return next(i for i, part in enumerate(pattern.parts) if has_magic(part))


def is_folder(path: Path) -> bool:
    """Whether a folder with that name exists."""
    return path != STREAM and os.path.isdir(path)  # noqa: PTH112 - false for names that are too long


def _absolute(path: Path) -> Path:
    """The absolute path without `..`; links are kept, because results keep the names of models."""
    return Path(os.path.abspath(path))  # noqa: PTH100


def _common_folder(folders: Iterable[Path]) -> Path:
    try:
        return Path(os.path.commonpath(set(folders)))
    except ValueError as e:  # on Windows
        raise UsageError("the models are on different drives; run the command once for each drive") from e


def require_distinct(jobs: Sequence[ModelJob]) -> None:
    """Raise UsageError for a result that would replace a model, or another result."""
    models = {os.path.realpath(job.model) for job in jobs}
    results = dict[str, ModelJob]()
    for job in jobs:
        assert job.output is not None
        place = os.path.realpath(job.output)
        if place in models:
            raise UsageError(
                f"{job.output} would replace an input model; choose another --output-dir, or use --in-place"
            )
        if (other := results.setdefault(place, job)) is not job:
            raise UsageError(f"{job.output} cannot hold the results of both {other.model} and {job.model}")
