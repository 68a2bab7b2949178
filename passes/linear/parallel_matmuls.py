"""Products of one value with several constant weights (query, key and value) are one product that is split."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ...core import Build, Declined, Graph, Ledger, Op, Value, made_from, require
from .weighted_products import Array, WeightedProduct, gemm_attributes, product_of

SiblingKey = tuple[object, ...]
"""What siblings have in common: operand, operator, attributes, type, and the rows of the weights."""


@dataclass(frozen=True, slots=True)
class ProductBranch:
    """A product, its bias, and the op whose result it is for: the product itself, or an Add behind it."""

    product: WeightedProduct
    bias: Value | None
    last_op: Op

    @property
    def ops(self) -> tuple[Op, ...]:
        """The ops that would go."""
        return (self.last_op,) if self.last_op is self.product.op else (self.last_op, self.product.op)

    @property
    def bias_row(self) -> Array:
        """The bias, one number for each column."""
        columns = self.product.extents[1:]
        if self.bias is None:
            return np.zeros(columns, self.product.w.const.dtype)
        return np.broadcast_to(self.bias.const.reshape(-1), columns)


@dataclass(frozen=True, slots=True)
class MergeParallelMatmuls:
    """x @ u + a, x @ v + b, ... => Split(x @ [u v ...] + [a b ...]), wherever that makes the ops fewer."""

    name: str = "merge-parallel-matmuls"

    def run(self, graph: Graph, ledger: Ledger) -> int:
        """One look at each product. O(ops)."""
        return sum(self._merge_in(g, ledger) for g in tuple(graph.with_subgraphs()))

    def _merge_in(self, g: Graph, ledger: Ledger) -> int:
        families: dict[SiblingKey, list[ProductBranch]] = {}
        for op in sorted(g.ops("MatMul", "Gemm"), key=lambda op: op.order_key):
            try:
                branch = branch_of(op)
                families.setdefault(sibling_key(branch.product), []).append(branch)
            except Declined:
                continue
        return sum(self._merge(g, family, ledger) for family in families.values() if is_profitable(family))

    def _merge(self, g: Graph, branches: list[ProductBranch], ledger: Ledger) -> bool:
        ops = [op for b in branches for op in b.ops]
        if not ledger.request_change(self.name, branches[0].last_op.outputs[0].name, ops, exact=False):
            return False
        build = Build(g, branches[0].product.op)
        for b, part in zip(branches, split_product(build, branches), strict=True):
            g.take_over(part, b.last_op.outputs[0])
        for op in build.added_ops:
            made_from(op, self.name, ops)
        g.discard(ops)
        return True


def branch_of(op: Op) -> ProductBranch:
    """Read a product and what is added to it; declines what has no constant weights of its own."""
    p = product_of(op)
    require(op.domain == "" and p.w.rank == 2 and 0 not in p.extents, "the weights are no matrix")
    require(not p.x.is_const and any(v.consumers or op.graph.is_output(v) for v in op.outputs), "it will go anyway")
    if op.type == "Gemm":
        require(p.c is None or is_row(p.c, 2, p.extents[1]), "its bias is no constant row")
        return ProductBranch(p, p.c, op)
    out, rank = op.outputs[0], p.x.rank
    bias, end = None, None if op.graph.is_output(out) or out in op.graph.pinned else single(out.consumers)
    if end is not None and end.type == "Add" and not end.domain and end.graph is op.graph:
        bias = next((v for v in end.inputs if v is not None and v is not out and is_row(v, rank, p.extents[1])), None)
    return ProductBranch(p, bias, op if bias is None or end is None else end)


def sibling_key(p: WeightedProduct) -> SiblingKey:
    """What has to be equal in all members of a family."""
    attrs = tuple(gemm_attributes(p.op).items()) if p.op.type == "Gemm" else ()
    is_either = p.x.rank == 2 and not attrs  # then a MatMul and a Gemm are the same
    return (p.x, is_either or p.op.type, attrs, p.w.dtype, p.extents[0])


def is_profitable(branches: list[ProductBranch]) -> bool:
    """Whether a product, a Split and, for biases of MatMuls, an Add are fewer ops than there are."""
    adds = not gemms_of(branches) and any(b.last_op is not b.product.op for b in branches)
    return sum(len(b.ops) for b in branches) > 2 + adds


def split_product(g: Build, branches: list[ProductBranch]) -> Iterable[Value]:
    """One product with all weights side by side, cut into what each branch gives."""
    p = branches[0].product
    turned = p.transposed
    weights = g.const(np.concatenate([b.product.w.const for b in branches], axis=0 if turned else 1))
    biases = [b.bias_row for b in branches] if any(b.bias is not None for b in branches) else []
    bias = g.const(np.concatenate(biases)) if biases else None
    if gemms := gemms_of(branches):
        merged = g.Gemm(p.x, weights, bias, **gemms[0].attrs)
    else:
        merged = g.MatMul(p.x, weights)
        merged = merged if bias is None else g.Add(merged, bias)
    columns = [b.product.extents[1] for b in branches]
    return g.Split(merged, outputs=len(branches), axis=p.x.rank - 1, split=columns)


def gemms_of(branches: list[ProductBranch]) -> list[Op]:
    """The Gemms among the products."""
    return [b.product.op for b in branches if b.product.op.type == "Gemm"]


def is_row(c: Value, rank: int, columns: int) -> bool:
    """Whether `c` is a constant that adds the same row to all, and no dims. Does not read it."""
    dims = c.known_shape if c.is_const else None
    if dims is None or len(dims) > rank:
        return False
    return dims == () or (dims[-1] in {1, columns} and all(d == 1 for d in dims[:-1]))


def single(ops: Iterable[Op]) -> Op | None:
    """The one op of `ops`; None if there are several or none."""
    found = list(ops)
    return found[0] if len(found) == 1 else None


MERGE_PARALLEL_MATMULS = MergeParallelMatmuls()
