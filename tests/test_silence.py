"""System calls of commands: no socket, and no file but outputs and folders of this project for temporary files.

`strace` records them (`apt-get install strace`). The home folder is empty before and after, and a link with a name that
onnxruntime's telemetry overwrites is in the folder for temporary files.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import onnx
import pytest
import typer.main
from passwright.app.cli.entry import app
from passwright.core.support.scratch_folder import NAMES
from rewriting import load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CALLS = (
    "socket,connect,bind,open,openat,openat2,creat,truncate,mkdir,mkdirat,mknod,mknodat,link,linkat,symlink,symlinkat,"
    "rename,renameat,renameat2,unlink,unlinkat,rmdir,chmod,fchmodat,chown,lchown,fchownat,utimensat"
)
STRACE = ("strace", "-f", "-qq", "--seccomp-bpf", "-y", "-s", "4096", "-e", f"trace={CALLS}", "-e", "signal=none")
PASSES = Path(sys.executable).with_name("passes")
CALL = re.compile(r"\d+ +(\w+)\((.*)")
PATH = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')
OPENED = re.compile(r"= \d+<(/[^>]*)>$")  # through links
WRITES = re.compile(r"O_(?:WRONLY|RDWR|CREAT|TRUNC|TMPFILE)")
DEVICES = re.compile(r"/dev/(null|tty)|/proc/(self|\d+)/oom_score_adj")
PROBE = re.compile(r"[a-z0-9_]{8}")  # of Python's `tempfile`, removed at once
RULES = '''
import sys
sys.path.append(__file__.removesuffix("rules.py"))
import sibling
from passwright.core import EXACT, rule

@rule(lambda g, x: g.Identity(x), contract=EXACT)
def without_identity(g, x):
    """Identity(x) => x"""
    return x
'''
OTHER = "g (float[N,4] x) => (float[N,4] y) { a = Relu(x) y = Add(a, a) }"
TEXT = "g (float[N,4] x) => (float[N,4] y) { a = Relu(x) b = Identity(a) y = Add(b, a) }"
BRIEFLY = "--min-time 0.01"


class Command(NamedTuple):
    """The arguments of a command, its exit code, and all that it writes."""

    arguments: str
    code: int = 0
    outputs: str = ""
    environment: Mapping[str, str] = MappingProxyType({})


PACKAGE = "README.md pyproject.toml .gitignore .github/workflows/test.yml example/model.py src/my_rules/__init__.py"
NEW_PLUGIN = "LICENSE src/my_rules/py.typed src/my_rules/rules.py src/my_rules/passes.py tests/test_rules.py"
COMMANDS = {
    "run": Command("m.onnx -o out.onnx --plugin rules.py --verify quick", outputs="out.onnx"),
    "run-reports": Command(
        "m.onnx -o out.onnx --json j.json --html h.html --map map.json --format sarif:s.sarif",
        outputs="out.onnx j.json h.html map.json s.sarif",
    ),
    "run-reproducer": Command("m.onnx --no-verify --plugin rules.py --reproducer run.zip", outputs="run.zip"),
    "batch": Command(
        "m.onnx n.onnx --output-dir out --jobs 2",
        outputs="out/m.onnx out/n.onnx out/results.csv out/results.html out/.passwright-finished.jsonl",
    ),
    "list": Command("--plugin rules.py"),
    "quantize": Command(f"m.onnx -o q.onnx --trials 1 {BRIEFLY}", outputs="q.onnx"),
    "tune": Command(f"m.onnx -o t.onnx --trials 1 {BRIEFLY}", outputs="t.onnx t_settings.json t_session.py"),
    "advise": Command("m.onnx --time 5 --json report.json", outputs="report.json"),
    "verify": Command("m.onnx n.onnx"),
    "bisect": Command("m.onnx"),
    "bisect-ort": Command("m.onnx --ort"),
    "info": Command("m.onnx"),
    "explain": Command("basic m.onnx"),
    "show": Command("m.onnx -o m.onnxtxt", outputs="m.onnxtxt"),
    "diff": Command("m.onnx n.onnx", code=1),
    "view": Command("m.onnx", code=2, environment={"PYTHONPATH": "without", "PYTHONDONTWRITEBYTECODE": "1"}),
    "compare": Command(f"m.onnx --tools ort --batch 1 {BRIEFLY}"),
    "bench": Command(f"m.onnx n.onnx --batch 1 {BRIEFLY}"),
    "profile": Command(f"m.onnx --trace p.json {BRIEFLY}", outputs="p.json"),
    "check": Command("rules.py --budget 3"),
    "new": Command(
        "my-rules",
        outputs=" ".join(f"my-rules/{file}" for file in f"{PACKAGE} {NEW_PLUGIN} tests/test_passes.py".split()),
    ),
    "--help": Command(""),
    "--version": Command(""),
    "completion": Command("", environment={"_PASSES_COMPLETE": "source_zsh"}),
    "completed": Command(
        "", environment={"_PASSES_COMPLETE": "complete_bash", "COMP_WORDS": "passes r", "COMP_CWORD": "1"}
    ),
}


@cache
def can_trace() -> bool:
    """Whether strace is installed, and may trace here."""
    if shutil.which("strace") is None:
        return False
    return subprocess.run([*STRACE, "-o", os.devnull, "true"], capture_output=True, check=False).returncode == 0


class Place(NamedTuple):
    """The folders that a command sees."""

    work: Path
    home: Path
    temporary: Path

    def forbidden(self, record: str) -> Iterator[str]:
        """The calls that open sockets, or change files elsewhere."""
        for line in record.splitlines():
            if (call := CALL.match(line)) is None:  # the rest of one that was interrupted
                continue
            name, arguments = call.groups()
            if name in {"socket", "connect", "bind"}:
                yield line
            elif not name.startswith("open") or WRITES.search(arguments):
                paths = [self.work / folder / path for folder, path in PATH.findall(arguments)]
                paths += [Path(path) for path in OPENED.findall(arguments)]
                paths = [Path(os.path.normpath(path)) for path in paths]
                if not all(map(self.is_allowed, paths)):
                    yield line

    def is_allowed(self, path: Path) -> bool:
        """Whether a file is an output, a device, bytecode of Python's own, or one of a temporary folder of ours."""
        if path.is_relative_to(self.temporary):
            top = path.relative_to(self.temporary).parts[0]
            return NAMES.fullmatch(top) is not None or PROBE.fullmatch(top) is not None
        if path.is_relative_to(self.home):
            return False
        return path.is_relative_to(self.work) or DEVICES.fullmatch(str(path)) is not None or "__pycache__" in path.parts


@pytest.fixture
def place(tmp_path: Path) -> Place:
    if not can_trace():
        pytest.skip("strace is not installed, or may not trace")
    found = Place(*(tmp_path / name for name in Place._fields))
    for folder in (*found, found.work / "without"):
        folder.mkdir()
    onnx.save(load(TEXT), found.work / "m.onnx")
    onnx.save(load(OTHER), found.work / "n.onnx")
    (found.work / "rules.py").write_text(RULES)
    (found.work / "sibling.py").write_text("")
    (found.work / "without" / "netron.py").write_text("raise ImportError")
    (tmp_path / "precious").write_text("precious")
    (found.temporary / ".ses").symlink_to(tmp_path / "precious")
    return found


def files_below(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if not p.is_dir()}


def require_silence(place: Place, command: list[str | Path], wanted: Command) -> None:
    before = files_below(place.work)
    env = {"PATH": os.environ["PATH"], "HOME": str(place.home), "TMPDIR": str(place.temporary), "LC_ALL": "C.UTF-8"}
    env |= {"ORT_DISABLE_TELEMETRY": "0", **wanted.environment}
    record = place.work.with_name("record")
    done = subprocess.run(
        [*STRACE, "-o", record, *command], cwd=place.work, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == wanted.code, done.stdout + done.stderr
    assert list(place.forbidden(record.read_text(errors="replace"))) == []
    assert files_below(place.work) - before == set(wanted.outputs.split())
    assert files_below(place.home) == set()
    assert files_below(place.temporary) == {".ses"}
    assert place.work.with_name("precious").read_text() == "precious"


@pytest.mark.parametrize("name", [n if n == "run" else pytest.param(n, marks=pytest.mark.slow) for n in COMMANDS])
def test_commands_are_silent(place: Place, name: str) -> None:
    command = COMMANDS[name]
    typed = name.removesuffix("-reports").removesuffix("-reproducer").removesuffix("-ort")
    words = [] if name.startswith("complet") else [typed, *command.arguments.split()]
    require_silence(place, [PASSES, *words], command)


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "from passwright import optimize; optimize('m.onnx').save('out.onnx')",
        "import passwright, onnxruntime; onnxruntime.InferenceSession('m.onnx'); passwright.info('m.onnx')",
    ],
)
def test_functions_are_silent(place: Place, code: str) -> None:
    outputs = "out.onnx" if "out.onnx" in code else ""
    require_silence(place, [sys.executable, "-c", code], Command("", outputs=outputs))


@pytest.mark.parametrize(
    "code",
    [
        "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
        "pathlib.Path.home().joinpath('.cache').mkdir()",
        "open(os.environ['TMPDIR'] + '/.ses', 'r+')",
        "os.chdir(os.environ['TMPDIR']); os.open('.ses', os.O_WRONLY)",
        "os.rename('m.onnx', '../m.onnx')",
        "os.symlink('../precious', 'x'); open('x', 'r+')",
        "os.mkdir('x', dir_fd=os.open('..', os.O_RDONLY))",
    ],
)
def test_broken_promises_are_noticed(place: Place, code: str) -> None:
    with pytest.raises(AssertionError, match="assert \\["):
        require_silence(place, [sys.executable, "-Sc", f"import os, pathlib, socket; {code}"], Command(""))


def test_every_command_is_traced() -> None:
    group: Any = typer.main.get_command(app)
    assert group.commands.keys() <= COMMANDS.keys()
