"""Models of one operator each, with attributes, constants and extents at the ends of their types."""

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, defs, helper, numpy_helper

INTS = [0, 1, -1, 2, 3, 7, 64, 65, 2**31 - 1, -(2**31), 2**31, 2**32, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1]
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-45, 1e38, 1e10, 3.0000001, float("inf"), float("-inf"), float("nan")]
TEXTS = [
    "", "SAME_UPPER", "SAME_LOWER", "VALID", "nearest", "cubic", "reflect", "wrap", "not_larger", "add", "ij,jk->ik"
]  # fmt: skip
EXTENTS = [0, 1, 2, 3, 4, 2**31 - 1, 2**31, 2**62, 2**63 - 1, "N", "M"]
RANKS = [0, 1, 1, 2, 3, 4, 4, 5]
SHAPES = [(), (1,), (2,), (3,), (4,), (0,), (1, 1), (2, 3), (8,)]
DTYPES = {f"tensor({name})": dtype for name, dtype in {
    "float": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "double": 11,
}.items()}  # fmt: skip
COMMON_DTYPES = {1, 6, 7, 9}


def extreme_models(seed: int) -> Iterator[tuple[str, onnx.ModelProto]]:
    """One model for each version of each operator whose inputs and attributes can be made, and its name."""
    for schema in defs.get_all_schemas_with_history():
        label = f"{schema.domain}.{schema.name}-{schema.since_version}"
        model = extreme_model(Random(f"{seed} {label}"), schema)
        if model is not None:
            yield label, model


def extreme_model(r: Random, schema: onnx.defs.OpSchema) -> onnx.ModelProto | None:
    graph = onnx.GraphProto(name="g")
    node = graph.node.add(op_type=schema.name, domain=schema.domain)
    dtypes: dict[str, int] = {}
    options = defs.OpSchema.FormalParameterOption
    for formal in schema.inputs:
        for _ in range(r.randint(1, 3) if formal.option == options.Variadic else 1):
            if formal.option == options.Optional and r.random() < 0.3:
                node.input.append("")
                continue
            possible = sorted(DTYPES[t] for t in formal.types if t in DTYPES)
            if not possible:
                return None
            common = [t for t in possible if t in COMMON_DTYPES]
            dtype = dtypes.setdefault(formal.type_str, r.choice(common if common and r.random() < 0.8 else possible))
            name = f"i{len(node.input)}"
            node.input.append(name)
            if r.random() < 0.5:
                graph.initializer.append(_constant(r, dtype, name))
            else:
                extents = [r.choice(EXTENTS) for _ in range(r.choice(RANKS))] if r.random() < 0.9 else None
                graph.input.append(helper.make_tensor_value_info(name, dtype, extents))
    for i in range(r.randint(max(schema.min_output, 1), max(schema.min_output, 1, min(schema.max_output, 3)))):
        node.output.append(f"o{i}")
    for attribute in schema.attributes.values():
        if (attribute.required or r.random() < 0.6) and not _add_attribute(r, node, attribute):
            return None
    graph.node.append(helper.make_node("Shape", ["o0"], ["s"]))
    consumer = r.choice(
        [("ConstantOfShape", ["s"]), ("Reshape", ["o0", "s"]), ("Expand", ["o0", "s"]), ("Size", ["o0"])]
    )
    graph.node.append(helper.make_node(*consumer, ["z"]))
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in (*node.output, "s", "z"))
    opsets = [helper.make_opsetid("", 18 if schema.domain else schema.since_version)]
    opsets += [helper.make_opsetid(schema.domain, schema.since_version)] if schema.domain else []
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def _constant(r: Random, dtype: int, name: str) -> onnx.TensorProto:
    shape = r.choice(SHAPES)
    size, kind = int(np.prod(shape)), helper.tensor_dtype_to_np_dtype(dtype)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        numbers: list[Any] = [min(max(r.choice(INTS), int(limits.min)), int(limits.max)) for _ in range(size)]
    else:
        numbers = [r.choice(FLOATS if kind.kind == "f" else [False, True]) for _ in range(size)]
    with np.errstate(over="ignore"):
        return numpy_helper.from_array(np.array(numbers).astype(kind).reshape(shape), name)


def _add_attribute(r: Random, node: onnx.NodeProto, attribute: onnx.defs.OpSchema.Attribute) -> bool:
    """Add an attribute with extreme values; False for a type that is not made here."""
    made, many = node.attribute.add(name=attribute.name, type=int(attribute.type.value)), r.choice([0, 1, 2, 3, 4, 8])
    match made.type:
        case AttributeProto.INT:
            made.i = r.choice(INTS)
        case AttributeProto.FLOAT:
            made.f = r.choice(FLOATS)
        case AttributeProto.STRING:
            made.s = r.choice(TEXTS).encode()
        case AttributeProto.INTS:
            made.ints.extend(r.choice(INTS) for _ in range(many))
        case AttributeProto.FLOATS:
            made.floats.extend(r.choice(FLOATS) for _ in range(many))
        case AttributeProto.STRINGS:
            made.strings.extend(r.choice(TEXTS).encode() for _ in range(many))
        case AttributeProto.TENSOR:
            made.t.CopyFrom(_constant(r, r.choice([1, 6, 7, 11]), "t"))
        case _:
            return False
    return True
