"""Decoders of any size with external data: `python benchmarks/language_model.py LAYERS OUT.onnx [--filled 0.02]`.

With `--cache`, keys and values of earlier positions are inputs and outputs. `--bits 4` writes the same decoder as
onnxruntime's own tools write it for a CPU: GroupQueryAttention, MatMulNBits of the weights, and GatherBlockQuantized.

Layers as an exporter of PyTorch writes those of Llama: RMS normalization and SiLU spelled out, rotary positions,
causal attention. With the defaults a layer has 205 MB of weights, the rest 524 MB: 10 layers are 2.6 GB, 96 are 20 GB.
Weights are written one at a time. With `--filled` below 1, only that share of the pages of a weight is written; the
others are holes of a sparse file and read as zeros.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import onnx
from generated import ModelWriter
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

PAGE_BYTES = 4096
ELEMENTS_AT_ONCE = 1 << 22
EPSILON = 1e-5
BLOCK = 32  # of weights with one scale
MAX_POSITIONS = 4096
CONTRIB = "com.microsoft"


@dataclass(frozen=True)
class Sizes:
    """The sizes of a decoder, and the share of pages that are written."""

    layers: int
    width: int = 2048
    heads: int = 16
    hidden: int = 5632
    vocabulary: int = 32000
    filled: float = 1.0
    cache: bool = False
    bits: int = 0

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

    def product(self, x: str, name: str, rows: int, columns: int) -> str:
        """MatMul with a matrix."""
        return self.op("MatMul", x, self.matrix(name, rows, columns))

    def embedded(self, ids: str, rows: int, columns: int) -> str:
        """Rows of a matrix."""
        return self.op("Gather", self.matrix("embedding", rows, columns, filled=1.0), ids)

    def numbers(self, rows: int, columns: int) -> NDArray[np.float32]:
        """The elements of a matrix that is written whole."""
        spread, elements = np.float32(rows**-0.5), rows * columns
        parts = (stop - start for start, stop in written_spans(elements, 1.0))
        found = np.concatenate([self.rng.standard_normal(n, np.float32) * spread for n in parts])
        return found.reshape(rows, columns)

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
    root = w.op("Sqrt", w.op("Add", variance, w.number(EPSILON)))
    return w.op("Mul", w.weight(width, mean=1), w.op("Mul", x, w.op("Div", w.number(1), root)))


def extent(w: ModelWriter, x: str, axis: int) -> str:
    return w.op("Gather", w.op("Shape", x), w.constant(axis, scalar=True), axis=0)


def powers(sizes: Sizes) -> NDArray[np.float32]:
    """The angles from one position to the next."""
    return (10000.0 ** (-np.arange(0, sizes.head_width, 2) / sizes.head_width)).astype(np.float32)


def positions(w: ModelWriter, ids: str, sizes: Sizes) -> tuple[str, str, str]:
    """Cosines and sines of the rotary embedding, [sequence, head_width], and the causal mask, [sequence, total]."""
    past = extent(w, "past.0.key", 2) if sizes.cache else w.constant(0, scalar=True)
    total, one = w.op("Add", past, extent(w, ids, 1)), w.constant(1, scalar=True)
    steps, everything = w.op("Range", past, total, one), w.op("Range", w.constant(0, scalar=True), total, one)
    column = w.op("Unsqueeze", w.op("Cast", steps, to=TensorProto.FLOAT), w.constant(1))
    half = w.op("Mul", column, w.constant_array(powers(sizes)[None]))
    angles = w.op("Concat", half, half, axis=-1)
    row = w.op("Unsqueeze", w.op("Cast", everything, to=TensorProto.FLOAT), w.constant(0))
    mask = w.op("Where", w.op("Greater", row, column), w.number(float(np.finfo(np.float32).min)), w.number(0))
    return w.op("Cos", angles), w.op("Sin", angles), mask


def rotate(w: ModelWriter, x: str, cosines: str, sines: str, sizes: Sizes) -> str:
    half = sizes.head_width // 2
    first = w.op("Slice", x, w.constant(0), w.constant(half), w.constant(3))
    second = w.op("Slice", x, w.constant(half), w.constant(2**63 - 1), w.constant(3))
    turned = w.op("Concat", w.op("Neg", second), first, axis=-1)
    return w.op("Add", w.op("Mul", x, cosines), w.op("Mul", turned, sines))


def attention(w: ExternalModelWriter, x: str, layer: int, at: tuple[str, str, str], sizes: Sizes) -> str:
    cosines, sines, mask = at
    name, split = f"layer{layer}.attention", w.constant(0, 0, sizes.heads, sizes.head_width)
    projected = [w.product(x, f"{name}.{part}", sizes.width, sizes.width) for part in "qkv"]
    q, k, v = (w.op("Transpose", w.op("Reshape", p, split), perm=[0, 2, 1, 3]) for p in projected)
    q, k = (rotate(w, p, cosines, sines, sizes) for p in (q, k))
    if sizes.cache:
        k, v = (w.op("Concat", f"past.{layer}.{part}", new, axis=2) for part, new in (("key", k), ("value", v)))
        w.nodes += [
            helper.make_node("Identity", [all_of_them], [f"present.{layer}.{part}"])
            for part, all_of_them in (("key", k), ("value", v))
        ]
    scores = w.op("Div", w.op("MatMul", q, w.op("Transpose", k, perm=[0, 1, 3, 2])), w.number(sizes.head_width**0.5))
    mixed = w.op("MatMul", w.op("Softmax", w.op("Add", scores, mask), axis=-1), v)
    joined = w.op("Reshape", w.op("Transpose", mixed, perm=[0, 2, 1, 3]), w.constant(0, 0, sizes.width))
    return w.product(joined, f"{name}.o", sizes.width, sizes.width)


def gated(w: ExternalModelWriter, x: str, name: str, sizes: Sizes) -> str:
    gate = w.product(x, f"{name}.gate", sizes.width, sizes.hidden)
    up = w.product(x, f"{name}.up", sizes.width, sizes.hidden)
    mixed = w.op("Mul", w.op("Mul", gate, w.op("Sigmoid", gate)), up)
    return w.product(mixed, f"{name}.down", sizes.hidden, sizes.width)


@dataclass
class FusedModelWriter(ExternalModelWriter):
    """A model whose matrices have few bits, in blocks of 32, and are in the model itself."""

    bits: int = 4

    def product(self, x: str, name: str, rows: int, columns: int) -> str:
        """MatMulNBits with the weights that `matrix` makes."""
        sizes = {"K": rows, "N": columns, "bits": self.bits, "block_size": BLOCK, "accuracy_level": 4}
        integers, scales = self.packed(name, self.numbers(rows, columns).T, (columns, rows // BLOCK, -1))
        return self.op("MatMulNBits", x, integers, scales, domain=CONTRIB, **sizes)

    def embedded(self, ids: str, rows: int, columns: int) -> str:
        sizes = {"bits": self.bits, "block_size": BLOCK, "gather_axis": 0, "quantize_axis": 1}
        integers, scales = self.packed("embedding", self.numbers(rows, columns), (rows, -1))
        return self.op("GatherBlockQuantized", integers, ids, scales, domain=CONTRIB, **sizes)

    def packed(self, name: str, rows: NDArray[np.float32], dims: tuple[int, ...]) -> tuple[str, str]:
        """Rows as unsigned integers, two in a byte if they have 4 bits, and the scales of their blocks."""
        middle = 1 << (self.bits - 1)
        blocks = rows.reshape(len(rows), -1, BLOCK)
        scales = np.abs(blocks).max(axis=2) / np.float32(middle - 1)
        integers = (np.rint(blocks / scales[..., None]) + middle).astype(np.uint8).reshape(len(rows), -1)
        held = integers if self.bits == 8 else integers[:, ::2] | integers[:, 1::2] << 4
        self.weights += [
            numpy_helper.from_array(held.reshape(dims), f"{name}.integers"),
            numpy_helper.from_array(scales, f"{name}.scales"),
        ]
        return f"{name}.integers", f"{name}.scales"


def fused_norm(w: FusedModelWriter, x: str, width: int) -> str:
    return w.op("SimplifiedLayerNormalization", x, w.weight(width, mean=1), epsilon=EPSILON, axis=-1, stash_type=1)


def added_norm(w: FusedModelWriter, x: str, y: str, width: int) -> tuple[str, str]:
    """The sum of two values, normalized, and itself."""
    inputs, name = (x, y, w.weight(width, mean=1)), f"skip_{len(w.nodes)}"
    node = helper.make_node(
        "SkipSimplifiedLayerNormalization", inputs, [name, "", "", f"{name}.sum"], name, domain=CONTRIB, epsilon=EPSILON
    )
    w.nodes.append(node)
    return name, f"{name}.sum"


def fused_positions(w: ModelWriter, ids: str, sizes: Sizes) -> list[str]:
    """The last position of each sequence, the number of positions, and the cosines and sines of all."""
    total = w.op("Add", extent(w, "past.0.key", 2), extent(w, ids, 1))
    last = w.op("Sub", total, w.constant(1, scalar=True))
    batch = w.op("Unsqueeze", extent(w, ids, 0), w.constant(0))
    ends = w.op("Cast", w.op("Expand", last, batch), to=TensorProto.INT32)
    angles = np.arange(MAX_POSITIONS, dtype=np.float32)[:, None] * powers(sizes)
    tables = (w.constant_array(f(angles).astype(np.float32)) for f in (np.cos, np.sin))
    return [ends, w.op("Cast", total, to=TensorProto.INT32), *tables]


def fused_attention(w: FusedModelWriter, x: str, layer: int, at: list[str], sizes: Sizes) -> str:
    name = f"layer{layer}.attention"
    projected = [w.product(x, f"{name}.{part}", sizes.width, sizes.width) for part in "qkv"]
    past, present = ([f"{when}.{layer}.{part}" for part in ("key", "value")] for when in ("past", "present"))
    heads: dict[str, Any] = {
        "num_heads": sizes.heads,
        "kv_num_heads": sizes.heads,
        "do_rotary": 1,
        "scale": sizes.head_width**-0.5,
    }
    inputs, outputs = [*projected, *past, *at], [f"{name}.mixed", *present]
    w.nodes.append(helper.make_node("GroupQueryAttention", inputs, outputs, name, domain=CONTRIB, **heads))
    return w.product(f"{name}.mixed", f"{name}.o", sizes.width, sizes.width)


def decoder(w: ExternalModelWriter, sizes: Sizes) -> str:
    """The layers as an exporter writes them; the name of the logits."""
    x = w.embedded("ids", sizes.vocabulary, sizes.width)
    at = positions(w, "ids", sizes)
    for i in range(sizes.layers):
        x = w.op("Add", x, attention(w, rms_norm(w, x, sizes.width), i, at, sizes))
        x = w.op("Add", x, gated(w, rms_norm(w, x, sizes.width), f"layer{i}.mlp", sizes))
    return w.product(rms_norm(w, x, sizes.width), "head", sizes.width, sizes.vocabulary)


def fused_decoder(w: FusedModelWriter, sizes: Sizes) -> str:
    """The layers as onnxruntime's own tools write them; the name of the logits."""
    x = w.embedded("ids", sizes.vocabulary, sizes.width)
    at = fused_positions(w, "ids", sizes)
    normal = fused_norm(w, x, sizes.width)
    for i in range(sizes.layers):
        normal, x = added_norm(w, x, fused_attention(w, normal, i, at, sizes), sizes.width)
        normal, x = added_norm(w, x, gated(w, normal, f"layer{i}.mlp", sizes), sizes.width)
    return w.product(normal, "head", sizes.width, sizes.vocabulary)


def write_decoder(path: Path, sizes: Sizes) -> None:
    """Write the model to `path` and its matrices beside it, to `<name>.data`, unless they have few bits."""
    with Path(f"{path}.data").open("wb") as data:
        file = (data, f"{path.name}.data", sizes.filled)
        w = FusedModelWriter(*file, bits=sizes.bits) if sizes.bits else ExternalModelWriter(*file)
        y = fused_decoder(w, sizes) if isinstance(w, FusedModelWriter) else decoder(w, sizes)
    if sizes.bits:
        Path(f"{path}.data").unlink()
    w.nodes.append(helper.make_node("Identity", [y], ["logits"], "out"))
    inputs = [helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "sequence"])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "sequence", sizes.vocabulary])]
    for i, part in product(range(sizes.layers if sizes.cache else 0), ("key", "value")):
        for values, when, length in ((inputs, "past", "past"), (outputs, "present", "total")):
            dims = ["batch", sizes.heads, length, sizes.head_width]
            values.append(helper.make_tensor_value_info(f"{when}.{i}.{part}", TensorProto.FLOAT, dims))
    graph = helper.make_graph(w.nodes, "decoder", inputs, outputs, w.weights)
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(CONTRIB, 1)] if sizes.bits else [])]
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layers", type=int)
    parser.add_argument("path", type=Path, help="where to write the model")
    for name in ("width", "heads", "hidden", "vocabulary"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Sizes, name))
    parser.add_argument("--filled", type=float, default=1.0, metavar="SHARE", help="share of pages that are written")
    parser.add_argument("--cache", action="store_true", help="keys and values of earlier positions are inputs")
    parser.add_argument("--bits", type=int, choices=(4, 8), default=0, help="of the weights of fused operators")
    options: dict[str, Any] = vars(parser.parse_args())
    if options["bits"] and (not options["cache"] or options["filled"] < 1):
        parser.error("--bits needs --cache, and writes all of a weight")
    write_decoder(options.pop("path"), Sizes(**options))


if __name__ == "__main__":
    main()
