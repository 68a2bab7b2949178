"""The pass that raises the opset, alone and in runs."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from opset_cases import opset_of
from passwright.app.cli import app
from passwright.core.ort.kernels import highest_opset_of_onnxruntime
from passwright.core.pass_manager.pass_selection import UsageError
from passwright.passes.structure.opset import RaiseOpset
from rewriting import apply_passes, becomes, load, stays, to_onnx
from typer.testing import CliRunner

from passwright import diff, explain, optimize

SUMS = "g (float[N,3] x) => (float[N,1] y) { y = ReduceSum<axes=[1]>(x) }"
NEG = "g (float[3] x) => (float[3] y) { y = Neg(x) }"
POOL = "g (float[1,1,4,4] x) => (float[1,1,2,2] y) { y = AveragePool<kernel_shape=[3,3]>(x) }"
REGIONS = """g (float[1,1,4,4] x, float[1,4] r, int64[1] i) => (float[1,1,2,2] y) {
    y = RoiAlign<output_height=2, output_width=2>(x, r, i)
}"""
BEYOND = """g (float[2,3] x) => (float[2,3] y, float[2,3] z) { y, m = Dropout(x) z = LayerNormalization(x, x) }"""


@pytest.mark.parametrize(
    ("before", "after", "opset", "to"),
    [
        pytest.param(
            SUMS, "g (float[N,3] x) => (float[N,1] y) <int64[1] a = {1}> { y = ReduceSum(x, a) }", 11, 13, id="axes"
        ),
        pytest.param(NEG, NEG, 11, 21, id="same"),
    ],
)  # fmt: skip
def test_becomes(before: str, after: str, opset: int, to: int) -> None:
    assert opset_of(becomes(before, after, RaiseOpset(to), opset=opset)) == to


@pytest.mark.parametrize(
    ("text", "opset", "to"),
    [
        pytest.param(SUMS, 13, 13, id="it has that opset"),
        pytest.param(SUMS, 17, 13, id="a lower one is not meant"),
        pytest.param(BEYOND, 16, 17, id="an operator that ONNX has later"),
    ],
)
def test_stays(text: str, opset: int, to: int) -> None:
    stays(text, RaiseOpset(to), opset=opset, runs=False)


def test_without_standard_opset() -> None:
    text = '<ir_version: 8, opset_import: ["com.example": 1]> g (float[3] x) => (y) { y = com.example.Same(x) }'
    result, ledger = apply_passes(onnx.parser.parse_model(text), RaiseOpset(21))
    assert ledger.change_count == 0
    assert "" not in result.graph.opsets


@pytest.mark.parametrize("to", [-1, 99])
def test_unknown_opsets_are_refused(to: int) -> None:
    with pytest.raises(UsageError, match=f"to={to} is not an opset"):
        RaiseOpset(to)


@pytest.mark.parametrize(
    ("text", "opset", "exact", "reached"),
    [
        pytest.param(SUMS, 11, False, highest_opset_of_onnxruntime(), id="highest that onnxruntime loads"),
        pytest.param(REGIONS, 16, False, 21, id="highest with kernels"),
        pytest.param(POOL, 11, False, 18, id="highest with as fast kernels"),
        pytest.param(POOL, 11, True, 18, id="highest without other rounding"),
    ],
)
def test_in_a_run(text: str, opset: int, exact: bool, reached: int) -> None:
    result = optimize(load(text, opset), enable=["raise-opset"], exact=exact, strict=True)
    assert opset_of(result.model) == reached
    assert result.report.verification is not None
    onnx.checker.check_model(result.model, full_check=True)


def test_a_given_opset_may_round_otherwise() -> None:
    enable = ["raise-opset{to=21}"]
    assert opset_of(optimize(load(POOL, 11), enable=enable, strict=True).model) == 21
    assert opset_of(optimize(load(POOL, 11), enable=enable, strict=True, exact=True).model) == 18


def test_one_change_of_the_whole_model() -> None:
    report = optimize(load(SUMS, 11), enable=["raise-opset{to=21}"], plan=True).report
    assert report.plan is not None
    assert [(c.by, c.place, c.replaced, c.nodes_saved) for c in report.plan.changes] == [
        ("raise-opset", "", ("ReduceSum y",), 0)
    ]


def test_an_opset_without_kernels_is_left_out() -> None:
    report = optimize(load(REGIONS, 16), enable=["raise-opset{to=22}"]).report
    assert [(q.by, q.failure_kind) for q in report.quarantined] == [("raise-opset", "refused")]


def test_explain_says_why_it_is_not_higher() -> None:
    reason = "opset 22 is not possible: RoiAlign y: RoiAlign of float, int64 does not run at opset 22"
    assert explain(load(REGIONS, 16), "raise-opset", enable=["raise-opset"]).notes == [f"raise-opset: {reason}"]
    assert explain(load(SUMS, 11), "raise-opset", enable=["raise-opset"]).notes == []


def test_diff_shows_only_what_changed() -> None:
    text = "g (float[N,3] x) => (float[N,1] y) { z = Relu(x) y = ReduceSum<axes=[1]>(z) }"
    result, _ = apply_passes(load(text, 11), RaiseOpset(13))
    found = diff(load(text, 11), to_onnx(result)).difference
    assert [delta.what for delta in found.header] == ["opset ai.onnx"]
    assert (found.graph.counts.unchanged, found.graph.counts.changed, len(found.graph.changes)) == (1, 1, 1)


def test_command(tmp_path: Path) -> None:
    model, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    onnx.save(load(SUMS, 11), model)
    run = CliRunner().invoke(app, ["run", str(model), "-o", str(out), "--enable", "raise-opset{to=21}"])
    assert run.exit_code == 0, run.output
    assert opset_of(onnx.load(out)) == 21
    listed = CliRunner().invoke(app, ["list", "raise-opset"])
    assert "{to=0}" in listed.output
