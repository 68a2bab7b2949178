"""Another batch for a model that was exported for a fixed one."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from passwright.app.cli.entry import app
from passwright.core import from_onnx, to_onnx
from passwright.core.errors import ModelError, UsageError, VerificationError
from passwright.core.io.files import ModelFile, in_memory
from passwright.core.io.files import load as load_file
from passwright.core.ort.sessions import UNOPTIMIZED, create_session
from passwright.core.rewriting.builder import RewriteBuilder
from passwright.core.transform.batch import BatchPlan
from passwright.core.transform.batch_rules import BatchRules
from passwright.core.transform.row_places import Place
from passwright.core.transform.specialize import specialize
from passwright.passes.transforms.interface import ChangeBatch
from rewriting import each, load, op_types, table
from tiers import in_turn, slow_unless
from typer.testing import CliRunner

from passwright import optimize

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")

GOLDEN = Path(__file__).parent.parent / "golden_models"
ROWS = 3
BATCHES = ("rows", ROWS)
RIGHT = table("""
    elementwise operators: g (float[1,4] x, float[1,4] y) => (float[1,4] z) { a = Add(x, y) z = Relu(a) }
    constants of all rows: g (float[1,2,2] x) => (float[2,2] z)
        <float[2,2] c = {1, 2, 3, 4}, int64[1] i = {0}> { s = Squeeze(x, i) z = Add(s, c) }
    a constant with an axis before the batch: g (float[2,1,2] x, float[1,2] y) => (float[2,1,2] z)
        <float[2,1,1] c = {1, 2}> { z = Add(y, c) }
    reshapes that merge the batch: g (float[1,4,6] x) => (float[4,6] z, float[1,24] w, float[2,12] u)
        <int64[2] a = {4, 6}, int64[2] b = {1, -1}, int64[2] c = {2, 12}> {
        z = Reshape(x, a) w = Reshape(x, b) u = Reshape(x, c) }
    a batch behind other axes: g (float[1,4,6] x) => (float[4,1,6] z, float[4,6] w, float[1,4,6] u)
        <int64[2] a = {4, 6}, int64[3] b = {1, 4, 6}> {
        z = Transpose<perm = [1, 0, 2]>(x) w = Reshape(z, a) u = Reshape(w, b) }
    a batch inside an axis: g (float[1,2,6] x) => (float[12] z, float[4,3] u) <int64[1] a = {12}, int64[2] b = {4, 3}> {
        t = Transpose<perm = [1, 0, 2]>(x) z = Reshape(t, a) r = Relu(z) u = Reshape(r, b) }
    a computed shape: g (float[1,5,4] x) => (float[1,20] z, float[1,5,4] w) <int64[1] m = {-1}> {
        s = Shape(x) b = Shape<start = 0, end = 1>(x) t = Concat<axis = 0>(b, m) z = Reshape(x, t)
        c = ConstantOfShape(s) w = Add(x, c) }
    Flatten: g (float[1,2,3] x) => (float[1,6] z, float[2,3] w) { z = Flatten(x) w = Flatten<axis = 2>(x) }
    Unsqueeze of an axis before: g (float[1,4] x) => (float[2,1,4] z) <int64[1] i = {0}> {
        a = Unsqueeze(x, i) z = Concat<axis = 0>(a, a) }
    a class token: g (float[1,3,2] x) => (float[1,4,2] z) <float[1,1,2] c = {1, 2}> { z = Concat<axis = 1>(c, x) }
    rows stacked along the batch: g (float[1,4] x, float[1,4] y) => (float[2,4] z, float[1,4] m) <int64[1] i = {0}> {
        z = Concat<axis = 0>(x, y) m = ReduceMax<keepdims = 1>(z, i) }
    Expand: g (float[1,3] x) => (float[5,3] z, float[2,1,3] w) <int64[2] a = {5, 3}, int64[3] b = {2, 1, 3}> {
        z = Expand(x, a) w = Expand(x, b) }
    Tile: g (float[1,4] x) => (float[2,4] z, float[1,8] w) <int64[2] a = {2, 1}, int64[2] b = {1, 2}> {
        z = Tile(x, a) w = Tile(x, b) }
    Slice: g (float[1,4] x) => (float[1,2] z, float[1,4] w)
        <int64[2] a = {0, 1}, int64[2] b = {1, 3}, int64[1] c = {-1}, int64[1] d = {-9}, int64[1] e = {0}> {
        z = Slice(x, a, b) w = Slice(x, c, d, e, c) }
    Pad: g (float[1,4] x) => (float[3,4] z, float[1,6] w) <int64[4] a = {1, 0, 1, 0}, int64[4] b = {0, 1, 0, 1}> {
        z = Pad(x, a) w = Pad(x, b) }
    Split: g (float[1,4] x) => (float[1,2] a, float[1,2] b) { a, b = Split<axis = 1, num_outputs = 2>(x) }
    a row as a matrix: g (float[1,3,4] x) => (float[4] z, float[3,4] s) <int64 k = {1}, int64 o = {0}> {
        y = Gather<axis = 0>(x, o) z = Gather<axis = 0>(y, k) s = Softmax<axis = 0>(y) }
    indices with rows: g (float[1,3,4] x, int64[1,2] i) => (float[1,2,4] z, float[1,3,2] w) <int64 o = {0}> {
        j = Gather<axis = 0>(i, o) z = Gather<axis = 1>(x, j) w = Gather<axis = 2>(x, j) }
    an embedding: g (int64[1,3] i) => (float[1,3,2] z) <float[2,2] t = {1, 2, 3, 4}> { z = Gather(t, i) }
    GatherND of a row each: g (float[1,5,4] x, int64[1] i) => (float[1,4] z) <int64[1,1] r = {0}, int64[1] m = {1}> {
        j = Unsqueeze(i, m) k = Concat<axis = 1>(r, j) z = GatherND(x, k) }
    GatherElements: g (float[1,5] x, int64[1,3] i) => (float[1,3] z, float[1,2] w) <int64[1,2] c = {4, 1}> {
        z = GatherElements<axis = 1>(x, i) w = GatherElements<axis = 1>(x, c) }
    ScatterND: g (float[1,3,2] x, float[1,2] u) => (float[1,3,2] z) <int64[1,2] i = {0, 1}> { z = ScatterND(x, i, u) }
    ScatterElements: g (float[1,3] x, float[1,2] u) => (float[1,3] z) <int64[1,2] i = {0, 2}> {
        z = ScatterElements<axis = 1>(x, i, u) }
    OneHot: g (int64[1,3] x) => (float[1,3,2] z, float[2,1,3] w) <int64 d = {2}, float[2] v = {0, 1}> {
        z = OneHot(x, d, v) w = OneHot<axis = 0>(x, d, v) }
    Trilu: g (float[1,3,3] x) => (float[3,3] z) <int64[1] i = {0}> { y = Squeeze(x, i) z = Trilu(y) }
    reductions of a row: g (float[1,4] x) => (float z, int64[1] a) <int64[1] i = {0}> {
        s = Squeeze(x, i) z = ReduceMean<keepdims = 0>(s) a = ArgMax<axis = 1, keepdims = 0>(x) }
    TopK of a row: g (float[1,4,2] x) => (float[2,2] z, int64[2,2] i) <int64[1] o = {0}, int64[1] k = {2}> {
        y = Squeeze(x, o) z, i = TopK<axis = 0>(y, k) }
    CumSum of a row: g (float[1,4] x) => (float[4] z, float[1,4] w) <int64[1] o = {0}, int64 a = {0}, int64 b = {1}> {
        y = Squeeze(x, o) z = CumSum(y, a) w = CumSum(x, b) }
    LayerNormalization: g (float[1,3,4] x) => (float[1,3,4] z) <float[4] s = {1, 2, 3, 4}> {
        z = LayerNormalization(x, s) }
    Resize: g (float[1,1,4,4] x) => (float[1,1,6,6] z, float[1,1,8,8] w)
        <int64[4] s = {1, 1, 6, 6}, float[4] f = {1, 1, 2, 2}> {
        z = Resize<mode = "linear">(x, , , s) w = Resize(x, , f) }
    GridSample: g (float[1,1,3,3] x, float[1,2,2,2] y) => (float[1,1,2,2] z, float[1,1,2,2] w)
        <float[1,2,2,2] c = {0, 0.5, -1, 1, 0.2, 0, 0, 1}> { z = GridSample(x, c) w = GridSample(x, y) }
    Einsum: g (float[1,3,4] x, float[1,4,5] y) => (float[1,3,5] z) { z = Einsum<equation = "bij,bjk->bik">(x, y) }
    products with weights: g (float[1,3,2] x) => (float[1,3,2] z, float[3,2] w)
        <float[2,2] a = {1, 2, 3, 4}, float[3,2] b = {1, 2, 3, 4, 5, 6}, int64[2] s = {3, 2}> {
        z = MatMul(x, a) r = Reshape(x, s) w = Gemm(r, a, b) }
    products of rows: g (float[1,3,2] x, float[1,2,3] y) => (float[1,3,3] z, float[3,3] w) <int64[1] i = {0}> {
        z = MatMul(x, y) a = Squeeze(x, i) b = Squeeze(y, i) w = MatMul(a, b) }
    a product whose other operand has rows: g (float[1,2,3] x) => (float[1,2,3] z) <float[2,2] a = {1, 2, 3, 4}> {
        z = MatMul(a, x) }
    initial states: g (float[2,1,2] y, float[1,2,2] x) => (float[2,1,1,2] z)
        <float[1,2,2] w = {1, 2, 3, 4}, float[1,2,2] r = {1, 0, 0, 1}, float[1,1,2] h = {0.5, 1}> {
        t = Transpose<perm = [1, 0, 2]>(x) z = RNN<hidden_size = 2>(t, w, r, , , h) }
    a value without rows: g (float[1,2] x, float[2] c) => (float[1,2] z, float[2] w) { z = Mul(x, c) w = Neg(c) }
    other symbols: g (float[1,S,4] x) => (float[1,S,2,2] z, float[S,4] w)
        <int64[4] s = {1, -1, 2, 2}, int64[2] t = {-1, 4}> { z = Reshape(x, s) w = Reshape(x, t) }
    shapes of other symbols: g (float[1,S,4] x) => (float[1,S,4] z, float[1,4,S] u) {
        s = Shape(x) c = ConstantOfShape(s) z = Add(x, c) t = Transpose<perm = [0, 2, 1]>(x)
        k = Shape(t) u = Reshape(x, k) }
    extents that only a tensor has: g (float[1,4,S] x) => (float[1,4,T] z, float[4,T] w, float[1,V,1] u)
        <int64[1] o = {0}, int64[1] e = {-1}, int64[1] a = {2}, int64[3] p = {1, -1, 2}> {
        z = Slice(x, o, e, a) w = Squeeze(z, o) t = Reshape(w, p) u = Slice(t, o, e, a) }
    Dropout in inference: g (float[1,4] x) => (float[1,4] z) { z = Dropout(x) }
    QuantizeLinear: g (float[1,3] x) => (float[1,3] z) <float[3] s = {1, 2, 3}, uint8[3] o = {1, 2, 3}> {
        q = QuantizeLinear<axis = 1>(x, s, o) z = DequantizeLinear<axis = 1>(q, s, o) }
""")  # fmt: skip
SEVERAL = table("""
    a model for two rows: g (float[2,4] x) => (float[2,2,2] z) <int64[3] s = {2, 2, 2}> { z = Reshape(x, s) }
    constants that repeat: g (float[2,2] x) => (float[2,3] z, float[2,2] w)
        <float[2,1] c = {5, 5}, float[2,2] d = {1, 2, 1, 2}> { z = Concat<axis = 1>(c, x) w = Add(x, d) }
""")
REFUSED = table("""
    Softmax: g (float[1,4] x) => (float[1,4] z) { z = Softmax<axis = 0>(x) } => Softmax z: it mixes the rows
    a mean: g (float[1,4] x) => (float z) { z = ReduceMean<keepdims = 0>(x) } => ReduceMean z: it mixes the rows
    all images by all texts: g (float[1,8] x, float[1,8] t) => (float[1,1] z) { a = Transpose(t) z = MatMul(x, a) }
        => MatMul z: it mixes the rows
    a sum over the batch: g (float[1,8] x, float[1,4] t) => (float[8,4] z) { a = Transpose(x) z = MatMul(a, t) }
        => MatMul z: it mixes the rows
    training: g (float[1,2] x) => (float[1,2] z) <float[2] s = {1, 2}> {
        z, m, v = BatchNormalization<training_mode = 1>(x, s, s, s, s) } => BatchNormalization z: it mixes the rows
    dynamic ranges: g (float[1,4] x) => (uint8[1,4] z) { z, s, o = DynamicQuantizeLinear(x) }
        => DynamicQuantizeLinear z: it mixes the rows
    random numbers: g (float[1,4] x) => (float[1,4] z) { r = RandomNormalLike(x) z = Add(x, r) }
        => RandomNormalLike r: it draws random numbers
    results of other sizes: g (float[1,4] x) => (int64[2,N] z) { z = NonZero(x) }
        => size for each row; --outputs x ends before it
    indices of all rows: g (float[1,1,4] x) => (float[1,1,2] z, int64[1,1,2] i) {
        z, i = MaxPool<kernel_shape = [2], strides = [2]>(x) } => its indices count all rows
    a body: g (float[1,4] x, bool b) => (float[1,4] z) {
        z = If (b) <then_branch = t () => (float[1,4] u) { u = Neg(x) },
        else_branch = e () => (float[1,4] v) { v = Abs(x) }> } => If z: its body reads rows
    no rows: g (float[1,3] x) => (float[0,3] z) <int64[1] a = {2}, int64[1] b = {1}, int64[1] c = {0}> {
        z = Slice(x, a, b, c) } => output z: an extent is 0
    slopes that add axes: g (float[1] x) => (float[1,1] z) <float[1,1] s = {2}> { p = PRelu(x, s) z = Neg(p) }
        => PRelu p: its slopes add axes
    an unknown operator: g (float[1,4] x) => (float[1,4] z) { z = com.microsoft.Gelu(x) } => how it treats rows
    a symbol: g (float[N,4] x) => (float[N,4] z) { z = Neg(x) } => it is N, and --dim N=N makes it a number
    no batch: g (float x) => (float z) { z = Neg(x) } => no input has a first axis of a fixed size
    several rows that differ: g (float[2,2] x) => (float[2,2] z) <float[2,2] d = {1, 2, 3, 4}> { z = Add(x, d) }
        => it mixes the rows
    an operator that crops: g (float[1,1,2,2] x) => (float[1,1,4,4] z)
        <float[8] r = {0, 0, 0, 0, 1, 1, 1, 1}, int64[4] s = {1, 1, 4, 4}> {
        z = Resize<coordinate_transformation_mode = "tf_crop_and_resize">(x, r, , s) } => it crops
""")  # fmt: skip


def numbers(value: onnx.ValueInfoProto, rng: np.random.Generator) -> Any:
    tensor = value.type.tensor_type
    dims = [d.dim_value or 5 for d in tensor.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    drawn = rng.standard_normal(dims) if dtype.kind == "f" else rng.integers(0, 2, dims)
    return drawn.astype(dtype)


def results(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    return create_session(in_memory(from_onnx(model)), UNOPTIMIZED).run(None, dict(feeds))


def joined(rows: list[Any], plan: BatchPlan, name: str) -> Any:
    """The results of all rows where the converted model has them."""
    found = plan.outputs.get(name)
    if found is None:
        return rows[0]
    if found.axis is None:
        return np.stack(rows)
    shape = rows[0].shape
    before = int(np.prod(shape[: found.axis])) * (found.outer if isinstance(found.outer, int) else 0)
    together = np.concatenate([row.reshape(before, 1, -1) for row in rows], 1)
    return together.reshape(*shape[: found.axis], shape[found.axis] * len(rows), *shape[found.axis + 1 :])


def require_rows(model: onnx.ModelProto, batch: int | str, tolerance: float = 1e-5) -> BatchPlan:
    """Convert a model, and compare each row with the original on it, alone or in the first of its places."""
    original, converted = from_onnx(model, inline=True), from_onnx(model, inline=True)
    plan = ChangeBatch(batch).convert(converted)
    converted.graph.validate()
    made, rng = to_onnx(converted), np.random.default_rng(0)
    onnx.checker.check_model(made)
    inputs = [v for v in model.graph.input if v.name not in {t.name for t in model.graph.initializer}]
    shared = {v.name: numbers(v, rng) for v in inputs if v.name not in plan.inputs}
    rows = [{v.name: numbers(v, rng)[:1] for v in inputs if v.name in plan.inputs} for _ in range(ROWS)]
    first = to_onnx(original)
    behind = [[rows[(i + j) % ROWS] for j in range(plan.size)] for i in range(ROWS)]
    alone = [results(first, shared | {n: np.concatenate([r[n] for r in some]) for n in plan.inputs}) for some in behind]
    found = results(made, shared | {n: np.concatenate([r[n] for r in rows]) for n in plan.inputs})
    for i, v in enumerate(model.graph.output):
        expected = joined([own_row(a[i], plan, v.name) for a in alone], plan, v.name)
        assert expected.shape == found[i].shape, v.name
        if expected.dtype.kind == "f":
            scale = np.abs(expected[np.isfinite(expected)]).max(initial=1e-30)
            np.testing.assert_allclose(found[i], expected, rtol=0, atol=float(tolerance * scale))
        else:
            np.testing.assert_array_equal(found[i], expected)
    return plan


def own_row(result: Any, plan: BatchPlan, name: str) -> Any:
    """The first row of a result of an original for several, whose batch is the first axis in these tests."""
    return result if plan.size == 1 or name not in plan.outputs else np.split(result, plan.size)[0]


@each(
    ("text", "batch"),
    {
        f"{name}, {batch}": kind(text, batch)
        for (name, text), batch, kind in in_turn((RIGHT | SEVERAL).items(), BATCHES)
    },
)
def test_rows(text: str, batch: int | str) -> None:
    require_rows(load(text, opset=18), batch)


@each(("text", "message"), REFUSED)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(ModelError, match="--batch") as caught:
        ChangeBatch("rows").transform(from_onnx(load(text, opset=18, domains={"com.microsoft": 1})))
    assert message in str(caught.value)


def test_names_of_other_dims() -> None:
    model = load("g (float[1,S] x) => (float[1,S] z) { z = Neg(x) }")
    with pytest.raises(ModelError, match="--batch S: S is another dim"):
        ChangeBatch("S").transform(from_onnx(model))


def test_declared_shapes() -> None:
    text = "g (float[1,4] x, float[3] c) => (float[1,4] z, float[4] w, float[3] u) <int64[1] i = {0}> { z = Neg(x) w = Squeeze(x, i) u = Abs(c) }"  # noqa: E501
    model = from_onnx(load(text))
    plan = ChangeBatch("rows").convert(model)
    made = to_onnx(model)
    shapes = {
        v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim]
        for v in (*made.graph.input, *made.graph.output)
    }
    assert shapes == {"x": ["rows", 4], "c": [3], "z": ["rows", 4], "w": ["4*rows"], "u": [3]}
    assert (plan.size, plan.inputs, set(plan.outputs)) == (1, ("x",), {"z", "w"})


FIXED = {"batch": 1, "user": 1, "samples": 800, "height": 64, "width": 64}
NOT_CONVERTED = {
    "attention_int8", "bert_ts17_sdpa_static", "cnn_training", "cnn_training_opset11", "cond_dynamo", "loop_if",
    "llama_dyn18_eager_static", "recommender", "script_branching", "script_scan", "sklearn_forest", "while_loop",
}  # fmt: skip
"""Golden models that mix rows, have bodies that read them, or are exported for several rows that are gathered."""
PATHS = [*GOLDEN.glob("*.onnx"), *(GOLDEN / "families").glob("*.onnx")]
FIRST = {"bert", "crnn", "gpt2", "keras_cnn", "mobilenet_dynamo", "swin", "yolo", "audio_dynamo", "cond_dynamo"}


def fixed(path: Path, *, symbols: bool) -> onnx.ModelProto:
    """A golden model with a batch of one; with all `symbols` fixed, or the batch alone."""
    model = load_file(ModelFile(path), inline=True)
    shapes = {v.name: v.recorded_type[1] or () for v in model.graph.inputs}
    names = sorted({d for shape in shapes.values() for d in shape if isinstance(d, str)})
    firsts = {shape[0] for shape in shapes.values() if shape}
    sizes = {d: 1 if d in firsts else FIXED.get(d, 5) for d in names if symbols or d in firsts}
    sizes |= {"total": sizes.get("past", 0) + sizes.get("sequence", 1)} if "total" in sizes else {}
    unnamed = {
        name: [d if isinstance(d, int) else sizes.get(str(d), 1) for d in shape]
        for name, shape in shapes.items()
        if not all(isinstance(d, int | str) for d in shape)
    }
    specialize(model, unnamed, sizes)
    return to_onnx(model)


@pytest.mark.parametrize("path", slow_unless([p for p in PATHS if p.stem in FIRST], PATHS), ids=lambda p: p.stem)
def test_golden_models(path: Path) -> None:
    """Other rows have other masks and positions."""
    model = fixed(path, symbols=True)
    if path.stem in NOT_CONVERTED:
        with pytest.raises(ModelError, match="--batch"):
            require_rows(model, "rows")
    else:
        require_rows(model, "rows", tolerance=1e-2 if "half" in path.stem else 1e-4)


def test_most_golden_models_are_converted() -> None:
    of_one = [p for p in PATHS if not p.stem.endswith(("_static", "audio_dynamo"))]
    assert len([p for p in of_one if p.stem not in NOT_CONVERTED]) >= 0.9 * len(of_one)


def test_optimize(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(load(RIGHT["a class token"], opset=18), path)
    result = optimize(path, batch="rows")
    assert [d.dim_param for d in result.model.graph.input[0].type.tensor_type.shape.dim][:1] == ["rows"]
    assert any(note.startswith("batch rows: each row equals the original's") for note in result.report.notes)
    shared = optimize(load(RIGHT["a value without rows"], opset=18), batch="rows").report.notes
    assert shared[0].endswith("; equal for all rows: w")
    eight = optimize(path, batch=8, verify=False)
    assert eight.model.graph.input[0].type.tensor_type.shape.dim[0].dim_value == 8
    assert not any("each row" in note for note in eight.report.notes)


def test_branches_that_are_never_taken() -> None:
    text = """g (float[1,4] x) => (float[1,4] z) <int64 i = {0}, int64 o = {1}> {
        s = Shape(x) n = Gather(s, i) b = Equal(n, o)
        z = If (b) <then_branch = t () => (float[1,4] u) { u = Neg(x) },
            else_branch = e () => (float[1,4] v) { v = Abs(x) }> }"""
    assert op_types(optimize(load(text), batch="rows").model) == ["Neg"]


def test_wrong_conversion_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a rule does, rows are compared."""

    def keep(rules: BatchRules, op: Any, _: RewriteBuilder) -> None:
        rules._keep(op, op.inputs, [Place(0)])  # pyright: ignore[reportPrivateUsage]

    monkeypatch.setattr(BatchRules, "_along_axis", keep)
    model = load("g (float[1,4] x) => (float[1,4] z) { z = Softmax<axis = 0>(x) }", opset=18)
    with pytest.raises(VerificationError, match="batch rows: a row differs from the original's: "):
        optimize(model, batch="rows")


@each(
    ("batch", "message"),
    {
        "no rows": ("0", "--batch 0: not of the form 8 (a number of at least 1) or rows (a name)"),
        "a negative number": ("-1", "--batch -1: not of the form 8 (a number of at least 1) or rows (a name)"),
        "no name": ("a b", "--batch a b: not of the form 8 (a number of at least 1) or rows (a name)"),
        "a fraction": ("1.5", "--batch 1.5: not of the form 8 (a number of at least 1) or rows (a name)"),
    },
)
def test_bad_options(batch: str, message: str) -> None:
    found = CliRunner().invoke(app, ["run", "x.onnx", "--check", f"--batch={batch}"])
    assert (found.exit_code, message in found.output) == (2, True), found.output
    with pytest.raises(UsageError, match="not of the form 8"):
        optimize(load(RIGHT["Tile"]), batch=0)
