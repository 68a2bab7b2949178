"""Options of `show`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..options import option, output_option

DEFAULT_RADIUS = 2


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """The parameters of `show` except the model and the output file, as documented there."""

    region: str = option("", "Show only the ops around this value or node.", "VALUE")
    radius: int = option(DEFAULT_RADIUS, "Show ops at most N steps away from it, in either direction.", "N", least=0)
    types: bool = option(False, "Show all known types of values.")
    max_elements: int | None = option(
        None, "Omit the elements of tensors that have more than N; print a reference instead.", "N", kind=int, least=0
    )
    output: Path | None = output_option(
        None, "Write the text to this file, such as m.onnxtxt, which onnx.load reads.", "FILE", kind=Path,
        flags=("-o", "--output"),
    )  # fmt: skip
