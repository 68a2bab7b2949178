"""JSON schemas of reports: real reports fit them, and others do not."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from executable_documents import DOCS
from option_table import REFERENCE
from passwright.app.cli.entry import COMMANDS, app
from schemas import REPORTS, schema_of
from tiers import slow_unless
from typer.main import get_command
from typer.testing import CliRunner

ROOT = Path(__file__).parent.parent
MODEL, OTHER = (str(ROOT / "golden_models" / f"{name}.onnx") for name in ("mlp_dropout", "mlp_dropout_zero"))
BRIEF = ("--min-time", "0.01", "--threads", "1")
SEARCH = (*BRIEF, "--trials", "2", "--time", "5")
CALLS = {
    "run": [MODEL, "--verify", "quick"],
    "batch": [MODEL, "--output-dir", "out", "--jobs", "1", "--no-verify"],
    "list": [],
    "quantize": [MODEL, "-o", "q.onnx", "--scheme", "dynamic", *SEARCH],
    "tune": [MODEL, "-o", "t.onnx", *SEARCH],
    "advise": [MODEL, "--time", "5", "--threads", "1"],
    "verify": [MODEL, OTHER],
    "bisect": [MODEL, "--verify", "quick"],
    "info": [MODEL, OTHER],
    "explain": ["basic", MODEL],
    "diff": [MODEL, OTHER],
    "compare": [MODEL, "--tools", "ort", "--batch", "1", *BRIEF],
    "bench": [MODEL, *BRIEF],
    "profile": [MODEL, *BRIEF],
    "check": ["drop_dropout", "--budget", "5"],
}
FURTHER = {"bisect --ort": ["bisect", MODEL, "--ort"], "run of many": ["run", MODEL, OTHER, "--check", "--no-verify"]}
QUICK = {"run", "batch", "list", "verify", "info", "explain", "diff", "check", "run of many"}
WORDS = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "null": type(None), "array": list,
         "object": dict}  # fmt: skip


def faults(value: Any, schema: dict[str, Any], root: dict[str, Any], place: str = "$") -> Iterator[str]:
    """Why a value does not fit a schema, for the words that `schema_of` writes."""
    known = {"$schema", "title", "description", "$defs", "$ref", "anyOf", "enum", "type", "properties", "required",
             "items", "prefixItems", "additionalProperties"}  # fmt: skip
    assert schema.keys() <= known
    if "$ref" in schema:
        yield from faults(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root, place)
    if "anyOf" in schema and all(any(faults(value, part, root, place)) for part in schema["anyOf"]):
        yield f"{place}: {value!r} is none of {len(schema['anyOf'])}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{place}: {value!r} is not one of {schema['enum']}"
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    is_bool = isinstance(value, bool)
    if types and not any(isinstance(value, WORDS[t]) and is_bool <= (t == "boolean") for t in types):
        yield f"{place}: {value!r} is not of type {types}"
        return
    if isinstance(value, dict):
        yield from (f"{place}: {name} is missing" for name in schema.get("required", ()) if name not in value)
        inner = schema.get("properties", {})
        for name, item in value.items():
            yield from faults(item, inner.get(name, schema.get("additionalProperties", {})), root, f"{place}.{name}")
    elif isinstance(value, list):
        first = schema.get("prefixItems", [])
        for number, item in enumerate(value):
            part = first[number] if number < len(first) else schema.get("items", {})
            yield from faults(item, part, root, f"{place}[{number}]")


@pytest.mark.parametrize("name", slow_unless(QUICK, [*CALLS, *FURTHER]))
def test_reports_fit_their_schemas(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command, *arguments = FURTHER.get(name) or [name, *CALLS[name]]
    result = CliRunner().invoke(app, [command, *arguments, "--json", "r.json"])
    assert Path("r.json").exists(), result.output
    report, schema = json.loads(Path("r.json").read_text("utf-8")), schema_of(command)
    assert [*faults(report, schema, schema)] == []
    assert any(faults({}, schema, schema))
    assert any(faults([report], schema, schema))


def test_every_command_with_json_has_a_linked_schema() -> None:
    commands = get_command(app).commands  # type: ignore[attr-defined]
    with_json = {name for name in COMMANDS if "json" in commands[name].options}
    assert set(REPORTS) == with_json == set(CALLS)
    assert set(re.findall(r"\]\(schemas/(\w+)\.json\)", REFERENCE.read_text("utf-8"))) == with_json
    listed = (DOCS.parent / "mkdocs.yml").read_text("utf-8").partition("  schemas: [")[2].partition("]")[0]
    assert {name.strip() for name in listed.split(",")} == with_json
