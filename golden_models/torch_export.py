"""The two torch exporters, and weights that look trained."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor, nn
from torch.onnx import TrainingMode

Shapes = Mapping[str, Mapping[int, str]]

# Without these the TorchScript exporter folds BatchNormalization, Identity and constant nodes by itself.
UNFOLDED = MappingProxyType({"training": TrainingMode.PRESERVE, "do_constant_folding": False})


def randomize_norms(model: nn.Module) -> nn.Module:
    """Give every normalisation layer the statistics and scales of a trained one: fresh ones hide folding mistakes."""
    for module in model.modules():
        if getattr(module, "running_mean", None) is not None:
            nn.init.normal_(module.running_mean, 0.0, 0.3)
            nn.init.uniform_(module.running_var, 0.5, 2.0)
        if "Norm" in type(module).__name__ and getattr(module, "weight", None) is not None:
            nn.init.uniform_(module.weight, 0.5, 1.5)
            if getattr(module, "bias", None) is not None:
                nn.init.normal_(module.bias, 0.0, 0.2)
    return model


def export_script(
    model: nn.Module,
    args: tuple[object, ...],
    path: Path,
    opset: int,
    inputs: Sequence[str] = ("x",),
    outputs: Sequence[str] = ("y",),
    axes: Shapes | None = None,
    **options: object,
) -> str:
    """Export with the TorchScript exporter (dynamo=False); `axes` names the dynamic dims, by default each first one."""
    names = {"input_names": list(inputs), "output_names": list(outputs)}
    axes = axes or {name: {0: "batch"} for name in (*inputs, *outputs)}
    torch.onnx.export(model, args, str(path), dynamo=False, opset_version=opset, dynamic_axes=axes, **names, **options)
    return _exporter_description(False, options)


def export_dynamo(
    model: nn.Module,
    args: tuple[Tensor, ...],
    path: Path,
    opset: int,
    inputs: Sequence[str] = ("x",),
    outputs: Sequence[str] = ("y",),
    shapes: object = None,
    *,
    external_data: bool = False,
    optimize: bool = True,
) -> str:
    """Export through torch.export (dynamo=True); `shapes` are its dynamic_shapes."""
    options = {"external_data": external_data, "optimize": optimize}
    names = {"input_names": list(inputs), "output_names": list(outputs), "dynamic_shapes": shapes}
    torch.onnx.export(model, args, str(path), dynamo=True, opset_version=opset, verbose=False, **names, **options)
    return _exporter_description(True, options)


def _exporter_description(dynamo: bool, options: Mapping[str, object]) -> str:
    version = torch.__version__.partition("+")[0]
    return ", ".join(
        [f"torch {version}", f"dynamo={dynamo}", *(f"{key}={_option_text(options[key])}" for key in options)]
    )


def _option_text(value: object) -> str:
    """An option as one writes it: an enum by its name, a set of classes by theirs."""
    if isinstance(value, TrainingMode):
        return value.name
    return "{" + ", ".join(sorted(item.__name__ for item in value)) + "}" if isinstance(value, set) else str(value)
