"""Image classifiers."""

from pathlib import Path

import torch
from torch import Tensor, nn

from .recipe import Recipe
from .torch_export import UNFOLDED, export_dynamo, export_script, randomize_norms


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions around a shortcut."""

    def __init__(self, inner: int, width: int, outer: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inner, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, outer, 1, bias=False), nn.BatchNorm2d(outer),
        )  # fmt: skip
        self.shortcut = nn.Identity()
        if stride != 1 or inner != outer:
            self.shortcut = nn.Sequential(nn.Conv2d(inner, outer, 1, stride, bias=False), nn.BatchNorm2d(outer))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet() -> nn.Module:
    """Stem, three stages of two bottlenecks, global pool, classifier."""
    blocks = [Bottleneck(16, 8, 32, 1), Bottleneck(32, 8, 32, 1), Bottleneck(32, 16, 64, 2), Bottleneck(64, 16, 64, 1),
              Bottleneck(64, 24, 96, 2), Bottleneck(96, 24, 96, 1)]  # fmt: skip
    stem = [nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    return randomize_norms(nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, 10)))


class SqueezeExcite(nn.Module):
    """Channel weights from a global pool."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, width // 4, 1), nn.ReLU(),
            nn.Conv2d(width // 4, width, 1), nn.Hardsigmoid(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


class InvertedResidual(nn.Module):
    """Expand, depthwise, squeeze-excite, project."""

    def __init__(self, inner: int, expanded: int, outer: int, kernel: int, stride: int, act: type[nn.Module]) -> None:
        super().__init__()
        self.residual = stride == 1 and inner == outer
        self.body = nn.Sequential(
            nn.Conv2d(inner, expanded, 1, bias=False), nn.BatchNorm2d(expanded), act(),
            nn.Conv2d(expanded, expanded, kernel, stride, kernel // 2, groups=expanded, bias=False),
            nn.BatchNorm2d(expanded), act(), SqueezeExcite(expanded),
            nn.Conv2d(expanded, outer, 1, bias=False), nn.BatchNorm2d(outer),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.residual else self.body(x)


def mobilenet() -> nn.Module:
    """MobileNetV3: inverted residuals with ReLU, then with Hardswish; a classifier with Dropout."""
    return randomize_norms(nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.Hardswish(),
        InvertedResidual(8, 16, 8, 3, 1, nn.ReLU), InvertedResidual(8, 32, 16, 3, 2, nn.ReLU),
        InvertedResidual(16, 48, 16, 5, 1, nn.Hardswish), InvertedResidual(16, 64, 24, 5, 2, nn.Hardswish),
        nn.Conv2d(24, 64, 1, bias=False), nn.BatchNorm2d(64), nn.Hardswish(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(64, 96), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(96, 10),
    ))  # fmt: skip


class DenseLayer(nn.Module):
    """BN and ReLU before each convolution; the result is appended to the input."""

    def __init__(self, inner: int, growth: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.BatchNorm2d(inner), nn.ReLU(), nn.Conv2d(inner, 2 * growth, 1, bias=False),
            nn.BatchNorm2d(2 * growth), nn.ReLU(), nn.Conv2d(2 * growth, growth, 3, padding=1, bias=False),
            nn.Dropout(0.1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(x)], 1)


def densenet() -> nn.Module:
    """Two dense blocks with a transition; the first transition has BN straight before its Conv."""
    return randomize_norms(nn.Sequential(
        nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(),
        DenseLayer(16, 8), DenseLayer(24, 8), DenseLayer(32, 8),
        nn.BatchNorm2d(40), nn.Conv2d(40, 20, 1, bias=False), nn.AvgPool2d(2),
        DenseLayer(20, 8), DenseLayer(28, 8), DenseLayer(36, 8),
        nn.BatchNorm2d(44), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(44, 10),
    ))  # fmt: skip


class ShuffleUnit(nn.Module):
    """Half of the channels pass through; the halves are interleaved by reshape and transpose."""

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.body = nn.Sequential(
            nn.Conv2d(half, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU(),
            nn.Conv2d(half, half, 3, padding=1, groups=half, bias=False), nn.BatchNorm2d(half),
            nn.Conv2d(half, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        kept, changed = x.chunk(2, 1)
        x = torch.cat([kept, self.body(changed)], 1)
        batch, width, height, breadth = x.shape
        x = x.view(batch, 2, width // 2, height, breadth).transpose(1, 2).contiguous()
        return x.view(batch, width, height, breadth)


def shufflenet() -> nn.Module:
    """ShuffleNetV2: stem, four units, pool, classifier."""
    return randomize_norms(nn.Sequential(
        nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        ShuffleUnit(32), ShuffleUnit(32), ShuffleUnit(32), ShuffleUnit(32),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    ))  # fmt: skip


def build_resnet_dynamo(path: Path) -> str:
    image = torch.randn(2, 3, 64, 64)
    return export_dynamo(resnet().eval(), (image,), path, 18, shapes=({0: "batch"},))


def build_resnet_kept_bn(path: Path) -> str:
    return export_script(resnet().eval(), (torch.randn(2, 3, 64, 64),), path, 13, **UNFOLDED)


def build_mobilenet(path: Path) -> str:
    return export_script(mobilenet().eval(), (torch.randn(2, 3, 64, 64),), path, 14, **UNFOLDED)


def build_mobilenet_dynamo(path: Path) -> str:
    return export_dynamo(mobilenet().eval(), (torch.randn(1, 3, 64, 64),), path, 20, optimize=False)


def build_densenet(path: Path) -> str:
    return export_script(densenet().eval(), (torch.randn(2, 3, 32, 32),), path, 12)


def build_shufflenet(path: Path) -> str:
    return export_script(shufflenet().eval(), (torch.randn(2, 3, 64, 64),), path, 17)


RECIPES = (
    Recipe("resnet_dynamo", "ResNet of bottleneck blocks, dynamic batch", build_resnet_dynamo),
    Recipe("resnet_kept_bn", "ResNet of bottleneck blocks with every BatchNormalization kept", build_resnet_kept_bn),
    Recipe("mobilenet", "MobileNetV3: depthwise, Hardswish, squeeze-excite, BN kept", build_mobilenet),
    Recipe("mobilenet_dynamo", "MobileNetV3 as torch.export leaves it", build_mobilenet_dynamo),
    Recipe("densenet", "DenseNet: BN before Conv, growing Concat", build_densenet),
    Recipe("shufflenet", "ShuffleNetV2: channel shuffle by Reshape and Transpose", build_shufflenet),
)
