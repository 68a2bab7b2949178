"""Efforts of verification."""

from __future__ import annotations

from typing import Literal, TypeVar, get_args

Effort = Literal["quick", "default", "thorough"]
"""How much time a verification may take: it decides how many input sets are tried."""
EFFORTS: tuple[Effort, ...] = get_args(Effort)
Choice = TypeVar("Choice", bool, Effort)


def checked_effort(choice: Choice) -> Choice:
    """An effort, or whether to verify at all. Raises ValueError for another value."""
    if not isinstance(choice, bool) and choice not in EFFORTS:
        raise ValueError(f"{choice}: choose from {', '.join(EFFORTS)}")
    return choice
