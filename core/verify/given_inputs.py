"""Inputs given by the user: samples in files, folders and Python data, and their checks against the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
from msgspec import structs

from ..errors import ModelError
from ..io.array_files import ArrayHeader, HeaderCheck, open_arrays, read_optional, read_sequence, read_tensor
from ..ir.tensor import Tensor, dims_text, first_line
from ..ort import value_files
from ..processes.watchdog import time_limit_end
from ..support.printable_text import is_utf8
from ..support.regular_files import is_folder
from ..support.scratch_folder import ScratchFolder
from ..transform.specialize import bind_dims, require_input_name
from .decision_boundaries import NO_BOUNDARIES
from .dim_expressions import Sizes
from .input_sets import InputSet
from .input_specs import GENERATABLE, OPTIONAL, SEQUENCE, TENSOR, InputSpec
from .kept_values import FileValues, ValueCache, value_bytes
from .sample_rows import RowBatches

MAX_READ_ONCE = 1000  # samples of a source that can be read only once and may be endless
READING_SHARE = 0.2  # of the time left for the command
KEPT_BYTES = 64 << 20  # of samples in memory; others are read again when they are needed
TEST_DATA = "test_data_set_*"
NUMBER = re.compile(r"[0-9]{1,9}")
FILE_NAME = re.compile(r"input_(0|[1-9][0-9]{0,8})\.pb")
READERS = {TENSOR: read_tensor, SEQUENCE: read_sequence, OPTIONAL: read_optional}
READ_ONLY_AS_WHOLE = Tensor.from_array(np.zeros(0, np.float32))
MAX_LISTED_NAMES = 10  # of inputs that a message lists


def header_check(input_set: InputSet, inputs: Sequence[InputSpec], *, has_rows: bool = False) -> HeaderCheck:
    """Return a check for headers of arrays that are not read yet, against the inputs of those names.

    If the set `has_rows`, shapes are not checked, because each input gets a part of its array.
    """
    known = {i.name: i for i in inputs}

    def check(name: str, header: ArrayHeader) -> None:
        _require_known(name, known, input_set)
        if (spec := known[name]).type_kind in GENERATABLE:
            if not _is_convertible(header.dtype, spec.numpy_dtype):
                raise _wrong_type(spec, input_set, header.dtype)
            if not has_rows:
                _require_shape(header.shape, spec, input_set)

    return check


def fitting_inputs(input_set: InputSet, inputs: Sequence[InputSpec], *, has_rows: bool = False) -> InputSet:
    """Convert `input_set` to the types and, unless it `has_rows`, the shapes of the inputs. Raises ModelError."""
    known = {i.name: i for i in inputs}
    for name in input_set.feeds:
        _require_known(name, known, input_set)
    feeds: dict[str, Any] = {}
    for spec in inputs:
        if spec.name in input_set.feeds:
            feeds[spec.name] = _converted(input_set.feeds[spec.name], spec, input_set)
        elif spec.default is None:
            raise ModelError(f"the {input_set} lack {spec.name}")
    for spec in () if has_rows else inputs:
        value = feeds.get(spec.name)
        for array in cast("list[Any]", value) if isinstance(value, list) else [value]:
            if array is not None and spec.type_kind in GENERATABLE:
                _require_shape(np.shape(array), spec, input_set)
    return InputSet(input_set.kind, input_set.sizes, feeds)


def _require_shape(shape: Sequence[int], spec: InputSpec, input_set: InputSet) -> None:
    """Raise ModelError if an input has another rank or other fixed dims; onnxruntime takes scalars of any rank."""
    pairs = zip(spec.shape, shape, strict=False)
    if spec.shape and (len(shape) != len(spec.shape) or any(isinstance(d, int) and d != n for d, n in pairs)):
        found = f"{spec.name} of the {input_set} has shape {dims_text(shape)}"
        raise ModelError(f"{found}; the model needs {dims_text(spec.shape)}")


def _require_known(name: str, known: Collection[str], input_set: InputSet) -> None:
    if name not in known:
        listed = ", ".join(islice(known, MAX_LISTED_NAMES)) + (", ..." if len(known) > MAX_LISTED_NAMES else "")
        raise ModelError(f"the {input_set} name {name}, which is not an input of the model ({listed})")


def _converted(value: Any, spec: InputSpec, input_set: InputSet) -> Any:
    if spec.type_kind == OPTIONAL and value is None:
        return None
    if spec.type_kind in {TENSOR, OPTIONAL}:
        return _converted_array(value, spec, input_set)
    if spec.type_kind == SEQUENCE:
        if not isinstance(value, list | tuple):
            raise ModelError(f"{spec.name} of the {input_set} is not a list of arrays; the model needs a sequence")
        return [_converted_array(v, spec, input_set) for v in cast("Sequence[Any]", value)]
    return value


def _converted_array(value: Any, spec: InputSpec, input_set: InputSet) -> np.ndarray[Any, Any]:
    """An array of the required type; Python numbers and lists are converted, arrays must already have the type."""
    wanted = spec.numpy_dtype
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, RuntimeError) as e:
        raise ModelError(f"{spec.name} of the {input_set} is not an array: {first_line(e)}") from e
    if wanted == np.object_ and array.dtype.kind in "UO" and all(isinstance(s, str) for s in array.flat):
        if not all(map(is_utf8, array.flat)):
            raise ModelError(f"{spec.name} of the {input_set} has text that is not Unicode")
        return array.astype(object)
    if array.dtype == wanted != np.object_:
        return array
    if array.dtype.kind == "V" and wanted != np.object_ and _is_convertible(array.dtype, wanted):
        return array.view(wanted)
    literal = isinstance(value, list | tuple | int | float) and array.dtype.kind in "biuf"
    if (array.dtype.newbyteorder("=") == wanted != np.object_) or (
        literal and np.can_cast(array.dtype, wanted, "same_kind")
    ):
        return array.astype(wanted)
    kind = type(cast("object", value)).__name__ if array.dtype.kind in "OU" else array.dtype
    raise _wrong_type(spec, input_set, kind)


def _is_convertible(dtype: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Whether an array of that type, read from a file, can be an input of type `wanted`."""
    if wanted == np.object_:
        return dtype.kind in "UO"
    if dtype.kind == "V" and dtype.itemsize == wanted.itemsize and not dtype.fields:
        return True  # .npz files return types that NumPy lacks like this
    return dtype.newbyteorder("=") == wanted


def _wrong_type(spec: InputSpec, input_set: InputSet, found: object) -> ModelError:
    return ModelError(f"{spec.name} of the {input_set} is {found}; the model needs {spec.numpy_dtype}")


def with_given_shapes(shapes: Mapping[str, Sequence[int]], inputs: Sequence[InputSpec]) -> list[InputSpec]:
    """The inputs; inputs without a declared rank get the shape that is given for them."""
    return [i if i.is_ranked or i.name not in shapes else i.with_shape(tuple(shapes[i.name])) for i in inputs]


def sizes_from_shapes(shapes: Mapping[str, Sequence[int]], inputs: Sequence[InputSpec]) -> Sizes:
    """The sizes of symbols at the given shapes. Raises ModelError for a shape that does not fit its input."""
    known = {i.name: i for i in inputs}
    sizes: Sizes = {}
    for name, shape in shapes.items():
        require_input_name(name, known)
        bind_dims(name, known[name].shape, shape, sizes)
    return sizes


Feeds = Mapping[str, Any]


@runtime_checkable
class DataReader(Protocol):
    """A source of samples with the interface of `onnxruntime.quantization.CalibrationDataReader`."""

    def get_next(self) -> Feeds | None:
        """The next sample, or None at the end."""
        ...


@dataclass(frozen=True, slots=True)
class NamedData:
    """Data from Python code, with a name for messages."""

    name: str
    data: object = field(repr=False)


Inputs = Feeds | str | Path | Iterable[Feeds | str | Path | NamedData] | DataReader | NamedData
"""Arrays by the names of inputs, or of samples and inputs as in `s0/x`; an .npz of such arrays; a folder of ONNX test
data or of .npz; several of these; samples in any iterable."""


@dataclass(frozen=True, slots=True)
class GivenSample:
    """One sample, with a label for messages. `load` returns its arrays, which fit the inputs, or raises ModelError."""

    label: str
    load: Callable[[], Feeds] = field(repr=False)
    is_in_memory: bool = False


@dataclass(frozen=True, slots=True)
class _Table:
    """Arrays by the names of inputs, not of samples, whose `batches` are samples."""

    label: str
    load: Callable[[], Feeds]
    batches: RowBatches


def kind_of_sample(label: str) -> str:
    """The kind of the input set of a sample."""
    return f"given ({label})" if label else "given"


@dataclass(frozen=True, slots=True)
class GivenSamples:
    """Samples in order, loaded when they are read. `notes` say which samples were skipped.

    `folders` contain the samples that can be read only once.
    """

    source: str
    samples: tuple[GivenSample, ...] = field(repr=False)
    notes: tuple[str, ...] = ()
    folders: tuple[ScratchFolder, ...] = field(default=(), repr=False)


def read_samples(
    given: Inputs | GivenSamples,
    inputs: Sequence[InputSpec],
    *,
    name: str = "",
    limit: int = MAX_READ_ONCE,
    ignored: Collection[str] = (),
    each_row: bool = False,
    seed: int = 0,
) -> GivenSamples:
    """The samples in what the user gave; messages call Python data `name`.

    If arrays have more rows than the fixed batch of the model, each batch of rows is a sample; with `each_row`, also
    each row for a symbolic batch. From a source that can be read only once, up to `limit` samples are read, and as many
    batches of rows, chosen by `seed`; fewer if the command runs out of time. Arrays of `ignored` names are skipped.
    Raises ModelError for data that do not fit the inputs, as far as they are read here.
    """
    if isinstance(given, GivenSamples):
        return given
    until = monotonic() + READING_SHARE * (time_limit_end() - monotonic())
    reader = _SampleReader(inputs, _light(inputs), limit, frozenset(ignored), until, each_row, seed)
    found = reader.read(given, name)
    if not found.samples:
        raise ModelError(f"{found.source or 'the given inputs'}: there are no samples")
    return found


def read_inputs(given: Inputs | GivenSamples, inputs: Sequence[InputSpec]) -> tuple[list[InputSet], tuple[str, ...]]:
    """The input sets of all given samples, each read once and valid, and notes on skipped samples.

    The first KEPT_BYTES stay in memory. Raises ModelError.
    """
    found = read_samples(given, inputs)
    until = monotonic() + READING_SHARE * (time_limit_end() - monotonic())
    recent, budget = ValueCache[Feeds](0), KEPT_BYTES
    input_sets: list[InputSet] = []
    notes = list(found.notes)
    for n, sample in enumerate(found.samples):
        if n and monotonic() > until:
            left = f"{len(found.samples) - n} of {len(found.samples)} samples were skipped for lack of time"
            notes.append(left)
            break
        kind = kind_of_sample(sample.label)
        feeds = fitting_inputs(InputSet(kind, {}, sample.load()), inputs).feeds
        size = 0 if sample.is_in_memory else value_bytes(feeds)
        budget -= size
        kept = feeds if budget >= 0 else FileValues(partial(recent.get, n, sample.load), sample.load, found.folders)
        input_sets.append(InputSet(kind, {}, kept))
    return input_sets, tuple(notes)


def member_names(
    names: Iterable[str], inputs: Sequence[InputSpec], ignored: Collection[str] = ()
) -> dict[str, dict[str, str]]:
    """The members of a file by input name, for each sample; a sample without a name is "".

    Names such as `s0/x` consist of the names of a sample and an input. If a name with slashes can be split in several
    ways, the member belongs to the sample with the shortest name that has all inputs. Other members belong to samples
    that lack an input, or have an unknown input.
    """
    left = dict.fromkeys(n for n in names if n not in ignored)
    known = {i.name for i in inputs}
    if known.issuperset(left):
        return {"": {name: name for name in left}}
    required = {i.name for i in inputs if i.default is None}
    depths = sorted({n.count("/") for n in known}, reverse=True)
    groups: dict[str, dict[str, str]] = {}
    for member in left:
        for sample, name in _splits(member, depths):
            if name in known:
                groups.setdefault(sample, {})[name] = member
    found: dict[str, dict[str, str]] = {}
    for sample in sorted(groups, key=lambda s: s.count("/") + bool(s)):
        members = {name: member for name, member in groups[sample].items() if member in left}
        if required <= members.keys() and members:
            found[sample] = members
            for member in members.values():
                del left[member]
    for member in left:
        splits = [(s, n) for s, n in _splits(member, depths) if n in known] or [("", member)]
        sample, name = splits[0]
        found.setdefault(sample, {})[name] = member
    order = {sample: n for n, sample in enumerate(groups)}
    return dict(sorted(found.items(), key=lambda item: order.get(item[0], -1)))


def _splits(member: str, depths: Iterable[int]) -> Iterator[tuple[str, str]]:
    """The possible splits of a member into the names of a sample and an input with so many slashes."""
    for depth in depths:
        first, *others = member.rsplit("/", depth + 1)
        if len(others) == depth + 1:
            yield first, "/".join(others)
        elif len(others) == depth:
            yield "", member


def _light(inputs: Sequence[InputSpec]) -> list[InputSpec]:
    """The inputs without data that takes memory and that no sample needs."""
    return [
        structs.replace(i, default=i.default and READ_ONLY_AS_WHOLE, boundaries=NO_BOUNDARIES, required_extents={})
        for i in inputs
    ]


@dataclass(slots=True)
class _SampleReader:
    """Reads samples; see `read_samples`. `light` are the inputs in a form that can be sent to another process."""

    inputs: Sequence[InputSpec]
    light: Sequence[InputSpec]
    limit: int
    ignored: frozenset[str]
    until: float
    each_row: bool
    seed: int
    notes: list[str] = field(default_factory=list[str])
    folders: list[ScratchFolder] = field(default_factory=list[ScratchFolder])
    stored: int = 0
    budget: float = field(default_factory=lambda: KEPT_BYTES)

    def read(self, given: Inputs, name: str) -> GivenSamples:
        entries = cast("Sequence[object]", given) if isinstance(given, list | tuple) else ()
        if not any(isinstance(e, str | Path | NamedData) for e in entries):
            entries = (given,)
        found: list[GivenSample | _Table] = []
        sources: list[str] = []
        for entry in entries:
            source, of_entry = self._read_entry(entry, name, is_only=len(entries) == 1)
            sources.append(source)
            found += of_entry
        samples = tuple(self._with_batches(found))
        return GivenSamples(", ".join(sources), samples, tuple(self.notes), tuple(self.folders))

    def _with_batches(self, found: Sequence[GivenSample | _Table]) -> Iterator[GivenSample]:
        """Yield the samples, and up to `limit` batches of all tables in their places. Each table is read once."""
        total = sum(len(t.batches) for t in found if isinstance(t, _Table))
        chosen = np.sort(np.random.default_rng(self.seed).permutation(total)[: self.limit])
        if total > self.limit:
            self.notes.append(f"of {total:,} batches of rows, {self.limit:,} were chosen at random")
        start = 0
        for entry in found:
            if isinstance(entry, GivenSample):
                yield entry
                continue
            end = start + len(entry.batches)
            yield from self._batches_of(entry, (chosen[(chosen >= start) & (chosen < end)] - start).tolist())
            start = end

    def _batches_of(self, table: _Table, numbers: Sequence[int]) -> Iterator[GivenSample]:
        arrays: Feeds = table.load() if numbers else {}
        for n, number in enumerate(numbers):
            if self._is_late(n, table.label or "the given inputs", len(numbers)):
                return
            label = ": ".join(filter(None, (table.label, table.batches.name(number))))
            yield self._stored(label, table.batches.take(arrays, number))

    def _table_batches(self, label: str, shapes: Mapping[str, Sequence[int]]) -> RowBatches | None:
        """The batches in arrays of these shapes, None for a single sample; rows that fill no batch are noted."""
        found = RowBatches.of(label, shapes, self.inputs, each_row=self.each_row)
        if found is not None and (rest := found.rows % found.size):
            left = f"the last {rest} of {found.rows:,} rows were skipped: they do not fill a batch of {found.size}"
            self.notes.append(f"{label}: {left}" if label else left)
        return found

    def _read_entry(self, entry: object, name: str, *, is_only: bool) -> tuple[str, list[GivenSample | _Table]]:
        """The name of a source, and its samples and tables, with short labels if it is the only source."""
        if isinstance(entry, str | Path):
            path = Path(entry)
            if is_folder(path):
                return path.name, list(self._of_folder(path, "" if is_only else f"{path}/"))
            return path.name, list(self._of_npz(path, path.name if is_only else str(path)))
        if isinstance(entry, NamedData):
            return entry.name, list(self._of_data(entry.data, entry.name))
        return name, list(self._of_data(entry, name))

    def _of_folder(self, folder: Path, prefix: str) -> Iterator[GivenSample | _Table]:
        sets = sorted(folder.glob(TEST_DATA), key=_natural_key)
        if sets or any(folder.glob("input_*.pb")):
            for path in sets or [folder]:
                yield self._of_test_data(path, f"{prefix}{path.name}" if sets else f"{prefix[:-1] or path.name}")
            return
        files = sorted(folder.glob("*.npz"), key=_natural_key)
        if not files:
            raise ModelError(f"{folder} holds no input_*.pb, no {TEST_DATA} and no .npz")
        for file in files:
            yield from self._of_npz(file, f"{prefix}{file.name}")

    def _of_test_data(self, folder: Path, label: str) -> GivenSample:
        numbered = {int(m[1]): f for f in folder.glob("input_*.pb") if (m := FILE_NAME.fullmatch(f.name))}
        if not numbered:
            raise ModelError(f"{folder} holds no input_*.pb")
        files = {spec.name: numbered[n] for n, spec in enumerate(self.inputs) if n in numbered}
        return GivenSample(label, partial(_load_test_data, kind_of_sample(label), files, self.light))

    def _of_npz(self, path: Path, label: str) -> Iterator[GivenSample | _Table]:
        with open_arrays(path) as archive:
            by_sample = member_names(archive.headers, self.inputs, self.ignored)
            if list(by_sample) == [""]:
                batches = self._table_batches(label, {name: archive.headers[name].shape for name in by_sample[""]})
                has_rows = batches is not None
                load = partial(_load_npz, path, kind_of_sample(label), self.light, self.ignored, has_rows=has_rows)
                yield GivenSample(label, load) if batches is None else _Table(label, load, batches)
                return
            labels = {name: f"{label}: {name}" if name else label for name in by_sample}
            for name, members in by_sample.items():
                check = header_check(InputSet(kind_of_sample(labels[name])), self.inputs)
                for known, member in members.items():
                    check(known, archive.headers[member])
            for n, (name, members) in enumerate(by_sample.items()):
                if self._is_late(n, label, len(by_sample)):
                    return
                arrays = archive.read(members.values())
                yield self._stored(labels[name], {known: arrays[member] for known, member in members.items()})

    def _of_data(self, data: object, name: str) -> Iterator[GivenSample | _Table]:
        """The samples that Python code provides."""
        if isinstance(data, Mapping):
            arrays = {str(k): v for k, v in cast("Mapping[object, object]", data).items()}
            by_sample = member_names(arrays, self.inputs, self.ignored)
            if list(by_sample) == [""]:
                table = self._fitting(name, {known: arrays[known] for known in by_sample[""]}, has_rows=True)
                batches = self._table_batches(name, {n: np.shape(v) for n, v in table.items()})
                load = partial(dict[str, Any], table)
                yield self._in_memory(name, table) if batches is None else _Table(name, load, batches)
                return
            for sample, members in by_sample.items():
                feeds = {known: arrays[member] for known, member in members.items()}
                yield self._in_memory(": ".join(filter(None, (name, sample))), feeds)
        elif isinstance(data, Sequence) and not isinstance(data, str | bytes):
            for n, sample in enumerate(cast("Sequence[object]", data), 1):
                label = _numbered(name, n)
                yield self._in_memory(label, _require_arrays(sample, label))
        elif isinstance(data, DataReader):
            yield from self._of_iterator(iter(data.get_next, None), name)
        elif isinstance(data, Iterable):
            yield from self._of_iterator(iter(cast("Iterable[object]", data)), name)
        else:
            subject = name or "the given inputs"
            raise ModelError(f"{subject}: {type(data).__name__} is not a source of samples; give files, or an iterable")

    def _of_iterator(self, samples: Iterator[object], name: str) -> Iterator[GivenSample]:
        for n in range(1, self.limit + 1):
            if self._is_late(n - 1, name or "the given inputs"):
                return
            try:
                sample = next(samples)
            except StopIteration:
                return
            label = _numbered(name, n)
            yield self._stored(label, _require_arrays(sample, label))
        self.notes.append(f"only the first {self.limit:,} samples of {name or 'the given inputs'} were read")

    def _in_memory(self, label: str, feeds: Feeds) -> GivenSample:
        return GivenSample(label, partial(dict[str, Any], self._fitting(label, feeds)), is_in_memory=True)

    def _stored(self, label: str, feeds: Feeds) -> GivenSample:
        """The sample; it is stored in a file if KEPT_BYTES are in memory."""
        fitting = self._fitting(label, feeds)
        self.budget -= value_bytes(fitting)
        if self.budget >= 0:
            return GivenSample(label, partial(dict[str, Any], fitting))
        if not self.folders:
            self.folders.append(ScratchFolder())
        path = self.folders[0].path / str(self.stored)
        self.stored += 1
        value_files.write_value(dict(fitting), path)
        return GivenSample(label, partial(value_files.read_value, path))

    def _fitting(self, label: str, feeds: Feeds, *, has_rows: bool = False) -> Feeds:
        return fitting_inputs(InputSet(kind_of_sample(label), {}, feeds), self.inputs, has_rows=has_rows).feeds

    def _is_late(self, count: int, source: str, total: int = 0) -> bool:
        """Whether there is no time left to read more samples, which is noted."""
        if not count or self.until == inf or monotonic() < self.until:
            return False
        of_all = f" of {total:,}" if total else ""
        read = f"of {source}, {count:,}{of_all} samples were read in time; the others were skipped"
        self.notes.append(read)
        return True


def _load_test_data(kind: str, files: Mapping[str, Path], inputs: Sequence[InputSpec]) -> Feeds:
    check = header_check(InputSet(kind), inputs)
    feeds = {
        i.name: READERS.get(i.type_kind, read_tensor)(files[i.name], lambda _, header, name=i.name: check(name, header))
        for i in inputs
        if i.name in files
    }
    return fitting_inputs(InputSet(kind, {}, feeds), inputs).feeds


def _load_npz(path: Path, kind: str, inputs: Sequence[InputSpec], ignored: Collection[str], *, has_rows: bool) -> Feeds:
    with open_arrays(path) as archive:
        names = [name for name in archive.headers if name not in ignored]
        check = header_check(InputSet(kind), inputs, has_rows=has_rows)
        for name in names:
            check(name, archive.headers[name])
        found = InputSet(kind, {}, archive.read(names))
    return fitting_inputs(found, inputs, has_rows=has_rows).feeds


def _require_arrays(sample: object, label: str) -> Feeds:
    if not isinstance(sample, Mapping):
        raise ModelError(f"{label}: it is of type {type(sample).__name__}, not arrays by name")
    return cast("Feeds", sample)


def _numbered(name: str, number: int) -> str:
    return f"{name}: sample {number}" if name else f"sample {number}"


def _natural_key(path: Path) -> tuple[str, tuple[int, ...], str]:
    """A key that sorts names by the numbers in them."""
    return NUMBER.sub("#", path.name), tuple(map(int, NUMBER.findall(path.name))), path.name
