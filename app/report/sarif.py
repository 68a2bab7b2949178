"""SARIF 2.1.0, the format of code scanners (OASIS standard sarif-v2.1.0)."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ...core.rewriting.rules import Rule
from ...core.run.pipeline import leaves, rules_in
from ...core.support.printable_text import json_text, printable, printable_lines
from ...passes.pipelines import BUILT_IN
from .descriptions import pass_doc
from .finding import Finding, relative_path

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
PLACEHOLDER = re.compile(r"\{(\d+)\}")
MAX_PLACES = 100  # logical locations in a result
DESCRIPTIONS = {
    "unoptimized-model": "The optimizer would change the model.",
    "unusable-model": "The model, or an input given with it, is unusable.",
    "wrong-result": "The outputs of a model differ from those of the original.",
    "does-not-run": "An engine cannot run a model.",
    "unverifiable-model": "The original fails on all inputs, so no result can be verified.",
    "not-verified": "The result was written without verification, as requested.",
    "interface-changed": "Inputs or outputs of a model differ from the original's.",
    "different-model": "The structures of two models differ.",
    "slower-result": "The optimized model was slower than the original and was discarded.",
    "hint": "An option would change the result.",
}
"""Kinds of findings that are not about a rewrite rule."""


def sarif_text(findings: Sequence[Finding]) -> str:
    """A log with one run."""
    ids = list(dict.fromkeys(f.rule for f in findings))
    known = _catalogue() if set(ids) - set(DESCRIPTIONS) else dict[str, tuple[str, str]]()
    about = {f.rule: f.about for f in findings}
    driver = {
        "name": "passwright",
        "version": version("passwright"),
        "rules": [_descriptor(name, known.get(name, ("", "")), about.get(name, "")) for name in ids],
    }
    results = [_result(f, ids.index(f.rule)) for f in findings]
    invocation = {"executionSuccessful": True}
    run = {"tool": {"driver": driver}, "invocations": [invocation], "columnKind": "utf16CodeUnits", "results": results}
    return json_text({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _catalogue() -> Mapping[str, tuple[str, str]]:
    """The equation and docstring of each built-in rule, and the first line and docstring of each pass."""
    found = dict[str, tuple[str, str]]()
    for p in (leaf for group in BUILT_IN for leaf in leaves(group)):
        doc = pass_doc(p)
        found[p.name] = (doc.partition("\n")[0], doc)
        found |= {r.name: (r.equation, inspect.getdoc(r.build) or "") for r in rules_in(p) if isinstance(r, Rule)}
    return found


def _descriptor(name: str, known: tuple[str, str], about: str) -> dict[str, Any]:
    """The rule of a finding, with its first line and description in the catalogue, or the text `about` it."""
    short = DESCRIPTIONS.get(name) or known[0] or printable(about or name)
    tags = ["rewrite"] if name not in DESCRIPTIONS else []
    return {
        "id": printable(name),
        "shortDescription": {"text": short},
        "fullDescription": {"text": known[1] or short},
        "properties": {"tags": ["onnx", *tags]},
    }


def _result(f: Finding, index: int) -> dict[str, Any]:
    key = "\n".join((f.rule, f.title, relative_path(f.file), *f.places[:1]))
    digest = blake2b(key.encode(errors="surrogateescape"), digest_size=16).hexdigest()
    text = PLACEHOLDER.sub(r"{{\1}}", printable_lines(f"{f.title}: {f.message}"))
    location: dict[str, Any] = {}
    if f.file:  # GitHub's code scanning requires a line, even for a binary file
        location["physicalLocation"] = {"artifactLocation": _artifact(f.file), "region": {"startLine": f.line or 1}}
    if f.places:
        location["logicalLocations"] = [
            {"name": printable(p), "fullyQualifiedName": printable(p), "kind": "node"} for p in f.places[:MAX_PLACES]
        ]
    return {
        "ruleId": printable(f.rule),
        "ruleIndex": index,
        "level": str(f.level),
        "message": {"text": text.replace("](", "] (")},  # not interpreted as a link such as [text](URL)
        "locations": [location] if location else [],
        "partialFingerprints": {"passwright/v1": digest},
    }


def _artifact(file: str) -> dict[str, str]:
    """A URI relative to the root of the sources, or an absolute one for a file elsewhere."""
    path = relative_path(file)
    if Path(path).is_absolute():
        return {"uri": Path(path).as_uri()}
    return {"uri": quote(os.fsencode(path)), "uriBaseId": "%SRCROOT%"}
