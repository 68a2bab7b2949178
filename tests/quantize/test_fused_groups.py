"""Tests of the check that onnxruntime computes groups on integers."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from msgspec.structs import replace
from passwright.app.quantize.fused_groups import fusion_check, unfused_groups
from passwright.app.registry.environment import quantization_target
from passwright.core import ChangeLog, Fixpoint, Pipeline, QuantizationSpec, Range, from_onnx, rule_pass
from passwright.passes.cleanup import quantization
from passwright.passes.cleanup.merge_duplicates import MergeDuplicates
from passwright.passes.quantization import static_groups
from passwright.passes.targets import QUANTIZATION_TARGETS
from rewriting import load, to_onnx

SIMPLIFY_QUANTIZATION = rule_pass(quantization, "simplify-quantization")
QUANTIZE_STATIC = rule_pass(static_groups, "quantize-static")

WEIGHTS = {"w": np.random.default_rng(0).normal(0, 0.2, (3, 3, 3, 3)).astype(np.float32),
           "m": np.random.default_rng(0).normal(0, 0.2, (8, 8)).astype(np.float32),
           "b": np.ones(8, np.float32)}  # fmt: skip
NET = """g (float[1,3,8,8] x) => (float[1,3,8,8] y) {
    c = Conv<pads = [1,1,1,1]>(x, w) t = Transpose<perm = [0,1,3,2]>(c) r = Relu(t) d = Conv<pads = [1,1,1,1]>(r, w)
    a = Add(r, d) y = Neg(a) }"""
PRODUCT = """g (float[B,S,8] x) => (float[B,S,8] y) {
    p = MatMul(x, m) a = Add(b, p) r = Relu(a) q = MatMul(r, m) e = Add(q, b) y = Neg(e) }"""


def quantized(model: onnx.ModelProto, target: str = "x86") -> tuple[onnx.ModelProto, list[tuple[str, str]]]:
    names = ["x", *(name for node in model.graph.node for name in node.output)]
    given: QuantizationSpec = QUANTIZATION_TARGETS[target].spec({name: Range(-1, 3) for name in names})
    spec = replace(given, min_channels=1)
    clean = Fixpoint("clean", (SIMPLIFY_QUANTIZATION, MergeDuplicates()))
    made, change_log = from_onnx(model), ChangeLog(record=True)
    Pipeline("static", (QUANTIZE_STATIC, clean), quantization=spec).run(made.graph, change_log)
    return to_onnx(made), [(c.by, c.place) for c in change_log.changes if c.by.startswith("quantize")]


def saved(model: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "model.onnx"
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("text", [PRODUCT, PRODUCT.replace("B,S", "1,4")])
def test_all_groups_are_fused(text: str, tmp_path: Path) -> None:
    used = {k: v for k, v in WEIGHTS.items() if f" {k})" in text or f"({k}," in text}
    made, changes = quantized(load(text, 17, used))
    assert len(changes) >= 2
    assert unfused_groups(saved(made, tmp_path), changes) == {}


def test_all_groups_with_external_weights_are_fused(tmp_path: Path) -> None:
    made, changes = quantized(load(NET, 17, {"w": WEIGHTS["w"]}))
    path = tmp_path / "model.onnx"
    onnx.save(made, path, save_as_external_data=True, location="data", size_threshold=0)
    assert unfused_groups(path, changes) == {}
    assert {p.name for p in tmp_path.iterdir()} == {"model.onnx", "data"}


def test_a_reader_of_floats_is_found(tmp_path: Path) -> None:
    made, changes = quantized(load(NET, 17, {"w": WEIGHTS["w"]}))
    add = next(n for n in made.graph.node if n.op_type == "Add")
    made.graph.node.append(onnx.helper.make_node("Exp", [add.output[0]], ["e"]))
    made.graph.output.append(onnx.ValueInfoProto(name="e"))
    assert unfused_groups(saved(made, tmp_path), changes) == {
        ("quantize_join", "a"): "onnxruntime computes it in float, as Add"
    }


def test_signed_activations_with_two_readers_are_not_fused_on_x86(tmp_path: Path) -> None:
    text = """g (bool b, float[1,3,8,8] x) => (float[1,3,8,8] y) { y = If (b)
        <then_branch = t () => (float[1,3,8,8] o) { c = Conv<pads = [1,1,1,1]>(x, w) s = Add(c, c) o = Neg(s) },
        else_branch = f () => (float[1,3,8,8] p) { p = Neg(x) }> }"""
    model = load(text, 17, {"w": WEIGHTS["w"]})
    names = ("x", "c", "s")
    for target, unfused in (("x86", set[str]()), ("arm", {"quantize_conv", "quantize_join"})):
        spec = replace(QUANTIZATION_TARGETS[target].spec({name: Range(-1, 3) for name in names}), min_channels=1)
        made, change_log = from_onnx(model), ChangeLog(record=True)
        Pipeline("static", (QUANTIZE_STATIC,), quantization=spec).run(made.graph, change_log)
        changes = [(c.by, c.place) for c in change_log.changes]
        assert [by for by, _ in changes] == ["quantize_conv", "quantize_join"]
        assert {by for by, _ in unfused_groups(saved(to_onnx(made), tmp_path), changes)} == unfused


def test_a_model_that_is_not_loaded(tmp_path: Path) -> None:
    made, changes = quantized(load(NET, 17, {"w": WEIGHTS["w"]}))
    made.graph.node[-1].op_type = "Nothing"
    found = unfused_groups(saved(made, tmp_path), changes)
    assert set(found) == set(changes)
    assert all(reason.startswith("onnxruntime does not load the model: ") for reason in found.values())


def test_the_fusions_of_another_machine_are_not_checked(tmp_path: Path) -> None:
    here = quantization_target()
    assert fusion_check(here) is unfused_groups
    elsewhere = next(t for t in QUANTIZATION_TARGETS.values() if t.activations != here.activations)
    for target in (elsewhere, QUANTIZATION_TARGETS["openvino"]):
        assert fusion_check(target)(tmp_path / "nothing.onnx", [("quantize_conv", "c")]) == {}
