"""Silero's detector of speech, on espeak-ng in noise."""

import numpy as np
import onnx

from .labelled_model import LabelledModel, TrainedModel
from .packages import source, unpacked
from .speech import VOICES, noise, speak
from .text_lines import words

CHUNK, CONTEXT, CHUNKS = 512, 64, 32  # samples of a chunk and before it; chunks of a stream
KINDS = ("white", "pink", "brown", "hum", "knocks")
CALIBRATION, LABELLED = 20, 60  # streams of a second


def streams(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Chunks of streams [count * CHUNKS, CONTEXT + CHUNK], and whether somebody speaks in each.

    A stream begins with the state of silence: batches of CHUNKS rows are whole streams.
    """
    draw, vocabulary = np.random.default_rng(seed), words()
    rows, labels, samples = [], [], CHUNK * CHUNKS
    for i in range(count):
        text = " ".join(str(draw.choice(vocabulary)) for _ in range(4))
        spoken = speak(text, str(draw.choice(VOICES)), int(draw.integers(130, 220)), int(draw.integers(30, 75)))
        start, length = int(draw.integers(0, samples * 3 // 4)), int(draw.integers(samples // 4, samples))
        clean = np.zeros(samples, np.float32)
        heard = spoken[: min(length, samples - start)] * (i % 4 != 0)  # every fourth stream is noise alone
        clean[start : start + len(heard)] = heard
        level = np.sqrt(np.mean(spoken**2))
        loudness = level * 10 ** (-draw.uniform(5, 25) / 20)
        heard = (clean + loudness * noise(KINDS[i % len(KINDS)], samples, draw)) * 10 ** (draw.uniform(-12, 3) / 20)
        heard = np.concatenate([np.zeros(CONTEXT, np.float32), np.clip(heard, -1, 1)])
        rows += [heard[at : at + CONTEXT + CHUNK] for at in range(0, samples, CHUNK)]
        energy = np.sqrt(np.mean(clean.reshape(CHUNKS, CHUNK) ** 2, axis=1))
        labels += [int(e > 0.1 * level) for e in energy]
    return np.stack(rows).astype(np.float32), np.array(labels)


def make() -> LabelledModel:
    model = onnx.load(unpacked("silero-vad") / "silero_vad" / "data" / "silero_vad_16k_sequence.onnx")
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == "sequence_length":
                dim.dim_param = "batch"  # the name of what has a row for each label, the chunks of a stream
    state = {name: np.zeros((1, 1, 128), np.float32) for name in "hc"}
    calibration, _ = streams(CALIBRATION, 1)
    rows, labels = streams(LABELLED, 2)
    return LabelledModel(
        model, {"input": calibration, **state}, {"input": rows, **state, "labels": labels}, source("silero-vad")
    )


MODELS = (TrainedModel("silero_vad", "detector of speech, an LSTM over chunks", make, "area_under_curve", 0.9),)
