"""Grows a rule's pattern into nodes, from the root down to what feeds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import TensorProto

from ...core.ir import schemas
from ...core.pattern import OpPattern, Var
from . import operators
from .choices import Choices
from .dictionary import Dictionary
from .mood import Mood
from .numbers import filled
from .site import DTYPES, VARIADIC, Hint, Site
from .sketch import Array, Known, Shape, Sketch, Unmade
from .slots import MOST_OPERANDS, slots_of

Maker = Callable[[Site], None]
DEPTH = 3  # of what feeds an operand that the pattern leaves open
DIMS = (2, 3, 1, 4, 2, 3, 1, 5, 0)


@dataclass(slots=True)
class Grower:
    """Makes ops by the `makers` of their types, and operands as the pattern's variables want them."""

    sketch: Sketch
    choices: Choices
    words: Dictionary
    makers: Mapping[str, Maker]
    mood: Mood
    dtype: int
    bound: dict[str, Any] = field(default_factory=dict[str, Any])
    inner: list[Known] = field(default_factory=list[Known])  # what the pattern's ops make, the root's last
    reasons: list[str] = field(default_factory=list[str])  # why the rule may not fire
    traits: list[str] = field(default_factory=list[str])
    depth: int = 0
    size: int = 0  # the dim chosen last
    fed: bool = False  # whether anything was grown that the pattern does not have
    held: bool = False  # whether a constant stands where the pattern wants none
    last: list[Known] = field(default_factory=list[Known])  # the outputs of the op made last

    def grow(self, pattern: OpPattern, hint: Hint) -> Known:
        """The output that `pattern` stands for."""
        site = self._site(pattern, hint)
        if pattern.bind:
            self.bound[pattern.bind] = None
        try:
            self.makers.get(site.type, _like_first)(site)
            site.fill(hint.shape)
        except (ArithmeticError, IndexError, TypeError, ValueError) as e:  # a pattern may name any attribute's value
            raise Unmade(f"{site.type} cannot be made so: {e}") from e
        made = site.finished(max(pattern.output + 1, self._outputs(site)))
        if self.depth == 0:
            self.inner.append(made[pattern.output])
            self.last = made
        return made[pattern.output]

    def _site(self, pattern: OpPattern, hint: Hint) -> Site:
        version = self.sketch.opset
        specs = {t: spec for t in pattern.types if (spec := operators.schema(t, pattern.domain, version)) is not None}
        if not specs:
            raise Unmade(f"{pattern.types[0]} does not exist at opset {version}")
        op_type = self.choices.pick(list(specs))
        spec = specs[op_type]
        site = Site(self, pattern, op_type, spec, slots_of(self, pattern, spec), hint)
        makes = spec.outputs[pattern.output if pattern.output < len(spec.outputs) else -1].type_str
        if hint.dtype in map(DTYPES.get, site.allowed(makes)) and not makes.startswith("tensor("):
            site.types[makes] = hint.dtype
        return site

    def _outputs(self, site: Site) -> int:
        """How many outputs the op has: those it must have, and where more may be, some."""
        last = site.spec.outputs[-1]
        if last.option == VARIADIC:
            return site.outputs
        return max(site.outputs, site.spec.min_output)

    # -- operands ------------------------------------------------------------------------

    def leaf(
        self, var: Var, dtype: int | str, shape: Shape, *, positive: bool, array: Array | None, lonely: bool
    ) -> Known:
        """What the pattern's variable stands for: the same wherever it stands."""
        found = self.bound.get(var.name)
        if found is None:
            found = self.bound[var.name] = self._leaf(var, dtype, shape, positive, array, lonely)
        if not isinstance(found, Known):
            raise Unmade(f"{var.name} is an attribute elsewhere")
        return found

    def _leaf(
        self, var: Var, dtype: int | str, shape: Shape, positive: bool, array: Array | None, lonely: bool
    ) -> Known:
        if not isinstance(dtype, int):
            return self._container(dtype, shape)
        if array is not None:
            return self._computed(array) if self._may_compute(var, array) else self._held(array, var)
        alone = lonely or (self.mood.constants == 1 and not self.sketch.inputs)
        if var.constant or (not alone and self.choices.one_in(self.mood.constants)):
            array = filled(self.choices, self.words, dtype, shape, self.mood, positive=positive)
            return self._held(array, var)
        if self.choices.one_in(2 if self.depth else self.mood.repeats) and (same := self._alike(dtype, shape)):
            return self.choices.pick(same)
        if dtype == TensorProto.INT64 and len(shape) < 2 and self.choices.one_in(self.mood.computed):
            return self._extents(shape)
        if self.depth < DEPTH and self.words.operators and self.choices.one_in(self.mood.feeders):
            return self._fed(dtype, shape)
        return self.sketch.input(dtype, shape)

    def _held(self, array: Array, var: Var) -> Known:
        known = self.sketch.constant(array)
        self.held |= not var.constant
        if self.choices.one_in(self.mood.overridable):
            self.sketch.overridable.add(known.name)
            self.note("a constant is an input that may be overridden")
            if var.constant and self.depth == 0:
                self.reasons.append(f"{known.name} is no constant: a caller may override it")
        return known

    def _may_compute(self, var: Var, array: Array) -> bool:
        small = array.dtype == np.int64 and array.ndim == 1 and array.size < MOST_OPERANDS
        if var.constant or not small or not all(0 <= n < MOST_OPERANDS + 1 for n in array.tolist()):
            return False
        return self.choices.one_in(self.mood.computed)

    def _computed(self, array: Array) -> Known:
        """The numbers as the shape of an input."""
        self.note("a shape is computed")
        self.fed = True
        return self.sketch.node("Shape", [self.sketch.input(self.dtype, array.tolist())], {})[0]

    def _alike(self, dtype: int, shape: Shape) -> list[Known]:
        """Values of the same type, of which one could stand here too."""
        known = [*self.sketch.inputs, *self.sketch.made]
        same = [k for k in known if k.dtype == dtype and _has_shape(k, shape)]
        return same or ([k for k in known if k.dtype == dtype] if self.depth else [])

    def _fed(self, dtype: int, shape: Shape) -> Known:
        """The output of an operator that the rule's code names."""
        op_type = self.choices.pick(self.words.operators)
        spec = schemas.schema(op_type, "", self.sketch.opset)
        if spec is None:
            return self.sketch.input(dtype, shape)
        self.fed = True
        self.depth += 1
        fresh = f"{op_type} {len(self.sketch.nodes)} {len(self.bound)}"
        most = 2 if spec.max_input > 2 * MOST_OPERANDS else spec.max_input
        count = spec.min_input + self.choices.below(most - spec.min_input + 1)
        inputs = tuple(Var(f"{fresh} {i}") for i in range(count))
        try:
            return self.grow(OpPattern((op_type,), "", inputs, (), bind=fresh), Hint(shape, dtype))
        finally:
            self.depth -= 1

    def _container(self, type_name: str, shape: Shape) -> Known:
        """A sequence of two tensors, or an optional that holds one."""
        dtype = self.dtype
        items: list[Known | None] = [self.sketch.input(dtype, shape)]
        if type_name.startswith("seq("):
            items.append(self.sketch.input(dtype, shape))
            return self.sketch.node("SequenceConstruct", items, {})[0]
        if type_name.startswith("optional("):
            return self.sketch.node("Optional", items, {})[0]
        raise Unmade(f"no {type_name} can be made")

    def _extents(self, shape: Shape) -> Known:
        """Dims of an input: all of them, or one."""
        self.fed = True
        rank = shape[0] if shape and shape != (1,) else 1 + self.choices.below(3)
        dims = self.sketch.node("Shape", [self.sketch.input(self.dtype, self.shape_of_rank(rank))], {})[0]
        if shape == (rank,):
            return dims
        place = self.sketch.constant(np.full(shape, self.choices.below(rank)))
        return self.sketch.node("Gather", [dims, place], {})[0]

    # -- shapes --------------------------------------------------------------------------

    def dim(self) -> int:
        """A small dim; 0 only in models that are to have such. In some models all are the same."""
        if self.mood.square and self.size:
            return self.size
        self.size = self.choices.pick(DIMS if self.mood.zeros else DIMS[:-1])
        return self.size

    def shape_of_rank(self, rank: int, near: Shape = ()) -> Shape:
        """A shape of that rank, with the last dims of `near`."""
        kept = near[len(near) - min(rank, len(near)) :]
        return (*(self.dim() for _ in range(rank - len(kept))), *kept)

    def note(self, trait: str) -> None:
        """Say what is special about the model."""
        if trait not in self.traits:
            self.traits.append(trait)

    def strayed(self, site: Site, name: str, value: Any) -> None:
        """An attribute was set that the pattern does not name; off its default, the rule may not match."""
        if value != schemas.attribute_default(site.type, site.pattern.domain, self.sketch.opset, name):
            self.note("an attribute is off its default")
            self.reasons.append(f"{name} of {site.type}, which the pattern does not name, is off its default")


def _like_first(site: Site) -> None:
    """All inputs like the output."""
    site.fill(site.hint.shape)


def _has_shape(known: Known, shape: Shape) -> bool:
    try:
        return known.shape == shape
    except Unmade:
        return False


FLOATS = frozenset({TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE})
