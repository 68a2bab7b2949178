"""Replays of recorded runs, from files that may be untrusted."""

from __future__ import annotations

import re
import stat
import sys
import zlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from shutil import copyfileobj
from typing import Any, cast
from zipfile import BadZipFile, ZipFile

import msgspec
from msgspec import to_builtins

from ...core.errors import ModelError, PassesError, UsageError
from ...core.run.report import Report
from ...core.support.printable_text import json_text
from ...core.support.regular_files import unreadable
from ...core.support.scratch_folder import ScratchFolder
from ..cli.settings import all_texts, may_run_code
from ..optimize.optimize import optimize_model
from ..optimize.reproducer import (
    FILES_FOLDER,
    FORMAT,
    MANIFEST,
    MODEL_FOLDER,
    SPECS,
    TOML,
    Manifest,
    failure_text,
    run_versions,
)
from ..optimize.run_options import RunOptions
from ..options import Progress, options_of
from ..registry.environment import installed_version
from ..report.document import Document, Lines
from ..report.notebook import report_card, report_line
from ..report.number_text import plural
from .conditions import WITHOUT_INFLUENCE

MAX_BYTES, MAX_RATIO = 1 << 30, 200
"""Maximum bytes of all files in an archive, and as a multiple of its size."""
MAX_FILES = 10_000
MAX_MANIFEST = 16 << 20  # bytes
ARCHIVED = re.compile(rf"(?<![^:,{{}}=\s]){FILES_FOLDER}/(?=\d+/)")
"""The prefix of paths in the archive, in the values of options."""
DAMAGE = (BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, KeyError)
"""Exceptions of the standard library for archives that are damaged, encrypted, or compressed by unsupported methods."""


@dataclass(slots=True)
class ReplayReport:
    """The outcome of a replay: whether it equals the recorded one, descriptions of both, and version differences.

    `versions` maps names to the version in the recorded run and the version here. `report` is that of the run here, if
    it has a result. `stop_after` is the number of changes after which the run here was to end.

    Examples:
        >>> result = optimize(model, reproducer="run.zip")
        >>> print(*replay("run.zip").lines(), sep="; ")
        the same as in the recorded run: result ...; all versions are the same as in the recorded run
    """

    source: str
    is_same: bool
    recorded: str
    found: str
    versions: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    report: Report | None = None
    stop_after: int | None = None

    def __bool__(self) -> bool:
        """Whether the outcome equals the recorded one."""
        return self.is_same

    def lines(self) -> Iterator[str]:
        """The outcome in lines."""
        if self.is_same:
            yield f"the same as in the recorded run: {self.found}"
        else:
            yield f"differs from the recorded run: {self.found} here, {self.recorded} there"
            if self.stop_after is not None:
                yield f"this run stops after {plural(self.stop_after, 'change')} (--stop-after), unlike that run"
        for name, (there, here) in self.versions.items():
            yield f"{name}: {there or 'none'} in the recorded run, {here or 'none'} here"
        if not self.versions:
            yield "all versions are the same as in the recorded run"

    __repr__, _repr_html_ = report_line, report_card

    def to_json(self) -> str:
        """The report as JSON text."""
        report = None if self.report is None else msgspec.json.decode(self.report.to_json())
        return json_text({**to_builtins(replace(self, report=None)), "report": report})


def describe(report: ReplayReport) -> Document:
    """The document of a replay."""
    verdict, *others = report.lines()
    tone = "good" if report.is_same else "bad"
    return Document("passes run --replay", report.source, verdict, tone, blocks=[Lines(others)])


def replay(
    file: str | Path, *, trust_plugins: bool = False, output: str | Path | None = None, progress: Progress = None
) -> ReplayReport:
    """Repeat the run that `optimize(..., reproducer=file)` recorded, and compare the outcomes.

    Code in the file, such as plugins, is run only with `trust_plugins`. `output` is the path for the result. Raises
    ModelError for a file that is damaged or is not a reproducer, and UsageError for one with untrusted code or whose
    run used Python objects.

    Examples:
        >>> result = optimize(model, reproducer="run.zip")
        >>> replay("run.zip").is_same
        True
    """
    return replay_with(Path(file), RunOptions(output=output, progress=progress), trust_plugins=trust_plugins)


def replay_with(file: Path, here: RunOptions, *, trust_plugins: bool) -> ReplayReport:
    """Like `replay`, with the options for outputs."""
    with _opened(file) as (manifest, folder):
        if manifest.objects:
            raise UsageError(
                f"{file}: the run used Python objects, which the file does not contain: {manifest.objects[0]}"
            )
        options = _options(file, manifest, folder, trust_plugins=trust_plugins)
        model = folder / manifest.model
        recorded, defaults = manifest.failure or f"result {manifest.result}", RunOptions()
        outputs = {n: value for n in PLACES if (value := getattr(here, n)) != getattr(defaults, n)}
        report, failure = None, ""
        try:
            with _importable(folder if trust_plugins else None):
                result = optimize_model(model, replace(options, **outputs))
        except PassesError as e:
            failure = failure_text(e, model)
            found = failure
        else:
            report, found = result.report, f"result {result.digest}"
            report.source = f"{file}, {model.name}"
    there = manifest.versions
    now = {**{name: installed_version(name) for name in there}, **run_versions()}
    different = {name: (there.get(name, ""), now.get(name, "")) for name in {**there, **now}}
    different = {name: pair for name, pair in different.items() if pair[0] != pair[1]}
    return ReplayReport(str(file), found == recorded, recorded, found, different, report, here.stop_after)


@contextmanager
def _importable(folder: Path | None) -> Generator[None]:
    """Make the Python files of a reproducer import the modules next to them, as in the recorded run."""
    before = [*sys.path]
    sys.path += [str(root) for root in sorted((folder / FILES_FOLDER).glob("*"))] if folder is not None else []
    try:
        yield
    finally:
        sys.path[:] = before


PLACES = WITHOUT_INFLUENCE - {"in_place", "reproducer"} | {"stop_after"}
"""Options of a replay; all others are recorded."""


def _options(file: Path, manifest: Manifest, folder: Path, *, trust_plugins: bool) -> RunOptions:
    """The options of the recorded run, with paths in `folder`. Raises ModelError and UsageError."""
    known, values = options_of(RunOptions), dict[str, Any]()
    for name, value in manifest.options.items():
        if name not in known or (known[name][1].kind is Path and not known[name][1].reads):
            raise ModelError(f"{file}: this version has no option {name}")
        about = known[name][1]
        if about.reads or name in SPECS:
            is_name = name == "target" and not str(value).endswith(TOML)
            _require_inside(file, name, value, is_path=about.reads and not is_name)
            values[name] = _located(value, folder)
        else:
            values[name] = value
        if not trust_plugins and may_run_code(name, about, values[name]):
            raise UsageError(
                f"{file} contains code, which a replay runs: {name} {', '.join(all_texts([value]))}; look at it, and "
                "add --trust-plugins if you trust it"
            )
    try:
        return RunOptions(**values)
    except UsageError as e:
        raise ModelError(f"{file} is damaged: {e}") from e


def _require_inside(file: Path, name: str, value: Any, *, is_path: bool) -> None:
    """Raise ModelError for a path outside the archive."""
    for text in all_texts([value]):
        is_outside = ".." in re.split(r"[/\\:,{}=\s]", text) or text.startswith(("/", "~"))
        if is_outside or (is_path and not ARCHIVED.match(text)):
            raise ModelError(f"{file}: its option {name} names {text}, which is outside the file")


def _located(value: Any, folder: Path) -> Any:
    if isinstance(value, list):
        return [_located(inner, folder) for inner in cast("Sequence[Any]", value)]
    if isinstance(value, dict):
        return {k: _located(v, folder) for k, v in cast("Mapping[str, Any]", value).items()}
    return ARCHIVED.sub(lambda m: f"{folder.as_posix()}/{m[0]}", value) if isinstance(value, str) else value


@contextmanager
def _opened(file: Path) -> Generator[tuple[Manifest, Path]]:
    """Extract a reproducer into a temporary folder for the duration of the block. Raises ModelError."""
    with ScratchFolder() as folder:
        try:
            manifest = _extract(file, folder)
        except OSError as e:
            raise ModelError(unreadable(file, e)) from e
        except DAMAGE as e:
            raise ModelError(f"{file} is damaged, or not a reproducer: {e}") from e
        yield manifest, folder


def _extract(file: Path, folder: Path) -> Manifest:
    """Extract an archive. Raises ValueError if no run wrote it, besides the errors of `zipfile`."""
    with ZipFile(file) as archive:
        entries = archive.infolist()
        limit = max(MAX_BYTES, MAX_RATIO * file.stat().st_size)
        if len(entries) > MAX_FILES or sum(e.file_size for e in entries) > limit:
            raise ValueError("its files are too many or too large")
        for entry in entries:
            parts = PurePosixPath(entry.filename).parts
            is_inside = parts[:1] in {(MODEL_FOLDER,), (FILES_FOLDER,), (MANIFEST,)} and ".." not in parts
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if not is_inside or "\\" in entry.filename or kind not in {0, stat.S_IFREG} or entry.is_dir():
                raise ValueError(f"it has {entry.filename}, which is not a file in its folders")
            target = folder.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(entry) as source, target.open("xb") as copy:
                copyfileobj(source, copy)
    manifest = folder / MANIFEST
    if not manifest.is_file() or manifest.stat().st_size > MAX_MANIFEST:
        raise ValueError(f"it has no {MANIFEST}")
    try:
        found = msgspec.json.decode(manifest.read_bytes(), type=Manifest)
    except msgspec.MsgspecError as e:
        raise ValueError(f"{MANIFEST}: {e}") from e
    if found.format != FORMAT:
        raise ValueError(f"its format is {found.format}, and this version reads {FORMAT}")
    parts = PurePosixPath(found.model).parts
    if parts[:1] != (MODEL_FOLDER,) or ".." in parts or not folder.joinpath(*parts).is_file():
        raise ValueError(f"it has no model {found.model}")
    return found
