"""Limits of worker processes: memory, core files, and the choice of Linux when memory runs out."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path


def limit_memory(size: int | None) -> None:
    """Limit the memory that this process may allocate, without that of mapped files; None removes the limit.

    Only Linux applies such limits.
    """
    if sys.platform != "linux":
        return
    import resource  # noqa: PLC0415 - not everywhere

    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    limit = resource.RLIM_INFINITY if size is None else size
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def prepare_to_crash() -> None:
    """Write no core file, and let Linux end this process rather than another one when memory runs out."""
    with suppress(ImportError, OSError):
        import resource  # noqa: PLC0415 - not everywhere

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
