"""Bisection of onnxruntime's own optimizers, on models that they really break."""

from __future__ import annotations

import platform
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given
from hypothesis import strategies as st
from passwright.app.bisect import ort_bisect
from passwright.app.bisect.ort_bisect import OptimizerBisection, bisect_optimizers, minimal_subset
from passwright.app.bisect.ort_optimizers import (
    RULE_BASED_TRANSFORMERS,
    known_optimizers,
    logged_optimizers,
    merge_in_order,
)
from passwright.app.bisect.probe_process import ProbeFailure, ProbeWorker, probe, probe_process
from passwright.core.errors import EvaluationError, UnverifiableError, UsageError
from passwright.core.ort import value_files
from passwright.core.ort.backends import LoadedModel, ModelLoadError
from passwright.core.ort.sessions import LEVELS, SessionConfig
from passwright.core.processes.worker_process import WorkerProcess
from passwright.core.support.binary_search import first_bad
from passwright.core.verify.input_sets import InputSet
from passwright.core.verify.output_comparison import compare_outputs
from rewriting import cases, load, oracle_of
from tiers import slow_unless

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path
from threading import Lock

pytestmark = pytest.mark.usefixtures("_few_combined_inputs")
PAD = "t = Pad(x, p) y = MaxPool<kernel_shape=[3,3]>(t)"
PAD_MODEL = f"g (float[1,1,4,4] x) => (float[1,1,3,3] y) <int64[8] p = {{0,0,0,0,0,0,1,1}}> {{ {PAD} }}"
CLIP_MODEL = (
    "g (double[2,3] x) => (double[2,3] y) <double lo = {-1.0}, double hi = {2.0}> { r = Relu(x) y = Clip(r, lo, hi) }"
)
TWO_MODEL = f"""g (float[1,1,4,4] x, double[2,3] z) => (float[1,1,3,3] y, double[2,3] w)
    <int64[8] p = {{0,0,0,0,0,0,1,1}}, double lo = {{-1.0}}, double hi = {{2.0}}>
    {{ {PAD} r = Relu(z) w = Clip(r, lo, hi) }}"""
RIGHT_MODEL = "g (float[N,3] x) => (float[N,3] y) { a = Identity(x) b = Relu(a) y = Dropout(b) }"
# The branch is never taken, but its constants are folded: the least int32 by -1 raises SIGFPE on x86.
TRAP_MODEL = """g (float[3] x, int32[1] n) => (int32[1] y)
    <float[1] bound = {-1.0}, int32[1] least = {-2147483648}, int32[1] minus = {-1}, int64[1] axes = {0}> {
    a = Abs(x) s = ReduceSum(a, axes) c = Less(s, bound)
    y = If(c) <then_branch = th () => (int32[1] t) { t = Div(least, minus) },
               else_branch = el () => (int32[1] e) { e = Identity(n) }> }"""


def bisection(model: onnx.ModelProto, level: str, **options: Any) -> OptimizerBisection | None:
    return bisect_optimizers(oracle_of(model, **options), model.SerializeToString(), level)


def blamed(text: str, level: str, **options: Any) -> OptimizerBisection:
    found = bisection(load(text, 18), level, **options)
    assert found is not None
    return found


def fails(text: str, level: str, disabled: Collection[str], opset: int = 18, **options: Any) -> bool:
    """Whether a session in this process loads the model and agrees."""
    model = load(text, opset)
    oracle = oracle_of(model, **options)
    try:
        suspect = LoadedModel(
            model.SerializeToString(), SessionConfig(f"ENABLE_{level.upper()}", tuple(disabled), prepack_weights=True)
        )
    except ModelLoadError:
        return True
    for run in oracle.runs:
        results = dict(zip(oracle.output_names, suspect.run(oracle.output_names, run.input_set.feeds), strict=True))
        if any(compare_outputs(run.outputs[n], results[n], exact=False).reason for n in oracle.output_names):
            return True
    return False


def guarded(producer: str) -> str:
    """1/x * c, where c is computed by an op that another rule removes."""
    body = f"c = {producer} d = Div(one, x) y = Mul(d, c)"
    return f"g (float[2,3] x, float[2,3] b) => (float[2,3] y) <float one = {{1.0}}> {{ {body} }}"


@pytest.mark.parametrize("level", slow_unless({"basic"}, LEVELS))
def test_padding_merged_into_max_pool(level: str) -> None:
    found = blamed(PAD_MODEL, level)
    assert (found.optimizers, found.level, found.input_set) == (("Pad_Fusion",), level, "normal inputs")
    assert found.failure.startswith("y: off by up to ")
    assert found.failure.endswith(", on normal inputs")
    assert found.remark == ""
    assert found.runs <= 11  # of more optimizers at higher levels
    assert fails(PAD_MODEL, level, ())
    assert not fails(PAD_MODEL, level, found.optimizers)


def test_model_that_cannot_be_loaded() -> None:
    found = blamed(CLIP_MODEL, "basic")
    assert (found.optimizers, found.input_set) == (("FuseReluClip",), None)
    assert found.failure.startswith("onnxruntime cannot load it: ")
    assert "Unexpected data type" in found.failure
    assert ".cc" not in found.failure
    assert not fails(CLIP_MODEL, "basic", found.optimizers)


PARTNERS = {"Identity(b)": "EliminateIdentity", "Cast<to=1>(b)": "CastElimination", "Dropout(b)": "EliminateDropout"}


@pytest.mark.parametrize("producer", slow_unless({"Identity(b)"}, PARTNERS))
def test_joint_failure_names_one_culprit(producer: str) -> None:
    # Wrong on tiny inputs even without the partner.
    given = [InputSet("given", {}, {n: np.full((2, 3), 2, np.float32) for n in "xb"})]
    found = blamed(guarded(producer), "basic", given_inputs=given)
    assert found.optimizers == ("DivMulFusion",)
    assert found.failure == found.culprits[0].failure
    assert fails(guarded(producer), "basic", (), given_inputs=given)
    assert not fails(guarded(producer), "basic", [PARTNERS[producer]], given_inputs=given)


def test_two_culprits_are_named_in_order() -> None:
    found = blamed(TWO_MODEL, "basic")
    assert found.optimizers == ("FuseReluClip", "Pad_Fusion")
    clip, pad = found.culprits
    assert (clip.input_set, pad.input_set) == (None, "normal inputs")
    assert clip.failure.startswith("onnxruntime cannot load it")
    assert pad.failure.startswith("y: off by up to")
    assert found.runs <= 16
    assert all(fails(TWO_MODEL, "basic", [name]) for name in found.optimizers)


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() not in {"x86_64", "AMD64"}, reason="division traps on x86 only")
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has exit codes for signals")
def test_crash_is_a_failure() -> None:
    found = blamed(TRAP_MODEL, "basic")
    assert (found.optimizers, found.failure) == (("ConstantFolding",), "onnxruntime crashed (SIGFPE)")
    assert found.culprits[0].failure == found.failure


@pytest.mark.parametrize("level", slow_unless({"all"}, LEVELS))
def test_correct_model_has_no_culprit(level: str) -> None:
    said: list[str] = []
    model = load(RIGHT_MODEL)
    assert bisect_optimizers(oracle_of(model), model.SerializeToString(), level, said.append) is None
    assert said == [f"bisecting onnxruntime: at {level}"]


@cases(
    "text",
    {
        "bfloat16": "g (bfloat16[N] x, int64[N] c) => (bfloat16[N] y, int64[N] z) { y = Identity(x) z = Neg(c) }",
        "others": """g (string[N] a, int64[N] c, seq(float[2]) d, float16[N] e, float[8] f)
            => (string[N] s, seq(int64[N]) u, float[m] v, bool[N] w, int8[N] x, float[8] y) {
            s = Identity(a) u = SequenceConstruct(c, c) v = ConcatFromSequence<axis=0>(d)
            w = Less(e, e) x = Cast<to=3>(e) r = RandomNormalLike(f) y = Add(f, r) }""",
    },
)
def test_values_of_all_kinds_reach_the_worker(text: str) -> None:
    assert bisection(load(text), "all") is None


def test_undeclared_random_outputs_are_compared() -> None:
    text = "g (float[8] x) => (float[8] y) { r = RandomNormalLike(x) y = Add(x, r) }"
    found = blamed(text, "basic", random_outputs=())
    assert found.optimizers == ()
    assert found.remark.endswith("it also fails with optimization off, so no optimizer is the cause")


def test_model_in_a_file_with_external_weights(tmp_path: Path) -> None:
    body = "s = Add(x, w) t = Pad(s, p) y = MaxPool<kernel_shape=[3,3]>(t)"
    text = f"g (float[1,1,4,4] x) => (float[1,1,3,3] y) <int64[8] p = {{0,0,0,0,0,0,1,1}}> {{ {body} }}"
    model = load(text, weights={"w": np.full((1, 1, 4, 4), -20, np.float32)})
    path = tmp_path / "model.onnx"
    onnx.save_model(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    assert (tmp_path / "w.bin").stat().st_size
    oracle = oracle_of(onnx.load(path), path)
    found = bisect_optimizers(oracle, path, "basic")
    assert found is not None
    assert found.optimizers == ("Pad_Fusion",)


def test_given_inputs_are_used() -> None:
    positive = InputSet("given", {}, {"x": np.ones((1, 1, 4, 4), np.float32)})
    assert bisection(load(PAD_MODEL), "basic", given_inputs=[positive]) is None


def test_unknown_level_is_rejected() -> None:
    for level in ("none", "BASIC", ""):
        with pytest.raises(UsageError, match="choose from basic, extended, layout, all"):
            bisection(load(RIGHT_MODEL), level)


def test_probe_times_out() -> None:
    model = load(RIGHT_MODEL)
    found = bisect_optimizers(oracle_of(model), model.SerializeToString(), "basic", timeout=0.02)
    assert found is not None
    assert (found.optimizers, found.failure) == ((), "onnxruntime did not end within 0.02 s")


def test_unknown_rule_is_attributed_to_its_transformer(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = {*RULE_BASED_TRANSFORMERS, "Pad_Fusion"}
    known = [n for n in known_optimizers("basic") if n not in unknown]
    monkeypatch.setattr(ort_bisect, "known_optimizers", lambda _: known)
    found = blamed(PAD_MODEL, "basic")
    assert found.optimizers == (RULE_BASED_TRANSFORMERS[0],)


def test_unknown_optimizer_is_remarked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ort_bisect, "known_optimizers", lambda _: ["ConstantFolding"])
    monkeypatch.setattr(ort_bisect, "logged_optimizers", lambda _: [])
    found = blamed(PAD_MODEL, "basic")
    assert found.optimizers == ()
    assert found.remark.startswith("still wrong with all known optimizers disabled: y: off by up to ")
    assert found.remark.endswith("correct with optimization off, so the name of the wrong optimizer is unknown")


SHAPES = {"w": (3, 4), "bias": (4,), "k": (4, 3, 1, 1), "offset": (4, 1, 1), "wide": (16, 8, 1, 1), "scale": ()}
WEIGHTS = {name: np.ones(shape, np.float32) for name, shape in SHAPES.items()} | {"zero": np.array(0, np.uint8)}
FLAT = "(float[2,3] x) => (float[2,3] y)"
MATRIX = "(float[2,3] x) => (float[2,4] y)"
IMAGE = "(float[1,3,2,2] x) => (float[1,4,2,2] y)"


QUANTIZED = "g (float[2] x) => (uint8[2] y) { a = Relu(x) y = QuantizeLinear(a, scale, zero) }"


@pytest.mark.parametrize(
    ("name", "level", "text"),
    [
        ("EliminateIdentity", "basic", f"g {FLAT} {{ a = Relu(x) i = Identity(a) y = Neg(i) }}"),
        ("EliminateDropout", "basic", f"g {FLAT} {{ a = Relu(x) i = Dropout(a) y = Neg(i) }}"),
        ("CastElimination", "basic", f"g {FLAT} {{ a = Relu(x) i = Cast<to=1>(a) y = Neg(i) }}"),
        ("PreShapeNodeElimination", "basic", "g (float[N,3] x) => (int64[2] y) { a = Cast<to=11>(x) y = Shape(a) }"),
        ("Pad_Fusion", "basic", PAD_MODEL),
        ("CommonSubexpressionElimination", "basic", f"g {FLAT} {{ a = Exp(x) e = Exp(x) y = Add(a, e) }}"),
        ("MatMulAddFusion", "basic", f"g {MATRIX} {{ a = MatMul(x, w) y = Add(a, bias) }}"),
        ("GemmTransposeFusion", "basic", "g (float[3,2] x) => (float[2,4] y) { a = Transpose(x) y = Gemm(a, w) }"),
        ("ConvAddFusion", "basic", f"g {IMAGE} {{ a = Conv(x, k) y = Add(a, offset) }}"),
        ("ReluQuantRewrite", "extended", QUANTIZED),
        ("GemmActivationFusion", "extended", f"g {MATRIX} {{ a = Gemm(x, w) y = Relu(a) }}"),
        ("ConvActivationFusion", "extended", f"g {IMAGE} {{ a = Conv(x, k) y = Relu(a) }}"),
        ("NchwcTransformer", "layout", "g (float[1,8,2,2] x) => (float[1,16,2,2] y) { y = Conv(x, wide) }"),
    ],
)
def test_known_names_disable_optimizers(name: str, level: str, text: str, tmp_path: Path) -> None:
    model = load(text, weights=WEIGHTS)
    assert name in known_optimizers(level)

    def nodes(*disabled: str) -> list[str]:
        options = ort.SessionOptions()
        options.log_severity_level, options.intra_op_num_threads = 4, 1
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_ENABLE_{level.upper()}")
        options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
        ort.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"], disabled_optimizers=disabled)
        return [n.op_type for n in onnx.load(tmp_path / "optimized.onnx").graph.node]

    assert nodes(name) != nodes() == nodes("NoSuchOptimizer")


def test_levels_contain_those_below() -> None:
    sizes = [set(known_optimizers(level)) for level in LEVELS]
    assert all(a < b for a, b in pairwise(sizes))
    assert all(len(known_optimizers(level)) == len(set(known_optimizers(level))) for level in LEVELS)


def test_transformers_are_read_from_the_log() -> None:
    log = """
        [V:onnxruntime:, x.cc:55 ApplyTransformers] Applying graph transformer MatMulAddFusion on step 1.
        [I:onnxruntime:, x.cc:15 Apply] GraphTransformer MatMulAddFusion modified: 0 with status: OK
        [I:onnxruntime:, x.cc:15 Apply] GraphTransformer NewFusion modified: 1 with status: OK
        [I:onnxruntime:, x.cc:15 Apply] GraphTransformer MemcpyTransformer modified: 0 with status: OK
        [V:onnxruntime:, x.cc:35 ApplyTransformers] Applying 3 graph transformer(s) for level 3 for up to 10 step(s)."""
    assert logged_optimizers(log.splitlines()) == ["MatMulAddFusion", "NewFusion"]
    assert merge_in_order(["A", "B", "C"], ["N", "B", "M", "O", "A"]) == ["N", "A", "B", "M", "O", "C"]


NAMES = tuple("abcdefghijklmnopqrst")


@given(st.sets(st.sampled_from(NAMES), max_size=4))
def test_minimal_subset_is_exact(wanted: set[str]) -> None:
    probes: list[tuple[str, ...]] = []

    def happens(chosen: tuple[str, ...]) -> bool:
        probes.append(chosen)
        return wanted <= set(chosen)

    assert set(minimal_subset(NAMES, happens)) == wanted
    assert len(probes) <= 1 + 7 * len(wanted)


@given(st.lists(st.sets(st.sampled_from(NAMES), min_size=1, max_size=3), min_size=1, max_size=4))
def test_minimal_subset_finds_one_of_several(ways: list[set[str]]) -> None:
    found = minimal_subset(NAMES, lambda chosen: any(way <= set(chosen) for way in ways))
    assert set(found) in ways


@given(st.integers(-100, 100), st.integers(1, 1000), st.data())
def test_first_bad_is_found_in_log2_probes(good: int, length: int, data: st.DataObject) -> None:
    bad, first, probes = good + length, good + data.draw(st.integers(1, length)), list[int]()

    def is_bad(n: int) -> bool:
        probes.append(n)
        return n >= first

    assert first_bad(good, bad, is_bad) == first
    assert len(probes) <= (length - 1).bit_length()
    assert all(good < n < bad for n in probes)


@cases(
    "value",
    {
        "empty optional": None,
        "empty sequence": [],
        "sequence": [np.zeros((0, 3), np.float32), np.array(2.5)],
        "ZipMap of words": [{"a": 0.1, "b": float("inf")}, {"a": 1e-45}],
        "map of numbers": {3: 0.25, -1: 1.0},
        "feeds": {"x": np.array(["ü", "", "a\0b"], object), "n": None},
        "complex": np.array([[1 + 2j]], np.complex64),
        "bfloat16": np.array([1.5, -2], ml_dtypes.bfloat16),
        "int4": np.array([1, -8, 7], ml_dtypes.int4),
        "float8": np.array([1, np.nan], ml_dtypes.float8_e4m3fn),
        "transposed": np.arange(6).reshape(2, 3).T,
    },
)
def test_value_files_round_trip(value: Any, tmp_path: Path) -> None:
    value_files.write_value(value, tmp_path / "value")
    back = value_files.read_value(tmp_path / "value")
    assert compare_outputs(value, back, exact=True).reason == ""
    assert type(back) is type(value)


def test_unsupported_value_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UnverifiableError, match="a value cannot be sent to another process"):
        value_files.write_value({"x": Lock()}, tmp_path / "value")


def script(tmp_path: Path, text: str) -> WorkerProcess[ProbeWorker]:
    """A child that runs `text` instead of the worker."""
    return probe_process(tmp_path, 30.0, (sys.executable, "-c", text))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has exit codes for signals")
def test_crash_of_used_process_is_retried(tmp_path: Path) -> None:
    text = """if True:
        import os
        from passwright.core.processes.worker_process import Parent
        parent = Parent()
        class Worker:
            served = 0
            def probe(self, config):
                parent.report("such inputs")
                if self.served or config.optimization_level == "bad": os.kill(os.getpid(), 11)
                self.served += 1
        parent.serve(Worker())"""
    with script(tmp_path, text) as child:
        assert [probe(child, SessionConfig()) for _ in range(3)] == [None, None, None]
        assert probe(child, SessionConfig("bad")) == ProbeFailure("onnxruntime crashed (SIGSEGV)", "such inputs")
        assert probe(child, SessionConfig()) is None


def test_worker_failure_is_an_evaluation_error(tmp_path: Path) -> None:
    with script(tmp_path, "raise ValueError('no such folder')") as child, pytest.raises(EvaluationError) as error:
        probe(child, SessionConfig())
    assert str(error.value) == "the process for onnxruntime ended with exit code 1: ValueError: no such folder"
