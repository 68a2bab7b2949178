"""Models quantized by onnxruntime."""

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnxruntime
import torch
from onnxruntime import quantization
from onnxruntime.quantization.shape_inference import quant_pre_process
from torch import Tensor, nn

from .recipe import Recipe
from .torch_export import UNFOLDED, export_script, randomize_norms


class RandomCalibrationData(quantization.CalibrationDataReader):
    """A few normal batches for the input `x`."""

    def __init__(self, *shape: int) -> None:
        draw = np.random.default_rng(0)
        self.batches: Iterator[np.ndarray] = iter([draw.normal(size=shape).astype(np.float32) for _ in range(4)])

    def get_next(self) -> dict[str, np.ndarray] | None:
        batch = next(self.batches, None)
        return None if batch is None else {"x": batch}


class Attention(nn.Module):
    """Pre-norm self attention with a feed-forward block behind it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.body = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        weights = torch.softmax(query @ key.transpose(2, 3) / (width // self.heads) ** 0.5, 3)
        x = x + self.out((weights @ value).transpose(1, 2).reshape(batch, length, width))
        return x + self.body(self.norms[1](x))


def small_cnn() -> nn.Module:
    """Two convolutions with BN, a residual, pooling, a classifier."""
    return randomize_norms(nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 8, 3, 1, 1, groups=8), nn.BatchNorm2d(8), nn.Hardswish(),
        nn.Conv2d(8, 16, 1), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5),
    )).eval()  # fmt: skip


def _export_and_quantize(path: Path, export: Callable[[Path], str], quantize: Callable[[Path, Path], str]) -> str:
    """Export to a temporary file, quantize from there to `path`."""
    with TemporaryDirectory() as folder:
        plain = Path(folder) / "plain.onnx"
        exported = export(plain)
        return f"{exported}; onnxruntime {onnxruntime.__version__}: {quantize(plain, path)}"


def build_static(path: Path) -> str:
    def export(plain: Path) -> str:
        return export_script(small_cnn(), (torch.randn(2, 3, 32, 32),), plain, 13)

    def quantize(plain: Path, path: Path) -> str:
        prepared = plain.with_name("prepared.onnx")
        quant_pre_process(plain, prepared)
        quantization.quantize_static(prepared, path, RandomCalibrationData(2, 3, 32, 32), per_channel=True)
        return "quant_pre_process, quantize_static, QDQ, QInt8, per_channel=True"

    return _export_and_quantize(path, export, quantize)


def build_static_unsigned(path: Path) -> str:
    def export(plain: Path) -> str:
        return export_script(small_cnn(), (torch.randn(2, 3, 32, 32),), plain, 13, **UNFOLDED)

    def quantize(plain: Path, path: Path) -> str:
        kind = quantization.QuantType.QUInt8
        quantization.quantize_static(
            plain, path, RandomCalibrationData(2, 3, 32, 32), activation_type=kind, weight_type=kind
        )
        return "quantize_static, QDQ, QUInt8"

    return _export_and_quantize(path, export, quantize)


def build_dynamic(path: Path) -> str:
    def export(plain: Path) -> str:
        model = randomize_norms(nn.Sequential(Attention(16, 4), Attention(16, 4), nn.Linear(16, 6))).eval()
        axes = {"x": {0: "batch", 1: "sequence"}, "y": {0: "batch", 1: "sequence"}}
        return export_script(model, (torch.randn(2, 5, 16),), plain, 17, axes=axes)

    def quantize(plain: Path, path: Path) -> str:
        quantization.quantize_dynamic(plain, path)
        return "quantize_dynamic, QInt8"

    return _export_and_quantize(path, export, quantize)


RECIPES = (
    Recipe("cnn_qdq", "CNN quantized statically, QDQ with int8 channels", build_static),
    Recipe("cnn_qdq_unsigned", "CNN quantized statically with its BN kept, QDQ in uint8", build_static_unsigned),
    Recipe("attention_int8", "Transformer quantized dynamically to int8", build_dynamic),
)
