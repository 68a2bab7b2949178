"""JSON schemas of the reports of commands, from the types that they are written from: pages of the site.

A report is written as its fields, with derived ones beside them. Numbers that JSON cannot hold are null.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from passwright.app.bisect.engine_bisect import EngineBisectReport
from passwright.app.bisect.ort_bisect import OrtBisectReport
from passwright.app.cli.entry import COMMANDS
from passwright.app.compare.comparison_report import ComparisonReport, QuantizedComparison
from passwright.app.diff.diff_result import ModelDifference
from passwright.app.diff.model_diff import DiffReport
from passwright.app.explain.explain import Explanation
from passwright.app.info.info import InfoReport
from passwright.app.listing.listing import Listing
from passwright.app.measure.bench import BenchReport
from passwright.app.profile.profile_report import ProfileReport
from passwright.app.quantize.report import QuantizationReport
from passwright.app.report.result_row import COLUMNS
from passwright.app.tune.advice import Advice
from passwright.app.tune.report import TuneReport
from passwright.app.verify.report import VerificationReport
from passwright.core.run.report import Report

Schema = dict[str, Any]
DRAFT = "https://json-schema.org/draft/2020-12/schema"
ANY: Schema = {}
OBJECT: Schema = {"type": "object"}
PLAIN: Mapping[Any, Schema] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": ["number", "null"]},
    str: {"type": "string"},
    Path: {"type": "string"},
    NoneType: {"type": "null"},
}


class _Types:
    """The schemas of types, the schemas of structures by name in `definitions`."""

    def __init__(self) -> None:
        self.definitions: dict[str, Schema] = {}

    def of(self, kind: Any) -> Schema:
        """The schema of a type; anything where it has a form of its own in JSON."""
        origin, inner = get_origin(kind) or kind, get_args(kind)
        if kind in PLAIN:
            return dict(PLAIN[kind])
        if origin in (Union, UnionType):
            return {"anyOf": [self.of(part) for part in inner]}
        if origin is Literal:
            return {"enum": list(inner)}
        if not isinstance(origin, type):
            return ANY
        if issubclass(origin, Enum):
            return {"enum": [member.value for member in origin]}
        if issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(inner[1]) if inner else ANY}
        if issubclass(origin, tuple) and inner and inner[-1] is not Ellipsis:
            return {"type": "array", "prefixItems": [self.of(part) for part in inner]}
        if issubclass(origin, Sequence | AbstractSet) and origin is not bytes:
            return {"type": "array", "items": self.of(inner[0]) if inner else ANY}
        if issubclass(origin, msgspec.Struct) or is_dataclass(origin):
            return self._reference(origin)
        return ANY

    def _reference(self, kind: type) -> Schema:
        if kind.__name__ not in self.definitions:
            self.definitions[kind.__name__] = {}  # of itself, inside
            self.definitions[kind.__name__] = self.structure(kind)
        return {"$ref": f"#/$defs/{kind.__name__}"}

    def structure(self, kind: type, without: Sequence[str] = ()) -> Schema:
        """The fields of a structure."""
        names = [name for name in _field_names(kind) if name not in without]
        properties = {name: self.of(_hint(kind, name)) for name in names}
        text = " ".join((kind.__doc__ or "").partition("\n\n")[0].split())
        return {"type": "object", "description": text, "properties": properties, "required": names}


def _field_names(kind: type) -> list[str]:
    found = msgspec.structs.fields(kind) if issubclass(kind, msgspec.Struct) else fields(cast("Any", kind))
    return [f.name for f in found]


def _hint(kind: type, name: str) -> Any:
    """The type of a field; Any where its module imports the type for type checkers alone."""
    owner = next(c for c in kind.__mro__ if name in vars(c).get("__annotations__", {}))
    try:
        return get_type_hints(type("", (), {"__annotations__": {name: owner.__annotations__[name]}}),
                              vars(sys.modules[owner.__module__]))[name]  # fmt: skip
    except NameError:
        return Any


VERDICT: Schema = {
    "type": ["object", "null"],
    "description": "The comparison with the original; see `verification` in the reference.",
    "required": ["input_sets", "differences", "failure"],
}
VERSIONS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
DERIVED: Mapping[type, Schema] = {
    Report: {"verification": VERDICT},
    TuneReport: {"verdict": VERDICT, "start": OBJECT, "configuration": OBJECT},
    VerificationReport: {
        "agrees": {"type": "boolean"},
        "verdict": VERDICT,
        "accuracy": {"type": ["object", "null"]},
        "proofs": {"type": ["object", "null"]},
    },
    ComparisonReport: {"online_operators": {"type": "array", "items": OBJECT}},
    BenchReport: {"models": {"type": "array", "items": OBJECT}},
    Listing: {"versions": VERSIONS},
}
"""Fields of reports that are written otherwise than their types say, or derived."""


def _report(types: _Types, kind: type) -> Schema:
    """The schema of a report."""
    derived = DERIVED.get(kind, {})
    found = types.structure(kind, without=[*derived])
    found["properties"] |= derived
    found["required"] += [*derived]
    return found


def _batch(types: _Types) -> Schema:
    """The reports of many models, which `passes run`, `passes batch` and their summary write."""
    columns = {name: {"anyOf": [types.of(kind), {"type": "null"}]} for name, kind in COLUMNS.items()}
    row = {"type": "object", "properties": columns | {"report": {"type": ["object", "null"]}}, "required": ["model"]}
    properties = {
        "exit_code": {"type": "integer"},
        "outcomes": {"type": "object", "additionalProperties": {"type": "integer"}},
        "models": {"type": "array", "items": row},
        "versions": VERSIONS,
    }
    return {"type": "object", "properties": properties, "required": [*properties]}


def _diff(types: _Types) -> Schema:
    found = types.structure(ModelDifference)
    own = {"original": {"type": "string"}, "other": {"type": "string"}, "equal": {"type": "boolean"}}
    own |= {"names_count": {"type": "boolean"}, "counts": OBJECT, "versions": VERSIONS, "options": OBJECT}
    found |= {"properties": found["properties"] | own, "required": [*found["required"], *own]}
    return found | {"description": " ".join((DiffReport.__doc__ or "").partition("\n\n")[0].split())}


def _check(types: _Types) -> Schema:
    words = {"type": "array", "items": {"type": "string"}}
    rule = {
        "name": types.of(str),
        "contract": types.of(str),
        "result": {"enum": ["wrong", "sound", "inconclusive"]},
        **{name: {"type": "integer"} for name in ("models", "fired", "ran")},
        "seconds": types.of(float),
        "fault": {"type": ["object", "null"]},
        "proof": {"type": ["object", "null"]},
    }
    properties = {
        "budget": {"type": "integer"},
        "seed": {"type": "integer"},
        "proved": {"type": ["integer", "null"]},
        "rules": {"type": "array", "items": {"type": "object", "properties": rule, "required": [*rule]}},
        **dict.fromkeys(("not_checked", "unfinished"), words),
        "nothing_to_check": ANY,
        "versions": VERSIONS,
        "options": OBJECT,
    }
    return {"type": "object", "properties": properties, "required": [*properties]}


def _advise(types: _Types) -> Schema:
    properties = {
        "source": types.of(str),
        "advice": {"type": "array", "items": types.of(Advice)},
        "command": types.of(str),
        "seconds": types.of(float),
        "notes": types.of(list[str]),
        "machine": types.of(str),
    }
    return {"type": "object", "properties": properties, "required": [*properties]}


REPORTS: Mapping[str, Sequence[Any]] = {
    "run": (Report, _batch),
    "batch": (_batch,),
    "list": (Listing,),
    "quantize": (QuantizationReport,),
    "tune": (TuneReport,),
    "advise": (_advise,),
    "verify": (VerificationReport,),
    "bisect": (Report, OrtBisectReport, EngineBisectReport),
    "info": (InfoReport,),
    "explain": (Explanation,),
    "diff": (_diff,),
    "compare": (ComparisonReport, QuantizedComparison),
    "bench": (BenchReport,),
    "profile": (ProfileReport,),
    "check": (_check,),
}
"""The reports of each command with `--json`: one, or one for each way to call it."""


def schema_of(command: str) -> Schema:
    """The JSON schema of what a command writes with `--json`."""
    types = _Types()
    found = [_report(types, r) if isinstance(r, type) else r(types) for r in REPORTS[command]]
    head = {"$schema": DRAFT, "title": f"passes {command} --json"}
    body = found[0] if len(found) == 1 else {"anyOf": found}
    return head | body | {"$defs": types.definitions}


def schemas() -> dict[str, str]:
    """The files of all schemas, by their paths in the site."""
    return {f"schemas/{name}.json": json.dumps(schema_of(name), indent=1) for name in COMMANDS if name in REPORTS}
