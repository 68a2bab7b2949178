"""Tables of TOML in untrusted texts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..errors import format_error

MAX_KEY_DEPTH = 1000  # the parser takes time quadratic in it


def read_tables(path: Path, text: str) -> dict[str, Any]:
    """The tables in the text of a file. Raises ValueError with a single line that names the file and the line."""
    import tomllib  # noqa: PLC0415 - most commands read no TOML

    if any(line.count(".") > MAX_KEY_DEPTH for line in text.splitlines()):
        raise ValueError(f"{path}: a line has more than {MAX_KEY_DEPTH} dots")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        message, _, place = str(e).partition(" (at ")
        line = re.match(r"line (\d+)", place)
        number = line[1] if line is not None else text.count(chr(10)) + 1
        raise ValueError(f"{path}:{number}: {message}") from e
    except (ValueError, RecursionError) as e:  # numbers that are too long, or lists that are too deep
        raise ValueError(f"{path}: cannot be read: {format_error(e)}") from e
