"""Models to export, with example inputs, dynamic dims and workloads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn

from .torch_export import export_dynamo, export_script, randomize_norms

Axes = Mapping[int, str]
Sizes = Mapping[str, int]
Call = Callable[..., Tensor | tuple[Tensor, ...]]


@dataclass(frozen=True)
class Dimensions:
    """The dimensions that transformers have in common. `positions`: how long a text can be."""

    width: int
    layers: int
    heads: int
    inner: int
    vocabulary: int
    positions: int

    @property
    def head_width(self) -> int:
        return self.width // self.heads


class Traced(nn.Module):
    """A model called with named tensors in a fixed order."""

    def __init__(self, model: nn.Module, names: tuple[str, ...], call: Call) -> None:
        super().__init__()
        self.model, self.names, self.call = model, names, call

    def forward(self, *args: Tensor) -> Tensor | tuple[Tensor, ...]:
        return self.call(self.model, **dict(zip(self.names, args, strict=True)))


@dataclass(frozen=True)
class Subject:
    """A model, and `call`, which takes it and tensors named as the `inputs` and returns the `outputs`.

    `dims` names the dynamic dims of inputs and outputs; `below` bounds integers that are not 0 or 1;
    `workloads` are sizes of dynamic dims to run it at, without the batch.
    """

    model: nn.Module
    call: Call
    inputs: Mapping[str, Tensor]
    outputs: tuple[str, ...]
    dims: Mapping[str, Axes]
    workloads: Mapping[str, Sizes]
    below: Mapping[str, int] = field(default_factory=dict)


def export(subject: Subject, path: Path, opset: int, *, dynamo: bool, static: bool = False, half: bool = False) -> str:
    """Write the model in evaluation mode, its norms as if trained; return the exporter with its options."""
    model = randomize_norms(subject.model).eval()
    args = tuple(subject.inputs.values())
    if half:
        model, args = model.half(), tuple(a.half() if a.is_floating_point() else a for a in args)
    names = tuple(subject.inputs)
    traced = Traced(model, names, subject.call)
    if dynamo:
        shapes = None if static else (tuple(dict(subject.dims.get(name, {})) for name in names),)
        return export_dynamo(traced, args, path, opset, names, subject.outputs, shapes)
    axes = {name: {} if static else dict(subject.dims.get(name, {})) for name in (*names, *subject.outputs)}
    with torch.no_grad():
        return export_script(traced, args, path, opset, names, subject.outputs, axes)
