"""Decoders of any size with external data: `python benchmarks/language_model.py LAYERS OUT.onnx [--filled 0.02]`.

Layers as an exporter of PyTorch writes those of Llama: RMS normalization and SiLU spelled out, rotary positions,
causal attention. With the defaults a layer has 205 MB of weights, the rest 524 MB: 10 layers are 2.6 GB, 96 are 20 GB.
Weights are written one at a time. With `--filled` below 1, only that share of the pages of a weight is written; the
others are holes of a sparse file and read as zeros.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import onnx
from generated import ModelWriter
from onnx import TensorProto, helper

PAGE_BYTES = 4096
ELEMENTS_AT_ONCE = 1 << 22


@dataclass(frozen=True)
class Sizes:
    """The sizes of a decoder, and the share of pages that are written."""

    layers: int
    width: int = 2048
    heads: int = 16
    hidden: int = 5632
    vocabulary: int = 32000
    filled: float = 1.0

    @property
    def head_width(self) -> int:
        return self.width // self.heads


@dataclass
class ExternalModelWriter(ModelWriter):
    """A model as far as it is written, whose matrices are in the file `data`."""

    data: BinaryIO
    location: str
    filled: float
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    weights: list[onnx.TensorProto] = field(default_factory=list[onnx.TensorProto])
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def matrix(self, name: str, rows: int, columns: int, filled: float | None = None) -> str:
        """A matrix of normal numbers that keep the scale of a product with them."""
        filled = self.filled if filled is None else filled
        spread = np.float32((rows * filled) ** -0.5)
        begin, elements = -(-self.data.tell() // PAGE_BYTES) * PAGE_BYTES, rows * columns
        for start, stop in written_spans(elements, filled):
            self.data.seek(begin + 4 * start)
            self.data.write((self.rng.standard_normal(stop - start, np.float32) * spread).data)
        self.data.truncate(begin + 4 * elements)
        self.data.seek(begin + 4 * elements)
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[rows, columns])
        tensor.data_location = TensorProto.EXTERNAL
        places = {"location": self.location, "offset": begin, "length": 4 * elements}
        tensor.external_data.extend(onnx.StringStringEntryProto(key=k, value=str(v)) for k, v in places.items())
        self.weights.append(tensor)
        return name


def written_spans(elements: int, filled: float) -> Iterator[tuple[int, int]]:
    """The spans of a file of float32 elements that are written: one page in every 1 / `filled`, or all."""
    page = PAGE_BYTES // 4
    length = page if filled < 1 else ELEMENTS_AT_ONCE
    step = page * (round(1 / filled) | 1) if filled < 1 else length  # an odd number of pages: in turn all columns
    return ((start, min(start + length, elements)) for start in range(0, elements, step))


def rms_norm(w: ModelWriter, x: str, width: int) -> str:
    variance = w.op("ReduceMean", w.op("Pow", x, w.number(2)), axes=[-1])
    root = w.op("Sqrt", w.op("Add", variance, w.number(1e-5)))
    return w.op("Mul", w.weight(width, mean=1), w.op("Mul", x, w.op("Div", w.number(1), root)))


def positions(w: ModelWriter, ids: str, sizes: Sizes) -> tuple[str, str, str]:
    """Cosines and sines of the rotary embedding, [sequence, head_width], and the causal mask, [sequence, sequence]."""
    length = w.op("Gather", w.op("Shape", ids), w.constant(1, scalar=True), axis=0)
    steps = w.op("Range", w.constant(0, scalar=True), length, w.constant(1, scalar=True))
    column = w.op("Unsqueeze", w.op("Cast", steps, to=TensorProto.FLOAT), w.constant(1))
    powers = 10000.0 ** (-np.arange(0, sizes.head_width, 2) / sizes.head_width)
    half = w.op("Mul", column, w.constant_array(powers.astype(np.float32)[None]))
    angles = w.op("Concat", half, half, axis=-1)
    row = w.op("Unsqueeze", w.op("Cast", steps, to=TensorProto.FLOAT), w.constant(0))
    mask = w.op("Where", w.op("Greater", row, column), w.number(float(np.finfo(np.float32).min)), w.number(0))
    return w.op("Cos", angles), w.op("Sin", angles), mask


def rotate(w: ModelWriter, x: str, cosines: str, sines: str, sizes: Sizes) -> str:
    half = sizes.head_width // 2
    first = w.op("Slice", x, w.constant(0), w.constant(half), w.constant(3))
    second = w.op("Slice", x, w.constant(half), w.constant(2**63 - 1), w.constant(3))
    turned = w.op("Concat", w.op("Neg", second), first, axis=-1)
    return w.op("Add", w.op("Mul", x, cosines), w.op("Mul", turned, sines))


def attention(w: ExternalModelWriter, x: str, name: str, at: tuple[str, str, str], sizes: Sizes) -> str:
    cosines, sines, mask = at
    split = w.constant(0, 0, sizes.heads, sizes.head_width)
    projected = [w.op("MatMul", x, w.matrix(f"{name}.{part}", sizes.width, sizes.width)) for part in "qkv"]
    q, k, v = (w.op("Transpose", w.op("Reshape", p, split), perm=[0, 2, 1, 3]) for p in projected)
    q, k = (rotate(w, p, cosines, sines, sizes) for p in (q, k))
    scores = w.op("Div", w.op("MatMul", q, w.op("Transpose", k, perm=[0, 1, 3, 2])), w.number(sizes.head_width**0.5))
    mixed = w.op("MatMul", w.op("Softmax", w.op("Add", scores, mask), axis=-1), v)
    joined = w.op("Reshape", w.op("Transpose", mixed, perm=[0, 2, 1, 3]), w.constant(0, 0, sizes.width))
    return w.op("MatMul", joined, w.matrix(f"{name}.o", sizes.width, sizes.width))


def gated(w: ExternalModelWriter, x: str, name: str, sizes: Sizes) -> str:
    gate = w.op("MatMul", x, w.matrix(f"{name}.gate", sizes.width, sizes.hidden))
    up = w.op("MatMul", x, w.matrix(f"{name}.up", sizes.width, sizes.hidden))
    product = w.op("Mul", w.op("Mul", gate, w.op("Sigmoid", gate)), up)
    return w.op("MatMul", product, w.matrix(f"{name}.down", sizes.hidden, sizes.width))


def write_decoder(path: Path, sizes: Sizes) -> None:
    """Write the model to `path` and its matrices beside it, to `<name>.data`."""
    with Path(f"{path}.data").open("wb") as data:
        w = ExternalModelWriter(data, f"{path.name}.data", sizes.filled)
        x = w.op("Gather", w.matrix("embedding", sizes.vocabulary, sizes.width, filled=1.0), "ids")
        at = positions(w, "ids", sizes)
        for i in range(sizes.layers):
            x = w.op("Add", x, attention(w, rms_norm(w, x, sizes.width), f"layer{i}.attention", at, sizes))
            x = w.op("Add", x, gated(w, rms_norm(w, x, sizes.width), f"layer{i}.mlp", sizes))
        y = w.op("MatMul", rms_norm(w, x, sizes.width), w.matrix("head", sizes.width, sizes.vocabulary))
    w.nodes.append(helper.make_node("Identity", [y], ["logits"], "out"))
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "sequence"])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "sequence", sizes.vocabulary])
    graph = helper.make_graph(w.nodes, "decoder", [ids], [logits], w.weights)
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", type=int)
    parser.add_argument("path", type=Path, help="where to write the model")
    for name in ("width", "heads", "hidden", "vocabulary"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Sizes, name))
    parser.add_argument("--filled", type=float, default=1.0, metavar="SHARE", help="share of pages that are written")
    options: dict[str, Any] = vars(parser.parse_args())
    write_decoder(options.pop("path"), Sizes(**options))


if __name__ == "__main__":
    main()
