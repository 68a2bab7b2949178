"""Times of fused ops as shares of the times of the ops that they replace, in onnxruntime's CPU provider.

`python benchmarks/ort_fusions.py` prints a table. Both models of a race are loaded under ORT ALL; where onnxruntime
makes the fusion itself, the plain one is loaded without that optimizer. Each has several copies of the ops, one after
another. A ratio is that of the shortest runs in several pairs of sessions, each of which take turns; in parentheses are
the least and the largest ratio of a pair.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from passwright.core.ir.op_schemas import qualified_op_type
from passwright.core.ort.sessions import ENABLE_ALL, SessionConfig, create_session

Shapes = Mapping[str, tuple[int, ...]]
COPIES, TURN = 6, 10  # copies of the ops in a model; runs of a session in a row
WIDTH, HEADS, KV_HEADS, SIZE = 768, 12, 4, 64
PAST = 512
OPSETS = [helper.make_opsetid("", 23), helper.make_opsetid("com.microsoft", 1)]
APART = ("SkipLayerNormFusion", "BiasSkipLayerNormFusion")
NUMBERS: dict[str, Any] = {
    "half": 0.5, "one": 1.0, "two": 2.0, "root2": 2**0.5, "eps": 1e-5, "quick": 1.702, "scale": SIZE**-0.5,
    "zero_i": [0], "one_i": [1], "two_i": [2], "three_i": [3], "half_i": [SIZE // 2], "size_i": [SIZE], "last": [-1],
    "split": [0, 0, -1, SIZE], "join": [0, 0, WIDTH], "grouped": [1, KV_HEADS, HEADS // KV_HEADS, SIZE],
    "ungrouped": [1, 1, WIDTH], "repeats": [1, 1, HEADS // KV_HEADS, 1, 1],
    "repeated": [1, HEADS, -1, SIZE], "end": np.array([PAST], np.int32), "total": np.array(PAST + 1, np.int32),
    "step": 1 / 32, "coarse": 1 / 64, "small": 1 / 256, "fine": 1 / 512,
    "scales": np.array([1, 1, 4, 4], np.float32), "zero_u8": np.array(128, np.uint8), "zero_i8": np.array(0, np.int8),
}  # fmt: skip
"""The small constants of the models."""


@dataclass(frozen=True)
class Race:
    """Ops from {x} to {y}, as text in which {n} is the number of the copy, and those that are to replace them.

    Without `fused`, it is `plain` as onnxruntime fuses it; the optimizers of `without` are off for `plain` alone.
    """

    name: str
    x: tuple[int, ...]
    plain: str
    fused: str = ""
    without: tuple[str, ...] = ()
    inputs: Shapes = field(default_factory=dict[str, tuple[int, ...]])
    weights: Shapes = field(default_factory=dict[str, tuple[int, ...]])
    outputs: tuple[str, ...] = ()
    copies: int = COPIES


def norm_races() -> Iterator[Race]:
    """Sums before normalizations."""
    for rows in (128, 1):
        x, size = (1, rows, WIDTH), f"{rows}x{WIDTH}"
        inputs, weights = {"s{n}": x}, {"g": (WIDTH,), "b": (WIDTH,), "c": (WIDTH,)}
        add = "t{n} = Add({x}, s{n}) {y} = LayerNormalization<axis=-1>(t{n}, g, b)"
        biased = "u{n} = Add({x}, c) t{n} = Add(u{n}, s{n}) {y} = LayerNormalization<axis=-1>(t{n}, g, b)"
        late = "u{n} = Add({x}, s{n}) t{n} = Add(u{n}, c) {y} = LayerNormalization<axis=-1>(t{n}, g, b)"
        rms = "t{n} = Add({x}, s{n}) {y} = RMSNormalization<axis=-1>(t{n}, g)"
        skip_rms = "{y} = com.microsoft.SkipSimplifiedLayerNormalization<epsilon=1e-5>({x}, s{n}, g)"
        mean = "m{n} = ReduceMean<keepdims=1>({x}, last) d{n} = Sub({x}, m{n})"
        tail = "v{n} = Add(e{n}, eps) r{n} = Sqrt(v{n}) o{n} = Div(d{n}, r{n}) w{n} = Mul(o{n}, g)"
        chain = f"{mean} p{{n}} = Pow(d{{n}}, two) e{{n}} = ReduceMean<keepdims=1>(p{{n}}, last) {tail}"
        chain += " {y} = Add(w{n}, b)"
        root = "p{n} = Pow({x}, two) e{n} = ReduceMean<keepdims=1>(p{n}, last) v{n} = Add(e{n}, eps) r{n} = Sqrt(v{n})"
        root += " o{n} = Div({x}, r{n}) {y} = Mul(o{n}, g)"
        fusions = ("LayerNormFusionL1", "LayerNormFusionL2", "SimplifiedLayerNormFusion")
        yield Race(f"LayerNormFusion, {size}", x, chain, without=fusions, weights=weights)
        yield Race(f"SimplifiedLayerNormFusion, {size}", x, root, without=fusions[2:], weights=weights)
        own = "{y} = RMSNormalization<axis=-1>({x}, g)"
        yield Race(f"RMSNormalization-23, {size}", x, root, own, without=fusions[2:], weights=weights)
        yield Race(f"SkipLayerNormFusion, {size}", x, add, without=APART, inputs=inputs, weights=weights)
        yield Race(f"BiasSkipLayerNormFusion, {size}", x, biased, without=APART, inputs=inputs, weights=weights)
        yield Race(f"order of sums in `ort`, {size}", x, biased, late, inputs=inputs, weights=weights)
        summed = add.replace("Add", "Sum")
        yield Race(f"Sum in `ort`, {size}", x, add, summed, inputs=inputs, weights=weights)
        yield Race(f"SkipSimplifiedLayerNormalization, {size}", x, rms, skip_rms, inputs=inputs, weights=weights)


def activation_races() -> Iterator[Race]:
    """Activations, alone and behind products."""
    for rows in (128, 1):
        x, size = (1, rows, WIDTH), f"{rows}x{WIDTH}"
        bias = {"b{n}": (WIDTH,)}
        chain = "d{n} = Div({x}, root2) e{n} = Erf(d{n}) a{n} = Add(e{n}, one) m{n} = Mul({x}, a{n})"
        gelus = ("GeluFusionL1", "GeluFusionL2", "BiasGeluFusion")
        yield Race(f"GeluFusion, {size}", x, f"{chain} {{y}} = Mul(m{{n}}, half)", without=gelus)
        biased = "t{n} = Add({x}, b{n}) {y} = Gelu(t{n})"
        yield Race(f"BiasGeluFusion, {size}", x, biased, without=("BiasGeluFusion",), weights=bias)
        quick = "m{n} = Mul({x}, quick) t{n} = Sigmoid(m{n}) {y} = Mul({x}, t{n})"
        yield Race(f"QuickGeluFusion, {size}", x, quick, without=("QuickGeluFusion",))
        fast = "{y} = com.microsoft.FastGelu({x})"
        yield Race(f"FastGelu for Gelu of tanh, {size}", x, '{y} = Gelu<approximate="tanh">({x})', fast)
        yield Race(f"FastGelu for Gelu of erf, {size}", x, "{y} = Gelu({x})", fast)
        gemm = "t{n} = Gemm({x}, w{n}, b{n}) {y} = Relu(t{n})"
        weights = {"w{n}": (WIDTH, WIDTH), **bias}
        without = ("GemmActivationFusion",)
        yield Race(f"GemmActivationFusion, {size}", (rows, WIDTH), gemm, without=without, weights=weights)


def convolution_races() -> Iterator[Race]:
    """Convolutions of one axis, and of resized channels."""
    two = "u{n} = Unsqueeze({x}, two_i) c{n} = Conv<ATTRS>(u{n}, v{n}) {y} = Squeeze(c{n}, two_i)"
    for name, channels, length, kernel, groups in (
        ("512 channels", 512, 256, 3, 1), ("64 channels", 64, 256, 3, 1), ("16 groups", 768, 49, 127, 16),
        ("depthwise", 256, 256, 31, 256),
    ):  # fmt: skip
        pad, shape = kernel // 2, (channels, channels // groups, kernel)
        plain = f"{{y}} = Conv<pads=[{pad},{pad}],group={groups}>({{x}}, w{{n}})"
        reshaped = f"v{{n}} = Unsqueeze(w{{n}}, two_i) {two.replace('ATTRS', f'pads=[0,{pad},0,{pad}],group={groups}')}"
        yield Race(f"Conv of one axis, {name}", (1, channels, length), plain, reshaped, weights={"w{n}": shape})
    x, weights = (1, 256, 16, 16), {"w{n}": (256, 256, 1, 1), "v{n}": (256, 256, 1, 1)}
    inputs, pool = {"z": (1, 256, 64, 64)}, "{y} = AveragePool<kernel_shape=[4,4],strides=[4,4]>(o{n})"
    resize, sizes = 'Resize<mode="linear">', ", , scales"
    one = f"r{{n}} = {resize}({{x}}{sizes}) o{{n}} = Conv(r{{n}}, w{{n}}) {pool}"
    before = f"c{{n}} = Conv({{x}}, w{{n}}) o{{n}} = {resize}(c{{n}}{sizes}) {pool}"
    yield Race("Conv of a Resize, 256 channels", x, one, before, weights=weights)
    both = f"r{{n}} = {resize}({{x}}{sizes}) j{{n}} = Concat<axis=1>(r{{n}}, z) k{{n}} = Concat<axis=1>(w{{n}}, v{{n}})"
    both += f" o{{n}} = Conv(j{{n}}, k{{n}}) {pool}"
    parts = f"c{{n}} = Conv({{x}}, w{{n}}) r{{n}} = {resize}(c{{n}}{sizes}) d{{n}} = Conv(z, v{{n}})"
    parts += f" o{{n}} = Add(d{{n}}, r{{n}}) {pool}"
    yield Race("Conv of a Resize and others, 256 channels", x, both, parts, inputs=inputs, weights=weights)


def product_races() -> Iterator[Race]:
    """Products, convolutions and embeddings."""
    x, k = (1, HEADS, SIZE, SIZE), {"k{n}": (1, HEADS, SIZE, SIZE)}
    transposed = "t{n} = Transpose<perm=[0,1,3,2]>(k{n}) {y} = MatMul({x}, t{n})"
    scaled = "t{n} = MatMul({x}, k{n}) {y} = Mul(t{n}, scale)"
    yield Race("MatmulTransposeFusion, 12x64x64", x, transposed, without=("MatmulTransposeFusion",), inputs=k)
    yield Race("MatMulScaleFusion, 12x64x64", x, scaled, without=("MatMulScaleFusion",), inputs=k)
    for rows in (128, 1):
        names = ("q", "k", "v")
        three = " ".join(f"{a}{{n}} = MatMul({{x}}, w{a}{{n}})" for a in names)
        total = "s{n} = Add(q{n}, k{n}) {y} = Add(s{n}, v{n})"
        one = "w{n} = Concat<axis=1>(wq{n}, wk{n}, wv{n}) j{n} = MatMul({x}, w{n})"
        one += " q{n}, k{n}, v{n} = Split<axis=-1,num_outputs=3>(j{n})"
        weights = {f"w{a}{{n}}": (WIDTH, WIDTH) for a in names}
        yield Race(f"one product for three, {rows}x{WIDTH}", (1, rows, WIDTH), f"{three} {total}", f"{one} {total}",
                   weights=weights)  # fmt: skip
    image, weights = (1, 32, 28, 28), {"w{n}": (32, 32, 3, 3)}
    conv = "c{n} = Conv<pads=[1,1,1,1]>({x}, w{n}) {y} = Relu(c{n})"
    residual = "c{n} = Conv<pads=[1,1,1,1]>({x}, w{n}) a{n} = Add(c{n}, {x}) {y} = Relu(a{n})"
    layout = ("NchwcTransformer",)
    yield Race("NchwcTransformer, Conv and Relu", image, conv, without=layout, weights=weights)
    yield Race("NchwcTransformer, Conv, Add and Relu", image, residual, without=layout, weights=weights)
    tables = {"w": (1000, WIDTH), "p": (128, WIDTH), "s": (2, WIDTH), "g": (WIDTH,), "b": (WIDTH,)}
    embed = "i = Cast<to=7>({x}) j = Sub(i, i) a = Gather(w, i) c = Gather(s, j) d = Add(a, c) e = Add(d, p)"
    embed += " {y} = LayerNormalization<axis=-1>(e, g, b)"
    fused = "i = Cast<to=6>({x}) j = Sub(i, i)"
    fused += " {y}, m = com.microsoft.EmbedLayerNormalization<epsilon=1e-5>(i, j, w, p, s, g, b)"
    yield Race("EmbedLayerNormalization, 128", (1, 128), embed, fused, without=APART, weights=tables, copies=1)


def quantized_races() -> Iterator[Race]:
    """Products and convolutions between pairs of QuantizeLinear and DequantizeLinear, and of integers."""
    selector, nhwc = ("QDQSelectorActionTransformer",), ("NhwcTransformer",)
    for kind, zero in (("uint8", "zero_u8"), ("int8", "zero_i8")):
        before = f"q{{n}} = QuantizeLinear({{x}}, step, {zero}) d{{n}} = DequantizeLinear(q{{n}}, step, {zero})"
        weight = " i{n} = QuantizeLinear(w{n}, fine, zero_i8) v{n} = DequantizeLinear(i{n}, fine, zero_i8)"
        # Of few bits: without VNNI, onnxruntime's kernels saturate at sums of larger products.
        filters = " i{n} = QuantizeLinear(w{n}, coarse, zero_i8) v{n} = DequantizeLinear(i{n}, small, zero_i8)"
        after = f"r{{n}} = QuantizeLinear(c{{n}}, step, {zero}) {{y}} = DequantizeLinear(r{{n}}, step, {zero})"
        for rows in (128, 1):
            product, weights = f"{before}{weight} c{{n}} = MatMul(d{{n}}, v{{n}}) {after}", {"w{n}": (WIDTH, WIDTH)}
            name = f"QDQSelectorActionTransformer, {kind} MatMul {rows}x{WIDTH}"
            yield Race(name, (1, rows, WIDTH), product, without=selector, weights=weights)
        image, weights = (1, 32, 28, 28), {"w{n}": (32, 32, 3, 3)}
        conv = f"{before}{filters} c{{n}} = Conv<pads=[1,1,1,1]>(d{{n}}, v{{n}}) {after}"
        name = f"QDQSelectorActionTransformer, {kind} Conv"
        yield Race(name, image, conv, without=(*selector, *nhwc), weights=weights)
        yield Race(f"NhwcTransformer, {kind} Conv", image, conv, without=nhwc, weights=weights)
    for rows in (128, 1):
        dynamic = "q{n}, s{n}, z{n} = DynamicQuantizeLinear({x}) i{n} = QuantizeLinear(w{n}, fine, zero_i8)"
        dynamic += " p{n} = MatMulInteger(q{n}, i{n}, z{n}, zero_i8) f{n} = Cast<to=1>(p{n}) m{n} = Mul(s{n}, fine)"
        without = ("MatMulIntegerToFloatFusion", "DynamicQuantizeMatMulFusion")
        name = f"DynamicQuantizeMatMulFusion, {rows}x{WIDTH}"
        weights = {"w{n}": (WIDTH, WIDTH)}
        yield Race(name, (1, rows, WIDTH), dynamic + " {y} = Mul(f{n}, m{n})", without=without, weights=weights)


def attention_races() -> Iterator[Race]:
    """Attention over as many keys as queries."""
    own = "{y} = Attention<q_num_heads=12,kv_num_heads=12>"
    multi = "{y} = com.microsoft.MultiHeadAttention<num_heads=12>"
    for rows in (128, 16):
        x, size = (1, rows, WIDTH), f"{rows}x{WIDTH}"
        inputs = {"k{n}": x, "v{n}": x, "m": (1, 1, rows, rows)}
        for what, mask, names in (("", "", ""), (" masked", "m", ", m")):
            plain = attention("{x}", "k{n}", "v{n}", mask)
            yield Race(f"Attention-23,{what} {size}", x, plain, f"{own}({{x}}, k{{n}}, v{{n}}{names})", inputs=inputs)
            absent = ', "", "", m' if mask else ""
            fused = f"{multi}({{x}}, k{{n}}, v{{n}}{absent})"
            yield Race(f"MultiHeadAttention,{what} {size}", x, plain, fused, inputs=inputs)
        projections = " ".join(
            f"h{a}{{n}} = MatMul({{x}}, w{a}{{n}}) {a}{{n}} = Add(h{a}{{n}}, b{a}{{n}})" for a in "qkv"
        )
        plain = f"{projections} {attention('q{n}', 'k{n}', 'v{n}', '')}"
        weights = {f"{kind}{a}{{n}}": shape for a in "qkv" for kind, shape in (("w", (WIDTH, WIDTH)), ("b", (WIDTH,)))}
        separate = f"{projections} {own}(q{{n}}, k{{n}}, v{{n}})"
        packed = "w{n} = Concat<axis=1>(wq{n}, wk{n}, wv{n}) b{n} = Concat<axis=0>(bq{n}, bk{n}, bv{n})"
        packed += " {y} = com.microsoft.Attention<num_heads=12>({x}, w{n}, b{n})"
        yield Race(f"Attention-23 with its products, {size}", x, plain, separate, weights=weights)
        yield Race(f"com.microsoft.Attention with its products, {size}", x, plain, packed, weights=weights)


def attention(q: str, k: str, v: str, mask: str) -> str:
    """Attention as exporters write it, on operands whose heads are not split."""
    heads = " ".join(
        f"{a}4{{n}} = Reshape({operand}, split) {a}t{{n}} = Transpose<perm={perm}>({a}4{{n}})"
        for a, operand, perm in (("q", q, [0, 2, 1, 3]), ("k", k, [0, 2, 3, 1]), ("v", v, [0, 2, 1, 3]))
    )
    scores = "s{n} = MatMul(qt{n}, kt{n}) z{n} = Mul(s{n}, scale)"
    masked = f"a{{n}} = Add(z{{n}}, {mask})" if mask else "a{n} = Identity(z{n})"
    tail = "p{n} = Softmax<axis=-1>(a{n}) o{n} = MatMul(p{n}, vt{n}) ot{n} = Transpose<perm=[0,2,1,3]>(o{n})"
    return f"{heads} {scores} {masked} {tail} {{y}} = Reshape(ot{{n}}, join)"


def decoding_races() -> Iterator[Race]:
    """Attention of one query behind a past, and rotary embeddings."""
    x, new, past = (1, 1, WIDTH), (1, 1, KV_HEADS * SIZE), (1, KV_HEADS, PAST, SIZE)
    inputs = {"k{n}": new, "v{n}": new, "pk{n}": past, "pv{n}": past, "m": (1, PAST + 1)}
    joined = " ".join(
        f"{a}4{{n}} = Reshape({a}{{n}}, split) {a}t{{n}} = Transpose<perm=[0,2,1,3]>({a}4{{n}})"
        f" n{a}{{n}} = Concat<axis=2>(p{a}{{n}}, {a}t{{n}})"
        for a in "kv"
    )
    repeats = " ".join(
        f"u{a}{{n}} = Unsqueeze(n{a}{{n}}, two_i) e{a}{{n}} = Expand(u{a}{{n}}, repeats)"
        f" r{a}{{n}} = Reshape(e{a}{{n}}, repeated)"
        for a in "kv"
    )
    weigh = "z{n} = Mul(s{n}, scale) a{n} = Add(z{n}, m) p{n} = Softmax<axis=-1>(a{n})"
    heads = "q4{n} = Reshape({x}, split) qt{n} = Transpose<perm=[0,2,1,3]>(q4{n})"
    plain = f"{joined} {repeats} {heads} c{{n}} = Transpose<perm=[0,1,3,2]>(rk{{n}}) s{{n}} = MatMul(qt{{n}}, c{{n}})"
    plain += f" {weigh} o{{n}} = MatMul(p{{n}}, rv{{n}}) ot{{n}} = Transpose<perm=[0,2,1,3]>(o{{n}})"
    plain += " {y} = Reshape(ot{n}, join)"
    grouped = f"{joined} q4{{n}} = Reshape({{x}}, grouped) c{{n}} = Transpose<perm=[0,1,3,2]>(nk{{n}})"
    grouped += f" s{{n}} = MatMul(q4{{n}}, c{{n}}) {weigh} o{{n}} = MatMul(p{{n}}, nv{{n}})"
    grouped += " {y} = Reshape(o{n}, ungrouped)"
    own = "{y}, nk{n}, nv{n} = Attention<q_num_heads=12,kv_num_heads=4>({x}, k{n}, v{n}, m, pk{n}, pv{n})"
    group = "{y}, nk{n}, nv{n} = com.microsoft.GroupQueryAttention<num_heads=12,kv_num_heads=4>"
    # GroupQueryAttention has no mask.
    unmasked = plain.replace("Add(z{n}, m)", "Identity(z{n})")
    present = ("nk{n}", "nv{n}")
    query_group = f"{group}({{x}}, k{{n}}, v{{n}}, pk{{n}}, pv{{n}}, end, total)"
    for name, before, after in (
        ("product of grouped heads", plain, grouped),
        ("Attention-23 with cache and kv heads", plain, own),
        ("GroupQueryAttention", unmasked, query_group),
    ):
        yield Race(f"{name}, past {PAST}", x, before, after, inputs=inputs, outputs=present)
    for rows in (128, 1):
        x, angles = (1, HEADS, rows, SIZE), {"c": (1, rows, SIZE // 2), "s": (1, rows, SIZE // 2)}
        plain = "c4{n} = Unsqueeze(c, one_i) s4{n} = Unsqueeze(s, one_i)"
        plain += " cc{n} = Concat<axis=-1>(c4{n}, c4{n}) ss{n} = Concat<axis=-1>(s4{n}, s4{n})"
        plain += " lo{n} = Slice({x}, zero_i, half_i, three_i) hi{n} = Slice({x}, half_i, size_i, three_i)"
        plain += " neg{n} = Neg(hi{n}) j{n} = Concat<axis=-1>(neg{n}, lo{n}) a{n} = Mul({x}, cc{n})"
        plain += " b{n} = Mul(j{n}, ss{n}) {y} = Add(a{n}, b{n})"
        contrib = "c2{n} = Squeeze(c, zero_i) s2{n} = Squeeze(s, zero_i)"
        contrib += " {y} = com.microsoft.RotaryEmbedding({x}, zero_i, c2{n}, s2{n})"
        yield Race(f"RotaryEmbedding-23, {rows}", x, plain, "{y} = RotaryEmbedding({x}, c, s)", inputs=angles)
        yield Race(f"com.microsoft.RotaryEmbedding, {rows}", x, plain, contrib, inputs=angles)


def build(race: Race, ops: str) -> bytes:
    """The model of a race with copies of some ops, the same weights each time."""
    values = ["x", *(f"x{n}" for n in range(1, race.copies)), "y"]
    text = " ".join(ops.format(x=values[n], y=values[n + 1], n=n) for n in range(race.copies))
    inputs = ", ".join(f"float{list(shape)} {name}" for name, shape in input_shapes(race).items())
    outputs = ", ".join(f"float[] {name}" for name in ("y", *numbered(race, race.outputs)))
    graph = onnx.parser.parse_graph(f"g ({inputs}) => ({outputs}) {{ {text} }}")
    numbers = np.random.default_rng(0)
    weights = {name: shape for given, shape in race.weights.items() for name in numbered(race, [given])}
    arrays = {
        name: (numbers.normal(size=shape) * shape[0] ** -0.5).astype(np.float32) for name, shape in weights.items()
    }
    for name, value in {**NUMBERS, **arrays}.items():
        if name in text.replace("(", " ").replace(")", " ").replace(",", " ").split():
            array = np.asarray(value, np.float32) if isinstance(value, float) else np.asarray(value)
            graph.initializer.append(numpy_helper.from_array(array, name))
    return helper.make_model(graph, opset_imports=OPSETS, ir_version=11).SerializeToString()


def numbered(race: Race, names: Sequence[str]) -> list[str]:
    """The names, those with a number in each copy."""
    return list(dict.fromkeys(name.format(n=n) for n in range(race.copies) for name in names))


def input_shapes(race: Race) -> dict[str, tuple[int, ...]]:
    """The inputs of both models of a race."""
    return {"x": race.x} | {name: s for given, s in race.inputs.items() for name in numbered(race, [given])}


@dataclass(frozen=True)
class Result:
    """The shortest runs of both models in each pair of sessions, and the operators that the fused one has more of.

    The largest difference of results is relative to the largest number.
    """

    seconds: list[list[float]]
    made: list[str]
    difference: float

    @property
    def ratio(self) -> float:
        plain, fused = map(min, zip(*self.seconds, strict=True))
        return fused / plain

    @property
    def ratios(self) -> list[float]:
        """The ratio of each pair."""
        return [fused / plain for plain, fused in self.seconds]


def run_race(race: Race, threads: int, pairs: int, seconds: float) -> Result:
    plain, fused = build(race, race.plain), build(race, race.fused or race.plain)
    numbers = np.random.default_rng(1)
    feeds = {name: numbers.normal(size=shape).astype(np.float32) for name, shape in input_shapes(race).items()}
    if race.copies == 1:  # of an embedding: tokens
        feeds["x"] = numbers.integers(0, 999, race.x).astype(np.float32)
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("plain.onnx", "fused.onnx")]
        times: list[list[float]] = []
        results: list[NDArray[Any]] = []
        for _ in range(pairs):
            sessions = [
                create_session(
                    model,
                    SessionConfig(ENABLE_ALL, off, prepack_weights=True, allow_spinning=True,
                                  intra_op_threads=threads, optimized_model_path=str(path)),
                )
                for model, off, path in zip((plain, fused), (race.without, ()), paths, strict=True)
            ]  # fmt: skip
            results = [session.run(["y"], feeds)[0] for session in sessions]
            times.append(shortest_runs(sessions, feeds, seconds / pairs))
        counts = [Counter(map(operator, onnx.load(path).graph.node)) for path in paths]
    off = np.abs(results[1] - results[0]).max() / np.abs(results[0]).max()
    return Result(times, sorted(counts[1] - counts[0]), float(off))


def operator(node: onnx.NodeProto) -> str:
    return qualified_op_type(node.domain, node.op_type)


def shortest_runs(sessions: Sequence[Any], feeds: Mapping[str, Any], seconds: float) -> list[float]:
    """Of sessions that take turns."""
    best = [float("inf")] * len(sessions)
    end = perf_counter() + seconds
    while best[-1] == float("inf") or perf_counter() < end:
        for i, session in enumerate(sessions):
            for _ in range(TURN):
                start = perf_counter()
                session.run(None, feeds)
                best[i] = min(best[i], perf_counter() - start)
    return best


RACES = [
    *norm_races(), *activation_races(), *product_races(), *convolution_races(), *quantized_races(),
    *attention_races(), *decoding_races(),
]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", metavar="WORD", help="only the fusions whose names have one of these")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of onnxruntime (default: 1)")
    parser.add_argument("--pairs", type=int, default=5, metavar="N", help="of fresh sessions (default: 5)")
    parser.add_argument("--seconds", type=float, default=4, metavar="S", help="of runs of each fusion (default: 4)")
    options = parser.parse_args()
    print("| fusion | ratio | made | off by |\n|---|---|---|---|")
    for race in RACES:
        if options.words and not any(word in race.name for word in options.words):
            continue
        found = run_race(race, options.threads, options.pairs, options.seconds)
        spread = f"{found.ratio:.2f} ({min(found.ratios):.2f}-{max(found.ratios):.2f})"
        print(f"| {race.name} | {spread} | {', '.join(found.made) or 'nothing'} | {found.difference:.0e} |", flush=True)


if __name__ == "__main__":
    main()
