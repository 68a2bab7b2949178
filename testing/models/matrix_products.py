"""Generators for matrix products."""

from __future__ import annotations

import numpy as np

from .elementwise import broadcastable_shape
from .generator import OpSite
from .model_builder import GenerationError, Shape

UNARY_EQUATIONS = ("ij->ji", "ij->ij", "ij->i", "ii->i", "ijk->ikj", "ij->", "bij->bji", "...ij->...ji", "ijk->k")
BINARY_EQUATIONS = (
    "ij,jk->ik", "ij,ij->ij", "bij,bjk->bik", "i,j->ij", "ij,kj->ik", "bhid,bhjd->bhij", "ij,j->i", "ij,jk->ki",
    "ij,ik->jk", "i,i->", "ij,j->ij", "ij,jk->ijk", "ij,ji->ij", "...ij,...jk->...ik", "ji,jk->ik", "bij,jk->bik",
)  # fmt: skip
TERNARY_EQUATIONS = ("ij,jk,kl->il", "i,j,k->ijk")


def matmul(site: OpSite) -> None:
    """MatMul of matrices, batches of matrices, and sometimes vectors."""
    shape = site.hint.shape if len(site.hint.shape) > 1 else site.hinted_shape(2, 4)
    rows, columns = shape[-2:]
    inner = rows if site.choices.one_in(3) else site.generator.draw_dim()
    right_is_matrix = site.choices.draw_below(2)
    first = site.operand_order()[0]
    if first == 0 or site.existing_operand(0):
        a = site.operand(0, (inner,) if site.choices.one_in(8) else (*shape[:-1], inner)).shape
        _require_rank(a)
        vector = site.choices.one_in(5)
        batch = () if right_is_matrix else tuple(1 if site.choices.one_in(4) else d for d in a[:-2])
        site.operand(1, (a[-1],) if vector else (*batch, a[-1], columns))
    else:
        b = site.operand(1, (*shape[:-2], inner, columns)).shape
        _require_rank(b)
        rows_in = b[-2:][0]
        batch = shape[:-2] if len(b) <= 2 else b[:-2]
        site.operand(0, (*batch, rows, rows_in))


def _require_rank(shape: Shape) -> None:
    if not shape:
        raise GenerationError("a factor is a scalar")


def gemm(site: OpSite) -> None:
    """Gemm with transposed operands, scales and a bias that broadcasts unidirectionally."""
    hint = site.hinted_shape(2, 2)
    swap_a = site.parameter("transA", lambda: site.choices.draw_below(2), 0)
    swap_b = site.parameter("transB", lambda: site.choices.draw_below(2), 0)
    for name in ("alpha", "beta"):
        site.parameter(name, lambda: site.choices.pick((2.0, 0.5, 1.0, -1.0, 0.0)))
    inner = site.generator.draw_dim()
    shapes: list[Shape] = [(), ()]
    for i in sorted((0, 1), key=site.operand_order().index):
        rows, columns = (hint[0], inner) if i == 0 else (inner, hint[1])
        swapped = swap_a if i == 0 else swap_b
        made = site.operand(i, (columns, rows) if swapped else (rows, columns)).shape
        if len(made) != 2:
            raise GenerationError("Gemm takes matrices")
        shapes[i] = made[::-1] if swapped else made
        inner = shapes[0][1] if i == 0 else shapes[1][0]
    if site.wants_input(2):
        total = (shapes[0][0], shapes[1][1])
        settled = site.existing_operand(2)
        bias = settled.shape if settled else broadcastable_shape(site, total, 2)
        site.operand(2, bias[-2:])


def einsum(site: OpSite) -> None:
    """Einsum of one to three operands, by one of some equations."""
    table = {1: UNARY_EQUATIONS, 2: BINARY_EQUATIONS, 3: TERNARY_EQUATIONS}.get(site.input_count)
    if table is None:
        raise GenerationError("no equation is known for so many factors")
    equation = site.parameter("equation", lambda: site.choices.pick(table), needed=True)
    if equation is None:
        equation = site.attrs["equation"] = site.choices.pick(table)
    sizes: dict[str, int] = {}
    for i, letters in enumerate(str(equation).replace(" ", "").split("->")[0].split(",")):
        plain = letters.replace("...", "")
        for letter in plain:
            sizes.setdefault(letter, site.generator.draw_dim())
        site.operand(i, ((2,) if "..." in letters else ()) + tuple(sizes[c] for c in plain))


def attention(site: OpSite) -> None:
    """Attention of four-dimensional heads."""
    batch, heads, length, size = site.hinted_shape(4, 4)
    q = site.operand(0, (batch, heads, length, size)).shape
    if len(q) == 4:
        batch, heads, length, size = q
    keys = site.generator.draw_dim() or 1
    k = site.operand(1, (batch, heads, keys, size) if len(q) == 4 else (batch, keys, q[-1])).shape
    site.operand(2, k)
    if site.wants_input(3):
        site.operand(3, (length, k[-2]))
    site.parameter("scale", lambda: site.choices.pick((0.5, 1.0, 2.0)))
    site.parameter("is_causal", lambda: site.choices.draw_below(2))


def element_count(shape: Shape) -> int:
    """The number of elements of a shape."""
    return int(np.prod(shape, dtype=np.int64))
