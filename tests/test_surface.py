"""The command as a new user meets it: on wide and narrow terminals, without one, and without colours."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from passwright.app.cli.entry import app
from passwright.app.compare.render import show_comparison_report
from passwright.app.measure.model_stats import compute_model_stats
from passwright.app.report.terminal import Terminal
from rewriting import load, op_types
from sample_reports import comparison
from tiers import slow_unless
from typer.testing import CliRunner

import passwright

CONTROL = re.compile(r"\x1b\[[?\d;]*[A-Za-z]")
pytestmark = pytest.mark.usefixtures("_few_combined_inputs")
COLOUR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9\d|10\d)[;m]")
LONG_NAMES = [f"decoder/layers.{n}/self_attention/past_key_values.value_{n}" for n in range(5)]


@dataclass(frozen=True)
class Surface:
    """A place where output is read: a terminal of that width, or a pipe."""

    columns: int = 80
    is_terminal: bool = False
    variables: tuple[tuple[str, str], ...] = ()


SURFACES = {
    "80 columns": Surface(80, is_terminal=True),
    "40 columns": Surface(40, is_terminal=True),
    "no terminal": Surface(),
    "NO_COLOR": Surface(80, is_terminal=True, variables=(("NO_COLOR", "1"),)),
    "dumb": Surface(80, is_terminal=True, variables=(("TERM", "dumb"),)),
}


@dataclass(frozen=True)
class Shown:
    """The output of a command, without control codes."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def show(surface: Surface, *arguments: str | Path, code: int = 0) -> Shown:
    """Run a command there, and require what holds for all of its output."""
    variables = {"COLUMNS": str(surface.columns), "TERM": "xterm-256color", **dict(surface.variables)}
    variables["TTY_COMPATIBLE"] = str(int(surface.is_terminal))
    result = CliRunner(env=variables).invoke(app, [*map(str, arguments)])
    assert result.exit_code == code, result.output + repr(result.exception)
    for text in (result.stdout, result.stderr):
        assert surface.is_terminal or "\x1b" not in text
        assert not surface.variables or not COLOUR.search(text)
        assert "…" not in CONTROL.sub("", text).split("⠋")[0]  # nothing is cut
    out, err = (CONTROL.sub("", text) for text in (result.stdout, result.stderr))
    return Shown(result.exit_code, out, err)


def joined(text: str) -> str:
    """The text with its lines unwrapped."""
    return " ".join(text.split())


@pytest.fixture(params=slow_unless([SURFACES["40 columns"], SURFACES["NO_COLOR"]], SURFACES.values()), ids=SURFACES)
def surface(request: pytest.FixtureRequest) -> Surface:
    return request.param


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Constant ops beside initializers, an unused op, a pair of Transposes."""
    text = """g (float[N,4] x) => (float[N,4] y) {
        one = Constant<value_float=1.0>() c = Constant<value_floats=[1.0,2.0,3.0,4.0]>()
        unused = Exp(x) a = Mul(x, one) t = Transpose(a) b = Transpose(t) m = MatMul(b, w) s = Add(m, c) y = Relu(s)
    }"""
    onnx.save(load(text, weights={"w": np.eye(4, dtype=np.float32) / 3}), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.fixture
def rounding(tmp_path: Path) -> Path:
    """A model whose outputs differ by rounding after its rewrites; their names are long."""
    nodes, weights = [], {}
    for n, name in enumerate(LONG_NAMES):
        nodes += [
            helper.make_node("Mul", ["x", f"a{n}"], [f"m{n}"]),
            helper.make_node("Mul", [f"m{n}", f"b{n}"], [name]),
        ]
        weights |= {f"a{n}": np.float32(3.3 + n), f"b{n}": np.float32(0.7 + n)}
    outputs = [helper.make_tensor_value_info(name, 1, ["N", 4]) for name in LONG_NAMES]
    initializers = [onnx.numpy_helper.from_array(np.asarray(a), name) for name, a in weights.items()]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, ["N", 4])], outputs, initializers)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.save(proto, tmp_path / "rounding.onnx")
    return tmp_path / "rounding.onnx"


NODES = 7  # of `model`, Constant ops not counted


def test_row_1_and_2_hints_name_what_would_help(tmp_path: Path, surface: Surface) -> None:
    gelu = "h = Erf(d) p = Add(h, one) q = Mul(x, p) y = Mul(q, half)"
    text = f"g (float[2,8] x) => (float[2,8] y) {{ d = Div(x, root) {gelu} }}"
    weights = {"root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}
    old = load(text, 14, weights=weights)
    onnx.save(old, path := tmp_path / "old.onnx")
    shown = joined(show(surface, "run", path, "--verify", "quick").out)
    assert "hint: 1 Gelu from opset 20 on: --" in shown
    assert op_types(passwright.optimize(path, opset=20, verify=False).model) == ["Gelu"]
    frozen = load("g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1.0, 1.0}> { y = Mul(x, w) }")
    onnx.save(frozen, path := tmp_path / "frozen.onnx")
    shown = joined(show(surface, "run", path, "--verify", "quick").out)
    assert "hint: 1 initializer is an input as well, and no constant to fold: --freeze-initializers" in shown


def test_row_3_three_lines(model: Path, surface: Surface, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(model.parent)
    shown = show(surface, "run", model.name, "out.onnx", "--verify", "quick")
    text = joined(shown.out)
    assert f"{NODES} -> 2 nodes (-71.4%), " in text
    assert re.search(r"verified: [^;]+, on \d+ sets of inputs", text)
    assert text.endswith("written to out.onnx")
    assert len(shown.lines) == 3 or surface.columns == 40
    assert max(map(len, shown.lines)) <= surface.columns


def test_row_3_reasons_are_grouped(rounding: Path) -> None:
    declined = [line for line in show(Surface(), "run", rounding, "-v").err.splitlines() if " declined at " in line]
    assert "drop_neutral_operand declined at 10 ops, as at Mul m0: a0 is not 1" in declined
    assert len(declined) < 8


@pytest.mark.parametrize(
    ("command", "name"), [("run", "80 columns"), ("run", "40 columns"), ("verify", "no terminal"), ("bisect", "dumb")]
)
def test_row_4_verdict_and_three_outputs(rounding: Path, tmp_path: Path, name: str, command: str) -> None:
    surface, out = SURFACES[name], tmp_path / "out.onnx"
    passwright.optimize(rounding, output=out, verify=False)
    arguments = {"run": [rounding, "-v"], "verify": [rounding, out], "bisect": [rounding]}[command]
    shown = show(surface, command, *arguments, "--seed", "1")
    text = joined(shown.out)
    assert re.search(
        r"verified: within tolerance \(at most \d+% of what rounding allows\), on \d+ sets of inputs", text
    )
    worst = re.findall(r"(\S+): off by \S+ (\d+)% of the \S+ allowed", text)
    assert len(worst) == 3
    assert set(dict(worst)) < set(LONG_NAMES)  # whole names
    assert [int(share) for _, share in worst] == sorted((int(share) for _, share in worst), reverse=True)
    assert "2 other outputs off by less of what is allowed" in text
    if surface.is_terminal:
        verdict = shown.out[shown.out.index("verified: ") :].splitlines()
        assert all(len(line) <= surface.columns or line.rstrip(":") in LONG_NAMES for line in verdict[:-1]), verdict


def test_row_4_all_outputs_are_in_the_json(rounding: Path) -> None:
    differences = json.loads(show(Surface(), "run", rounding, "--json", "-").out)["verification"]["differences"]
    assert list(differences) == LONG_NAMES
    assert all(0 < d["share_of_allowed"] == d["error"] / d["allowed"] < 1 for d in differences.values())


@pytest.mark.parametrize("columns", [40, 80])
def test_row_4_narrow_tables_are_lines(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"COLUMNS": str(columns), "TTY_COMPATIBLE": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", stream := StringIO())
    show_comparison_report(Terminal(), comparison())
    text = CONTROL.sub("", stream.getvalue())
    assert "…" not in text
    assert ("  as written: within tolerance" in text) == (columns == 40)
    assert "within tolerance" in text


def test_row_5_one_count_of_nodes(model: Path, tmp_path: Path, surface: Surface) -> None:
    page, report = tmp_path / "page.html", tmp_path / "report.json"
    shown = show(surface, "run", model, "-v", "--html", page, "--json", report, "--no-verify")
    row = rf"nodes\W+(before: )?{NODES}\W+(after: )?2\W+(change: )?-71.4%"  # of a table, or of lines
    assert re.search(row, shown.out)
    before = json.loads(report.read_text())["before"]
    assert before["nodes"] == sum(before["ops"].values()) == NODES
    assert "Constant" not in before["ops"]
    assert before["ops"] == compute_model_stats(model).ops  # of compare
    (described,) = json.loads(show(surface, "info", model, "--json", "-").out)["models"]
    assert described["ops"] == before["ops"]
    assert f"{NODES}" in page.read_text()
    planned = show(surface, "run", model, "--dry-run", "--no-verify").out
    assert re.search(row, joined(planned))
    rules = [rule for p in json.loads(report.read_text())["passes"] for rule in p["rules"]]
    assert max(map(len, rules)) > 16
    assert [rule for rule in rules if rule not in shown.out or rule not in planned] == []  # on a narrow terminal too


def test_row_5_diff_counts_the_same_nodes(model: Path, tmp_path: Path) -> None:
    passwright.optimize(model, output=tmp_path / "out.onnx", verify=False)
    data = json.loads(show(Surface(), "diff", model, tmp_path / "out.onnx", "--json", "-", code=1).out)
    assert (data["counts"]["before"], data["counts"]["after"]) == (NODES, 2)


def test_row_6_second_path(model: Path, tmp_path: Path, surface: Surface) -> None:
    show(surface, "run", model, tmp_path / "out.onnx", "--no-verify")
    assert op_types(onnx.load(tmp_path / "out.onnx")) == ["Gemm", "Relu"]


def test_row_6_in_place(model: Path, surface: Surface) -> None:
    show(surface, "run", model, "--in-place", "--no-verify")
    assert op_types(onnx.load(model)) == ["Gemm", "Relu"]


def test_row_7_python(model: Path) -> None:
    result = passwright.optimize(model, verify=False)
    assert result._repr_html_().startswith("<")
    assert op_types(result.model) == ["Gemm", "Relu"]
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", passwright.__version__)
    assert Path(passwright.__file__).with_name("py.typed").exists()
    assert Path(passwright.__file__).with_name("__main__.py").exists()


def test_row_8_help(surface: Surface) -> None:
    for command in ("run", "verify", "bench", "list", "bisect"):
        shown = show(surface, command, "--help")
        assert not re.search(r"\b(TEXT|INTEGER|FLOAT|PATH|BOOLEAN)\b", shown.out)
        assert "Examples:" in shown.out
        assert all(len(line) <= surface.columns or line.startswith("  passes ") for line in shown.lines)
        if command == "run":
            assert all(f"\n{group}:\n" in shown.out for group in ("Output", "Verification", "Selection", "Model"))


def test_row_9_search(surface: Surface) -> None:
    for arguments in (["--search", "gelu"], ["--op", "Conv"]):
        shown = show(surface, "list", *arguments)
        assert {"--search": "fuse_gelu", "--op": "fold_batchnorm_into_conv"}[arguments[0]] in shown.out
        assert surface.is_terminal is False or max(map(len, shown.lines)) <= max(surface.columns, 60)


def test_row_10_dry_run_and_check(model: Path, tmp_path: Path, surface: Surface) -> None:
    shown = show(surface, "run", model, "--dry-run", "--no-verify")
    saved = [int(n) for n in re.findall(r"\(saves (\d+) nodes?", joined(shown.out))]
    assert saved == sorted(saved, reverse=True)
    assert saved[0] == 2  # of the pair of Transposes, not of the unused op, which comes first in the file
    show(surface, "run", model, "--check", "--no-verify", code=3)
    show(surface, "run", model, tmp_path / "out.onnx", "--no-verify")
    show(surface, "run", tmp_path / "out.onnx", "--check", "--no-verify")


def test_row_11_exit_codes_and_files(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    surface = Surface()
    monkeypatch.chdir(tmp_path)
    files = set(tmp_path.iterdir())
    show(surface, "profile", model, "--no-optimize", "--min-time", "0.01", "--threads", "1")
    assert set(tmp_path.iterdir()) == files  # no trace unless --trace names it
    for other, code in ((model, 0), (tmp_path / "none.onnx", 2)):
        show(surface, "diff", model, other, code=code)


def test_row_12_nothing_moves_without_a_terminal(model: Path) -> None:
    assert show(Surface(), "run", model, "--no-verify").err == ""  # what a terminal shows is in test_progress.py
    said: list[str] = []
    passwright.optimize(model, progress=said.append, verify=False)
    assert any(re.fullmatch(r"rewriting: pass \S+(, \d+ changes?)?", text) for text in said)


def test_row_13_several_samples(model: Path, tmp_path: Path, surface: Surface) -> None:
    rows = {f"s{n}/x": np.full((n + 1, 4), n, np.float32) for n in range(3)}
    np.savez(tmp_path / "all.npz", **rows)
    (tmp_path / "data.py").write_text(
        "import numpy as np\ndef reader():\n    for n in range(3): yield {'x': np.ones((n + 1, 4), np.float32)}\n"
    )
    for given, count in (["all.npz"], 3), (["data.py:reader"], 3), (["all.npz", "data.py"], 6):
        options = [word for name in given for word in ("--inputs", str(tmp_path / name))]
        assert f"on {count} given samples" in joined(show(surface, "run", model, *options).out)
    np.savez(tmp_path / "bad.npz", **rows | {"s1/x": np.ones((2, 3), np.float32)})
    shown = show(surface, "run", model, "--inputs", tmp_path / "bad.npz", code=1)
    assert shown.err == "error: x of the given (bad.npz: s1) inputs has shape [2,3]; the model needs [N,4]\n"


def test_row_14_settings(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, surface: Surface) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.passwright]\nskip = ["fuse-gemm"]\n')
    monkeypatch.chdir(tmp_path)
    assert "7 -> 3 nodes" in joined(show(surface, "run", model, "--no-verify").out)
    assert "7 -> 2 nodes" in joined(show(surface, "run", model, "--no-verify", "--no-settings").out)
    assert "fuse-gemm" in show(surface, "run", "--show-settings", model).out


def test_row_15_ci(model: Path, surface: Surface) -> None:
    shown = show(surface, "run", model, "--check", "--no-verify", "--format", "github", code=3)
    assert f"::error file={model},title=would change::" in shown.out
