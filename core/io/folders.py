"""Folders of models, inputs and texts."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from ..errors import format_error
from .files import publish, staged
from .model import Model


def encode_text(text: str) -> bytes:
    """Text as UTF-8, with the original bytes of paths; other lone surrogates are escaped."""
    try:
        return text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace")


def write_files(folder: Path, files: Mapping[str, Any]) -> list[str]:
    """Write `files`; returns the error for each that cannot be written."""
    lost: list[str] = []
    for name, content in files.items():
        try:
            write_file(folder / name, content)
        except Exception as e:  # noqa: BLE001 - a pass may leave anything
            (folder / name).unlink(missing_ok=True)
            lost.append(f"{name}: {format_error(e)}")
    return lost


def write_file(path: Path, content: Any) -> None:
    """Write a model, or arrays by name as an .npz if there are any."""
    if isinstance(content, onnx.ModelProto):
        path.write_bytes(content.SerializeToString())
        return
    if isinstance(content, Model):
        with staged(content, path) as stage:
            publish(stage, path)
        return
    arrays: dict[str, Any] = content
    if not arrays:
        return
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:  # np.savez takes no array called `file`
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as f:
                np.lib.format.write_array(f, _without_objects(np.asarray(array)), allow_pickle=False)


def _without_objects(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array with strings in a dtype that needs no pickle."""
    return array.astype(np.str_) if array.dtype == np.object_ else array
