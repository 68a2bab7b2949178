"""Suggestions for misspelled names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MAX_SUGGESTIONS = 3
MAX_NAME = 100  # characters; comparing longer names takes long


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question with the most similar names, such as `; did you mean a or b?`; empty if no name is similar."""
    if len(name) > MAX_NAME:
        return ""
    folded = {k.casefold(): k for k in known if k and len(k) <= MAX_NAME}
    near = get_close_matches(name.casefold(), folded, MAX_SUGGESTIONS)
    return f"; did you mean {' or '.join(folded[n] for n in near)}?" if near else ""
