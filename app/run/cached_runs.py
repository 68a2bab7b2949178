"""Results of verified runs that are kept in a cache, and found there by later runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from io import BytesIO
from pathlib import Path
from time import time_ns
from typing import TYPE_CHECKING, cast

from ...core.errors import FailureKind, ModelError, PassesError, UsageError
from ...core.io.files import ModelFile, data_name_pattern, load
from ...core.io.model import serialize
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import Publication
from ...core.run.report import CacheUse, Report
from ...core.support.printable_text import json_text
from ...core.support.scratch_folder import ScratchFolder
from ...core.support.typed_data import read_data
from ..environment import own_files
from ..jobs.content_digests import bytes_digest, content_digest, regular_file_digest
from ..jobs.result_cache import CacheEntry, DamagedEntry, NotKept, ResultCache
from .run_conditions import START, Dependencies, changed_file, options_digest
from .run_options import RunOptions

if TYPE_CHECKING:
    import onnx

    from ...core.io.model_source import ModelSource
    from ...core.run.verified_run import Candidate
    from ..registry.resolved_pipeline import ResolvedPipeline

MODEL, DATA, NAME_MAP = "model", "data", "map"
"""Parts of an entry."""
FILE = "model.onnx"
DATA_NAME = re.compile(data_name_pattern(FILE))


@dataclass(slots=True)
class CachedRun:
    """A run of a model with a cache: `answer` looks for its result, and `keep` keeps it after the run.

    `key` is "" for a run that is neither looked for nor kept, for the reason in `notes`. `start`: the time since which
    nothing on which the result depends may change, in nanoseconds.
    """

    model: onnx.ModelProto | ModelFile
    options: RunOptions
    cache: ResultCache
    key: str = ""
    notes: list[str] = field(default_factory=list[str])
    start: int = field(default_factory=time_ns)
    _entry: CacheEntry | None = field(default=None, init=False)

    @classmethod
    def of(cls, model: onnx.ModelProto | str | Path | ModelFile, options: RunOptions) -> CachedRun | None:
        """The run of a model; None without a cache. Raises ModelError for a cache that cannot be used, UsageError."""
        if options.cache is None:
            return None
        if options.cache_size <= 0:
            raise UsageError(f"the size of a cache cannot be {options.cache_size} bytes")
        cache = ResultCache.at(Path(options.cache), options.cache_size)
        run = cls(ModelFile(Path(model)) if isinstance(model, str | Path) else model, options, cache)
        if obstacle := next(_obstacles(options), ""):
            run.notes.append(f"not kept in the cache: {obstacle}")
        elif digest := run._model_digest():
            run.key = content_digest([digest, options_digest(options)])
        return run

    def answer(self) -> Report | None:
        """The report of an earlier run, whose result is written as that of a run; None if there is none.

        Raises ModelError for outputs that cannot be written.
        """
        try:
            self._entry = self.cache.find(self.key) if self.key else None
            return self._answer(self._entry) if self._entry is not None else None
        except (DamagedEntry, ValueError, TypeError, KeyError) as e:
            reason = str(e) if isinstance(e, DamagedEntry) else f"{self.key} is damaged"
            self.notes.append(f"an entry of the cache was ignored: {reason}")
            return None

    def dependencies(self) -> Dependencies | None:
        """Those of an earlier run, if they are the same now; None if there is none."""
        with suppress(DamagedEntry, ValueError, TypeError, KeyError):
            entry = self.cache.find(self.key) if self.key else None
            return self._dependencies(entry) if entry is not None else None
        return None

    def candidate(self) -> tuple[Candidate, ScratchFolder]:
        """The model that was found, and the folder that holds it. Raises ModelError if it was damaged since."""
        assert self._entry is not None
        folder = ScratchFolder()
        try:
            return _candidate(_extract(self._entry, folder.path), self.options), folder
        except DamagedEntry as e:
            raise ModelError(f"the cache {self.cache.folder.path} was changed while it was in use: {e}") from e

    def keep(
        self,
        report: Report,
        candidate: Candidate,
        source: ModelSource,
        choice: ResolvedPipeline,
        names: Mapping[str, object] | None,
    ) -> CacheUse:
        """Keep the result of the run, unless a dependency was changed meanwhile, or it depends on time.

        `names`: the map of names, if one was made.
        """
        if not self.key:
            return CacheUse(notes=tuple(self.notes))
        try:
            _require_timeless(report, self.options)
            data = _external_data(source)
            dependencies = Dependencies.of({name: regular_file_digest(file) for name, file in data.items()}, choice)
            read = (*source.files, *self.options.input_files)
            _require_unchanged(changed_file(read, self.start))
            _require_unchanged(changed_file((*own_files(), *map(Path, dependencies.sources)), START))
            with ScratchFolder() as folder, Publication() as publication:
                parts = _staged_parts(candidate.stage(publication))
                if names is not None:
                    parts[NAME_MAP] = folder / "map.json"
                    parts[NAME_MAP].write_text(json_text(names), encoding="ascii")
                content = {
                    "report": asdict(replace(report, cache=None)),
                    "dependencies": asdict(dependencies),
                    "data_name": parts[DATA].name if DATA in parts else "",
                }
                self.cache.add(self.key, content, parts)
        except (PassesError, OSError) as e:  # such as a full disk: the result itself may have room
            return CacheUse(notes=(*self.notes, f"not kept in the cache: {e}"))
        return CacheUse(is_kept=True, notes=tuple(self.notes))

    def _model_digest(self) -> str:
        """The digest of the model's own file, "" for none; of a message over 2 GB "", too."""
        if isinstance(self.model, ModelFile):
            return regular_file_digest(self.model.path)
        try:
            return bytes_digest(self.model.SerializeToString(deterministic=True))
        except ValueError:
            return ""

    def _answer(self, entry: CacheEntry) -> Report | None:
        """The report of an entry, once its result is written; None if it is that of other files, or has no map."""
        dependencies = self._dependencies(entry)
        if dependencies is None or (self.options.map_to is not None and NAME_MAP not in entry):
            return None
        report = Report.from_data(entry.content["report"])
        report.source = self.model.name if isinstance(self.model, ModelFile) else self.model.graph.name or "model"
        report.written_to, report.cache = None, CacheUse(is_found=True, notes=tuple(self.notes))
        self._publish(entry, report, [self._folder / name for name in dependencies.data])
        return report

    def _dependencies(self, entry: CacheEntry) -> Dependencies | None:
        """The dependencies of an entry, unless they are others now. Raises ValueError, TypeError and KeyError."""
        dependencies = read_data(Dependencies, entry.content["dependencies"])
        return dependencies if dependencies.as_now(self._folder) == dependencies else None

    @property
    def _folder(self) -> Path:
        """The folder of the model, for its external data."""
        return self.model.path.resolve().parent if isinstance(self.model, ModelFile) else Path()

    def _publish(self, entry: CacheEntry, report: Report, data: Sequence[Path]) -> None:
        options = self.options
        model = self.model.path if isinstance(self.model, ModelFile) else None
        place = options.place_of_result(model)
        paths = OutputPaths.of(model=place, report=options.report_to, name_map=options.map_to)
        read = () if options.in_place or model is None else (model, *data)
        paths.require_distinct((*read, *options.input_files))
        with ScratchFolder() as folder, Publication(paths.model, data if options.in_place else ()) as publication:
            if paths.model is not None and options.wants(report):
                report.written_to = str(paths.model.path)
                if DATA in entry:
                    _candidate(_extract(entry, folder), options).stage(publication)
                else:
                    publication.add_written(lambda path: _write_part(entry, MODEL, path))
            publication.add_text(paths.report, report.to_json)
            publication.add_text(paths.name_map, lambda: _part_text(entry, NAME_MAP))
            publication.publish()


def _obstacles(options: RunOptions) -> Iterator[str]:
    """The reasons for which a run is neither looked for nor kept."""
    if not options.verify:
        yield "it is not verified"
    if options.check_speed:
        yield "a race is that of one machine and one time"
    if options.prove:
        yield "regions are proved during a run"
    if options.page_to is not None or options.visualize or options.repro_to is not None:
        yield "pictures and repros are made during a run"
    if not isinstance(options.pipeline, str) or not all(isinstance(p, str | Path) for p in options.plugins):
        yield "passes that are objects have no files to compare"
    if not _has_content(options.inputs):
        yield "samples of Python code are not compared with earlier ones"


def _has_content(given: object) -> bool:
    """Whether given inputs are files, or arrays by name, or lists of these."""
    if isinstance(given, list | tuple):
        return all(map(_has_content, cast("Sequence[object]", given)))
    if isinstance(given, str | Path):
        return not re.search(r"\.py(:\w*)?$", str(given))
    return given is None or isinstance(given, Mapping)


def _require_timeless(report: Report, options: RunOptions) -> None:
    """Raise NotKept for a result of which the time, or the memory, of this run may have decided a part."""
    if report.verification is None:
        raise NotKept("it is not verified")
    if options.time_limit is not None and report.verification.is_cut:
        raise NotKept("inputs were left out to keep the time limit")
    if report.notes:
        raise NotKept(f"another run may do what this one did not: {report.notes[0]}")
    if any(q.failure_kind == FailureKind.ENDLESS for q in report.quarantined):
        raise NotKept("a pass did not end in time")


def _require_unchanged(file: Path | None) -> None:
    if file is not None:
        raise NotKept(f"{file} was changed after the start")


def _external_data(source: ModelSource) -> dict[str, Path]:
    """The files of external data of a model by their path from its folder."""
    if len(source.files) < 2:
        return {}
    folder = source.files[0].resolve().parent
    return {path.relative_to(folder).as_posix(): path for path in sorted(source.files[1:])}


def _staged_parts(model: Path) -> dict[str, Path]:
    """A staged model, and its external data, if it has some."""
    data = next((file for file in model.parent.iterdir() if DATA_NAME.fullmatch(file.name)), None)
    return {MODEL: model} if data is None else {MODEL: model, DATA: data}


def _extract(entry: CacheEntry, folder: Path) -> Path:
    """The model of an entry, and its external data, in a temporary folder. Raises DamagedEntry, and ModelError."""
    model, name = folder / FILE, str(entry.content["data_name"])
    try:
        _write_part(entry, MODEL, model)
        if DATA in entry:
            if not DATA_NAME.fullmatch(name):
                raise DamagedEntry(f"{entry.name} is damaged")
            _write_part(entry, DATA, folder / name)
    except OSError as e:
        raise ModelError(f"cannot write a temporary file: {e.strerror}; TMPDIR names another folder") from e
    return model


def _write_part(entry: CacheEntry, part: str, path: Path) -> None:
    """Write a part to a new file. Raises DamagedEntry, and OSError."""
    with path.open("xb") as file:
        entry.copy(part, file)


def _part_text(entry: CacheEntry, part: str) -> str:
    content = BytesIO()
    entry.copy(part, content)
    return content.getvalue().decode("ascii")


def _candidate(path: Path, options: RunOptions) -> Candidate:
    """A model as it was written, ready to be written again. Raises DamagedEntry if it cannot be loaded."""
    from ...core.run.verified_run import Candidate  # noqa: PLC0415 - imports the verification
    from .attempts import external_data_choice  # noqa: PLC0415 - as above

    file = ModelFile(path)
    try:
        model = load(file, inline=False)
    except ModelError as e:
        raise DamagedEntry(str(e)) from e
    return Candidate(model, serialize(model), bool(file.external_files), external_data_choice(options.external_data))
