"""Removal of pools with windows of one element, and of resizes to the same size."""

from __future__ import annotations

from ...core import EXACT, Build, Op, RulePass, Value, require, rule, same_extent
from ..support.contracts import NO_NEGATIVE_ZERO
from ..support.operand_queries import attribute_or_input, is_float_value, keeps_shape, known_integers

CROP_AND_RESIZE = "tf_crop_and_resize"
HALF_PIXEL_FOR_NN = "tf_half_pixel_for_nn"  # by half an element even where nothing is resized, but not in onnxruntime


@rule(lambda g, x, pool: g.one_of("AveragePool", "GlobalAveragePool")(x) @ pool, contract=NO_NEGATIVE_ZERO)
def drop_no_op_average_pool(g: Build, x: Value, pool: Op) -> Value:
    """AveragePool(x, kernel 1, stride 1) => x, GlobalAveragePool(x) => x where there is one element"""
    require(is_unit_pool(pool, x), "the windows may not cover each element once")
    return x


@rule(lambda g, x, pool: g.MaxPool(x) @ pool, contract=EXACT)
def drop_no_op_max_pool(g: Build, x: Value, pool: Op) -> tuple[Value | None, ...]:
    """MaxPool(x, kernel 1, stride 1) => x, for whole numbers"""
    require(not is_float_value(x), "x is a float: onnxruntime may return a finite number for NaN and -infinity")
    require(is_unit_pool(pool, x), "the windows may not cover each element once")
    return (x, None)


@rule(lambda g, x, resize: g.one_of("Resize", "Upsample")(x, ...) @ resize, contract=EXACT)
def drop_unit_resize(g: Build, x: Value, resize: Op) -> Value:
    """Resize(x, scales 1 1 ...) => x, Resize(x, sizes: the extents) => x, and so Upsample"""
    mode = resize.attr("coordinate_transformation_mode")
    require(mode not in {CROP_AND_RESIZE, HALF_PIXEL_FOR_NN}, "the coordinate transformation may select other elements")
    if scales := attribute_or_input(resize, "scales"):
        require(all(s == 1 for s in scales), "a scale is not 1")
        return x
    sizes, axes = known_integers(resize, "sizes") or [], resize.attr("axes") or list(range(x.rank))
    if sizes and len(sizes) == len(axes) and all(-x.rank <= a < x.rank for a in axes):
        require(all(same_extent(x.shape[a], s) for a, s in zip(axes, sizes, strict=True)), "a size may differ")
        return x
    stretches = resize.attr("keep_aspect_ratio_policy", "stretch") == "stretch"
    require(stretches and resize.input(3) is not None, "the sizes are missing, or the aspect ratio policy changes them")
    require(keeps_shape(resize, x), "the shape may differ from that of x")
    return x


def is_unit_pool(pool: Op, x: Value) -> bool:
    """Whether each window of a pool holds one element, and each element has its window, in order."""
    if pool.type.startswith("Global"):
        return x.rank > 2 and all(same_extent(d, 1) for d in x.shape[2:])
    kernel = pool.attr("kernel_shape") or [0]
    if any(k != 1 for k in kernel) or any(pool.attr("pads") or []):
        return False
    steps: list[int] = pool.attr("strides") or []
    return all(s == 1 for s in steps) or (
        x.rank == len(steps) + 2 and all(s == 1 or same_extent(d, 1) for s, d in zip(steps, x.shape[2:], strict=True))
    )


DROP_NO_OP_POOL_RESIZE = RulePass(
    "drop-no-op-pool-resize", (drop_no_op_average_pool, drop_no_op_max_pool, drop_unit_resize)
)
