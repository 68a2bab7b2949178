"""Generation of the ops of a rule's pattern, from the root to its operands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, cast

import numpy as np
from msgspec import Struct
from onnx import TensorProto, defs, helper

from ...core.ir import op_schemas
from ...core.rewriting.pattern import EachInput, OpPattern, Predicate, Var, VariadicVar
from .choices import Choices, Distribution
from .dictionary import Dictionary, constant_array
from .model_builder import Array, GenerationError, ModelBuilder, Shape, TypedValue, schema, tensor_type

MAX_OPERANDS = 4
OPTIONAL = defs.OpSchema.FormalParameterOption.Optional
VARIADIC = defs.OpSchema.FormalParameterOption.Variadic
NEGATIVE_AXES_OPSET = 11
SIGNED_AXIS = frozenset({"Gather", "Scatter"})  # operators whose axis may be negative at earlier opsets
InputPattern = OpPattern | Var | float | None
DTYPES_BY_TYPE_STR = {
    f"tensor({'float' if t == TensorProto.FLOAT else TensorProto.DataType.Name(t).lower()})": t
    for t in TensorProto.DataType.values()
}
PREFERRED_DTYPES = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.UINT8)


class PreferredType(Struct, frozen=True):
    """The preferred type and shape of a value, suggested by its consumer."""

    shape: Shape
    dtype: int


@dataclass(slots=True)
class OpSite:
    """An op to be generated for `pattern`; its generator requests operands and parameters, others are omitted."""

    generator: PatternGenerator
    pattern: OpPattern
    op_type: str
    spec: defs.OpSchema
    input_patterns: list[InputPattern]
    hint: PreferredType
    operands: dict[int, TypedValue] = field(default_factory=dict[int, TypedValue])
    attrs: dict[str, Any] = field(default_factory=dict[str, Any])
    bound_types: dict[str, int] = field(default_factory=dict[str, int])
    output_count: int = 1

    @property
    def choices(self) -> Choices:
        """The choices of the generator."""
        return self.generator.choices

    def input_pattern(self, index: int) -> InputPattern:
        """The pattern of the input at `index`; None if it is omitted."""
        return self.input_patterns[index] if index < len(self.input_patterns) else None

    def operand_order(self, *, reverse: bool = False) -> list[int]:
        """The inputs, those that determine others first: ops, then bound variables, then the rest, last one first."""

        def rank(index: int) -> int:
            want = self.input_patterns[index]
            if isinstance(want, OpPattern):
                return 0
            if isinstance(want, Var) and want.name in self.generator.bound:
                return 1
            is_constant = isinstance(want, int | float) or (isinstance(want, Var) and want.constant)
            return 3 if is_constant else 2

        present = [i for i, want in enumerate(self.input_patterns) if want is not None]
        return sorted(present[::-1] if reverse else present, key=rank)

    def existing_operand(self, index: int) -> TypedValue | None:
        """The operand at `index` if it already exists, here or as a bound variable."""
        want = self.input_pattern(index)
        if index not in self.operands and isinstance(want, Var):
            return cast("TypedValue | None", self.generator.bound.get(want.name))
        return self.operands.get(index)

    def operand(self, index: int, shape: Shape, *, positive: bool = False, array: Array | None = None) -> TypedValue:
        """The input at `index`, generated with `shape` (or the elements of `input_array`) unless it exists already."""
        found = self.operands.get(index)
        if found is not None:
            return found
        want = self.input_pattern(index)
        if want is None:
            raise GenerationError(f"{self.op_type} has no input {index}")
        dtype = self.input_dtype(index)
        with self.choices.scope(str(index)):
            if isinstance(want, OpPattern):
                found = self.generator.generate(
                    want, PreferredType(shape, dtype if isinstance(dtype, int) else self.hint.dtype)
                )
            elif isinstance(want, int | float):
                found = self.generator.number(want, dtype, len(shape))
            else:
                found = self.generator.bound.get(want.name)
                if found is None:
                    is_only = len(self.input_patterns) < 2
                    found = self.generator.new_value(want, dtype, shape, positive, array, is_only_operand=is_only)
                    self.generator.bound[want.name] = found
        if not isinstance(found, TypedValue):
            raise GenerationError(f"input {index} of {self.op_type} is an attribute elsewhere")
        self.operands[index] = found
        formal = self.formal_parameter(index).type_str
        if found.dtype and not formal.startswith("tensor("):
            self.bound_types[formal] = found.dtype
        return found

    def first_operand(self, min_rank: int = 0, max_rank: int = 5) -> TypedValue:
        """The first input, with a rank from `min_rank` to `max_rank`, similar to the hint for the output."""
        made = self.operand(0, self.hinted_shape(min_rank, max_rank))
        if len(made.shape) < min_rank:
            raise GenerationError(f"{self.op_type} takes no input of rank {len(made.shape)}")
        return made

    def hinted_shape(self, min_rank: int, max_rank: int) -> Shape:
        """The hinted shape, or another one if its rank does not fit."""
        shape = self.hint.shape
        if min_rank <= len(shape) <= max_rank:
            return shape
        rank = min_rank + self.choices.draw_below(min(max_rank - min_rank + 1, 3))
        return self.generator.draw_shape(rank, shape)

    def formal_parameter(self, index: int) -> defs.OpSchema.FormalParameter:
        """The formal parameter of the schema for the input at `index`."""
        inputs = self.spec.inputs
        if index >= len(inputs) and not (inputs and inputs[-1].option == VARIADIC):
            raise GenerationError(f"{self.op_type} takes no input {index}")
        return inputs[min(index, len(inputs) - 1)]

    def input_dtype(self, index: int) -> int | str:
        """The element type of an input, consistent with other operands; the name of the type if it is not a tensor."""
        formal = self.formal_parameter(index).type_str
        if formal in self.bound_types:
            return self.bound_types[formal]
        if formal in DTYPES_BY_TYPE_STR:
            return DTYPES_BY_TYPE_STR[formal]
        allowed = self.allowed_types(formal)
        dtypes = [DTYPES_BY_TYPE_STR[t] for t in allowed if t in DTYPES_BY_TYPE_STR]
        if not dtypes:
            return allowed[0] if allowed else formal
        makes = any(o.type_str == formal for o in self.spec.outputs)
        wished = (*([self.hint.dtype] if makes else []), self.generator.dtype, *PREFERRED_DTYPES)
        return next((d for d in wished if d in dtypes), dtypes[0])

    def allowed_types(self, formal: str) -> list[str]:
        """The types that a formal parameter of the schema allows."""
        found = (sorted(c.allowed_type_strs) for c in self.spec.type_constraints if c.type_param_str == formal)
        return next(found, [formal])

    def parameter(self, name: str, make: Callable[[], Any], default: Any = None, *, needed: bool = False) -> Any:
        """The value of an attribute, or of the input that replaces it at other opsets.

        `make` returns a valid value. It is called only if the pattern leaves the value open.
        """
        index = next((i for i, formal in enumerate(self.spec.inputs) if formal.name == name), None)
        with self.choices.scope(name):
            if name in (named := dict(self.pattern.attrs)):
                value = self._set_named_parameter(name, named[name], index, make)
            elif index is not None:
                value = self._input_parameter(index, make)
            elif name in self.spec.attributes and self._may_set_attribute(needed):
                value = self.attrs[name] = make()
                if not self.pattern.bound_name:
                    self.generator.record_attribute(self, name, value)
                return value
            else:
                value = None
        return default if value is None else value

    def required_parameter(self, name: str, make: Callable[[], Any]) -> Any:
        """Like `parameter`, but the attribute is always set."""
        value = self.parameter(name, make, needed=True)
        if value is None:
            value = self.attrs[name] = make()
        return value

    def pick(self, name: str, *options: Any, default: Any = None) -> Any:
        """A `parameter` that is one of `options`; without any, 0 or 1."""
        return self.parameter(name, lambda: self.choices.pick(options or (0, 1)), default)

    def axis(self, x: TypedValue, default: Any = None) -> Any:
        """The `parameter` axis, an axis of `x`."""
        return self.parameter("axis", lambda: self.draw_axis(x), default)

    def draw_axis(self, x: TypedValue) -> int:
        """An axis of `x`, sometimes counted from the end."""
        rank = max(len(x.shape), 1)
        return self.signed_axes([self.choices.draw_below(rank)], rank)[0]

    def draw_axes(self, rank: int) -> list[int]:
        """One or more axes out of `rank`, sometimes counted from the end."""
        axes = self.choices.subset(range(max(rank, 1)))
        if self.choices.one_in(4):
            axes = axes[::-1]
        return self.signed_axes(axes, max(rank, 1))

    def signed_axes(self, axes: list[int], rank: int, *, one_in: int = 2) -> list[int]:
        """The axes; in 1 of `one_in` cases counted from the end, if the operator allows it at this opset."""
        is_counted = self.choices.one_in(one_in)
        is_allowed = self.spec.since_version >= NEGATIVE_AXES_OPSET or self.spec.domain or self.op_type in SIGNED_AXIS
        return [a - rank for a in axes] if is_counted and is_allowed else axes

    def is_empty_list(self) -> bool:
        """Whether axes, indices or repeats are to be empty."""
        return self.choices.one_in(self.generator.distribution.empty_lists)

    def draw_each(self, count: int, low: int = 0) -> list[int]:
        """For each of `count` dims, `low` or one more."""
        return [low + self.choices.draw_below(2) for _ in range(count)]

    def _set_named_parameter(self, name: str, want: Any, index: int | None, make: Callable[[], Any]) -> Any:
        """Set the value of the pattern, as an attribute or constant input, whichever it is at this opset."""
        value = want
        if isinstance(want, Var):
            if want.name not in self.generator.bound:
                self.generator.bound[want.name] = make() if want.accepts is None else _accepted(make, want.accepts)
            value = self.generator.bound[want.name]
        elif callable(want):
            value = _accepted(make, want)
        if index is None and name in self.spec.attributes:
            self.attrs[name] = value
        elif index is not None and value is not None:
            self.operands[index] = self.generator.builder.constant(self.input_array(index, value))
        return value

    def _input_parameter(self, index: int, make: Callable[[], Any]) -> Any:
        if self.input_pattern(index) is None:
            return None
        known = self.existing_operand(index)
        if known is None:
            array = self.input_array(index, make())
            known = self.operand(index, array.shape, array=array)
        else:
            self.operand(index, known.shape)
        return None if known.array is None else known.array.tolist()

    def _may_set_attribute(self, needed: bool) -> bool:
        if self.pattern.bound_name:
            return needed or not self.choices.one_in(4)
        return not self.generator.depth and self.choices.one_in(self.generator.distribution.non_default_attributes)

    def input_array(self, index: int, value: Any) -> Array:
        """`value` as an array of the type of the input at `index`."""
        dtype = self.input_dtype(index)
        if not isinstance(dtype, int):
            raise GenerationError(f"input {index} of {self.op_type} is not a tensor")
        try:
            if dtype == TensorProto.STRING:
                return np.asarray(np.asarray(value, np.str_), object)
            return np.asarray(value, helper.tensor_dtype_to_np_dtype(dtype))
        except (OverflowError, ValueError, TypeError) as e:
            raise GenerationError(f"input {index} of {self.op_type} cannot be {value}") from e

    def add_remaining_operands(self, shape: Shape) -> None:
        """Generate the inputs that were not requested."""
        self.add_operands(range(len(self.input_patterns)), shape)

    def add_operands(self, indices: Iterable[int], shape: Shape, *, positive: int = -1) -> None:
        """Generate the inputs at `indices` that the pattern has, with positive numbers at `positive`."""
        for i in indices:
            if self.input_pattern(i) is not None:
                self.operand(i, shape, positive=i == positive)


OpGenerator = Callable[[OpSite], None]
MAX_DRAWN = 50  # values of an attribute, to find one that satisfies a condition


def _accepted(make: Callable[[], Any], accepts: Predicate) -> Any:
    """A value that satisfies a condition; the last one drawn if the condition always raises.

    Raises GenerationError if none of many values satisfies it.
    """
    answers, value = 0, None
    for _ in range(MAX_DRAWN):
        value = make()
        try:
            if accepts(value):
                return value
            answers += 1
        except Exception:  # noqa: BLE001, S112 - of the author's code
            continue
    if not answers:
        return value
    raise GenerationError("no value that was drawn fulfils the condition on an attribute")


def _numbered(pattern: OpPattern, names: Sequence[str], number: int) -> OpPattern:
    """A pattern with separate names for some of its variables."""
    inputs = tuple(
        _numbered(i, names, number) if isinstance(i, OpPattern)
        else Var(f"{i.name} {number}", i.optional, i.constant) if isinstance(i, Var) and i.name in names
        else i
        for i in pattern.inputs
    )  # fmt: skip
    bound = f"{pattern.bound_name} {number}" if pattern.bound_name else ""
    return replace(pattern, inputs=inputs, bound_name=bound)


MAX_DEPTH = 3  # of the ops that compute an operand that the pattern leaves open
DIMS = (2, 3, 1, 4, 2, 3, 1, 5, 0)
OWN_EXTENT_ONE_IN = 8  # one dim in this many is a large extent, for rules that name one


@dataclass(slots=True)
class PatternGenerator:
    """Generates ops by the `op_generators` of their types, and operands for the pattern's variables."""

    builder: ModelBuilder
    choices: Choices
    dictionary: Dictionary
    op_generators: Mapping[str, OpGenerator]
    distribution: Distribution
    dtype: int
    bound: dict[str, Any] = field(default_factory=dict[str, Any])
    pattern_outputs: list[TypedValue] = field(default_factory=list[TypedValue])  # the output of the root last
    other_roots: list[TypedValue] = field(default_factory=list[TypedValue])  # outputs of roots beside the first
    no_fire_reasons: list[str] = field(default_factory=list[str])  # why the rule must not fire
    traits: list[str] = field(default_factory=list[str])
    unnamed: Iterator[int] = field(default_factory=count)  # numbers for the operands of `...`
    depth: int = 0
    last_dim: int = 0  # the dim chosen last
    has_large_dim: bool = False
    has_extra_producers: bool = False  # whether there are ops that the pattern does not have
    has_extra_constants: bool = False  # whether a variable of the pattern that may be computed is a constant
    last_outputs: list[TypedValue] = field(default_factory=list[TypedValue])  # the outputs of the op made last

    def generate(self, pattern: OpPattern, hint: PreferredType) -> TypedValue:
        """The output of `pattern`, generated."""
        site = self._op_site(pattern, hint)
        if pattern.bound_name:
            self.bound[pattern.bound_name] = None
        try:
            if site.op_type in self.op_generators:
                self.op_generators[site.op_type](site)
            site.add_remaining_operands(hint.shape)
        except (ArithmeticError, IndexError, TypeError, ValueError) as e:  # a pattern may name any attribute's value
            raise GenerationError(f"{site.op_type} cannot be created: {e}") from e
        is_variadic = site.spec.outputs[-1].option == VARIADIC
        count = max(pattern.output + 1, site.output_count, 0 if is_variadic else site.spec.min_output)
        inputs = [site.operands.get(i) for i in range(max(site.operands, default=-1) + 1)]
        made = self.builder.node(site.op_type, inputs, site.attrs, pattern.domain, count)
        if self.depth == 0:
            self.pattern_outputs.append(made[pattern.output])
            self.last_outputs = made
        return made[pattern.output]

    def _op_site(self, pattern: OpPattern, hint: PreferredType) -> OpSite:
        version = self.builder.opset
        specs = {t: spec for t in pattern.types if (spec := schema(t, pattern.domain, version)) is not None}
        if not specs:
            raise GenerationError(f"{pattern.types[0]} does not exist at opset {version}")
        op_type = self.choices.pick(list(specs))
        spec = specs[op_type]
        site = OpSite(self, pattern, op_type, spec, self._select_inputs(pattern, spec), hint)
        makes = spec.outputs[pattern.output if pattern.output < len(spec.outputs) else -1].type_str
        if hint.dtype in map(DTYPES_BY_TYPE_STR.get, site.allowed_types(makes)) and not makes.startswith("tensor("):
            site.bound_types[makes] = hint.dtype
        return site

    def _select_inputs(self, pattern: OpPattern, spec: defs.OpSchema) -> list[InputPattern]:
        """The patterns of all inputs: `*xs` and `...` become some inputs, and optional inputs are sometimes omitted."""
        variadic = bool(spec.inputs) and spec.inputs[-1].option == VARIADIC
        required = [i for i, w in enumerate(pattern.inputs, 1) if not (isinstance(w, Var) and w.optional)]
        most = max(MAX_OPERANDS, len(pattern.inputs)) if variadic else len(spec.inputs)
        wants = pattern.inputs if variadic else pattern.inputs[: max(len(spec.inputs), *required, 0)]
        fixed = sum(not isinstance(want, VariadicVar | EachInput) for want in wants)
        rests = len(wants) - fixed
        least = max(spec.min_input, fixed)
        if least > most:
            raise GenerationError(f"{spec.name} takes no {fixed} inputs at this opset")
        room = least - fixed + self.choices.draw_below(most - least + 1) if rests else 0
        slots: list[InputPattern] = []
        for want in wants:
            if not isinstance(want, VariadicVar | EachInput):
                slots.append(self._select_optional(want))
                continue
            rests -= 1
            size = room if rests == 0 else self.choices.draw_below(room + 1)
            room -= size
            if isinstance(want, EachInput):
                slots += (_numbered(want.pattern, want.names, next(self.unnamed)) for _ in range(size))
                continue
            name = want.name or f"... {next(self.unnamed)}"
            for i in range(size):
                optional = len(slots) < len(spec.inputs) and spec.inputs[len(slots)].option == OPTIONAL
                slots.append(None if optional and self.choices.one_in(3) else Var(f"{name} {i}"))
        while slots and slots[-1] is None:
            slots.pop()
        return slots

    def _select_optional(self, want: Any) -> InputPattern:
        """Omit an optional input in half of all models."""
        if not isinstance(want, Var) or not want.optional:
            return want
        if want.name not in self.bound:
            if self.choices.draw_below(2):
                return want
            self.bound[want.name] = None
            self.add_trait("an optional input is left out")
        return want if self.bound[want.name] is not None else None

    def new_value(
        self, var: Var, dtype: int | str, shape: Shape, positive: bool, array: Array | None, *, is_only_operand: bool
    ) -> TypedValue:
        """A value for a variable of the pattern: constant, existing, computed, or an input of the model."""
        one_in, often = self.choices.one_in, self.distribution
        if not isinstance(dtype, int):
            return self._container(dtype, shape)
        if array is not None:
            return self._new_parameter(array, var)
        alone = is_only_operand or (often.constant_operands == 1 and not self.builder.inputs)
        if var.constant or (not alone and one_in(often.constant_operands)):
            array = constant_array(self.choices, self.dictionary, dtype, shape, often, positive=positive)
            return self._new_constant(array, var)
        if one_in(2 if self.depth else often.reused_values):
            known = [k for k in (*self.builder.inputs, *self.builder.node_outputs) if k.dtype == dtype]
            same = [k for k in known if k.known_shape == shape] or (known if self.depth else [])
            if same:
                return self.choices.pick(same)
        if dtype == TensorProto.INT64 and len(shape) < 2 and one_in(often.shapes_from_inputs):
            return self._dims_of_input(shape)
        if self.depth < MAX_DEPTH and self.dictionary.operators and one_in(often.extra_producers):
            return self._producer_output(dtype, shape)
        return self.builder.input(dtype, shape)

    def number(self, number: float, dtype: int | str, rank: int) -> TypedValue:
        """A number of the pattern as a constant, sometimes with dims of extent 1.

        Raises GenerationError for an element type without that number.
        """
        kind = helper.tensor_dtype_to_np_dtype(dtype) if isinstance(dtype, int) else np.dtype(object)
        if kind.kind == "O" or (kind.kind in "biu" and np.asarray(number).astype(kind).item() != number):
            raise GenerationError(f"{number} is no number of that type")
        with np.errstate(all="ignore"):
            array = np.full((1,) * self.choices.draw_below(rank + 1), number).astype(kind)
        return self._new_constant(array, Var(str(number), constant=True))

    def _new_parameter(self, array: Array, var: Var) -> TypedValue:
        """The numbers as a constant, or unknown: an input, or the computed shape of an input."""
        if not var.constant and self.choices.one_in(self.distribution.unknown_parameters):
            self.add_trait("indices, axes or extents are an input")
            return self.builder.input(helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        is_small = array.dtype == np.int64 and array.ndim == 1 and array.size < MAX_OPERANDS
        may_compute = is_small and not var.constant and all(0 <= n < MAX_OPERANDS + 1 for n in array.tolist())
        if not may_compute or not self.choices.one_in(self.distribution.shapes_from_inputs):
            return self._new_constant(array, var)
        self.add_trait("a shape is computed")
        self.has_extra_producers = True
        return self.builder.node("Shape", [self.builder.input(self.dtype, array.tolist())], {})[0]

    def _new_constant(self, array: Array, var: Var) -> TypedValue:
        known = self.builder.constant(array)
        self.has_extra_constants |= not var.constant
        if self.choices.one_in(self.distribution.overridable_constants):
            self.builder.overridable.add(known.name)
            self.add_trait("a constant is an input that may be overridden")
            if var.constant and self.depth == 0:
                self.no_fire_reasons.append(f"{known.name} is not a constant: a caller may override it")
        return known

    def _producer_output(self, dtype: int, shape: Shape) -> TypedValue:
        """The output of an operator that the rule's code names."""
        op_type = self.choices.pick(self.dictionary.operators)
        spec = op_schemas.schema(op_type, "", self.builder.opset)
        if spec is None:
            return self.builder.input(dtype, shape)
        self.has_extra_producers = True
        self.depth += 1
        fresh = f"{op_type} {len(self.builder.nodes)} {len(self.bound)}"
        most = 2 if spec.max_input > 2 * MAX_OPERANDS else spec.max_input
        count = spec.min_input + self.choices.draw_below(most - spec.min_input + 1)
        inputs = tuple(Var(f"{fresh} {i}") for i in range(count))
        try:
            return self.generate(OpPattern((op_type,), "", inputs, (), bound_name=fresh), PreferredType(shape, dtype))
        finally:
            self.depth -= 1

    def _container(self, type_name: str, shape: Shape) -> TypedValue:
        """A sequence of tensors, or an optional, which may be empty."""
        if type_name.startswith("seq("):
            return self._sequence(shape)
        if not type_name.startswith("optional("):
            raise GenerationError(f"no {type_name} can be made")
        held = tensor_type(self.dtype, shape)
        form = self.choices.draw_below(3)
        if form == 0:
            return self.builder.node("Optional", [self.builder.input(self.dtype, shape)], {})[0]
        self.add_trait("an optional is empty, or an input")
        if form == 1:
            return self.builder.node("Optional", [], {"type": held})[0]
        return self.builder.typed_input(helper.make_optional_type_proto(held))

    def _sequence(self, shape: Shape) -> TypedValue:
        """A sequence of two tensors, or of none, one or three, with equal or different extents, or an input."""
        form = self.choices.draw_below(4)
        if form == 3:
            self.add_trait("a sequence is an input")
            open_type = helper.make_tensor_type_proto(self.dtype, [None] * len(shape))
            return self.builder.typed_input(helper.make_sequence_type_proto(open_type))
        length = 2 if form == 0 else self.choices.pick((1, 3, 0))
        if length == 0:
            return self.builder.node("SequenceEmpty", [], {"dtype": self.dtype})[0]
        shapes = [
            (*([self.draw_dim()] if form == 2 else shape[:1]), *shape[1:]) if shape else () for _ in range(length)
        ]
        return self.builder.node("SequenceConstruct", [self.builder.input(self.dtype, s) for s in shapes], {})[0]

    def _dims_of_input(self, shape: Shape) -> TypedValue:
        """Dims of an input: all dims, or one."""
        self.has_extra_producers = True
        rank = shape[0] if shape and shape != (1,) else 1 + self.choices.draw_below(3)
        dims = self.builder.node("Shape", [self.builder.input(self.dtype, self.draw_shape(rank))], {})[0]
        if shape == (rank,):
            return dims
        place = self.builder.constant(np.full(shape, self.choices.draw_below(rank)))
        return self.builder.node("Gather", [dims, place], {})[0]

    def draw_dim(self) -> int:
        """A small dim; 0 only with `zero_dims`, always the same with `equal_dims`, and at most one large dim.

        For rules that name an extent, some models of each distribution have a large one.
        """
        large_one_in = self.distribution.large_dims or (OWN_EXTENT_ONE_IN if self.dictionary.own_extents else 0)
        if not self.has_large_dim and self.choices.one_in(large_one_in):
            self.has_large_dim = True
            return self.dictionary.draw_large_extent(self.choices)
        if self.distribution.equal_dims and self.last_dim:
            return self.last_dim
        self.last_dim = self.choices.pick(DIMS if self.distribution.zero_dims else DIMS[:-1])
        return self.last_dim

    def draw_shape(self, rank: int, suffix: Shape = ()) -> Shape:
        """A shape of that rank, with the last dims of `suffix`."""
        kept = suffix[len(suffix) - min(rank, len(suffix)) :]
        return (*(self.draw_dim() for _ in range(rank - len(kept))), *kept)

    def add_trait(self, trait: str) -> None:
        """Record a special feature of the model."""
        if trait not in self.traits:
            self.traits.append(trait)

    def record_attribute(self, site: OpSite, name: str, value: Any) -> None:
        """Record an attribute that the pattern does not name; unless it has its default, the rule must not match."""
        if value != op_schemas.attribute_default(site.op_type, site.pattern.domain, self.builder.opset, name):
            self.add_trait("an attribute is off its default")
            self.no_fire_reasons.append(
                f"{name} of {site.op_type}, which the pattern does not name, is off its default"
            )
