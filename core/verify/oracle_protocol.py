"""Arguments and results of the worker of an oracle; each input set has a file of its own."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from io import BytesIO
from math import inf
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar, cast

from msgspec import Struct

from ..io.split_models import SplitFile
from ..ort.call_monitor import CallFile
from .given_inputs import KEPT_BYTES
from .input_sets import InputSet
from .kept_values import FileValues, LazyValues, ValueCache
from .verification_spec import VerificationSpec

T = TypeVar("T")
CrashedInputs = Sequence[tuple[InputSet, str]]
"""The input sets on which runs of the original ended its process, with the reasons."""
REWRITTEN = "rewritten"
"""The model of calls whose failures are failures of the rewritten model."""
CHANGED_REGION = "changed region"
"""The model of calls whose crashes and hangs imply nothing about either model."""


class OracleArguments(Struct, frozen=True):
    """The arguments of an oracle; with `state`, a file with the state of an earlier one, that oracle is restored.

    `deadline`: of the command, and `wanted_end`, by which it is to end, in seconds of `time.monotonic`.
    """

    original: Path | SplitFile
    spec: VerificationSpec
    seed: int
    boundaries: tuple[float, ...]
    crashed: CrashedInputs = ()
    state: str = ""
    deadline: float = inf
    wanted_end: float = inf


class OracleFacts(Struct, frozen=True):
    """The facts about an oracle that its parent keeps."""

    backend: str
    output_names: list[str]
    notes: list[str]
    input_sets: list[InputSet]
    state: str


class Packed(Struct, Generic[T], frozen=True):
    """A value for the other process, with numbers in place of input sets."""

    data: bytes


@dataclass(slots=True)
class OracleExchange:
    """The files in `folder`. Both processes number the input sets equally; feeds are read when they are needed."""

    folder: Path
    calls: CallFile = field(init=False)
    _input_sets: dict[int, InputSet] = field(default_factory=dict[int, InputSet], init=False)
    _numbers: dict[int, int] = field(default_factory=dict[int, int], init=False)  # by identity
    _feeds: ValueCache[Mapping[str, Any]] = field(
        default_factory=lambda: ValueCache[Mapping[str, Any]](KEPT_BYTES), init=False
    )

    def __post_init__(self) -> None:
        self.calls = CallFile(self.folder / "call")

    @property
    def count(self) -> int:
        """The number of input sets that this process knows."""
        return len(self._input_sets)

    def pack(self, value: T) -> Packed[T]:
        """Pack a value for the other process."""
        stream = BytesIO()
        _Pickler(self, stream).dump(value)
        return Packed(stream.getvalue())

    def unpack(self, packed: Packed[T]) -> T:
        """Unpack a value from the other process."""
        return _Unpickler(self, BytesIO(packed.data)).load()

    def write(self, value: object, name: str) -> str:
        """Write a value to a file for a later process; returns the name of the file."""
        (self.folder / name).write_bytes(self.pack(value).data)
        return name

    def read(self, name: str) -> Any:
        """Read a value from a file."""
        packed: Packed[Any] = Packed((self.folder / name).read_bytes())
        return self.unpack(packed)

    def number(self, input_set: InputSet) -> int:
        """The number of an input set, which is written if the other process does not know it."""
        if id(input_set) not in self._numbers:
            number = len(self._numbers)
            while (path := self._path(number)).exists():
                number += 1
            with path.open("wb") as f:
                pickle.dump(replace(input_set, feeds={}), f, pickle.HIGHEST_PROTOCOL)
                feeds = input_set.feeds
                pickle.dump(feeds.load if isinstance(feeds, FileValues) else dict(feeds), f, pickle.HIGHEST_PROTOCOL)
            self._add(number, input_set)
        return self._numbers[id(input_set)]

    def input_set(self, number: int) -> InputSet:
        """The input set with that number."""
        if number not in self._input_sets:
            with self._path(number).open("rb") as f:
                header: InputSet = pickle.load(f)  # noqa: S301 - from a process of our own, in a private folder
            read = partial(_read_feeds, self._path(number))
            self._add(number, replace(header, feeds=LazyValues(partial(self._feeds.get, number, read))))
        return self._input_sets[number]

    def _add(self, number: int, input_set: InputSet) -> None:
        self._input_sets[number] = input_set
        self._numbers[id(input_set)] = number

    def _path(self, number: int) -> Path:
        return self.folder / f"inputs-{number}"


def _read_feeds(path: Path) -> Mapping[str, Any]:
    with path.open("rb") as f:
        pickle.load(f)  # noqa: S301 - as above
        found: Any = pickle.load(f)  # noqa: S301
    return cast("Mapping[str, Any]", found() if callable(found) else found)


class _Pickler(pickle.Pickler):
    """Pickles input sets by their numbers."""

    def __init__(self, exchange: OracleExchange, file: BinaryIO) -> None:
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self._exchange = exchange

    def persistent_id(self, obj: Any, /) -> Any:
        """The number of an input set."""
        return self._exchange.number(obj) if isinstance(obj, InputSet) else None


class _Unpickler(pickle.Unpickler):
    """Reads pickles of `_Pickler`."""

    def __init__(self, exchange: OracleExchange, file: BinaryIO) -> None:
        super().__init__(file)
        self._exchange = exchange

    def persistent_load(self, pid: Any, /) -> Any:
        """The input set with a number."""
        return self._exchange.input_set(pid)
