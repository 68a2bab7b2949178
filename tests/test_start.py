"""Modules that commands import, which is most of the time that they take on small models."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from passwright.app.cli import COMMANDS, app
from rewriting import load
from typer import BadParameter
from typer.main import get_command

FRAMEWORK = {"typer", "click", "shellingham", "annotated_doc", "typing_extensions"}  # of commands
FOR_HELP = {"passwright", "passwright.core", "passwright.core.support", "passwright.core.ort", "passwright.app"} | {
    f"passwright.{name}"
    for name in (
        "core.errors", "core.ort.process_limits", "core.support.gc_pause", "core.support.printable_text", "app.cli",
        "app.exit_codes", "app.help_pages", "app.simple_values", "app.standard_streams",
    )
}  # fmt: skip
SLOW = {"typer.rich_utils", "rich.markdown", "rich.progress", "pydantic", "tomllib", "multiprocessing", "asyncio"}


def modules_after(folder: Path, *arguments: str) -> set[str]:
    """The modules that a command imports, except those of the standard library."""
    code = (  # hooks of the environment have imported some before
        f"import sys; before = {{*sys.modules}}; sys.argv = ['passes', *{arguments!r}]\n"
        "from passwright.__main__ import main\n"
        "try: main()\nfinally: print(*(sys.modules.keys() - before), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout
    found = set(done.stderr.split()) - (sys.stdlib_module_names - SLOW)
    return {m for m in found if m.partition(".")[0] not in sys.stdlib_module_names - SLOW}


def packages(modules: set[str]) -> set[str]:
    return {m.partition(".")[0] for m in modules}


def test_modules_of_help(tmp_path: Path) -> None:
    found = modules_after(tmp_path, "--help")
    assert {m for m in found if m.startswith("passwright")} == FOR_HELP | {"passwright.__main__"}
    assert packages(found) <= FRAMEWORK | {"passwright"}
    assert found.isdisjoint(SLOW)


def test_modules_of_a_small_run(tmp_path: Path) -> None:
    onnx.save(load("g (float[2] x) => (float[2] y) { a = Identity(x) y = Relu(a) }"), tmp_path / "m.onnx")
    found = modules_after(tmp_path, "run", "m.onnx", "--seed", "3")
    assert {"onnx", "numpy", "rich"} <= packages(found) <= FRAMEWORK | {
        "passwright", "onnx", "numpy", "google", "ml_dtypes", "psutil", "rich",
    }  # fmt: skip
    assert found.isdisjoint(SLOW)
    others = {name for name in COMMANDS if f"passwright.app.{name}.command" in found}
    assert others == {"run"}


@pytest.mark.parametrize("name", COMMANDS)
def test_values_are_those_of_typer(name: str) -> None:
    command = get_command(app).commands[name]  # type: ignore[attr-defined]
    ctx = command.make_context(name, [], resilient_parsing=True)
    ctx.resilient_parsing = False
    given = (
        None,
        "3",
        "03",
        "0",
        "-1",
        "3.5",
        "1e3",
        "x",
        "",
        " 3",
        "70000",
        ["a", "b"],
        ["3"],
        [],
        True,
        False,
        3,
        3.0,
    )
    for p in command.params:
        own, of_typer = p.process_value, type(p).process_value
        for value in (p.default, *given):
            found = []
            for convert in (lambda v=value, f=own: f(ctx, v), lambda v=value, f=of_typer, p=p: f(p, ctx, v)):
                try:
                    found.append((converted := convert(), type(converted)))
                except BadParameter as e:
                    found.append((e.message, type(e)))
            assert found[0] == found[1], (p.name, value)
