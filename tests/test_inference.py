"""Symbolic shapes and elements, compared with results of onnxruntime."""

import re
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from extreme_models import extreme_models
from passwright.core import Model, Op, PassesError, Value, from_onnx, inference, to_onnx
from passwright.core.ir.expressions import (
    MAX_EXPR_SIZE,
    Atom,
    Expr,
    Shape,
    SymInt,
    Unknown,
    atoms,
    expr_size,
    is_unresolved,
    substitute,
)
from passwright.core.ort.backends import LoadedModel
from passwright.core.verify.input_search import InputSearch
from passwright.core.verify.input_sets import InputSet
from passwright.core.verify.input_specs import input_specs
from rewriting import each, load
from tiers import GOLDEN_SAMPLE, part_of, slow_unless

from passwright import optimize

GOLDEN = sorted((Path(__file__).parent.parent / "golden_models").glob("*.onnx"))
RUNS = 4
# If a window is larger than its input, onnxruntime rounds towards zero and ONNX's formula down.
LARGE_ENOUGH = {"audio": {"samples": 32}, "crnn": {"width": 32}}


class SymbolSizes:
    """The sizes of the symbols in one run, each from the first dim that consists of that symbol."""

    def __init__(self, sizes: dict[str, int]) -> None:
        self.numbers: dict[Atom, int] = dict(sizes)

    def holds(self, expression: SymInt, found: int) -> bool:
        """Whether an expression equals a number; true if a symbol has no size."""
        if isinstance(expression, Expr) and len(expression.terms) == 1:
            ((product, factor),) = expression.terms
            if factor == 1 and len(product) == 1 and isinstance(product[0], Unknown):
                return self.numbers.setdefault(product[0], found) == found
        if not all(a in self.numbers for a in atoms(expression)):
            return True
        return substitute(expression, self.numbers.get) == found


def contradictions(model: Model, proto: onnx.ModelProto, fixed: dict[str, int]) -> list[str]:
    """The differences between runs and inferred shapes."""
    values = [v for op in model.graph.sorted_ops() for v in op.outputs if v.name and v.type is None]
    exposed = onnx.ModelProto()
    exposed.CopyFrom(proto)
    known = {o.name for o in exposed.graph.output}
    exposed.graph.output.extend(onnx.ValueInfoProto(name=v.name) for v in values if v.name not in known)
    session = LoadedModel(exposed.SerializeToString())
    names = [v.name for v in values]

    def run_model(input_set: InputSet) -> dict[str, Any]:
        return dict(zip(names, session.run(names, input_set.feeds), strict=True))

    wrong: list[str] = []
    for run in islice(InputSearch(run_model, input_specs(model), fixed).runs(), RUNS):
        if 0 in run.input_set.sizes.values():
            continue  # onnxruntime reduces an empty tensor to its own shape
        symbols = SymbolSizes(run.input_set.sizes)
        for v in values:
            found = run.outputs[v.name]
            if isinstance(found, np.ndarray):
                wrong += differences(v, found, symbols)
    return wrong


def differences(v: Value, found: np.ndarray[Any, Any], symbols: SymbolSizes) -> list[str]:
    shape: Shape = v.known_shape if v.known_shape is not None else found.shape
    if len(shape) != found.ndim or not all(
        symbols.holds(d, n) for d, n in zip(shape, found.shape, strict=True) if d is not None
    ):
        return [f"{v.name}: {list(shape)} is {list(found.shape)}"]
    elements = v.known_elements or ()
    numbers = [int(x) for x in found.reshape(-1)[: len(elements)]] if elements else []
    if not all(map(symbols.holds, elements, numbers)):
        return [f"{v.name}: elements {elements} are {numbers}"]
    return []


@pytest.mark.parametrize(
    "path",
    slow_unless([p for p in GOLDEN if p.stem in GOLDEN_SAMPLE or part_of(p.stem, 3) == 1], GOLDEN),
    ids=lambda p: p.stem,
)
def test_golden_models(path: Path) -> None:
    model = from_onnx(onnx.load(path), inline=True)
    assert contradictions(model, to_onnx(model), LARGE_ENOUGH.get(path.stem, {})) == []


I64 = "int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] most = {-1}, int64 i = {1}"
HEAD = f"g (float[N,M,8] x, float[N,3,H,W] z, float[?] q, bool b) => (float[] y) <{I64}, int64[0] none = {{}}>"

LAST_TWO = "l = Constant<value_ints=[-2]>() e = Constant<value_ints=[9223372036854775807]>() w = Slice(x, l, e, one)"


def inferred(text: str, opset: int = 18) -> str:
    """The inferred shape of y as text, with its elements if they are known; ? is an unnamed size."""
    y = from_onnx(load(text, opset)).graph.outputs[0]
    shape, elements = y.known_shape, y.known_elements
    dims = "any rank" if shape is None else f"[{', '.join(map(str, shape))}]"
    full = dims if elements is None else f"{dims} {{{', '.join(map(str, elements))}}}"
    return re.sub(r"\?\d+", "?", full)


@each(
    ("body", "expected"),
    [
        ("y = Relu(x)", "[N, M, 8]"),
        ("c = Concat<axis=1>(x, x) y = Acosh(c)", "[N, 2*M, 8]"),
        ("c = Concat<axis=1>(x, x) y = Hardmax(c)", "[N, 2*M, 8]"),
        ("c = Concat<axis=1>(x, x) y = BatchNormalization(c, q, q, q, q)", "[N, 2*M, 8]"),
        ("y = Transpose<perm=[2,0,1]>(x)", "[8, N, M]"),
        ("y = Flatten<axis=2>(z)", "[3*N, H*W]"),
        ("y = Flatten<axis=0>(z)", "[1, 3*H*N*W]"),
        ("y = Concat<axis=1>(x, x)", "[N, 2*M, 8]"),
        ("k = Constant<value_ints=[0,-1]>() y = Reshape(x, k)", "[N, 8*M]"),
        ("k = Constant<value_ints=[0,-1]>() y = Reshape<allowzero=1>(x, k)", "[0, ?]"),
        ("k = Constant<value_ints=[-1,3]>() y = Reshape(x, k)", "[(8*M*N)//(3), 3]"),
        ("s = Shape(x) k = Slice(s, zero, one) t = Concat<axis=0>(k, most) y = Reshape(x, t)", "[N, 8*M]"),
        ("s = Shape(x) k = Neg(s) y = Reshape(x, k)", "[?, ?, ?]"),
        ("y = Unsqueeze(x, most)", "[N, M, 8, 1]"),
        ("u = Unsqueeze(x, zero) y = Squeeze(u, zero)", "[N, M, 8]"),
        ("y = Squeeze(x)", "any rank"),
        ("c = ConstantOfShape(two) u = Unsqueeze(c, zero) r = Relu(u) y = Squeeze(r, none)", "[2]"),
        ("y = Slice(x, one, most, one)", "[N, max(0, max(0, M - 1) - min(1, M)), 8]"),
        ("e = Constant<value_ints=[9223372036854775807]>() y = Slice(x, most, e, one)", "[N, M - max(0, M - 1), 8]"),
        ("e = Constant<value_ints=[9223372036854775807]>() w = Slice(x, most, e, one) y = Add(w, x)", "[N, ?, 8]"),
        ("w = Slice(x, zero, two, one) y = Add(x, w)", "[N, M, 8]"),
        (f"{LAST_TWO} a = Concat<axis=1>(w, x) c = Concat<axis=1>(x, x) y = Add(a, c)", "[N, 2*M, 8]"),
        (
            f"{LAST_TWO} a = Concat<axis=1>(x, w) s = Shape<start=1,end=2>(a) y = Expand(one, s)",
            "[2*M - max(0, M - 2)]",
        ),
        ("e = Constant<value_ints=[2147483647]>() y = Slice(x, zero, e, one)", "[N, M, 8]"),
        ("e = Constant<value_ints=[-9223372036854775808]>() y = Slice(x, most, e, one, most)", "[N, M, 8]"),
        ("e = Constant<value_ints=[9223372036854775807]>() y = Slice(x, most, e, two, most)", "[N, M, ?]"),
        ("e = Constant<value_ints=[-9]>() y = Slice(x, e, e, two, most)", "[N, M, 1]"),
        ("p = Constant<value_ints=[1,-1]>() y = Pad(x, p, , one)", "[N, M, 8]"),
        ("p = Constant<value_ints=[1,2]>() y = Pad(x, p, , one)", "[N, M + 3, 8]"),
        ("t = Constant<value_ints=[2,1,3]>() y = Tile(x, t)", "[2*N, M, 24]"),
        ("y, w = Split<axis=2,num_outputs=2>(x)", "[N, M, 4]"),
        ("y, w = Split<axis=1,num_outputs=2>(x)", "[N, ?, 8]"),
        ("s = Shape(x) y = Expand(one, s)", "[N, M, 8]"),
        ("y = Add(x, q)", "[N, M, 8]"),
        ("a = Transpose<perm=[1,0,2]>(x) y = Add(x, a)", "[?, ?, 8]"),
        ("y = MatMul(x, q)", "[N, M]"),
        ("y = MaxPool<kernel_shape=[2,2],strides=[2,2]>(z)", "[N, 3, (H)//(2), (W)//(2)]"),
        ('y = MaxPool<kernel_shape=[3,3],auto_pad="SAME_UPPER",strides=[2,1]>(z)', "[N, 3, (H + 1)//(2), W]"),
        ('y = MaxPool<kernel_shape=[3,3],auto_pad="SAME_UPPER",dilations=[2,2]>(z)', "[N, 3, ?, ?]"),
        ("y = MaxPool<kernel_shape=[3,3],ceil_mode=1,strides=[2,1]>(z)", "[N, 3, ?, W - 2]"),
        ("y = DepthToSpace<blocksize=2>(z)", "[N, 0, 2*H, 2*W]"),
        ("y = NonZero(x)", "[3, ?]"),
        ("y = NonZero(b)", "[?, ?]"),
    ],
)
def test_shapes(body: str, expected: str) -> None:
    assert inferred(f"{HEAD} {{ {body} }}") == expected


INTS = HEAD.replace("float[] y", "int64[] y")


@each(
    ("body", "expected"),
    [
        ("y = Shape(x)", "[3] {N, M, 8}"),
        ("y = Shape<start=-2>(x)", "[2] {M, 8}"),
        ("y = Shape<start=5>(x)", "[0] {}"),
        ("y = Size(z)", "[] {3*H*N*W}"),
        ("s = Shape(x) y = Gather(s, i)", "[] {M}"),
        ("s = Shape(x) y = Slice(s, most, zero, zero, most)", "[2] {8, M}"),
        ("s = Shape(x) e = Constant<value_ints=[-9]>() y = Slice(s, e, e, zero, most)", "[1] {N}"),
        ("s = Shape(x) t = Shape(z) y = Concat<axis=0>(s, t)", "[7] {N, M, 8, N, 3, H, W}"),
        ("s = Shape(x) y = Div(s, two)", "[3] {(N)//(2), (M)//(2), 4}"),
        ("s = Shape(x) n = Neg(s) y = Div(n, two)", "[3] {?, ?, -4}"),
        ("a = Constant<value_ints=[-7,7,-8]>() y = Div(a, two)", "[3] {-3, 3, -4}"),
        ("a = Constant<value_ints=[-7,7,-8]>() y = Mod(a, two)", "[3] {?, 1, ?}"),
        ("s = Shape(x) y = Mod(s, two)", "[3] {N - 2*(N)//(2), M - 2*(M)//(2), 0}"),
        ("s = Shape(x) y = Max(s, two)", "[3] {max(2, N), max(2, M), 8}"),
        ("s = Shape(x) e = Equal(s, most) y = Where(e, two, s)", "[3] {N, M, 8}"),
        ("s = Shape(x) e = Equal(s, two) y = Where(e, one, s)", "[3] {?, ?, 8}"),
        ("s = Shape(x) y = ReduceProd<keepdims=0>(s)", "[] {8*M*N}"),
        ("s = Shape(x) t = Cast<to=1>(s) y = Cast<to=7>(t)", "[3] {?, ?, ?}"),
        ("y = ConstantOfShape<value=int64[1] {5}>(two)", "[2] {5, 5}"),
        ("s = Shape(x) y = Expand(two, s)", "[N, M, 8]"),
        ("s = Shape(x) y = ConstantOfShape<value=int64[1] {5}>(s)", "[N, M, 8]"),
        (
            "a = Constant<value_int=3>() c = Constant<value_int=0>() d = Constant<value_int=-1>() y = Range(a, c, d)",
            "[3] {3, 2, 1}",
        ),
        ("s = Shape(x) n = Gather(s, i) c = Constant<value_int=0>() y = Range(c, n, i)", "[M]"),
        ("y = Where(b, one, two)", "[1] {?}"),
        ("y = Where(b, one, one)", "[1] {?}"),
    ],
)
def test_elements(body: str, expected: str) -> None:
    assert inferred(f"{INTS} {{ {body} }}") == expected


def test_elements_of_a_value_that_is_declared_with_another_type() -> None:
    model = load("g (float[2] x) => (int64[1] y, float[1] z) { s = Constant<value_ints=[3,4]>() y, z = Split(s) }", 13)
    graph = from_onnx(model).graph
    assert [v.known_elements for v in graph.outputs] == [(3,), None]


IF = (
    "y = If(b) <then_branch = t () => (float[{}] u) {{ u = Relu({}) }},"
    " else_branch = e () => (float[{}] v) {{ v = Relu({}) }}>"
)


@each(
    ("text", "expected"),
    {
        "branches agree": (f"{HEAD} {{ {IF.format('', 'x', '', 'x')} }}", "[N, M, 8]"),
        "branches of other ranks": (f"{HEAD} {{ {IF.format('', 'q', '', 'x')} }}", "any rank"),
        "branches differ": (f"{HEAD} {{ w = Transpose<perm=[1,0,2]>(x) {IF.format('', 'w', '', 'x')} }}", "[?, ?, 8]"),
        "a dim of -1": ("g (float[N,-1] x) => (float[] y) { y = Relu(x) }", "[N, ?]"),
        "declared symbols": ("g (float[N,?] x) => (float[A,B] y) { y = Relu(x) }", "[N, ?]"),
        "a wrong declaration": ("g (float[N,3] x) => (float[5,4] y) { y = Relu(x) }", "[5, 3]"),
        "a declaration of a wrong rank": ("g (float[N,3] x) => (float[3] y) { y = Relu(x) }", "[N, 3]"),
        "a declaration alone": ("g (float[] x) => (float[A,4] y) { y = Relu(x) }", "[A, 4]"),
        "int32 overflow": (
            "g (int32[2] c) => (int32[] y) <int32[1] k = {2147483647}, int32[1] o = {1}> { y = Add(k, o) }",
            "[1] {?}",
        ),
        "too many elements": ("g (float[5000] x) => (int64[] y) { t = Cast<to=7>(x) y = Neg(t) }", "[5000]"),
    },
)
def test_declarations_and_bodies(text: str, expected: str) -> None:
    assert inferred(text) == expected


def chain(step: str, length: int, head: str) -> Value:
    """The last value of a chain of ops."""
    names = ["x", *(f"v{i}" for i in range(length - 1)), "y"]
    steps = " ".join(step.format(out, into) for into, out in pairwise(names))
    return from_onnx(load(f"{head} {{ {steps} }}")).graph.outputs[0]


@each(
    ("step", "length"),
    {
        "deep": ("{} = Relu({})", 5000),
        "pools": ("{} = MaxPool<kernel_shape=[3,3],strides=[2,2],pads=[1,1,1,1]>({})", 300),
        "convolutions": ("{} = Conv<pads=[1,0,1,0],strides=[1,2]>({}, w)", 300),
        "pads": ("{} = Pad({}, k)", 300),
        "slices": ("{} = Slice({}, p, e)", 40),
    },
)
def test_expressions_of_long_chains_are_small(step: str, length: int) -> None:
    p, e, k = "int64[4] p = {0,0,1,2}", "int64[4] e = {-1,-1,-2,9}", "int64[8] k = {0,0,1,-1,0,0,2,0}"
    head = f"g (float[N,1,H,W] x) => (float[] y) <{p}, {e}, {k}, float[1,1,1,1] w = {{1.0}}>"
    shape = chain(step, length, head).known_shape
    assert shape is not None
    assert len(shape) == 4
    assert all(d is not None and expr_size(d) <= MAX_EXPR_SIZE for d in shape)


LARGEST, SMALLEST = 2**63 - 1, -(2**63)


@each(
    ("body", "shape"),
    [
        ("y = Range(smallest, largest, one)", "?"),
        (f"k = Constant<value_ints=[{LARGEST},0,{LARGEST},0]>() y = Pad(x, k)", "?,3"),
        (f"k = Constant<value_ints=[0,{LARGEST},0,{LARGEST}]>() y = Pad(x, k)", "N,?"),
        ("k = Constant<value_ints=[0,0,0,-9,0,0,0,0]>() y = Pad(i, k)", "1,4,5,?"),
        (f"k = Constant<value_ints=[{LARGEST},{LARGEST}]>() y = Tile(x, k)", "?,?"),
        ("k = Constant<value_ints=[2,-1]>() y = Tile(x, k)", "2*N,?"),
        (f"k = Constant<value_ints=[{LARGEST},-1]>() y = ConstantOfShape(k)", f"{LARGEST},?"),
        ("s = Shape(x) t = Add(s, largest) y = ConstantOfShape(t)", "?,?"),
        ("s = Shape(x) t = Mul(s, largest) y = ConstantOfShape(t)", "?,?"),
        ("s = Shape(x) t = Sub(s, one) y = ConstantOfShape(t)", "?,2"),
        (f"k = Constant<value_ints=[{LARGEST}]>() e = Expand(k, k) y = Concat<axis=0>(e, e)", "?"),
        ("c = Constant<value_floats=[1.0,1.0,inf,1e30]>() y = Resize(i, , c)", "1,4,?,?"),
        ("y = DepthToSpace<blocksize=4611686018427387904>(i)", "1,0,?,?"),
        ("y = MaxPool<kernel_shape=[9,2]>(i)", "1,4,?,5"),
        ("y = MaxPool<kernel_shape=[2,2], strides=[0,1]>(i)", "1,4,?,5"),
        (f"y = LpPool<kernel_shape=[2,2], pads=[{LARGEST},0,{LARGEST},0]>(i)", "1,4,?,5"),
        ("y = LayerNormalization<axis=2147483648>(i, i)", "1,4,5,6"),
        (f"y = GatherND<batch_dims={SMALLEST + 1}>(i, largest)", ""),
        ("k = Constant<value_ints=[2,3,1]>() y = GatherND<batch_dims=-4>(i, k)", ""),
        ("k = Constant<value_ints=[2,3,1]>() y = GatherND<batch_dims=2>(i, k)", ""),
        ('y = Einsum<equation="i...j...,.->">(x, x)', ""),
        ('y = Einsum<equation=" i ... j, i ...j -> i... ">(x, x)', "N"),
        ("k = Constant<value_ints=[1000000]>() e = ConstantOfShape(k) c = Cast<to=7>(e) y = Expand(x, c)", ""),
        (f"y = Conv<pads=[{LARGEST},0,{LARGEST},0]>(i, i)", "1,1,?,1"),
    ],
)
def test_extents_that_no_tensor_has(body: str, shape: str) -> None:
    """Such an op fails in onnxruntime; no extent is inferred, neither a negative nor one that wrapped around."""
    numbers = f"int64 largest = {{{LARGEST}}}, int64 smallest = {{{SMALLEST}}}, int64 one = {{1}}"
    text = f"g (float[N,3] x, float[1,4,5,6] i) => (y) <{numbers}> {{ {body} }}"
    found = from_onnx(load(text, opset=18)).graph.outputs[0].known_shape
    assert ",".join("?" if is_unresolved(d) else str(d) for d in found or ()) == shape


def inferred_values(model: onnx.ModelProto) -> list[Value]:
    """All values of ops, with inferred types and elements."""
    try:
        graph = from_onnx(model).graph
    except PassesError:
        return []
    found = [v for op in graph.ops() for v in op.outputs if v.name]
    for v in found:
        _ = v.known_shape, v.known_elements
    return found


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 10))])
def test_extreme_numbers(seed: int) -> None:
    """Inference neither raises nor gives an extent or an element that cannot be, whatever the numbers are."""
    count = 0
    for label, model in extreme_models(seed):
        values = inferred_values(model)
        count += bool(values)
        extents = [d for v in values for d in v.recorded_type[1] or () if isinstance(d, int)]
        elements = [e for v in values for e in v.elements or () if isinstance(e, int)]
        assert all(0 <= d <= LARGEST for d in extents), label
        assert all(SMALLEST <= e <= LARGEST for e in elements), label
    assert count > 400


@pytest.mark.parametrize(("part", "parts"), [(0, 40), pytest.param(0, 1, marks=pytest.mark.slow)])
def test_passes_on_extreme_numbers(part: int, parts: int) -> None:
    """No pass raises: each declines what it cannot handle."""
    for label, model in islice(extreme_models(7), part, None, parts):
        try:
            result = optimize(model, verify=False, value_info="write")
        except PassesError as e:
            assert "\n" not in str(e), label  # noqa: PT017 - such a model may be refused
            continue
        assert result.report.rejected == [], label


@each(
    ("declared", "before"),
    [("", "?"), (", float[a] r", "a"), (", float[a] r, float[b] y", "a"), (", float[N] r, float[b] y", "N")],
)
def test_shapes_of_consumers_follow_new_op(declared: str, before: str) -> None:
    """The output shape of the replaced op is unknown or declared, that of the new op is known."""
    numbers = f"<int64[1] c = {{-1}}{declared}>"
    graph = from_onnx(
        load(f"g (float[N,4] x, int64[1] k) => (float[] y) {numbers} {{ r = Reshape(x, k) y = Relu(r) }}")
    ).graph
    old, y = next(graph.ops("Reshape")), graph.outputs[0]
    assert [re.sub(r"\?\d+", "?", str(d)) for d in y.shape] == [before]
    assert [is_unresolved(d) for d in y.shape] == [before != "N"]
    new = graph.add_op(Op("Reshape", "", "", {}, None), [old.inputs[0], *graph.initializers], [Value("new")])
    graph.take_over(new.outputs[0], old.outputs[0])
    assert str(y.shape[0]) == ("N" if before == "N" else "4*N")


@each(
    "text",
    [
        "g (bool[N] x) => (int64[] y) <int64[1,nz] i> { i = NonZero(x) y = Neg(i) }",
        "g (float[N] x) => (float[] y) <float[a,nz] i> { i = my.own.Op(x) y = Neg(i) }",
    ],
)
def test_declared_symbols_that_inference_never_replaces(text: str) -> None:
    """They are not looked up again and again."""
    y = from_onnx(load(text)).graph.outputs[0]
    assert y.shape[1] == "nz"
    assert y.is_fully_known


def test_equal_declared_symbols_are_one_extent() -> None:
    text = "g (float[N,4] x, int64[1] k) => (float[] y) <float[a] r, float[a] s>"
    graph = from_onnx(load(f"{text} {{ r = Reshape(x, k) s = Reshape(x, k) y = Add(r, s) }}")).graph
    assert graph.outputs[0].shape == ("a",)


def test_element_types_are_found_without_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    inferred = list[str]()
    infer_op = inference._infer_op
    monkeypatch.setattr(inference, "_infer_op", lambda op: (inferred.append(op.type), infer_op(op)))
    text = """g (float[4] x, int64[1] k, seq(double[N]) s) => (y, seq(double[N]) t, int64[M] u) {
        r = Reshape(x, k) e = Relu(r) c = Greater(e, x) y = Where(c, e, x) t = Identity(s) u = Shape(e)
    }"""
    graph = from_onnx(load(text)).graph
    found = {v.name: v.known_dtype for v in graph.outputs[:1]}
    assert (found, inferred) == ({"y": onnx.TensorProto.FLOAT}, [])
    assert next(graph.ops("Greater")).outputs[0].known_dtype == onnx.TensorProto.BOOL
    assert graph.outputs[1].known_dtype == 0
    assert graph.outputs[1].type is not None
    assert graph.outputs[0].shape is not None
