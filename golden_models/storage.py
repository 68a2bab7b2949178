"""Half precision, double precision and weights outside the model file."""

from pathlib import Path

import torch
from torch import Tensor, nn

from .recipe import Recipe
from .torch_export import UNFOLDED, TrainingMode, export_dynamo, export_script, randomize_norms


class Mixer(nn.Module):
    """MLP-Mixer block: one MLP over tokens, one over channels."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.mix = nn.Sequential(nn.Linear(tokens, 2 * tokens), nn.GELU(), nn.Linear(2 * tokens, tokens))
        self.body = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mix(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.body(self.norms[1](x))


class MixerNet(nn.Module):
    """Patches by a strided Conv, two mixer blocks, mean, classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Conv2d(3, 24, 8, 8)
        self.blocks = nn.Sequential(Mixer(16, 24), Mixer(16, 24))
        self.head = nn.Linear(24, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.blocks(self.patch(x).flatten(2).transpose(1, 2))
        return self.head(x.mean(1))


def _half_cnn() -> nn.Module:
    """Conv, BN and a classifier, all in half precision."""
    return randomize_norms(nn.Sequential(
        nn.Conv2d(3, 12, 3, 2, 1, bias=False), nn.BatchNorm2d(12), nn.ReLU(),
        nn.Conv2d(12, 12, 3, 1, 1, groups=4), nn.BatchNorm2d(12), nn.ReLU6(),
        nn.ConvTranspose2d(12, 8, 2, 2), nn.BatchNorm2d(8), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5),
    )).eval().half()  # fmt: skip


def build_half(path: Path) -> str:
    image = torch.randn(2, 3, 32, 32).half()
    return export_script(_half_cnn(), (image,), path, 14, **UNFOLDED) + ", float16"


def build_half_dynamo(path: Path) -> str:
    image = torch.randn(2, 3, 32, 32).half()
    model = randomize_norms(MixerNet()).eval().half()
    return export_dynamo(model, (image,), path, 18, shapes=({0: "batch"},), optimize=False) + ", float16"


def build_double(path: Path) -> str:
    model = randomize_norms(nn.Sequential(
        nn.Linear(7, 12), nn.BatchNorm1d(12), nn.Tanh(), nn.Linear(12, 8, bias=False), nn.Sigmoid(), nn.Linear(8, 2),
    )).eval().double()  # fmt: skip
    rows = torch.randn(2, 7).double()
    return export_script(model, (rows,), path, 13, training=TrainingMode.PRESERVE) + ", float64"


def build_external(path: Path) -> str:
    image = torch.randn(2, 3, 32, 32)
    return export_dynamo(
        randomize_norms(MixerNet()).eval(), (image,), path, 20, shapes=({0: "batch"},), external_data=True
    )


RECIPES = (
    Recipe("cnn_half", "CNN in float16 with its BN kept", build_half),
    Recipe("mixer_half_dynamo", "MLP-Mixer in float16 as torch.export leaves it", build_half_dynamo),
    Recipe("mlp_double", "MLP with BN in float64", build_double),
    Recipe("mixer_external", "MLP-Mixer with its weights in NAME.onnx.data", build_external),
)
