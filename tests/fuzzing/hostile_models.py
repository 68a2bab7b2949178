"""Models made to crash, hang or exhaust whatever reads them, each from a number.

A kind is a function from a source of randomness to a message, bytes or files; the kinds take turns.
"""

# ruff: noqa: E501 - texts of models

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import pairwise
from math import prod
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import onnx
import onnxruntime
from extreme_models import extreme_model
from onnx import TensorProto, helper

from .cases import as_model, seeds
from .mutations import deep_graph, delimited, mutate_bytes, mutate_model, varint

CRASHERS = Path(__file__).parent / "crashers"
MODEL = "m.onnx"
schemas = cache(onnx.defs.get_all_schemas_with_history)
Files = Mapping[str, bytes]
Hostile = onnx.ModelProto | bytes | Files
EXTREMES = (0, 1, -1, -5, 2, 3, 7, 64, 255, 1 << 16, 2**31 - 1, 2**31, -(2**31), 1 << 40, 10**12, 2**62, 2**63 - 1)
RANKS = (65, 10**4, 10**6, 10**8, 10**9, 2**31 - 1, 2**31, 2**40, 2**62)
VALUES = {
    "f": "float[2,3]", "f3": "float[3,2,4]", "f4": "float[1,4,5,5]", "w": "float[4,4,3,3]", "v": "float[4]",
    "s0": "float[]", "c": "float[1,6,4]", "d": "double[2,3]", "i": "int64[2,1]", "i1": "int64[2]", "i4": "int64[1,4,5,5]", "n": "int64[1]",
    "n0": "int64[]", "b": "bool[2,3]", "k": "bool[]", "u": "uint8[2,3]", "z": "uint8[]", "t": "string[2]",
}  # fmt: skip
"""The types of the values that the nodes of a template may read."""
ATTRIBUTES = """
GatherND<batch_dims={}>(f, i)|Split<num_outputs={}>(f)|Split<axis={}, num_outputs={}>(f)|Conv<group={}>(f4, w)
Conv<kernel_shape=[{}, {}]>(f4, w)|Conv<pads=[{}, {}, {}, {}]>(f4, w)|Conv<dilations=[{}, {}]>(f4, w)|Conv<strides=[{}, {}]>(f4, w)
ConvTranspose<output_shape=[{}, {}]>(f4, w)|ConvTranspose<output_padding=[{}, {}], group={}>(f4, w)|ConvTranspose<strides=[{}, {}]>(f4, w)
MaxPool<kernel_shape=[{}, {}], ceil_mode={}>(f4)|MaxPool<kernel_shape=[2, 2], strides=[{}, {}], pads=[{}, 0, {}, 0]>(f4)|LRN<size={}>(f4)
AveragePool<kernel_shape=[{}, {}], pads=[{}, {}, {}, {}]>(f4)|LpPool<kernel_shape=[{}, {}], p={}>(f4)|GlobalLpPool<p={}>(f4)
Concat<axis={}>(f, f)|Gather<axis={}>(f, i)|GatherElements<axis={}>(f, i)|Flatten<axis={}>(f4)|Softmax<axis={}>(f)|Hardmax<axis={}>(f)
DepthToSpace<blocksize={}>(f4)|SpaceToDepth<blocksize={}>(f4)|EyeLike<k={}>(f)|Trilu<upper={}>(f, n0)|Cast<to={}>(f)|OneHot<axis={}>(i, n0, v)
ArgMax<axis={}>(f)|TopK<axis={}, largest={}>(f, n)|CumSum<reverse={}>(f, n0)|Transpose<perm=[{}, {}]>(f)|Unique<axis={}>(f)|Compress<axis={}>(f, k)
ScatterElements<axis={}>(f, i, f)|ScatterND(f, i, f)|NonMaxSuppression<center_point_box={}>(f3, f3, n, s0, s0)|BitShift<direction="{s}">(u, u)
RoiAlign<output_height={}, output_width={}, sampling_ratio={}>(f4, f, i1)|GridSample<mode="{s}", padding_mode="{s}">(f4, f4)
Col2Im<dilations=[{}, {}], pads=[{}, {}, {}, {}], strides=[{}, {}]>(c, i1, i1)|DFT<inverse={}, onesided={}>(f3, n0, n0)|STFT<onesided={}>(f3, n0, v)
HannWindow<output_datatype={}>(n0)|MelWeightMatrix<output_datatype={}>(n0, n0, n0, s0, s0)|RandomNormal<shape=[{}, {}], dtype={}>()
RandomUniform<shape=[{}]>()|Multinomial<sample_size={}, dtype={}>(f)|Bernoulli<dtype={}>(f)|Shape<start={}, end={}>(f4)|Mod<fmod={}>(f, f)
LSTM<hidden_size={}>(f3, f3, f3)|GRU<hidden_size={}, layout={}>(f3, f3, f3)|RNN<hidden_size={}, activations=["{s}"]>(f3, f3, f3)
LayerNormalization<axis={}, stash_type={}>(f, v)|GroupNormalization<num_groups={}, epsilon=1.0>(f4, v, v)|InstanceNormalization(f4, v, v)
Einsum<equation="{e}">(f, f)|Einsum<equation="{e}">(f, f3, f4)|Einsum<equation="{e}">(f)|ReduceSum<keepdims={}>(f, n)|Pad<mode="{s}">(f, i1)
Resize<axes=[{}, {}], mode="{s}">(f4, , , i1)|Resize<cubic_coeff_a=1.0, antialias={}, mode="cubic">(f4, , v)|CenterCropPad<axes=[{}, {}]>(f, i1)
StringSplit<maxsplit={}, delimiter="{s}">(t)|RegexFullMatch<pattern="{r}">(t)|StringNormalizer<case_change_action="{s}", locale="{s}">(t)
TfIdfVectorizer<max_gram_length={}, max_skip_count={}, min_gram_length={}, mode="TF", ngram_counts=[{}, {}], ngram_indexes=[{}, {}], pool_int64s=[{}, {}]>(i)
QuantizeLinear<axis={}, block_size={}>(f, v, )|DequantizeLinear<axis={}, block_size={}>(u, v, )|QLinearConv<group={}>(u, s0, z, u, s0, z, s0, z)
Attention<q_num_heads={}, kv_num_heads={}>(f3, f3, f3)|RotaryEmbedding<num_heads={}, rotary_embedding_dim={}>(f3, f, f, i)|SequenceEmpty<dtype={}>()
AffineGrid<align_corners={}>(f3, i1)|Gelu<approximate="{s}">(f)|ImageDecoder<pixel_format="{s}">(u)|SplitToSequence<axis={}, keepdims={}>(f, n)
ai.onnx.ml.LabelEncoder<keys_int64s=[{}, {}], values_int64s=[{}]>(i)|ai.onnx.ml.OneHotEncoder<cats_int64s=[{}, {}], zeros={}>(i)
ai.onnx.ml.SVMClassifier<classlabels_ints=[{}], coefficients=[1.0], kernel_params=[1.0], prob_a=[1.0], rho=[1.0], vectors_per_class=[{}, {}]>(f)
ai.onnx.ml.LinearClassifier<classlabels_ints=[{}, {}], coefficients=[1.0], multi_class={}>(f)|ai.onnx.ml.ArrayFeatureExtractor(f, i)
ai.onnx.ml.Imputer<imputed_value_int64s=[{}], replaced_value_int64={}>(i)|ai.onnx.ml.CategoryMapper<cats_int64s=[{}], cats_strings=["{s}", "x"]>(t)
com.microsoft.Attention<num_heads={}>(f3, f, v)|com.microsoft.MultiHeadAttention<num_heads={}>(f3, f3, f3)
com.microsoft.GroupQueryAttention<num_heads={}, kv_num_heads={}>(f3, f3, f3, f4, f4, i, n0)|com.microsoft.MatMulNBits<K={}, N={}, bits={}, block_size={}>(f, u, v)
com.microsoft.RotaryEmbedding<num_heads={}, rotary_embedding_dim={}>(f3, i, f, f)|com.microsoft.EmbedLayerNormalization(i, i, f, f, f, v, v)
com.microsoft.QAttention<num_heads={}>(u, u, v, s0, s0)|com.microsoft.CropAndResize<mode="{s}">(f4, f, i1, i1)|com.microsoft.Rfft<signal_ndim={}, normalized=0, onesided=1>(f)
com.microsoft.SparseAttention<num_heads={}, kv_num_heads={}, sparse_block_size={}>(f3, f3, f3, f4, f4, i, i, n0, i1)|com.microsoft.NGramRepeatBlock<ngram_size={}>(i, f)
com.microsoft.DequantizeBFP<bfp_type={}, block_dims=[{}], dtype={}>(u, i1, i1)|com.microsoft.BifurcationDetector<min_ngram_size={}, max_ngram_size={}>(i1, i1, i1)
com.microsoft.QMoE<k={}>(f, f, u, v, v, u, v, v)|com.microsoft.MoE<k={}>(f, f, f3, f, f3)|com.microsoft.WordConvEmbedding<embedding_size={}, conv_window_size={}>(i, f, v, f)
com.microsoft.Tokenizer<mark={}, mincharnum={}, pad_value="{s}", separators=["{s}"]>(t)|com.microsoft.Inverse(f)|com.microsoft.GridSample(f4, f4)|com.microsoft.Unique(v)
com.microsoft.BeamSearch<eos_token_id={}, pad_token_id={}>(i, n, n, n, n, v)|com.microsoft.TransposeMatMul<transA={}>(f, f)|com.microsoft.QuickGelu(f)
com.microsoft.GatherBlockQuantized<gather_axis={}, quantize_axis={}, block_size={}>(u, i, v)|com.microsoft.MaxpoolWithMask<kernel_shape=[{}, {}]>(f4, i4)
"""
RANK_OPERATORS = """
Col2Im(f3, r, i1)|ConstantOfShape(r)|Expand(f, r)|Reshape(f, r)|Resize(f4, , , r)|AffineGrid(f3, r)|Tile(f, r)|Pad(f, r)|Slice(f, r, r)|Squeeze(f, r)
Unsqueeze(f, r)|ReduceSum(f, r)|CenterCropPad(f, r)|MaxUnpool(f4, i4, r)|Split(f, r)|SplitToSequence(f, r)|Col2Im(f3, i1, r)|ReduceMax(f, r)|Slice(f, i1, i1, r)
GatherND(f, r)|Gather(f, r)|ScatterND(f, r, f)|OneHot(r, n0, v)|Loop(r, k)|Upsample(f4, r)|Trilu(f, r)|TopK(f, r)|Range(r, r, r)|DFT(f3, r, r)
"""
HUGE_OPERATORS = """
y = ConstantOfShape(l)|y = Expand(f, l)|y = Tile(v, l)|y = Range(n0, h, one)|y = Pad(v, p)|y = OneHot(i, l, v)|y = HannWindow(h)|a = ConstantOfShape(l) y = NonZero(a)
a = ConstantOfShape(l) y = Size(a)|a = Expand(s0, l) y = ReduceSum(a)|a = Range(n0, h, one) y = Gather(a, i)|y = BlackmanWindow(h)|a = Range(n0, h, one) y = EyeLike(a)
a = ConstantOfShape(l) b = Shape(a) y = ConstantOfShape(b)|a = ConstantOfShape(l) y = SplitToSequence<keepdims=0>(a)|a = Tile(t, l) y = StringSplit(a)|y = DFT(f3, h)
y = MelWeightMatrix(h, h, h, s0, s0)|a = Unsqueeze(v, n) b = Expand(v, l) y = MatMul(a, b)|a = Expand(v, l) b = Transpose(a) y = Mul(a, b)|y = Resize(v, , , l)
a = ConstantOfShape(l) y, b = TopK(a, l)|a = Expand(v, l) y = Softmax(a)|a = Expand(s0, l) b = Unsqueeze(a, n) c1 = Transpose(b) y = MatMul(b, c1)
a = Tile(f, l) b = Tile(a, l) y = Tile(b, l)|a = Range(n0, h, one) b = Cast<to=1>(a) y = CumSum(b, n0)|a = ConstantOfShape(l) y = Cast<to=8>(a)
"""
SIZES = (10**6, 10**8, 3 * 10**8, 10**9, 10**10, 10**12, 2**40, 2**61, 2**63 - 1)
EQUATIONS = (
    "->", ",", "i,j->", "i,,j->k", "...,...->......", "ij,jk->ik->", "i...j,...->ij", "->i", "ij", "i-j", "ii,ii->ii",
    "ij,jk -> i k", "....i->i", "...i..., j->",
    "i>", "a" * 60 + "->a", "é,é->é", "i,j->ij...", "- >", "i.j,jk->ik", "ij,j\u0130->i", "1,2->", "..", "i,..j->",
    ".,.->.", "ij,jk->" + "ik" * 40, "i>-", "",
)  # fmt: skip
PATTERNS = (
    "(a+)+b",
    "(a|a)*" * 20,
    "((a{1,100}){1,100}){1,100}",
    "(" * 5000,
    "a{1000}{1000}",
    "[^\\\\x00]" * 500,
    "(?:" * 900 + "a" + ")" * 900,
    "\\\\",
    "(?P<a>",
)
WORDS = (
    "",
    "LEFT",
    "RIGHT",
    "nearest",
    "cubic",
    "reflect",
    "wrap",
    "edge",
    "UPPER",
    "tanh",
    "Relu",
    "\\n",
    "x" * 300,
    "en_US.UTF-8",
    "zz",
    "RGB",
    "none",
    "C",
)
NAMES = (
    "::error title=passed::x", "::stop-commands::x", "##[error]x", "=cmd|' /C calc'!A0", "@SUM(1)", "+1", "-1",
    "\x1b[2J\x1b[31mred", "\x1b]0;title\x07", "a\nerror: no", "a\rb",
    "\u202eevil", "\u2066x", "\0", "a" * 100_000, "<script>alert(1)</script>", "../../escape", "/etc/passwd", "%s%n%n",
    "{0.__class__}", "", " ", "\u2028", "\x85", "\x9b31m", "'; --", "\ufeffx",
    "\ud7ff", "e\u0301" * 50, "`id`", "$(id)", "[link](http://x)", "|a|b|", "\t", "\x7f", "::add-mask::", "&amp;",
    "true", "null", "0x10", "N*M", "N" * 5000,
)  # fmt: skip


def hostile_files(number: int) -> dict[str, bytes]:
    """The files of the model of a number, by name."""
    rng = Random(f"hostile {number}")
    made = KINDS[number % len(KINDS)](rng)
    if isinstance(made, onnx.ModelProto):
        made = made.SerializeToString()
    return {MODEL: made} if isinstance(made, bytes) else dict(made)


def kind_of(number: int) -> str:
    """The name of the kind of the model of a number."""
    return KINDS[number % len(KINDS)].__name__


def text_model(
    nodes: str,
    constants: Sequence[TensorProto] = (),
    inputs: Sequence[str] = (),
    *,
    opset: int = 21,
    outputs: str = "y",
) -> onnx.ModelProto:
    """A model in ONNX's text form; inputs are declared, and constants are those that it reads."""
    header = f'<ir_version: 10, opset_import: ["": {opset}, "ai.onnx.ml": 3, "com.microsoft": 1]>'
    model = onnx.parser.parse_model(f"{header} g ({', '.join(inputs)}) => ({outputs}) {{ {nodes} }}")
    model.graph.initializer.extend(constants)
    return model


def with_values(nodes: str, rng: Random, *, opset: int = 21, **constants: TensorProto) -> onnx.ModelProto:
    """A model whose nodes read `VALUES`, each an input or a constant, and other constants."""
    read = set(re.findall(r"\b[a-z]\w*\b", re.sub(r'"[^"]*"|<[^>]*>', "", nodes)))
    given, inputs = [constants[name] for name in sorted(read & constants.keys())], list[str]()
    for name in sorted(read & VALUES.keys() - constants.keys()):
        kind, dims = VALUES[name].rstrip("]").split("[")
        shape = [int(d) for d in dims.split(",") if d]
        if rng.random() < 0.5:
            symbolic = ["N" if rng.random() < 0.2 else str(d) for d in shape]
            inputs.append(f"{kind}[{','.join(symbolic)}] {name}" if shape else f"{kind} {name}")
        else:
            element = TensorProto.DataType.Value(kind.upper())
            given.append(helper.make_tensor(name, element, shape, ["ab" if kind == "string" else 1] * prod(shape)))
    return text_model(nodes, given, inputs, opset=opset)


def filled(template: str, rng: Random) -> str:
    """A template with extreme numbers, texts, equations and patterns in its gaps."""
    gaps: dict[str, Callable[[], Any]] = {
        "{}": lambda: rng.choice(EXTREMES), "{s}": lambda: rng.choice(WORDS),
        "{e}": lambda: equation(rng), "{r}": lambda: rng.choice(PATTERNS),
    }  # fmt: skip
    return re.sub(r"\{[ser]?\}", lambda gap: str(gaps[gap[0]]()), template)


def equation(rng: Random) -> str:
    """An equation of Einsum, mostly malformed."""
    if rng.random() < 0.5:
        return rng.choice(EQUATIONS)
    return "".join(
        rng.choice(("i", "j", "k", ",", "->", "...", ".", "-", ">", " ", "Z")) for _ in range(rng.randrange(1, 12))
    )


def one_of(table: str, rng: Random) -> str:
    """A row of a table of operators."""
    return rng.choice([row for line in table.split("\n") for row in line.split("|") if row])


def integers(name: str, *numbers: int, dims: Sequence[int] | None = None) -> TensorProto:
    """A constant of integers."""
    return helper.make_tensor(name, TensorProto.INT64, [len(numbers)] if dims is None else dims, numbers)


def attribute_bomb(rng: Random) -> Hostile:
    """An operator whose attributes are out of range."""
    return with_values(f"y = {filled(one_of(ATTRIBUTES, rng), rng)}", rng, opset=rng.choice((13, 18, 21, 23)))


def einsum(rng: Random) -> Hostile:
    """An equation that is malformed."""
    operands = ", ".join(rng.choices(("f", "f3", "f4", "v", "s0"), k=rng.choice((1, 2, 2, 3))))
    return with_values(f'y = Einsum<equation="{equation(rng)}">({operands})', rng)


def operator_extremes(rng: Random) -> Hostile:
    """A version of any operator with attributes, constants and extents at the ends of their types."""
    while (model := extreme_model(rng, rng.choice(schemas()))) is None:
        pass
    return model


def rank_bomb(rng: Random) -> Hostile:
    """An operator for which the extent of a value is a rank."""
    rank, operator = rng.choice(RANKS), one_of(RANK_OPERATORS, rng)
    opset = 9 if operator.startswith("Upsample") else 21
    match rng.randrange(5):
        case 0 | 1:
            model = with_values(f"y = {operator}", rng, opset=opset)
            model.graph.input.append(helper.make_tensor_value_info("r", TensorProto.INT64, [rank]))
        case 2:
            model = with_values(
                f"r = ConstantOfShape<value=int64[1] {{{rng.choice((1, 0, 2))}}}>(q) y = {operator}",
                rng,
                opset=opset,
                q=integers("q", rank),
            )
        case 3:
            model = with_values(
                f"r = Expand(one1, q) y = {operator}", rng, opset=opset, q=integers("q", rank), one1=integers("one1", 1)
            )
        case _:
            model = with_values(f"y = {operator}", rng, opset=opset, r=integers("r", *[1] * min(rank, 10**5)))
    return model


def huge_result(rng: Random) -> Hostile:
    """Small constants from which ops compute huge ones."""
    size = rng.choice(SIZES)
    l = [size] if rng.random() < 0.6 else [size // 3, 3] if rng.random() < 0.5 else [65536] * rng.choice((2, 3, 4))  # noqa: E741 - a name of the templates
    return with_values(
        one_of(HUGE_OPERATORS, rng), rng, l=integers("l", *l), h=integers("h", size, dims=[]), p=integers("p", 0, size),
        one=integers("one", 1, dims=[]), n0=integers("n0", 0, dims=[]), n=integers("n", 1),
    )  # fmt: skip


def large_ends(rng: Random) -> Hostile:
    """Inputs or outputs of which a process may hold one, but not the copies, samples and batches that it makes."""
    size, count = rng.choice((10**6, 2 * 10**7, 6 * 10**7, 10**8, 2 * 10**8, 2**28, 10**9)), rng.choice((1, 1, 2, 9))
    kind = rng.choice(("float", "float", "double", "int64", "uint8", "bool", "float16", "string"))
    shape = rng.choice(("{0}", "N,{0}", "N,{0}", "1,{0}", "{0},N", "{1},{1}")).format(size, int(size**0.5))
    if rng.random() < 0.5:
        op = rng.choice(("Identity", "Shape", "Size", "Identity"))
        nodes, outputs = [f"y{n} = {op}(x{n})" for n in range(count)], [f"y{n}" for n in range(count)]
        return text_model(
            " ".join(nodes), inputs=[f"{kind}[{shape}] x{n}" for n in range(count)], outputs=", ".join(outputs)
        )
    nodes = ["m = MatMul(x, w)", "a = ReduceSum<keepdims=0>(m)"]
    for n in range(count):
        nodes.append(f"e{n} = Expand(a, l) y{n} = Cast<to={rng.choice((1, 1, 11, 7, 2, 10, 9, 8))}>(e{n})")
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 4], [float(n % 7) for n in range(16)])
    outputs = ", ".join(f"y{n}" for n in range(count))
    return text_model(" ".join(nodes), [weights, integers("l", size)], ["float[N,4] x"], outputs=outputs)


def endless_loop(rng: Random) -> Hostile:
    """A Loop of 2**60 trips, or of none that its condition ends, whose values may grow."""
    body = rng.choice((
        "w = Abs(v)", "w = Concat<axis=0>(v, v)", "w = Tile(v, two)", "w = Add(v, v)", "a = Abs(v) w = MatMul(a, a)",
        "w = Loop(trips, k, v) <body = b2 (int64 j, bool m, float[M] p) => (bool o, float[M] q) { o = Identity(m) q = Neg(p) }>",
        "w = If(k) <then_branch = t () => (float[M] q) { q = Neg(v) }, else_branch = e () => (float[M] q) { q = Identity(v) }>",
    ))  # fmt: skip
    trips = rng.choice((2**60, 10**6, 2**63 - 1, 10**9)) - rng.randrange(1000)
    scan = rng.random() < 0.4
    results, outs = ("bool l, float[M] w, float[M] z", "y, ys") if scan else ("bool l, float[M] w", "y")
    limit = rng.choice(("trips", "trips", ""))
    nodes = f"{outs} = Loop({limit}, yes, v0) <body = b (int64 i, bool k, float[M] v) => ({results}) {{ l = Identity(k) {body} {'z = Abs(v)' if scan else ''} }}>"
    inputs = ["float[4] v0"] if rng.random() < 0.5 else []
    constants = [
        integers("trips", trips, dims=[]), integers("two", 2), helper.make_tensor("yes", TensorProto.BOOL, [], [True]),
        *([] if inputs else [helper.make_tensor("v0", 1, [4], [1.0] * 4)]),
    ]  # fmt: skip
    return text_model(nodes, constants, inputs, outputs="float[K] y")


def growth(rng: Random) -> Hostile:
    """A chain of constants that doubles at each node."""
    count = rng.choice((rng.randrange(15, 60), rng.randrange(100, 1000)))
    first, step = rng.choice((
        ("a0 = Constant<value_ints=[1, 2]>()", "a{b} = Concat<axis=0>(a{a}, a{a})"),
        ('a0 = Constant<value_strings=["abcdefgh"]>()', "a{b} = StringConcat(a{a}, a{a})"),
        ("a0 = Constant<value_floats=[1.0, 2.0]>()",
        "b{a} = Unsqueeze(a{a}, n) c{a} = Transpose(b{a}) d{a} = MatMul(b{a}, c{a}) a{b} = Reshape(d{a}, m)"),
        ("a0 = Constant<value_floats=[1.0, 2.0]>()",
        "s{a} = SequenceConstruct(a{a}, a{a}) a{b} = ConcatFromSequence<axis=0>(s{a})"),
        ("a0 = Constant<value_floats=[1.0, 2.0]>()", "a{b} = Add(a{a}, a{a})"),
        ("a0 = Identity(v)", "b{a} = Unsqueeze(a{a}, n) c{a} = Expand(b{a}, e) a{b} = Reshape(c{a}, m)"),
    ))  # fmt: skip
    nodes = " ".join((first, *(step.format(a=i, b=i + 1) for i in range(count)), f"y = Identity(a{count})"))
    return text_model(nodes, [integers("n", 1), integers("m", -1), integers("e", 1, 1000)], ["float[4] v"])


def many(rng: Random) -> Hostile:
    """Very many of something in a file below a megabyte."""
    count = rng.choice((3000, 12_000, 29_000)) + rng.randrange(1000)
    model = text_model("y = Abs(f)", inputs=["float[2] f"], outputs="float[2] y")
    graph = model.graph
    match rng.randrange(9):
        case 0:
            graph.node.extend(helper.make_node("Abs", [f"a{i}" if i else "f"], [f"a{i + 1}"]) for i in range(count))
        case 1:
            graph.node.extend(helper.make_node("Abs", ["f"], [f"a{i}"]) for i in range(count))
            graph.output.extend(helper.make_tensor_value_info(f"a{i}", 1, [2]) for i in range(count // 2))
        case 2:
            graph.input.extend(helper.make_tensor_value_info(f"a{i}", 1, [2]) for i in range(count))
        case 3:
            graph.node.append(helper.make_node(rng.choice(("Sum", "Max", "Concat")), ["f"] * count, ["a"], axis=0))
        case 4:
            model.opset_import.extend(helper.make_opsetid(f"d{i}", 1) for i in range(count))
        case 5:
            graph.value_info.extend(helper.make_tensor_value_info("y", 1, [i]) for i in range(count))
        case 6:
            graph.node[0].attribute.extend(helper.make_attribute(f"a{i}", i) for i in range(count))
        case 7:
            model.metadata_props.extend(onnx.StringStringEntryProto(key="k", value=str(i)) for i in range(count))
        case _:
            graph.node.append(helper.make_node("Split", ["f"], [f"a{i}" for i in range(count)], num_outputs=count))
    return model


def deep(rng: Random) -> Hostile:
    """Subgraphs, types or unknown groups in each other, many levels deep."""
    depth = rng.choice((rng.randrange(10, 34), rng.randrange(34, 60), rng.randrange(1000, 9000)))
    model = text_model("y = Abs(f)", inputs=["float[2] f"], outputs="float[2] y")
    data = model.SerializeToString()
    match rng.randrange(4):
        case 0:
            return data + deep_graph(depth)
        case 1:
            return data + varint(200 << 3 | 3) * depth + varint(200 << 3 | 4) * depth
        case 2:
            kind = onnx.TypeProto(tensor_type=onnx.TypeProto.Tensor(elem_type=1)).SerializeToString()
            for _ in range(depth):
                kind = delimited(rng.choice((4, 9)), delimited(1, kind))
            return data + delimited(7, delimited(11, delimited(1, b"q") + delimited(2, kind)))
        case _:
            body = "q = Neg(f)"
            for level in range(min(depth, 30)):
                branch = f"() => (float[2] q) {{ {body} }}"
                body = f"q = If(k) <then_branch = t{level} {branch}, else_branch = e{level} () => (float[2] q) {{ q = Abs(f) }}>"
            return text_model(body + " y = Abs(q)", inputs=["float[2] f", "bool k"], outputs="float[2] y")


def wrong_graph(rng: Random) -> Hostile:
    """Cycles, names that are defined twice or never, captured names, loops with wrong bodies."""
    nodes = rng.choice((
        "a = Add(b, f) b = Neg(a) y = Abs(b)", "y = Abs(y)", "y = Abs(f) y = Neg(f)", "y = Abs(nothing)",
        "f = Neg(f) y = Abs(f)",
        "y = If(k) <then_branch = t () => (y) { y = Abs(y) }, else_branch = e () => (f) { }>",
        "y = If(k) <then_branch = t () => (f) { }, else_branch = e () => (q) { q = If(q) <then_branch = t () => (q) { }> }>",
        "y = Loop(n0, k) <body = b () => () { }>",
        "y = Loop(n0, k, f) <body = b (int64 i, bool c, float v) => (c) { }>",
        "y = Scan<num_scan_inputs={}, body = b (float[3] p, float[3] q) => (float[3] p) { }>(f, f)",
        "y = Scan<num_scan_inputs=1, scan_input_axes=[{}], scan_input_directions=[{}], body = b (float[3] p) => (float[3] q) { q = Abs(p) }>(f)",
        "y = SequenceMap(f) <body = b (float p) => (float q) { q = Abs(p) }>", "y, y = Split(f)",
        "y = Abs(f, f, f, f)", "y = Conv(f4)", "y = Add()", "y = LSTM(, , , , , , )",
    ))  # fmt: skip
    return with_values(filled(nodes, rng), rng)


def functions(rng: Random) -> Hostile:
    """Functions that multiply, call themselves, shadow operators, or take attributes that nobody gives."""
    depth, calls = rng.choice((1, 5, 30, 500)), rng.choice((1, 2, 3, 10))
    model = text_model("y = Abs(f)", inputs=["float[2] f"], outputs="float[2] y")
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("h", 1)]
    model.opset_import.append(helper.make_opsetid("h", rng.choice((1, 2))))
    model.graph.node[0].CopyFrom(helper.make_node("F0", ["f"], ["y"], domain="h"))
    for i in range(depth):
        names = ["x", *(f"t{j}" for j in range(1, calls)), "o"]
        body = [helper.make_node(f"F{i + 1}", [a], [b], domain="h") for a, b in pairwise(names)]
        model.functions.append(helper.make_function("h", f"F{i}", ["x"], ["o"], body, opsets))
    match rng.randrange(5):
        case 0:
            last = [helper.make_node(f"F{rng.randrange(depth)}", ["x"], ["o"], domain="h")]
        case 1:
            last = [helper.make_node("Abs", ["x"], ["o"]), helper.make_node("Neg", ["missing"], ["o"])]
        case 2:
            last = [helper.make_node("Constant", [], ["o"])]
            last[0].attribute.add(name="value_ints", ref_attr_name="nobody", type=7)
        case 3:
            last = []
        case _:
            last = [helper.make_node("Neg", ["x"], ["o"])]
            model.functions.append(
                helper.make_function("", "Neg", ["x"], ["o"], [helper.make_node("Neg", ["x"], ["o"])], opsets)
            )
    model.functions.append(helper.make_function("h", f"F{depth}", ["x"], ["o"], last, opsets))
    return model


def names(rng: Random) -> Hostile:  # noqa: C901 - a case for each place
    """Names with controls, escapes, commands, formulas or of other lengths, where any name is."""
    a, b = rng.choice(NAMES), rng.choice(NAMES)
    model = text_model("m0 = Identity(f) m1 = Abs(m0) y = Neg(m1)", inputs=["float[2] f"], outputs="float[2] y")
    graph, node = model.graph, model.graph.node[1]
    match rng.randrange(11):
        case 0:
            graph.input[0].name = graph.node[0].input[0] = a
        case 1:
            graph.output[0].name = graph.node[2].output[0] = a
        case 2:
            node.output[0] = graph.node[2].input[0] = a
        case 3:
            node.name, graph.name = a, b
        case 4:
            node.domain, node.op_type = a, b
            model.opset_import.add(domain=a, version=1)
        case 5:
            graph.input[0].type.tensor_type.shape.dim[0].dim_param = a
        case 6:
            node.attribute.add(name=a, type=3, s=b.encode("utf-8"))
        case 7:
            model.producer_name, model.doc_string, model.domain = a, b, a
            model.metadata_props.add(key=a, value=b)
        case 8:
            node.input[0] = a
        case 9:
            graph.initializer.append(helper.make_tensor(a, 1, [2], [1.0, 2.0]))
            node.op_type = "Add"
            node.input.append(a)
        case _:
            graph.doc_string, node.doc_string = a, b
            return model.SerializeToString().replace(b"m0", b"\xff\xfe").replace(b"m1", b"\xc0\x80")
    return model


def lying_tensor(rng: Random) -> Hostile:
    """A constant whose dims, type, data and place disagree."""
    model = text_model("y = Add(f, c)", inputs=["float[2] f"], outputs="y")
    tensor = model.graph.initializer.add(name="c", data_type=1, dims=[2], raw_data=bytes(8))
    extremes, files = (0, 1, -1, 2, 3, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63)), dict[str, bytes]()
    match rng.randrange(8):
        case 0:
            del tensor.dims[:]
            tensor.dims.extend(rng.choices(extremes, k=rng.choice((1, 2, 3, 4, 8, 65, 1000))))
        case 1:
            tensor.data_type = rng.choice((*range(-1, 30), 99, 2**31 - 1, -(2**31)))
        case 2:
            tensor.raw_data = bytes(rng.choice((0, 1, 7, 9, 4000)))
        case 3:
            tensor.ClearField("raw_data")
            getattr(
                tensor, rng.choice(("float_data", "int32_data", "int64_data", "double_data", "uint64_data"))
            ).extend([1] * rng.choice((0, 1, 2, 3, 1000)))
        case 4:
            tensor.data_type = 8
            tensor.ClearField("raw_data")
            tensor.string_data.extend([b"\xff\xfe\0", b"a" * rng.choice((1, 10**5))][: rng.choice((1, 2))])
        case 5:
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            places = (
                "w.bin",
                "m.onnx",
                "../m.onnx",
                "/etc/passwd",
                "/dev/zero",
                "/proc/self/mem",
                "",
                ".",
                "w.bin/",
                "a\0b",
                "w" * 5000,
                "\\\\host\\x",
                "file:///etc/passwd",
                "link",
            )
            tensor.external_data.add(key="location", value=rng.choice(("w.bin", *places)))
            for key in ("offset", "length", "checksum"):
                if rng.random() < 0.6:
                    tensor.external_data.add(
                        key=key,
                        value=rng.choice(
                            (*map(str, extremes), "", "x", "1e9", "0x10", " 8", "8 ", "+8", "8.0", "\u0668", "9" * 5000)
                        ),
                    )
            files = {"w.bin": bytes(64)}
        case 6:
            model.graph.initializer.pop()
            sparse, count = model.graph.sparse_initializer.add(), rng.choice((0, 1, 3))
            sparse.values.CopyFrom(helper.make_tensor("c", rng.choice((1, 7)), [count], [1] * count))
            indices = rng.choices(extremes, k=count * rng.choice((1, 1, 2)))
            sparse.indices.CopyFrom(integers("", *indices))
            sparse.dims.extend(rng.choices(extremes, k=rng.choice((0, 1, 2, 3))))
        case _:
            kinds = [
                onnx.TensorProto.INT4,
                onnx.TensorProto.UINT4,
                onnx.TensorProto.FLOAT4E2M1,
                onnx.TensorProto.FLOAT8E5M2,
                onnx.TensorProto.COMPLEX64,
                onnx.TensorProto.BFLOAT16,
            ]
            tensor.data_type = rng.choice(kinds)
            tensor.dims[0] = rng.choice((1, 3, 15, 16, 17, 2**40))
            model.graph.input[0].type.tensor_type.elem_type = tensor.data_type
    return {MODEL: model.SerializeToString(), **files}


def lying_type(rng: Random) -> Hostile:  # noqa: C901, PLR0912 - a case for each lie
    """Types in each other or of unknown elements, extents out of range, versions that do not exist."""
    model = text_model("y = Abs(f)", inputs=["float[2] f"], outputs="float[2] y")
    value = rng.choice((model.graph.input[0], model.graph.output[0]))
    match rng.randrange(7):
        case 0:
            for _ in range(rng.choice((1, 2, 20))):
                inner = onnx.TypeProto()
                inner.CopyFrom(value.type)
                value.type.Clear()
                match rng.randrange(3):
                    case 0:
                        value.type.sequence_type.elem_type.CopyFrom(inner)
                    case 1:
                        value.type.optional_type.elem_type.CopyFrom(inner)
                    case _:
                        value.type.map_type.key_type = rng.choice((7, 8, 1, 0, 99))
                        value.type.map_type.value_type.CopyFrom(inner)
        case 1:
            value.type.tensor_type.elem_type = rng.choice((0, -1, 8, 14, 17, 23, 25, 99, 2**31 - 1))
        case 2:
            del value.type.tensor_type.shape.dim[:]
            for _ in range(rng.choice((1, 2, 5, 1000, 10**5))):
                value.type.tensor_type.shape.dim.add(dim_value=rng.choice(EXTREMES))
        case 3:
            model.opset_import[0].version = rng.choice((0, -1, 1, 5, 999, 10**9, 2**63 - 1, -(2**63)))
        case 4:
            model.ir_version = rng.choice((0, 1, 2, 3, 99, -1, 2**63 - 1))
            if rng.random() < 0.5:
                del model.opset_import[:]
        case 5:
            model.graph.node[0].domain = rng.choice(
                ("ai.onnx", "unknown", "com.microsoft", "ai.onnx.training", "ai.onnx.preview.training")
            )
            if rng.random() < 0.5:
                model.opset_import.add(domain=model.graph.node[0].domain, version=rng.choice((0, 1, 10**9)))
        case _:
            model.graph.ClearField(rng.choice(("node", "input", "output", "name")))
    return model


def tree_ensemble(rng: Random) -> Hostile:
    """Trees with cycles, missing nodes, or weights and targets that do not exist."""
    count = rng.choice((1, 3, 100, 5000))

    def some(*choices: int) -> list[int]:
        return [rng.choice((*choices, rng.randrange(count))) for _ in range(count)]

    modes = [rng.choice(("BRANCH_LEQ", "BRANCH_EQ", "BRANCH_LEQ", "LEAF", "BRANCH_XX")) for _ in range(count)]
    shared: dict[str, Any] = {
        "nodes_falsenodeids": some(), "nodes_truenodeids": some(), "nodes_featureids": some(0, 1, -1, 2**40),
        "nodes_modes": modes,
        "nodes_nodeids": list(range(count)) if rng.random() < 0.7 else some(-1, 2**62),
        "nodes_treeids": [0] * count if rng.random() < 0.7 else some(-1), "nodes_values": [1.0] * count,
    }  # fmt: skip
    if count > 1 and rng.random() < 0.3:
        shared[rng.choice(sorted(shared))].pop()
    name, extra = rng.choice((
        ("TreeEnsembleRegressor", {"n_targets": rng.choice((1, 0, -1, 2**31, 2**62)), "target_ids": [0, 9],
        "target_nodeids": [0, -1], "target_treeids": [0, 7], "target_weights": [1.0, 1.0]}),
        ("TreeEnsembleClassifier", {"classlabels_int64s": [0, 1], "class_ids": [0, 5], "class_nodeids": [0, 1],
        "class_treeids": [0, 0], "class_weights": [1.0, 1.0]}),
    ))  # fmt: skip
    model = text_model("y = Abs(f)", inputs=["float[2,3] f"], outputs="y")
    model.graph.node[0].CopyFrom(helper.make_node(name, ["f"], ["y"], domain="ai.onnx.ml", **shared, **extra))
    return model


def long_text(rng: Random) -> Hostile:
    """A text, a list or a shape of hundreds of thousands of elements in an attribute."""
    size = rng.choice((10**4, 10**5, 3 * 10**5))
    row = rng.choice(("Transpose<perm={l}>(f)", 'Einsum<equation="{t}">(f, f)', 'RegexFullMatch<pattern="{t}">(t)',
        "Pad<pads={l}>(f)", "Conv<kernel_shape={l}, pads={l}>(f4, w)",
        "Squeeze<axes={l}>(f)", "Unsqueeze<axes={l}>(f)", "ReduceSum<axes={l}>(f)", "Reshape<shape={l}>(f)",
        "RandomNormal<shape={l}>()", "Split<split={l}>(f)", "MaxPool<kernel_shape={l}>(f4)"))  # fmt: skip
    number, letter = rng.choice((0, 1, 2, -1)), rng.choice(("i", "i,", "(a", "...", "->", "a{9}", "a*"))
    filled_row = row.replace("{l}", f"[{','.join([str(number)] * (size // 4))}]").replace(
        "{t}", letter * (size // len(letter))
    )
    return with_values(f"y = {filled_row}", rng, opset=rng.choice((7, 11, 21)))


def damaged_message(rng: Random) -> Hostile:
    """A model of the fuzzer after several mutations of its messages."""
    model = onnx.ModelProto()
    model.CopyFrom(rng.choice(seeds()))
    data = b""
    for _ in range(rng.choice((1, 3, 6))):
        data = mutate_model(model, rng, rng.sample(seeds(), 3))
        model = as_model(data) or model
    return data


def damaged_bytes(rng: Random) -> Hostile:
    """A serialized model with damage in its wire format."""
    data = rng.choice(seeds()).SerializeToString()
    match rng.randrange(6):
        case 0:
            return bytes(rng.randrange(256) for _ in range(rng.choice((0, 1, 10, 1000))))
        case 1:
            return data * 2
        case 2:
            return data + delimited(7, b"") * rng.choice((1, 1000, 100_000))
        case 3:
            return data[: rng.randrange(len(data))] + b"\xff" * rng.choice((1, 9, 10, 11, 1000))
        case _:
            return mutate_bytes(data, rng)


@cache
def ort_file() -> bytes:
    """A model in onnxruntime's own format, with a body and weights."""
    body = "=> (float[2,3] z) { z = Add (f, w) }"
    model = text_model(
        f"k = Constant <value_int=1> () b = Cast <to=9> (k) y = If (b) <then_branch = t () {body}, else_branch = e () {body}>",
        [helper.make_tensor("w", TensorProto.FLOAT, [2, 3], range(6))],
        ["float[2,3] f"],
    )
    options: Any = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    with TemporaryDirectory() as folder:
        options.optimized_model_filepath = f"{folder}/m.ort"
        onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return Path(folder, "m.ort").read_bytes()


def damaged_ort_file(rng: Random) -> Hostile:
    """A file in onnxruntime's own format: cut off, with other bytes, or with offsets and lengths that lie."""
    data = bytearray(ort_file())
    for _ in range(rng.choice((0, 1, 3, 20))):
        at = rng.randrange(8, len(data) - 4)
        if rng.random() < 0.5:
            data[at] = rng.randrange(256)
        else:
            known = int.from_bytes(data[(other := rng.randrange(8, len(data) - 4) & ~3) : other + 4], "little")
            lie = rng.choice((0, 1, 4, len(data), 0x7FFFFFFF, 0xFFFFFFFF, known))
            data[at & ~3 : (at & ~3) + 4] = lie.to_bytes(4, "little")
    return bytes(data[: rng.randrange(8, len(data))] if rng.random() < 0.3 else data)


def crasher(rng: Random) -> Hostile:
    """A model that crashed a native library once, or a mutation of such a model."""
    data = rng.choice(sorted(CRASHERS.glob("*.onnx"))).read_bytes()
    model = as_model(data) if rng.random() < 0.7 else None
    return data if model is None else mutate_model(model, rng, seeds()[:9])


Kind = Callable[[Random], Hostile]
KINDS: tuple[Kind, ...] = (
    attribute_bomb, rank_bomb, huge_result, operator_extremes, lying_tensor, names, attribute_bomb, endless_loop,
        lying_type,
    damaged_message, growth, many, einsum, deep, attribute_bomb, wrong_graph, functions, tree_ensemble,
        operator_extremes, rank_bomb,
    long_text, damaged_bytes, damaged_message, large_ends, crasher, damaged_ort_file,
)  # fmt: skip
