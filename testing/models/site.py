"""One operator of a pattern where it is being made: what it may be given, and what it already has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from onnx import TensorProto, defs, helper

from ...core.pattern import OpPattern, Var
from .choices import Choices
from .sketch import Array, Known, Shape, Unmade

if TYPE_CHECKING:
    from .grower import Grower

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
