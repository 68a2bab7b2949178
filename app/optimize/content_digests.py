"""Digests of data, files and models."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any

from ...core.support.printable_text import json_text
from ...core.support.regular_files import open_descriptor

DIGEST_BYTES = 16


def content_digest(data: Any) -> str:
    """A digest of JSON data; other objects are converted to strings."""
    return blake2b(json_text(data, indent=None, default=str).encode(), digest_size=DIGEST_BYTES).hexdigest()


def regular_file_digest(path: Path) -> str:
    """A digest of a file's content; "" if it does not exist or is not a regular file."""
    with suppress(OSError), os.fdopen(open_descriptor(path), "rb") as file:
        return file_digest(file, lambda: blake2b(digest_size=DIGEST_BYTES)).hexdigest()
    return ""


def file_content_digest(path: Path) -> str:
    """A digest of a file's content, or of the names and contents of the files in a folder; "" if it does not exist."""
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.is_file())
        return content_digest([(p.relative_to(path).as_posix(), regular_file_digest(p)) for p in files])
    return regular_file_digest(path)


def model_digest(path: Path) -> str:
    """A digest of the contents of a model and its external data. Raises ModelError if it cannot be loaded."""
    from ...core.io.files import ModelFile, load  # noqa: PLC0415 - imports onnx

    file = ModelFile(path)
    load(file, inline=False)
    folder = path.resolve().parent
    data = {p.relative_to(folder).as_posix(): regular_file_digest(p) for p in sorted(file.external_files)}
    return content_digest([regular_file_digest(path), data])
