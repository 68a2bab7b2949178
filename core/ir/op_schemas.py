"""Cached operator schemas of ONNX by opset version, from `onnx.defs`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from math import inf
from typing import Any, Literal, cast

import onnx
from onnx import defs, helper

from ..support.suggestions import did_you_mean

ONNX_DOMAIN = ""
VARIADIC = (1 << 31) - 1  # INT_MAX in schemas means any number of inputs
DOMAIN_ALIASES = {"ai.onnx": ONNX_DOMAIN}  # the standard domain has two names (ONNX IR, Operator Sets)

defs.get_schema("Identity", ONNX_DOMAIN)  # the first look-up reads all schemas: part of the import, not of a rewrite


def canonical_domain(domain: str) -> str:
    """The canonical name of a domain: "" for "ai.onnx"."""
    return DOMAIN_ALIASES.get(domain, domain)


def qualified_op_type(domain: str, op_type: str) -> str:
    """The operator with its domain unless that is the standard one, as in ONNX's text format: `com.microsoft.Gelu`."""
    return f"{domain}.{op_type}" if domain else op_type


def split_op_type(qualified: str) -> tuple[str, str]:
    """The domain and operator in a qualified name; operator names contain no dots (ONNX IR, Names)."""
    domain, _, op_type = qualified.rpartition(".")
    return domain, op_type


@cache
def schema(op_type: str, domain: str, version: int) -> defs.OpSchema | None:
    """The schema in force at opset `version` of `domain`; None if the operator does not exist there."""
    try:
        found = defs.get_schema(op_type, version, domain)
    except defs.SchemaError:
        return None
    return None if found.deprecated else found


def is_same_operator(op_type: str, domain: str, version: int, other: int) -> bool:
    """Whether an operator exists at two opsets with the same schema."""
    found, same = schema(op_type, domain, version), schema(op_type, domain, other)
    return found is not None and same is not None and found.since_version == same.since_version


@cache
def attribute_default(op_type: str, domain: str, version: int, name: str) -> Any:
    """The default of an attribute as a Python value; None if it has none."""
    spec = schema(op_type, domain, version)
    declared = spec.attributes.get(name) if spec else None
    if declared is None or not declared.default_value.name:
        return None
    return decode_strings(helper.get_attribute_value(declared.default_value))


@cache
def attribute_defaults(op_type: str, domain: str, version: int) -> Mapping[str, Any]:
    """The defaults of all attributes that have one; empty for operators unknown to onnx."""
    spec = schema(op_type, domain, version)
    found = {name: attribute_default(op_type, domain, version, name) for name in (spec.attributes if spec else ())}
    return {name: value for name, value in found.items() if value is not None}


@cache
def encoded_defaults(op_type: str, domain: str, version: int) -> dict[str, bytes]:
    """The serialized schema defaults of attributes, by name."""
    spec = schema(op_type, domain, version)
    declared = [a.default_value for a in spec.attributes.values() if a.default_value.name] if spec else []
    return {a.name: a.SerializeToString(deterministic=True) for a in declared}


@cache
def attribute_types(op_type: str, domain: str, version: int) -> Mapping[str, int]:
    """The declared types of attributes (AttributeProto.type) by name; empty for an unknown operator."""
    spec = schema(op_type, domain, version)
    declared: dict[str, Any] = {name: a.type for name, a in spec.attributes.items()} if spec else {}
    return {name: onnx.AttributeProto.AttributeType.Value(stated.name) for name, stated in declared.items()}


@cache
def operand_counts(op_type: str, domain: str, version: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """The minimum and maximum numbers of inputs, and of outputs; unlimited for an unknown operator."""
    spec = schema(op_type, domain, version)
    if spec is None:
        return (0, inf), (0, inf)
    return (spec.min_input, spec.max_input), (spec.min_output, spec.max_output)


@cache
def required_attributes(op_type: str, domain: str, version: int) -> frozenset[str]:
    """The attributes that a node must have; empty for an unknown operator."""
    spec = schema(op_type, domain, version)
    return frozenset(name for name, a in spec.attributes.items() if a.required) if spec else frozenset()


@cache
def input_names(op_type: str, domain: str, version: int) -> tuple[str, ...]:
    """Formal input names in order; a variadic last input is listed once."""
    spec = schema(op_type, domain, version)
    return tuple(i.name for i in spec.inputs) if spec else ()


@cache
def input_types(op_type: str, domain: str, version: int) -> tuple[frozenset[str], ...]:
    """The types, such as `tensor(float)`, that formal inputs allow, in order; a variadic last input is listed once."""
    spec = schema(op_type, domain, version)
    return tuple(frozenset(i.types) for i in spec.inputs) if spec else ()


@cache
def may_give(op_type: str, domain: str, kind: str) -> bool:
    """Whether the first output of an operator's newest version may have a type such as `tensor(bool)`."""
    spec = schema(op_type, domain, latest_opset_version(domain))
    return spec is None or not spec.outputs or kind in spec.outputs[0].types


@cache
def latest_input_names(op_type: str, domain: str) -> tuple[str, ...]:
    """Formal input names in the newest version of an operator."""
    return input_names(op_type, domain, latest_opset_version(domain))


def latest_opset_version(domain: str) -> int:
    """The newest opset version of a domain that the installed onnx knows; 0 for an unknown domain."""
    return defs.onnx_opset_version() if domain == ONNX_DOMAIN else _history().get(domain, (0, {}))[0]


OWN_DOMAINS = ("com.microsoft", "com.ms.")
"""Prefixes of onnxruntime's domains."""


def known_domains() -> tuple[str, ...]:
    """The domains that onnx defines, except the standard one, and the domain of onnxruntime."""
    return (*filter(None, _history()), OWN_DOMAINS[0])


def is_foreign(domain: str) -> bool:
    """Whether a domain belongs neither to ONNX nor to onnxruntime."""
    return not domain.startswith(OWN_DOMAINS) and not latest_opset_version(canonical_domain(domain))


def since_versions(domain: str) -> Mapping[str, int]:
    """The operators of a domain that the installed onnx knows, with the opset versions in which they were added."""
    return _history().get(domain, (0, {}))[1]


@cache
def _history() -> Mapping[str, tuple[int, dict[str, int]]]:
    """The newest opset version of each known domain, and the first version of each operator. Takes 10 ms."""
    found: dict[str, tuple[int, dict[str, int]]] = {}
    for s in defs.get_all_schemas_with_history():
        newest, first = found.get(s.domain, (0, {}))
        first[s.name] = min(first.get(s.name, s.since_version), s.since_version)
        found[s.domain] = max(newest, s.since_version), first
    return found


@cache
def misuse(op_type: str, domain: str, inputs: tuple[int, int], names: frozenset[str]) -> str:
    """Why no opset version has an operator with these inputs and these attributes or named inputs; "" if one does.

    `inputs` are the minimum and maximum number. Domains that onnx does not know are not checked.
    """
    version = latest_opset_version(domain)
    if not version:
        return ""
    unknown, similar, fewest, most = set(names), set[str](), inf, -1.0
    while version > 0:
        try:
            spec = defs.get_schema(op_type, version, domain)
        except defs.SchemaError:
            break
        if unknown:
            similar.update(spec.attributes, (i.name for i in spec.inputs))
            unknown -= similar
        fewest, most, version = min(fewest, spec.min_input), max(most, spec.max_input), spec.since_version - 1
        if not unknown and inputs[0] <= most and inputs[1] >= fewest:
            return ""
    label, known = qualified_op_type(domain, op_type), since_versions(domain)
    if most < 0:
        return f"no opset has an operator {label}{did_you_mean(op_type, known)}" if op_type not in known else ""
    for name in sorted(unknown):
        return f"{label} has no attribute {name} at any opset{did_you_mean(name, similar)}"
    wanted = f"{fewest}" if fewest == most else f"{fewest} or more" if most >= VARIADIC else f"{fewest} to {most}"
    return f"{label} takes {wanted} input{'s' * (wanted != '1')}, not {inputs[0] if inputs[0] > most else inputs[1]}"


def decode_strings(value: Any) -> Any:
    """An attribute value with strings as `str` (UTF-8, undecodable bytes kept by surrogate escapes)."""
    if isinstance(value, list):
        return list(map(decode_strings, cast("list[Any]", value)))
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


NUMBER_TYPES: Mapping[str, Callable[[Any], Any]] = {"FLOAT": float, "INT": int}


VECTORS = {
    ("AffineGrid", "size"), ("CenterCropPad", "shape"), ("Col2Im", "block_shape"), ("Col2Im", "image_shape"),
    ("ConstantOfShape", "input"), ("Expand", "shape"), ("MaxUnpool", "output_shape"), ("OneHot", "values"),
    ("Pad", "axes"), ("Resize", "roi"), ("Resize", "scales"), ("Resize", "sizes"), ("Slice", "steps"),
    ("Tile", "repeats"), ("TopK", "K"),
}  # fmt: skip
"""Inputs that are lists according to the operators' documents, although they never were attributes."""

NUMBERS = {
    ("BlackmanWindow", "size"), ("CumProd", "axis"), ("CumSum", "axis"), ("DFT", "dft_length"),
    ("Dropout", "training_mode"), ("HammingWindow", "size"), ("HannWindow", "size"),
    *(("MelWeightMatrix", name) for name in (
        "num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")),
    *(("NonMaxSuppression", name) for name in ("max_output_boxes_per_class", "iou_threshold", "score_threshold")),
    ("OneHot", "depth"), ("Pad", "constant_value"), ("STFT", "frame_length"), ("STFT", "frame_step"),
    *(("Range", name) for name in ("start", "limit", "delta")),
    *((op_type, "position") for op_type in ("SequenceAt", "SequenceErase", "SequenceInsert")), ("Trilu", "k"),
}  # fmt: skip
"""Inputs that are single numbers according to the operators' documents, although they never were attributes."""


@cache
def input_kind(op_type: str, domain: str, name: str) -> Literal["list", "number", "value", ""]:
    """The kind of the named input: a list or number that parametrizes the operator, or a value to compute with.

    It is a parameter if an opset has an attribute with that name. "": the operator has no such input.
    """
    is_input, version = False, latest_opset_version(domain)
    while version > 0 and (spec := schema(op_type, domain, version)) is not None:
        if name in spec.attributes:
            declared: Any = spec.attributes[name].type
            return "" if not is_input else "list" if declared.name.endswith("S") else "number"
        is_input |= any(i.name == name for i in spec.inputs)
        version = spec.since_version - 1
    if not is_input:
        return ""
    key = op_type, name
    return "value" if domain else "list" if key in VECTORS else "number" if key in NUMBERS else "value"


@cache
def input_index(op_type: str, domain: str, name: str) -> int:
    """The position of the named input, in the newest opset that has it. Raises ValueError if none has."""
    version = latest_opset_version(domain)
    while version > 0 and (spec := schema(op_type, domain, version)) is not None:
        if name in (names := input_names(op_type, domain, version)):
            return names.index(name)
        version = spec.since_version - 1
    raise ValueError(f"{op_type} has no input {name}")


@cache
def kind_at(op_type: str, domain: str, index: int) -> str:
    """The `input_kind` at a position of the newest version of an operator; "" after its inputs."""
    names = latest_input_names(op_type, domain)
    return input_kind(op_type, domain, names[index]) if index < len(names) else ""


def make_attribute(name: str, value: Any, spec: defs.OpSchema | None) -> onnx.AttributeProto:
    """Convert `value` to an AttributeProto of the type that the schema declares, or otherwise the type of `value`."""
    declared = spec.attributes.get(name) if spec else None
    stated: Any = declared.type if declared is not None else None
    kind: str = "" if stated is None else stated.name
    if (number := NUMBER_TYPES.get(kind.removesuffix("S"))) is not None:
        value = [number(v) for v in value] if kind.endswith("S") else number(value)
    attr_type = onnx.AttributeProto.AttributeType.Value(kind) if kind else None
    return helper.make_attribute(name, encode_strings(value), attr_type=attr_type)


def encode_strings(value: Any) -> Any:
    """The inverse of `decode_strings`."""
    if isinstance(value, list):
        return list(map(encode_strings, cast("list[Any]", value)))
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
