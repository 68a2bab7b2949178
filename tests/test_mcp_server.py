"""The server of the Model Context Protocol, called by the client of its SDK."""

import asyncio
import sys
from inspect import signature
from pathlib import Path
from typing import Any

import onnx
import pytest
from passwright.app import mcp_server
from passwright.app.cli.entry import app
from rewriting import load, op_types
from typer.main import get_command

ROOT = Path(__file__).parent.parent
MODEL = "g (float[N,4] x) => (float[N,4] y) { a = Transpose(x) b = Transpose(a) y = Relu(b) }"


def calls(folder: Path, *requests: tuple[str, dict[str, Any]]) -> tuple[set[str], list[str]]:
    """The names of the tools, and the texts of the answers of a server in a folder."""
    mcp = pytest.importorskip("mcp")

    async def talk() -> tuple[set[str], list[str]]:
        code = "from passwright.app.mcp_server import main; main()"
        parameters = mcp.StdioServerParameters(command=sys.executable, args=["-c", code], cwd=str(folder))
        async with mcp.Client(parameters) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            return names, [(await client.call_tool(name, given)).content[0].text for name, given in requests]

    return asyncio.run(talk())


def test_a_client_optimizes_and_verifies(tmp_path: Path) -> None:
    onnx.save(load(MODEL), tmp_path / "model.onnx")
    names, answers = calls(
        tmp_path,
        ("optimize", {"model": "model.onnx", "output": "small.onnx", "dim": ["N=2"]}),
        ("verify", {"model": "model.onnx", "other": "small.onnx"}),
        ("info", {"models": ["missing.onnx"]}),
    )
    assert names == {tool.__name__ for tool in mcp_server.TOOLS}
    assert op_types(onnx.load(tmp_path / "small.onnx")) == ["Relu"]
    assert "3 -> 1 nodes" in answers[0]
    assert answers[0].endswith("written to small.onnx\nexit code 0")
    assert "small.onnx is wrong: it fails on normal inputs with N=1" in answers[1]
    assert answers[1].endswith("exit code 3")
    assert "missing.onnx does not exist" in answers[2]
    assert answers[2].endswith("exit code 1")


def test_no_tool_runs_code_of_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(load(MODEL), "model.onnx")
    for name in ("passwright.py", "code.py"):
        Path(name).write_text("open('ran', 'w')\nRULES = []\ndef f():\n    yield {}\n")
    Path("p.toml").write_text('[mine]\npasses = ["onnxscript:code.py:RULES"]\n')

    async def answers() -> list[str]:
        return [
            await mcp_server.optimize("model.onnx", "small.onnx", inputs="code.py:f"),
            await mcp_server.optimize("model.onnx", "small.onnx", pipeline="p.toml:mine"),
            await mcp_server.quantize("model.onnx", "small.onnx", data="code.py:f"),
            await mcp_server.explain("onnxscript:code:RULES", "model.onnx"),
            await mcp_server.info(["model.onnx"]),
        ]

    *refused, shown = asyncio.run(answers())
    assert all("may run code, which no tool does" in a and a.endswith("exit code 2") for a in refused)
    assert shown.endswith("exit code 0")
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    ("value", "arguments"),
    [(None, []), (False, []), ("", []), (True, ["--x"]), (0, ["--x=0"]), (["a=1", "b=2"], ["--x=a=1", "--x=b=2"])],
)
def test_arguments(value: object, arguments: list[str]) -> None:
    assert mcp_server._arguments("--x", value) == arguments


def test_tools_give_options_that_their_commands_have(monkeypatch: pytest.MonkeyPatch) -> None:
    called = list[tuple[str, dict[str, object]]]()

    async def answer(command: str, paths: object, **options: object) -> str:
        called.append((command, options))
        return ""

    monkeypatch.setattr(mcp_server, "_answer", answer)
    for tool in mcp_server.TOOLS:
        asyncio.run(tool(**dict.fromkeys(signature(tool).parameters, "x")))
    commands = get_command(app).commands  # type: ignore[attr-defined]
    assert len(called) == len(mcp_server.TOOLS)
    for command, options in called:
        flags = {flag for p in commands[command].params for flag in p.opts}
        assert {f"--{name.replace('_', '-')}" for name in options} <= flags, command


def test_without_the_sdk_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server", None)
    with pytest.raises(SystemExit, match=r"pip install 'passwright\[mcp\]'"):
        mcp_server.main()
