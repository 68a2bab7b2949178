"""Schemes and their variants on small models, as searches build them."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from msgspec.structs import replace
from passwright.app.measure import benchmark
from passwright.app.measure.benchmark import BenchmarkConfig, BenchmarkTarget
from passwright.app.quantize.candidates import Candidate, replaced_operators
from passwright.app.quantize.inventory import float_ops, quantized_ops
from passwright.app.quantize.quantize import QuantizationOptions, quantize_model
from passwright.app.quantize.schemes import (
    AUTO,
    SCHEMES,
    STORE_WEIGHTS,
    Calibration,
    chosen_schemes,
    lossy_passes,
    weight_settings,
)
from passwright.app.quantize.search import BuiltCandidate, Trial
from passwright.app.quantize.sensitivity import value_errors
from passwright.core import EXACT, LOSSY, Op, Value, rule
from passwright.core.calibration.collection import collect_statistics
from passwright.core.errors import UsageError
from passwright.core.io.convert import to_onnx
from passwright.core.io.model_source import model_source
from passwright.core.ort.sessions import SessionConfig, create_session
from passwright.passes.quantization.static_groups import quantized_weight, required_spec, usable_scales, weight_scales
from passwright.passes.targets import QUANTIZATION_TARGETS
from rewriting import cases, each, load, op_types, run
from simulated_races import SimulatedMachine
from tiers import needs_openvino, slow_unless

pytestmark = pytest.mark.usefixtures("_verifies_in_process")
SPEC = QUANTIZATION_TARGETS["portable"].spec({})
RNG = np.random.default_rng(0)
FEEDS = [{"x": RNG.normal(size=(1, 8, 6, 6)).astype(np.float32)} for _ in range(4)]


def network() -> onnx.ModelProto:
    """A depthwise and a pointwise convolution, and a product of many weights."""
    text = """g (float[1,8,6,6] x) => (float[1,512] y) {
        d = Conv<group=8, pads=[1,1,1,1]>(x, dw, db) a = Relu(d) p = Conv(a, pw) r = Relu(p)
        m = GlobalAveragePool(r) f = Flatten(m) y = Gemm(f, w, b) }"""
    rng = np.random.default_rng(1)
    scales = np.logspace(-1, 1, 8).astype(np.float32)
    weights = {
        "dw": rng.normal(size=(8, 1, 3, 3)).astype(np.float32) * scales.reshape(8, 1, 1, 1),
        "db": rng.normal(size=8).astype(np.float32) * scales,
        "pw": rng.normal(size=(128, 8, 1, 1)).astype(np.float32) / scales.reshape(1, 8, 1, 1),
        "w": rng.normal(size=(128, 512)).astype(np.float32),
        "b": rng.normal(size=512).astype(np.float32),
    }
    return load(text, opset=21, weights=weights)


def noise(model: onnx.ModelProto, made: onnx.ModelProto) -> float:
    pairs = [(run(model, feeds)[0], run(made, feeds)[0]) for feeds in FEEDS]
    return float(sum(np.square(a - b).sum() for a, b in pairs) / sum(np.square(a).sum() for a, _ in pairs))


def built_first(variants: Mapping[str, Any], scheme: str, path: Path, variant: str = "") -> BuiltCandidate:
    """The candidate of a variant, the first if it is not named, in a file."""
    builder = (variants[variant] if variant else next(iter(variants.values())))(None)
    assert builder is not None
    candidate = builder.build()
    candidate.write(path)
    return BuiltCandidate(builder, candidate, path, {}, Trial(scheme, "", 0, 0, 0))


def built(scheme: str, path: Path, **settings: Any) -> Iterator[tuple[str, onnx.ModelProto, Candidate]]:
    """The candidates of a scheme by variant, made from the first variant as a search does."""
    source = model_source(network(), inline=True)
    variants = dict(chosen_schemes(scheme, source, Calibration(source, FEEDS), SPEC, **settings)[scheme])
    first = built_first(variants, scheme, path)
    for name, variant in variants.items():
        if builder := variant(first):
            candidate = builder.build()
            yield name, to_onnx(candidate.model), candidate


@cases(
    ("scheme", "limits"),
    {
        "static": (
            "static",
            dict.fromkeys(("minmax", "percentile", "mse", "GPTQ", "weights of 8 bits"), 1e-2)
            | {"equalized channels": 2e-3},
        ),
        "dynamic": ("dynamic", {"": 1e-3, "clipped weights": 1e-3, "GPTQ": 1e-3}),
        "weights8": ("weights8", {"": 1e-3}),
        "weights4": (
            "weights4",
            dict.fromkeys(("clipped", "with zero points", "HQQ", "GPTQ", "AWQ", "AWQ and GPTQ"), 2e-2),
        ),
        "int8-weights": ("int8-weights", {"": 2e-3, "GPTQ": 1e-3}),  # of unlike channels, too
        "half": ("half", {"": 1e-5}),
        "half-weights": ("half-weights", {"": 1e-5}),
    },
)
def test_variants_are_near_the_original(scheme: str, limits: dict[str, float], tmp_path: Path) -> None:
    """Equalized channels lower the error of unlike channels, and 8 bits the error where processors need 7."""
    errors: dict[str, float] = {}
    for variant, made, candidate in built(scheme, tmp_path / "first.onnx"):
        onnx.checker.check_model(made, full_check=not any(n.domain for n in made.graph.node))
        assert candidate.changes, variant
        errors[variant] = noise(network(), made)
    assert limits.keys() <= errors.keys()
    assert [name for name, limit in limits.items() if errors[name] >= limit] == []
    if scheme == "static":
        assert errors["equalized channels"] < errors["minmax"] / 2
        assert errors["weights of 8 bits"] < 0.9 * errors["minmax"]
    if scheme == "int8-weights":
        assert errors["GPTQ"] < errors[""] / 2


def test_small_models_have_short_texts(tmp_path: Path) -> None:
    """In the file that is written in the end; names of the model stay, and large models keep all."""
    text = (
        "g (float[1,32,2,2] x) => (float[1,32,2,2] z) { first_layer = Conv(x, v) y = Relu(first_layer) z = Conv(y, w) }"
    )
    for extent, is_small in ((1, True), (25, False)):
        rng = np.random.default_rng(0)
        weights = {n: rng.normal(0, 0.1, (32, 32, extent, extent)).astype(np.float32) for n in "vw"}
        model = load(
            text.replace("Conv(", f'Conv<auto_pad="SAME_UPPER",kernel_shape=[{extent},{extent}]>('), weights=weights
        )
        model.graph.node[1].metadata_props.add(key="author", value="a")
        model.graph.node[1].metadata_props.add(key="passwright.rule", value="of an earlier run")
        source = model_source(model, inline=True)
        feeds = [{"x": rng.normal(size=(1, 32, 2, 2)).astype(np.float32)} for _ in range(2)]
        variants = dict(chosen_schemes("static", source, Calibration(source, feeds), SPEC)["static"])
        found = built_first(variants, "static", tmp_path / "searched.onnx")
        size = found.candidate.write(tmp_path / "again.onnx")
        found.candidate.save(tmp_path / "saved.onnx")
        searched, saved = (onnx.load(tmp_path / name) for name in ("searched.onnx", "saved.onnx"))
        assert (tmp_path / "saved.onnx").stat().st_size == size
        assert op_types(saved) == op_types(searched)
        x = feeds[0]
        np.testing.assert_array_equal(run(saved, x)[0], run(searched, x)[0], strict=True)
        names = {name for n in saved.graph.node for name in n.output}
        assert {"y", "z"} <= names
        assert not found.candidate.shortened
        assert (saved == searched) != is_small
        metadata = {p.key for n in saved.graph.node for p in n.metadata_props}
        assert ("passwright.rule" in metadata) != is_small
        assert any(name.startswith("y_pw") for name in names) != is_small
        assert [n.name for n in onnx.load(tmp_path / "again.onnx").graph.node] == [n.name for n in saved.graph.node]
        onnx.checker.check_model(saved)


@pytest.mark.parametrize("scheme", ["int8-weights", "pruned"])
def test_long_inner_names_of_small_models_are_short(tmp_path: Path, scheme: str) -> None:
    """Where they are a tenth of the weights; inputs and outputs keep theirs, also in bodies that read outer values."""
    long = "a_layer_of_a_network_with_many_of_them_" * 6
    text = f"""g (float[1,32,2,2] input_of_the_model, bool c) => (float[1,32,2,2] output_of_the_model) {{
        "{long}1" = Conv(input_of_the_model, v) "{long}2" = Relu("{long}1") "{long}3" = Conv("{long}2", w)
        output_of_the_model = If(c) <then_branch = t () => (float[1,32,2,2] "{long}4") {{ "{long}4" = Neg("{long}3") }},
        else_branch = e () => (float[1,32,2,2] "{long}5") {{ "{long}5" = Abs("{long}3") }}> }}"""
    rng = np.random.default_rng(0)
    weights = {n: rng.normal(0, 0.1, (32, 32, 1, 1)).astype(np.float32) for n in "vw"}
    model = load(text.replace('"', ""), weights=weights)
    for i, node in enumerate(model.graph.node):
        node.name = f"{long}node{i}"
    source = model_source(model, inline=True)
    samples = rng.normal(size=(8, 1, 32, 2, 2)).astype(np.float32)
    given = [{"input_of_the_model": x, "c": np.array(i % 2 == 0)} for i, x in enumerate(samples)]
    data = Calibration(source, given) if scheme == "pruned" else None
    (_, variant), *_ = chosen_schemes(scheme, source, data, SPEC)[scheme]
    found = built_first({"": variant}, scheme, tmp_path / "searched.onnx")
    size = found.candidate.write(tmp_path / "again.onnx")
    found.candidate.save(tmp_path / "saved.onnx")
    searched, saved = (onnx.load(tmp_path / name) for name in ("searched.onnx", "saved.onnx"))
    assert (tmp_path / "saved.onnx").stat().st_size == size < len(searched.SerializeToString()) - 20 * len(long)
    assert long not in str(saved)
    assert {f"{long}1", f"{long}4"} <= found.candidate.shortened
    assert [v.name for v in (*saved.graph.input, *saved.graph.output)] == [
        "input_of_the_model", "c", "output_of_the_model"
    ]  # fmt: skip
    onnx.checker.check_model(saved, full_check=True)
    x = rng.normal(size=(1, 32, 2, 2)).astype(np.float32)
    for c in (True, False):
        feeds = {"input_of_the_model": x, "c": np.array(c)}
        np.testing.assert_array_equal(run(saved, feeds)[0], run(searched, feeds)[0], strict=True)


def shared_weights() -> onnx.ModelProto:
    """Six layers of the same weights and biases."""
    calls = "".join(
        f"""a{i} = MatMul(x{i}, u) s{i} = Add(a{i}, b) r{i} = Relu(s{i}) m{i} = MatMul(r{i}, v)
        x{i + 1} = {"Add" if i < 5 else "Sub"}(m{i}, x{i}) """
        for i in range(6)
    )
    rng = np.random.default_rng(2)
    u, v, b = (rng.normal(0, 0.06, dims).astype(np.float32) for dims in ((256, 512), (512, 256), 512))
    text = f"g (float[N,256] x0) => (float[N,256] x6) {{ {calls} }}"
    return load(text, opset=21, weights={"u": u, "v": v, "b": b})


def test_weights_that_ops_share_are_in_the_file_once(tmp_path: Path) -> None:
    """Of all schemes, in all variants, and stored in all ways; GPTQ rounds them for all of their inputs."""
    model = shared_weights()
    source = model_source(model, inline=True)
    feeds = [{"x0": RNG.normal(size=(16, 256)).astype(np.float32)} for _ in range(4)]
    shares = {"half": 0.5, "half-weights": 0.5, "pruned": 1.0, "low-rank": 1.0}
    larger: dict[str, float] = {}
    for scheme, variants in chosen_schemes(AUTO, source, Calibration(source, feeds), SPEC).items():
        first = built_first(dict(variants), scheme, tmp_path / "first.onnx")
        for name, variant in variants:
            for stores in ((), *STORE_WEIGHTS.values()):
                if builder := variant(first):
                    combined = replace(builder, scheme=replace(builder.scheme, stores=stores or builder.scheme.stores))
                    size = len(to_onnx(combined.build().model).SerializeToString())
                    share = size / len(model.SerializeToString())
                    larger |= {f"{scheme}, {name}": share} if share > shares.get(scheme, 0.26) + 0.03 else {}
    assert larger == {}


def test_gram_matrices_are_collected_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For all schemes of a model, but not those of few samples, as the time was over."""
    source = model_source(network(), inline=True)
    collected: list[int] = []

    def noted(*given: Any, **settings: Any) -> Any:
        collected.append(len(settings.get("grams", {})))
        return collect_statistics(*given, **settings)

    monkeypatch.setattr("passwright.app.quantize.schemes.collect_statistics", noted)
    calibration = Calibration(source, FEEDS)
    chosen = {name: dict(chosen_schemes(name, source, calibration, SPEC)[name]) for name in ("static", "int8-weights")}
    for name, variant in (("static", "minmax"), ("int8-weights", "")):
        made = built_first(chosen[name], name, tmp_path / f"{name}.onnx", variant)
        assert chosen[name]["GPTQ"](made) is not None
    assert collected == [0, 3]
    calibration.deadline.at = 0.0
    late = Calibration(source, FEEDS, deadline=calibration.deadline)
    for _ in range(2):
        assert late.grams
        del late.__dict__["grams"]
    assert collected == [0, 3, 1, 1]


def test_weights_of_eight_bits_are_for_processors_that_need_seven() -> None:
    source = model_source(network(), inline=True)
    calibration = Calibration(source, FEEDS)
    x86, vnni = (
        dict(chosen_schemes("static", source, calibration, QUANTIZATION_TARGETS[target].spec({}))["static"])
        for target in ("x86", "x86-vnni")
    )
    assert set(x86) - set(vnni) == {"weights of 8 bits"}


@needs_openvino
def test_openvino_computes_what_is_quantized_for_it_on_integers(tmp_path: Path) -> None:
    source = model_source(network(), inline=True)
    spec = QUANTIZATION_TARGETS["openvino"].spec({})
    variants = dict(chosen_schemes("static", source, Calibration(source, FEEDS), spec, "minmax")["static"])
    made = to_onnx(built_first(variants, "static", tmp_path / "made.onnx", "minmax").builder.build().model)
    config = SessionConfig(engine="openvino", intra_op_threads=1, profile_prefix="profile")
    session = create_session(made.SerializeToString(), config)
    found = session.run(None, FEEDS[0])[0]
    assert np.abs(found - run(network(), FEEDS[0])[0]).max() < 0.05 * np.abs(found).max()
    products = [op.kernel for op in session.op_times() if "Convolution" in op.op_type or "Connected" in op.op_type]
    assert len(products) == 3
    assert all(kernel.endswith("I8") for kernel in products)


def test_operators_are_those_with_weights() -> None:
    text = """g (float[2,5,16] x) => (float[2,5,5] y) {
        m = MatMul(x, w) a = Add(b, m) r = Relu(a) e = Tanh(r) t = Transpose<perm = [0, 2, 1]>(e) y = MatMul(e, t) }"""
    arrays = {"w": RNG.normal(size=(16, 16)).astype(np.float32), "b": np.ones(16, np.float32)}
    source = model_source(load(text, weights=arrays), inline=True)
    feeds = [{"x": RNG.normal(size=(2, 5, 16)).astype(np.float32)}]
    variants = dict(chosen_schemes("static", source, Calibration(source, feeds), SPEC)["static"])
    builder = variants["minmax"](None)
    assert builder is not None
    assert replaced_operators(source.load(), builder.build().changes) == {
        ("quantize_biased_matmul", "r"): "MatMul",
        ("quantize_product", "y"): "MatMul of two values",
    }


def test_qoperator_has_operators_of_integers(tmp_path: Path) -> None:
    made = next(built("static", tmp_path / "first.onnx", output_format="qoperator"))[1]
    counts = Counter(op_types(made))
    assert counts["QLinearConv"] == 2
    assert not counts["Conv"]
    assert noise(network(), made) < 5e-2


def test_unknown_names_are_refused() -> None:
    source = model_source(network(), inline=True)
    for arguments, message in (
        (("statik", source, None, SPEC), r"--scheme statik: choose from auto, static.*did you mean static"),
        (("static", source, None, SPEC), r"--scheme static needs calibration data: give --data"),
        (("pruned", source, None, SPEC), r"--scheme pruned needs calibration data: give --data"),
        (("low-rank", source, None, SPEC), r"--scheme low-rank needs calibration data: give --data"),
        (("static", source, Calibration(source, FEEDS), SPEC, "max"), r"--calibrate max: choose from minmax"),
        ((AUTO, source, None, SPEC, "", "onnx"), r"--format onnx: choose from qdq, qoperator"),
    ):
        with pytest.raises(UsageError, match=message):
            chosen_schemes(*arguments)


def test_auto_has_no_scheme_that_needs_data_without_them() -> None:
    source = model_source(network(), inline=True)
    wanted = {s.name for s in SCHEMES.values() if not s.needs_ranges and not s.is_base}
    assert set(chosen_schemes(AUTO, source, None, SPEC)) == wanted


def test_half_leaves_values_wide_that_overflow_on_the_data() -> None:
    text = "g (float[4,8] x) => (float[4,8] y) { a = MatMul(x, w) b = Mul(a, a) c = Mul(b, r) y = MatMul(c, w) }"
    weights = {"w": np.full((8, 8), 10, np.float32), "r": np.full((1, 1), 1e-3, np.float32)}
    source = model_source(load(text, weights=weights), inline=True)
    feeds = [{"x": np.full((4, 8), sign * 4, np.float32)} for sign in (1, -1)]
    for calibration, half_products in ((None, 4), (Calibration(source, feeds), 2)):  # b is 102400 on the data
        ((_, variant),) = chosen_schemes("half", source, calibration, SPEC)["half"]
        builder = variant(None)
        assert builder is not None
        candidate = builder.build()
        assert len(candidate.changes) == half_products
        types = op_types(to_onnx(candidate.model))
        assert types.count("MatMul") == types.count("Mul") == 2


@rule(lambda g, x, w, op: g.ConvTranspose(x, g.const(w)) @ op, contract=LOSSY)
def quantize_transposed_conv(g: Any, x: Value, w: Value, op: Op) -> Value:
    """ConvTranspose(x, w) => ConvTranspose(x, w as int8)"""
    scales = usable_scales(weight_scales(w.const, required_spec(g).weight_limit, None), 1.0, None)
    return g.ConvTranspose(x, quantized_weight(g, w.const, scales, None), **op.attrs)


@rule(lambda g, x: g.Neg(g.Neg(x)), contract=EXACT)
def cancel_negations(g: Any, x: Value) -> Value:
    """Neg(Neg(x)) => x"""
    return x


def test_rules_of_plugins_take_part(tmp_path: Path) -> None:
    weights = {"w": RNG.normal(size=(8, 64, 4, 4)).astype(np.float32)}
    model = load("g (float[1,8,6,6] x) => (float[1,64,9,9] y) { y = ConvTranspose(x, w) }", weights=weights)
    source = model_source(model, inline=True)
    plugins = lossy_passes([quantize_transposed_conv])
    ((_, variant),) = chosen_schemes("weights8", source, None, SPEC, plugins=plugins)["weights8"]
    builder = variant(None)
    assert builder is not None
    candidate = builder.build()
    assert [(c.by, c.place) for c in candidate.changes] == [("quantize_transposed_conv", "y")]
    assert noise(model, to_onnx(candidate.model)) < 1e-3
    assert not builder.build({("quantize_transposed_conv", "y")}).changes
    with pytest.raises(UsageError, match="no rule has the contract LOSSY: cancel-negations"):
        lossy_passes([cancel_negations])


@pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")
@pytest.mark.parametrize("schemes", slow_unless({"half-weights"}, ("half-weights", "static,half-weights")))
def test_a_model_is_quantized_from_end_to_end(schemes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SimulatedMachine(lambda _: 1e-3).replace_real_one(monkeypatch)
    options = QuantizationOptions(
        data=FEEDS * 3, scheme=schemes, budget="5%", min_time=0.02, output=tmp_path / "q.onnx",
        json=tmp_path / "report.json",
    )  # fmt: skip
    report = quantize_model(network(), options).report
    assert {t.scheme for t in report.trials} == {*schemes.split(",")}
    assert all(t.outcome for t in report.trials)
    assert (tmp_path / "report.json").stat().st_size > 100
    made = onnx.load(tmp_path / "q.onnx")
    assert noise(network(), made) <= (0.05 if report.scheme else 0)
    assert report.is_original == ("DequantizeLinear" not in op_types(made) and "Cast" not in op_types(made))


def test_constants_that_take_more_bytes_than_the_ops_that_compute_them_stay_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """onnxruntime computes them as it loads the model; a matrix of sines takes as many bytes as all weights."""
    text = "g (float[N,64] x) => (float[N,64] y) { t = Mul(r, c) s = Sin(t) h = MatMul(x, s) y = MatMul(h, w) }"
    weights = {
        name: RNG.normal(size=dims).astype(np.float32) for name, dims in {"r": (64, 1), "c": 64, "w": (64, 64)}.items()
    }
    model = load(text, weights=weights)
    SimulatedMachine(lambda _: 1e-3).replace_real_one(monkeypatch)
    result = quantize_model(model, QuantizationOptions(scheme="half-weights", goal="size", min_time=0.02))
    assert result.report.result.bytes < 0.7 * result.report.original.bytes
    assert "Sin" in op_types(result.model)


def test_a_result_that_is_larger_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "g (float[1,8,6,6] x) => (float[1,8,6,6] y) { d = Conv(x, w) a = Relu(d) p = Conv(a, w) y = Relu(p) }"
    model = load(text, opset=21, weights={"w": RNG.normal(size=(8, 8, 1, 1)).astype(np.float32)})

    def seconds(target: BenchmarkTarget) -> float:
        return 5e-4 if "QuantizeLinear" in op_types(onnx.load(target.model)) else 1e-3

    SimulatedMachine(seconds).replace_real_one(monkeypatch)
    options = QuantizationOptions(data=FEEDS * 3, scheme="static", budget="5%", min_time=0.02)
    report = quantize_model(model, options).report
    assert report.result.bytes > report.original.bytes
    assert report.notes[-1].startswith("the result is larger than the original")


@pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")
@each(("time", "searching"), [(1e4, (0.5, 3)), (0.0, (0.1, 2))])
def test_races_are_short_where_little_time_is_left(
    time: float, searching: tuple[float, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the last, which decides whether the result is faster."""
    machine, efforts = SimulatedMachine(lambda _: 1e-3), list[tuple[float, int]]()

    def run_benchmark(targets: Any, feeds: Any, config: BenchmarkConfig, *others: Any) -> Any:
        efforts.append((config.min_time, config.process_sets))
        return machine.run_benchmark(targets, feeds, config, *others)

    monkeypatch.setattr(benchmark, "run_benchmark", run_benchmark)
    options = QuantizationOptions(data=FEEDS * 3, scheme="half-weights", budget="5%", min_time=0.5, time=time)
    report = quantize_model(network(), options).report
    assert (set(efforts[:-1]), efforts[-1]) == ({searching}, (0.5, 5))
    assert report.scheme == "half-weights"


def test_ops_behind_an_lstm_of_integers_are_described(tmp_path: Path) -> None:
    """onnxruntime's LSTM of integers has no inference of types, so those behind it are unknown."""
    rng = np.random.default_rng(2)
    weights = {
        "w": rng.normal(0, 0.1, (1, 256, 64)).astype(np.float32),
        "r": rng.normal(0, 0.1, (1, 256, 64)).astype(np.float32),
        "axis": np.array([1], np.int64),
        "v": rng.normal(0, 0.1, (64, 64)).astype(np.float32),
    }
    text = """g (float[5,1,64] x) => (float[5,1,64] y, float[5,1,64] z) {
        h = LSTM<hidden_size=64>(x, w, r) s = Squeeze(h, axis) z = Tanh(s) a = Relu(s) m = MatMul(a, v) y = Relu(m) }"""
    source = model_source(load(text, weights=weights), inline=True)
    feeds = [{"x": rng.normal(size=(5, 1, 64)).astype(np.float32)} for _ in range(2)]
    variants = dict(chosen_schemes("static", source, Calibration(source, feeds), SPEC)["static"])
    made = built_first(variants, "static", tmp_path / "made.onnx")
    candidate, errors = made.candidate, value_errors(made, feeds)
    assert {"quantize_lstm_dynamically", "quantize_matmul"} <= {c.by for c in candidate.changes}
    assert all(error < 0.01 for error in errors.whole.values())
    assert {op.bits for op in quantized_ops(made, errors)} <= {8, None}
    assert "DynamicQuantizeLSTM" in op_types(to_onnx(candidate.model))
    assert {op.operator: op.reason for op in float_ops(made)} == {"Tanh": "the scheme has no rule for Tanh"}


def test_stored_weights_are_no_reason_to_stay_in_float(tmp_path: Path) -> None:
    """The reason is that of the scheme, which saw the weights as floats."""
    random = np.random.default_rng(0)
    weights = {n: random.normal(size=size).astype(np.float32) for n, size in {"v": (64, 512), "w": (512, 16)}.items()}
    text = "g (float[4,64] x) => (float[4,16] y) { a = MatMul(x, v) y = MatMul(a, w) }"
    source = model_source(load(text, 21, weights), inline=True)
    builder = dict(chosen_schemes("dynamic", source, None, SPEC)["dynamic"])[""](None)
    assert builder is not None
    scheme = replace(builder.scheme, stores=STORE_WEIGHTS["int8-weights"])
    made = built_first({"": lambda _: replace(builder, scheme=scheme)}, "dynamic", tmp_path / "made.onnx")
    assert {("a", 8), ("y", 8)} <= {(op.value, op.weight_bits) for op in quantized_ops(made)}
    (op,) = float_ops(made)
    assert (op.value, op.reason) == ("y", "w has an extent of 16, for which integers are slower than floats")


@pytest.mark.parametrize("scheme", ["static", "dynamic", "weights8", "int8-weights"])
def test_ops_in_float_are_those_of_the_model_that_no_change_made(scheme: str, tmp_path: Path) -> None:
    """Neither the scaling of integers, nor a product of compressed weights, nor a Loop whose body has such."""
    text = """g (float[4,256] x) => (float[4,256] y) {
        n = Constant<value=int64{2}>() go = Constant<value=bool{1}>() e = Exp(x)
        l = Loop(n, go, e) <body = b (int64 i, bool c, float[4,256] a) => (bool d, float[4,256] r) {
            d = Identity(c) p = MatMul(a, v) s = Add(p, k) r = Relu(s) }>
        y = MatMul(l, w) }"""
    rng = np.random.default_rng(3)
    weights = {n: rng.normal(0, 0.1, (256, 256)).astype(np.float32) for n in "vw"} | {"k": np.ones(256, np.float32)}
    feeds = [{"x": rng.normal(size=(4, 256)).astype(np.float32)} for _ in range(2)]
    source = model_source(load(text, 21, weights), inline=True)
    variants = dict(chosen_schemes(scheme, source, Calibration(source, feeds), SPEC)[scheme])
    made = built_first(variants, scheme, tmp_path / "made.onnx")
    assert made.candidate.changes
    wanted = ("Exp",) if scheme == "static" else ("Exp", "Add", "Relu")
    reasons = {operator: f"the scheme has no rule for {operator}" for operator in wanted}
    assert {op.operator: op.reason for op in float_ops(made)} == reasons


@cases(
    ("options", "expected"),
    {
        "blocks": ({"block_size": 64}, (64, True)),
        "zero points": ({"asymmetric": True}, (32, False)),
        "both": ({"block_size": 128, "asymmetric": True}, (128, False)),
        "neither": ({}, (32, True)),
    },
)
def test_block_size_and_zero_points(options: dict[str, Any], expected: tuple[int, bool]) -> None:
    """In MatMulNBits of weights4, and in no other scheme."""
    settings = weight_settings(QuantizationOptions(**options))
    source = model_source(network(), inline=True)
    variants = chosen_schemes("weights4,int8-weights", source, None, SPEC, weights=settings)
    (first, *_), ((_, other), *_) = variants["weights4"], variants["int8-weights"]
    builder, others = first[1](None), other(None)
    assert builder is not None
    assert others is not None
    assert (others.spec.block, others.spec.symmetric) == (0, True)
    nodes = [n for n in to_onnx(builder.build().model).graph.node if n.op_type == "MatMulNBits"]
    found = {({a.name: a.i for a in n.attribute}["block_size"], len(n.input) < 4) for n in nodes}
    assert found == {expected}


@each(("units", "runs_steps", "operator"), [(400, True, "Scan"), (400, False, "GRU"), (256, True, "GRU")])
def test_steps_of_a_large_network_are_products_of_weights_in_bits(units: int, runs_steps: bool, operator: str) -> None:
    """In onnxruntime alone, and if its weights are too many for a cache."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.normal(size=(1, 3 * units, 8)), "r": rng.normal(size=(1, 3 * units, units))}
    gru = f"GRU<hidden_size={units}, linear_before_reset=1>(x, w, r)"
    text = f"g (float[N,B,8] x) => (float[N,1,B,{units}] y) {{ y = {gru} }}"
    model = load(text, 21, {name: w.astype(np.float32) for name, w in weights.items()})
    settings = weight_settings(QuantizationOptions(), runs_steps=runs_steps)
    variants = chosen_schemes("weights8", model_source(model, inline=True), None, SPEC, weights=settings)
    ((_, variant),) = variants["weights8"]
    builder = variant(None)
    assert builder is not None
    candidate = builder.build()
    assert operator in op_types(to_onnx(candidate.model))
    assert [c.by for c in candidate.changes] == ["scan-recurrent-ops"] * (operator == "Scan")


@cases(
    ("options", "message"),
    {
        "no such block": ({"block_size": 48}, "--block-size 48: choose from 16, 32, 64, 128, 256"),
        "no scheme for blocks": (
            {"block_size": 32, "scheme": "static,half"},
            "--block-size 32: it needs one of the schemes",
        ),
        "no scheme for zero points": (
            {"asymmetric": True, "scheme": "half"},
            "--asymmetric: it needs one of the schemes",
        ),
    },
)
def test_blocks_that_no_scheme_uses(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        weight_settings(QuantizationOptions(**options))
