"""Completion of names by shells; shells complete files themselves."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

FILE = Path(__file__).with_name("names.json")
"""Built-in names by kind, written by `docs/catalogue/names.py`. Looking up names in plugins would run code."""


def complete_names(*kinds: str) -> Callable[[str], list[str]]:
    """Make a completer of names of these kinds."""

    def complete(incomplete: str) -> list[str]:
        names: dict[str, list[str]] = json.loads(FILE.read_text(encoding="utf-8"))
        return [name for kind in kinds for name in names[kind] if name.startswith(incomplete)]

    return complete


def complete_lists(*kinds: str) -> Callable[[str], list[str]]:
    """Make a completer of comma-separated lists of names of these kinds."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        taken = before.split(",")
        return [f"{before}{comma}{name}" for name in complete_names(*kinds)(last) if name not in taken]

    return complete
