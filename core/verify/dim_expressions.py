"""Formulas in the names of symbolic dims; exporters write sums and products of other dims this way."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import lru_cache

from ..ir.expressions import Expr, FunctionTerm, SymInt, Unknown, substitute

Sizes = dict[str, int]

OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: int.__add__, ast.Sub: int.__sub__, ast.Mult: int.__mul__, ast.FloorDiv: int.__floordiv__,
    ast.Div: int.__floordiv__,
}  # fmt: skip
FORMULA = re.compile(r"(?:[^\W\d]\w*(?!\w)|\d+(?!\w)|[-+*/()\s])+")  # names, numbers, operators; nothing else is parsed
MAX_FORMULA_LENGTH = 200  # characters of a formula; a longer one is a name


def extent(dim: SymInt, sizes: Sizes) -> int:
    """The extent of a dim at the given sizes of symbols; a symbol without a size counts as 1."""
    if isinstance(dim, int):
        return max(dim, 0)
    if isinstance(dim, Expr):
        found = substitute(dim, lambda a: None if isinstance(a, FunctionTerm) else _size(a, sizes))
        return max(found, 0) if isinstance(found, int) else 1
    if dim in sizes:
        return sizes[dim]
    tree = _parse(dim)
    return max(_evaluate(tree, sizes), 0) if tree is not None else 1


def _size(atom: str | Unknown, sizes: Sizes) -> int:
    return extent(atom, sizes) if isinstance(atom, str) else 1


def dim_symbols(dim: str) -> list[str]:
    """The symbols in a formula; a name that is not a formula is a symbol itself."""
    tree = None if dim.isidentifier() else _parse(dim)
    return [dim] if tree is None else [n.id for n in ast.walk(tree) if isinstance(n, ast.Name)]


@lru_cache(4096)
def _parse(text: str) -> ast.expr | None:
    text = text.strip()
    if len(text) > MAX_FORMULA_LENGTH or not FORMULA.fullmatch(text):
        return None
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return tree if _is_computable(tree) else None


def _is_computable(tree: ast.expr) -> bool:
    if isinstance(tree, ast.BinOp):
        return type(tree.op) in OPERATORS and _is_computable(tree.left) and _is_computable(tree.right)
    return isinstance(tree, ast.Name) or (isinstance(tree, ast.Constant) and isinstance(tree.value, int))


def _evaluate(tree: ast.expr, sizes: Sizes) -> int:
    if isinstance(tree, ast.BinOp):
        left, right = _evaluate(tree.left, sizes), _evaluate(tree.right, sizes)
        return OPERATORS[type(tree.op)](left, right) if right or not isinstance(tree.op, ast.FloorDiv | ast.Div) else 0
    if isinstance(tree, ast.Name):
        return sizes.get(tree.id, 1)
    return int(tree.value) if isinstance(tree, ast.Constant) and isinstance(tree.value, int) else 1
