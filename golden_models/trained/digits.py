"""Two classifiers of scikit-learn's handwritten digits, trained here."""

from io import BytesIO

import numpy as np
import onnx
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

from .labelled_model import LabelledModel, TrainedModel

TRAINING, CALIBRATION = 1200, 200  # of 1797 samples; the rest is labelled


class Block(nn.Module):
    """A residual connection round two Conv with BN."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels)
        self.second, self.second_norm = nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        inner = functional.relu(self.first_norm(self.first(x)))
        return functional.relu(x + self.second_norm(self.second(inner)))


def cnn() -> nn.Module:
    """Conv with BN and Relu, a residual block, MaxPool, Conv with SiLU, a depthwise Conv with Clip, GAP and Gemm."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), Block(16), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.SiLU(),
        nn.Conv2d(32, 32, 3, 1, 1, groups=32, bias=False), nn.BatchNorm2d(32), nn.ReLU6(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, 10))


def train(model: nn.Module, images: Tensor, labels: Tensor, epochs: int, *, moved: bool) -> None:
    """Adam with a cosine schedule, on one thread: the weights are reproducible. `moved`: by up to a pixel."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(50):
            dy, dx = torch.randint(-1, 2, (2,)).tolist() if moved else (0, 0)
            seen = torch.roll(images[rows], (dy, dx), (2, 3))
            loss = functional.cross_entropy(model(seen), labels[rows], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    model.eval()


def make(model: nn.Module, epochs: int, opset: int, *, is_flat: bool) -> LabelledModel:
    """Train, and export with one of the two exporters of torch; the MLP takes rows of 64 numbers."""
    found = load_digits()
    order = np.random.default_rng(0).permutation(len(found.target))  # its samples are in the order of the writers
    images, labels = (found.images[order, None] / 16).astype(np.float32), found.target[order]
    trained = nn.Sequential(nn.Flatten(), model) if is_flat else model
    train(trained, torch.from_numpy(images[:TRAINING]), torch.from_numpy(labels[:TRAINING]), epochs, moved=not is_flat)
    rows = images.reshape(len(images), 64) if is_flat else images
    args, names = (torch.from_numpy(rows[:2]),), {"input_names": ["image"], "output_names": ["scores"]}
    if is_flat:
        shapes = {"dynamic_shapes": ({0: torch.export.Dim("batch")},), "verbose": False}
        proto = torch.onnx.export(model, args, dynamo=True, opset_version=opset, **shapes, **names).model_proto
    else:
        buffer, axes = BytesIO(), {"image": {0: "batch"}, "scores": {0: "batch"}}
        torch.onnx.export(model, args, buffer, dynamo=False, opset_version=opset, dynamic_axes=axes, **names)
        proto = onnx.load_from_string(buffer.getvalue())
    return LabelledModel(
        proto,
        {"image": rows[:CALIBRATION]},
        {"image": rows[TRAINING:], "labels": labels[TRAINING:]},
        f"trained on the digits of scikit-learn, torch {torch.__version__.partition('+')[0]}, dynamo={is_flat}",
    )


def make_cnn() -> LabelledModel:
    torch.manual_seed(0)
    return make(cnn(), 60, 17, is_flat=False)


def make_mlp() -> LabelledModel:
    torch.manual_seed(0)
    return make(mlp(), 60, 18, is_flat=True)


MODELS = (
    TrainedModel("digits_cnn", "CNN on digits of 8 by 8 pixels", make_cnn, "", 0.97),
    TrainedModel("digits_mlp", "MLP on digits of 8 by 8 pixels", make_mlp, "", 0.97),
)
