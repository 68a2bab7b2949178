"""Optional values whose content is known."""

from __future__ import annotations

import numpy as np

from ...core import EXACT, Build, RulePass, Value, require, rule


@rule(lambda g, x, made: g.OptionalGetElement(g.Optional(x) @ made), shared=True, contract=EXACT)
def unwrap_optional(g: Build, x: Value) -> Value:
    """OptionalGetElement(Optional(x)) => x"""
    return x


@rule(lambda g, x: g.OptionalGetElement(x), contract=EXACT)
def drop_get_element_of_non_optional(g: Build, x: Value) -> Value:
    """OptionalGetElement(x) => x, where x is a tensor or a sequence"""
    require(is_non_optional(x), "x may be an optional value")
    return x


@rule(lambda g, made, x=None: g.OptionalHasElement(g.Optional(x) @ made), shared=True, contract=EXACT)
def fold_has_element_of_optional(g: Build, x: Value | None) -> Value:
    """OptionalHasElement(Optional(x)) => true, OptionalHasElement(Optional()) => false"""
    return g.const(np.array(x is not None))


@rule(lambda g, x=None: g.OptionalHasElement(x), contract=EXACT)
def fold_has_element(g: Build, x: Value | None) -> Value:
    """OptionalHasElement(x) => true, where x is a tensor or a sequence; OptionalHasElement() => false"""
    require(x is None or is_non_optional(x), "x may be an optional value")
    return g.const(np.array(x is not None))


def is_non_optional(x: Value) -> bool:
    """Whether a value is known to be a tensor or a sequence."""
    dtype = x.known_dtype  # learns the type, if it can be learnt
    return dtype != 0 if x.type is None else x.type.HasField("sequence_type")


DROP_OPTIONALS = RulePass(
    "drop-optionals",
    (unwrap_optional, drop_get_element_of_non_optional, fold_has_element_of_optional, fold_has_element),
)
