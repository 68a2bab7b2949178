"""`passes info`: operators, sizes and interfaces of models, side by side."""

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import commands
import numpy as np
import onnx
import pytest
from onnx import helper
from passwright.app.info.provider_assignment import AssignedNode, assignment_of
from passwright.app.measure.execution_provider import available_providers
from passwright.core import Plugin
from passwright.core.errors import PluginError
from passwright.core.io.convert import from_onnx
from passwright.core.ir.tensor import Tensor
from passwright.core.ort.sessions import CPU, short_name
from rewriting import load
from typer.testing import Result

from passwright import info, optimize

FIRST = """g (float[N,8] images, bool c, float[8] d = {1,2,3,4,5,6,7,8}) => (float[N,8] y) <int8[2] q = {1, 2}> {
    k = Constant<value_float=2.0>() a = Mul(images, k) b = MatMul(a, w) s = Add(b, d)
    y = If(c) <then_branch = t () => (float[N,8] o) { o = Relu(s) },
               else_branch = e () => (float[N,8] o) { o = Neg(s) }>
}"""
LONG = "a_rather_long_name_of_an_output"
SECOND = f"g (float[N,8] images) => (float[N,8] {LONG}) {{ {LONG} = Relu(images) }}"
OPS = """g (float[N] x, int64[N] i) => (float[N] y, int64[N] j) {
    [a] b = Relu(x) [b] c = Abs(b) [c] y = Neg(c) [d] k = Abs(i) [e] j = Neg(k) }"""
FUNCTION = """<ir_version: 9, opset_import: ["": 17, "local": 1]>
g (float[N] x) => (float[N] y) { a = local.twice(x) y = local.twice(a) }
<domain: "local", opset_import: ["": 17]> twice (x) => (y) { y = Add(x, x) }"""


def invoke(*arguments: object, code: int = 0, width: int = 80) -> Result:
    return commands.invoke("info", *arguments, env={"COLUMNS": str(width), "NO_COLOR": "1"}, code=code)


@pytest.fixture
def models(tmp_path: Path) -> tuple[Path, Path]:
    first, second = tmp_path / "first.onnx", tmp_path / "second.onnx"
    model = load(FIRST, weights={"w": np.ones((8, 8), np.float32)})
    model.producer_name, model.producer_version = "torch", "2.9"
    model.metadata_props.add(key="k", value="v")
    model.opset_import.append(helper.make_opsetid("com.example", 3))
    onnx.save_model(model, first, save_as_external_data=True, location="first.data", size_threshold=64)
    onnx.save(load(SECOND, opset=21), second)
    return first, second


def cells(text: str) -> dict[str, list[str]]:
    """The cells of each row of the tables, by the first one."""
    lines = [[c.strip() for c in line.strip("│┃").split("│" if "│" in line else "┃")] for line in text.splitlines()]
    return {line[0]: line[1:] for line in lines if len(line) > 1}


def test_a_column_for_each_model(models: tuple[Path, Path]) -> None:
    table = cells(invoke(*models).stdout)
    assert table[""] == ["first.onnx", "second.onnx"]
    assert table["nodes"] == ["6", "1"]
    assert (table["Mul"], table["Relu"], table["If"]) == (["1", ""], ["1", "1"], ["1", ""])
    assert "Constant" not in table
    assert table["parameters"] == ["74", "0"]
    assert table["float"] == ["72, 288 bytes", ""]
    assert table["int8"] == ["2, 2 bytes", ""]
    assert table["external"] == ["256 bytes in 1 file", ""]
    assert (table["opset ai.onnx"], table["opset com.example"]) == (["17", "21"], ["3", ""])
    assert (table["producer"], table["overridable"], table["metadata"]) == (["torch 2.9", ""], ["1", ""], ["1", ""])
    assert table["images"] == ["float[N,8]", "float[N,8]"]
    assert table["c"] == ["bool[]", ""]
    assert "functions" not in table


@pytest.mark.parametrize("width", [40, 80])
def test_tables_fit_and_cut_no_name(models: tuple[Path, Path], width: int) -> None:
    text = invoke(*models, *models, width=width).stdout
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert LONG in "".join(cells(text)).replace(" ", "")
    assert "float[N,8]" in text


def test_types_of_many_models_are_broken_at_commas(tmp_path: Path) -> None:
    names = [tmp_path / f"{n}.onnx" for n in range(3)]
    for name in names:
        text = "g (float[batch,1,32,width] line) => (float[batch,1,32,width] y) { y = Relu(line) }"
        onnx.save(load(text, opset=21), name)
    table = cells(invoke(*names).stdout)
    assert table["nodes"] == ["1", "1", "1"]
    assert table["line"] == ["float[batch,1,"] * 3
    assert table["y"] == ["float[batch,1,"] * 3
    assert cells(invoke(*names[:2]).stdout)["line"] == ["float[batch,1,32,width]"] * 2


def test_counts_are_those_of_a_run(models: tuple[Path, Path]) -> None:
    """Nodes, parameters and bytes of a model are the same wherever they are shown."""
    first, second = models
    for path in models:
        (found,) = info(path).models
        before = optimize(path, "none", verify=False).report.before
        assert (found.nodes, found.ops, found.parameters, found.bytes) == (
            before.nodes, before.ops, before.parameters, before.bytes,
        )  # fmt: skip
    report = json.loads(invoke(first, second, "--json", "-").stdout)
    assert [m["external_files"] for m in report["models"]] == [["first.data"], []]
    assert report["models"][0]["overridable_initializers"] == ["d"]
    assert report["models"][0]["inputs"] == {"images": "float[N,8]", "c": "bool[]"}
    assert report["models"][0]["weights"]["float"] == {"tensors": 2, "elements": 72, "bytes": 288}


def test_functions_are_inlined_as_in_a_run() -> None:
    (found,) = info(onnx.parser.parse_model(FUNCTION)).models
    assert (found.functions, found.ops) == (1, {"Add": 2})


def test_weights_are_not_read(models: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "_decode", lambda _: pytest.fail("elements are read"))
    monkeypatch.setattr(Tensor, "raw_data", lambda _: pytest.fail("elements are read"))
    assert info(models).models[0].parameters == 74


def test_a_model_that_cannot_be_loaded_is_named(models: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"nothing")
    result = invoke(tmp_path / "bad.onnx", models[1], code=1)
    assert cells(result.stdout)["nodes"] == ["1"]
    assert result.stderr.startswith(f"error: {tmp_path / 'bad.onnx'}: not an ONNX model")
    assert result.stderr.count("\n") == 1
    assert list(info([tmp_path / "bad.onnx", models[1]]).failures) == [str(tmp_path / "bad.onnx")]
    alone = invoke(tmp_path / "bad.onnx", code=1)
    assert alone.stdout == ""


def test_files_of_one_name_show_their_folders(tmp_path: Path) -> None:
    for folder in ("before", "after"):
        (tmp_path / folder).mkdir()
        onnx.save(load(SECOND), tmp_path / folder / "m.onnx")
    table = cells(invoke(tmp_path / "before" / "m.onnx", tmp_path / "after" / "m.onnx").stdout)
    assert table[""] == ["before/m.onnx", "after/m.onnx"]


def test_names_are_printed_as_text(tmp_path: Path) -> None:
    model = load(SECOND)
    model.graph.node[0].input[0] = model.graph.input[0].name = "a\x1b[31m[red]"
    onnx.save(model, tmp_path / "m.onnx")
    assert "\x1b" not in invoke(tmp_path / "m.onnx").stdout


def test_the_report_replaces_no_model(models: tuple[Path, Path]) -> None:
    content = models[0].read_bytes()
    assert "error:" in invoke(*models, "--json", models[0], code=1).stderr
    assert models[0].read_bytes() == content


def test_peak_of_activations(models: tuple[Path, Path]) -> None:
    _, second = models
    assert cells(invoke(second).stdout)["activations"] == ["32*N bytes"]
    assert cells(invoke(second, "--dim", "N=100").stdout)["activations"] == ["3.2 kB"]
    assert info(second).models[0].peak_bytes == "32*N"
    assert info(second, dim={"N": 100}).models[0].peak_bytes == 3200
    assert info(second, shape={"images": (10, 8)}).models[0].inputs == {"images": "float[10,8]"}
    assert "--dim M: the model has no such symbol (it has N)" in invoke(second, "--dim", "M=1", code=1).output
    opaque = load("g (float[2] x) => (float[2] y) { a = com.example.Any(x) y = Neg(a) }")
    onnx.save(opaque, second)
    assert cells(invoke(second).stdout)["activations"] == ["8 bytes and 1 value of unknown size"]


def test_analyses_of_plugins(models: tuple[Path, Path], tmp_path: Path) -> None:
    lines = ["from passwright.core import Plugin", 'PLUGIN = Plugin(analyses={"ops in all": len})']
    (tmp_path / "counting.py").write_text("\n".join(lines))
    table = cells(invoke(*models, "--plugin", tmp_path / "counting.py").stdout)
    assert table["ops in all"] == ["5", "1"]
    both = Plugin(analyses={"ops": len, "reading": lambda g: g.nothing})
    assert info(models[1], plugin=[both], analysis=["ops"]).models[0].analyses == {"ops": "1"}
    assert info(models[1], plugin=[Plugin(analyses={"inputs": lambda g: len(g.inputs)})]).models[0].analyses == {
        "inputs": "1"
    }
    with pytest.raises(PluginError, match=r"reading cannot analyse .*: AttributeError"):
        info(models[1], plugin=[Plugin(analyses={"reading": lambda g: g.nothing})])
    lines = ["from passwright.core import Plugin", "class Depth:", "    def __init__(self, graph):", "        1 // 0"]
    (tmp_path / "raising.py").write_text("\n".join([*lines, 'PLUGIN = Plugin(analyses={"depth": Depth})']))
    message = r"depth cannot analyse .*: ZeroDivisionError: .* \(raising\.py:4\)"
    with pytest.raises(PluginError, match=message):
        info(models[1], plugin=[tmp_path / "raising.py"])
    with pytest.raises(PluginError, match="analysis depth is 3, not a function or class of a graph"):
        Plugin(analyses={"depth": 3})  # pyright: ignore[reportArgumentType] - as written by mistake


def assigned(log: str = "", providers: Sequence[str] = ("AcmeExecutionProvider", CPU), **names: str) -> list[str]:
    """The words on the nodes of a model of which Acme takes the nodes with these names."""
    graph = from_onnx(load(OPS)).graph
    ops = [op for op in graph.sorted_ops() if op.name in names]
    nodes = [AssignedNode("AcmeExecutionProvider" if names[op.name] == "acme" else CPU, op.name, op.type) for op in ops]
    found = assignment_of(graph, nodes, "AcmeExecutionProvider", providers, log.splitlines(keepends=True))
    assert found.nodes == dict(Counter(names.values()))
    return [*found.fit.lines(), *found.remarks]


def test_reasons_of_nodes_on_other_providers() -> None:
    told = assigned(a="acme", b="acme", c="cpu", d="cpu", e="acme")
    assert told == [
        "Abs at 'd' (acme supports Abs, but not of int64)",
        "Neg at 'c' (acme supports Neg, but not of float)",
    ]
    assert assigned(a="acme", d="cpu", e="cpu") == [
        "Abs at 'd' (acme lacks Abs of int64)",
        "Neg at 'e' (acme lacks Neg of int64)",
    ]
    kept = (
        "2026 [I:onnxruntime:, f.cc:9 G] ORT optimization- Force fallback to CPU execution for node: c because the CPU"
    )
    (line,) = assigned(kept, a="acme", c="cpu")
    assert line.startswith("Neg at 'c' (onnxruntime keeps it on the CPU")


def test_a_provider_that_takes_nothing() -> None:
    log = "\x1b[0;93m2026 [W:onnxruntime:, acme:0 ep] no GatherND\x1b[m\n2026 [I:onnxruntime:, x.cc:1 f] x\n"
    assert assigned(log, a="cpu", c="cpu") == ["acme supports no node", "no GatherND"]
    assert assigned(providers=[CPU], a="cpu") == ["onnxruntime could not start acme"]
    assert assigned(log, a="acme") == []


def test_nodes_of_an_execution_provider(models: tuple[Path, Path], tmp_path: Path) -> None:
    told = tmp_path / "r.json"
    output = invoke(*models, "--ep", "cpu", "--dim", "N=2", "--json", told).stdout
    counts = re.findall(r"(\d+) of (\d+) nodes? on cpu\n", output)
    assert [on for on, _ in counts] == [of for _, of in counts] == cells(output)["nodes on cpu"]
    assert int(counts[0][0]) > 3  # with Relu and Neg in bodies
    assert [m["providers"]["fit"]["misfits"] for m in json.loads(told.read_text())["models"]] == [[], []]
    if "azure" in map(short_name, available_providers()):
        output = invoke(models[1], "--ep", "azure").stdout
        assert "second.onnx: 0 of 1 node on azure\n  azure supports no node\n" in output
    assert info(models[1]).models[0].providers is None


@pytest.mark.skipif(sys.platform != "linux", reason="libraries are those of Linux")
def test_files_that_are_no_library_of_a_provider(models: tuple[Path, Path], tmp_path: Path) -> None:
    (text := tmp_path / "text.so").write_text("no library")
    os.mkfifo(tmp_path / "fifo.so")
    refused = invoke(models[1], "--ep-library", text, code=1).stderr
    assert re.fullmatch(r"error: \S+: text\.so is not a library of an execution provider: Failed to load .+\n", refused)
    assert "fifo.so: Not a regular file" in invoke(models[1], "--ep-library", tmp_path / "fifo.so", code=2).stderr


def test_models_that_no_provider_runs(models: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(load("g (float[N] x) => (float[N] y) { y = local.f(x) }").SerializeToString())
    result = invoke(tmp_path / "bad.onnx", models[1], "--ep", "cpu", code=1)
    assert re.search(r"^error: .*bad\.onnx: there is no kernel for local\.f\n$", result.stderr)
    assert "second.onnx: 1 of 1 node on cpu" in result.stdout
    assert "no execution provider abacus" in invoke(models[1], "--ep", "abacus", code=2).stderr
    assert "--ep-library" in invoke(models[1], "--ep-library", tmp_path / "none.so", code=2).stderr
