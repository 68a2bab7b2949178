"""Netron, an independent viewer, shown a model where it is installed."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...core.errors import ModelError
from ...core.pass_manager.pass_selection import BadUsage
from ..measure.profile_recording import require_model


def view(
    path: Path, port: int | None = None, *, browse: bool = True, tell: Callable[[str], None] = lambda _: None
) -> None:
    """Serve the model in `path` to a browser until Ctrl-C, at `port` or one that is free; `tell` is told where.

    Raises ModelError for what is no model or where nothing can be served, BadUsage if Netron is not installed.
    """
    require_model(path)
    try:
        netron: Any = importlib.import_module("netron")
    except ImportError as e:
        raise BadUsage("this needs Netron: pip install netron") from e
    logging.getLogger("netron").setLevel(logging.WARNING)  # it tells what `tell` is told
    try:
        host, chosen = netron.start(str(path), port, browse=browse)
    except (OSError, ValueError) as e:
        raise ModelError(f"{path} cannot be served{f' at port {port}' if port else ''}: {e}") from e
    try:
        tell(f"{path} at http://{host}:{chosen}; Ctrl-C ends this")
        netron.wait()
    finally:
        netron.stop()
