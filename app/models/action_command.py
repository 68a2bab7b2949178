"""Commands that a batch does, imported once each."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..cli.entry import COMMANDS, load_command


@cache
def action_command(name: str) -> Any:
    """The command of that name."""
    return load_command(name, COMMANDS[name])
