"""Places of models and results: paths, and URLs that fsspec knows."""

from __future__ import annotations

import re
from pathlib import Path

URL = re.compile(r"([a-z][a-z0-9+.-]+):/+(.+)", re.DOTALL)
FILE = "file"
LOCAL = frozenset({FILE, "local"})
"""Schemes without a host."""


def place_of(place: str | Path) -> str:
    """The URL that an argument is, also if a Path has taken a slash from it; the path of another, or of a `file` URL.

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
    """Whether a place is a URL, and not that of a local file."""
    return scheme_of(place) not in {"", FILE}
