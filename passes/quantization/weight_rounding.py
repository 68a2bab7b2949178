"""Weights and their rounding to few bits: to the nearest, with clipping, by half-quadratic splitting, and by GPTQ.

GPTQ rounds by the Gram matrices of the inputs of products.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ...core import Graph, Op, QuantizationSpec, RewriteBuilder, Value, require
from ...core.ir.dtypes import HALF_OR_SINGLE
from ..linear.products import PRODUCTS, Product, weighted_product
from ..support.operand_queries import Array, known, operand, unless_declined

PER_CHANNEL_OPSET = 13  # of DequantizeLinear with one scale for each index of an axis
MAX_BYTE, MAX_SUM = 255, (1 << 31) - 1  # of activations less their zero point, and of an int32
TINY, HUGE = float(np.finfo(np.float32).tiny), float(np.finfo(np.float32).max)


def required_spec(g: RewriteBuilder) -> QuantizationSpec:
    """The spec of the running pipeline; declines without one."""
    return known(g.graph.context.quantization, "the pipeline does not quantize")


def quantization_spec(g: RewriteBuilder, operator: str) -> QuantizationSpec:
    """As `required_spec`; declines operators that the target does not compute on integers, too."""
    spec = required_spec(g)
    require(operator in spec.operators, f"the target has no {operator} of integers that is faster")
    return spec


def require_min_weights(spec: QuantizationSpec, *weights: Value, matrices: int = 1) -> None:
    """Decline fewer weights in each of the matrices than the spec asks for. Does not read them."""
    count = sum(prod(w.static_shape) for w in weights) // max(1, matrices)
    names = " and ".join(w.name for w in weights)
    require(count >= spec.min_weights, f"{names}: {count} weights are too few to gain from, under {spec.min_weights}")


def float_weights(w: Value) -> Array:
    """As `constant_weights`, of half precision too."""
    require(w.dtype in HALF_OR_SINGLE, f"{w.name} is not of half or single precision")
    weights = w.const.astype(np.float64)
    require(weights.size > 0 and bool(np.isfinite(weights).all()), f"{w.name} is empty or not finite")
    return weights


def product_of_constant(op: Op) -> Product:
    """As `weighted_product`, of weights that may be used elsewhere; the weights of a MatMul also behind a Transpose."""
    turn = operand(op, 1).producer
    if op.type == "MatMul" and turn is not None and turn.type == "Transpose" and not turn.domain:
        table = operand(turn)
        require(table.is_const and table.rank == 2, "the weights are not a constant matrix")
        return Product(operand(op), table, trans_b=True)
    return weighted_product(op, allow_other_uses=True)


def require_sums_in_int32(integers: Array, axes: tuple[int, ...], name: str) -> None:
    """Decline weights, less their zero point, whose sums along `axes` of products with bytes may exceed an int32.

    onnxruntime's kernels wrap around or saturate there. Sums of the positive and of the negative ones bound all partial
    sums, in any order.
    """
    largest = max(float(np.where(integers * sign > 0, integers * sign, 0).sum(axis=axes).max()) for sign in (1, -1))
    count = prod(integers.shape[axis] for axis in axes)
    require(MAX_BYTE * largest <= MAX_SUM, f"sums of {count} products of integers with {name} may exceed 32 bits")


def gram_of(spec: QuantizationSpec, p: Product) -> Array | None:
    """The Gram matrix of the input of a product; None where it was not collected, as for columns of a Gemm."""
    gram = None if p.trans_a else spec.grams.get(p.a.name)
    rows = p.extents[0]
    require(gram is None or gram.shape == (rows, rows), f"the Gram matrix of {p.a.name} does not have {rows} columns")
    return gram


def gram_inputs(graph: Graph, min_weights: int = 0) -> dict[str, int]:
    """The inputs of products with at least so many constant weights, by name, and the number of their columns.

    For `collect_statistics`: the Gram matrix of each takes 8 * columns ** 2 bytes.
    """
    return {p.a.name: p.extents[0] for p in _products_with_grams(graph) if prod(p.extents) >= min_weights}


def joint_grams(graph: Graph, grams: Mapping[str, Array], rows: Mapping[str, int]) -> dict[str, Array]:
    """Gram matrices of so many rows by input, shrunk; inputs multiplied by the same weights have the sum of theirs.

    So such weights, which are in the file once, are rounded once. Tables of Gather that are weights as well have the
    sums of their products, by their own names.
    """
    groups: dict[str, list[str]] = {}
    by_weights: dict[Value, str] = {}
    for p in _products_with_grams(graph):
        own = groups.setdefault(p.a.name, [p.a.name])
        other = groups[by_weights.setdefault(p.b, p.a.name)]
        if other is not own:
            other += own
            groups |= dict.fromkeys(own, other)
    distinct = {id(group): group for group in groups.values() if grams.keys() >= set(group)}
    sums = {
        key: shrunk_gram(reduce(np.add, (grams[name] for name in group)), sum(rows[name] for name in group))
        for key, group in distinct.items()
    }
    tables = {w.name: groups[name] for w, name in by_weights.items() if w.name and is_table(w)}
    return {name: sums[id(group)] for name, group in (groups | tables).items() if id(group) in sums}


def shrunk_gram(gram: Array, rows: int) -> Array:
    """A Gram matrix mixed with a multiple of the identity, so that few rows do not pass for all inputs.

    The share of the latter is that of least expected error for normal inputs (OAS; Chen, Wiesel, Eldar and Hero, 2010).
    Of independent inputs it is 1, and GPTQ rounds each weight alone.
    """
    size, trace, squares = len(gram), float(np.trace(gram)), float(np.square(gram).sum())
    spread = squares - trace**2 / size
    most = (rows + 1 - 2 / size) * spread
    share = min(1.0, ((1 - 2 / size) * squares + trace**2) / most) if most > 0 else 1.0
    shrunk = (1 - share) * gram
    np.einsum("ii->i", shrunk)[:] += share * trace / size
    return shrunk


def is_table(w: Value) -> bool:
    """Whether a Gather reads a constant."""
    return any(op.type == "Gather" and not op.domain for op in w.consumers)


def _products_with_grams(graph: Graph) -> Iterator[Product]:
    ops = (op for g in graph.with_subgraphs() for op in g.ops(*PRODUCTS) if not op.domain)
    read = (unless_declined(product_of_constant, op) for op in ops)
    return (p for p in read if p is not None and p.b.rank == 2 and not p.trans_a and not p.a.is_const)


KEPT_PARTS = np.linspace(1.0, 0.4, 21)  # of the range of a block, tried as its clipped range
SLAB_ELEMENTS = 1 << 17  # weights rounded at a time, so that temporary arrays stay in a cache
GPTQ_ROWS = 32  # rows for which the errors of all earlier ones are made up for at a time
GPTQ_DAMPING = 0.01  # of the mean of the diagonal
HQQ_NORM, HQQ_BETA, HQQ_GROWTH, HQQ_STEPS = 0.7, 10.0, 1.01, 20  # p, beta, kappa and iterations of the paper


class Grid(NamedTuple):
    """The integers that weights become, `least` to `greatest`, with the zero point `zero`; None: one for each block.

    `block` consecutive weights of a column have one scale; 0: all of a column. `-1`: all weights. `floats` is the NumPy
    type in which scales are stored.
    """

    least: int
    greatest: int
    zero: int | None = 0
    block: int = 0
    floats: Any = np.float32

    def extent(self, rows: int) -> int:
        """The rows of a block of a matrix with `rows` rows."""
        return min(self.block, rows) if self.block > 0 else rows


class Rounded(NamedTuple):
    """Integers (rows, columns), and the scales (float64) and zero points (int64) of blocks (blocks, columns)."""

    integers: Array
    scales: Array
    zeros: Array

    def weights(self, extent: int) -> Array:
        """The numbers that the integers stand for, with blocks of `extent` rows."""
        rows = len(self.integers)
        scales, zeros = (np.repeat(a, extent, axis=0)[:rows] for a in (self.scales, self.zeros))
        return (self.integers - zeros) * scales


Parameters = tuple[Array, Array]
"""Scales in float64 and zero points in int64, each of shape (blocks, columns)."""


def range_parameters(low: Array, high: Array, grid: Grid) -> Parameters:
    """The parameters with which a grid represents ranges that contain 0."""
    if grid.zero is None:
        scales = stored_scales((high - low) / (grid.greatest - grid.least), grid)
        return scales, np.clip(np.rint(grid.least - low / scales), grid.least, grid.greatest).astype(np.int64)
    reach = min(grid.greatest - grid.zero, grid.zero - grid.least)
    scales = stored_scales(np.maximum(-low, high) / reach, grid)
    return scales, np.full(scales.shape, grid.zero, np.int64)


def stored_scales(scales: Array, grid: Grid) -> Array:
    """Scales as the model stores them, again in float64.

    Those of blocks of zeros are tiny, as MatMulNBits rounds the sums of the integers that it has moved to be unsigned.
    """
    held = np.maximum(scales, np.finfo(grid.floats).tiny)
    return held.astype(grid.floats).astype(np.float64)


def integers_of(blocks: Array, parameters: Parameters, grid: Grid) -> Array:
    """The nearest integers to weights in blocks, (blocks, rows, columns)."""
    scales, zeros = parameters
    integers = blocks / scales[:, None]
    np.rint(integers, out=integers)
    if grid.zero != 0:
        integers += zeros[:, None]
    return np.clip(integers, grid.least, grid.greatest, out=integers)


def errors_of(blocks: Array, parameters: Parameters, grid: Grid) -> Array:
    """The errors of weights in blocks after rounding."""
    scales, zeros = parameters
    numbers = integers_of(blocks, parameters, grid)
    if grid.zero != 0:
        numbers -= zeros[:, None]
    numbers *= scales[:, None]
    return np.subtract(blocks, numbers, out=numbers)


def nearest_parameters(blocks: Array, grid: Grid) -> Parameters:
    """The parameters that represent the whole range of each block."""
    return range_parameters(blocks.min(axis=1, initial=0.0), blocks.max(axis=1, initial=0.0), grid)


def clipping_parameters(blocks: Array, grid: Grid) -> Parameters:
    """The parameters with the least sum of squared errors in each block, among ranges clipped to KEPT_PARTS."""
    low, high = blocks.min(axis=1, initial=0.0), blocks.max(axis=1, initial=0.0)
    tried = (range_parameters(low * kept, high * kept, grid) for kept in KEPT_PARTS)
    return best_parameters((p, np.square(errors_of(blocks, p, grid)).sum(axis=1)) for p in tried)


def best_parameters(tried: Iterator[tuple[Parameters, Array]]) -> Parameters:
    """The parameters of the least cost for each block, the first of equal ones; costs are (blocks, columns)."""
    (first_scales, first_zeros), costs = next(tried)
    scales, zeros, least = first_scales.copy(), first_zeros.copy(), costs.copy()
    for found, costs in tried:
        better = costs < least
        np.copyto(scales, found[0], where=better)
        np.copyto(zeros, found[1], where=better)
        np.copyto(least, costs, where=better)
    return scales, zeros


def half_quadratic_parameters(blocks: Array, grid: Grid) -> Parameters:
    """The parameters with the least sum of |error| ** p, found by HQQ (Badri and Shaji, 2023).

    Errors e and parameters are alternately solved for: e by shrinkage, zero points as the mean of q - (w - e) / s, as
    in the paper but rounded, and scales by least squares, since formats with integer zero points leave little to the
    former. Errors count in units of the first scale, so that the result does not depend on the size of weights.
    """
    return best_parameters(half_quadratic_steps(blocks, grid))


def half_quadratic_steps(blocks: Array, grid: Grid) -> Iterator[tuple[Parameters, Array]]:
    """The parameters of each step, the whole range first, and their sums of |error| ** p."""
    parameters, beta = nearest_parameters(blocks, grid), HQQ_BETA
    unit = parameters[0][:, None]
    for _ in range(HQQ_STEPS + 1):
        errors = errors_of(blocks, parameters, grid) / unit
        size = np.abs(errors)
        slope = np.maximum(size, np.finfo(np.float64).tiny) ** (HQQ_NORM - 1)
        yield parameters, (size * slope).sum(axis=1)
        shrunk = np.sign(errors) * np.maximum(size - slope / beta, 0)  # the generalized soft threshold
        parameters = refitted(blocks - unit * shrunk, integers_of(blocks, parameters, grid), parameters, grid)
        beta *= HQQ_GROWTH


def refitted(wanted: Array, integers: Array, parameters: Parameters, grid: Grid) -> Parameters:
    """The parameters with which given integers are nearest to wanted weights."""
    scales, zeros = parameters
    if grid.zero is None:
        means = np.rint((integers - wanted / scales[:, None]).mean(axis=1))
        zeros = np.clip(means, grid.least, grid.greatest).astype(np.int64)
    distances = integers - zeros[:, None]
    squares = (distances**2).sum(axis=1)
    fitted = (wanted * distances).sum(axis=1) / np.where(squares > 0, squares, 1)
    return np.where(fitted > 0, stored_scales(fitted, grid), scales), zeros


FINDERS: dict[str, Callable[[Array, Grid], Parameters]] = {
    "nearest": nearest_parameters,
    "mse": clipping_parameters,
    "hqq": half_quadratic_parameters,
    "gptq": clipping_parameters,
}


def rounded_weights(weights: Array, grid: Grid, method: str = "nearest", gram: Array | None = None) -> Rounded:
    """Weights (rows, columns), of which rows are summed, as integers.

    `method` is one of FINDERS. `gram` is the sum of the outer products of inputs, X^T X of shape (rows, rows): GPTQ
    lets later rows make up for the errors of earlier ones by it; without it, it is the method "mse". O(weights), with
    `gram` O(rows * weights).
    """
    find = FINDERS[method]
    if grid.block < 0:
        flat = rounded_columns(weights.reshape(-1, 1), grid, find)
        return flat._replace(integers=flat.integers.reshape(weights.shape))
    if method == "gptq" and gram is not None:
        return gptq(weights, grid, gram, lambda blocks: find(blocks, grid))
    width = max(1, SLAB_ELEMENTS // max(1, len(weights)))
    slabs = [rounded_columns(weights[:, i : i + width], grid, find) for i in range(0, weights.shape[1], width)]
    return Rounded(*(np.concatenate(parts, axis=1) for parts in zip(*slabs, strict=True)))


def rounded_columns(weights: Array, grid: Grid, find: Callable[[Array, Grid], Parameters]) -> Rounded:
    """Weights with the parameters that `find` finds for blocks, rounded to the nearest."""
    blocks = in_blocks(weights.astype(np.float64), grid.extent(len(weights)))
    parameters = find(blocks, grid)
    integers = integers_of(blocks, parameters, grid).reshape(-1, weights.shape[1])[: len(weights)]
    return Rounded(integers.astype(np.int64), *parameters)


def in_blocks(weights: Array, extent: int) -> Array:
    """Weights as (blocks, rows of a block, columns), the last block filled with zeros, which have no error."""
    rows, columns = weights.shape
    missing = -rows % extent
    return np.pad(weights, ((0, missing), (0, 0))).reshape(-1, extent, columns)


def gptq(weights: Array, grid: Grid, gram: Array, parameters: Parameters | Callable[[Array], Parameters]) -> Rounded:
    """Rows rounded one after the other, the errors of each made up for by the later ones (Frantar et al., 2022).

    With L^T L the Gram matrix and L lower triangular, the error of products is that of L @ errors, whose row i has the
    rows up to i alone: so row i is the integer nearest to where row i of that is 0. These are the integers of the paper
    (Chen et al., 2025: Babai's algorithm), without an inverse. The parameters of a block are found for the weights that
    are best once its first row is reached, unless they are given, for all rows or for each. Without blocks, the rows of
    the largest inputs come first, whose errors are then made up for by all others.
    """
    rows = len(weights)
    order = np.arange(rows) if grid.block > 0 else np.argsort(-np.diag(gram), kind="stable")
    left = weights[order].astype(np.float64)
    lower = lower_factor(gram[np.ix_(order, order)])
    step = grid.extent(rows) if grid.block > 0 else GPTQ_ROWS
    integers, errors = np.empty(weights.shape, np.int64), np.empty(weights.shape)
    scales, zeros = np.empty(weights.shape), np.empty(weights.shape, np.int64)  # of rows in this order
    if not callable(parameters):
        scales, zeros = (np.broadcast_to(a, weights.shape)[order] for a in parameters)
    found: list[Parameters] = []
    for start in range(0, rows, step):
        end = min(start + step, rows)
        inner, moved = lower[start:end, start:end], lower[start:end, :start] @ errors[:start]
        if callable(parameters) and (not found or grid.block > 0):
            block = left[start:end] + np.linalg.solve(inner, moved) if grid.block > 0 else left
            found.append(parameters(in_blocks(block, step if grid.block > 0 else rows)))
            scales[start : start + len(block)], zeros[start : start + len(block)] = found[-1]
        for i in range(start, end):
            row, earlier = inner[i - start], np.einsum("i,ij->j", inner[i - start, : i - start], errors[start:i])
            wanted = left[i] + (moved[i - start] + earlier) / row[i - start]
            integers[i] = np.clip(np.rint(wanted / scales[i]) + zeros[i], grid.least, grid.greatest)
            errors[i] = left[i] - (integers[i] - zeros[i]) * scales[i]
    kept = (np.concatenate(parts) for parts in zip(*(found or [parameters]), strict=True))
    return Rounded(integers[np.argsort(order)], *kept)


def lower_factor(gram: Array) -> Array:
    """The lower triangular L with L^T L a damped Gram matrix; an input that is always 0 counts alone."""
    damped = np.array(gram, np.float64)
    diagonal = np.einsum("ii->i", damped)  # a view
    diagonal[diagonal == 0] = 1
    diagonal += GPTQ_DAMPING * diagonal.mean()
    return np.ascontiguousarray(np.linalg.cholesky(damped[::-1, ::-1])[::-1, ::-1].T)
