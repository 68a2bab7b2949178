"""Silero's detector of speech, on espeak-ng in noise."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .labelled_model import LabelledModel, TrainedModel
from .packages import source, unpacked
from .speech import VOICES, noise, speak
from .text_lines import words

CHUNK, CONTEXT, CHUNKS = 512, 64, 32  # samples of a chunk and before it; chunks of a stream
KINDS = ("white", "pink", "brown", "hum", "knocks")
CALIBRATION, LABELLED = 40, 120  # streams of a second


def streams(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The chunks of streams [count, CHUNKS, CONTEXT + CHUNK], and whether somebody speaks in each [count, CHUNKS]."""
    draw, vocabulary = np.random.default_rng(seed), words()
    rows, labels, samples = [], [], CHUNK * CHUNKS
    for _ in range(count):
        text = " ".join(str(draw.choice(vocabulary)) for _ in range(4))
        spoken = speak(text, str(draw.choice(VOICES)), int(draw.integers(130, 220)), int(draw.integers(30, 75)))
        start, length = int(draw.integers(0, samples * 3 // 4)), int(draw.integers(samples // 4, samples))
        clean = np.zeros(samples, np.float32)
        heard = spoken[: min(length, samples - start)] * (draw.random() < 0.75)  # the others are noise alone
        clean[start : start + len(heard)] = heard
        level = np.sqrt(np.mean(spoken**2))
        loudness = level * 10 ** (-draw.uniform(5, 25) / 20)
        heard = clean + loudness * noise(str(draw.choice(KINDS)), samples, draw)
        heard *= 10 ** (draw.uniform(-12, 3) / 20)
        heard = np.concatenate([np.zeros(CONTEXT, np.float32), np.clip(heard, -1, 1)])
        rows.append([heard[at : at + CONTEXT + CHUNK] for at in range(0, samples, CHUNK)])
        energy = np.sqrt(np.mean(clean.reshape(CHUNKS, CHUNK) ** 2, axis=1))
        labels.append(energy > 0.1 * level)
    return np.array(rows, np.float32), np.array(labels, np.int64)


def model_of_streams(model: onnx.ModelProto) -> onnx.ModelProto:
    """Make the model of one stream of any length one of a batch of streams of CHUNKS, all beginning in silence."""
    graph = model.graph
    (lstm,) = (node for node in graph.node if node.op_type == "LSTM")
    chunks, before = "chunks", lstm.input[0]
    for node in graph.node:
        node.input[:] = [chunks if name == "input" else name for name in node.input]
    shapes = {"chunk_shape": [-1, CONTEXT + CHUNK], "state_shape": [-1, CHUNKS, 128], "stream_shape": [-1, CHUNKS]}
    graph.initializer.extend(numpy_helper.from_array(np.array(shape), name) for name, shape in shapes.items())
    lstm.input[:] = ["by_time", *lstm.input[1:4]]
    del lstm.output[1:]
    place = list(graph.node).index(lstm)
    graph.node.insert(place, helper.make_node("Reshape", [before, "state_shape"], ["by_stream"]))
    graph.node.insert(place + 1, helper.make_node("Transpose", ["by_stream"], ["by_time"], perm=[1, 0, 2]))
    graph.node.insert(0, helper.make_node("Reshape", ["input", "chunk_shape"], [chunks]))
    graph.node.remove(next(node for node in graph.node if graph.node[-1].input[1] in node.output))
    graph.node[-1].input[1] = "stream_shape"
    del graph.input[:], graph.output[:], graph.value_info[:]
    graph.input.append(helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", CHUNKS, CONTEXT + CHUNK]))
    graph.output.append(helper.make_tensor_value_info("speech_probs", TensorProto.FLOAT, ["batch", CHUNKS]))
    return model


def make() -> LabelledModel:
    model = onnx.load(unpacked("silero-vad") / "silero_vad" / "data" / "silero_vad_16k_sequence.onnx")
    calibration, _ = streams(CALIBRATION, 1)
    rows, labels = streams(LABELLED, 2)
    return LabelledModel(
        model_of_streams(model), {"input": calibration}, {"input": rows, "labels": labels}, source("silero-vad")
    )


MODELS = (TrainedModel("silero_vad", "detector of speech, an LSTM over chunks", make, "area_under_curve", 0.9),)
