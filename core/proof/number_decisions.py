"""Decisions of code without a comparison: quotients, remainders, extremes, signs and entries of tables.

Each yields the outcomes that its operands have, and all possible outcomes. Operands that are not numbers decide
nothing. A function of numbers that is neither known nor a formula has an outcome that never occurs.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import BuiltinFunctionType, ModuleType
from typing import Any, cast

import numpy as np
from msgspec import Struct

Outcomes = tuple[Sequence[str], Sequence[str]]
"""The outcomes that occur, and all possible outcomes."""
NOTHING: Outcomes = (), ()
UNKNOWN: Outcomes = (), ("other numbers",)
"""An outcome that never occurs."""
NUMBER, TWO, THREE = "number ", "two numbers", "three numbers"
"""The start of an outcome that is a number, and outcomes that occur where as many others of a place do."""
CHANGING = frozenset({
    "__next__", "add", "append", "appendleft", "clear", "discard", "extend", "extendleft", "heappop", "heappush",
    "insert", "next", "pop", "popitem", "popleft", "random", "remove", "reverse", "rotate", "send", "setdefault",
    "sort", "update",
})  # fmt: skip
"""Names of functions that are not called again."""


class NumberDecision(Struct, frozen=True):
    """The operands of a decision, as a tuple, and its outcomes for given operands."""

    operands: ast.expr
    outcomes: Callable[..., Outcomes]


def outcomes_of(decide: Callable[..., Outcomes], operands: Sequence[Any]) -> Outcomes:
    """The outcomes of a decision; small arrays of integers have outcomes for each element."""
    are_arrays = (type(v) is np.ndarray and v.dtype.kind in "iu" and v.size <= MAX_ARRAY for v in operands)
    if decide in (entry, narrowed, unlisted) or not any(are_arrays):
        return decide(*operands)
    try:
        elements = np.broadcast(*operands)
    except ValueError:
        return NOTHING
    return _joined(*(decide(*numbers) for numbers in elements))


def quotient(a: Any, b: Any) -> Outcomes:
    """Quotients of 0, 1 and more, with and without a remainder."""
    return NOTHING if not are_numbers(a, b) or not b else _joined(_steps(a, b), _rest(a, b))


def whole_quotient(a: Any, b: Any) -> Outcomes:
    """Quotients of 1 and more for a number that is a multiple."""
    if not are_numbers(a, b) or not b:
        return NOTHING
    taken, _ = _steps(a, b)
    return taken, ("1", "more")


def remainder(a: Any, b: Any) -> Outcomes:
    """Whether a number equals its remainder, and whether there is a remainder."""
    if not are_numbers(a, b) or not b:
        return NOTHING
    return _joined(((["itself"] if a % b == a else ["less"]), ("itself", "less")), _rest(a, b))


def shifted(a: Any, bits: Any) -> Outcomes:
    """The quotients by a power of two."""
    return quotient(a, 1 << bits) if are_numbers(a, bits) and 0 <= bits < MAX_BITS else NOTHING


def whole_part(a: Any, *_: Any) -> Outcomes:
    """The quotients by one."""
    return quotient(a, 1)


def stepped(first: Any, end: Any = None, step: Any = 1) -> Outcomes:
    """The numbers in a range, and its steps if these are more than 1."""
    if end is None:
        first, end = 0, first
    if not are_numbers(first, end, step) or not step:
        return NOTHING
    count = max(0, -(-(end - first) // step))
    return repeated(count) if abs(step) == 1 else _joined(repeated(count), quotient(end - first, step))


def varied(*numbers: Any) -> Outcomes:
    """Three whole numbers, which show more about a formula than one."""
    found = [f"{NUMBER}{int(n)}" for n in numbers if are_numbers(n) and float(n).is_integer()]
    return found, [THREE] if found else []


def repeated(count: int) -> Outcomes:
    """The trips of a loop: even and odd ones, and three numbers of trips."""
    return _joined(varied(count), (["odd" if count % 2 else "even"], ("even", "odd")))


def extent(shape: Any, at: Any) -> Outcomes:
    """Two extents that are chosen, and whether one differs from the others of its shape."""
    if not isinstance(shape, tuple) or not are_numbers(at, *shape):
        return NOTHING
    sizes = cast("tuple[int, ...]", shape)
    unlike = ["unlike others"] if sizes.count(sizes[at]) == 1 else []
    return [f"{NUMBER}{sizes[at]}", *unlike], (TWO, "unlike others")


def rank(number: Any) -> Outcomes:
    """Two ranks."""
    return ([f"{NUMBER}{number}"], (TWO,)) if are_numbers(number) else NOTHING


def narrowed(function: Any, options: Mapping[str, Any], *operands: Any) -> Outcomes:
    """Whether a number converted to fewer bits keeps its value."""
    owner = getattr(function, "__self__", None)
    given = owner if are_numbers(owner) else operands[0] if operands else None
    if not are_numbers(given) or not (isinstance(function, NATIVE) or owner is given):
        return NOTHING
    made = np.asarray(function(*operands, **options))
    if made.dtype.itemsize > NARROW_BYTES:
        return NOTHING
    return ["kept" if made == given else "rounded"], ("kept", "rounded")


def unlisted(function: Any, _: Mapping[str, Any], *operands: Any) -> Outcomes:
    """An outcome that never occurs, for a function of numbers without Python code."""
    owner = getattr(function, "__self__", None)
    numbers = (owner, *operands) if are_numbers(owner) else operands
    is_known = isinstance(function, NATIVE) and (owner is None or isinstance(owner, ModuleType) or are_numbers(owner))
    return UNKNOWN if is_known and numbers and are_numbers(*numbers) else NOTHING


def unknown() -> Outcomes:
    """An outcome that never occurs, for a decision that cannot be evaluated again."""
    return UNKNOWN


def masked(a: Any, b: Any) -> Outcomes:
    """Whether none, some or all of a number's bits are in a mask."""
    if not isinstance(a, int) or not isinstance(b, int):
        return NOTHING
    return ["none" if not a & b else "all" if a & b == a else "some"], ("none", "some", "all")


def emptiness(count: Any) -> Outcomes:
    """Whether there is anything."""
    return ["some" if count else "nothing"], ("nothing", "some")


def sign(a: Any) -> Outcomes:
    """The signs of a number."""
    if not are_numbers(a):
        return NOTHING
    return ["negative"] if a < 0 else ["positive"] if a > 0 else [], ("negative", "positive")


def least(*operands: Any) -> Outcomes:
    """The operand that is lower than all others."""
    return _extreme(operands, -1)


def greatest(*operands: Any) -> Outcomes:
    """The operand that is greater than all others."""
    return _extreme(operands, 1)


def clipped(a: Any, low: Any, high: Any) -> Outcomes:
    """Whether a number is below, between or above its bounds."""
    if not are_numbers(a, low, high):
        return NOTHING
    return ["below" if a < low else "above" if a > high else "between"], ("below", "between", "above")


def entry(table: Any, key: Any, *default: Any) -> Outcomes:
    """The entries of a table; with a default, also a key that has none."""
    if isinstance(table, Mapping):
        keys = [repr(k) for k in cast("Mapping[Any, Any]", table)]
        return [repr(key) if repr(key) in keys else "none"], [*keys, *(["none"] if default else [])]
    if not are_numbers(key) or not isinstance(table, Sequence | np.ndarray):
        return NOTHING
    count = len(cast("Sequence[Any]", table))
    return [str(int(key) % count) if count else "none"], [*map(str, range(count))]


MAX_BITS = 64
NARROW_BYTES = 2  # of numbers that cannot represent all extents
MAX_ARRAY = 16  # elements of an array that can decide
NATIVE: tuple[type[Any], ...] = BuiltinFunctionType, np.ufunc, type, type(cast("object", np.isclose))
"""The types of functions without Python code, including NumPy's."""
OPERATORS: Mapping[type[ast.operator], Callable[..., Outcomes]] = {
    ast.FloorDiv: quotient,
    ast.Mod: remainder,
    ast.RShift: shifted,
    ast.BitAnd: masked,
}
FUNCTIONS: Mapping[str, Callable[..., Outcomes]] = {
    **dict.fromkeys(("min", "minimum"), least),
    **dict.fromkeys(("max", "maximum", "sorted"), greatest),
    **dict.fromkeys(("abs", "fabs", "sign"), sign),
    **dict.fromkeys(("divmod", "floor_divide"), quotient),
    **dict.fromkeys(("mod", "fmod", "remainder"), remainder),
    **dict.fromkeys(("arange", "range"), stepped),
    **dict.fromkeys(("pow", "power", "square"), varied),
    "clip": clipped,
}
ROUNDING = frozenset({"ceil", "floor", "int", "rint", "round", "trunc"})
CONVERTING = frozenset({"array", "asarray", "astype", "bfloat16", "float16", "half", "int16", "int8", "uint8"})
CURVES = frozenset({
    "acos", "asin", "atan", "cbrt", "cos", "cosh", "erf", "exp", "expm1", "log", "log10", "log1p", "log2", "sin",
    "sinh", "sqrt", "tan", "tanh",
})  # fmt: skip
FORMULAS = ROUNDING | CURVES | {
    "bool", "enumerate", "float", "float32", "float64", "full", "int32", "int64", "isinstance", "len", "list", "ones",
    "prod", "set", "slice", "sum", "tuple", "zeros", "zip",
}  # fmt: skip
"""Functions that are the same formula for all numbers, or contain them."""


def are_numbers(*values: Any) -> bool:
    """Whether all values are numbers, and not bools."""
    return all(isinstance(v, int | float | np.integer | np.floating) and not isinstance(v, bool) for v in values)


def _joined(*parts: Outcomes) -> Outcomes:
    return [o for taken, _ in parts for o in taken], [o for _, known in parts for o in known]


def _steps(a: Any, b: Any) -> Outcomes:
    size = abs(a / b)
    return ["0" if size < 1 else "1" if size < 2 else "more"], ("0", "1", "more")


def _rest(a: Any, b: Any) -> Outcomes:
    return ["rest" if a % b else "no rest"], ("rest", "no rest")


def _extreme(operands: Sequence[Any], side: int) -> Outcomes:
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = cast("Sequence[Any]", operands[0])
    if len(operands) < 2 or not are_numbers(*operands):
        return NOTHING
    best = max(side * n for n in operands)
    found = [str(i) for i, n in enumerate(operands) if side * n == best]
    return found if len(found) == 1 else (), [*map(str, range(len(operands)))]


def decisions_of(function: ast.FunctionDef | ast.Lambda, tested: set[int]) -> Iterator[tuple[ast.AST, NumberDecision]]:
    """Yield the decisions of a function in parts that are not `tested` as a whole, by their node."""
    nodes = [*ast.walk(function)]
    multiples = set(_tested_multiples(nodes, tested))
    local = {a.arg for n in nodes if isinstance(n, ast.arguments) for a in (*n.posonlyargs, *n.args, *n.kwonlyargs)}
    local |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    local -= _local_constants(nodes, local)
    shapes = {target.id: shape for target, shape in _assigned_shapes(nodes) if isinstance(target, ast.Name)}
    read = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and id(n) not in tested}
    yield from ((name, d) for name, d in _unpacked_extents(nodes) if name.id in read)
    for node in nodes:
        if id(node) in tested:
            continue
        found = _decision(node, local)
        if found is None and isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
            is_extent = node.value.id in shapes and isinstance(node.ctx, ast.Load) and not _is_slice(node.slice)
            found = NumberDecision(_tuple(node.value, node.slice), extent) if is_extent else None
        if found is None:
            continue
        if found.outcomes is quotient and ast.dump(found.operands) in multiples:
            found = NumberDecision(found.operands, whole_quotient)
        yield node, found


def _assigned_shapes(nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.expr, ast.Attribute]]:
    """Yield the targets of assignments of a shape, with the shape."""
    for node in nodes:
        match node:
            case ast.Assign(
                targets=[target], value=ast.Attribute(attr="shape" | "static_shape" | "known_shape") as shape
            ):
                yield target, shape
            case _:
                pass


def _unpacked_extents(nodes: Sequence[ast.AST]) -> Iterator[tuple[ast.Name, NumberDecision]]:
    """Yield the extents that an assignment gives names."""
    for target, shape in _assigned_shapes(nodes):
        names = target.elts if isinstance(target, ast.Tuple | ast.List) else []
        for i, name in enumerate(names):
            at = i - len(names) if any(isinstance(n, ast.Starred) for n in names[:i]) else i
            if isinstance(name, ast.Name):
                yield name, NumberDecision(_tuple(shape, ast.Constant(at)), extent)


def _decision(node: ast.AST, local: set[str]) -> NumberDecision | None:
    match node:
        case ast.BinOp(op=ast.Pow()):
            return _of_variables([node.left, node.right], local)
        case ast.BinOp(op=ast.Mult()) if ast.dump(node.left) == ast.dump(node.right):
            return _of_variables([node.left], local)
        case ast.BinOp() if type(node.op) in OPERATORS:
            return NumberDecision(_tuple(node.left, node.right), OPERATORS[type(node.op)])
        case ast.AugAssign(target=ast.Name(id=name)) if type(node.op) in OPERATORS:
            return NumberDecision(_tuple(ast.Name(name, ast.Load()), node.value), OPERATORS[type(node.op)])
        case ast.Attribute(attr="rank"):
            return NumberDecision(_tuple(node), rank)
        case ast.Subscript(value=ast.Attribute(attr="shape" | "static_shape" | "known_shape") as shape) if (
            not _is_slice(node.slice)
        ):
            return NumberDecision(_tuple(shape, node.slice), extent)
        case ast.Subscript(ctx=ast.Load()) if not (_is_slice(node.slice) or isinstance(node.slice, ast.Constant)):
            return _of_table(node.value, [node.slice], local)
        case ast.Call():
            return _of_call(_name_of(node), node, local)
        case _:
            return None


def _is_slice(node: ast.expr) -> bool:
    return isinstance(node, ast.Slice | ast.Tuple)


def _of_call(name: str, node: ast.Call, local: set[str]) -> NumberDecision | None:
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[ast.Subscript(slice=ast.Slice())]):
            return NumberDecision(_tuple(node), emptiness)
        case ast.Call(func=ast.Attribute(attr="get", value=table), keywords=[]):
            return _of_table(table, node.args, local)
        case _:
            pass
    inner = [n for a in node.args for n in ast.walk(a)]
    is_computed = any(isinstance(n, ast.BinOp) or (isinstance(n, ast.Call) and _name_of(n) in CURVES) for n in inner)
    outcomes = FUNCTIONS.get(name, whole_part if name in ROUNDING and is_computed else None)
    if outcomes is varied:
        return _of_variables(node.args, local)
    if outcomes is not None and node.args and not node.keywords:
        return NumberDecision(_tuple(*map(_listed, node.args)), outcomes)
    if outcomes is not None or name in FORMULAS:
        return None
    names: list[ast.expr | None] = [ast.Constant(k.arg) if k.arg else None for k in node.keywords]
    options = ast.Dict(names, [k.value for k in node.keywords])
    return NumberDecision(_tuple(node.func, options, *node.args), narrowed if name in CONVERTING else unlisted)


def _of_variables(operands: Sequence[ast.expr], local: set[str]) -> NumberDecision:
    """A formula of the operands that are not constants."""
    return NumberDecision(_tuple(*(o for o in operands if not _is_constant(o, local))), varied)


def _name_of(call: ast.Call) -> str:
    """The name of a function as written in its call."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _of_table(table: ast.expr, key: Sequence[ast.expr], local: set[str]) -> NumberDecision | None:
    """An entry of a table that is written there, or depends on nothing local; other tables are data."""
    if isinstance(table, ast.List | ast.Tuple) and not any(isinstance(e, ast.Starred) for e in table.elts):
        table = ast.Tuple([ast.Constant(0) for _ in table.elts], ast.Load())
    elif isinstance(table, ast.Dict) and None not in table.keys:
        table = ast.Dict(table.keys, [ast.Constant(0) for _ in table.keys])
    elif not _is_constant(table, local):
        return None
    return NumberDecision(_tuple(table, *key), entry)


def _is_constant(node: ast.AST, local: set[str]) -> bool:
    """Whether an expression reads no local names except its own."""
    inner = [*ast.walk(node)]
    own = {n.id for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return all(n.id in own or n.id not in local for n in inner if isinstance(n, ast.Name))


def _tested_multiples(nodes: Sequence[ast.AST], tested: set[int]) -> Iterator[str]:
    """Yield the operands of remainders that are tested, as text."""
    names = {n.id for n in nodes if id(n) in tested and isinstance(n, ast.Name)}
    for node in nodes:
        match node:
            case ast.BinOp(op=ast.Mod()) if id(node) in tested:
                yield ast.dump(_tuple(node.left, node.right))
            case ast.Assign(
                targets=[ast.Tuple(elts=[_, ast.Name(id=rest)])],
                value=ast.Call(func=ast.Name(id="divmod"), args=[a, b]),
            ) if rest in names:
                yield ast.dump(_tuple(a, b))
            case _:
                pass


def _local_constants(nodes: Sequence[ast.AST], local: set[str]) -> set[str]:
    """The local names of expressions that read no local names."""
    assigned: dict[str, list[bool]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            assigned.setdefault(node.targets[0].id, []).append(_is_constant(node.value, local))
    stored = Counter(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    return {name for name, constant in assigned.items() if all(constant) and stored[name] == len(constant)}


def _tuple(*operands: ast.expr) -> ast.expr:
    return ast.Tuple([*operands], ast.Load())


def _listed(node: ast.expr) -> ast.expr:
    """A generator as a list, because it is read twice."""
    return ast.ListComp(node.elt, node.generators) if isinstance(node, ast.GeneratorExp) else node


def names_in(node: ast.AST) -> set[str]:
    """The names that an expression reads or sets."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def is_repeatable(node: ast.AST, builder: str) -> bool:
    """Whether evaluating an expression again changes nothing, and adds no op to the graph of `builder`."""
    calls = (n for n in ast.walk(node) if isinstance(n, ast.Call))
    return not changes_state(node) and not any(builder in names_in(call) for call in calls)


def changes_state(node: ast.AST) -> bool:
    """Whether an expression has another value when it is evaluated again."""
    return any(
        isinstance(n, ast.Yield | ast.YieldFrom | ast.Await) or (isinstance(n, ast.Call) and _name_of(n) in CHANGING)
        for n in ast.walk(node)
    )
