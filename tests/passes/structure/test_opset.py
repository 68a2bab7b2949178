"""The passes that convert the opset, alone and in runs."""

import re
from pathlib import Path

import onnx
import pytest
from commands import invoke
from opset_cases import opset_of
from passwright.app.cli.entry import app
from passwright.app.registry.resolved_pipeline import resolve_pipeline
from passwright.core.errors import ModelError, PassesError, UnverifiableError, UsageError, VerificationError
from passwright.core.ort.kernels import highest_opset_of_onnxruntime
from passwright.core.run.pipeline import leaves
from passwright.passes.structure.opset import ConvertOpset, RaiseOpset
from rewriting import apply_passes, becomes, cases, each, load, stays, to_onnx
from typer.testing import CliRunner

from passwright import convert_opset, diff, explain, optimize

SUMS = "g (float[N,3] x) => (float[N,1] y) { y = ReduceSum<axes=[1]>(x) }"
NEG = "g (float[3] x) => (float[3] y) { y = Neg(x) }"
POOL = "g (float[1,1,4,4] x) => (float[1,1,2,2] y) { y = AveragePool<kernel_shape=[3,3]>(x) }"
REGIONS = """g (float[1,1,4,4] x, float[1,4] r, int64[1] i) => (float[1,1,2,2] y) {
    y = RoiAlign<output_height=2, output_width=2>(x, r, i)
}"""
BEYOND = """g (float[2,3] x) => (float[2,3] y, float[2,3] z) { y, m = Dropout(x) z = LayerNormalization(x, x) }"""


@cases(
    ("before", "after", "opset", "to"),
    {
        "axes": (
            SUMS, "g (float[N,3] x) => (float[N,1] y) <int64[1] a = {1}> { y = ReduceSum(x, a) }", 11, 13),
        "same": (NEG, NEG, 11, 21),
    },
)  # fmt: skip
def test_becomes(before: str, after: str, opset: int, to: int) -> None:
    assert opset_of(becomes(before, after, RaiseOpset(to), opset=opset)) == to


@cases(
    ("text", "opset", "to"),
    {
        "it has that opset": (NEG, 13, 13),
        "a lower one is not meant": (NEG, 17, 13),
        "an operator that ONNX has later": (BEYOND, 16, 17),
    },
)
def test_stays(text: str, opset: int, to: int) -> None:
    stays(text, RaiseOpset(to), opset=opset, runs=False)


def test_without_standard_opset() -> None:
    text = '<ir_version: 8, opset_import: ["com.example": 1]> g (float[3] x) => (y) { y = com.example.Same(x) }'
    result, change_log = apply_passes(onnx.parser.parse_model(text), RaiseOpset(21))
    assert change_log.change_count == 0
    assert "" not in result.graph.opsets


@pytest.mark.parametrize("to", [-1, 99])
def test_unknown_opsets_are_refused(to: int) -> None:
    with pytest.raises(UsageError, match=f"{to} is not an opset"):
        RaiseOpset(to)


@cases(
    ("text", "opset", "exact", "reached"),
    {
        "highest that onnxruntime loads": (SUMS, 11, False, highest_opset_of_onnxruntime()),
        "highest with kernels": (REGIONS, 16, False, 21),
        "highest with as fast kernels": (POOL, 11, False, 18),
        "highest without other rounding": (POOL, 11, True, 18),
    },
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
    report = optimize(load(SUMS, 11), enable=["raise-opset{to=21}"], dry_run=True).report
    assert report.plan is not None
    assert [(c.by, c.place, c.replaced, c.nodes_saved) for c in report.plan.changes] == [
        ("raise-opset", "", ("ReduceSum y",), 0)
    ]


def test_an_opset_without_kernels_is_left_out() -> None:
    report = optimize(load(REGIONS, 16), enable=["raise-opset{to=22}"]).report
    assert [(q.by, q.failure_kind) for q in report.rejected] == [("raise-opset", "refused")]


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
    invoke("run", model, "-o", out, "--enable", "raise-opset{to=21}")
    assert opset_of(onnx.load(out)) == 21
    listed = CliRunner().invoke(app, ["list", "raise-opset"])
    assert "{to=0}" in listed.output


@cases(
    ("text", "opset", "to"),
    {
        "axes": (SUMS, 11, 13),
        "same": (NEG, 11, 21),
        "another kernel": (POOL, 11, 22),
        "unused mask": ("g (float[N,3] x) => (float[N,3] y) { y, m = Dropout(x) }", 11, 22),
    },
)
def test_converted_to_a_given_opset(text: str, opset: int, to: int) -> None:
    result = convert_opset(load(text, opset), to)
    assert opset_of(result.model) == to
    assert result.report.verification is not None
    onnx.checker.check_model(result.model, full_check=True)


def test_the_present_opset_is_no_change() -> None:
    result = convert_opset(load(SUMS, 11), 11)
    assert result.model == load(SUMS, 11)
    assert not result.report.has_changes


@cases(
    ("text", "opset", "to", "error", "message"),
    {
        "operator of none": (
            BEYOND, 16, 17, ModelError,
            "opset 17 is not possible: LayerNormalization z: opset 16 has no such operator"),
        "no kernel": (
            REGIONS, 16, 24, UnverifiableError,
            ("opset 24 is not possible: RoiAlign y: RoiAlign of float, int64 does not run at opset 24; 21 is "
            "(verify=False converts what onnxruntime does not run)")),
        "no opset of onnxruntime": (
            NEG, 16, 27, UnverifiableError,
            ("opset 27 is above 26, the highest that the installed onnxruntime runs: nothing could be verified "
            "(verify=False converts without)")),
        "no opset": (
            NEG, 16, 99, UsageError,
            "convert-opset does not accept to=99: 99 is not an opset: the installed onnx knows 1 to 28"),
        "zero": (NEG, 16, 0, UsageError, "opset 0: it must be 1 or more"),
    },
)  # fmt: skip
def test_refused_opsets(
    text: str, opset: int, to: int, error: type[PassesError], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("passwright.passes.structure.opset.highest_opset_of_onnxruntime", lambda: 26)
    for convert in (convert_opset, lambda model, to: optimize(model, opset=to)):
        with pytest.raises(error) as caught:
            convert(load(text, opset), to)
        assert str(caught.value) == message


@pytest.mark.parametrize(("text", "to"), [(REGIONS, 24), (NEG, 27)])
def test_opsets_beyond_onnxruntime_are_converted_without_verification(text: str, to: int) -> None:
    assert opset_of(convert_opset(load(text, 16), to, verify=False).model) == to


def test_other_kernels_are_refused_where_every_bit_counts() -> None:
    with pytest.raises(
        ModelError, match=r"opset 21 is not possible: AveragePool y: .* since opset 19, and rounds otherwise; 18 is$"
    ):
        optimize(load(POOL, 11), opset=21, exact=True)


def test_wrong_conversions_end_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """g (float[1,1,2,2] x) => (float[1,1,6,6] y) {
        y = Upsample<mode="linear", scales=[1.0,1.0,3.0,3.0]>(x)
    }"""
    monkeypatch.setattr("passwright.core.transform.opset_conversion.correct_after", lambda *_: None)
    for convert in (convert_opset, lambda model, to, output: optimize(model, opset=to, output=output)):
        with pytest.raises(VerificationError, match="first broken by convert-opset #0, as a whole"):
            convert(load(text, 7), 13, output=tmp_path / "o.onnx")
    assert list(tmp_path.iterdir()) == []


@each(
    ("pipeline", "options", "first"),
    {
        "basic": ("basic", {}, ["convert-opset", "remove-unused"]),
        "a pipeline that raises the opset": ("ort", {}, ["convert-opset", "remove-unused"]),
        "none": ("none", {}, ["convert-opset"]),
        "a single pass": ("drop-identity", {}, ["convert-opset", "drop-identity"]),
        "only": ("basic", {"only": ["fuse-gelu"]}, ["convert-opset", "fuse-gelu"]),
        "skipped": ("basic", {"skip": ["convert-opset"]}, ["remove-unused"]),
    },
)
def test_the_conversion_comes_first(pipeline: str, options: dict[str, list[str]], first: list[str]) -> None:
    choice = resolve_pipeline(pipeline, enable=["convert-opset{to=20}"], **options)
    passes = leaves(choice.pipeline)
    assert [p.name for p in passes][: len(first)] == first
    assert not any(isinstance(p, RaiseOpset) for p in passes)
    assert leaves(choice.last_fallback) == [ConvertOpset(20)]
    assert all(leaves(p)[0] == ConvertOpset(20) for p in choice.fallbacks)


def test_one_pass_decides_about_the_opset() -> None:
    with pytest.raises(UsageError, match=r"raise-opset and convert-opset .opset. are mutually exclusive"):
        optimize(load(NEG, 16), opset=20, enable=["raise-opset"])


LOCAL = """<ir_version: 8, opset_import: ["": 13, "local": 1, "ai.onnx.ml": 3, "com.microsoft": 1]>
g (float[2,3] x, bool c, float[3] w) => (float[2,3] y, float[2,1] z) <float[3] w = {1,2,3}> {
    a = local.f (x)
    b = ai.onnx.ml.Scaler<offset=[0.5], scale=[2.0]> (a)
    d = com.microsoft.Gelu (b)
    y = Mul (d, w)
    z = If (c) <then_branch = t () => (p) { p = ReduceMean<axes=[1]> (x) },
                else_branch = e () => (q) { q = ReduceMax<axes=[1]> (y) }>
}
<opset_import: ["": 13], domain: "local"> f (a) => (b) { m = ReduceMean<axes=[0]> (a) b = Add (a, m) }"""


@pytest.mark.parametrize("keep", [False, True])
def test_everything_in_a_model_is_converted_or_stays(keep: bool) -> None:
    model = onnx.parser.parse_model(LOCAL)
    result = convert_opset(model, 20, keep_functions=keep).model
    imported = {e.domain: e.version for e in result.opset_import}
    assert imported["ai.onnx.ml"], imported["com.microsoft"] == (3, 1)
    assert opset_of(result) == 20
    assert [i.name for i in result.graph.input] == ["x", "c", "w"]
    assert "w" in [t.name for t in result.graph.initializer]
    assert [f.opset_import[0].version for f in result.functions] == [20] * keep
    (branches,) = (n for n in result.graph.node if n.op_type == "If")
    assert [len(n.input) for a in branches.attribute for n in a.g.node if n.op_type.startswith("Reduce")] == [2, 2]


def test_option(tmp_path: Path) -> None:
    model, out = tmp_path / "m.onnx", tmp_path / "o.onnx"
    onnx.save(load(REGIONS, 16), model)
    for opset, code, text in (("20", 0, ""), ("22", 4, "error: opset 22 is not possible: RoiAlign y"), ("99", 2, "99")):
        run = invoke("run", model, out, "--opset", opset, code=code)
        assert text in run.stderr
        assert run.stderr.count("\n") == bool(text)
        assert out.exists() is (code == 0)
        out.unlink(missing_ok=True)
    checked = invoke("run", model, "--opset", "20", "--check", code=3)
    assert checked.stdout.startswith(f"{model}: opset 16 -> 20, 1 -> 1 nodes")
    tables = CliRunner().invoke(app, ["run", str(model), "--opset", "20", "-v", "--no-verify"]).stdout
    assert re.search(r"opset +│ +16 │ +20 │", tables)
    invoke("run", model, "--opset", "16", "--check")
