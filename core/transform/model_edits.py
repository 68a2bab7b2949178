"""The edits of a model that a caller requests; the result is verified against the edited model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from ..io.model_source import ModelEdit
from .extract import drop_unused_inputs, freeze_initializers, keep_outputs
from .specialize import specialize


def requested_edits(
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    outputs: Sequence[str] = (),
    *,
    drop_inputs: bool = False,
    freeze: bool = False,
) -> list[ModelEdit]:
    """The edits of a loaded model, in order."""
    edits: list[ModelEdit] = [freeze_initializers] if freeze else []
    if shapes or dims:
        edits.append(partial(specialize, shapes=dict(shapes or {}), dims=dict(dims or {})))
    if outputs:
        edits.append(partial(keep_outputs, names=list(outputs)))
    if drop_inputs:
        edits.append(drop_unused_inputs)
    return edits
