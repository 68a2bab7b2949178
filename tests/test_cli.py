"""The command `passes`, end to end."""

import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from commands import invoke
from passwright.app.listing.document import describe_all
from passwright.app.listing.listing import listing
from passwright.app.registry.environment import versions
from passwright.app.report.terminal import Terminal
from rewriting import cases, load, op_types
from rewriting import run as answers
from rich.console import Console
from tiers import slow_unless
from typer.testing import Result

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")

GOLDEN = Path(__file__).parent.parent / "golden_models"
COMMAND = str(Path(sys.executable).with_name("passes"))
OK, BAD, USAGE, WRONG, UNVERIFIED = range(5)

TEXT = """g (float[N,4] x) => (float[N,4] y) {
    a = Identity(x) t = Transpose(a) b = Transpose(t) m = MatMul(b, w) s = Add(m, c) y = Relu(s)
}"""
WEIGHTS = {"w": np.eye(4, dtype=np.float32) / 3, "c": np.ones(4, np.float32)}

RULE = '''
from passwright.core import {contract}, rule

@rule(lambda g, x: g.{op}(x), contract={contract})
def {name}(g, x):
    """{op}(x) => x"""
    return x
'''


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(load(TEXT, weights=WEIGHTS), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.onnx"


def plugin(folder: Path, name: str = "drop_relu", op: str = "Relu", contract: str = "EXACT") -> str:
    path = folder / f"{name}_rule.py"
    path.write_text(RULE.format(name=name, op=op, contract=contract))
    return str(path)


def run(*arguments: str | Path, code: int = OK) -> Result:
    return invoke("run", *arguments, code=code)


def rows(text: str) -> dict[str, list[str]]:
    """The rows of all tables by their first cell."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        cells = [c.strip() for c in re.split("[│┃]", line)[1:-1]]
        if cells:
            found[cells[0]] = cells[1:]
    return found


def ops_after(*arguments: str | Path) -> list[str]:
    """The ops of the model that a run writes."""
    path = Path(arguments[0]).with_name("ops.onnx")
    run(*arguments, "-o", path)
    return op_types(onnx.load(path))


def test_tables_and_verdict(model: Path, out: Path) -> None:
    result = run(model, "-o", out, "-v")
    table = rows(result.stdout)
    assert table["Identity"] == ["1", "0", "-1"]
    assert table["Transpose"] == ["2", "0", "-2"]
    assert table["MatMul"] == ["1", "0", "-1"]
    assert table["Gemm"] == ["0", "1", "+1"]
    assert table["Relu"] == ["1", "1", ""]
    assert table["nodes"] == ["6", "2", "-66.7%"]
    assert table["parameters"] == ["20", "20", ""]
    assert table["drop-identity"][0] == "1"
    assert table["fuse-gemm"][0] == "1"
    assert re.fullmatch(r"[\d.,]+ (ns|µs|ms|s)", table["fuse-gemm"][1])
    assert {"loading", "rewriting"} <= table.keys()
    assert "verified: no difference seen, on " in result.stdout
    assert f"written to {out}" in result.stdout


def test_a_run_prints_three_lines(model: Path, out: Path) -> None:
    result = run(model, "-o", out)
    sizes, verdict, end = result.stdout.splitlines()
    start = f"{model}: 6 -> 2 nodes (-66.7%), "
    assert sizes.startswith(start)
    assert re.fullmatch(r"\d+ bytes -> \d+ bytes \(-[\d.]+%\)", sizes.removeprefix(start))
    shown = r"verified: no difference seen, on \d+ sets of inputs"
    assert re.fullmatch(shown, verdict)
    assert end == f"written to {out}"
    assert result.stderr == ""
    again = run(out, "--check").stdout.splitlines()
    assert again[0] == f"{out}: unchanged (2 nodes, {out.stat().st_size} bytes)"
    assert again[1].startswith("verified: bit-identical, on ")
    assert again[2] == "nothing written: this was a check"


def test_quiet_runs_print_warnings_alone(model: Path, out: Path, tmp_path: Path) -> None:
    result = run(model, "-q", "-o", out, "--plugin", plugin(tmp_path))
    assert result.stdout == ""
    assert result.stderr.startswith("warning: skipped drop-relu-rule")
    assert "are mutually exclusive" in run(model, "-q", "-v", code=USAGE).stderr


def test_check_writes_nothing(model: Path, out: Path) -> None:
    assert "6 -> 2 nodes" in run(model, "--check", code=WRONG).stdout
    assert not out.exists()
    before = model.read_bytes()
    for place in ([out], ["-o", out], ["--in-place"], ["--output-dir", out.parent / "o"]):
        for flag, code in (("--check", WRONG), ("--dry-run", 0)):
            assert "6 -> 2 nodes" in run(model, flag, *place, code=code).stdout
            assert (model.read_bytes(), out.exists(), (out.parent / "o").exists()) == (before, False, False)
    assert "--check writes nothing" in run(model, "--check", "--map", out, code=USAGE).stderr


def test_output_as_second_argument(model: Path, out: Path) -> None:
    assert run(model, out).stdout.splitlines()[-1] == f"written to {out}"
    assert op_types(onnx.load(out)) == ["Gemm", "Relu"]
    assert "-o takes one model, not 2" in run(model, out, "-o", out, code=USAGE).stderr


def test_second_argument_replaces_no_file(model: Path, out: Path) -> None:
    out.write_bytes(model.read_bytes())
    assert f"{out} exists: to replace it, give -o {out}" in run(model, out, code=USAGE).stderr
    assert out.read_bytes() == model.read_bytes()
    assert run(model, "--output", out).stdout.splitlines()[-1] == f"written to {out}"
    assert op_types(onnx.load(out)) == ["Gemm", "Relu"]


def test_in_place(model: Path) -> None:
    assert run(model, "--in-place").stdout.splitlines()[2] == f"written to {model}"
    assert op_types(onnx.load(model)) == ["Gemm", "Relu"]
    content = model.read_bytes()
    assert run(model, "--in-place").stdout.splitlines()[2] == "unchanged"
    assert model.read_bytes() == content


def test_hint_names_operators_of_later_opsets(tmp_path: Path) -> None:
    gelu = "h = Div(x, r) e = Erf(h) f = Add(e, one) p = Mul(x, f) y = Mul(p, half)"
    scalars = {"r": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}
    onnx.save(load(f"g (float[N,4] x) => (float[N,4] y) {{ {gelu} }}", weights=scalars), tmp_path / "m.onnx")
    hint = "hint: at opset 20, more ops could be fused (1 Gelu): --opset 20"
    assert run(tmp_path / "m.onnx").stdout.splitlines()[-1] == hint
    raised = run(tmp_path / "m.onnx", "-o", tmp_path / "o.onnx", "--opset", "20")
    assert "hint:" not in raised.stdout
    assert op_types(onnx.load(tmp_path / "o.onnx")) == ["Gelu"]


def test_bytes_are_file_sizes(model: Path, out: Path) -> None:
    text = run(model, "-v", "-o", out, "--json", model.with_name("r.json")).stdout
    report = json.loads(model.with_name("r.json").read_text())
    assert report["before"]["bytes"] == model.stat().st_size
    assert report["after"]["bytes"] == out.stat().st_size
    assert rows(text)["bytes"][0] == f"{model.stat().st_size} bytes"


def test_nothing_is_written_without_output(model: Path) -> None:
    before = sorted(model.parent.iterdir())
    assert "not written: give -o FILE to keep it" in run(model).stdout
    assert sorted(model.parent.iterdir()) == before


def test_brackets_in_names_are_not_markup(model: Path) -> None:
    folder = model.parent / "v[2]"
    folder.mkdir()
    (folder / "[").mkdir()
    for name in ("m[red].onnx", "[/x].onnx"):
        shutil.copy(model, folder / name)
        assert run(folder / name, "--no-verify").stdout.startswith(f"{folder / name}: ")


def test_verbose_shows_rules_and_declines(tmp_path: Path) -> None:
    text = "g (float[2,3,4] x) => (float[2,3,5] y) { a = Identity(x) m = MatMul(a, w) y = Add(m, c) }"
    onnx.save(load(text, weights={"w": np.ones((4, 5), np.float32), "c": np.ones(5, np.float32)}), tmp_path / "m.onnx")
    quiet = run(tmp_path / "m.onnx")
    assert "drop_identity" not in quiet.stdout
    assert "merge-transposes" not in quiet.stdout
    assert quiet.stderr == ""
    done = run(tmp_path / "m.onnx", "-v")
    assert rows(done.stdout)["drop_identity"][0] == "1"
    assert "merge-transposes" not in rows(done.stdout)
    assert "matmul_add_to_gemm declined at Add y: Gemm multiplies matrices only" in done.stderr.splitlines()


def test_json_to_file(model: Path, tmp_path: Path) -> None:
    assert "verified" in run(model, "--json", tmp_path / "r.json").stdout
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["source"] == str(model)
    assert report["after"]["ops"] == {"Gemm": 1, "Relu": 1}


def test_json_to_stdout(model: Path, out: Path) -> None:
    result = run(model, "--json", "-", "-o", out)
    assert json.loads(result.stdout)["after"]["nodes"] == 2
    assert out.exists()


def test_failing_run_prints_no_json(model: Path, tmp_path: Path) -> None:
    result = run(model, "--json", "-", "--strict", "--plugin", plugin(tmp_path), code=WRONG)
    assert result.stdout == ""


@cases(
    ("options", "after"),
    {
        "all": ([], ["Gemm", "Relu"]),
        "by name": (["--pipeline", "basic"], ["Gemm", "Relu"]),
        "none": (["--pipeline", "none"], ["Identity", "Transpose", "Transpose", "MatMul", "Add", "Relu"]),
        "only a pass": (["--only", "drop-identity"], ["Transpose", "Transpose", "MatMul", "Add", "Relu"]),
        "only a rule": (["--only", "drop_identity"], ["Transpose", "Transpose", "MatMul", "Add", "Relu"]),
        "only two": (["--only", "drop-identity", "--only", "merge_transposes"], ["MatMul", "Add", "Relu"]),
        "skip a pass": (["--skip", "fuse-gemm"], ["MatMul", "Add", "Relu"]),
        "skip a rule": (["--skip", "matmul_add_to_gemm"], ["MatMul", "Add", "Relu"]),
        "skip two": (["--skip", "drop_identity", "--skip", "fuse-gemm"], ["Identity", "MatMul", "Add", "Relu"]),
        "skip from only": (
            ["--only", "merge-transposes", "--skip", "merge_transposes"],
            ["Identity", "Transpose", "Transpose", "MatMul", "Add", "Relu"],
        ),
        "enable": (["--pipeline", "none", "--enable", "merge-transposes"], ["Identity", "MatMul", "Add", "Relu"]),
        "enable a pass that already runs": (["--enable", "fuse-gemm"], ["Gemm", "Relu"]),
        "exact": (["--exact"], ["MatMul", "Add", "Relu"]),
    },
)
def test_pass_selection(model: Path, options: list[str], after: list[str]) -> None:
    assert ops_after(model, *options) == after


def test_exact_is_compared_bit_for_bit(model: Path) -> None:
    assert "verified: bit-identical" in run(model, "--exact").stdout


@cases(
    "options",
    {
        "only": ["--only", "nothing-like-it"],
        "skip": ["--skip", "nothing-like-it"],
        "enable": ["--enable", "nothing-like-it"],
        "pipeline": ["--pipeline", "nothing-like-it"],
    },
)
def test_unknown_names(model: Path, out: Path, options: list[str]) -> None:
    result = run(model, "-o", out, *options, code=USAGE)
    assert result.stderr.startswith("error: no ")
    assert "nothing-like-it" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not out.exists()


@cases(
    "arguments",
    {
        "no model": ["run"],
        "three models": ["run", "a.onnx", "b.onnx", "c.onnx"],
        "unknown option": ["run", "a.onnx", "--fast"],
        "non-numeric seed": ["run", "a.onnx", "--seed", "x"],
        "negative seed": ["run", "a.onnx", "--seed", "-1"],
        "threads of a race": ["run", "a.onnx", "--check-speed", "--threads", "99999999999"],
        "threads of a comparison": ["compare", "a.onnx", "--threads", "99999999999"],
        "unknown command": ["walk"],
        "no arguments": [],
    },
)
def test_usage_errors(arguments: list[str]) -> None:
    invoke(*arguments, code=USAGE)


def test_plugin_is_listed_in_table(tmp_path: Path, out: Path) -> None:
    onnx.save(
        load("g (float[2] x) => (float[2] y) { a = ThresholdedRelu(x) y = ThresholdedRelu(a) }"), tmp_path / "m.onnx"
    )
    (tmp_path / "twice.py").write_text(
        RULE.format(name="one_threshold", op="ThresholdedRelu(g.ThresholdedRelu", contract="EXACT")
        .replace("(x), c", "(x)), c")
        .replace("return x", "return g.ThresholdedRelu(x)")
    )
    table = rows(run(tmp_path / "m.onnx", "-v", "-o", out, "--plugin", tmp_path / "twice.py").stdout)
    assert table["twice"][0] == "1"
    assert op_types(onnx.load(out)) == ["ThresholdedRelu"]


def test_selection_among_two_plugins(model: Path, tmp_path: Path) -> None:
    both = ("--plugin", plugin(tmp_path), "--plugin", plugin(tmp_path, "drop_add", "Neg"))
    assert "Gemm" in ops_after(model, *both, "--skip", "drop_relu")
    assert ops_after(model, *both, "--only", "drop-add-rule")[-1] == "Relu"


@cases(
    ("content", "message"),
    {
        "missing": (None, "does not exist"),
        "empty": ("x = 1", "defines neither a pass nor a rule"),
        "import": ("import nowhere_at_all", "ModuleNotFoundError: No module named 'nowhere_at_all'"),
        "syntax": ("def (", "SyntaxError"),
        "rule": ("from passwright.core import rule\n@rule(lambda g, x: g.Relu(x))\ndef r(g, z): ...", "binds"),
    },
)
def test_bad_plugins(model: Path, out: Path, tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "p.py"
    if content is not None:
        path.write_text(content)
    result = run(model, "-o", out, "--plugin", path, code=BAD)
    assert str(path) in result.stderr
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert not out.exists()


def test_a_name_in_place_of_a_plugin_is_for_enable(model: Path) -> None:
    by_name = "use other options, such as --enable and --analysis, for names in installed packages"
    says = f"chip_tools is not a Python file; {by_name}"
    assert says in run(model, "--plugin", "chip_tools", code=BAD).stderr


@cases(
    ("options", "message"),
    {
        "with other passes": ([], r"off by up to [\d.]+ \(allowed [\d.e-]+\)"),
        "exact alone": (["--only", "drop-relu-rule"], r"\d+ of \d+ elements differ in their bits, by up to [\d.]+"),
    },
)
def test_wrong_rule_fails_strict_run(model: Path, out: Path, tmp_path: Path, options: list[str], message: str) -> None:
    wrong = plugin(tmp_path)
    before = sorted(tmp_path.iterdir())
    result = run(model, "-o", out, "--strict", "--plugin", wrong, *options, code=WRONG)
    by = r"drop-relu-rule/drop_relu #\d at y"
    assert re.fullmatch(rf"error: y: {message}, on \w+ inputs with N=\d; first broken by {by}\n", result.stderr)
    assert result.stdout == ""
    assert sorted(tmp_path.iterdir()) == before


def test_failed_run_keeps_existing_output(model: Path, out: Path, tmp_path: Path) -> None:
    out.write_text("old")
    run(model, "-o", out, "--strict", "--plugin", plugin(tmp_path), code=WRONG)
    assert out.read_text() == "old"


def test_wrong_rule_is_rejected_with_warning(model: Path, out: Path, tmp_path: Path) -> None:
    result = run(model, "-o", out, "--plugin", plugin(tmp_path), "--json", tmp_path / "r.json")
    warning = r"warning: skipped drop-relu-rule/drop_relu #\d at y: off by up to .*, on \w+ inputs with N=\d\n"
    assert re.fullmatch(warning, result.stderr)
    assert "verified: no difference seen" in result.stdout
    assert op_types(onnx.load(out)) == ["Gemm", "Relu"]
    report = json.loads((tmp_path / "r.json").read_text())
    (found,) = report["rejected"]
    assert (found["by"], found["place"], found["failure_kind"], found["output"]) == ("drop_relu", "y", "wrong", "y")
    assert found["error"] > found["allowed"]
    assert report["replays"] > 0


def test_no_verify_writes_wrong_model(model: Path, out: Path, tmp_path: Path) -> None:
    result = run(model, "-o", out, "--plugin", plugin(tmp_path), "--no-verify")
    assert "NOT VERIFIED" in result.stdout
    assert "Relu" not in op_types(onnx.load(out))


def test_wrong_rule_is_found_with_hyphenated_symbol(tmp_path: Path) -> None:
    model = load("g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }")
    for info in (*model.graph.input, *model.graph.output):
        info.type.tensor_type.shape.dim[0].dim_param = "batch-size"
    onnx.save(model, tmp_path / "m.onnx")
    run(tmp_path / "m.onnx", "--strict", "--plugin", plugin(tmp_path), code=WRONG)


@pytest.fixture
def opaque(tmp_path: Path) -> Path:
    proto = load("g (float[2] x) => (float[2] y) { a = Identity(x) y = my.Op(a) }")
    proto.opset_import.append(onnx.helper.make_opsetid("my", 1))
    onnx.save(proto, tmp_path / "opaque.onnx")
    return tmp_path / "opaque.onnx"


def test_unrunnable_model_is_not_written(opaque: Path, out: Path) -> None:
    result = run(opaque, "-o", out, code=UNVERIFIED)
    assert result.stderr.startswith("error: the original cannot be run: ")
    assert result.stderr.count("\n") == 1
    assert not out.exists()


def test_unrunnable_model_is_written_without_verification(opaque: Path, out: Path) -> None:
    assert "NOT VERIFIED" in run(opaque, "-o", out, "--no-verify").stdout
    assert op_types(onnx.load(out)) == ["Op"]


def test_bfloat16_inputs_are_verified(tmp_path: Path, out: Path) -> None:
    onnx.save(load("g (bfloat16[4] x) => (float[4] y) { a = Identity(x) y = Cast<to=1>(a) }"), tmp_path / "m.onnx")
    run(tmp_path / "m.onnx", "-o", out)
    assert op_types(onnx.load(out)) == ["Cast"]


def test_verdict_depends_on_given_inputs(model: Path, tmp_path: Path) -> None:
    wrong = plugin(tmp_path)
    for sign, code in ((1, OK), (-1, WRONG)):
        np.savez(tmp_path / "in.npz", x=np.full((1, 4), 9 * sign, np.float32))
        run(model, "--strict", "--plugin", wrong, "--inputs", tmp_path / "in.npz", code=code)


def shapes_of(path: Path) -> dict[str, list[int | str]]:
    """Shapes of the inputs and outputs of a file."""
    graph = onnx.load(path).graph
    ends = [*graph.input, *graph.output]
    return {i.name: [d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim] for i in ends}


def input_sets_of(*arguments: str | Path, code: int = OK) -> list[str]:
    report: dict[str, Any] = json.loads(invoke(*arguments, "--json", "-", code=code).stdout)
    return (report.get("verification") or report.get("verdict") or report)["input_sets"]


def test_fixed_sizes_are_written(model: Path, out: Path) -> None:
    """A size may be given twice, and by the shape too."""
    input_sets = input_sets_of("run", model, "-o", out, "--shape", "x:7,4", "--dim", "N=7", "--dim", "N=7")
    assert shapes_of(out) == {"x": [7, 4], "y": [7, 4]}
    assert not any(" with " in d for d in input_sets)  # no symbol is open


def test_symbols_are_kept_without_sizes(model: Path, out: Path) -> None:
    assert "normal inputs with N=1" in input_sets_of("run", model, "-o", out)
    assert shapes_of(out) == {"x": ["N", 4], "y": ["N", 4]}


def test_shape_of_name_with_colons(tmp_path: Path, out: Path) -> None:
    proto = load("g (float[N] x) => (float[N] y) { y = Relu(x) }")
    proto.graph.input[0].name = proto.graph.node[0].input[0] = "serving:x:0"
    onnx.save(proto, tmp_path / "m.onnx")
    run(tmp_path / "m.onnx", "-o", out, "--shape", "serving:x:0:7")
    assert shapes_of(out) == {"serving:x:0": [7], "y": [7]}


def test_size_of_symbol_with_equals_sign(tmp_path: Path, out: Path) -> None:
    proto = load("g (float[N] x) => (float[N] y) { y = Relu(x) }")
    for info in (*proto.graph.input, *proto.graph.output):
        info.type.tensor_type.shape.dim[0].dim_param = "a=b"
    onnx.save(proto, tmp_path / "m.onnx")
    run(tmp_path / "m.onnx", "-o", out, "--dim", "a=b=7")
    assert shapes_of(out) == {"x": [7], "y": [7]}


@cases(
    ("options", "code", "message"),
    {
        "another rank": (["--shape", "x:7"], BAD, "--shape x: 1 dims given, the input has 2"),
        "a fixed dim": (["--shape", "x:7,5"], BAD, "--shape x: a dim fixed at 4 cannot be 5"),
        "no such input": (["--shape", "q:7,4"], BAD, "--shape q: the model has no such input (it has x)"),
        "no shape": (["--shape", "x"], USAGE, "--shape x: not of the form name:1,3,224,224"),
        "no number": (["--shape", "x:N,4"], USAGE, "--shape x:N,4: not of the form name:1,3,224,224"),
        "two shapes": (["--shape", "x:7,4", "--shape", "x:8,4"], USAGE, "--shape x: given twice"),
        "no such symbol": (["--dim", "M=7"], BAD, "--dim M: the model has no such symbol (it has N)"),
        "an input's name": (["--dim", "x=7"], BAD, "--dim x: the model has no such symbol (it has N)"),
        "no size": (["--dim", "N"], USAGE, "--dim N: not of the form batch=1"),
        "a negative size": (["--dim", "N=-1"], USAGE, "--dim N=-1: not of the form batch=1"),
        "too large a size": (["--dim", f"N={1 << 63}"], BAD, f"--dim N: {1 << 63} is not a size"),
        "no symbol": (["--dim", "=7"], USAGE, "--dim =7: not of the form batch=1"),
        "two sizes": (["--dim", "N=1", "--dim", "N=2"], USAGE, "--dim N: given twice"),
        "conflict": (["--dim", "N=2", "--shape", "x:7,4"], BAD, "--shape x: N cannot be both 2 and 7"),
    },
)
def test_invalid_sizes(model: Path, out: Path, options: list[str], code: int, message: str) -> None:
    result = run(model, "-o", out, *options, code=code)
    assert result.stderr == f"error: {message}\n"
    assert result.stdout == ""
    assert not out.exists()


@cases(
    ("options", "message"),
    {
        "unknown effort": (["--verify", "best"], "--verify best: choose from quick, default, thorough"),
        "both": (["--verify", "quick", "--no-verify"], "--no-verify and --verify are mutually exclusive"),
        "no size": (["--memory", "much"], "--memory much: not of the form 2GB, 512MiB or 1000000"),
        "no memory": (["--memory", "0"], "--memory 0: not of the form 2GB, 512MiB or 1000000"),
    },
)
def test_invalid_effort_and_memory(model: Path, out: Path, options: list[str], message: str) -> None:
    result = run(model, "-o", out, *options, code=USAGE)
    assert result.stderr == f"error: {message}\n"
    assert not out.exists()


def test_bisect_fixes_sizes(model: Path) -> None:
    for options in (["--shape", "x:7,4"], ["--dim", "N=7"]):
        assert input_sets_of("bisect", model, *options)[0] == "normal inputs"


@pytest.mark.parametrize("command", [["verify", "{model}", "{model}"], ["bisect", "{model}", "--ort", "basic"]])
def test_shape_option_sizes_input_sets(model: Path, command: list[str]) -> None:
    input_sets = input_sets_of(*(part.format(model=model) for part in command), "--shape", "x:7,4")
    assert {d.rpartition(" ")[2] for d in input_sets} == {"N=7"}


def test_ort_bisect_sizes_input_sets(model: Path) -> None:
    input_sets = input_sets_of("bisect", model, "--ort", "basic", "--dim", "N=7")
    assert {d.rpartition(" ")[2] for d in input_sets} == {"N=7"}
    assert "no such symbol" in invoke("bisect", model, "--ort", "basic", "--dim", "K=7", code=BAD).stderr
    result = invoke("bisect", model, "--ort", "basic", "--outputs", "y", code=USAGE)
    assert result.stderr == "error: --ort bisects the model as it is; cut it with `passes run` first\n"
    invoke("verify", model, model, "--dim", "N=7", code=USAGE)


def test_outputs_option_with_fixed_sizes(tmp_path: Path, out: Path) -> None:
    text = """g (float[N,4] x, float[N,K] z) => (float[N,4] y, float[N,K] u) {
        a = Sin(x) m = MatMul(a, w) y = Cos(m) u = Neg(z) }"""
    onnx.save(load(text, weights=WEIGHTS), tmp_path / "m.onnx")
    run(tmp_path / "m.onnx", "-o", out, "--outputs", "m,a", "--dim", "N=7")
    assert shapes_of(out) == {"x": [7, 4], "z": [7, "K"], "m": [7, 4], "a": [7, 4]}
    assert op_types(onnx.load(out)) == ["Sin", "MatMul"]
    run(tmp_path / "m.onnx", "-o", out, "--outputs", "m", "--dim", "N=7", "--dim", "K=2", "--drop-unused-inputs")
    assert shapes_of(out) == {"x": [7, 4], "m": [7, 4]}  # K is removed with its input, after its size is set


def test_debloat(tmp_path: Path, out: Path) -> None:
    w = np.repeat(np.arange(512, dtype=np.float32)[None], 1024, axis=0)
    text = "g (float[N,1024] x) => (float[N,512] y, float[N,1024] z) { y = MatMul(x, w) z = Sin(x) }"
    onnx.save(load(text, weights={"w": w}), tmp_path / "m.onnx")
    assert ops_after(tmp_path / "m.onnx") == ["MatMul", "Sin"]
    table = rows(run(tmp_path / "m.onnx", "-v", "-o", out, "--debloat").stdout)
    assert table["debloat"][0] == "1"
    assert out.stat().st_size < w.nbytes // 100
    small = onnx.load(out)
    assert sorted(op_types(small)) == ["Expand", "MatMul", "Sin"]
    x = {"x": np.ones((1, 1024), np.float32)}
    np.testing.assert_array_equal(answers(small, x)[0], answers(onnx.load(tmp_path / "m.onnx"), x)[0])


@pytest.mark.parametrize(
    "name",
    slow_unless(
        {"resnet_kept_bn", "loop_if", "mixer_external"},
        ["bert", "resnet_kept_bn", "loop_if", "sklearn_forest", "mixer_external"],
    ),
)
def test_golden_models(tmp_path: Path, name: str) -> None:
    result = run(GOLDEN / f"{name}.onnx", "-o", tmp_path / "out.onnx")
    assert "verified: " in result.stdout
    onnx.checker.check_model(tmp_path / "out.onnx")


def test_list() -> None:
    lines = invoke("list").stdout.splitlines()
    assert any(re.match(r"  fold-batchnorm +fold +1 rule +BatchNormalization\(Conv", n) for n in lines)
    assert any(line.split() == ["none", "(passwright", "0.1.0):", "no", "passes"] for line in lines)
    assert any(re.match(r"  basic \(passwright 0\.1\.0\): +\d+ passes, until nothing changes", n) for n in lines)
    decomposition = invoke("list", "expand_HardSwish").stdout
    assert decomposition.startswith("expand_HardSwish  [rounding], a rule of legalize\n")
    printed = invoke("list", "fuse-gemm", "merge_transposes", "basic", "fold-constants").stdout
    for line in (
        "fuse-gemm, a pass (passwright 0.1.0), in basic, ort",
        "    matmul_add_to_gemm  [rounding]",
        "        MatMul(a, b) + c => Gemm(a, b, c)",
        "merge_transposes  [exact], a rule of merge-transposes",
        "    {max_growth=1048576}  int",
    ):
        assert line in printed.splitlines()
    assert "basic, a pipeline (passwright 0.1.0)\n    remove-unused, " in printed


def test_list_by_operator() -> None:
    lines = invoke("list", "--op", "Conv").stdout.splitlines()
    assert "fold-batchnorm" in lines
    assert not any("merge_transposes" in line for line in lines)
    assert any(re.match(r"  fold_batchnorm_into_conv +BatchNormalization\(Conv", line) for line in lines)
    assert "no pattern has the operator Convv; did you mean Conv" in invoke("list", "--op", "Convv", code=2).stderr


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("layernorm", {"fuse-norm", "fuse-norm-weights", "fuse-keras-layer-norm"}),
        ("fold_conv pad", {"fold-pad-into-conv"}),
        ("GELU", {"fuse-gelu"}),
        ("depend on constants alone", {"fold-constants"}),
    ],
)
def test_list_by_search(words: str, names: set[str]) -> None:
    lines = invoke("list", "--search", words).stdout.splitlines()
    assert names <= set(lines)
    assert all(line.startswith("  ") for line in lines if line not in {p.name for p in listing().passes})
    assert "merge-transposes" not in lines


def test_search_without_results() -> None:
    printed = invoke("list", "--search", "quux", code=2).stderr
    assert printed == "error: no pass or rule has 'quux' in its name, equation, description or operators\n"
    assert "only one of" in invoke("list", "--search", "a", "--op", "Conv", code=2).stderr


@pytest.mark.parametrize("width", [80, 40])
def test_lists_are_wrapped_on_a_terminal(width: int) -> None:
    printed = io.StringIO()
    terminal = Terminal()
    terminal.out = Console(file=printed, force_terminal=True, width=width, highlight=False, no_color=True)
    everything = listing()
    terminal.show(describe_all(everything))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", printed.getvalue()).splitlines()
    assert max(map(len, lines)) <= width
    text = "".join("".join(lines).split())
    assert all("".join(p.summary.split()) in text for p in everything.passes)


def test_list_with_plugin(tmp_path: Path) -> None:
    path = plugin(tmp_path)
    assert f"passes from {path}" in invoke("list", "--plugin", path).stdout.splitlines()
    printed = invoke("list", "drop-relu-rule", "--plugin", path).stdout.splitlines()
    assert printed[0] == f"drop-relu-rule, a pass ({path}), only if enabled"
    assert "        Relu(x) => x" in printed


def test_versions() -> None:
    printed = dict(part.split() for part in invoke("--version").stdout.split(", "))
    assert printed == versions()


def test_phases_are_separated_from_passes(model: Path) -> None:
    lines = invoke("run", model, "--no-verify", "-v").stdout.splitlines()
    assert lines[next(i for i, line in enumerate(lines) if line.startswith("│ phases")) - 1].startswith("├")


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_run_help_lists_exit_codes(option: str) -> None:
    shown = " ".join(invoke("run", option).stdout.split())
    assert "3 nothing written, as verification failed or the target does not support the result" in shown


def test_installed_command(model: Path, out: Path) -> None:
    """Its output to pipes has no control codes."""
    command = [COMMAND, "run", model, "-v", "-o", out]
    done = subprocess.run(command, capture_output=True, check=False, timeout=300)
    assert done.returncode == OK
    assert rows(done.stdout.decode())["nodes"] == ["6", "2", "-66.7%"]
    assert not {*b"\x1b\r"} & {*done.stdout, *done.stderr}
    failed = subprocess.run([COMMAND, "run", "nowhere.onnx"], capture_output=True, text=True, check=False, timeout=300)
    assert (failed.returncode, failed.stdout) == (BAD, "")
    assert failed.stderr == "error: nowhere.onnx does not exist\n"


def test_message_of_onnxruntime_names_no_temporary_file(tmp_path: Path) -> None:
    """Sizes are set in a copy of the model, whose path means nothing to the user."""
    header = '<ir_version: 10, opset_import: ["": 17]> g (float[N,8] x) => (float[A,B] y)'
    text = f"{header} {{ s = Constant <value_ints = [0, -1]> () y = Reshape <allowzero = 1> (x, s) }}"
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    stderr = run(path, "--dim", "N=0", code=UNVERIFIED).stderr
    assert "onnxruntime cannot load it: Node" in stderr, stderr
    assert ".onnx" not in stderr, stderr


def test_outputs_with_the_largest_errors(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sums = " ".join(f"m{i} = MatMul(x, w{i}) y{i} = Add(m{i}, c)" for i in range(5))
    outputs = ", ".join(f"float[N,8] y{i}" for i in range(5))
    weights = {f"w{i}": rng.standard_normal((64, 8)).astype(np.float32) for i in range(5)}
    weights["c"] = rng.standard_normal(8).astype(np.float32)
    text = f"g (float[N,64] x) => ({outputs}, float[N,64] z) {{ {sums} z = Relu(x) }}"
    onnx.save(load(text, weights=weights), tmp_path / "m.onnx")
    lines = run(tmp_path / "m.onnx", "-v").stdout.splitlines()
    shown = [re.fullmatch(r"(y\d): off by ([\d.e-]+), (\d+)% of the ([\d.e-]+) allowed", line) for line in lines]
    found = [m for m in shown if m is not None]
    assert len(found) == 3
    assert all(0 < float(m[2]) < float(m[4]) for m in found)
    shares = [int(m[3]) for m in found]
    assert shares == sorted(shares, reverse=True)
    assert "2 other outputs with smaller errors relative to the tolerance" in lines
    assert "1 output with no difference" in lines


def test_operators_outside_the_standard_are_named(tmp_path: Path) -> None:
    plugin, model, output = tmp_path / "quick.py", tmp_path / "model.onnx", tmp_path / "out.onnx"
    plugin.write_text(
        "from passwright.core import rule\n\n\n@rule(lambda g, x: g.Mul(x, g.Sigmoid(x)))\ndef quick(g, x):\n"
        '    """x * Sigmoid(x) => QuickGelu(x, alpha=1)"""\n'
        '    return g.domain("com.microsoft").QuickGelu(x, alpha=1.0)\n'
    )
    onnx.save(load("g (float[N,4] x) => (float[N,4] y) { s = Sigmoid(x) y = Mul(x, s) }"), model)
    result = invoke("run", model, "--plugin", plugin, "-o", output)
    assert "not in the ONNX standard, so other runtimes may not run it: com.microsoft.QuickGelu" in result.stdout
    assert op_types(onnx.load(output)) == ["QuickGelu"]
    again = invoke("run", output, "-o", tmp_path / "again.onnx")
    assert "not in the ONNX standard" not in again.stdout
