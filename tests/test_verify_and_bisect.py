"""`passes verify` and `passes bisect`: two models, or a pipeline and its model."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from commands import invoke
from rewriting import cases, load

from passwright import verify

pytestmark = pytest.mark.usefixtures("_verifies_in_process")

OK, BAD, USAGE, WRONG, UNVERIFIED = range(5)
MODEL = "g (float[N,4] x) => (float[N,4] y) { a = MatMul(x, w) y = Relu(a) }"
OTHER_ORDER = "the outputs are in a different order: a, y"
W = {"w": np.eye(4, dtype=np.float32)}
RULES = '''
from passwright.core import EXACT, rule


@rule(lambda g, x: g.Relu(x), contract=EXACT)
def drop_relu(g, x):
    """Relu(x) => x"""
    return x
'''


def saved(folder: Path, name: str, text: str = MODEL, **weights: np.ndarray) -> Path:
    reads_w = "w)" in text and "] w)" not in text
    onnx.save(load(text, weights=weights or W if reads_w else {}), folder / name)
    return folder / name


@cases(
    ("other", "code", "message"),
    {
        "equal": ("a = MatMul(x, w) y = Relu(a)", OK, "verified"),
        "another way": ("a = MatMul(x, w) b = Relu(a) y = Relu(b)", OK, "verified"),
        "other values": ("y = MatMul(x, w)", WRONG, "b.onnx is wrong: y: off by up to"),
        "other shape": ("a = MatMul(x, w) y = Tile(a, k)", WRONG, "b.onnx is wrong: y: float32[2, 4] became"),
        "fails": ("a = MatMul(x, w) y = Reshape(a, k)", WRONG, "b.onnx is wrong: it fails on normal inputs with N=2: "),
    },
)
def test_differing_values(tmp_path: Path, other: str, code: int, message: str) -> None:
    head = (
        "g (float[N,4] x) => (float[P,Q] y) <int64[2] k = {1, 2}>"
        if "k)" in other
        else "g (float[N,4] x) => (float[N,4] y)"
    )
    b = saved(tmp_path, "b.onnx", f"{head} {{ {other} }}")
    result = invoke("verify", saved(tmp_path, "a.onnx"), b, code=code)
    assert message in result.stdout
    assert result.stderr == ""


TWO_INPUTS = "g (float[N,4] x, float[4,4] u = {%s}) => (float[N,4] y, float[N,4] z) { y = MatMul(x, u) z = Relu(x) }"
EYE = TWO_INPUTS % "1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1"
CHOSEN = EYE.replace("Relu(x)", "MatMul(x, w)")  # of two matrices, one is overridable
AGREE, NOT_COMPARED = "; its outputs agree: ", ", and was not compared: "


@cases(
    ("original", "other", "verdict", "message"),
    {
        "another input": (
            MODEL, "g (float[N,4] z) => (float[N,4] y) { y = Relu(z) }",
            NOT_COMPARED + "the original has no input z", ["input x is missing", "input z is new"]),
        "no output": (
            MODEL, "g (float[N,4] x) => (float[N,4] z) { z = Relu(x) }",
            NOT_COMPARED + "the model has none of the original's outputs", ["output y is missing"]),
        "kind": (
            MODEL, "g (seq(float[N,4]) x, int64 i) => (float[N,4] y) { y = SequenceAt(x, i) }",
            NOT_COMPARED, ["input i is new", "input x is a sequence of float, not a tensor of float"]),
        "type": (
            MODEL, "g (double[N,4] x) => (double[N,4] y) { y = Relu(x) }",
            ", and is wrong: y: float32[2, 4] became float64[2, 4], on normal inputs",
            ["input x is a tensor of double, not a tensor of float"]),
        "type behind a Cast": (
            "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }",
            "g (double[N,4] x) => (float[N,4] y) { a = Relu(x) y = Cast<to=1>(a) }",
            AGREE, ["input x is a tensor of double, not a tensor of float"]),
        "an output less": (
            EYE, EYE.replace(", float[N,4] z)", ")").replace(" z = Relu(x)", ""), AGREE, ["output z is missing"]),
        "an output less, and wrong": (
            CHOSEN, "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }",
            ", and is wrong: y: off by", ["input u is missing", "output z is missing"]),
        "frozen, with its name": (
            CHOSEN, "g (float[N,4] x) => (float[N,4] y, float[N,4] z) { u = Relu(x) y = Identity(x) z = Identity(u) }",
            ", and is wrong: z: ", ["input u is missing"]),
        "no default": (
            EYE, EYE.replace(" = {1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1}", ""), AGREE, ["u no longer has a default"]),
        "an initializer without its value": (
            MODEL, "g (float[N,4] x, float[4,4] w) => (float[N,4] y) { a = MatMul(x, w) y = Relu(a) }",
            AGREE, ["w no longer has a default"]),
        "another order": (
            "g (float[N,4] u, float[N,4] v) => (float[N,4] y) { y = Sub(u, v) }",
            "g (float[N,4] v, float[N,4] u) => (float[N,4] y) { y = Sub(u, v) }",
            AGREE, ["the inputs are in a different order: v, u"]),
    },
)  # fmt: skip
def test_differing_interfaces(tmp_path: Path, original: str, other: str, verdict: str, message: list[str]) -> None:
    files = [saved(tmp_path, name, text) for name, text in (("a.onnx", original), ("b.onnx", other))]
    lines = invoke("verify", *files, code=WRONG).stdout.splitlines()
    assert lines[0].startswith(f"{files[1]} has a different interface{verdict}")
    assert [line for line in lines if line in message] == message


def test_initializers_that_an_exporter_lists_may_become_constants(tmp_path: Path) -> None:
    frozen_text = TWO_INPUTS.replace(", float[4,4] u = {%s}", "").replace("u)", "w)")
    frozen = saved(tmp_path, "b.onnx", frozen_text)
    found = " ".join(invoke("verify", saved(tmp_path, "a.onnx", EYE), frozen).stdout.split())
    assert "note: 1 initializer that the original also lists as inputs can no longer be overridden" in found
    wrong = saved(tmp_path, "c.onnx", frozen_text, w=2 * W["w"])
    assert "is wrong: y: off by" in invoke("verify", tmp_path / "a.onnx", wrong, code=WRONG).stdout


@cases(
    ("other", "message"),
    {
        "an output more": ("(float[N,4] x) => (float[N,4] y, float[N,4] a)", ""),
        "an output more, in front": ("(float[N,4] x) => (float[N,4] a, float[N,4] y)", OTHER_ORDER),
    },
)
def test_input_order(tmp_path: Path, other: str, message: str) -> None:
    b = saved(tmp_path, "b.onnx", f"g {other} {{ a = MatMul(x, w) y = Relu(a) }}")
    result = invoke("verify", saved(tmp_path, "a.onnx"), b, code=WRONG if message else OK)
    assert message in result.stdout


def test_exact_compares_bits(tmp_path: Path) -> None:
    w = np.full((4, 4), 1 / 3, np.float32)
    a, b = saved(tmp_path, "a.onnx", w=w), saved(tmp_path, "b.onnx", w=np.nextafter(w, np.float32(2)))
    invoke("verify", a, b)
    assert "differ in their bits" in invoke("verify", a, b, "--exact", code=WRONG).stdout


def test_inputs_shapes_and_seeds(tmp_path: Path) -> None:
    a = saved(tmp_path, "a.onnx")
    b = saved(tmp_path, "b.onnx", "g (float[N,4] x) => (float[N,4] y) { y = MatMul(x, w) }")
    np.savez(tmp_path / "in.npz", x=np.full((1, 4), 9, np.float32))
    invoke("verify", a, b, "--inputs", tmp_path / "in.npz")
    found = invoke("verify", a, b, "--shape", "x:7,4", "--seed", "3", code=WRONG).stdout
    assert "with N=7" in found


def test_json(tmp_path: Path) -> None:
    a = saved(tmp_path, "a.onnx")
    b = saved(tmp_path, "b.onnx", "g (float[N,4] x) => (float[N,4] y) { y = MatMul(x, w) }")
    right = json.loads(invoke("verify", a, a, "--json", "-").stdout)
    wrong = json.loads(invoke("verify", a, b, "--json", "-", code=WRONG).stdout)
    assert (right["agrees"], wrong["agrees"]) == (True, False)
    assert right["verdict"]["failure"] is None
    assert wrong["verdict"]["failure"]["reason"].startswith("off by up to")
    invoke("verify", a, b, "--json", tmp_path / "r.json", code=WRONG)
    assert json.loads((tmp_path / "r.json").read_text())["original"] == str(a)


@pytest.mark.parametrize("which", [0, 1])
def test_bad_models(tmp_path: Path, which: int) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"nonsense")
    files = [saved(tmp_path, "a.onnx"), saved(tmp_path, "b.onnx")]
    files[which] = tmp_path / "bad.onnx"
    result = invoke("verify", *files, code=BAD)
    assert result.stderr.startswith(f"error: {tmp_path}/bad.onnx: ")
    assert result.stderr.count("\n") == 1


def test_from_python(tmp_path: Path) -> None:
    a = load(MODEL, weights=W)
    assert verify(a, a).agrees
    b = load("g (float[N,4] x) => (float[N,4] y) { y = MatMul(x, w) }", weights=W)
    comparison = verify(a, b)
    assert not comparison.agrees
    assert comparison.verdict is not None
    assert comparison.verdict.failure is not None
    assert comparison.verdict.failure.output == "y"


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    (tmp_path / "my_rules.py").write_text(RULES)
    return tmp_path / "my_rules.py"


def test_bisect_names_the_change_without_output_files(tmp_path: Path, rules: Path) -> None:
    model = saved(tmp_path, "m.onnx")
    before = sorted(tmp_path.iterdir())
    lines = invoke("bisect", model, "--plugin", rules, code=WRONG).stdout.splitlines()
    assert lines[0].startswith("my-rules/drop_relu #0 at y: ")
    assert lines[1] == "    replaced Relu y"
    assert lines[2] == "1 wrong change"
    assert lines[3].startswith("0 changes kept, ")
    assert sorted(tmp_path.iterdir()) == before


def test_bisect_of_a_correct_model(tmp_path: Path) -> None:
    lines = invoke("bisect", saved(tmp_path, "m.onnx")).stdout.splitlines()
    assert lines[0] == "nothing is wrong"


def test_bisect_as_json_and_with_a_repro(tmp_path: Path, rules: Path) -> None:
    model = saved(tmp_path, "m.onnx")
    arguments = ("bisect", model, "--plugin", rules, "--json", "-", "--repro", tmp_path / "r")
    report = json.loads(invoke(*arguments, code=WRONG).stdout)
    (found,) = report["rejected"]
    assert (found["by"], found["place"]) == ("drop_relu", "y")
    assert (Path(found["repro"]) / "before.onnx").exists()


SHIFT = '''
from passwright.core import rule


@rule(lambda g, x, c: g.Sub(g.Add(x, g.const(c)), g.const(c)))
def drop_shift(g, x, c):
    """(x + c) - c => x"""
    return g.Identity(x)
'''


@cases(
    ("ops", "plugin"),
    {"saturates less": ("s = Softmax(x) y = Log(s)", ""), "rounds less": ("a = Add(x, c) y = Sub(a, c)", SHIFT)},
)
def test_what_a_run_publishes_is_accepted(tmp_path: Path, ops: str, plugin: str) -> None:
    """Outputs differ beyond their tolerance, and changed regions explain it, of whose names `verify` knows as much."""
    a = saved(tmp_path, "a.onnx", f"g (float[N,4] x) => (float[N,4] y) <float c = {{12345}}> {{ {ops} }}")
    (tmp_path / "rules.py").write_text(plugin or RULES)
    rules = ["--plugin", tmp_path / "rules.py"] if plugin else []
    invoke("run", a, "-o", tmp_path / "b.onnx", *rules)
    assert len(onnx.load(tmp_path / "b.onnx").graph.node) < len(onnx.load(a).graph.node)
    assert "verified" in invoke("verify", a, tmp_path / "b.onnx").output
