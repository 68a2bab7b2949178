"""Executable documents: their files are written, their code and commands run, and the output is compared.

The blocks of a Markdown document run in order in a folder of its own that contains the repository's `golden_models`,
`benchmarks` and `examples`.

- A `python`, `toml` or `text` block whose first line is a comment with the name of a file is that file.
- Any other `python` block is a program.
- A `console` block has commands after `$`, each with its output, in which `...` matches anything.
- A `json` block has to be JSON. All other blocks are ignored.
"""

import doctest
import json
import os
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, chdir, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from msgspec.structs import replace
from passwright.app.cli.entry import app
from passwright.app.measure import benchmark
from typer.testing import CliRunner

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
LINKED = ("golden_models", "benchmarks", "examples")
FENCED = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
FILE_COMMENT = re.compile(r"# ([\w./-]+\.\w+)(?::.*)?\n")
TIMEOUT = 300.0  # seconds per command; measuring commands are slow on a busy machine
PROGRAMS = {"passes": str(Path(sys.executable).with_name("passes")), "python": sys.executable}
TERMINAL = {"COLUMNS": "80"}  # by which tables are as wide as documents show them


def quick_benchmarks() -> AbstractContextManager[object]:
    """Measure in two sets of processes: documents show no figure that depends on how often it was measured."""
    config = benchmark.BenchmarkConfig

    def quick(*arguments: Any, **keywords: Any) -> benchmark.BenchmarkConfig:
        return replace(config(*arguments, **keywords), process_sets=2)

    return patch.object(benchmark, "BenchmarkConfig", quick)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language, its text, and the name of its file, if it is one."""

    language: str
    text: str
    file: str = ""


def blocks(document: Path) -> Iterator[Block]:
    """The fenced blocks of a Markdown file."""
    for m in FENCED.finditer(document.read_text(encoding="utf-8")):
        named = FILE_COMMENT.match(m[2]) if m[1] in {"python", "toml", "text"} else None
        yield Block(m[1], m[2], named[1] if named else "")


def write_file(block: Block, folder: Path) -> Path:
    """Write the file of a block to `folder`."""
    path = folder / block.file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(block.text, encoding="utf-8")
    return path


def console_commands(block: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with its output."""
    before, *commands = re.split(r"^\$ ", block, flags=re.MULTILINE)
    assert commands, f"no command behind $ in {block!r}"
    assert not before, f"{before!r} precedes the first command"
    return [(c.partition("\n")[0], c.partition("\n")[2]) for c in commands]


def run_document(document: Path, folder: Path, *, in_process: bool = True) -> int:
    """Run the blocks of a document in `folder` and count its commands.

    With `in_process`, `passes` and programs run in this process, otherwise commands run in their own.

    Raises AssertionError with the command and its output if the document shows another output.
    """
    for name in LINKED:
        (folder / name).symlink_to(ROOT / name, target_is_directory=True)
    commands = 0
    for block in blocks(document):
        if block.file:
            write_file(block, folder)
        elif block.language == "python":
            run_program(block.text, folder)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "console":
            for command, expected in console_commands(block.text):
                require_output(command, expected, folder, in_process=in_process)
                commands += 1
    return commands


def run_program(code: str, folder: Path, file: str = "program.py") -> str:
    """Run a Python program, of a `file` in `folder`, in this process; return its output.

    Modules that it imports from `folder` are removed.
    """
    printed = StringIO()
    with (
        chdir(folder),
        patch.object(sys, "path", [str(folder), *sys.path]),
        redirect_stdout(printed),
        quick_benchmarks(),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", ResourceWarning)  # as Python does; one line leaves files open
        try:
            exec(compile(code, "<document>", "exec"), {"__name__": "__main__", "__file__": str(folder / file)})
        finally:
            for name, module in list(sys.modules.items()):
                if Path(getattr(module, "__file__", None) or ROOT).is_relative_to(folder):
                    del sys.modules[name]
    return printed.getvalue()


def require_output(command: str, expected: str, folder: Path, *, in_process: bool) -> None:
    """Run a command and require its output, of both streams."""
    program, *arguments = shlex.split(command)
    if program == "passes" and in_process:
        with chdir(folder), quick_benchmarks():
            result = CliRunner(env=TERMINAL).invoke(app, arguments, prog_name=program)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        out, err = result.stdout, result.stderr
    elif program == "python" and in_process and (arguments[0] == "-c" or len(arguments) == 1):
        if arguments[0] == "-c":
            out, err = run_program(arguments[1], folder), ""
        else:
            out, err = run_program((folder / arguments[0]).read_text("utf-8"), folder, arguments[0]), ""
    else:
        done = subprocess.run(
            [PROGRAMS[program], *arguments],
            cwd=folder,
            env=os.environ | TERMINAL,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT,
        )
        out, err = done.stdout, done.stderr
    # On a terminal the two streams are one, and warnings precede the verdict.
    before, mark, after = out.partition("verified: ")
    printed = before + err + mark + after if err.startswith("warning") else out + err
    assert doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS), f"$ {command}\n{printed}"
