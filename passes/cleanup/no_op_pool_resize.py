"""Pools that look at one element at a time, and resizing to the same size."""

from __future__ import annotations

from ...core import EXACT, Build, Op, RulePass, Value, conditional, require, rule, same_extent
from ..support.operand_queries import Inputs, axes_of, is_float, keeps_shape, setting_of

CROPS = "tf_crop_and_resize"
SHIFTS = "tf_half_pixel_for_nn"  # by half an element even where nothing is resized, but not in onnxruntime


@rule(
    lambda g, x, pool: g.one_of("AveragePool", "GlobalAveragePool")(x) @ pool,
    contract=conditional("no zero is negative"),
)
def drop_average_of_one(g: Build, x: Value, pool: Op) -> Value:
    """AveragePool(x, kernel 1, stride 1) => x, GlobalAveragePool(x) => x where there is one element"""
    require(sees_one_element(pool, x), "its windows may hold several elements, or leave some out")
    return x


@rule(lambda g, x, pool: g.MaxPool(x) @ pool, contract=EXACT)
def drop_maximum_of_one(g: Build, x: Value, pool: Op) -> tuple[Value | None, ...]:
    """MaxPool(x, kernel 1, stride 1) => x, for whole numbers"""
    require(not is_float(x), "only of whole numbers: onnxruntime may make a finite number of NaN and -infinity")
    require(sees_one_element(pool, x), "its windows may hold several elements, or leave some out")
    return (x, None)


@rule(lambda g, x, resize, rest: g.one_of("Resize", "Upsample")(x, *rest) @ resize, contract=EXACT)
def drop_resize_by_one(g: Build, x: Value, resize: Op, rest: Inputs) -> Value:
    """Resize(x, scales 1 1 ...) => x, Resize(x, sizes: the extents) => x, and so Upsample"""
    require(resize.attr("coordinate_transformation_mode") not in {CROPS, SHIFTS}, "it may take other elements")
    scales = setting_of(resize, "scales")
    if scales:
        require(all(s == 1 for s in scales), "it scales")
        return x
    sizes = axes_of(resize, "sizes") or []
    axes = resize.attr("axes") or list(range(x.rank))
    require(len(sizes) == len(axes) and all(-x.rank <= a < x.rank for a in axes), "the sizes do not fit")
    require(all(same_extent(x.shape[a], s) for a, s in zip(axes, sizes, strict=True)), "its size may be another")
    return x


@rule(lambda g, x, resize, rest: g.Resize(x, *rest) @ resize, contract=EXACT)
def drop_resize_to_same_shape(g: Build, x: Value, resize: Op, rest: Inputs) -> Value:
    """Resize(x, sizes=the shape of x) => x"""
    require(resize.attr("coordinate_transformation_mode") not in {CROPS, SHIFTS}, "it may take other elements")
    require(resize.attr("keep_aspect_ratio_policy", "stretch") == "stretch", "it may scale by less than the sizes say")
    require(resize.input(3) is not None and not setting_of(resize, "scales"), "it is not given sizes")
    require(keeps_shape(resize, x), "its shape may be another")
    return x


def sees_one_element(pool: Op, x: Value) -> bool:
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


DROP_IDLE_WINDOWS = RulePass(
    "drop-idle-windows",
    (drop_average_of_one, drop_maximum_of_one, drop_resize_by_one, drop_resize_to_same_shape),
)
