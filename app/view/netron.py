"""Netron, an independent viewer, shown a model where it is installed."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...core.errors import ModelError
from ...core.pass_manager.pass_selection import UsageError
from ..measure.profile_recording import has_external_weights


def view(
    path: Path, port: int | None = None, *, browse: bool = True, announce: Callable[[str], None] = lambda _: None
) -> None:
    """Serve the model in `path` to a browser until Ctrl-C, at `port` or one that is free; `announce` is told where.

    Raises ModelError for what is no model or where nothing can be served, UsageError if Netron is not installed.
    """
    has_external_weights(path)
    try:
        netron: Any = importlib.import_module("netron")
    except ImportError as e:
        raise UsageError("this needs Netron: pip install netron") from e
    logging.getLogger("netron").setLevel(logging.WARNING)  # it tells what `announce` is told
    try:
        host, chosen = netron.start(str(path), port, browse=browse)
    except (OSError, ValueError) as e:
        raise ModelError(f"{path} cannot be served{f' at port {port}' if port else ''}: {e}") from e
    try:
        announce(f"{path} at http://{host}:{chosen}; Ctrl-C ends this")
        netron.wait()
    finally:
        netron.stop()
