"""What the README shows is what happens: its files are written, its commands run, its output compared."""

from __future__ import annotations

import doctest
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from passwright.passes import optimize
from rewriting import load, op_types

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
BLOCKS = [(m[1], m[2]) for m in FENCED.finditer(README)]
NAMED = re.compile(r"# (\w+\.py)(?::.*)?\n")
FILES = {m[1]: text for language, text in BLOCKS if language == "python" and (m := NAMED.match(text))}
PROGRAMS = {"passes": str(Path(sys.executable).with_name("passes")), "python": sys.executable}


def steps(block: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with what it prints."""
    commands = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(c.partition("\n")[0], c.partition("\n")[2]) for c in commands]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("readme")
    for name, text in FILES.items():
        (path / name).write_text(text, encoding="utf-8")
    subprocess.run([sys.executable, "model.py"], cwd=path, check=True)
    return path


def test_every_command_prints_what_it_says(folder: Path) -> None:
    checker, shown = doctest.OutputChecker(), 0
    for command, expected in [step for language, block in BLOCKS if language == "console" for step in steps(block)]:
        program, *arguments = shlex.split(command)
        done = subprocess.run(
            [PROGRAMS[program], *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=120
        )
        # On a terminal the two streams are one: what is told of mistakes stands before the verdict.
        before, mark, after = done.stdout.partition("verified: ")
        printed = (
            before + done.stderr + mark + after if done.stderr.startswith("warning") else done.stdout + done.stderr
        )
        assert checker.check_output(expected, printed, doctest.ELLIPSIS), f"{command}\n{printed}"
        shown += 1
    assert shown >= 6


def test_the_rule_runs(folder: Path) -> None:
    model = load("g (float[N] x) => (float[N] y) { a = Sin(x) b = Cos(x) y = Div(a, b) }")
    assert op_types(optimize(model, plugins=[folder / "my_rules.py"]).model) == ["Tan"]


def test_the_change_that_is_right_is_named_in_the_model(folder: Path) -> None:
    import onnx

    nodes = {n.name: {p.key: p.value for p in n.metadata_props} for n in onnx.load(folder / "small.onnx").graph.node}
    assert nodes["image_pool"] == {
        "passwright.rule": "pad_into_max_pool",
        "passwright.from": '["image_pool", "image_pad"]',
    }
    assert nodes["pool"] == {}
    assert not (folder / "strict.onnx").exists()
