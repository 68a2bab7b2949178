"""`passes bisect --ort`: onnxruntime's own optimizers."""

import json
from functools import partial
from pathlib import Path

import commands
import onnx
import pytest
from passwright.app.commands.bisect import with_default_level
from rewriting import cases, load

from passwright import bisect_ort

OK, BAD, USAGE, WRONG, UNVERIFIED = range(5)
PAD = """g (float[1,1,4,4] x) => (float[1,1,5,5] y) <int64[8] pads = {0,0,1,1,0,0,1,1}> {
    p = Pad(x, pads) y = MaxPool<kernel_shape=[2,2]>(p)
}"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(load(PAD), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


bisect = partial(commands.invoke, "bisect")


@pytest.mark.parametrize(
    ("level", "name"),
    [
        (["--ort"], "all"),
        pytest.param(["--ort", "basic"], "basic", marks=pytest.mark.slow),
        pytest.param(["--ort=extended"], "extended", marks=pytest.mark.slow),
    ],
)
def test_a_zero_pad_before_a_max_pool(model: Path, level: list[str], name: str) -> None:
    lines = bisect(model, *level, code=WRONG).stdout.splitlines()
    version = bisect_ort(model, "basic").versions["onnxruntime"]
    assert lines[0].startswith(f"onnxruntime {version} at level {name} is wrong: y: ")
    assert lines[1].startswith("    Pad_Fusion: y: ")
    assert lines[2].startswith('correct with disabled_optimizers=["Pad_Fusion"] (')


def test_correct_model_agrees(tmp_path: Path) -> None:
    onnx.save(load("g (float[N,4] x) => (float[N,4] y) { a = Identity(x) y = Relu(a) }"), tmp_path / "m.onnx")
    assert "agrees with itself unoptimized" in bisect("--ort", tmp_path / "m.onnx").stdout


def test_json_is_written(model: Path, tmp_path: Path) -> None:
    text = bisect(model, "--ort", "basic", "--json", "-", code=WRONG).stdout
    assert [c["optimizer"] for c in json.loads(text)["blame"]["culprits"]] == ["Pad_Fusion"]
    bisect(model, "--ort", "basic", "--json", tmp_path / "r.json", code=WRONG)
    assert json.loads((tmp_path / "r.json").read_text())["level"] == "basic"


def test_unknown_level_is_rejected(model: Path) -> None:
    result = bisect(model, "--ort=most", code=USAGE)
    assert "unknown level; choose from basic, extended, layout, all" in result.stderr


def test_pass_options_are_rejected(model: Path, tmp_path: Path) -> None:
    result = bisect(model, "--ort", "--repro", tmp_path / "r", code=USAGE)
    assert "options of passes do not apply" in result.stderr


@cases(
    ("given", "read"),
    {
        "last": (["m", "--ort"], ["m", "--ort=all"]),
        "first": (["--ort", "m"], ["--ort=all", "m"]),
        "with a level": (["--ort", "basic", "m"], ["--ort", "basic", "m"]),
        "before an option": (["--ort", "--seed", "3"], ["--ort=all", "--seed", "3"]),
        "a model of that name": (["--", "--ort"], ["--", "--ort"]),
        "without": (["m"], ["m"]),
    },
)
def test_level_is_optional(given: list[str], read: list[str]) -> None:
    assert with_default_level(given) == read
