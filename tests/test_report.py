"""The report: complete, and standard JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from passwright.core import PassesError, leaves
from passwright.passes.pipelines import PIPELINES
from rewriting import cases, load
from tiers import slow_unless

from passwright import optimize

if TYPE_CHECKING:
    from passwright.core.run.report import Report

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")

GOLDEN = Path(__file__).parent.parent / "golden_models"
TEXT = "g (float[N,4] x) => (float[N,4] y) { a = Identity(x) m = MatMul(a, w) s = Add(m, c) y = Relu(s) }"
WEIGHTS = {"w": np.eye(4, dtype=np.float32), "c": np.ones(4, np.float32)}


def strict(text: str) -> Any:
    """Parse JSON, and reject Python's extensions of it."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def report_of(**options: Any) -> Report:
    return optimize(load(TEXT, weights=WEIGHTS), **options).report


def test_report_is_complete() -> None:
    found = strict(report_of().to_json())
    assert found["source"] == "g"
    assert found["pipeline"] == "basic"
    assert found["before"]["ops"] == {"Add": 1, "Identity": 1, "MatMul": 1, "Relu": 1}
    assert found["after"]["ops"] == {"Gemm": 1, "Relu": 1}
    assert (found["before"]["nodes"], found["after"]["nodes"]) == (4, 2)
    assert (found["before"]["parameters"], found["after"]["parameters"]) == (20, 20)
    assert found["versions"].keys() == {"passwright", "onnx", "onnxruntime"}
    assert all(isinstance(s, float) and s >= 0 for s in found["seconds"].values())
    assert {"loading", "rewriting"} <= found["seconds"].keys()


def test_bytes_equal_the_message_size() -> None:
    model = load(TEXT, weights=WEIGHTS)
    result = optimize(model)
    assert result.report.before.bytes == model.ByteSize()
    assert result.report.after.bytes == result.model.ByteSize()


@pytest.mark.parametrize(("name", "external"), [("m.onnx", "never"), ("m.onnx", 1), ("m.ort", "auto")])
def test_bytes_are_those_of_the_files(name: str, external: str | int, tmp_path: Path) -> None:
    """External data has its place in the model, and onnxruntime its own format."""
    report = optimize(load(TEXT, weights=WEIGHTS), output=tmp_path / name, external_data=external).report
    assert report.after.bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert len([*tmp_path.iterdir()]) == 1 + (external == 1)


def test_every_pass_has_a_record_in_order() -> None:
    records = {p["name"]: p for p in strict(report_of().to_json())["passes"]}
    assert list(records) == [p.name for p in leaves(PIPELINES["basic"])]
    assert records["drop-identity"]["rules"] == {"drop_identity": 1}
    assert records["fuse-gemm"]["changes"] == 1
    assert records["merge-transposes"]["changes"] == 0
    assert all(p["changes"] == sum(p["rules"].values()) for p in records.values())
    assert all(p["seconds"] >= 0 for p in records.values())


def test_verdict_is_reported() -> None:
    verdict = strict(report_of().to_json())["verification"]
    assert verdict["backend"] == "onnxruntime"
    assert verdict["exact"] is False
    assert len(verdict["input_sets"]) >= 5
    found = verdict["differences"]["y"]
    numbers = {"error", "allowed", "share_of_allowed", "relative", "ulps", "noise_floor", "excused", "magnitude"}
    assert found.keys() == {"reason", *numbers}
    assert (found["reason"], found["excused"]) == ("", 0)
    assert verdict["failure"] is None
    assert verdict["random"] == []
    assert verdict["notes"] == []


@cases(
    ("options", "verification"),
    {
        "not verified": ({"verify": False}, None),
        "exact": ({"exact": True}, True),
        "no passes": ({"pipeline": "none"}, True),
        "rounding": ({}, False),
    },
)
def test_verification_by_options(options: dict[str, Any], verification: bool | None) -> None:
    found = strict(report_of(**options).to_json())["verification"]
    assert (found if found is None else found["exact"]) is verification


def test_ops_of_subgraphs_and_other_domains_are_counted() -> None:
    text = """g (bool c, float[2] x) => (float[2] y) {
        y = If(c) <
            then_branch = t () => (float[2] a) { a = my.Op(x) }, else_branch = e () => (float[2] b) { b = Neg(x) }
        >
    }"""
    model = load(text)
    model.opset_import.append(onnx.helper.make_opsetid("my", 1))
    report = optimize(model, verify=False).report
    assert report.before.ops == {"If": 1, "Neg": 1, "my.Op": 1}
    assert report.before.nodes == 3


@cases(
    "body",
    {
        "infinities and NaN": "y = Div(x, z)",
        "NaN": "l = Log(x) y = Add(l, c)",
        "overflow": "e = Exp(x) y = MatMul(e, w)",
        "beside a rounding rule": "m = MatMul(x, w) a = Add(m, c) y = Div(a, z)",
    },
)
def test_outputs_that_are_not_finite(body: str) -> None:
    text = f"g (float[N,4] i) => (float[N,4] y) {{ x = Identity(i) {body} }}"
    report = optimize(load(text, weights={**WEIGHTS, "z": np.zeros(4, np.float32)})).report
    assert strict(report.to_json())["verification"]["differences"]["y"]["reason"] == ""


@pytest.mark.parametrize(
    "name", slow_unless({"loop_if", "keras_cnn"}, ["sklearn_strings", "loop_if", "bert", "mixer_external", "keras_cnn"])
)
def test_golden_models(name: str) -> None:
    path = GOLDEN / f"{name}.onnx"
    found = strict(optimize(path).report.to_json())
    assert found["source"] == str(path)
    before = json.loads(path.with_suffix(".json").read_text())["before"]
    assert found["before"]["ops"] == {op: n for op, n in before.items() if op != "Constant"}
    assert sum(found["after"]["ops"].values()) == found["after"]["nodes"] <= found["before"]["nodes"]


def test_external_weights_count_as_bytes(tmp_path: Path) -> None:
    model = load(TEXT, weights={**WEIGHTS, "w": np.eye(64, dtype=np.float32), "c": np.ones(64, np.float32)})
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    before = optimize(tmp_path / "m.onnx", verify=False).report.before
    assert before.bytes == sum((tmp_path / n).stat().st_size for n in ("m.onnx", "w.bin"))


def test_a_failed_run_has_no_report() -> None:
    with pytest.raises(PassesError):
        optimize(load("g (float[2] x) => (float[2] y) { y = Nothing(x) }"))
