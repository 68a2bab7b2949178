"""Provenance of nodes made by rewrites, written as their metadata, which Netron displays.

`passwright.rule` is the rule or pass that made the node last; `passwright.from` a JSON list of the names of the nodes
of the file that it replaced, a nameless one by its first output. onnx.checker and onnxruntime accept metadata of nodes
at every IR version, though it was introduced in version 10.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

import onnx

from ..ir import wire_format
from ..ir.op import Op
from ..ir.origin import MAX_SOURCES, Origin, SourceNode

RULE_KEY, SOURCES_KEY = "passwright.rule", "passwright.from"
PROVENANCE_KEYS = frozenset({RULE_KEY, SOURCES_KEY})
TRUNCATION_MARK = "... and more"
NODE_METADATA = 9  # the field's number in onnx.proto
JSON_ENCODER = json.JSONEncoder(ensure_ascii=False)


def with_provenance(op: Op, node: bytes) -> bytes:
    """The serialized `node` of `op`, with its origin if a rewrite made it.

    An op with the name of a node of the file has the doc string and metadata of that node too, before our own.
    """
    origin = op.origin
    if not isinstance(origin, Origin):
        return node
    if op.proto_bytes is not None:  # an op of the file that a pass rebuilt, perhaps with provenance of an earlier run
        proto = onnx.NodeProto.FromString(node)
        kept = [p for p in proto.metadata_props if p.key not in PROVENANCE_KEYS]
        del proto.metadata_props[:]
        proto.metadata_props.extend(kept)
        node = proto.SerializeToString(deterministic=True)
    names = JSON_ENCODER.encode(source_names(origin))
    entries = _metadata_entry(RULE_KEY, origin.by) + _metadata_entry(SOURCES_KEY, names)
    return node + _inherited_metadata(origin.named_after) + entries


def _inherited_metadata(namesake: bytes) -> bytes:
    """Doc string and metadata, without our own, of the node whose name an op took."""
    root, kept = onnx.NodeProto.FromString(namesake), onnx.NodeProto()
    if root.HasField("doc_string"):
        kept.doc_string = root.doc_string
    kept.metadata_props.extend(p for p in root.metadata_props if p.key not in PROVENANCE_KEYS)
    return kept.SerializeToString(deterministic=True)


def _metadata_entry(key: str, text: str) -> bytes:
    """A StringStringEntryProto among the metadata of a node."""
    entry = wire_format.encode_field(1, key.encode()) + wire_format.encode_field(2, text.encode())
    return wire_format.encode_field(NODE_METADATA, entry)


def source_names(origin: Origin) -> list[str]:
    """The names of the sources, each once, in order: the first 50, and an ellipsis if there are more."""
    found = dict.fromkeys(name for source in origin.sources for name in _source_names(source))
    names = [name for name in found if name and name != TRUNCATION_MARK]
    was_truncated = TRUNCATION_MARK in found or origin.is_truncated  # in an earlier run, or in this one
    more = was_truncated or len(names) > MAX_SOURCES
    return [*names[:MAX_SOURCES], *([TRUNCATION_MARK] if more else [])]


def _source_names(source: SourceNode) -> Iterable[str]:
    """The name of the node, or the names in its `passwright.from` if an earlier run made it."""
    node = onnx.NodeProto.FromString(source.node)
    for p in node.metadata_props:
        if p.key == SOURCES_KEY:
            return _parse_names(p.value) or (node.name or source.output,)
    return (node.name or source.output,)


def read_provenance(node: onnx.NodeProto) -> tuple[str, list[str]]:
    """The rule and the names in the metadata of a node; "" and none if no rewrite of ours made it."""
    written = {p.key: p.value for p in node.metadata_props}
    return written.get(RULE_KEY, ""), _parse_names(written.get(SOURCES_KEY, "[]"))


def _parse_names(text: str) -> list[str]:
    """The strings of a JSON list; none if the text is anything else."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return []
    listed = cast("list[Any]", found) if isinstance(found, list) else []
    return [name for name in listed if isinstance(name, str)]


def other_metadata(node: onnx.NodeProto) -> list[tuple[str, str]]:
    """The metadata of a node without our own."""
    return [(p.key, p.value) for p in node.metadata_props if p.key not in PROVENANCE_KEYS]
