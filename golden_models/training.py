"""Models exported in training form: Dropout and BatchNormalization as they are while training."""

from pathlib import Path

import torch
from torch import nn
from torch.onnx import TrainingMode

from .recipe import Recipe
from .torch_export import UNFOLDED, export_script, randomize_norms


def mlp(drop: float) -> nn.Module:
    """Linear, BN, ReLU and Dropout, three times; then a chain of Identity."""
    return randomize_norms(nn.Sequential(
        nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(drop),
        nn.Linear(32, 32, bias=False), nn.BatchNorm1d(32), nn.ELU(), nn.Dropout(drop),
        nn.Linear(32, 16), nn.Dropout(drop), nn.Identity(), nn.PReLU(), nn.Linear(16, 4),
    ))  # fmt: skip


def _dropout_only(model: nn.Module) -> nn.Module:
    """Training mode for all but the norms, which keep their statistics."""
    model.train()
    for module in model.modules():
        if "Norm" in type(module).__name__:
            module.eval()
    return model


def cnn() -> nn.Module:
    """Conv, BN, ReLU twice over, a classifier with BN."""
    return randomize_norms(nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 12, 3, 2, 1), nn.BatchNorm2d(12, momentum=0.3), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 4),
    ))  # fmt: skip


def build_mlp_dropout(path: Path) -> str:
    # Before opset 12 Dropout has no training_mode: the nodes stay and do nothing.
    return export_script(_dropout_only(mlp(0.3)), (torch.randn(4, 10),), path, 11, **UNFOLDED)


def build_mlp_dropout_zero(path: Path) -> str:
    return export_script(_dropout_only(mlp(0.0)), (torch.randn(4, 10),), path, 15, **UNFOLDED)


def build_cnn_training(path: Path, opset: int) -> str:
    """Every BN normalises by the statistics of its batch."""
    return export_script(cnn().train(), (torch.randn(4, 3, 16, 16),), path, opset, training=TrainingMode.TRAINING)


RECIPES = (
    Recipe("mlp_dropout", "MLP with every Dropout kept (opset 11: no training_mode)", build_mlp_dropout),
    Recipe("mlp_dropout_zero", "MLP with every Dropout kept in training mode, all of ratio 0", build_mlp_dropout_zero),
    Recipe("cnn_training", "CNN whose BN have training_mode=1", lambda path: build_cnn_training(path, 15)),
    Recipe("cnn_training_opset11", "CNN whose BN have five outputs, which is training before opset 14",
           lambda path: build_cnn_training(path, 11)),
)  # fmt: skip
