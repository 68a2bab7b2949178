"""Models to export, with example inputs, dynamic dims and workloads."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn

from .check import BadModelError
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
    """Write the model in evaluation mode, its norms as if trained; return the exporter with its options.

    Raises BadModelError if the file computes other values than torch at sizes other than those of the export.
    """
    model = randomize_norms(subject.model).eval()
    args = tuple(subject.inputs.values())
    if half:
        model, args = model.half(), tuple(a.half() if a.is_floating_point() else a for a in args)
    names = tuple(subject.inputs)
    traced = Traced(model, names, subject.call).eval()  # the exporters restore its mode
    axes = {name: {} if static else dict(subject.dims.get(name, {})) for name in (*names, *subject.outputs)}
    with torch.no_grad():
        if dynamo:
            shapes = None if static else (tuple(axes[name] for name in names),)
            exporter = export_dynamo(traced, args, path, opset, names, subject.outputs, shapes)
        else:
            exporter = export_script(traced, args, path, opset, names, subject.outputs, axes)
        for sizes in subject.workloads.values():
            given = zip(names, args, strict=True)
            inputs = [_example(a, axes[name], {**sizes, "batch": 3}, subject.below.get(name)) for name, a in given]
            _compare(traced, inputs, path)
    return exporter


def _example(like: Tensor, axes: Axes, sizes: Sizes, below: int | None) -> Tensor:
    """Random numbers or ids of given sizes; masks that keep everything."""
    shape = [sizes[axes[i]] if i in axes else length for i, length in enumerate(like.shape)]
    if like.is_floating_point():
        return torch.randn(shape, dtype=like.dtype)
    return torch.ones(shape, dtype=like.dtype) if below is None else torch.randint(below, shape)


def _compare(traced: Traced, inputs: list[Tensor], path: Path) -> None:
    """Raise BadModelError if onnxruntime, without optimizations, disagrees with torch."""
    expected = traced(*inputs)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    found = session.run(None, {name: x.numpy() for name, x in zip(traced.names, inputs, strict=True)})
    outputs = expected if isinstance(expected, tuple) else (expected,)
    for value, a, b in zip(session.get_outputs(), outputs, found, strict=True):
        tolerance = 2e-2 if b.dtype == np.float16 else 1e-4
        if not np.allclose(a.numpy(), b, rtol=tolerance, atol=tolerance * float(a.abs().max())):
            raise BadModelError(f"{value.name} differs from torch by {np.abs(a.numpy() - b).max():.2g}")
