"""Which inputs an op of a pattern gets, where the pattern leaves their number open.

One operator of a pattern where it is being made: what it may be given, and what it already has.

Grows a rule's pattern into nodes, from the root down to what feeds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from onnx import TensorProto, defs, helper

from ...core.ir import op_schemas
from ...core.rewriting.pattern import OpPattern, Rest, Var
from . import signatures
from .choices import Choices
from .constant_values import filled
from .dictionary import Dictionary
from .distribution import Mood
from .model_builder import Array, Known, Shape, Sketch, Unmade

MOST_OPERANDS = 4
OPTIONAL = defs.OpSchema.FormalParameterOption.Optional


def slots_of(grower: Grower, pattern: OpPattern, spec: defs.OpSchema) -> list[Want]:
    """What each input is to be: `*xs` stand for some, and what may be left out is so at times."""
    variadic = bool(spec.inputs) and spec.inputs[-1].option == VARIADIC
    most = max(MOST_OPERANDS, len(pattern.inputs)) if variadic else len(spec.inputs)
    wants = pattern.inputs if variadic else pattern.inputs[: max(len(spec.inputs), _needed(pattern.inputs))]
    fixed = sum(not isinstance(want, Rest) for want in wants)
    rests = len(wants) - fixed
    least = max(spec.min_input, fixed)
    if least > most:
        raise Unmade(f"{spec.name} takes no {fixed} inputs at this opset")
    room = least - fixed + grower.choices.below(most - least + 1) if rests else 0
    slots: list[Want] = []
    for want in wants:
        if not isinstance(want, Rest):
            slots.append(_present(grower, want))
            continue
        rests -= 1
        size = room if rests == 0 else grower.choices.below(room + 1)
        room -= size
        slots += [_maybe(grower, Var(f"{want.name} {i}"), len(slots) + i, spec) for i in range(size)]
    while slots and slots[-1] is None:
        slots.pop()
    return slots


def _needed(wants: tuple[Any, ...]) -> int:
    """How many inputs there must be at least for those to be among them that may not be left out."""
    return max((i for i, w in enumerate(wants, 1) if not (isinstance(w, Var) and w.optional)), default=0)


def _present(grower: Grower, want: Any) -> Want:
    """An optional input is left out of half of all models."""
    if not isinstance(want, Var) or not want.optional:
        return want
    if want.name in grower.bound:
        return want if grower.bound[want.name] is not None else None
    if grower.choices.below(2):
        return want
    grower.bound[want.name] = None
    grower.note("an optional input is left out")
    return None


def _maybe(grower: Grower, var: Var, index: int, spec: defs.OpSchema) -> Want:
    optional = index < len(spec.inputs) and spec.inputs[index].option == OPTIONAL
    return None if optional and grower.choices.one_in(3) else var


VARIADIC = defs.OpSchema.FormalParameterOption.Variadic
Want = OpPattern | Var | None
DTYPES = {
    f"tensor({'float' if t == TensorProto.FLOAT else TensorProto.DataType.Name(t).lower()})": t
    for t in TensorProto.DataType.values()
}
PREFERRED = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.UINT8)


@dataclass(frozen=True, slots=True)
class Hint:
    """What the reader of a value would like it to be; it need not be."""

    shape: Shape
    dtype: int


@dataclass(slots=True)
class Site:
    """An op to be made for `pattern`. Its maker asks for operands and parameters; those not asked for stay away."""

    grower: Grower
    pattern: OpPattern
    type: str
    spec: defs.OpSchema
    slots: list[Want]
    hint: Hint
    operands: dict[int, Known] = field(default_factory=dict[int, Known])
    attrs: dict[str, Any] = field(default_factory=dict[str, Any])
    types: dict[str, int] = field(default_factory=dict[str, int])
    outputs: int = 1

    @property
    def choices(self) -> Choices:
        """Where choices come from."""
        return self.grower.choices

    @property
    def count(self) -> int:
        """How many inputs the pattern wants, left out ones among them."""
        return len(self.slots)

    def takes(self, index: int) -> bool:
        """Whether the pattern wants an input there."""
        return index < len(self.slots) and self.slots[index] is not None

    def order(self, *, turned: bool = False) -> list[int]:
        """The inputs, those that decide the others first: ops, then what is bound, then the rest, the last first."""

        def rank(index: int) -> int:
            want = self.slots[index]
            if isinstance(want, OpPattern):
                return 0
            if isinstance(want, Var) and want.name in self.grower.bound:
                return 1
            return 3 if isinstance(want, Var) and want.constant else 2

        present = [i for i, want in enumerate(self.slots) if want is not None]
        return sorted(present[::-1] if turned else present, key=rank)

    def settled(self, index: int) -> Known | None:
        """The operand there, if it is made already, here or elsewhere."""
        want = self.slots[index] if index < len(self.slots) else None
        if index not in self.operands and isinstance(want, Var):
            return cast("Known | None", self.grower.bound.get(want.name))
        return self.operands.get(index)

    def operand(self, index: int, shape: Shape, *, positive: bool = False, array: Array | None = None) -> Known:
        """The input at `index`, made like `shape` (or holding `array`) unless it is there already."""
        found = self.operands.get(index)
        if found is not None:
            return found
        want = self.slots[index] if index < len(self.slots) else None
        if want is None:
            raise Unmade(f"{self.type} has no input {index}")
        dtype = self.dtype_of(index)
        with self.choices.about(str(index)):
            if isinstance(want, OpPattern):
                found = self.grower.grow(want, Hint(shape, dtype if isinstance(dtype, int) else self.hint.dtype))
            else:
                found = self.grower.leaf(want, dtype, shape, positive=positive, array=array, lonely=self.count < 2)
        self.operands[index] = found
        formal = self.formal(index).type_str
        if found.dtype and not formal.startswith("tensor("):
            self.types[formal] = found.dtype
        return found

    def main(self, low: int = 0, high: int = 5) -> Known:
        """The first input, of a rank from `low` to `high`, like what is wished of the output."""
        made = self.operand(0, self.ranked(low, high))
        if len(made.shape) < low:
            raise Unmade(f"{self.type} takes no input of rank {len(made.shape)}")
        return made

    def ranked(self, low: int, high: int) -> Shape:
        """The shape wished for, or another one where its rank does not fit."""
        shape = self.hint.shape
        if low <= len(shape) <= high:
            return shape
        rank = low + self.choices.below(min(high - low + 1, 3))
        return self.grower.shape_of_rank(rank, shape)

    def formal(self, index: int) -> defs.OpSchema.FormalParameter:
        """What the schema says of the input at `index`."""
        inputs = self.spec.inputs
        if index >= len(inputs) and not (inputs and inputs[-1].option == VARIADIC):
            raise Unmade(f"{self.type} takes no input {index}")
        return inputs[min(index, len(inputs) - 1)]

    def dtype_of(self, index: int) -> int | str:
        """The element type of an input, as far as it follows from others; the type's name if it is no tensor."""
        formal = self.formal(index).type_str
        if formal in self.types:
            return self.types[formal]
        if formal in DTYPES:
            return DTYPES[formal]
        allowed = self.allowed(formal)
        dtypes = [DTYPES[t] for t in allowed if t in DTYPES]
        if not dtypes:
            return allowed[0] if allowed else formal
        makes = any(o.type_str == formal for o in self.spec.outputs)
        wished = (*([self.hint.dtype] if makes else []), self.grower.dtype, *PREFERRED)
        return next((d for d in wished if d in dtypes), dtypes[0])

    def allowed(self, formal: str) -> list[str]:
        """The types that a type parameter of the schema may stand for."""
        found = (sorted(c.allowed_type_strs) for c in self.spec.type_constraints if c.type_param_str == formal)
        return next(found, [formal])

    def parameter(self, name: str, make: Callable[[], Any], default: Any = None, *, needed: bool = False) -> Any:
        """What is in force for an attribute, or the input that plays its part at other opsets.

        `make` gives a value that is valid here. It is asked only where the pattern leaves room for one.
        """
        with self.choices.about(name):
            return self._parameter(name, make, default, needed)

    def _parameter(self, name: str, make: Callable[[], Any], default: Any, needed: bool) -> Any:
        named = dict(self.pattern.attrs)
        index = next((i for i, formal in enumerate(self.spec.inputs) if formal.name == name), None)
        if name in named:
            value = self._named(named[name], make)
            self._write(name, index, value)
            return default if value is None else value
        if index is not None:
            return self._read(index, make, default) if self.takes(index) else default
        if name not in self.spec.attributes or not self._may_set(needed):
            return default
        value = self.attrs[name] = make()
        if not self.pattern.bind:
            self.grower.strayed(self, name, value)
        return value

    def _named(self, want: Any, make: Callable[[], Any]) -> Any:
        if not isinstance(want, Var):
            return want
        if want.name not in self.grower.bound:
            self.grower.bound[want.name] = make()
        return self.grower.bound[want.name]

    def _write(self, name: str, index: int | None, value: Any) -> None:
        """Give a value that the pattern names, as the attribute or as the constant that it is at this opset."""
        if index is None:
            if name in self.spec.attributes:
                self.attrs[name] = value
        elif value is not None:
            self.operands[index] = self.grower.sketch.constant(self.array(index, value))

    def _read(self, index: int, make: Callable[[], Any], default: Any) -> Any:
        settled = self.settled(index)
        if settled is None:
            array = self.array(index, make())
            settled = self.operand(index, array.shape, array=array)
        else:
            self.operand(index, settled.shape)
        return default if settled.array is None else settled.array.tolist()

    def _may_set(self, needed: bool) -> bool:
        if self.pattern.bind:
            return needed or not self.choices.one_in(4)
        return not self.grower.depth and self.choices.one_in(self.grower.mood.strays)

    def array(self, index: int, value: Any) -> Array:
        """`value` as the input at `index` wants it."""
        dtype = self.dtype_of(index)
        if not isinstance(dtype, int):
            raise Unmade(f"input {index} of {self.type} is no tensor")
        try:
            return np.asarray(value, helper.tensor_dtype_to_np_dtype(dtype))
        except (OverflowError, ValueError, TypeError) as e:
            raise Unmade(f"input {index} of {self.type} cannot be {value}") from e

    def fill(self, shape: Shape) -> None:
        """Make the inputs that the maker did not ask for."""
        for i in range(len(self.slots)):
            if self.takes(i):
                self.operand(i, shape)

    def finished(self, outputs: int) -> list[Known]:
        """The outputs of the op."""
        count = max(self.operands, default=-1) + 1
        inputs: Sequence[Known | None] = [self.operands.get(i) for i in range(count)]
        return self.grower.sketch.node(self.type, inputs, self.attrs, self.pattern.domain, outputs)


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
        specs = {t: spec for t in pattern.types if (spec := signatures.schema(t, pattern.domain, version)) is not None}
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
        spec = op_schemas.schema(op_type, "", self.sketch.opset)
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
        if value != op_schemas.attribute_default(site.type, site.pattern.domain, self.sketch.opset, name):
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
