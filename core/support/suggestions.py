"""What somebody may have meant by a name that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MAX_SUGGESTIONS = 3


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question after the names most like it, such as `; did you mean a or b?`; nothing if none is."""
    folded = {k.casefold(): k for k in known if k}
    near = get_close_matches(name.casefold(), folded, MAX_SUGGESTIONS)
    return f"; did you mean {' or '.join(folded[n] for n in near)}?" if near else ""
