"""Gram matrices of the inputs of products, with which GPTQ rounds their weights."""

from __future__ import annotations

from math import prod

from ...core import Graph, QuantizationSpec, require
from ..linear.weighted_products import PRODUCTS, WeightedProduct, product_of
from ..support.operand_queries import Array, unless_declined


def gram_of(spec: QuantizationSpec, p: WeightedProduct) -> Array | None:
    """The Gram matrix of the input of a product; None where it was not collected, as for columns of a Gemm."""
    gram = None if p.takes_columns else spec.grams.get(p.x.name)
    rows = p.extents[0]
    require(gram is None or gram.shape == (rows, rows), f"the Gram matrix of {p.x.name} does not have {rows} columns")
    return gram


def gram_inputs(graph: Graph, min_weights: int = 0) -> dict[str, int]:
    """The inputs of products with at least so many constant weights, by name, and the number of their columns.

    For `collect_statistics`: the Gram matrix of each takes 8 * columns ** 2 bytes.
    """
    ops = (op for g in graph.with_subgraphs() for op in g.ops(*PRODUCTS) if not op.domain)
    read = (unless_declined(product_of, op, allow_other_uses=True) for op in ops)
    found = (p for p in read if p is not None and p.w.rank == 2 and not p.takes_columns)
    return {p.x.name: p.extents[0] for p in found if prod(p.extents) >= min_weights and not p.x.is_const}
