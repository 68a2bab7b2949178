"""Damaged archives of inputs: .npz files, and folders of ONNX test data."""

import io
import os
import pickle
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.helper import tensor_dtype_to_np_dtype

from .mutations import INTEGERS, TEXTS, mutate_bytes

BOMB_BYTES = 300 << 20
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
DESCRIPTIONS = (
    "<f4",
    "<f8",
    "|O",
    "<U10",
    "|V8",
    "<i8",
    ">f4",
    "|b1",
    "<c16",
    "<M8[s]",
    "|S3",
    "f4",
    "(",
    "<f99",
    "|T",
)
Archive = Mapping[str, Any]


def feeds_for(model: onnx.ModelProto, rng: Random) -> dict[str, Any]:
    """Arrays for the tensor inputs of a model, with 1 or 2 for each free dim."""
    feeds: dict[str, Any] = {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        dims = [d.dim_value if 0 < d.dim_value < 64 else rng.choice((1, 2)) for d in kind.shape.dim][:6]
        try:
            dtype = tensor_dtype_to_np_dtype(kind.elem_type)
        except KeyError:
            dtype = np.dtype(np.float32)
        size = int(np.prod(dims, dtype=np.int64))
        array = np.array(["ab"] * size, object) if dtype.hasobject else np.arange(size).astype(dtype)
        feeds[value.name] = array.reshape(dims)
    return feeds


def write_inputs(folder: Path, model: onnx.ModelProto, rng: Random) -> Path:
    """Write inputs for a model, mostly damaged, and return their file or folder."""
    feeds = {name: array for name, array in feeds_for(model, rng).items() if name and "\0" not in name}
    return (
        write_npz(folder / "in.npz", feeds, rng) if rng.random() < 0.6 else write_test_data(folder / "in", feeds, rng)
    )


def npy_bytes(array: Any, rng: Random) -> bytes:
    """An .npy file with a header that may be wrong."""
    if array.dtype == object:
        array = array.astype(str)
    choice = rng.randrange(7)
    if choice == 0:
        return b"\x93NUMPY\x01\x00v\x00" + b"junk" * rng.randrange(40)
    if choice == 1:
        return pickle.dumps(print)
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array)
    data = stream.getvalue()
    if choice > 4:
        return data
    head = data.index(b"\n") + 1
    shape = tuple(rng.choice(INTEGERS) for _ in range(rng.choice((1, 2, 4, 70)))) if choice == 2 else array.shape
    kind = rng.choice(DESCRIPTIONS) if choice == 3 else array.dtype.str
    text = f"{{'descr': {kind!r}, 'fortran_order': {rng.choice((True, False, 'x'))!r}, 'shape': {shape}, }}"
    header = text.encode() + b" " * rng.choice((0, 5, 60_000)) + b"\n"
    if choice == 4:
        header = b"(" * rng.choice((10, 5_000)) + header
    if len(header) > 65535:
        return b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header + data[head:]
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data[head:]


def write_npz(path: Path, feeds: Mapping[str, Any], rng: Random) -> Path:
    """Write an .npz file: damaged members, a bomb, wrong methods or flags, or damage anywhere."""
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", rng.choice(METHODS)) as archive:
        warnings.simplefilter("ignore")  # two members with one name
        for name, array in feeds.items():
            member = rng.choice(TEXTS) or "x" if rng.random() < 0.1 else name
            data = npy_bytes(array, rng) if rng.random() < 0.6 else _plain(array)
            archive.writestr(entry(f"{member}.npy", archive), data)
        if rng.random() < 0.05 and feeds:
            _add_bomb(archive, rng.choice(("bomb.npy", f"{next(iter(feeds))}.npy")))
        if rng.random() < 0.1:
            archive.writestr(entry("extra.txt", archive), b"no array")
    data = bytearray(path.read_bytes())
    if rng.random() < 0.3:
        for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # flags, then the method
            at = data.find(signature)
            if at >= 0:
                data[at + offset] ^= rng.choice((0, 1, 64))
                data[at + offset + 2] = rng.choice((0, 8, 12, 14, 93, 99))
    elif rng.random() < 0.3:
        data = bytearray(mutate_bytes(bytes(data), rng))
    path.write_bytes(data)
    return path


def _add_bomb(archive: zipfile.ZipFile, name: str) -> None:
    """Add an array of BOMB_BYTES zeros, which take a thousandth of that in the file."""
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    with archive.open(info, "w", force_zip64=True) as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "|u1", "fortran_order": False, "shape": (BOMB_BYTES,)})
        for _ in range(BOMB_BYTES >> 20):
            member.write(bytes(1 << 20))


def entry(name: str, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    """A member without the time of day."""
    found = zipfile.ZipInfo(name)
    found.compress_type = archive.compression
    return found


def _plain(array: Any) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array.astype(str) if array.dtype == object else array)
    return stream.getvalue()


def write_test_data(folder: Path, feeds: Mapping[str, Any], rng: Random) -> Path:
    """Write a folder of serialized tensors: damaged ones, and links, pipes or folders in their place."""
    folder.mkdir()
    for i, (name, array) in enumerate(feeds.items()):
        path = folder / f"input_{i}.pb"
        tensor = numpy_helper.from_array(array, name)
        match rng.randrange(8):
            case 0:
                rng.choice((os.mkfifo, Path.mkdir))(path)
            case 1:
                path.symlink_to(rng.choice(("nowhere", "/etc/passwd", path.name, "..")))
            case 2:
                path.write_bytes(mutate_bytes(tensor.SerializeToString(), rng))
            case 3:
                sequence = onnx.SequenceProto(name=name, elem_type=rng.choice((0, 1, 2, 3, 4, 5)))
                sequence.tensor_values.append(tensor)
                path.write_bytes(sequence.SerializeToString())
            case 4 | 5:
                _damage(tensor, rng)
                path.write_bytes(tensor.SerializeToString())
            case _:
                path.write_bytes(tensor.SerializeToString())
    return folder


def _damage(tensor: onnx.TensorProto, rng: Random) -> None:
    """Change the type, the dims, the place or the name of a tensor."""
    match rng.randrange(4):
        case 0:
            tensor.data_type = rng.choice((*range(-1, 30), 99))
        case 1:
            del tensor.dims[:]
            tensor.dims.extend(rng.choice(INTEGERS) for _ in range(rng.choice((0, 1, 2, 4, 70))))
        case 2:
            tensor.data_location = onnx.TensorProto.EXTERNAL
            tensor.external_data.add(key="location", value=rng.choice((*TEXTS, "../m.onnx", "/etc/passwd")))
        case _:
            tensor.name = rng.choice(TEXTS)
