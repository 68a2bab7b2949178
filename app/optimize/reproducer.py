"""Files that repeat a run: model, options, plugins, inputs, versions, and the outcome."""

from __future__ import annotations

import platform
from collections.abc import Callable, Generator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import onnx
from msgspec import Struct, to_builtins

from ...core.errors import ModelError, UsageError
from ...core.io.files import ModelFile, load
from ...core.io.model_source import ModelLike, model_source
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import staging_folder
from ...core.io.writer import write_file
from ...core.plugins.pass_spec import PassSpec, parse_specs
from ...core.support.printable_text import file_name, json_text, printable_line
from ...core.support.toml_tables import read_tables
from ..options import PIPELINES_FILE, options_of
from ..registry.environment import plugin_versions, versions
from ..registry.pass_sources import modules_beside, package_root
from .run_options import RunOptions

FORMAT = 1
MANIFEST = "manifest.json"
MODEL_FOLDER, FILES_FOLDER = "model", "files"
PLACES = frozenset({"in_place", "dump_after"})
"""Options that control outputs, besides those with paths."""
SPECS = frozenset({"pipeline", "enable", "only", "skip"})
TOML, PASSES = ".toml", "passes"
UP = "../../"  # from a file in a folder of `FILES_FOLDER` to the root of the archive


class Manifest(Struct, frozen=True):
    """The contents of a reproducer: the file of its `model`, and the `options` of its run with paths in the archive.

    `objects` are options with Python objects, which a file cannot contain. `result` is the digest of the result, and
    `failure` the error of a run without one. `files` are the original paths of the files in the archive.
    """

    format: int
    model: str
    options: dict[str, Any]
    objects: list[str]
    files: dict[str, str]
    versions: dict[str, str]
    result: str = ""
    failure: str = ""


@dataclass(slots=True)
class RunRecord:
    """The outcome of a recorded run: the digest of its result."""

    result: str = ""


def failure_text(error: Exception, model: Path) -> str:
    """An error in one line, with the model's file name only, so that it is the same elsewhere."""
    return f"{type(error).__name__}: {printable_line(str(error).replace(str(model), model.name))}"


def run_versions() -> dict[str, str]:
    """The versions that determine a result: of packages, Python and the machine."""
    machine = f"{platform.system()} {platform.machine()}"
    return {**versions(), "numpy": np.__version__, "Python": platform.python_version(), "machine": machine}


@contextmanager
def recorded_run(model: ModelLike, options: RunOptions) -> Generator[RunRecord]:
    """Write the reproducer of the run in the block, even if it fails; the block stores its result in the record.

    Files are saved as they are before the run. Raises ModelError if the reproducer cannot be written or would replace
    another file of the run, and UsageError for a model in memory of more than 2 GB.
    """
    record = RunRecord()
    origin = model_source(model, inline=False).origin
    file = ModelFile(origin.path) if isinstance(origin, ModelFile) else None
    path = file.path if file is not None else Path("model.onnx")
    if options.reproducer is None or (file is not None and not path.is_file()):
        yield record
        return
    others = _data_files(file) if file is not None else []
    written = [p for p in (options.output, options.json, options.html, options.map) if p is not None]
    paths = OutputPaths.of(reproducer=options.reproducer)
    paths.require_distinct([*([path] if file is not None else []), *others, *options.input_files, *map(Path, written)])
    place = paths.reproducer
    assert place is not None
    if place.folder is None:  # the null device
        yield record
        return
    with _disk_errors(options.reproducer):
        folder = staging_folder(place.folder)
    with folder as stage, ZipFile(stage / "run.zip", "w", ZIP_DEFLATED, compresslevel=1) as archive:
        contents, failure = _Contents(archive), ""
        with _disk_errors(options.reproducer):
            name = contents.add_model(path if isinstance(origin, ModelFile) else origin, others)
            chosen = contents.options(options)
        try:
            yield record
        except Exception as e:
            failure = failure_text(e, path)
            raise
        finally:
            if record.result or failure:  # not after an interruption
                with _disk_errors(options.reproducer):
                    contents.add_modules()
                    manifest = Manifest(
                        FORMAT,
                        name,
                        chosen,
                        contents.objects,
                        contents.files,
                        {**run_versions(), **plugin_versions()},
                        record.result,
                        failure,
                    )
                    archive.writestr(MANIFEST, json_text(to_builtins(manifest)))
                    archive.close()
                    place.require_same_folder()
                    (stage / "run.zip").replace(place.target)


@contextmanager
def _disk_errors(path: str | Path) -> Generator[None]:
    """Raise ModelError for errors of the file system."""
    try:
        yield
    except OSError as e:
        raise ModelError(f"cannot write {path}: {e.strerror}") from e


def _data_files(file: ModelFile) -> list[Path]:
    """The files of a model's external data, as far as it can be loaded."""
    with suppress(ModelError):
        load(file, inline=False)
    return list(file.external_files)


@dataclass(slots=True)
class _Contents:
    """Files in an archive: `files` maps their names to the given paths; `objects` are options that are not files."""

    archive: ZipFile
    paths: dict[str, Path] = field(default_factory=dict[str, Path])  # by name in the archive
    files: dict[str, str] = field(default_factory=dict[str, str])
    objects: list[str] = field(default_factory=list[str])

    def add_model(self, model: onnx.ModelProto | Path, data: list[Path]) -> str:
        """Add a model and its external data; return its name in the archive."""
        if isinstance(model, onnx.ModelProto):
            try:
                content = model.SerializeToString()
            except ValueError as e:
                raise UsageError("a reproducer needs the path of a model over 2 GB") from e
            self.archive.writestr(f"{MODEL_FOLDER}/model.onnx", content)
            return f"{MODEL_FOLDER}/model.onnx"
        name = f"{MODEL_FOLDER}/{file_name(model.name)}"
        self.archive.write(model, name)
        for path in data:
            self.archive.write(path, f"{MODEL_FOLDER}/{path.relative_to(model.resolve().parent).as_posix()}")
        return name

    def options(self, options: RunOptions) -> dict[str, Any]:
        """The options that differ from their defaults, with paths replaced by those in the archive."""
        found = dict[str, Any]()
        known, local = options_of(RunOptions), _local_pipelines()
        for name, value in options.chosen.items():
            given = getattr(options, name)
            about = known[name][1]
            if name in PLACES:
                continue
            if name == "inputs" and isinstance(given, Mapping):
                found[name] = self._add_arrays(cast("Mapping[str, Any]", given))
            elif not _is_plain(given):
                self.objects.append(f"{name}: {', '.join(map(str, value)) if isinstance(value, list) else value}")
            elif name in SPECS:
                found[name] = _mapped(value, lambda text: self._archived_specs(text, Path(), local))
            elif name == "target" and Path(str(value)).suffix != TOML:  # a target's name, even if such a file exists
                found[name] = value
            else:
                found[name] = _mapped(value, self._archived_option) if about.reads else value
        return found

    def _archived_option(self, text: str) -> str:
        """A path, or a Python file and a name in it, with the path in the archive."""
        return self.add(Path(text)) if Path(text).exists() else self._archived_files(text, Path())

    def _archived_files(self, text: str, base: Path, up: str = "") -> str:
        """Files in `base` and names, separated by colons, with the paths in the archive prefixed by `up`."""
        parts = ((part, base / part) for part in text.split(":"))
        return ":".join(up + self.add(path) if path.suffix and path.is_file() else part for part, path in parts)

    def _archived_specs(self, text: str, base: Path, local: AbstractSet[str], up: str = "") -> str:
        """Passes and pipelines with their options, with paths as in `_archived_files`.

        `local` are the pipelines in the file of the current folder.
        """
        try:
            specs = parse_specs(text)
        except UsageError:  # the run raises it, too
            return text
        found: list[PassSpec] = []
        for s in specs:
            name = (
                f"{up}{self.add(PIPELINES_FILE)}:{s.name}"
                if s.name in local
                else self._archived_files(s.name, base, up)
            )
            found.append(PassSpec(name, {o: self._archived_files(value, Path()) for o, value in s.options.items()}))
        return ",".join(map(str, found)) if found != specs else text

    def _archived_pipelines(self, path: Path) -> str:
        """The text of a TOML file in which pipelines name the files in the archive."""
        text = path.read_text(encoding="utf-8")
        with suppress(ValueError):  # the run raises it, too
            tables = read_tables(path, text)
            local = _local_pipelines() - tables.keys()
            for given in _texts_of_pipelines(tables):
                named = self._archived_specs(given, path.parent, local, UP)
                for quote in "\"'" if named != given else "":
                    text = text.replace(f"{quote}{given}{quote}", f"{quote}{named}{quote}")
        return text

    def add(self, path: Path) -> str:
        """Add a file or folder once; return its name in the archive. Modules of packages are added in their folders."""
        given, path = path, path.absolute()
        root = package_root(path) if path.suffix == ".py" else path.parent
        for name, known in self.paths.items():
            if known == path:
                return name
        name = f"{FILES_FOLDER}/{len(self.files)}/{path.relative_to(root).as_posix()}"
        self.paths[name], self.files[name] = path, str(given)
        inner = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else []
        if path.suffix == TOML:
            self.archive.writestr(name, self._archived_pipelines(path))
            return name
        for file in inner or [path]:
            self.archive.write(file, f"{name}/{file.relative_to(path).as_posix()}" if inner else name)
        return name

    def add_modules(self) -> None:
        """Add the loaded modules next to the Python files, which may import them."""
        for name, path in self.paths.items():
            if path.suffix != ".py":
                continue
            root, place = package_root(path), name.removesuffix(path.relative_to(package_root(path)).as_posix())
            for module in modules_beside(path):
                inner = f"{place}{module.relative_to(root).as_posix()}"
                if inner not in self.archive.namelist():
                    self.archive.write(module, inner)

    def _add_arrays(self, arrays: Mapping[str, Any]) -> str:
        name = f"{FILES_FOLDER}/{len(self.files)}/inputs.npz"
        self.files[name] = "arrays of Python"
        with staging_folder(Path(cast("str", self.archive.filename)).parent) as stage:
            write_file(stage / "inputs.npz", dict(arrays))
            self.archive.write(stage / "inputs.npz", name)
        return name


def _texts_of_pipelines(tables: Mapping[str, Any]) -> list[str]:
    """The strings in the values of pipelines; a target's table has none."""
    pipelines = [cast("dict[str, Any]", t) for t in tables.values() if isinstance(t, dict) and PASSES in t]
    values = [v for table in pipelines for v in table.values()]
    texts = [text for v in values for text in (cast("list[Any]", v) if isinstance(v, list) else [v])]
    return [text for text in texts if isinstance(text, str)]


def _mapped(value: Any, function: Callable[[str], str]) -> Any:
    """Apply a function to a string, or to the strings in a list; other values are kept."""
    if isinstance(value, list):
        return [_mapped(inner, function) for inner in cast("list[Any]", value)]
    return function(value) if isinstance(value, str) else value


def _is_plain(given: Any) -> bool:
    """Whether JSON can hold the value of an option: a string, path or number, or a list or mapping of them."""
    if isinstance(given, Mapping):
        return all(map(_is_plain, cast("Mapping[str, Any]", given).values()))
    if isinstance(given, list | tuple):
        return all(map(_is_plain, cast("list[Any]", given)))
    return given is None or isinstance(given, bool | int | float | str | Path)


def _local_pipelines() -> frozenset[str]:
    """The names of pipelines in the file of the current folder."""
    try:
        return frozenset(read_tables(PIPELINES_FILE, PIPELINES_FILE.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return frozenset()
