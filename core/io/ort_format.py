"""Models in onnxruntime's own format, used by mobile and web builds: their contents and requirements.

Their nodes are already optimized by onnxruntime, so they are not loaded for rewriting; only their interface is loaded.
"""

from __future__ import annotations

import json
import logging
import re
import struct
import warnings
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import onnx
from msgspec import Struct

from ..errors import ModelError, UsageError
from ..ir.op_schemas import qualified_op_type
from ..support.regular_files import open_regular, read_text

SUFFIX = ".ort"
MARK, MARK_AT = b"ORTM", 4
CONFIG_SUFFIX = ".config"
MAX_CONFIG_BYTES = 1 << 24
WHOLE_FILE_DOMAIN, WHOLE_FILE = "onnxruntime", "OrtFile"
"""The operator of an interface's only node; it stands for everything in the file."""
REFUSAL = (
    "it is in onnxruntime's own format, which cannot be optimized: give the .onnx file that it was made from "
    "(only bench, info, and verify for its second model take .ort files)"
)
DAMAGED = (struct.error, IndexError, ValueError, TypeError, AttributeError, KeyError, OverflowError, RuntimeError)
"""The errors of onnxruntime's readers on a file that is not as its schema says."""
FIXED, SYMBOLIC = 1, 2  # kinds of dims in the schema
TENSOR, SEQUENCE, MAP = 1, 2, 3  # kinds of types there
OFFSET_BYTES = 4  # of an element of a vector, at least
WORK_PER_BYTE = 2  # of a file: its elements and its texts, each once
MAX_ELEMENTS = 1 << 63  # of a tensor
ALL_OPERATORS = "!no_ops_specified_means_all_ops_are_required"
ENTRY = re.compile(r"\s*(\w+)\s*")
TypeLists = Mapping[str, Collection[Any]]


def is_ort_file(path: Path) -> bool:
    """Whether a file, if there is one, is in onnxruntime's format."""
    with suppress(OSError), open_regular(path) as file:
        return file.read(MARK_AT + len(MARK))[MARK_AT : MARK_AT + len(MARK)] == MARK
    return False


@dataclass(slots=True)
class OrtFile:
    """The contents of a file in onnxruntime's format.

    `interface` is a model with its inputs, outputs and opsets, and one node. `ops`: the number of ops by operator,
    including bodies. `tensors`: the type, number of elements and bytes of each initializer.
    """

    interface: onnx.ModelProto
    ops: Counter[str] = field(default_factory=Counter[str])
    tensors: list[tuple[int, int, int]] = field(default_factory=list[tuple[int, int, int]])

    @classmethod
    def read(cls, path: Path) -> OrtFile:
        """Read a file. Raises ModelError for a damaged one."""
        fbs, data = _schema(), path.read_bytes()
        with _one_line_errors():
            reader = _Reader(WORK_PER_BYTE * len(data))
            found = fbs.InferenceSession.InferenceSession.GetRootAs(data, 0).Model()
            graph = found.Graph()
            types = {reader.text(arg.Name()): arg.Type() for arg in reader.elements(graph, "NodeArgs")}
            names = [[reader.text(name) for name in reader.elements(graph, side)] for side in ("Inputs", "Outputs")]
            infos = [[onnx.ValueInfoProto(name=n, type=reader.type(types[n])) for n in side] for side in names]
            node = onnx.NodeProto(op_type=WHOLE_FILE, domain=WHOLE_FILE_DOMAIN, input=names[0], output=names[1])
            message = onnx.ModelProto(
                ir_version=found.IrVersion(),
                producer_name=reader.text(found.ProducerName() or b""),
                producer_version=reader.text(found.ProducerVersion() or b""),
                graph=onnx.GraphProto(name=path.stem, node=[node], input=infos[0], output=infos[1]),
            )
            for entry in reader.elements(found, "OpsetImport"):
                message.opset_import.add(domain=reader.text(entry.Domain() or b""), version=entry.Version())
            message.opset_import.add(domain=WHOLE_FILE_DOMAIN, version=1)
            whole = cls(message)
            whole._add(graph, reader)
            return whole

    def _add(self, graph: Any, reader: _Reader) -> None:
        """Count the ops and initializers of a graph, and of bodies."""
        for node in reader.elements(graph, "Nodes"):
            self.ops[qualified_op_type(reader.text(node.Domain() or b""), reader.text(node.OpType()))] += 1
            for attribute in reader.elements(node, "Attributes"):
                for body in (attribute.G(), *reader.elements(attribute, "Graphs")):
                    if body is not None:
                        self._add(body, reader)
        for tensor in reader.elements(graph, "Initializers"):
            self.tensors.append((tensor.DataType(), reader.size(tensor), tensor.RawDataLength()))


class _Reader:
    """Reads vectors and texts of a file, at most so much `work` in all.

    Where offsets lie, vectors share elements, and graphs are bodies of each other: a small file then has an endless
    content. Files of onnxruntime share nothing but texts.
    """

    def __init__(self, work: int) -> None:
        self._left = work

    def _spend(self, work: int) -> None:
        self._left -= work
        if self._left < 0:
            raise ValueError("more content than the file has bytes")

    def elements(self, table: Any, name: str) -> Iterator[Any]:
        """The elements of a vector of a table."""
        length = getattr(table, f"{name}Length")()
        self._spend(OFFSET_BYTES * length)
        return map(getattr(table, name), range(length))

    def text(self, data: bytes) -> str:
        """A text."""
        self._spend(len(data))
        return data.decode()

    def size(self, tensor: Any) -> int:
        """The number of elements of a tensor."""
        size = 1
        for dim in self.elements(tensor, "Dims"):
            size *= dim
            if not 0 <= size < MAX_ELEMENTS:
                raise ValueError(size)
        return size

    def type(self, info: Any) -> onnx.TypeProto:
        """The type of a value."""
        fbs, kind, at = _schema(), info.ValueType(), info.Value()
        made = onnx.TypeProto()
        if kind == SEQUENCE:
            inner = fbs.SequenceType.SequenceType()
            inner.Init(at.Bytes, at.Pos)
            made.sequence_type.elem_type.CopyFrom(self.type(inner.ElemType()))
            return made
        if kind == MAP:
            inner = fbs.MapType.MapType()
            inner.Init(at.Bytes, at.Pos)
            made.map_type.key_type = inner.KeyType()
            made.map_type.value_type.CopyFrom(self.type(inner.ValueType()))
            return made
        if kind != TENSOR:
            raise ValueError(kind)
        tensor = fbs.TensorTypeAndShape.TensorTypeAndShape()
        tensor.Init(at.Bytes, at.Pos)
        made.tensor_type.elem_type = tensor.ElemType()
        if (shape := tensor.Shape()) is not None:
            made.tensor_type.shape.SetInParent()
            for dim in (dim.Value() for dim in self.elements(shape, "Dim")):
                added = made.tensor_type.shape.dim.add()
                if dim.DimType() == FIXED:
                    added.dim_value = dim.DimValue()
                elif dim.DimType() == SYMBOLIC:
                    added.dim_param = self.text(dim.DimParam())
        return made


def _schema() -> Any:
    import_module("onnxruntime.tools.ort_format_model")  # adds the modules of the schema to the path
    return import_module("ort_flatbuffers_py.fbs")


@contextmanager
def _one_line_errors() -> Generator[None]:
    try:
        yield
    except DAMAGED as e:
        raise ModelError("a damaged file of onnxruntime's format") from e


def required_operators(files: Sequence[Path], folder: Path) -> str:
    """The configuration of an onnxruntime build that can run these files, with types, made by onnxruntime's own tool.

    `folder` is used for a temporary file. Raises ModelError for a damaged file.
    """
    tool: Any = import_module("onnxruntime.tools.ort_format_model")
    logging.getLogger("ort_format_model.utils").setLevel(logging.WARNING)
    place = folder / f"required{CONFIG_SUFFIX}"
    with _one_line_errors(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the tool does not close its files
        tool.create_config_from_models(list(files), place, True)
    return place.read_text(encoding="utf-8")


class BuildConfig(Struct, frozen=True):
    """The contents of a reduced build of onnxruntime: operators by domain and opset, and types of some arguments.

    `types` maps arguments such as `inputs 0` of restricted operators to lists. `all_types` restricts all operators.
    `has_all`: the build has all operators, and none is listed.
    """

    operators: Mapping[tuple[str, str], Collection[int]]
    types: Mapping[tuple[str, str], TypeLists]
    all_types: Collection[str] = ()
    name: str = ""
    has_all: bool = False

    @classmethod
    def read(cls, path: Path) -> BuildConfig:
        """Read a configuration file. Raises UsageError for other files."""
        try:
            return cls.parse(read_text(path, MAX_CONFIG_BYTES), path.name)
        except OSError as e:
            raise UsageError(f"cannot read {path}: {e.strerror}") from e
        except ValueError as e:
            raise UsageError(f"{path}: not a configuration of an onnxruntime build: {e}") from e

    @classmethod
    def parse(cls, text: str, name: str = "") -> BuildConfig:
        """Parse a configuration. Raises ValueError."""
        operators, types, all_types = (
            dict[tuple[str, str], set[int]](), dict[tuple[str, str], dict[str, list[Any]]](), list[str](),
        )  # fmt: skip
        for number, line in enumerate(map(str.strip, text.splitlines()), 1):
            if line.startswith("!globally_allowed_types;"):
                all_types += [part.strip() for part in line.partition(";")[2].split(",")]
            elif line and line[0] not in "#!":
                domain, opsets, entries = [part.strip() for part in f"{line};;".split(";", 2)]
                try:
                    versions = {int(v) for v in opsets.split(",")}
                    for op_type, lists in _entries(entries.removesuffix(";;")):
                        key = ("" if domain == ONNX_NAME else domain, op_type)
                        operators.setdefault(key, set()).update(versions)
                        for argument, listed in lists.items():
                            types.setdefault(key, {}).setdefault(argument, []).extend(listed)
                except ValueError as e:
                    raise ValueError(f"line {number} is not of the form domain;opset;operators") from e
        return cls(operators, types, tuple(all_types), name, not operators and ALL_OPERATORS in text.split())

    def lacks(self, needed: BuildConfig) -> dict[tuple[str, str], str]:
        """The needed operators that the build lacks, with reasons."""
        found = dict[tuple[str, str], str]()
        for key, opsets in needed.operators.items():
            reasons = list[str]()
            if key not in self.operators and not self.has_all:
                reasons.append("is missing")
            elif not self.has_all and (missing := sorted(set(opsets).difference(self.operators[key]))):
                has = ", ".join(map(str, sorted(self.operators[key])))
                reasons.append(f"of opset {', '.join(map(str, missing))}, not {has}")
            for argument, wanted in needed.types.get(key, {}).items():
                allowed = self.types.get(key, {}).get(argument) or self.all_types
                lacking = [str(t) for t in wanted if t not in allowed] if allowed else []
                if lacking:
                    reasons.append(f"of type {', '.join(lacking)} of {argument}")
            if reasons:
                found[key] = ", ".join(reasons)
        return found


ONNX_NAME = "ai.onnx"
"""The standard domain in a configuration."""


def _entries(text: str) -> Generator[tuple[str, dict[str, list[Any]]]]:
    """Yield the operators of a line, and the type lists after them. Raises ValueError."""
    at, decoder = 0, json.JSONDecoder()
    while at < len(text):
        name = ENTRY.match(text, at)
        if name is None:
            raise ValueError(text[at:])
        at, lists = name.end(), dict[str, list[Any]]()
        if text[at : at + 1] == "{":
            given, at = decoder.raw_decode(text, at)
            for side, listed in given.items():
                lists |= {f"{side} {n}": types for n, types in listed.items()} if side != "custom" else {side: listed}
        if text[at : at + 1] not in {"", ","}:
            raise ValueError(text[at:])
        at += 1
        yield name[1], lists
