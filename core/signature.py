"""What a model asks of its inputs: types, extents that go together, and the range of integers that make sense."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import onnx

from .graph import Graph
from .model import Model
from .tensor import Tensor
from .values import Dim, Op, Value

Sizes = dict[str, int]

# Inputs of operators whose values are handed on as they are, by operator.
HANDS_ON: dict[str, tuple[int, ...] | None] = {
    "Identity": None, "Cast": None, "Unsqueeze": (0,), "Squeeze": (0,), "Reshape": (0,), "Transpose": None,
    "Flatten": None, "Slice": (0,), "Expand": (0,), "Gather": (0,), "Concat": None, "Split": (0,), "Tile": (0,),
    "Where": (1, 2), "Clip": (0,), "Dropout": (0,), "Add": None, "Sub": (0,), "Max": None, "Min": None,
}  # fmt: skip
INDEXES = {"Gather": 1, "GatherElements": 1, "GatherND": 1, "ScatterElements": 1, "Scatter": 1, "ScatterND": 1}
EXTENTS: dict[str, tuple[int, ...]] = {
    "Reshape": (1,), "Expand": (1,), "ConstantOfShape": (0,), "Range": (0, 1, 2), "Tile": (1,), "TopK": (1,),
    "Slice": (1, 2, 3, 4), "Pad": (1,), "Split": (1,), "Loop": (0,), "OneHot": (1,), "Resize": (3,),
}  # fmt: skip
LOOKS_FAR_ENOUGH = 400  # ops followed from an input before giving up


@dataclass(frozen=True, slots=True)
class Role:
    """What an input's values are for: `bound` limits an index, `words` are the strings it is compared with."""

    kind: str = "free"  # free, index, extent or truth
    bound: Dim = None
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Input:
    """One input: `shape` holds numbers and symbols; an unnamed dim is a symbol of its own."""

    name: str
    dtype: int
    shape: tuple[int | str, ...]
    role: Role
    default: Tensor | None = None
    form: str = "tensor"  # tensor, sequence or optional


def signature(model: Model) -> list[Input]:
    """The inputs of a model, in order, overridable ones last."""
    graph = model.graph
    required = [v for v in graph.inputs if v not in graph.defaults]
    return [_described(graph, v) for v in (*required, *graph.defaults)]


def _described(graph: Graph, value: Value) -> Input:
    form, (dtype, shape) = "tensor", value.stated
    if value.type is not None:
        form, tensor_type = _inner(value.type)
        value = Value(value.name, tensor_type.elem_type)
        dims = [d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor_type.shape.dim]
        dtype, shape = tensor_type.elem_type, tuple(dims)
    symbolic = tuple(_unnamed(value.name, i) if d is None else d for i, d in enumerate(shape or ()))
    return Input(value.name, dtype, symbolic, _role(value), graph.defaults.get(value), form)


def _unnamed(name: str, axis: int) -> str:
    """A symbol for a dim without one. First dims are taken to be the batch, and so the same in all inputs."""
    return f"{name}[{axis}]" if axis else "[0]"


def _inner(proto: onnx.TypeProto) -> tuple[str, onnx.TypeProto.Tensor]:
    """The form of a type, and the tensors it is made of; an empty type where there are none."""
    if proto.HasField("sequence_type"):
        return "sequence", proto.sequence_type.elem_type.tensor_type
    if proto.HasField("optional_type"):
        inner = proto.optional_type.elem_type
        return ("optional", inner.tensor_type) if inner.HasField("tensor_type") else ("other", onnx.TypeProto.Tensor())
    return "other", onnx.TypeProto.Tensor()


def _role(value: Value) -> Role:
    """The narrowest role among the consumers of `value` and of what hands it on."""
    words: list[str] = []
    found = Role()
    for op, index in _readers(value):
        if op.domain == "ai.onnx.ml":
            words += _vocabulary(op)
        elif INDEXES.get(op.type) == index:
            found = _narrower(found, Role("index", _bound(op)))
        elif op.type == "OneHot" and index == 0:
            depth = op.input(1)
            is_fixed = depth is not None and depth.is_const
            found = _narrower(found, Role("index", int(depth.const.reshape(-1)[0]) if is_fixed and depth else None))
        elif index in EXTENTS.get(op.type, ()):
            found = _narrower(found, Role("extent"))
        elif op.type == "If" or (op.type == "Cast" and op.attr("to") == onnx.TensorProto.BOOL):
            found = _narrower(found, Role("truth"))
    return Role(found.kind, found.bound, tuple(dict.fromkeys(words)))


def _readers(value: Value) -> Iterator[tuple[Op, int]]:
    """The ops that see the elements of `value`, directly or handed on, with the index of the input."""
    queue, seen = [value], {value}
    for v in queue:
        for op in v.uses:
            for index in (i for i, other in enumerate(op.inputs) if other is v):
                yield op, index
                carries = HANDS_ON.get(op.type, ())
                if op.type in HANDS_ON and (carries is None or index in carries) and len(seen) < LOOKS_FAR_ENOUGH:
                    fresh = [o for o in op.outputs if o not in seen]
                    seen.update(fresh)
                    queue += fresh


def _bound(op: Op) -> Dim:
    """The extent that an index input of `op` runs over."""
    data = op.input(0)
    shape = data.known_shape if data is not None else None
    if not shape:
        return None
    if op.type in {"GatherND", "ScatterND"}:
        known = [d for d in shape if isinstance(d, int)]
        return min(known) if len(known) == len(shape) else None
    return shape[int(op.attr("axis", 0))]


def _narrower(a: Role, b: Role) -> Role:
    if a.kind == "free" or (b.kind == "index" and a.kind != "index"):
        return b
    if a.kind == b.kind == "index":
        bounds = [x for x in (a.bound, b.bound) if isinstance(x, int)]
        return Role("index", min(bounds) if len(bounds) == 2 else a.bound if isinstance(b.bound, int) else b.bound)
    return a


def _vocabulary(op: Op) -> list[str]:
    """The strings that an ai.onnx.ml op compares its input with."""
    found: list[str] = []
    for name in ("keys_strings", "cats_strings", "classes_strings", "string_vocabulary"):
        found += [str(s) for s in op.attr(name) or ()]
    return found


OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: int.__add__, ast.Sub: int.__sub__, ast.Mult: int.__mul__, ast.FloorDiv: int.__floordiv__,
    ast.Div: int.__floordiv__,
}  # fmt: skip


def symbols(inputs: list[Input]) -> list[str]:
    """The free symbols of all shapes, in order. `past + 1` is a name of its own unless `past` is a dim elsewhere."""
    plain = {d for i in inputs for d in i.shape if isinstance(d, str) and _names(d) == [d]}
    found: dict[str, None] = {}
    for d in (d for i in inputs for d in i.shape if isinstance(d, str)):
        names = _names(d)
        found.update(dict.fromkeys(names if plain.issuperset(names) else [d]))
    return list(found)


def extent(dim: int | str, sizes: Sizes) -> int:
    """A dim in numbers; exporters write sums and products of symbols as the name of a dim."""
    if isinstance(dim, int):
        return dim
    if dim in sizes:
        return sizes[dim]
    tree = _parsed(dim)
    return max(_value(tree, sizes), 0) if tree is not None else 1


def _parsed(text: str) -> ast.expr | None:
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    allowed = ast.BinOp | ast.Name | ast.Constant | ast.operator | ast.expr_context
    return tree if all(isinstance(n, allowed) for n in ast.walk(tree)) and _computable(tree) else None


def _computable(tree: ast.expr) -> bool:
    if isinstance(tree, ast.BinOp):
        return type(tree.op) in OPERATORS and _computable(tree.left) and _computable(tree.right)
    return isinstance(tree, ast.Name) or (isinstance(tree, ast.Constant) and isinstance(tree.value, int))


def _names(dim: str) -> list[str]:
    tree = _parsed(dim)
    return [dim] if tree is None else [n.id for n in ast.walk(tree) if isinstance(n, ast.Name)]


def _value(tree: ast.expr, sizes: Sizes) -> int:
    if isinstance(tree, ast.BinOp):
        left, right = _value(tree.left, sizes), _value(tree.right, sizes)
        return OPERATORS[type(tree.op)](left, right) if right or not isinstance(tree.op, ast.FloorDiv | ast.Div) else 0
    if isinstance(tree, ast.Name):
        return sizes.get(tree.id, 1)
    return int(tree.value) if isinstance(tree, ast.Constant) and isinstance(tree.value, int) else 1
