"""Names with terminal codes, markup, invisible characters and commands for logs, in every command.

No byte of them is written as it is.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
import typer.main
from onnx import helper, numpy_helper
from passwright.app.cli.entry import app
from typer.testing import CliRunner

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")

EVIL = (
    "::error title=a::b%0A::c \r\n::stop-commands::d ##[error]e##vso[task.f]"
    "\x1b]0;\x07\x1b[31m\b\r\n\u202e\u2066\u200b\u2028\x9b[red][/]</script><img src=x onerror=1>\"'&`../"
)
FILE_NAME = "::stop-commands::m ::error ::##[group]\x1b]0;\u202e[red].onnx"
COMMAND = re.compile(r"\s*::|.*##\w*\[")
ANNOTATION = re.compile(r"::(error|warning|notice) \w+=[^:,]*(,\w+=[^:,]*)*::(?!.*##\w*\[)")
UNSAFE = {"Cc", "Cf", "Cs", "Zl", "Zp"}
PLUGIN = f"""
from passwright.core import EXACT, require, rule

class Evil:
    name = "evil"
    def run(self, graph, change_log):
        raise ValueError({EVIL!r})

evil = Evil()

@rule(lambda g, x: g.Relu(x), contract=EXACT)
def away(g, x):
    {EVIL!r}
    return x

@rule(lambda g, x: g.Identity(x), contract=EXACT)
def kept(g, x):
    {EVIL!r}
    require(False, {EVIL!r})

@rule(lambda g, x, y: g.Add(x, y), contract=EXACT)
def broken(g, x, y):
    {EVIL!r}
    raise KeyError({EVIL!r})
"""


def named(name: str) -> str:
    return EVIL + name


def hostile_model(offset: float = 0.0, op_type: str = "Relu") -> onnx.ModelProto:
    """Add(Relu(Identity(x)) + w, v), with hostile texts in every field that has text."""
    x, a, r, s, y, w, v = map(named, "xarsywv")
    nodes = [
        helper.make_node("Identity", [x], [a], name=named("identity"), doc_string=EVIL),
        helper.make_node(op_type, [a], [r], name=named("relu")),
        helper.make_node("Add", [r, w], [s], name=named("add")),
        helper.make_node("Add", [s, v], [y], name=named("sum")),
    ]
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [named("N"), 3], EVIL) for name in (x, y)]
    weights = [numpy_helper.from_array(np.arange(3, dtype=np.float32) + offset, name) for name in (w, v)]
    graph = helper.make_graph(nodes, EVIL, ends[:1], ends[1:], weights, EVIL)
    opsets = [helper.make_opsetid("", 21)]
    texts = dict.fromkeys(("producer_name", "producer_version", "domain", "doc_string"), EVIL)
    model = helper.make_model(graph, ir_version=10, opset_imports=opsets, **texts)
    model.metadata_props.add(key=EVIL, value=EVIL)
    return model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with hostile files."""
    monkeypatch.chdir(tmp_path)
    onnx.save(hostile_model(), tmp_path / FILE_NAME)
    onnx.save(hostile_model(1), tmp_path / "wrong.onnx")
    onnx.save(hostile_model(op_type=EVIL), tmp_path / "unknown.onnx")
    (tmp_path / "plugin.py").write_text(PLUGIN)
    (tmp_path / "raising.py").write_text(f"raise ValueError({EVIL!r})")
    (tmp_path / "pipelines.toml").write_text('["\\u202e\\u001b"]\npasses = ["\\u202e\\u001b]"]\n')
    np.savez(tmp_path / "inputs.npz", **{EVIL.replace("/", ""): np.zeros(3)})
    return tmp_path


def words(line: str) -> list[str]:
    """The arguments in a line, with hostile names for FILE and EVIL."""
    return [word.replace("FILE", FILE_NAME).replace("EVIL", EVIL) for word in line.split()]


COMMANDS: dict[str, tuple[str, ...]] = {
    "run": (
        "FILE -o out\x1b].onnx --json run.json --html run.html --map map.json -v --verify quick",
        "FILE --dry-run --no-verify",
        "FILE --no-verify --format github --format sarif:run.sarif --format markdown:run.md",
        "FILE --plugin plugin.py --enable plugin --verify quick --format markdown",
        "unknown.onnx --format github",
        "FILE --plugin plugin.py --enable evil --repro repro --verify quick",
        "FILE --plugin plugin.py --enable plugin --repro repro --verify quick --json -",
        "FILE --plugin raising.py",
        "FILE --pipeline EVIL",
        "FILE --pipeline pipelines.toml:\u202e\x1b",
        "FILE --outputs EVIL",
        "FILE --dim EVIL=2",
        "FILE --inputs inputs.npz",
        "unknown.onnx",
        "unknown.onnx --no-verify --json -",
        "EVIL",
        "FILE --EVIL",
    ),
    "batch": (
        "FILE unknown.onnx --do verify --other . --output-dir batch --effort quick",
        "EVIL --output-dir batch",
        "FILE --do EVIL --output-dir batch",
        "FILE --output-dir batch --outputs EVIL --no-verify",
    ),
    "list": ("--plugin plugin.py", "away --plugin plugin.py", "--op EVIL", "EVIL", "--search EVIL"),
    "info": ("FILE unknown.onnx", "FILE --json -", "EVIL"),
    "quantize": ("unknown.onnx -o q.onnx", "FILE -o q.onnx --leave EVIL"),
    "tune": ("unknown.onnx -o t.onnx", "FILE -o t.onnx --dim EVIL=2", "FILE -o t.onnx --journal wrong.onnx"),
    "advise": ("unknown.onnx --time 5", "FILE --time 5 --dim EVIL=2"),
    "verify": ("FILE wrong.onnx", "wrong.onnx FILE --format github", "FILE wrong.onnx --json -", "FILE unknown.onnx"),
    "bisect": ("FILE --plugin plugin.py --enable evil", "FILE --ort EVIL"),
    "explain": ("basic FILE --as-is", "away FILE --plugin plugin.py", "basic FILE --at EVIL"),
    "diff": ("FILE wrong.onnx --all", "wrong.onnx FILE --format github", "FILE unknown.onnx --json -"),
    "show": ("FILE", "FILE --region EVIL", "EVIL"),
    "view": ("EVIL --no-browser",),
    "compare": ("FILE --inputs inputs.npz", "FILE --tools EVIL"),
    "bench": ("unknown.onnx", "FILE --inputs inputs.npz", "FILE --ep EVIL"),
    "profile": ("unknown.onnx", "FILE --inputs inputs.npz"),
    "check": ("plugin.py --budget 5 --repro repro", "EVIL", "raising.py"),
    "new": ("EVIL",),
}
BRIEFLY = "--min-time 0.01 --json report.json"
MEASUREMENTS = {
    "quantize": f"FILE -o q.onnx --trials 1 --html q.html {BRIEFLY}",
    "tune": f"FILE -o t.onnx --trials 2 --html t.html {BRIEFLY}",
    "compare": f"FILE --tools ort --batch 1 --html c.html {BRIEFLY}",
    "bench": f"FILE wrong.onnx --batch 1 {BRIEFLY}",
    "profile": f"FILE --trace t.json --html p.html {BRIEFLY}",
}


def unsafe_characters(text: str) -> list[str]:
    """The characters in a text that are not safe to show, line breaks excepted."""
    return sorted({f"U+{ord(c):04X}" for c in text if c != "\n" and unicodedata.category(c) in UNSAFE})


def commands(text: str) -> list[str]:
    """The lines of a log that are commands of a name, not annotations of ours."""
    return [line for line in text.split("\n") if COMMAND.match(line) and not ANNOTATION.match(line)]


def require_strict(text: str) -> None:
    """Require JSON of finite numbers and whole characters."""
    found = json.loads(text, parse_constant=pytest.fail)
    json.dumps(found, ensure_ascii=False).encode()


def problems(command: str, arguments: list[str], folder: Path) -> Iterator[str]:
    """Forbidden characters in the output of a command."""
    before = set(folder.rglob("*"))
    result = CliRunner().invoke(app, [command, *arguments])
    if not isinstance(result.exception, SystemExit | None):
        yield repr(result.exception)
    for name in ("stdout", "stderr"):
        if found := unsafe_characters(getattr(result, name)):
            yield f"{name}: {found}"
        yield from (f"{name}: {line}" for line in commands(getattr(result, name)))
    if result.exit_code in {1, 4} and command not in {"bench", "diff"} and result.stderr.count("\n") != 1:
        yield f"an error of {result.stderr.count(chr(10))} lines"
    if arguments[-2:] == ["--json", "-"]:
        require_strict(result.stdout)
    for path in set(folder.rglob("*")) - before:
        yield from problems_of_file(path, is_named_by_us="-o" not in arguments)


def problems_of_file(path: Path, *, is_named_by_us: bool) -> Iterator[str]:
    """Forbidden characters in a file, or in its name."""
    if is_named_by_us and unsafe_characters(path.name):
        yield f"a file named {path.name!r}"
    if path.suffix not in {".json", ".html", ".md", ".sarif", ".csv"}:
        return
    text = path.read_bytes().decode()
    if found := unsafe_characters(text):
        yield f"{path.name}: {found}"
    if path.suffix != ".html":
        yield from (f"{path.name}: {line}" for line in commands(text))
    if path.suffix in {".json", ".sarif"}:
        require_strict(text)
    if path.suffix == ".html" and ("<img" in text or text.count("<script") != text.count("</script")):
        yield f"{path.name}: markup of a name"


def test_every_command_is_tried() -> None:
    group: Any = typer.main.get_command(app)
    assert COMMANDS.keys() == group.commands.keys()


@pytest.mark.usefixtures("_checks_share_process")
@pytest.mark.parametrize(
    ("command", "line"),
    [
        *(pytest.param(c, line, id=f"{c}-{i}") for c, lines in COMMANDS.items() for i, line in enumerate(lines)),
        *(pytest.param(c, line, id=f"{c}-report", marks=pytest.mark.slow) for c, line in MEASUREMENTS.items()),
    ],
)
def test_names_are_escaped(folder: Path, command: str, line: str) -> None:
    assert list(problems(command, words(line), folder)) == []
