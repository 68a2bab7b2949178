"""Names that a shell completes; files are left to the shell."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

FILE = Path(__file__).with_name("names.json")
"""The built-in names by kind, as `docs/catalogue/names.py` writes them; collecting names of plugins would run code."""


def complete_names(*kinds: str) -> Callable[[str], list[str]]:
    """The names of these kinds that begin as the word to complete."""

    def complete(incomplete: str) -> list[str]:
        names: dict[str, list[str]] = json.loads(FILE.read_text(encoding="utf-8"))
        return [name for kind in kinds for name in names[kind] if name.startswith(incomplete)]

    return complete


def complete_lists(*kinds: str) -> Callable[[str], list[str]]:
    """The names of these kinds that begin as the last one of a comma-separated list, each behind the others."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        taken = before.split(",")
        return [f"{before}{comma}{name}" for name in complete_names(*kinds)(last) if name not in taken]

    return complete
