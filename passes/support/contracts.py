"""Contracts that rules of several families share."""

from __future__ import annotations

from ...core import conditional

NO_NEGATIVE_ZERO = conditional("no zero is negative")
