"""A server of the Model Context Protocol that offers commands as tools for language models, over standard streams.

Each tool runs `passes` in a separate process, so that a model that crashes it does not end the server.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, cast

from .cli.settings import may_run_code
from .options import Option

INSTRUCTIONS = """passwright optimizes ONNX models and verifies each result against the original in onnxruntime.
Paths are relative to the folder in which the server was started. Every answer ends with the exit code of the command:
0 done, 1 bad model or input, 2 usage error, 3 wrong result, nothing written, 4 could not be verified."""

CODE = "error: {}={} may run code, which no tool does: run `passes {}` in a shell\nexit code 2"


async def _answer(command: str, paths: Sequence[str], **options: object) -> str:
    """Run a command, and return what it prints, with its exit code; not with a value that may run code."""
    for name, value in options.items():
        if value and may_run_code(name, Option(""), value):
            return CODE.format(name, value, command)
    arguments = [a for name, value in options.items() for a in _arguments(f"--{name.replace('_', '-')}", value)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "passwright", command, *arguments, "--", *paths,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        env=os.environ | {"COLUMNS": "120", "NO_COLOR": "1"},
    )  # fmt: skip
    try:
        printed, _ = await process.communicate()
    finally:
        if process.returncode is None:  # the client cancelled the call
            process.terminate()
    return f"{printed.decode('utf-8', 'replace')}exit code {process.returncode}"


def _arguments(flag: str, value: object) -> list[str]:
    if value is None or value is False or value == "":
        return []
    if value is True:
        return [flag]
    return [f"{flag}={part}" for part in (cast("list[object]", value) if isinstance(value, list) else [value])]


async def optimize(
    model: str,
    output: str,
    pipeline: str = "basic",
    opset: int | None = None,
    dim: list[str] | None = None,
    shape: list[str] | None = None,
    exact: bool = False,
    inputs: str | None = None,
) -> str:
    """Optimize a model, verify the result against the original, and write it to the new file `output`.

    `pipeline`: basic, or ort for onnxruntime. `dim`: sizes of symbolic dims, such as ["batch=1"]; `shape`: shapes of
    inputs, such as ["x:1,3,224,224"]. `exact`: only bit-identical rewrites. `inputs`: an .npz file to verify with.
    """
    options = {"pipeline": pipeline, "opset": opset, "dim": dim, "shape": shape, "exact": exact, "inputs": inputs}
    return await _answer("run", [model, output], **options)


async def verify(model: str, other: str, budget: str | None = None, inputs: str | None = None) -> str:
    """Compare the outputs of two models. `budget`: the accuracy loss allowed to a quantized model, such as 1%."""
    return await _answer("verify", [model, other], budget=budget, inputs=inputs)


async def quantize(
    model: str,
    output: str,
    data: str | None = None,
    labelled: str | None = None,
    budget: str = "1%",
    time: float = 600.0,
) -> str:
    """Quantize a model within an accuracy budget, and write it to `output`; takes minutes.

    `data`: an .npz file with inputs to calibrate with; `labelled`: one with inputs and labels, to measure accuracy.
    """
    return await _answer("quantize", [model], output=output, data=data, labelled=labelled, budget=budget, time=time)


async def tune(model: str, output: str, time: float = 240.0, budget: str | None = None) -> str:
    """Find the fastest settings that still give correct results on this machine, within `time` seconds."""
    return await _answer("tune", [model], output=output, time=time, budget=budget)


async def info(models: list[str], target: str | None = None) -> str:
    """Show operators, sizes and interfaces of models; with a `target`, the ops that it does not support."""
    return await _answer("info", models, target=target)


async def diff(model: str, other: str) -> str:
    """List the differences between the graphs of two models."""
    return await _answer("diff", [model, other])


async def explain(rule_or_pass: str, model: str) -> str:
    """Show where a rule, or the rules of a pass or pipeline, applied to a model, and why not elsewhere."""
    if may_run_code("pipeline", Option(""), rule_or_pass):
        return CODE.format("rule_or_pass", rule_or_pass, "explain")
    return await _answer("explain", [rule_or_pass, model])


async def list_rules(search: str) -> str:
    """Find passes and rules by keywords in their names and descriptions."""
    return await _answer("list", [], search=search)


async def compare(model: str, tools: str | None = None) -> str:
    """Compare all installed optimizers, or `tools` such as onnxsim,onnxslim, on a model; takes minutes."""
    return await _answer("compare", [model], tools=tools)


async def bench(models: list[str], batch: str = "1", threads: int = 0) -> str:
    """Measure latency, memory and size of models, relative to the first one."""
    return await _answer("bench", models, batch=batch, threads=threads)


TOOLS: Sequence[Callable[..., Any]] = (
    optimize, verify, quantize, tune, info, diff, explain, list_rules, compare, bench,
)  # fmt: skip


def server() -> Any:
    """The server with all tools."""
    made = importlib.import_module("mcp.server").MCPServer("passwright", instructions=INSTRUCTIONS)
    for tool in TOOLS:
        made.tool()(tool)
    return made


def main() -> None:
    """Serve the tools until standard input ends."""
    try:
        made = server()
    except ImportError:
        sys.exit("this needs the SDK of the protocol: pip install 'passwright[mcp]'")
    made.run("stdio")
