"""Arrays in files: damaged, hostile and special ones are refused in one line, before their elements are read."""

from __future__ import annotations

import os
import struct
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from passwright.core.errors import ModelError
from passwright.core.io.array_files import read_arrays, read_optional, read_sequence, read_tensor
from rewriting import cases

if TYPE_CHECKING:
    from collections.abc import Callable

    from passwright.core.io.array_files import ArrayHeader


def accept(_name: str, _header: ArrayHeader) -> None:
    """Accept every header."""


def npy_file(descr: str = "'<f4'", shape: str = "(2, 3)", data: bytes = bytes(24), version: int = 1) -> bytes:
    """A serialized array with any header."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


def archive(
    *members: bytes | tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED, spoil: Callable[[bytes], bytes] = bytes
) -> Callable[[Path], Path]:
    """A file in.npz with `members`, each an x.npy or a name and bytes, whose bytes are changed by `spoil`."""

    def make(path: Path) -> Path:
        with warnings.catch_warnings(), zipfile.ZipFile(path / "in.npz", "w", method) as found:
            warnings.simplefilter("ignore")  # of duplicate names
            for member in members:
                found.writestr(*(("x.npy", member) if isinstance(member, bytes) else member))
        (path / "in.npz").write_bytes(spoil((path / "in.npz").read_bytes()))
        return path / "in.npz"

    return make


def directory(field: int, form: str, value: int) -> Callable[[bytes], bytes]:
    """Overwrite a field of the first entry of a zip's directory."""

    def spoil(content: bytes) -> bytes:
        changed = bytearray(content)
        struct.pack_into(form, changed, changed.find(b"PK\x01\x02") + field, value)
        return bytes(changed)

    return spoil


def flipped(content: bytes) -> bytes:
    """The content with other bytes where the first member is stored."""
    return content[:50] + bytes(b ^ 0xFF for b in content[50:70]) + content[70:]


FLAGS, METHOD, VERSION, MEMBER_SIZE = 8, 10, 6, 24  # fields of an entry


@cases(
    ("make", "message"),
    {
        "10 TB header": (
            archive(npy_file(shape="(2500000000000,)")),
            "contains 104 bytes, but its header says 10000000000000",
        ),
        "more than the directory says": (
            archive(npy_file(shape="(500000000, 3)"), spoil=directory(MEMBER_SIZE, "<I", 0xFFFFFFF0)),
            "its header says 6000000000",
        ),
        "bomb": (
            archive(npy_file(shape="(300000000, 3)"), spoil=directory(MEMBER_SIZE, "<I", 0xFFFFFFF0)),
            r"in.npz: its arrays need 3.6 GB; the limit for its size is 2.1 GB",
        ),
        "many elements of no bytes": (archive(npy_file("'|S0'", "(10000000000000,)", b"")), "need 640,000.0 GB"),
        "negative": (archive(npy_file(shape="(-2, -3)")), "its shape .* is negative"),
        "extent beyond int64": (archive(npy_file(shape=f"({10**30}, 3)")), "its header says"),
        "overflow": (archive(npy_file(shape=f"(0, {2**62}, {2**62})")), "x.npy cannot be read"),
        "nested": (archive(npy_file(shape="(" * 60 + ")" * 60)), "holds 24 bytes|x.npy cannot be"),
        "long header": (archive(npy_file(version=2, shape=" " * 20000)), "x.npy cannot be read"),
        "version": (archive(npy_file(version=9)), "x.npy cannot be read"),
        "structure": (archive(npy_file("[('a', '<f4')]")), "contains structures"),
        "subarrays": (archive(npy_file("('<f4', (3,))")), "contains structures"),
        "objects in a structure": (archive(npy_file("[('a', '|O')]")), "contains pickled objects"),
        "no code point": (archive(npy_file("'<U1'", "(2,)", b"\xff" * 8)), "its text is not Unicode"),
        "surrogate": (archive(npy_file("'>U1'", "(1,)", b"\0\0\xd8\0")), "its text is not Unicode"),
        "truncated": (archive(npy_file(data=bytes(5))), "x.npy cannot be read"),
        "data behind the array": (archive(npy_file(data=bytes(25))), "more than its header says"),
        "no array": (archive(b"hello"), "x.npy cannot be read"),
        "empty member": (archive(b""), "x.npy cannot be read"),
        "member without a suffix": (archive(("x", npy_file())), "x is not an array"),
        "duplicate": (archive(npy_file(), npy_file()), "two arrays named x"),
        "encrypted": (archive(npy_file(), spoil=directory(FLAGS, "<H", 1)), "x.npy cannot be read"),
        "patched": (archive(npy_file(), spoil=directory(FLAGS, "<H", 0x20)), "x.npy cannot be read"),
        "method": (archive(npy_file(), spoil=directory(METHOD, "<H", 99)), "x.npy cannot be read"),
        "zip version": (archive(npy_file(), spoil=directory(VERSION, "<H", 255)), "is not an .npz"),
        "corrupt deflate": (archive(npy_file(), spoil=flipped), "x.npy cannot be read"),
        "corrupt lzma": (archive(npy_file(), method=zipfile.ZIP_LZMA, spoil=flipped), "cannot be read"),
        "corrupt bz2": (archive(npy_file(), method=zipfile.ZIP_BZIP2, spoil=flipped), "cannot be read"),
    },
)
def test_hostile_archives_are_refused(tmp_path: Path, make: Callable[[Path], Path], message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        read_arrays(make(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_header_is_not_read_beyond_its_limit(tmp_path: Path) -> None:
    start = b"\x93NUMPY\x02\0" + struct.pack("<I", 1 << 30)
    path = archive(start + bytes(16 << 20))(tmp_path)
    tracemalloc.start()
    with pytest.raises(ModelError, match=r"x\.npy cannot be read"):
        read_arrays(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_all_headers_are_checked_before_elements_are_read(tmp_path: Path) -> None:
    seen: list[tuple[str, Any]] = []
    path = archive(("x.npy", npy_file(data=bytes(5) + b"damaged".ljust(19))), ("y.npy", npy_file("'<i8'", "(3,)")))(
        tmp_path
    )

    def check(name: str, header: ArrayHeader) -> None:
        seen.append((name, header.shape))
        if name == "y":
            raise ModelError("not y")

    with pytest.raises(ModelError, match="not y"):
        read_arrays(path, check)
    assert seen == [("x", (2, 3)), ("y", (3,))]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_arrays_are_read(tmp_path: Path, method: int) -> None:
    found = read_arrays(archive(npy_file(), ("s.npy", npy_file("'<U1'", "(1,)", b"a\0\0\0")), method=method)(tmp_path))
    np.testing.assert_array_equal(found["x"], np.zeros((2, 3), np.float32))
    assert found["s"].tolist() == ["a"]


def saved(proto: Any) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(proto.SerializeToString())


def tensor(**fields: Any) -> onnx.TensorProto:
    return onnx.TensorProto(**{"data_type": 1, "dims": [2, 3], "raw_data": bytes(24)} | fields)


def external() -> onnx.TensorProto:
    proto = tensor(data_location=onnx.TensorProto.EXTERNAL)
    proto.ClearField("raw_data")
    proto.external_data.add(key="location", value="/etc/passwd")
    return proto


@cases(
    ("make", "message"),
    {
        "folder": (Path.mkdir, "Is a directory|is a folder"),
        "FIFO": (os.mkfifo, "Not a regular file"),
        "loop of links": (lambda p: p.symlink_to(p.name), "Too many levels of symbolic links"),
        "device": (lambda p: p.symlink_to("/dev/zero"), "Not a regular file"),
        "dangling link": (lambda p: p.symlink_to("nowhere"), "No such file|does not exist"),
    },
)
@pytest.mark.parametrize("read", [read_arrays, lambda p: read_tensor(p, accept)], ids=["npz", "tensor"])
def test_only_regular_files_are_opened(
    tmp_path: Path, read: Callable[[Path], Any], make: Callable[[Path], None], message: str
) -> None:
    make(tmp_path / "x")
    with pytest.raises(ModelError, match=f"x.*({message})"):
        read(tmp_path / "x")


@cases(
    ("make", "message"),
    {
        "larger than a message": (lambda p: (p.touch(), os.truncate(p, 5 << 30)), "it has 5.4 GB"),
        "no message": (lambda p: p.write_bytes(b"\xff" * 100), "is not a serialized tensor"),
        "empty": (Path.touch, "its element type 0 is unknown"),
        "external": (saved(external()), "in another file, which is not read"),
        "type": (saved(tensor(data_type=99)), "element type 99 is unknown"),
        "negative dim": (saved(tensor(dims=[-1, 3])), "is negative"),
        "huge dim": (saved(tensor(dims=[2**62, 3])), "is not a serialized"),
        "overflow": (saved(tensor(dims=[0, 2**62, 2**62])), "is not a serialized"),
        "100 dims": (saved(tensor(dims=[1] * 100)), "is not a serialized"),
        "too short": (saved(tensor(raw_data=bytes(7))), "is not a serialized"),
        "too long": (saved(tensor(raw_data=bytes(72))), "is not a serialized"),
        "not UTF-8": (saved(onnx.TensorProto(data_type=8, dims=[1], string_data=[b"\xff"])), "is not a serialized"),
    },
)
def test_hostile_tensors_are_refused(tmp_path: Path, make: Callable[[Path], None], message: str) -> None:
    make(tmp_path / "x.pb")
    with pytest.raises(ModelError, match=f"x.pb.*{message}") as caught:
        read_tensor(tmp_path / "x.pb", accept)
    assert "\n" not in str(caught.value)


@cases(
    ("read", "proto", "message"),
    {
        "kind": (read_sequence, onnx.SequenceProto(elem_type=99), "of kind 99"),
        "sequence of sequences": (read_sequence, onnx.SequenceProto(elem_type=3), "of kind 3"),
        "external": (read_sequence, onnx.SequenceProto(elem_type=1, tensor_values=[external()]), "another file"),
        "optional sequence": (read_optional, onnx.OptionalProto(elem_type=3), "of kind 3"),
        "type": (read_optional, onnx.OptionalProto(elem_type=1, tensor_value=tensor(data_type=99)), "type 99"),
    },
)
def test_hostile_containers_are_refused(
    tmp_path: Path, read: Callable[[Path, Any], Any], proto: Any, message: str
) -> None:
    saved(proto)(tmp_path / "x.pb")
    with pytest.raises(ModelError, match=f"x.pb.*{message}"):
        read(tmp_path / "x.pb", accept)


def test_containers_are_read(tmp_path: Path) -> None:
    array = np.ones(2, np.float32)
    proto = numpy_helper.from_array(array)
    saved(onnx.SequenceProto(elem_type=1, tensor_values=[proto]))(tmp_path / "s.pb")
    saved(onnx.OptionalProto(elem_type=1, tensor_value=proto))(tmp_path / "o.pb")
    saved(onnx.OptionalProto())(tmp_path / "e.pb")
    assert [a.tolist() for a in read_sequence(tmp_path / "s.pb", accept)] == [[1, 1]]
    np.testing.assert_array_equal(read_optional(tmp_path / "o.pb", accept), array)
    assert read_optional(tmp_path / "e.pb", accept) is None
