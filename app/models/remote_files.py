"""Models and results at URLs that fsspec supports, processed through copies in a temporary folder."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from functools import reduce
from importlib import import_module
from pathlib import Path, PurePosixPath
from secrets import token_hex
from typing import Any

from msgspec import Struct, field

from ...core.errors import ModelError, PassesError, format_error
from ...core.support.scratch_folder import ScratchFolder

URL = re.compile(r"([a-z][a-z0-9+.-]+):/+(.+)", re.DOTALL)
FILE = "file"
LOCAL = frozenset({FILE, "local"})
"""Schemes without a host."""
STORES = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oss", "oci", "memory"})
"""Schemes of stores in which an object appears, or is replaced, atomically."""


def place_of(place: str | Path) -> str:
    """The URL in an argument, even if a Path has removed a slash from it; the path of other places.

    >>> place_of(Path("s3://bucket/a.onnx"))
    's3://bucket/a.onnx'
    >>> place_of("file:///data/a.onnx")
    '/data/a.onnx'
    """
    match = URL.fullmatch(str(place))
    if match is None:
        return str(place)
    scheme, rest = match.groups()
    if scheme == FILE:
        return f"/{rest}"
    return f"{scheme}://{'/' * (scheme in LOCAL)}{rest}"


def scheme_of(place: str | Path) -> str:
    """The scheme of a URL, "" for a path."""
    match = URL.fullmatch(str(place))
    return match[1] if match is not None else ""


def is_remote(place: str | Path) -> bool:
    """Whether a place is a URL, and not the URL of a local file."""
    return scheme_of(place) not in {"", FILE}


class JobFiles(Struct, frozen=True):
    """The model and result of a job on this machine: the files themselves, or copies of remote ones in `folder`.

    `urls` maps the paths of the copies to their URLs.
    """

    model: Path
    output: Path | None = None
    folder: Path | None = None
    urls: dict[Path, str] = field(default_factory=dict[Path, str])

    def result(self) -> Path | None:
        """The result of an earlier job, if there may be one. Raises ModelError if it exists but cannot be read."""
        if self.output is None or self.output not in self.urls:
            return self.output
        assert self.folder is not None
        return fetch(self.urls[self.output], self.folder / "result", is_required=False)

    def publish(self) -> None:
        """Write the result to its URL, preceded by all files next to it. Raises ModelError."""
        if self.output is None or self.output not in self.urls:
            return
        url = self.urls[self.output]
        with _one_line_errors(url, "written"):
            fs, path = _file_system(url)
            folder = path.rpartition("/")[0]
            files = [file for file in self.output.parent.rglob("*") if file.is_file()]
            for file in sorted(files, key=lambda file: (file == self.output, file)):
                _put(fs, file, f"{folder}/{file.relative_to(self.output.parent).as_posix()}", scheme_of(url) in STORES)

    def renamed(self, value: object) -> Any:
        """The value, with copies' paths replaced by URLs in its strings."""
        if not isinstance(value, str):
            return value
        return reduce(lambda text, copy: text.replace(str(copy[0]), copy[1]), self.urls.items(), value)


@contextmanager
def job_files(model: Path, output: Path | None) -> Generator[JobFiles]:
    """The files of a job whose model and result are at paths or URLs; remote models are fetched. See `place_of`.

    Messages of a PassesError name URLs instead of the copies. Raises ModelError for a model that cannot be read.
    """
    places = Path(place_of(model)), None if output is None else Path(place_of(output))
    if not is_remote(model) and (output is None or not is_remote(output)):
        yield JobFiles(*places)
        return
    with ScratchFolder() as folder:
        (local, target), urls = places, dict[Path, str]()
        if is_remote(model):
            local = fetch(str(model), folder / "model") or local
            urls[local] = place_of(model)
        if output is not None and is_remote(output):
            target = folder / "output" / _name(str(output))
            target.parent.mkdir()
            urls[target] = place_of(output)
        files = JobFiles(local, target, folder, urls)
        try:
            yield files
        except PassesError as e:
            e.args = tuple(map(files.renamed, e.args))
            raise


def fetch(url: str, folder: Path, *, is_required: bool = True) -> Path | None:
    """Copy a model and its external data to a new folder; None if it does not exist and is not required.

    Missing data is left to the loader. Raises ModelError, also if the model changes while it is read.
    """
    folder.mkdir()
    with _one_line_errors(url, "read"):
        fs, path = _file_system(url)
        if not is_required and not fs.exists(path):
            return None
        version = fs.ukey(path)
        model = folder / _name(url)
        fs.get_file(path, str(model))
        for location in _external_locations(model):
            target = folder / location
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):
                fs.get_file(f"{path.rpartition('/')[0]}/{location}", str(target))
        fs.invalidate_cache()
        if fs.ukey(path) != version:
            raise ModelError(f"{place_of(url)} was changed while it was read")
    return model


def _external_locations(model: Path) -> list[str]:
    """The files of a model's external data below its folder; none if it is damaged, which the loader reports."""
    from onnx import TensorProto  # noqa: PLC0415 - heavy, and only needed for models at URLs

    from ...core.io.files import load_without_weights  # noqa: PLC0415 - as above
    from ...core.serialization.proto_queries import inner_tensors  # noqa: PLC0415 - as above

    try:
        message = load_without_weights(model)
    except ModelError:
        return []
    nodes = (*message.graph.node, *(node for function in message.functions for node in function.node))
    tensors = (t for t in (*message.graph.initializer, *inner_tensors(nodes)))
    external = (t for t in tensors if t.data_location == TensorProto.EXTERNAL)
    found = {e.value for t in external for e in t.external_data if e.key == "location"}
    return sorted(name for name in found if _is_below(name) and name != model.name)


def _is_below(location: str) -> bool:
    path = PurePosixPath(location)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts and "\0" not in location


def _name(url: str) -> str:
    """The name of the file at a URL. Raises ModelError if it has none."""
    name = PurePosixPath(place_of(url)).name
    if not name or name in {"..", place_of(url)}:
        raise ModelError(f"{place_of(url)} does not name a file")
    return name


def _file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it. Raises PassesError if a package is missing."""
    try:
        core: Any = import_module("fsspec.core")  # an extra, without types
    except ImportError as e:
        raise PassesError(f"{place_of(url)} needs {e.name}: pip install 'passwright[cluster]'") from e
    return core.url_to_fs(place_of(url))


def _put(fs: Any, file: Path, target: str, is_store: bool) -> None:
    """Copy a file to a file system so that it appears, or replaces another one, in one step if possible."""
    if is_store:
        fs.put_file(str(file), target)
        return
    folder, _, name = target.rpartition("/")
    fs.makedirs(folder, exist_ok=True)
    staged = f"{folder}/.passwright-{token_hex(8)}-{name}"
    try:
        fs.put_file(str(file), staged)
        fs.mv(staged, target)
    except BaseException:
        with suppress(Exception):
            fs.rm_file(staged)
        raise


@contextmanager
def _one_line_errors(url: str, verb: str) -> Generator[None]:
    """Convert errors of a file system, which may have any type, to ModelError with a one-line message."""
    try:
        yield
    except PassesError:
        raise
    except FileNotFoundError as e:
        raise ModelError(f"{place_of(url)} does not exist") from e
    except Exception as e:
        raise ModelError(f"{place_of(url)} cannot be {verb}: {format_error(e)}") from e


def remote_models(url: str, suffix: str) -> Iterator[str]:
    """Yield the URLs of the visible models in a folder or matching a pattern, sorted; for other URLs, the URL itself.

    Raises ModelError if the file system cannot be read.
    """
    with _one_line_errors(url, "read"):
        fs, path = _file_system(url)
        scheme = scheme_of(url)
        if set(path) & set("*?["):
            found = [name for name in fs.glob(path) if not fs.isdir(name)]
        elif fs.isdir(path):
            found = [name for name in fs.find(path) if name.casefold().endswith(suffix) and not _is_hidden(name, path)]
        else:
            yield place_of(url)
            return
    for name in sorted(found):
        yield place_of(f"{scheme}://{name.lstrip('/')}" if scheme not in LOCAL else f"{scheme}://{name}")


def _is_hidden(name: str, folder: str) -> bool:
    parts = PurePosixPath(name).parts[len(PurePosixPath(folder).parts) :]
    return any(part.startswith(".") for part in parts)
