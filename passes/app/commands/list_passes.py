"""`passes list`: what there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from .. import options
from ..failing import one_line, one_line_errors

if TYPE_CHECKING:
    from ....core.errors import PluginError


def list_passes(
    plugin: options.Plugins = None,
) -> None:
    """Show all passes and their rules, each with its equation and contract."""
    with one_line_errors():
        from ...pipelines import PIPELINES  # noqa: PLC0415 - imports onnx and numpy
        from ..catalogue import catalogue  # noqa: PLC0415 - imports onnx and numpy
        from ..screens.catalogue import show_catalogue  # noqa: PLC0415 - imports rich
        from ..screens.terminal import Screen  # noqa: PLC0415 - imports rich

        broken: dict[str, PluginError] = {}
        show_catalogue(Screen(), catalogue(plugin or (), broken), PIPELINES)
        for error in broken.values():
            typer.echo(f"warning: {one_line(error)}", err=True)
