"""Efforts of verification."""

from __future__ import annotations

from typing import Literal, get_args

Effort = Literal["quick", "default", "thorough"]
"""How much time a verification may take; it determines how many input sets are tried."""
EFFORTS: tuple[Effort, ...] = get_args(Effort)
