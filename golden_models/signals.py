"""Audio, text lines and volumes: 1-D and 3-D convolutions, recurrent layers."""

from pathlib import Path

import torch
from torch import Tensor, nn

from .recipe import Recipe
from .torch_export import UNFOLDED, TrainingMode, export_dynamo, export_script, randomize_norms


class CRNN(nn.Module):
    """Convolutions over a text line, two bidirectional LSTMs over its columns, log-probabilities for CTC."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d((2, 1)),
            nn.Conv2d(16, 16, (8, 1)), nn.BatchNorm2d(16), nn.ReLU(),
        )  # fmt: skip
        self.rnn = nn.LSTM(16, 12, 2, bidirectional=True, dropout=0.1)
        self.head = nn.Linear(24, 20)

    def forward(self, x: Tensor) -> Tensor:
        columns = self.conv(x).squeeze(2).permute(2, 0, 1)
        return torch.log_softmax(self.head(self.rnn(columns)[0]), 2)


class GRUTagger(nn.Module):
    """Embedding, GRU read in batch-first order, a tag for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.rnn = nn.GRU(16, 12, batch_first=True, bidirectional=True)
        self.head = nn.Linear(24, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.rnn(self.embed(tokens))[0])


class Residual1d(nn.Module):
    """Dilated convolutions around a shortcut, channels last for the LayerNorm."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation)
        self.bn = nn.BatchNorm1d(width)
        self.norm = nn.LayerNorm(width)
        self.point = nn.Conv1d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = torch.nn.functional.gelu(self.bn(self.conv(x)))
        y = self.norm(y.transpose(1, 2)).transpose(1, 2)
        return x + self.point(y)


def audio_net() -> nn.Module:
    """Strided 1-D stem over the waveform, three dilated residual blocks, pool, classifier."""
    return randomize_norms(nn.Sequential(
        nn.Conv1d(1, 16, 16, 4, 6, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.MaxPool1d(2),
        Residual1d(16, 1), Residual1d(16, 2), Residual1d(16, 4),
        nn.ConvTranspose1d(16, 8, 4, 2, 1), nn.BatchNorm1d(8), nn.LeakyReLU(0.1),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 6),
    ))  # fmt: skip


def video_net() -> nn.Module:
    """3-D convolutions, one split into space and time, one depthwise."""
    return randomize_norms(nn.Sequential(
        nn.Conv3d(1, 8, 3, padding=1, bias=False), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d((1, 2, 2)),
        nn.Conv3d(8, 12, (1, 3, 3), padding=(0, 1, 1)), nn.BatchNorm3d(12), nn.ReLU(),
        nn.Conv3d(12, 12, (3, 1, 1), padding=(1, 0, 0)), nn.BatchNorm3d(12), nn.ReLU(),
        nn.Conv3d(12, 12, 3, padding=1, groups=12, bias=False), nn.BatchNorm3d(12), nn.ReLU(),
        nn.ConvTranspose3d(12, 8, 2, 2), nn.BatchNorm3d(8), nn.ReLU(),
        nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(8, 4),
    ))  # fmt: skip


def build_crnn(path: Path) -> str:
    axes = {"line": {0: "batch", 3: "width"}, "scores": {0: "steps", 1: "batch"}}
    line = torch.randn(2, 1, 32, 40)
    return export_script(randomize_norms(CRNN()).eval(), (line,), path, 14, ["line"], ["scores"], axes, **UNFOLDED)


def build_gru(path: Path) -> str:
    axes = {name: {0: "batch", 1: "sequence"} for name in ("tokens", "tags")}
    tokens = torch.ones(2, 7, dtype=torch.long)
    return export_script(GRUTagger().eval(), (tokens,), path, 15, ["tokens"], ["tags"], axes)


def build_audio(path: Path) -> str:
    axes = {"wave": {0: "batch", 2: "samples"}, "y": {0: "batch"}}
    return export_script(audio_net().eval(), (torch.randn(2, 1, 256),), path, 17, ["wave"], axes=axes, **UNFOLDED)


def build_audio_dynamo(path: Path) -> str:
    return export_dynamo(audio_net().eval(), (torch.randn(2, 1, 256),), path, 20, ["wave"], optimize=False)


def build_video(path: Path) -> str:
    clip = torch.randn(1, 1, 4, 16, 16)
    return export_script(video_net().eval(), (clip,), path, 16, ["clip"], training=TrainingMode.PRESERVE)


RECIPES = (
    Recipe("crnn", "CRNN text recogniser: Conv + BN, two bidirectional LSTMs, dynamic width", build_crnn,
           sizes={"width": 36}),
    Recipe("gru_tagger", "Embedding and bidirectional batch-first GRU", build_gru, {"tokens": range(50)}),
    Recipe("audio", "1-D Conv net on waveforms: dilated residual blocks, ConvTranspose1d, dynamic length", build_audio,
           sizes={"samples": 128}),
    Recipe("audio_dynamo", "1-D Conv net on waveforms as torch.export leaves it", build_audio_dynamo),
    Recipe("video", "3-D Conv net: (2+1)-D, depthwise and transposed convolutions with BN", build_video),
)  # fmt: skip
