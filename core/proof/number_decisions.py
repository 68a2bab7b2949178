"""Decisions of code without a comparison: quotients, remainders, extremes, signs and entries of tables.

Each gives the outcomes that its operands have, and all that it has. Operands that are no numbers decide nothing.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
from msgspec import Struct

Outcomes = tuple[Sequence[str], Sequence[str]]
"""The outcomes that occur, and all that there are."""
NOTHING: Outcomes = (), ()
CHANGING = frozenset({"add", "append", "extend", "next", "pop", "popitem", "remove", "send", "setdefault", "update"})
"""Names of functions that are not called a second time."""


class NumberDecision(Struct, frozen=True):
    """The operands of a decision, as a tuple, and its outcomes for their numbers."""

    operands: ast.expr
    outcomes: Callable[..., Outcomes]


def outcomes_of(decide: Callable[..., Outcomes], operands: Sequence[Any]) -> Outcomes:
    """The outcomes of a decision, which small arrays of integers make by element."""
    if decide is entry or not any(map(_is_array, operands)):
        return decide(*operands)
    try:
        elements = np.broadcast(*operands)
    except ValueError:
        return NOTHING
    return _joined(*(decide(*numbers) for numbers in elements))


def _is_array(value: Any) -> bool:
    return type(value) is np.ndarray and value.dtype.kind in "iu" and value.size <= MAX_ARRAY


def quotient(a: Any, b: Any) -> Outcomes:
    """Quotients of 0, 1 and more, with and without a remainder."""
    return NOTHING if not are_numbers(a, b) or not b else _joined(_steps(a, b), _rest(a, b))


def whole_quotient(a: Any, b: Any) -> Outcomes:
    """Quotients of 1 and more, of a number that is a multiple."""
    if not are_numbers(a, b) or not b:
        return NOTHING
    taken, _ = _steps(a, b)
    return taken, ("1", "more")


def remainder(a: Any, b: Any) -> Outcomes:
    """Whether a number is its own remainder, and whether there is one."""
    if not are_numbers(a, b) or not b:
        return NOTHING
    return _joined(((["itself"] if a % b == a else ["less"]), ("itself", "less")), _rest(a, b))


def shifted(a: Any, bits: Any) -> Outcomes:
    """The quotients of a power of two."""
    return quotient(a, 1 << bits) if are_numbers(a, bits) and 0 <= bits < MAX_BITS else NOTHING


def whole_part(a: Any, *_: Any) -> Outcomes:
    """The quotients of one."""
    return quotient(a, 1)


def stepped(first: Any, end: Any = 0, step: Any = 1) -> Outcomes:
    """The steps of a range, where these are more than 1."""
    return quotient(end - first, step) if are_numbers(first, end, step) and abs(step) > 1 else NOTHING


def power(a: Any, b: Any) -> Outcomes:
    """Whether a power of a negative number is odd."""
    if not are_numbers(a, b) or a >= 0:
        return NOTHING
    return ["odd" if b % 2 else "even"], ("odd", "even")


def masked(a: Any, b: Any) -> Outcomes:
    """Whether a number has none, some or all of its bits in a mask."""
    if not isinstance(a, int) or not isinstance(b, int):
        return NOTHING
    return ["none" if not a & b else "all" if a & b == a else "some"], ("none", "some", "all")


def emptiness(count: Any) -> Outcomes:
    """Whether there is something."""
    return ["some" if count else "nothing"], ("nothing", "some")


def sign(a: Any) -> Outcomes:
    """The signs of a number."""
    if not are_numbers(a):
        return NOTHING
    return ["negative"] if a < 0 else ["positive"] if a > 0 else [], ("negative", "positive")


def least(*operands: Any) -> Outcomes:
    """The operand that is less than all others."""
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
    """The entries of a table; with a default, a key that has none."""
    if isinstance(table, Mapping):
        keys = [repr(k) for k in cast("Mapping[Any, Any]", table)]
        return [repr(key) if repr(key) in keys else "none"], [*keys, *(["none"] if default else [])]
    if not are_numbers(key) or not isinstance(table, Sequence | np.ndarray):
        return NOTHING
    count = len(cast("Sequence[Any]", table))
    return [str(int(key) % count) if count else "none"], [*map(str, range(count))]


MAX_BITS = 64
MAX_ARRAY = 16  # elements of an array that decide
OPERATORS: Mapping[type[ast.operator], Callable[..., Outcomes]] = {
    ast.FloorDiv: quotient,
    ast.Mod: remainder,
    ast.Pow: power,
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
    **dict.fromkeys(("pow", "power"), power),
    "clip": clipped,
}
ROUNDING = frozenset({"ceil", "floor", "int", "rint", "round", "trunc"})


def are_numbers(*values: Any) -> bool:
    """Whether all values are numbers, and no bools."""
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
    """The decisions of a function in parts that are not `tested` as a whole, by their node."""
    nodes = [*ast.walk(function)]
    multiples = set(_tested_multiples(nodes, tested))
    local = {a.arg for n in nodes if isinstance(n, ast.arguments) for a in (*n.posonlyargs, *n.args, *n.kwonlyargs)}
    local |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    local -= _local_constants(nodes, local)
    for node in nodes:
        if id(node) in tested:
            continue
        found = _decision(node, local)
        if found is None:
            continue
        if found.outcomes is quotient and ast.dump(found.operands) in multiples:
            found = NumberDecision(found.operands, whole_quotient)
        yield node, found


def _decision(node: ast.AST, local: set[str]) -> NumberDecision | None:
    match node:
        case ast.BinOp() if type(node.op) in OPERATORS:
            return NumberDecision(_tuple(node.left, node.right), OPERATORS[type(node.op)])
        case ast.AugAssign(target=ast.Name(id=name)) if type(node.op) in OPERATORS:
            return NumberDecision(_tuple(ast.Name(name, ast.Load()), node.value), OPERATORS[type(node.op)])
        case ast.Subscript(ctx=ast.Load()) if not isinstance(node.slice, ast.Constant | ast.Slice | ast.Tuple):
            return _of_table(node.value, [node.slice], local)
        case ast.Call(func=ast.Name(id="len"), args=[ast.Subscript(slice=ast.Slice())]):
            return NumberDecision(_tuple(node), emptiness)
        case ast.Call(func=ast.Attribute(attr="get", value=table)) if not node.keywords:
            return _of_table(table, node.args, local)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if node.args and not node.keywords:
            is_computed = any(isinstance(n, ast.BinOp) for a in node.args for n in ast.walk(a))
            outcomes = FUNCTIONS.get(name, whole_part if name in ROUNDING and is_computed else None)
            return None if outcomes is None else NumberDecision(_tuple(*map(_listed, node.args)), outcomes)
        case _:
            return None


def _of_table(table: ast.expr, key: Sequence[ast.expr], local: set[str]) -> NumberDecision | None:
    """An entry of a table that is written there, or depends on nothing local; others are data."""
    if isinstance(table, ast.List | ast.Tuple) and not any(isinstance(e, ast.Starred) for e in table.elts):
        table = ast.Tuple([ast.Constant(0) for _ in table.elts], ast.Load())
    elif isinstance(table, ast.Dict) and None not in table.keys:
        table = ast.Dict(table.keys, [ast.Constant(0) for _ in table.keys])
    elif not _is_constant(table, local):
        return None
    return NumberDecision(_tuple(table, *key), entry)


def _is_constant(node: ast.AST, local: set[str]) -> bool:
    """Whether an expression reads no local names but its own."""
    inner = [*ast.walk(node)]
    own = {n.id for n in inner if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return all(n.id in own or n.id not in local for n in inner if isinstance(n, ast.Name))


def _tested_multiples(nodes: Sequence[ast.AST], tested: set[int]) -> Iterator[str]:
    """The operands of remainders that are tested, as text."""
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
    """A generator as a list, which is read twice."""
    return ast.ListComp(node.elt, node.generators) if isinstance(node, ast.GeneratorExp) else node


def is_repeatable(node: ast.AST, builder: str) -> bool:
    """Whether evaluating an expression again changes nothing, and adds no op to the graph that `builder` makes."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Yield | ast.YieldFrom | ast.Await):
            return False
        if isinstance(inner, ast.Call):
            called = inner.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in CHANGING or any(isinstance(n, ast.Name) and n.id == builder for n in ast.walk(inner)):
                return False
    return True
