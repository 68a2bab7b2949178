"""Conversion to a higher opset: every operator, against onnxruntime before and after."""

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from node_cases import backend_cases
from opset_cases import conversion_outcome, lower_opsets, opset_of, raised_cases
from passwright.core import from_onnx, to_onnx
from passwright.core.errors import MatchFailure
from passwright.core.io.files import ModelFile, load
from passwright.core.ort.kernels import highest_opset_of_onnxruntime, runs_on_cpu
from passwright.core.processes import onnx_calls
from passwright.core.processes.onnx_calls import OnnxError
from passwright.core.transform.opset_conversion import plan_conversion, plan_highest_conversion
from passwright.core.verify.reference.float64_evaluation import evaluate_in_float64
from random_models import models
from rewriting import cases, op_types, require_equivalent, table
from tiers import GOLDEN_SAMPLE, slow_unless

NEWEST = 24
GOLDEN = Path(__file__).parent.parent / "golden_models"


def model_of(body: str, opset: int, ir_version: int = 8) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: {ir_version}, opset_import: ["": {opset}]> {body}')


def converted(model: onnx.ModelProto, version: int = NEWEST) -> onnx.ModelProto:
    loaded = from_onnx(model)
    plan_conversion(loaded.graph, version).apply(loaded.graph, "raise-opset")
    loaded.graph.validate()
    found = to_onnx(loaded)
    onnx.checker.check_model(found, full_check=True)
    return found


def require_converted(text: str, opset: int, version: int, kinds: str) -> None:
    """A model must be converted to a version and to operators of these kinds, with equal results."""
    model = model_of(f"g {text}", opset)
    found = converted(model, version)
    assert sorted(op_types(found)) == sorted(kinds.split())
    assert opset_of(found) == version
    require_equivalent(model, found)


HIGHEST = min(26, highest_opset_of_onnxruntime())
"""The highest opset at which onnxruntime runs all operators but few: 1.32 runs 28, but no QuantizeLinear there."""
REFUSED = {"Bernoulli", "Dropout", "Resize", "RoiAlign", "Scan", "Swish"}
"""Those whose meaning depends on what is not known, or that do not run at the highest opset."""


@pytest.mark.parametrize("block", slow_unless({(0, 144)}, [(0, 144), *((n, 72) for n in range(72))]))
def test_backend_cases(block: tuple[int, int]) -> None:
    found: Counter[str] = Counter()
    for name in list(backend_cases())[slice(block[0], None, block[1])]:
        case = backend_cases()[name]
        for opset, each in raised_cases(case):
            if opset >= HIGHEST:
                continue
            outcome = conversion_outcome(each, HIGHEST)
            found[outcome] += 1
            kind = each.model.graph.node[0].op_type
            assert outcome in {"equal", "rounded", "refused", "not run"}, f"{each.name}: {outcome}"
            assert outcome != "rounded" or kind == "AveragePool", each.name
            assert outcome != "refused" or kind in REFUSED, each.name
    assert found["equal"] > 10


@pytest.mark.parametrize("block", slow_unless({(0, 300)}, [(0, 300), *((n, 150) for n in range(150))]))
def test_backend_cases_at_lower_opsets(block: tuple[int, int]) -> None:
    found: Counter[str] = Counter()
    for name in list(backend_cases())[slice(block[0], None, block[1])]:
        for opset in lower_opsets(backend_cases()[name]):
            outcome = conversion_outcome(backend_cases()[name], opset)
            found[outcome] += 1
            assert outcome in {"equal", "rounded", "refused", "no operator", "not run"}, f"{name}: {outcome}"
            assert outcome != "rounded" or backend_cases()[name].model.graph.node[0].op_type == "AveragePool", name
    assert found["equal"]


@cases(
    ("body", "kinds", "opset"),
    table("""
    softmax: (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) } => Shape Flatten Softmax Reshape => 11
    last axis: (float[2,3,4] x) => (float[2,3,4] y) { y = LogSoftmax<axis=2>(x) } => LogSoftmax => 11
    hardmax: (float[N,3,4] x) => (float[N,3,4] y) { y = Hardmax(x) } => Shape Flatten Hardmax Reshape => 11
    axes: (float[N,3] x) => (float[N,1] y) { y = ReduceMean<axes=[1]>(x) } => ReduceMean => 13
    attributes: (float[N,3] x) => (float[N,1] y) { y = ReduceMean<axes=[1], keepdims=1>(x) } => ReduceMean => 13
    squeeze: (float[N,3,1] x) => (float[N,3] y) { y = Squeeze<axes=[2]>(x) } => Squeeze => 11
    split sizes: (float[6] x) => (float[2] y, float[4] z) { y, z = Split<split=[2,4]>(x) } => Split => 11
    split outputs: (float[6] x) => (float[3] y, float[3] z) { y, z = Split(x) } => Split => 13
    type of the value: (double[2,3] x) => (double[4,3] y) { y = Pad<pads=[1,0,1,0], value=0.5>(x) } => Pad => 10
    one bound: (float[2,3] x) => (float[2,3] y) { y = Clip<max=0.5>(x) } => Clip => 6
    top k: (float[5] x) => (float[2] y, int64[2] i) { y, i = TopK<k=2>(x) } => TopK => 9
    resize up: (float[1,1,2,2] x) => (float[1,1,4,4] y) <float[4] s = {1,1,2,2}> { y = Resize(x, s) } => Resize => 10
    resize down: (float[1,1,4,4] x) => (float[1,1,2,2] y) <float[4] s = {1,1,0.5,0.5}> { y = Resize(x, s) } => Resize
        => 10
    resize linear: (float[1,1,3,3] x) => (float[1,1,6,6] y) <float[4] s = {1,1,2,2}> { y = Resize<mode="linear">(x, s) }
        => Resize => 10
    upsample: (float[1,1,2,2] x) => (float[1,1,6,6] y) { y = Upsample<mode="nearest", scales=[1.0,1.0,3.0,3.0]>(x) }
        => Resize => 7
    group norm: (float[N,4,2] x, float[2] s, float[2] b) => (float[N,4,2] y) {
        y = GroupNormalization<num_groups=2>(x, s, b) }
        => Shape Div Concat Reshape Expand Reshape Reshape Expand Reshape GroupNormalization => 18
    only other types: (float[N,3] x) => (float[N,3] y) { a = Relu(x) y = Tanh(a) } => Relu Tanh => 7
    unused mask: (float[N,3] x) => (float[N,3] y) { y, m = Dropout(x) } => Dropout => 11
"""),
)
def test_becomes(body: str, kinds: str, opset: str) -> None:
    require_converted(body, int(opset), NEWEST, kinds)


@cases(
    ("body", "reason", "opset"),
    table("""
    mask: (float[2,3] x) => (y, m) { y, m = Dropout(x) } => Dropout y: its mask => 10
    later operator: (float[2,3] x) => (y) { y = LayerNormalization(x, x) } => opset 13 has no such operator => 13
    unknown scales: (float[1,1,2,2] x, float[4] s) => (y) { y = Resize(x, s) } => not constant => 10
    mixed scales: (float[1,1,2,2] x) => (y) <float[4] s = {1,1,2,0.5}> { y = Resize(x, s) } => rounds up along one => 10
    training: (float[1,2] x, float[2] a, float[2] b, float[2] c, float[2] d) => (y, m) {
        y, m, v, sm, sv = BatchNormalization(x, a, b, c, d) } => training form => 9
    rank: (x, float[3] b) => (y) { y = Add<broadcast=1, axis=1>(x, b) } => unknown shapes => 6
    no axis: (float[2,3] x, float[3] b) => (y) { y = Add<broadcast=1, axis=2>(x, b) } => its axis is none of => 6
    slopes of channels: (float[2,3,4] x, float[3] s) => (y) { y = PRelu(x, s) } => slopes => 6
    bounds of doubles: (double[2] x) => (y) { y = Clip<min=0.5>(x) } => defaults => 6
"""),
)
def test_declines(body: str, reason: str, opset: str) -> None:
    with pytest.raises(MatchFailure, match=reason):
        plan_conversion(from_onnx(model_of(f"g {body}", int(opset))).graph, NEWEST)


GRID = """g (float[1,1,4,4] x, float[1,2,2,2] p) => (float[1,1,2,2] y) {
    y = GridSample<mode="bicubic", align_corners=1>(x, p)
}"""
DFT = "g (float[1,4,5,1] x) => (float[1,4,5,2] y) { y = DFT(x) }"


@cases(("body", "opset"), {"attribute": (GRID, 18), "input": (DFT, 17)})
def test_new_names_and_inputs(body: str, opset: int) -> None:
    model = model_of(body, opset)
    require_equivalent(model, converted(model))


PLACED = "g (float[%s] x, float[%s] b) => (%s[%s] y) { %s }"


@pytest.mark.parametrize("version", [7, 12, NEWEST])
@cases(
    ("dims", "operand", "old", "shape"),
    {
        "at an inner axis": ("2,3,4", "3", "Add<broadcast=1, axis=1>", [3, 1]),
        "at an axis of the size of the first": ("3,3,4", "3", "Sub<broadcast=1, axis=1>", [3, 1]),
        "two dims": ("N,3,4,5", "3,4", "Mul<broadcast=1, axis=1>", [3, 4, 1]),
        "at the first axis": ("2,3,4", "2", "Div<broadcast=1, axis=0>", [2, 1, 1]),
        "one element": ("N,3", "1", "Pow<broadcast=1, axis=0>", [1, 1]),
        "a comparison": ("N,3,4", "3", "Greater<broadcast=1, axis=1>", [3, 1]),
        "at the last axis": ("N,3,4", "4", "Add<broadcast=1, axis=2>", [4]),
        "at the last dims": ("N,3,4", "3,4", "Add<broadcast=1>", [3, 4]),
        "one shape": ("N,3", "N,3", "Add", None),
    },
)
def test_operands_placed_at_an_axis(dims: str, operand: str, old: str, shape: list[int] | None, version: int) -> None:
    """No backend runs them before opset 7; of operands of one extent, the converter would take the wrong axis."""
    kind = old.partition("<")[0]
    out = "bool" if kind == "Greater" else "float"
    model = converted(model_of(PLACED % (dims, operand, out, dims, f"y = {old}(x, b)"), 6), version)
    placed = f"s = Constant<value_ints={shape}>() c = Reshape(b, s) y = {kind}(x, c)" if shape else f"y = {kind}(x, b)"
    require_equivalent(model_of(PLACED % (dims, operand, out, dims, placed), 13), model)


def test_refusal_names_the_converter(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
        raise OnnxError(f"no way to {version}")

    monkeypatch.setattr("passwright.core.transform.node_conversion.convert_version", refuse)
    graph = from_onnx(model_of("g (float[2,3] x) => (float[2,1] y) { y = ReduceMean<axes=[1]>(x) }", 17)).graph
    with pytest.raises(MatchFailure) as caught:
        plan_conversion(graph, NEWEST)
    assert str(caught.value) == "ReduceMean y: onnx.version_converter: no way to 24"


GROUP_NORM = """Cast Cast Shape Shape Div Shape Shape Concat Reshape Reshape ReduceMean Mul ReduceMean Mul Sub Add Sqrt
        Sub Div Reshape Reshape Cast Cast Cast Reshape Reshape Mul Add Reshape"""


@cases(
    ("body", "kinds", "opset", "version"),
    table(
        """
    fewer types: (float[N,3] x) => (float[N,3] y) { y = Relu(x) } => Relu => 26 => 11
    axes of a reduction: (float[N,3] x) => (float[N,1] y) <int64[1] a = {1}> { y = ReduceMean(x, a) } => ReduceMean
        => 20 => 13
    axes that are an input there too: (float[N,3] x) => (float[N,1] y) <int64[1] a = {1}> { y = ReduceSum(x, a) }
        => ReduceSum => 20 => 13
    squeeze: (float[N,3,1] x) => (float[N,1,3] y) <int64[1] a = {2}, int64[1] b = {1}> { s = Squeeze(x, a)
        y = Unsqueeze(s, b) } => Squeeze Unsqueeze => 21 => 12
    split sizes: (float[6] x) => (float[2] y, float[4] z) <int64[2] s = {2,4}> { y, z = Split(x, s) } => Split => 18
        => 12
    softmax: (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) } => Softmax => 21 => 12
    softmax of an inner axis: (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax<axis=1>(x) }
        => Transpose Softmax Transpose => 21 => 12
    hardmax of the first axis: (float[2,3,4] x) => (float[2,3,4] y) { y = Hardmax<axis=-3>(x) }
        => Transpose Hardmax Transpose => 21 => 11
    attribute at a later default: (float[2,3] x) => (float[6] y) <int64[1] s = {-1}> { y = Reshape<allowzero=0>(x, s) }
        => Reshape => 14 => 13
    renamed value: (float[1,1,4,4] x, float[1,2,2,2] g) => (float[1,1,2,2] y) { y = GridSample<mode="cubic">(x, g) }
        => GridSample => 20 => 16
    renamed default: (float[1,1,4,4] x, float[1,2,2,2] g) => (float[1,1,2,2] y) { y = GridSample(x, g) } => GridSample
        => 20 => 16
    constant: () => (float[2] y) { y = Constant<value_floats=[1.0,2.0]>() } => Constant => 21 => 13
    another kernel: (float[1,1,4,4] x) => (float[1,1,2,2] y) { y = AveragePool<kernel_shape=[3,3]>(x) } => AveragePool
        => 22 => 13
    group norm: (float[N,4,5] x, float[4] s) => (float[N,4,5] y) { y = GroupNormalization<num_groups=2>(x, s, s) }
        => %s => 21 => 20
    group norm in single precision: (float16[2,4,5,3] x, float16[4] s, float16[4] b) => (float16[2,4,5,3] y) {
        y = GroupNormalization<num_groups=4, epsilon=0.5>(x, s, b) } => %s => 24 => 18
    upsample: (float[1,1,2,2] x) => (float[1,1,A,B] y) <float[4] s = {1,1,2,3}> { y = Upsample(x, s) } => Upsample
        => 9 => 7
    linear upsample: (float16[1,1,2,2] x) => (float16[1,1,A,B] y) <float[4] s = {1,1,2,3}> {
        y = Upsample<mode="linear">(x, s) } => Upsample => 9 => 8
    upsample as it was: (float[1,1,2,2] x) => (float[1,1,A,B] y) { y = Upsample<scales=[1.0,1.0,2.0,3.0]>(x) }
        => Upsample => 8 => 7
    resize up: (float[1,1,2,2] x) => (float[1,1,A,B] y) <float[4] s = {1,1,2,1.5}> { y = Resize<mode="linear">(x, s) }
        => Upsample => 10 => 7
    nearest resize up: (float[1,1,2,2] x) => (float[1,1,A,B] y) <float[4] s = {1,1,2,1.5}> { y = Resize(x, s) }
        => Upsample => 10 => 9
    resize by scales: (float[1,1,2,2] x, float[4] s) => (float[N,C,A,B] y) <float[0] r = {}> {
        y = Resize<mode="linear", coordinate_transformation_mode="asymmetric">(x, r, s) } => Resize => 11 => 10
    resize down: (float[1,1,4,4] x) => (float[1,1,A,B] y) <float[4] s = {1,1,0.5,0.3}> {
        y = Resize<coordinate_transformation_mode="asymmetric", nearest_mode="ceil">(x, , s) } => Resize => 13 => 10
    resize without a region: (float[1,1,4,4] x) => (float[1,1,A,B] y) <float[4] s = {1,1,2,3}> { y = Resize(x, , s) }
        => Resize => 13 => 11
    resize to sizes: (float[1,1,4,4] x) => (float[1,1,A,B] y) <int64[4] s = {1,1,5,3}> { y = Resize(x, , , s) }
        => Resize => 19 => 11
    resize since 13: (float[1,1,2,2] x) => (float[1,1,A,B] y) <float[4] s = {1,1,2,3}> {
        y = Resize<coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x, , s) } => Upsample => 13 => 8
    group norm in half precision: (float16[2,4,5] x, float16[4] s, float16[4] b) => (float16[2,4,5] y) {
        y = GroupNormalization<num_groups=2, stash_type=10>(x, s, b) } => %s => 21 => 20
"""
        % ((GROUP_NORM,) * 3)
    ),
)
def test_lowered(body: str, kinds: str, opset: str, version: str) -> None:
    require_converted(body, int(opset), int(version), kinds)


@cases(
    ("body", "reason", "opset", "version"),
    table("""
    later operator: (float[2] x) => (y) { y = Gelu(x) } => Gelu y: opset 19 has no => 20 => 19
    too low: (float[2] x) => (y) { y = Relu(x) } => ^the lowest is 11 => 14 => 10
    upsample by computed scales: (float[1,1,2,2] x, float[4] s) => (y) { y = Upsample(x, s) } => scales are computed
        => 9 => 8
    upsample of images: (float[1,1,2,2] x) => (y) { y = Upsample<scales=[1.0,1.0,2.0,3.0]>(x) }
        => only height and width => 7 => 6
    resize down: (float[1,1,2,2] x) => (y) <float[4] s = {1,1,2,0.5}> { y = Resize(x, s) } => before opset 10 enlarges
        => 10 => 9
    resize of computed scales: (float[1,1,2,2] x, float[4] s) => (y) { y = Resize(x, s) } => scales are computed
        => 10 => 9
    resize to sizes: (float[1,1,2,2] x, int64[4] s) => (y) {
        y = Resize<coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x, , , s) } => given sizes
        => 13 => 10
    half pixels: (float[1,1,2,2] x) => (y) <float[0] r = {}, float[4] s = {1,1,2,2}> {
        y = Resize<mode="linear">(x, r, s) } => samples as half_pixel => 11 => 10
    cubic: (float[1,1,2,2] x) => (y) <float[0] r = {}, float[4] s = {1,1,2,2}> {
        y = Resize<mode="cubic", coordinate_transformation_mode="asymmetric">(x, r, s) } => mode is cubic => 11 => 10
    rounded otherwise: (float[1,1,2,2] x) => (y) <float[0] r = {}, float[4] s = {1,1,2,2}> {
        y = Resize<coordinate_transformation_mode="asymmetric", nearest_mode="ceil">(x, r, s) } => nearest_mode is ceil
        => 11 => 10
    rounded by computed scales: (float[1,1,2,2] x, float[4] s) => (y) <float[0] r = {}> {
        y = Resize<coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x, r, s) } => scales are computed
        => 11 => 10
    newer type: (bfloat16[1,1,2,2] x) => (y) <float[4] s = {1,1,2,2}> { y = Resize(x, , s) } => no tensor.bfloat16.
        => 13 => 12
    cropped: (float[1,1,2,2] x) => (y) <float[4] s = {1,1,2,2}> {
        y = Resize<mode="linear", coordinate_transformation_mode="tf_crop_and_resize">(x, , s) } => tf_crop_and_resize
        => 13 => 10
    type: (int8[2] x) => (y) { y = Relu(x) } => takes no tensor.int8. at opset 13 => 14 => 13
    unknown type: (x) => (y) { y = Relu(x) } => its own are unknown => 14 => 13
    attribute: (float[2,3] x) => (y) { y = Shape<start=1>(x) } => no attribute start of Shape; onnx.version_ => 15 => 14
    value of an attribute: (float[2,3] x, int64[2] p) => (y) { y = Pad<mode="wrap">(x, p) } => wrap came with opset 19
        => 19 => 18
    axes that are computed: (float[2,3] x, int64[1] a) => (y) { y = ReduceMean(x, a) } => at most 1 inputs => 18 => 17
    rank: (float[1,1,4,4,4] x, float[1,2,2,2,3] g) => (y) { y = GridSample(x, g) } => ranks than 4 => 20 => 19
    two types: (float16[1,2] x, float[2] a, float[2] b, float[2] c, float[2] d) => (y) {
        y = BatchNormalization(x, a, b, c, d) } => tensor.float16. beside => 15 => 14
    group norm of unknown types: (x, s, b) => (y) { y = GroupNormalization<num_groups=2>(x, s, b) }
        => types of its inputs are unknown => 21 => 20
    no group norm: (float[2,4] x, float[4] s) => (y) { y = GroupNormalization<num_groups=2>(x, s, s) }
        => opset 17 has no such operator => 21 => 17
    training: (float[1,2] x, float[2] a, float[2] b, float[2] c, float[2] d) => (y) {
        y, m, v = BatchNormalization<training_mode=1>(x, a, b, c, d) } => training_mode => 15 => 13
"""),
)
def test_not_lowered(body: str, reason: str, opset: str, version: str) -> None:
    with pytest.raises(MatchFailure, match=reason):
        plan_conversion(from_onnx(model_of(f"g {body}", int(opset))).graph, int(version))


def test_upsample_of_images_has_scales_since_opset_7() -> None:
    """onnxruntime has no kernel for the first version."""
    upsample = 'y = Upsample<mode="bilinear", height_scale=2.0, width_scale=1.5>(x)'
    text = f"g (float[1,2,2,3] x) => (float[N,C,A,B] y) {{ {upsample} }}"
    model, feeds = model_of(text, 6), {"x": np.arange(12.0).reshape(1, 2, 2, 3)}
    wanted = evaluate_in_float64(model, feeds, ["y"])["y"].value
    assert wanted.shape == (1, 2, 4, 4)
    for version, kind in ((7, "Upsample"), (9, "Upsample"), (10, "Resize"), (13, "Resize")):
        found = converted(model, version)
        assert op_types(found) == [kind]
        np.testing.assert_array_equal(evaluate_in_float64(found, feeds, ["y"])["y"].value, wanted)


def test_lowering_keeps_everything_else() -> None:
    """Bodies, overridable initializers, names, and operators of other domains."""
    model = converted(model_of(BODIES, 11), 20)
    found = converted(model, 14)
    require_equivalent(model_of(BODIES, 11), found)
    assert op_types(found) == ["If", "Loop"]


def test_names_documentation_and_metadata_are_kept() -> None:
    model = model_of(
        "g (float[2,3] x) => (float[2,3] y, float[2,1] m) { y = Softmax(x) m = ReduceMax<axes=[1]>(y) }", 11
    )
    for node, name in zip(model.graph.node, ("soft", "largest"), strict=True):
        node.name, node.doc_string = name, f"about {name}"
        node.metadata_props.add(key="scope", value=name)
    found = {node.name: node for node in converted(model).graph.node if node.name}
    assert {n: (f.op_type, f.doc_string, f.metadata_props[0].value) for n, f in found.items()} == {
        "soft": ("Softmax", "about soft", "soft"),
        "largest": ("ReduceMax", "about largest", "largest"),
    }
    made = {p.key: p.value for p in found["soft"].metadata_props}
    assert made["passwright.rule"] == "raise-opset"


def test_float_attributes_are_bit_identical() -> None:
    text = "g (float[2] x) => (float[2] y, float[2] z) { y = LeakyRelu<alpha=0.1>(x) z = Elu<alpha=0.30000001>(y) }"
    model = model_of(text, 7)
    assert [n.attribute for n in converted(model).graph.node] == [n.attribute for n in model.graph.node]


BODIES = """g (float[2,3] x, bool c) => (float[2,1] y, float[2,1] z) <int64 n = {2}> {
    y = If (c) <
        then_branch = a () => (float[2,1] p) { p = ReduceMean<axes=[1]>(x) },
        else_branch = b () => (float[2,1] q) { s = Softmax<axis=0>(x) q = ReduceMax<axes=[1]>(s) }
    >
    z = Loop (n, c, y) <body = body (int64 i, bool d, float[2,1] v) => (bool e, float[2,1] w) {
        e = Identity(d)
        u = Squeeze<axes=[1]>(v)
        t = Unsqueeze<axes=[1]>(u)
        w = Add(t, y)
    }>
}"""


def test_subgraphs() -> None:
    model = model_of(BODIES, 11)
    found = converted(model)
    require_equivalent(model, found)
    assert op_types(found) == ["If", "Loop"]


@pytest.mark.parametrize("ir_version", [3, 4, 8])
def test_initializers_that_are_inputs(ir_version: int) -> None:
    """Overridable ones stay so; before IR version 4 they were constants, which the converted model says by itself."""
    text = """g (float[2,3] x, float[3] w) => (float[2,1] y) <float[3] w = {1,2,3}> {
        z = Mul(x, w)
        y = ReduceSum<axes=[1]>(z)
    }"""
    model = model_of(text, 9, ir_version)
    found = converted(model, 13)
    assert found.ir_version == max(ir_version, 7)
    assert [i.name for i in found.graph.input] == ["x"] if ir_version < 4 else ["x", "w"]
    assert found.graph.initializer[0].name == "w"
    require_equivalent(model, found)


def test_equal_constants_of_a_graph_are_shared() -> None:
    text = "g (float[2,3] x) => (float[2,1] y, float[2,1] z) { y = ReduceMax<axes=[1]>(x) z = ReduceMin<axes=[1]>(x) }"
    assert len(converted(model_of(text, 13)).graph.initializer) == 1


def test_other_domains_and_opaque_operators_stay() -> None:
    text = """<ir_version: 8, opset_import: ["": 13, "com.example": 3]>
    g (float[2,3] x) => (y) { a = com.example.ReduceMean<axes=[1]>(x) b = OfNobody<k=1>(a) y = Relu(b) }"""
    model = onnx.parser.parse_model(text)
    loaded = from_onnx(model)
    plan_conversion(loaded.graph, NEWEST).apply(loaded.graph, "raise-opset")
    found = to_onnx(loaded)
    assert list(found.graph.node) == list(model.graph.node)
    assert {e.domain: e.version for e in found.opset_import} == {"": NEWEST, "com.example": 3}


FUNCTION = """<ir_version: 8, opset_import: ["": 13, "local": 1]>
g (float[2,3] x) => (float[2,%d] y) {{ y = local.f(x) }}
<opset_import: ["": 13], domain: "local"> f (a) => (b) {{ b = %s(a) }}"""


def test_functions_that_are_not_inlined() -> None:
    same = onnx.parser.parse_model((FUNCTION % (3, "Sin")).replace("{{", "{").replace("}}", "}"))
    require_equivalent(same, converted(same, 21))
    other = onnx.parser.parse_model((FUNCTION % (1, "ReduceMean<axes=[1]>")).replace("{{", "{").replace("}}", "}"))
    for inline in (False, True):
        loaded = from_onnx(other, inline=inline)
        plan_conversion(loaded.graph, 21).apply(loaded.graph, "raise-opset")
        result = to_onnx(loaded)
        require_equivalent(other, result)
        assert [f.opset_import[0].version for f in result.functions] == [21] * (not inline)


CALLS = """<ir_version: 8, opset_import: ["": 11, "local": 1]>
g (float[2,3] x, bool[1] flag) => (float[a,b] y) {
    c = Squeeze<axes=[0]>(flag) s = local.outer<depth=0.25>(x, c) y = Relu(s) }
<opset_import: ["": 11, "local": 1], domain: "local"> outer <depth>(a, c) => (b) {
    u = If(c) <then_branch = t () => (v) { w = local.inner(a) v = ReduceSum<axes=[1]>(w) },
               else_branch = e () => (z) { z = ReduceSum<axes=[0]>(a) }>
    f = Elu<alpha: float = @depth>(u)
    b = Add(f, f) }
<opset_import: ["": 11], domain: "local"> inner (a) => (b) { h = Unsqueeze<axes=[0]>(a) b = Squeeze<axes=[0]>(h) }"""


def test_functions_that_call_each_other_and_have_bodies() -> None:
    model = onnx.parser.parse_model(CALLS)
    result = converted(model, 21)
    require_equivalent(model, result)
    assert [f.name for f in result.functions] == ["outer", "inner"]
    assert result.functions[0].node[-2].attribute[0].ref_attr_name == "depth"


def test_function_that_does_not_run_at_a_higher_opset() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 16, "local": 1]>
    g (float[1,1,4,4] x, float[1,4] r, int64[1] i) => (float[1,1,2,2] y) { y = local.f(x, r, i) }
    <opset_import: ["": 16], domain: "local">
    f (x, r, i) => (y) { y = RoiAlign<output_height=2, output_width=2>(x, r, i) }""")
    plan = plan_highest_conversion(from_onnx(model).graph, NEWEST, runs_on_cpu)
    assert plan.version == 21
    why = "RoiAlign y: RoiAlign does not run at opset 22 on all types, and its types are unknown"
    assert plan.obstacle == f"opset 22 is not possible: local function f, which is not inlined: {why}"


def test_highest_possible_opset() -> None:
    text = """g (float[1,1,4,4] x, float[1,4] r, int64[1] i) => (float[1,1,2,2] y, float[1,1,4,4] z) {
        y = RoiAlign<output_height=2, output_width=2>(x, r, i)
        z = Softmax<axis=3>(x)
    }"""
    graph = from_onnx(model_of(text, 16)).graph
    plan = plan_highest_conversion(graph, NEWEST, runs_on_cpu)
    assert plan.version == 21
    assert plan.obstacle == "opset 22 is not possible: RoiAlign y: RoiAlign of float, int64 does not run at opset 22"
    assert plan_highest_conversion(graph, NEWEST).version == NEWEST
    assert plan_highest_conversion(graph, 16).version == 16


def test_conversion_to_the_same_kernels() -> None:
    graph = from_onnx(model_of("g (float[1,1,4,4] x) => (y) { y = AveragePool<kernel_shape=[3,3]>(x) }", 11)).graph
    assert not plan_conversion(graph, NEWEST).is_exact
    plan = plan_highest_conversion(graph, NEWEST, same_kernels=True)
    assert (plan.version, plan.is_exact) == (18, True)
    assert "runs it slower since opset 19" in plan.obstacle


def test_many_ops_are_converted_in_linear_time() -> None:
    kinds = ["ReduceMean<axes=[1]>", "Softmax<axis=0>", "Relu", "Squeeze<axes=[0]>"]
    nodes = " ".join(f"y{i} = {kinds[i % len(kinds)]}(x)" for i in range(400))
    graph = from_onnx(model_of(f"g (float[1,3] x) => (y0) {{ {nodes} }}", 11)).graph
    calls: list[int] = []
    original = onnx_calls.convert_version

    def counting(model: onnx.ModelProto, version: int) -> onnx.ModelProto:
        calls.append(len(model.graph.node))
        return original(model, version)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("passwright.core.transform.node_conversion.convert_version", counting)
        plan = plan_conversion(graph, NEWEST)
    assert len(plan.replacements) == 300
    assert calls == [4, 3]  # each kind once without types, and those that change with them


def test_weights_are_not_read(tmp_path: Path) -> None:
    """Of a model over 2 GB, whose weights are in a sparse file."""
    size = 3 << 30
    model = model_of("g (float[1,4] x) => (float[1,1] y) { z = Mul(x, w) y = ReduceMean<axes=[1]>(z) }", 13)
    tensor = model.graph.initializer.add(name="w", data_type=1, dims=[size // 16, 4])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", "w.data"), ("offset", "0"), ("length", str(size))):
        tensor.external_data.add(key=key, value=value)
    with (tmp_path / "w.data").open("wb") as f:
        f.truncate(size)
    onnx.save(model, tmp_path / "m.onnx")
    loaded = load(ModelFile(tmp_path / "m.onnx"))
    plan_conversion(loaded.graph, NEWEST, runs_on_cpu).apply(loaded.graph, "raise-opset")
    held = next(v.tensor for v in loaded.graph.initializers if v.name == "w")
    assert held is not None
    assert held.mapped is not None
    assert [op.type for op in loaded.graph.sorted_ops()] == ["Mul", "ReduceMean"]


@pytest.mark.parametrize("name", slow_unless(GOLDEN_SAMPLE, sorted(p.stem for p in GOLDEN.glob("*.onnx"))))
def test_golden_models(name: str) -> None:
    loaded = load(ModelFile(GOLDEN / f"{name}.onnx"))
    plan = plan_highest_conversion(loaded.graph, highest_opset_of_onnxruntime(), runs_on_cpu)
    assert plan.version >= 21 or "in training form" in plan.obstacle
    plan.apply(loaded.graph, "raise-opset")
    require_equivalent(onnx.load(GOLDEN / f"{name}.onnx"), to_onnx(loaded))


@st.composite
def old_models(draw: st.DrawFn) -> onnx.ModelProto:
    """Ops of opset 7 to 12 with attributes that became inputs or changed their meaning, on any rank."""
    rank, dtype = draw(st.integers(1, 4)), draw(st.sampled_from(["float", "double"]))
    dims = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    axes = sorted(draw(st.sets(st.integers(0, rank - 1), min_size=1)))
    kind = draw(st.sampled_from(["Softmax", "LogSoftmax", "Hardmax"])) if dtype == "float" else "Softmax"
    axis = draw(st.integers(0, rank - 1))
    reduction = draw(st.sampled_from(["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd"]))
    pads = draw(st.lists(st.integers(0, 2), min_size=2 * rank, max_size=2 * rank))
    shape = ",".join(map(str, dims))
    return model_of(
        f"""g ({dtype}[{shape}] x) => ({dtype}[{",".join("abcd"[:rank])}] y, {dtype}[{",".join("efgh"[:rank])}] z) {{
            s = {kind}<axis={axis}>(x)
            p = Pad<pads={pads}, value={draw(st.sampled_from([0.0, 1.5, -2.25]))}>(s)
            y = {reduction}<axes={axes}, keepdims=1>(p)
            u = Unsqueeze<axes={axes}>(x)
            q = Squeeze<axes={axes}>(u)
            z = Add(q, s)
        }}""",
        draw(st.integers(7, 10)),
    )


@given(model=old_models())
def test_old_models(model: onnx.ModelProto) -> None:
    require_equivalent(model, converted(model, highest_opset_of_onnxruntime()), exact=True)


@given(model=models())
@settings(max_examples=5)
def test_random_models_raised_and_lowered(model: onnx.ModelProto) -> None:
    raised = converted(model, highest_opset_of_onnxruntime())
    require_equivalent(model, converted(raised, max(opset_of(model), 11)), exact=True)


@given(model=models())
def test_random_models(model: onnx.ModelProto) -> None:
    loaded = from_onnx(model)
    plan = plan_highest_conversion(loaded.graph, highest_opset_of_onnxruntime(), runs_on_cpu)
    plan.apply(loaded.graph, "raise-opset")
    assert plan.version == highest_opset_of_onnxruntime()
    require_equivalent(model, to_onnx(loaded), exact=True)
