"""The command as a new user meets it: on wide and narrow terminals, without one, and without colours."""

import json
import re
import sys
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
import onnx
import pytest
from commands import invoke
from onnx import helper
from passwright.app.compare.document import describe as describe_comparison
from passwright.app.measure.model_stats import compute_model_stats
from passwright.app.report.terminal import Terminal
from rewriting import cases, load
from sample_reports import comparison
from tiers import slow_unless

import passwright

CONTROL = re.compile(r"\x1b\[[?\d;]*[A-Za-z]")
pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")
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
    result = invoke(*arguments, env=variables, code=code)
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
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a model with Constants, an unused op and a pair of Transposes, and samples."""
    text = """g (float[N,4] x) => (float[N,4] y) {
        one = Constant<value_float=1.0>() c = Constant<value_floats=[1.0,2.0,3.0,4.0]>()
        unused = Exp(x) a = Mul(x, one) t = Transpose(a) b = Transpose(t) m = MatMul(b, w) s = Add(m, c) y = Relu(s)
    }"""
    onnx.save(load(text, weights={"w": np.eye(4, dtype=np.float32) / 3}), tmp_path / "m.onnx")
    rows = {f"s{n}/x": np.full((n + 1, 4), n, np.float32) for n in range(3)}
    np.savez(tmp_path / "all.npz", **rows)
    np.savez(tmp_path / "bad.npz", **rows | {"s1/x": np.ones((2, 3), np.float32)})
    (tmp_path / "pyproject.toml").write_text('[tool.passwright]\nskip = ["fuse-gemm"]\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


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


NODES = 7  # of the model, Constant ops not counted
CHECK = "run m.onnx --check --no-verify --no-settings"


@cases(
    ("line", "code", "shown"),
    {
        "second path": ("run m.onnx out.onnx --no-verify --no-settings", 0, r"7 -> 2 nodes .* written to out\.onnx"),
        "in place": ("run m.onnx --in-place --no-verify", 0, r"7 -> 3 nodes .* written to m\.onnx"),
        "dry run": ("run m.onnx --dry-run --no-verify", 0, r"\(saves 2 nodes.*\(saves 1 node"),
        "check": (CHECK, 3, "7 -> 2 nodes"),
        "GitHub": (f"{CHECK} --format github", 3, "::error file=m.onnx,title=would change::"),
        "settings": ("run m.onnx --show-settings", 0, "fuse-gemm"),
        "samples": ("run m.onnx --inputs all.npz", 0, "on 3 given samples"),
        "mistake": (
            "run m.onnx --inputs bad.npz", 1,
            r"error: x of the given \(bad\.npz: s1\) inputs has shape \[2,3\]; the model needs \[N,4\]"),
        "search": ("list --search gelu", 0, "fuse_gelu"),
        "operator": ("list --op Conv", 0, "fold_batchnorm_into_conv"),
        "same": ("diff m.onnx m.onnx", 0, ""),
        "no file": ("diff m.onnx none.onnx", 2, "none.onnx does not exist"),
        "help of run": ("run --help", 0, r"(?=.* Output: )(?=.* Verification: )(?=.* Selection: ).* Model: .*"),
        **{f"help of {name}": (f"{name} --help", 0, "Examples:") for name in ("verify", "bench", "list")},
    },
)  # fmt: skip
def test_output_fits(folder: Path, surface: Surface, line: str, code: int, shown: str) -> None:
    found = show(surface, *line.split(), code=code)
    assert re.search(shown, joined(found.out + found.err))
    if surface.is_terminal and code == 0:
        limit = surface.columns if "--help" in line else max(surface.columns, 80)
        unbroken = ("  passes ", "::error", "skip = ")
        assert [text for text in found.lines if len(text) > limit and not text.startswith(unbroken)] == []


def test_three_lines(folder: Path, surface: Surface) -> None:
    shown = show(surface, "run", "m.onnx", "out.onnx", "--verify", "quick", "--no-settings")
    text = joined(shown.out)
    assert f"{NODES} -> 2 nodes (-71.4%), " in text
    assert re.search(r"verified: [^;]+, on \d+ sets of inputs", text)
    assert text.endswith("written to out.onnx")
    assert len(shown.lines) == 3 or surface.columns == 40
    assert max(map(len, shown.lines)) <= surface.columns


def test_reasons_are_grouped(rounding: Path) -> None:
    declined = [line for line in show(Surface(), "run", rounding, "-v").err.splitlines() if " declined at " in line]
    assert "drop_neutral_operand declined at 10 ops, such as Mul m0: a0 is not 1" in declined
    assert len(declined) < 8


@pytest.mark.parametrize(
    ("command", "name"), [("run", "80 columns"), ("run", "40 columns"), ("verify", "no terminal"), ("bisect", "dumb")]
)
def test_verdict_and_three_outputs(rounding: Path, tmp_path: Path, name: str, command: str) -> None:
    surface, out = SURFACES[name], tmp_path / "out.onnx"
    passwright.optimize(rounding, output=out, verify=False)
    arguments = {"run": [rounding, "-v"], "verify": [rounding, out], "bisect": [rounding]}[command]
    shown = show(surface, command, *arguments, "--seed", "1")
    text = joined(shown.out)
    assert re.search(
        r"verified: within tolerance \(largest error: \d+% of the tolerance\), on \d+ sets of inputs", text
    )
    worst = re.findall(r"(\S+): off by \S+ (\d+)% of the \S+ allowed", text)
    assert len(worst) == 3
    assert set(dict(worst)) < set(LONG_NAMES)  # whole names
    assert [int(share) for _, share in worst] == sorted((int(share) for _, share in worst), reverse=True)
    assert "2 other outputs with smaller errors relative to the tolerance" in text
    if surface.is_terminal:
        verdict = shown.out[shown.out.index("verified: ") :].splitlines()
        assert all(len(line) <= surface.columns or line.rstrip(":") in LONG_NAMES for line in verdict[:-1]), verdict


def test_all_outputs_are_in_the_json(rounding: Path) -> None:
    differences = json.loads(show(Surface(), "run", rounding, "--json", "-").out)["verification"]["differences"]
    assert list(differences) == LONG_NAMES
    assert all(0 < d["share_of_allowed"] == d["error"] / d["allowed"] < 1 for d in differences.values())


@pytest.mark.parametrize("columns", [40, 80])
def test_narrow_tables_are_lines(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"COLUMNS": str(columns), "TTY_COMPATIBLE": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", stream := StringIO())
    Terminal().show(describe_comparison(comparison()))
    text = CONTROL.sub("", stream.getvalue())
    assert "…" not in text
    assert ("  as written: within tolerance" in text) == (columns == 40)
    assert "within tolerance" in text


def test_one_count_of_nodes(folder: Path, surface: Surface) -> None:
    arguments = ("-v", "--html", "page.html", "--json", "r.json", "--no-verify", "--no-settings")
    shown = show(surface, "run", "m.onnx", "out.onnx", *arguments)
    row = rf"nodes\W+(before: )?{NODES}\W+(after: )?2\W+(change: )?-71.4%"  # of a table, or of lines
    assert re.search(row, shown.out)
    report = json.loads((folder / "r.json").read_text())
    before = report["before"]
    assert before["nodes"] == sum(before["ops"].values()) == NODES
    assert "Constant" not in before["ops"]
    assert before["ops"] == compute_model_stats(folder / "m.onnx").ops  # of compare
    (described,) = json.loads(show(surface, "info", "m.onnx", "--json", "-").out)["models"]
    assert described["ops"] == before["ops"]
    assert f"{NODES}" in (folder / "page.html").read_text()
    planned = show(surface, "run", "m.onnx", "--dry-run", "--no-verify", "--no-settings").out
    assert f"{NODES} -> 2 nodes (-71.4%)" in joined(planned)
    rules = [rule for p in report["passes"] for rule in p["rules"]]
    assert max(map(len, rules)) > 16
    assert [rule for rule in rules if rule not in shown.out or rule not in planned] == []  # on a narrow terminal too
    data = json.loads(show(surface, "diff", "m.onnx", "out.onnx", "--json", "-", code=1).out)
    assert (data["counts"]["before"], data["counts"]["after"]) == (NODES, 2)


def test_profile_writes_no_file(folder: Path) -> None:
    files = set(folder.iterdir())
    show(Surface(), "profile", "m.onnx", "--no-optimize", "--min-time", "0.01", "--threads", "1")
    assert set(folder.iterdir()) == files  # no trace unless --trace names it


def test_nothing_moves_without_a_terminal(folder: Path) -> None:
    assert show(Surface(), "run", "m.onnx", "--no-verify").err == ""  # what a terminal shows is in test_progress.py
