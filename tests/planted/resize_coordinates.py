"""Resizes that align corners are rewritten to half pixels, which is the same only where no extent changes."""

from __future__ import annotations

from passwright.core import Op, RewriteBuilder, Value, require, rule

MODEL = """g (float[1,1,4,4] x) => (float[1,1,8,8] y, float[1,1,4,4] z)
    <float[4] up = {1.0,1.0,2.0,2.0}, float[4] same = {1.0,1.0,1.0,1.0}> {
    y = Resize<mode="linear", coordinate_transformation_mode="align_corners">(x, , up)
    n = Neg(x)
    i = Identity(n)
    z = Resize<mode="linear", coordinate_transformation_mode="align_corners">(i, , same)
}"""
WRONG = (("resize_by_half_pixels", "y"),)
WHY = "wrong"
AFTER = {"Neg": 1, "Resize": 2}


@rule(lambda g, x, scales, resize, roi=None: g.Resize(x, roi, scales) @ resize)
def resize_by_half_pixels(g: RewriteBuilder, x: Value, roi: Value | None, scales: Value, resize: Op) -> Value:
    """Resize(x), corners aligned => Resize(x), half pixels"""
    require(resize.attr("coordinate_transformation_mode") == "align_corners", "its corners are not aligned")
    return g.Resize(x, None, scales, mode=resize.attr("mode"))
