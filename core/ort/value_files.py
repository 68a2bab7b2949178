"""Files for exchanging inputs and outputs with another process: tensors as TensorProto, containers as JSON."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from onnx import numpy_helper

from ..errors import UnverifiableError

VALUE_INDEX = "value.json"


def write_value(value: Any, folder: Path) -> None:
    """Write tensors, and lists, maps and optionals of them, to a new `folder`. Raises UnverifiableError for others."""
    folder.mkdir()
    numbers = count()

    def stored(part: Any) -> Any:
        if part is None or isinstance(part, str | bool | int | float):
            return part
        if isinstance(part, list | tuple):
            return [stored(p) for p in cast("list[Any]", part)]
        if isinstance(part, dict):
            entries = cast("dict[Any, Any]", part)
            return {"keys": [stored(k) for k in entries], "values": [stored(v) for v in entries.values()]}
        if not isinstance(part, np.ndarray | np.generic):
            raise UnverifiableError(f"a {type(part).__name__} cannot be given to a process of its own")
        name = f"{next(numbers)}.pb"
        proto = numpy_helper.from_array(np.asarray(cast("Any", part), order="C"))
        (folder / name).write_bytes(proto.SerializeToString())
        return {"tensor": name}

    (folder / VALUE_INDEX).write_text(json.dumps(stored(value)), encoding="utf-8")


def read_value(folder: Path) -> Any:
    """Read the value in a folder."""

    def restored(part: Any) -> Any:
        if isinstance(part, list):
            return [restored(p) for p in cast("list[Any]", part)]
        if not isinstance(part, dict):
            return part
        entries = cast("dict[str, Any]", part)
        if "tensor" in entries:
            return numpy_helper.to_array(onnx.TensorProto.FromString((folder / entries["tensor"]).read_bytes()))
        return dict(zip(map(restored, entries["keys"]), map(restored, entries["values"]), strict=True))

    return restored(json.loads((folder / VALUE_INDEX).read_text(encoding="utf-8")))
