"""Data inside a page: compressed, so that a page of thousands of things stays light."""

from __future__ import annotations

import gzip
import json
from base64 import b64decode, b64encode
from typing import Any


def compress_json(data: Any) -> str:
    """Data that JSON can hold, as letters that mean nothing in HTML, whatever it is; the same for the same data."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def decompress_json(letters: str) -> Any:
    """What was packed."""
    return json.loads(gzip.decompress(b64decode(letters)))
