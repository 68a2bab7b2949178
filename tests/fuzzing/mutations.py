"""Mutations of ONNX models, as messages and as bytes."""

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, EncodeError, Message
from onnx import AttributeProto, TensorProto, helper

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
INTEGERS = (0, 1, -1, 2, 3, 7, 64, 127, 128, 255, 1 << 16, 2**31 - 1, 2**31, -(2**31), 1 << 40, INT64_MAX, INT64_MIN)
FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-45, 1e-8, 3.4e38, -3.4e38, float("inf"), float("-inf"), float("nan"))
TEXTS = (
    "", "x", "y", "0", "\0", "\n", "a\nerror: b", "\x1b[31mred", "\u202eevil", "../../escape", "/etc/passwd", "a" * 300,
    "<script>", "%s%n", "{}", "é", "\U0001f600", " ", "N", "ai.onnx", "ai.onnx.ml", "com.microsoft", "then_branch",
)  # fmt: skip
STRING_TYPES = {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES}
FLOAT_TYPES = {FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE}
MAX_MESSAGES = 4000  # of a model that are considered
NESTING = (1, 3, 10, 30)
SCHEMAS = sorted({(s.domain, s.name) for s in onnx.defs.get_all_schemas() if s.domain in {"", "ai.onnx.ml"}})

Mutation = Callable[[onnx.ModelProto, Random, Sequence[onnx.ModelProto]], None]


def mutate_model(model: onnx.ModelProto, rng: Random, donors: Sequence[onnx.ModelProto]) -> bytes:
    """The bytes of a model after one to three mutations of its messages."""
    data = model.SerializeToString()
    for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3))):
        with suppress(DecodeError, EncodeError):  # too deep for protobuf
            rng.choice(MUTATIONS)(model, rng, donors)
            data = model.SerializeToString()
    return data


def messages(root: Message) -> list[Message]:
    """The messages below a message, and itself, breadth first; at most MAX_MESSAGES."""
    found = [root]
    for message in found:
        for field, value in message.ListFields():
            if field.type == FieldDescriptor.TYPE_MESSAGE and len(found) < MAX_MESSAGES:
                found.extend(value if field.is_repeated else [value])
    return found


def pick(root: Message, kind: type[Message] | tuple[type[Message], ...], rng: Random) -> Any:
    """A random message of a kind; None if there is none."""
    found = [m for m in messages(root) if isinstance(m, kind)]
    return rng.choice(found) if found else None


def filled_field(root: Message, rng: Random) -> tuple[Message, FieldDescriptor] | None:
    """A message and one of its fields that have a value. Kinds of message are equally likely."""
    by_kind: dict[str, list[Message]] = {}
    for message in messages(root):
        if message.ListFields():
            by_kind.setdefault(message.DESCRIPTOR.name, []).append(message)
    if not by_kind:
        return None
    message = rng.choice(by_kind[rng.choice(sorted(by_kind))])
    return message, rng.choice([field for field, _ in message.ListFields()])


def extreme(field: FieldDescriptor, rng: Random) -> Any:
    """A value for a scalar field, often out of its usual range."""
    if field.type in FLOAT_TYPES:
        return rng.choice(FLOATS)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return rng.choice((b"", b"\0", b"\xff" * 5, b"a" * rng.choice((1, 3, 8, 100)), rng.choice(TEXTS).encode()))
    if field.type == FieldDescriptor.TYPE_STRING:
        return rng.choice(TEXTS)
    if field.type == FieldDescriptor.TYPE_UINT64:
        return rng.choice(INTEGERS) % 2**64
    if field.type in {FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_ENUM}:
        return rng.choice((*range(-1, 30), 99, 2**31 - 1, -(2**31)))
    return rng.choice(INTEGERS)


def drop_field(model: onnx.ModelProto, rng: Random, _: Sequence[onnx.ModelProto]) -> None:
    """Clear a field, or remove one of its elements."""
    if found := filled_field(model, rng):
        message, field = found
        if field.is_repeated and rng.random() < 0.8:
            values = getattr(message, field.name)
            del values[rng.randrange(len(values))]
        else:
            message.ClearField(field.name)


def repeat_element(model: onnx.ModelProto, rng: Random, _: Sequence[onnx.ModelProto]) -> None:
    """Repeat an element of a field, at the end."""
    if found := filled_field(model, rng):
        message, field = found
        if field.is_repeated:
            values = getattr(message, field.name)
            values.extend([rng.choice(values)] * rng.choice((1, 1, 2, 50)))


def swap_elements(model: onnx.ModelProto, rng: Random, _: Sequence[onnx.ModelProto]) -> None:
    """Exchange two elements of a field."""
    if found := filled_field(model, rng):
        message, field = found
        if field.is_repeated:
            values = list(getattr(message, field.name))
            i, j = rng.randrange(len(values)), rng.randrange(len(values))
            values[i], values[j] = values[j], values[i]
            message.ClearField(field.name)
            getattr(message, field.name).extend(values)


def set_extreme(model: onnx.ModelProto, rng: Random, _: Sequence[onnx.ModelProto]) -> None:
    """Set a scalar field that may have no value, or one element of it, to an extreme value."""
    chosen = filled_field(model, rng)
    if chosen is None:
        return
    message = chosen[0]
    fields = [f for f in message.DESCRIPTOR.fields if f.type != FieldDescriptor.TYPE_MESSAGE]
    if not fields:
        return
    field = rng.choice(fields)
    if not field.is_repeated:
        assign(message, field, extreme(field, rng))
        return
    values = getattr(message, field.name)
    if values and rng.random() < 0.7:
        assign(values, rng.randrange(len(values)), extreme(field, rng))
    else:
        values.extend([extreme(field, rng)])


def assign(target: Any, key: Any, value: Any) -> None:
    """Set a field or an element, unless its type refuses the value."""
    try:
        if isinstance(key, int):
            target[key] = value
        else:
            setattr(target, key.name, value)
    except (ValueError, TypeError):
        return


def splice(model: onnx.ModelProto, rng: Random, donors: Sequence[onnx.ModelProto]) -> None:
    """Replace a message by one of the same kind from this model or another: nodes, bodies, types, tensors."""
    target = pick(model, Message, rng)
    if target is None or (isinstance(target, onnx.ModelProto | onnx.GraphProto) and rng.random() < 0.5):
        return
    source = pick(rng.choice((model, *donors)), type(target), rng)
    if source is not None:
        copy = type(target)()
        copy.CopyFrom(source)
        target.CopyFrom(copy)


def merge(model: onnx.ModelProto, rng: Random, donors: Sequence[onnx.ModelProto]) -> None:
    """Add the fields of another message of the same kind to one."""
    target = pick(
        model, (onnx.NodeProto, onnx.AttributeProto, onnx.TypeProto, onnx.TensorProto, onnx.FunctionProto), rng
    )
    source = pick(rng.choice((model, *donors)), type(target), rng) if target is not None else None
    if source is not None:
        copy = type(target)()
        copy.CopyFrom(source)
        target.MergeFrom(copy)


def rewire(model: onnx.ModelProto, rng: Random, _: Sequence[onnx.ModelProto]) -> None:
    """Let a node read or write another value."""
    node = pick(model, onnx.NodeProto, rng)
    if node is None:
        return
    names = [name for m in messages(model) if isinstance(m, onnx.NodeProto) for name in (*m.input, *m.output)]
    edges = node.output if rng.random() < 0.15 else node.input
    name = rng.choice((*names, "", "unknown"))
    if edges and rng.random() < 0.8:
        edges[rng.randrange(len(edges))] = name
    else:
        edges.extend([name] * rng.choice((1, 1, 3)))


def change_op(model: onnx.ModelProto, rng: Random, _: Sequence[onnx.ModelProto]) -> None:
    """Make a node another operator."""
    node = pick(model, onnx.NodeProto, rng)
    if node is not None:
        node.domain, node.op_type = rng.choice(SCHEMAS)


def change_attribute(model: onnx.ModelProto, rng: Random, _: Sequence[onnx.ModelProto]) -> None:
    """Give a node an attribute of its operator with an extreme value, of the right type or of another."""
    node = pick(model, onnx.NodeProto, rng)
    if node is None or not onnx.defs.has(node.op_type, node.domain):
        return
    schema = onnx.defs.get_schema(node.op_type, domain=node.domain)
    if not schema.attributes:
        return
    name = rng.choice(sorted(schema.attributes))
    kind = int(schema.attributes[name].type) if rng.random() < 0.85 else rng.randrange(1, 15)
    attribute = AttributeProto(name=name, type=kind)  # type: ignore[arg-type]
    values: dict[int, Callable[[], dict[str, Any]]] = {
        AttributeProto.FLOAT: lambda: {"f": rng.choice(FLOATS)},
        AttributeProto.INT: lambda: {"i": rng.choice(INTEGERS)},
        AttributeProto.STRING: lambda: {"s": rng.choice(TEXTS).encode()},
        AttributeProto.TENSOR: lambda: {"t": pick(model, TensorProto, rng) or TensorProto()},
        AttributeProto.GRAPH: lambda: {"g": pick(model, onnx.GraphProto, rng)},
        AttributeProto.FLOATS: lambda: {"floats": rng.choices(FLOATS, k=count)},
        AttributeProto.INTS: lambda: {"ints": rng.choices(INTEGERS, k=count)},
        AttributeProto.STRINGS: lambda: {"strings": [t.encode() for t in rng.choices(TEXTS, k=count)]},
    }
    count = rng.choice((0, 1, 2, 4, 5, 2000))
    attribute.MergeFrom(AttributeProto(**values[kind]() if kind in values else {}))
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, attribute])


def change_numbers(model: onnx.ModelProto, rng: Random, _: Sequence[onnx.ModelProto]) -> None:
    """Put extreme numbers into a tensor, whose size stays the same."""
    tensor = pick(model, TensorProto, rng)
    if tensor is None or not tensor.raw_data:
        return
    formats = {TensorProto.INT64: "<q", TensorProto.FLOAT: "<f", TensorProto.INT32: "<i", TensorProto.DOUBLE: "<d"}
    form = formats.get(tensor.data_type, "B")
    size, data = struct.calcsize(form), bytearray(tensor.raw_data)
    for _ in range(rng.choice((1, 1, 2, len(data) // size))):
        if len(data) < size:
            return
        at = rng.randrange(len(data) // size) * size
        numbers = FLOATS if form in {"<f", "<d"} else INTEGERS
        bits = 8 * size
        number = rng.choice(numbers)
        if isinstance(number, int):
            number = number % 2**bits
            number = number - 2**bits if form != "B" and number >= 2 ** (bits - 1) else number
        data[at : at + size] = struct.pack(form, number)
    tensor.raw_data = bytes(data)


def change_storage(model: onnx.ModelProto, rng: Random, _: Sequence[onnx.ModelProto]) -> None:
    """Change the type, dims, data or place of a tensor, so that they disagree."""
    tensor = pick(model, TensorProto, rng)
    if tensor is None:
        return
    match rng.randrange(6):
        case 0:
            tensor.data_type = rng.choice((*range(-1, 30), 99))
        case 1:
            del tensor.dims[:]
            tensor.dims.extend(rng.choice(INTEGERS) for _ in range(rng.choice((0, 1, 2, 5, 70))))
        case 2:
            tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data) + 1)] + b"\1" * rng.choice((0, 1, 8))
        case 3:
            tensor.float_data.extend(rng.choice(FLOATS) for _ in range(3))
            tensor.int64_data.extend(rng.choice(INTEGERS) for _ in range(2))
        case 4:
            tensor.data_location = TensorProto.EXTERNAL
            for key in ("location", "offset", "length", "checksum", "basepath"):
                if rng.random() < 0.7:
                    value = rng.choice(
                        (*map(str, INTEGERS), *TEXTS, "weights.bin", "m.onnx", "../m.onnx", "pipe", "link")
                    )
                    tensor.external_data.add(
                        key=key, value="weights.bin" if key == "location" and rng.random() < 0.5 else value
                    )
        case _:
            tensor.segment.begin, tensor.segment.end = rng.choice(INTEGERS), rng.choice(INTEGERS)


def make_sparse(model: onnx.ModelProto, rng: Random, _: Sequence[onnx.ModelProto]) -> None:
    """Add a sparse initializer, under the name of a dense one or of an input."""
    graph = pick(model, onnx.GraphProto, rng)
    if graph is None:
        return
    sparse = graph.sparse_initializer.add()
    count = rng.choice((0, 1, 3))
    sparse.values.CopyFrom(helper.make_tensor("s", rng.choice((1, 7)), [count], [1] * count))
    names = [i.name for i in (*graph.initializer, *graph.input)]
    sparse.values.name = rng.choice((*names, "s", ""))
    indices = [rng.choice((0, 1, 2, 5, -1, INT64_MAX)) for _ in range(count * rng.choice((1, 1, 2)))]
    sparse.indices.CopyFrom(helper.make_tensor("i", 7, [len(indices)], indices))
    sparse.dims.extend(rng.choice(INTEGERS) for _ in range(rng.choice((0, 1, 2, 3))))


def change_type(model: onnx.ModelProto, rng: Random, _: Sequence[onnx.ModelProto]) -> None:
    """Wrap the type of a value in sequences, optionals or maps, or make its dims extreme."""
    kind = pick(model, onnx.TypeProto, rng)
    if kind is None:
        return
    inner = onnx.TypeProto()
    inner.CopyFrom(kind)
    choice = rng.randrange(5)
    for _ in range(rng.choice((1, 1, 2, 30))):
        outer = onnx.TypeProto()
        if choice == 0:
            outer.sequence_type.elem_type.CopyFrom(inner)
        elif choice == 1:
            outer.optional_type.elem_type.CopyFrom(inner)
        elif choice == 2:
            outer.map_type.key_type = rng.choice((1, 7, 8, 0))
            outer.map_type.value_type.CopyFrom(inner)
        else:
            outer.tensor_type.elem_type = rng.choice(range(30))
            for _ in range(rng.choice((0, 1, 2, 4, 9))):
                dim = outer.tensor_type.shape.dim.add()
                if rng.random() < 0.5:
                    dim.dim_value = rng.choice(INTEGERS)
                elif rng.random() < 0.8:
                    dim.dim_param = rng.choice(TEXTS)
        inner = outer
    kind.CopyFrom(inner)


def change_versions(model: onnx.ModelProto, rng: Random, _: Sequence[onnx.ModelProto]) -> None:
    """Change the versions of the format and of the operators."""
    if rng.random() < 0.3:
        model.ir_version = rng.choice((*range(14), INT64_MAX, -1))
    elif model.opset_import and rng.random() < 0.9:
        rng.choice(model.opset_import).version = rng.choice((*range(30), *INTEGERS))
    else:
        model.opset_import.add(domain=rng.choice(TEXTS), version=rng.choice(range(30)))


def nest_in_branches(model: onnx.ModelProto, rng: Random, _: Sequence[onnx.ModelProto]) -> None:
    """Move the nodes of the graph into branches of If, many levels deep."""
    graph = model.graph
    if not graph.output or not graph.node:
        return
    body = helper.make_graph(list(graph.node), "body", [], list(graph.output))
    names = [o.name for o in graph.output]
    condition = helper.make_tensor("condition_" + str(rng.randrange(9)), TensorProto.BOOL, [], [True])
    for level in range(rng.choice(NESTING)):
        inner = [f"{name}_{level}" for name in names]
        node = helper.make_node("If", [condition.name], inner)
        node.attribute.add(name="then_branch", type=AttributeProto.GRAPH).g.CopyFrom(body)
        node.attribute.add(name="else_branch", type=AttributeProto.GRAPH).g.CopyFrom(onnx.GraphProto(name="empty"))
        if level == 0:
            node.attribute[1].g.CopyFrom(body)
        body = helper.make_graph([node], f"level_{level}", [], [onnx.ValueInfoProto(name=n) for n in inner])
    del graph.node[:]
    graph.node.extend(body.node)
    graph.initializer.append(condition)
    for output, name in zip(graph.output, body.node[0].output, strict=True):
        output.name = name


def add_functions(model: onnx.ModelProto, rng: Random, _: Sequence[onnx.ModelProto]) -> None:
    """Let a node call a function that calls others, twice each, or itself."""
    node = pick(model.graph, onnx.NodeProto, rng)
    if node is None:
        return
    depth, is_recursive = rng.choice((1, 3, 6, 12, 25)), rng.random() < 0.2
    if not any(o.domain == "fuzz" for o in model.opset_import):
        model.opset_import.add(domain="fuzz", version=1)
    for level in range(depth):
        body = [helper.make_node("Identity", ["a"], ["b"])]
        if level or is_recursive:
            callee = f"f{level - 1}" if level else f"f{depth - 1}"
            body = [helper.make_node(callee, [a], [b], domain="fuzz") for a, b in (("a", "t"), ("t", "b"))]
        model.functions.append(helper.make_function("fuzz", f"f{level}", ["a"], ["b"], body, [
            helper.make_opsetid("", 17), helper.make_opsetid("fuzz", 1),
        ]))  # fmt: skip
    node.op_type, node.domain = f"f{depth - 1}", "fuzz"


def grow(model: onnx.ModelProto, rng: Random, _: Sequence[onnx.ModelProto]) -> None:
    """Add a chain of constants that doubles at each node: numbers, sequences or texts."""
    kind, count = rng.choice(("tensor", "sequence", "text")), rng.choice((8, 30, 60))
    nodes = [helper.make_node("Constant", [], ["grow_0"], value_ints=list(range(64)))]
    if kind == "text":
        nodes = [helper.make_node("Constant", [], ["grow_0"], value_strings=[b"abcdefgh"])]
    for i in range(count):
        a, b = f"grow_{i}", f"grow_{i + 1}"
        if kind == "sequence":
            nodes.append(helper.make_node("SequenceConstruct", [a, a], [f"{b}_s"]))
            nodes.append(helper.make_node("ConcatFromSequence", [f"{b}_s"], [b], axis=0))
        elif kind == "text":
            nodes.append(helper.make_node("StringConcat", [a, a], [b]))
        else:
            nodes.append(helper.make_node("Concat", [a, a], [b], axis=0))
    model.graph.node.extend(nodes)
    if rng.random() < 0.5:
        element = TensorProto.STRING if kind == "text" else TensorProto.INT64
        model.graph.output.append(helper.make_tensor_value_info(f"grow_{count}", element, None))
    elif rng.random() < 0.5 and kind != "text":
        model.graph.node.append(helper.make_node("ReduceMax", [f"grow_{count}"], ["grown"], keepdims=0))
        model.graph.output.append(helper.make_tensor_value_info("grown", TensorProto.INT64, None))


MUTATIONS: tuple[Mutation, ...] = (
    *(drop_field, drop_field, repeat_element, swap_elements, set_extreme, set_extreme, splice, splice, merge),
    *(rewire, rewire, change_op, change_op, change_attribute, change_attribute, change_attribute),
    *(change_numbers, change_numbers, change_numbers, change_storage, make_sparse, change_type),
    *(change_versions, nest_in_branches, add_functions, grow),
)


def varint(number: int) -> bytes:
    """A number in the encoding of protobuf."""
    data = bytearray()
    number %= 2**64
    while number > 127:
        data.append(number & 127 | 128)
        number >>= 7
    return bytes((*data, number))


def read_varint(data: bytes, at: int) -> tuple[int, int] | None:
    """A number in the encoding of protobuf, and the place behind it."""
    number = shift = 0
    while at < len(data) and shift < 70:
        byte = data[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
    return None


def wire_fields(data: bytes, start: int, end: int, depth: int = 0) -> Iterator[tuple[int, int, int]]:
    """The fields of length-delimited messages, nested ones too: where tag, content and end of each are."""
    at = start
    while at < end:
        tag = read_varint(data, at)
        if tag is None or tag[0] >> 3 == 0:
            return
        value = read_varint(data, tag[1])
        match tag[0] & 7:
            case 0 if value:
                yield at, tag[1], value[1]
                at = value[1]
            case 2 if value and value[1] + value[0] <= end:
                yield at, value[1], value[1] + value[0]
                if depth < 8 and value[0] < 100_000:
                    yield from wire_fields(data, value[1], value[1] + value[0], depth + 1)
                at = value[1] + value[0]
            case 5:
                at = tag[1] + 4
            case 1:
                at = tag[1] + 8
            case _:
                return


def mutate_bytes(data: bytes, rng: Random) -> bytes:
    """A serialized message with a damaged tag, length, number or byte, cut, or with fields that the format lacks."""
    places = [place for place, _ in zip(wire_fields(data, 0, len(data)), range(MAX_MESSAGES), strict=False)]
    if not places:
        return data + b"\0"
    tag, content, end = rng.choice(places)
    at, other = rng.randrange(len(data)), rng.randrange(len(data))
    byte, number = rng.choice((0, 1, 127, 128, 255)), rng.choice((*INTEGERS, 0xFFFFFFFF, end - content + 1))
    nested = data[tag:end]
    depth = rng.choice((20, 45, 60, 3000))
    for _ in range(depth):
        nested = delimited(7, nested)
    return rng.choice((
        data[:at],
        data[:at] + bytes([byte]) + data[at + 1 :],
        data[:at] + data[other:],
        data[:tag] + bytes([data[tag] & 0xF8 | rng.randrange(8)]) + data[tag + 1 :],  # another wire type
        data[:tag] + varint(rng.randrange(1, 40) << 3 | data[tag] & 7) + data[tag + 1 :],  # another field
        data[: tag + 1] + varint(number) + data[content:],  # another length or number
        data[:tag] + delimited(rng.choice((999, 536870911)), b"abc") + data[tag:],  # an unknown field
        data[:end] + data[tag:end] + data[end:],
        data + nested,
        data + deep_graph(depth),
    ))  # fmt: skip


def deep_graph(depth: int) -> bytes:
    """The field `graph` of a model, with a node in a body in a node, and so on; protobuf takes 100 messages."""
    graph = b""
    for _ in range(depth):  # GraphProto.node, NodeProto.attribute, AttributeProto.g
        attribute = delimited(1, b"then_branch") + varint(20 << 3) + varint(5) + delimited(6, graph)
        graph = delimited(1, delimited(4, b"If") + delimited(5, attribute))
    return delimited(7, graph)


def delimited(number: int, content: bytes) -> bytes:
    """A field of protobuf with a length."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def as_model(data: bytes) -> onnx.ModelProto | None:
    """The message of some bytes; None if they are none."""
    try:
        return onnx.ModelProto.FromString(data)
    except DecodeError:
        return None
