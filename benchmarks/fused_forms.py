"""Times of operators in an engine as shares of the ops that they replace: `python benchmarks/fused_forms.py [WORD...]`.

Each form is a chain of four of the operator, and four times its parts, in one thread, by turns, with weights of
their own. The share is the median over pairs of calls, of the CPU time, so that other work on the machine counts less.
`--engine` is openvino, or another one; WORDs choose forms by their names.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import numpy_helper
from passwright.core.errors import EvaluationError
from passwright.core.ort.engines import find_engine
from passwright.core.ort.sessions import SessionConfig, create_session

UNITS = 4
PAIRS = 60
WARM_UP = 5
SECONDS = 4.0  # the longest that the pairs of one form take, but for the first few
FEWEST = 8
MICROSOFT = "com.microsoft"
TOKENS, HEADS, IMAGE = (1, 128, 768), (1, 12, 128, 64), (1, 64, 56, 56)
SEQUENCE, ROWS, ROW = (1, 256, 400), (128, 768), (1, 1, 768)


class Form(NamedTuple):
    """An operator and its parts, as ONNX text from `x` to `y` of that shape; `dynamic`: the whole has unknown dims."""

    name: str
    shape: tuple[int, ...]
    whole: str
    parts: str
    dynamic: bool = False


FORMS = (
    Form(
        "Attention of 4 dims",
        HEADS,
        "y = Attention(x, x, x)",
        """kt = Transpose<perm=[0,1,3,2]>(x) s = MatMul(x, kt) s1 = Mul(s, scale) p = Softmax<axis=-1>(s1) y =
        MatMul(p, x)""",
    ),
    Form(
        "Attention, mask",
        HEADS,
        "y = Attention(x, x, x, mask)",
        """kt = Transpose<perm=[0,1,3,2]>(x) s = MatMul(x, kt) s1 = Mul(s, scale) s2 = Add(s1, mask) p =
        Softmax<axis=-1>(s2) y = MatMul(p, x)""",
    ),
    Form(
        "Attention softcap",
        HEADS,
        "y = Attention<softcap=50.0>(x, x, x)",
        """kt = Transpose<perm=[0,1,3,2]>(x) s = MatMul(x, kt) s1 = Mul(s, scale) s3 = Div(s1, cap) s4 =
        Tanh(s3) s2 = Mul(s4, cap) p = Softmax<axis=-1>(s2) y = MatMul(p, x)""",
    ),
    Form(
        "Attention of 3 dims",
        TOKENS,
        "y = Attention<q_num_heads=12, kv_num_heads=12>(x, x, x)",
        """r = Reshape(x, heads) h = Transpose<perm=[0,2,1,3]>(r) kt = Transpose<perm=[0,2,3,1]>(r) s =
        MatMul(h, kt) s1 = Mul(s, scale) p = Softmax<axis=-1>(s1) a = MatMul(p, h) t =
        Transpose<perm=[0,2,1,3]>(a) y = Reshape(t, joined)""",
    ),
    Form(
        "Attention of 3 dims, of 4 dims between Transposes",
        TOKENS,
        "y = Attention<q_num_heads=12, kv_num_heads=12>(x, x, x)",
        """r = Reshape(x, heads) h = Transpose<perm=[0,2,1,3]>(r) a = Attention(h, h, h) t =
        Transpose<perm=[0,2,1,3]>(a) y = Reshape(t, joined)""",
    ),
    Form(
        "RotaryEmbedding",
        HEADS,
        "y = RotaryEmbedding(x, cos, sin)",
        """f = Slice(x, from, middle, last) r = Slice(x, middle, end, last) n = Neg(r) h = Concat<axis=-1>(n,
        f) c = Mul(x, cos4) s = Mul(h, sin4) y = Add(c, s)""",
    ),
    Form(
        "LayerNormalization",
        TOKENS,
        "y = LayerNormalization(x, one_scale, b)",
        """m = ReduceMean(x, last) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, last) e = Add(v, eps) r =
        Sqrt(e) n = Div(d, r) g = Mul(n, one_scale) y = Add(g, b)""",
    ),
    Form(
        "RMSNormalization",
        TOKENS,
        "y = RMSNormalization(x, one_scale)",
        """q = Mul(x, x) v = ReduceMean(q, last) e = Add(v, eps) r = Sqrt(e) n = Div(x, r) y = Mul(n,
        one_scale)""",
    ),
    Form("Gelu", TOKENS, "y = Gelu(x)", "d = Div(x, root) e = Erf(d) p = Add(e, one) m = Mul(x, p) y = Mul(m, half)"),
    Form(
        "Gelu, tanh",
        TOKENS,
        'y = Gelu<approximate="tanh">(x)',
        """c = Pow(x, three) k = Mul(c, k1) s = Add(x, k) t = Mul(s, k2) h = Tanh(t) p = Add(h, one) m = Mul(x,
        p) y = Mul(m, half)""",
    ),
    Form("HardSwish", IMAGE, "y = HardSwish(x)", "s = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(x, s)"),
    Form(
        "HardSwish of Clip",
        IMAGE,
        "y = HardSwish(x)",
        "a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)",
    ),
    Form("Swish", IMAGE, "y = Swish(x)", "s = Sigmoid(x) y = Mul(x, s)"),
    Form("Mish", IMAGE, "y = Mish(x)", "s = Softplus(x) t = Tanh(s) y = Mul(x, t)"),
    Form(
        "GroupNormalization",
        IMAGE,
        "y = GroupNormalization<num_groups=8>(x, channels, b64)",
        """r = Reshape(x, groups) n = InstanceNormalization(r, ones8, zeros8) i = Reshape(n, image) g = Mul(i,
        slope) y = Add(g, slope)""",
    ),
    Form("Gemm", ROWS, "y = Gemm(x, w, b)", "m = MatMul(x, w) y = Add(m, b)"),
    Form("Gemm, transB", ROWS, "y = Gemm<transB=1>(x, w, b)", "m = MatMul(x, w) y = Add(m, b)"),
    Form(
        "one product and Split",
        TOKENS,
        "p = MatMul(x, w3) q, k, v = Split<axis=-1, num_outputs=3>(p) s = Add(q, k) y = Add(s, v)",
        "q = MatMul(x, w) k = MatMul(x, wt) v = MatMul(x, wv) s = Add(q, k) y = Add(s, v)",
    ),
    Form(
        "Conv of 3 dims",
        SEQUENCE,
        "y = Conv<pads=[1,1]>(x, c1)",
        "u = Unsqueeze(x, space) v = Conv<pads=[0,1,0,1]>(u, c1_4) y = Squeeze(v, space)",
    ),
    Form("Elu", TOKENS, "y = Elu(x)", "e = Exp(x) d = Sub(e, one) p = Greater(x, zero) y = Where(p, x, d)"),
    Form("PRelu", IMAGE, "y = PRelu(x, slope)", "p = Relu(x) n = Min(x, zero) m = Mul(n, slope) y = Add(p, m)"),
    Form("Softplus", TOKENS, "y = Softplus(x)", "e = Exp(x) a = Add(e, one) y = Log(a)"),
    Form("ReduceL1", TOKENS, "r = ReduceL1(x, last) y = Add(x, r)", "a = Abs(x) r = ReduceSum(a, last) y = Add(x, r)"),
    Form(
        "ReduceL2",
        TOKENS,
        "r = ReduceL2(x, last) y = Add(x, r)",
        "q = Mul(x, x) s = ReduceSum(q, last) r = Sqrt(s) y = Add(x, r)",
    ),
    Form(
        "ReduceSumSquare",
        TOKENS,
        "r = ReduceSumSquare(x, last) y = Add(x, r)",
        "q = Mul(x, x) r = ReduceSum(q, last) y = Add(x, r)",
    ),
    Form(
        "ReduceLogSum",
        TOKENS,
        "r = ReduceLogSum(x, last) y = Add(x, r)",
        "s = ReduceSum(x, last) r = Log(s) y = Add(x, r)",
    ),
    Form(
        "ReduceLogSumExp",
        TOKENS,
        "r = ReduceLogSumExp(x, last) y = Add(x, r)",
        "e = Exp(x) s = ReduceSum(e, last) r = Log(s) y = Add(x, r)",
    ),
    Form("LpNormalization", TOKENS, "y = LpNormalization<axis=-1, p=2>(x)", "s = ReduceL2(x, last) y = Div(x, s)"),
    Form("Sum of three", TOKENS, "y = Sum(x, b, one)", "s = Add(x, b) y = Add(s, one)"),
    Form("Max of three", TOKENS, "y = Max(x, b, zero)", "s = Max(x, b) y = Max(s, zero)"),
    Form(
        "Softmax",
        TOKENS,
        "y = Softmax<axis=-1>(x)",
        "m = ReduceMax(x, last) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, last) y = Div(e, s)",
    ),
    Form("LogSoftmax", TOKENS, "y = LogSoftmax<axis=-1>(x)", "s = Softmax<axis=-1>(x) y = Log(s)"),
    Form("Clip", IMAGE, "y = Clip(x, zero, six)", "a = Max(x, zero) y = Min(a, six)"),
    Form(
        "BatchNormalization behind Conv",
        IMAGE,
        "c = Conv<pads=[1,1,1,1]>(x, c3) y = BatchNormalization(c, channels, b64, b64, ones64)",
        "c = Conv<pads=[1,1,1,1]>(x, c3) y = Add(c, slope)",
    ),
    Form("Transpose of weights", ROWS, "y = Gemm<transB=1>(x, w)", "t = Transpose<perm=[1,0]>(w) y = MatMul(x, t)"),
    Form(
        "ReduceMean behind GlobalAveragePool",
        IMAGE,
        "p = GlobalAveragePool(x) y = Add(x, p)",
        "p = ReduceMean(x, plane) y = Add(x, p)",
    ),
    Form(
        "Einsum",
        HEADS,
        's = Einsum<equation="bhqd,bhkd->bhqk">(x, x) y = MatMul(s, x)',
        "t = Transpose<perm=[0,1,3,2]>(x) s = MatMul(x, t) y = MatMul(s, x)",
    ),
    Form(
        "quantized Conv, QLinearConv",
        IMAGE,
        """q = QuantizeLinear(x, qs, qz) c = QLinearConv<pads=[1,1,1,1]>(q, qs, qz, c8, ws, iz, qs, qz) y =
        DequantizeLinear(c, qs, qz)""",
        """q = QuantizeLinear(x, qs, qz) d = DequantizeLinear(q, qs, qz) w8 = DequantizeLinear(c8, ws, iz) c =
        Conv<pads=[1,1,1,1]>(d, w8) cq = QuantizeLinear(c, qs, qz) y = DequantizeLinear(cq, qs, qz)""",
    ),
    Form(
        "quantized Conv, Conv",
        IMAGE,
        """q = QuantizeLinear(x, qs, qz) d = DequantizeLinear(q, qs, qz) w8 = DequantizeLinear(c8, ws, iz) c =
        Conv<pads=[1,1,1,1]>(d, w8) cq = QuantizeLinear(c, qs, qz) y = DequantizeLinear(cq, qs, qz)""",
        "y = Conv<pads=[1,1,1,1]>(x, c3)",
    ),
    Form(
        "quantized MatMul, QLinearMatMul",
        TOKENS,
        """q = QuantizeLinear(x, qs, qz) c = QLinearMatMul(q, qs, qz, m8, ws, iz, qs, qz) y =
        DequantizeLinear(c, qs, qz)""",
        """q = QuantizeLinear(x, qs, qz) d = DequantizeLinear(q, qs, qz) w8 = DequantizeLinear(m8, ws, iz) c =
        MatMul(d, w8) cq = QuantizeLinear(c, qs, qz) y = DequantizeLinear(cq, qs, qz)""",
    ),
    Form(
        "quantized MatMul, MatMul",
        TOKENS,
        """q = QuantizeLinear(x, qs, qz) d = DequantizeLinear(q, qs, qz) w8 = DequantizeLinear(m8, ws, iz) y =
        MatMul(d, w8)""",
        "y = MatMul(x, w)",
    ),
    Form(
        "quantized MatMul, signed activations",
        TOKENS,
        """q = QuantizeLinear(x, qs, iz) d = DequantizeLinear(q, qs, iz) w8 = DequantizeLinear(m8, ws, iz) y =
        MatMul(d, w8)""",
        """q = QuantizeLinear(x, qs, qz) d = DequantizeLinear(q, qs, qz) w8 = DequantizeLinear(m8, ws, iz) y =
        MatMul(d, w8)""",
    ),
    Form(
        "quantized MatMul, per channel",
        TOKENS,
        """q = QuantizeLinear(x, qs, qz) d = DequantizeLinear(q, qs, qz) w8 = DequantizeLinear<axis=1>(m8, wsc,
        izc) y = MatMul(d, w8)""",
        """q = QuantizeLinear(x, qs, qz) d = DequantizeLinear(q, qs, qz) w8 = DequantizeLinear(m8, ws, iz) y =
        MatMul(d, w8)""",
    ),
    Form(
        "quantized MatMul, unsigned weights",
        TOKENS,
        """q = QuantizeLinear(x, qs, qz) d = DequantizeLinear(q, qs, qz) w8 = DequantizeLinear(u8, ws, qz) y =
        MatMul(d, w8)""",
        """q = QuantizeLinear(x, qs, qz) d = DequantizeLinear(q, qs, qz) w8 = DequantizeLinear(m8, ws, iz) y =
        MatMul(d, w8)""",
    ),
    Form(
        "dynamic quantization",
        TOKENS,
        """q, qs1, qz1 = DynamicQuantizeLinear(x) i = MatMulInteger(q, m8, qz1) f = Cast<to=1>(i) s1 = Mul(qs1,
        ws) y = Mul(f, s1)""",
        "y = MatMul(x, w)",
    ),
    Form(
        "weights of 8 bits alone",
        TOKENS,
        "w8 = DequantizeLinear<axis=1>(m8, wsc, izc) y = MatMul(x, w8)",
        "y = MatMul(x, w)",
    ),
    Form(
        "weights of 8 bits alone, one row",
        ROW,
        "w8 = DequantizeLinear<axis=1>(m8, wsc, izc) y = MatMul(x, w8)",
        "y = MatMul(x, w)",
    ),
    Form("com.microsoft.FastGelu", TOKENS, "y = com.microsoft.FastGelu(x)", 'y = Gelu<approximate="tanh">(x)'),
    Form("com.microsoft.BiasGelu", TOKENS, "y = com.microsoft.BiasGelu(x, b)", "s = Add(x, b) y = Gelu(s)"),
    Form(
        "com.microsoft.QuickGelu",
        TOKENS,
        "y = com.microsoft.QuickGelu(x)",
        "a = Mul(x, k1) s = Sigmoid(a) y = Mul(x, s)",
    ),
    Form("com.microsoft.FusedMatMul", TOKENS, "y = com.microsoft.FusedMatMul<transB=1>(x, w)", "y = MatMul(x, wt)"),
    Form(
        "com.microsoft.SkipLayerNormalization",
        TOKENS,
        "y = com.microsoft.SkipLayerNormalization(x, x, one_scale, b)",
        "s = Add(x, x) y = LayerNormalization(s, one_scale, b)",
    ),
    Form(
        "com.microsoft.SkipSimplifiedLayerNormalization",
        TOKENS,
        "y = com.microsoft.SkipSimplifiedLayerNormalization(x, x, one_scale)",
        "s = Add(x, x) y = RMSNormalization(s, one_scale)",
    ),
    Form(
        "dynamic dims",
        TOKENS,
        """m = ReduceMean(x, last) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, last) e = Add(v, eps) r =
        Sqrt(e) n = Div(d, r) g = Mul(n, one_scale) y = Add(g, b)""",
        """m = ReduceMean(x, last) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, last) e = Add(v, eps) r =
        Sqrt(e) n = Div(d, r) g = Mul(n, one_scale) y = Add(g, b)""",
        dynamic=True,
    ),
    Form(
        "dynamic dims of products",
        TOKENS,
        "m = MatMul(x, w) s = Add(m, b) g = Gelu(s) y = MatMul(g, w)",
        "m = MatMul(x, w) s = Add(m, b) g = Gelu(s) y = MatMul(g, w)",
        dynamic=True,
    ),
)
NUMBERS = """float half = {0.5}, float one = {1}, float two = {2}, float root = {1.4142135}, float eps = {0.00001},
    float scale = {0.125}, float three = {3}, float six = {6}, float zero = {0}, float k1 = {0.044715},
    float k2 = {0.7978845}, float cap = {50}, int64[1] last = {-1}, int64[1] space = {2}, int64[2] plane = {2, 3},
    int64[4] heads = {1, 128, 12, 64}, int64[3] joined = {1, 128, 768}, int64[3] groups = {1, 8, -1},
    int64[4] image = {1, 64, 56, 56}, int64[1] from = {0}, int64[1] middle = {32}, int64[1] end = {64},
    float qs = {0.02}, uint8 qz = {128}, int8 iz = {0}, float ws = {0.002}"""
FLOATS: dict[str, tuple[int, ...]] = {
    "w": (768, 768), "wt": (768, 768), "wv": (768, 768), "w3": (768, 2304), "b": (768,), "one_scale": (768,),
    "c3": (64, 64, 3, 3), "c1": (256, 256, 3), "c1_4": (256, 256, 1, 3), "channels": (64,), "b64": (64,),
    "slope": (64, 1, 1), "cos": (1, 128, 32), "sin": (1, 128, 32), "cos4": (1, 1, 128, 64), "sin4": (1, 1, 128, 64),
    "mask": (1, 1, 128, 128),
}  # fmt: skip
INTEGERS: dict[str, tuple[int, ...]] = {"m8": (768, 768), "u8": (768, 768), "c8": (64, 64, 3, 3)}
FILLED = {
    "wsc": np.full(768, 0.002, np.float32), "izc": np.zeros(768, np.int8), "ones8": np.ones(8, np.float32),
    "zeros8": np.zeros(8, np.float32), "ones64": np.ones(64, np.float32),
}  # fmt: skip


def constants() -> list[onnx.TensorProto]:
    """The weights by name, each with numbers of its own: engines merge equal ones."""
    arrays: dict[str, Any] = dict(FILLED)
    for name, shape in FLOATS.items():
        arrays[name] = np.random.default_rng([*name.encode()]).normal(0, 0.05, shape).astype(np.float32)
    for name, shape in INTEGERS.items():
        found = np.random.default_rng([*name.encode()]).integers(-60, 60, shape)
        arrays[name] = (found + 128).astype(np.uint8) if name.startswith("u") else found.astype(np.int8)
    return [numpy_helper.from_array(array, name) for name, array in arrays.items()]


def chain(form: Form, text: str, *, dynamic: bool) -> bytes:
    """The model of four units."""
    shape = ",".join([*"AB"[: 2 * dynamic], *map(str, form.shape[2 * dynamic :])])
    source = f"""<ir_version: 10, opset_import: ["": 24, "{MICROSOFT}": 1]>
        g (float[{shape}] x) => (float[{shape}] y) <{NUMBERS}> {{ {text} }}"""
    found = onnx.parser.parse_model(source)
    unit = list(found.graph.node)
    del found.graph.node[:]
    made = {name for node in unit for name in node.output}
    for i in range(UNITS):
        names = {name: f"{name}_{i}" for name in made} | {"x": f"y_{i - 1}" if i else "x"}
        names |= {"y": "y"} if i == UNITS - 1 else {}
        for node in unit:
            copy = found.graph.node.add()
            copy.CopyFrom(node)
            copy.input[:] = [names.get(n, n) for n in node.input]
            copy.output[:] = [names[n] for n in node.output]
    used = {n for node in unit for n in node.input}
    kept = [t for t in (*found.graph.initializer, *constants()) if t.name in used]
    del found.graph.initializer[:]
    found.graph.initializer.extend(kept)
    return found.SerializeToString()


def call_of(form: Form, text: str, config: SessionConfig, *, dynamic: bool = False) -> Callable[[], object]:
    """A call of the chain. Raises EvaluationError."""
    x = np.random.default_rng(1).normal(0, 1, form.shape).astype(np.float32)
    return create_session(chain(form, text, dynamic=dynamic), config).bind({"x": x})


def share(form: Form, config: SessionConfig) -> tuple[float, float]:
    """The median share over pairs of calls, and the seconds of the parts of one unit. Raises EvaluationError."""
    calls = (call_of(form, form.whole, config, dynamic=form.dynamic), call_of(form, form.parts, config))
    pairs: list[list[float]] = []
    began = perf_counter()
    while len(pairs) < WARM_UP + PAIRS and (perf_counter() - began < SECONDS or len(pairs) < WARM_UP + FEWEST):
        times: list[float] = []
        for call in calls:
            start = process_time()
            call()
            times.append(process_time() - start)
        pairs.append(times)
    kept = pairs[WARM_UP:]
    return median(whole / parts for whole, parts in kept), min(parts for _, parts in kept) / UNITS


def main() -> None:
    """Print a row for each form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*")
    parser.add_argument("--engine", default="openvino")
    options = parser.parse_args()
    precisions = [p for p in find_engine(options.engine).precisions if p != "f16"]
    print(f"| form | parts, ms | {' | '.join(precisions)} |\n|---|---:{'|---:' * len(precisions)}|")
    for form in FORMS:
        if options.words and not any(word.lower() in form.name.lower() for word in options.words):
            continue
        shares: list[str] = []
        least = float("inf")
        for precision in precisions:
            config = SessionConfig("ENABLE_ALL", engine=options.engine, precision=precision, intra_op_threads=1)
            try:
                found, seconds = share(form, config)
                shares.append(f"{found:.2f}")
                least = seconds if precision == precisions[0] else least
            except EvaluationError as e:
                shares.append(str(e)[:80])
        print(f"| {form.name} | {1000 * least:.3f} | {' | '.join(shares)} |", flush=True)


if __name__ == "__main__":
    main()
