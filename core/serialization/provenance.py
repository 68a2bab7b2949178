"""Provenance of nodes that rewrites created, and conditions of models; both are metadata, which Netron displays.

`passwright.rule` is the rule or pass that created the node last; `passwright.from` is a JSON list of the names of the
nodes of the file that it replaced; a nameless node is listed by its first output. onnx.checker and onnxruntime accept
metadata of nodes at every IR version, though it was introduced in version 10. `passwright.conditions` of a model is a
JSON list of the rules that hold only under a condition, each with its condition.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast

import onnx

from ..ir.op import MAX_SOURCES, Op, Origin
from .proto_queries import copy_without

RULE_KEY, SOURCES_KEY = "passwright.rule", "passwright.from"
PROVENANCE_KEYS = frozenset({RULE_KEY, SOURCES_KEY})
CONDITIONS_KEY = "passwright.conditions"
TRUNCATION_MARK = "... and more"
JSON_ENCODER = json.JSONEncoder(ensure_ascii=False)


def with_provenance(op: Op, node: bytes) -> bytes:
    """The serialized `node` of `op`, with its origin if a rewrite created it.

    An op with the name of a node of the file also has the doc string and metadata of that node, before its own. If the
    model has no provenance, its nodes do not keep provenance of an earlier run either.
    """
    origin = op.origin
    if not op.graph.context.has_provenance:
        return _without_provenance(node) if RULE_KEY.encode() in node else node
    if not isinstance(origin, Origin):
        return node
    proto, namesake = onnx.NodeProto.FromString(node), onnx.NodeProto.FromString(origin.named_after)
    if namesake.HasField("doc_string"):
        proto.doc_string = namesake.doc_string
    kept = [*other_metadata(proto), *other_metadata(namesake)]  # `node` may have provenance of an earlier run
    del proto.metadata_props[:]
    for key, value in (*kept, (RULE_KEY, origin.by), (SOURCES_KEY, JSON_ENCODER.encode(source_names(origin)))):
        proto.metadata_props.add(key=key, value=value)
    return proto.SerializeToString(deterministic=True)


def _without_provenance(node: bytes) -> bytes:
    proto = onnx.NodeProto.FromString(node)
    kept = [p for p in proto.metadata_props if p.key not in PROVENANCE_KEYS]
    del proto.metadata_props[:]
    proto.metadata_props.extend(kept)
    return proto.SerializeToString(deterministic=True)


def source_names(origin: Origin) -> list[str]:
    """The names of the sources in order, without duplicates: the first 50, and an ellipsis if there are more."""
    found: dict[str, None] = {}
    for source in origin.sources:
        node = onnx.NodeProto.FromString(source.node)
        found |= dict.fromkeys(
            read_provenance(node)[1] or (node.name or source.output,)
        )  # or the names that an earlier run wrote
    names = [name for name in found if name and name != TRUNCATION_MARK]
    was_truncated = TRUNCATION_MARK in found or origin.is_truncated  # in an earlier run, or in this one
    more = was_truncated or len(names) > MAX_SOURCES
    return [*names[:MAX_SOURCES], *([TRUNCATION_MARK] if more else [])]


def read_provenance(node: onnx.NodeProto) -> tuple[str, list[str]]:
    """The rule and the names in the metadata of a node; "" and an empty list if no rewrite of passwright created it."""
    if not node.metadata_props:
        return "", []
    written = {p.key: p.value for p in node.metadata_props}
    return written.get(RULE_KEY, ""), _parse_names(written.get(SOURCES_KEY, "[]"))


def _parse_names(text: str) -> list[str]:
    """The strings of a JSON list; empty if the text is anything else."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return []
    listed = cast("list[Any]", found) if isinstance(found, list) else []
    return [name for name in listed if isinstance(name, str)]


def read_conditions(model: onnx.ModelProto) -> tuple[str, ...]:
    """The conditions that a model states."""
    return tuple(name for p in model.metadata_props if p.key == CONDITIONS_KEY for name in _parse_names(p.value))


def with_conditions(header: onnx.ModelProto, conditions: Iterable[str]) -> onnx.ModelProto:
    """Add `conditions` to those that a header states."""
    found = copy_without(header, "metadata_props")
    stated = dict.fromkeys((*read_conditions(header), *conditions))
    kept = [p for p in header.metadata_props if p.key != CONDITIONS_KEY]
    found.metadata_props.extend(kept)
    found.metadata_props.add(key=CONDITIONS_KEY, value=JSON_ENCODER.encode([*stated]))
    return found


def other_metadata(node: onnx.NodeProto) -> list[tuple[str, str]]:
    """The metadata of a node except passwright's own."""
    return [(p.key, p.value) for p in node.metadata_props if p.key not in PROVENANCE_KEYS]
