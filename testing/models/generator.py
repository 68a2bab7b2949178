"""Generation of the ops of a rule's pattern, from the root to its operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

import numpy as np
from onnx import TensorProto, defs, helper

from ...core.ir import op_schemas
from ...core.rewriting.pattern import OpPattern, Var, VariadicVar
from . import signatures
from .choices import Choices
from .constant_values import constant_array
from .dictionary import Dictionary
from .distribution import Distribution
from .model_builder import Array, GenerationError, ModelBuilder, Shape, TypedValue

MAX_OPERANDS = 4
OPTIONAL = defs.OpSchema.FormalParameterOption.Optional


def select_inputs(generator: PatternGenerator, pattern: OpPattern, spec: defs.OpSchema) -> list[InputPattern]:
    """The patterns of all inputs: `*xs` and `...` are expanded, and optional ones sometimes omitted."""
    variadic = bool(spec.inputs) and spec.inputs[-1].option == VARIADIC
    most = max(MAX_OPERANDS, len(pattern.inputs)) if variadic else len(spec.inputs)
    wants = pattern.inputs if variadic else pattern.inputs[: max(len(spec.inputs), _required_count(pattern.inputs))]
    fixed = sum(not isinstance(want, VariadicVar) for want in wants)
    rests = len(wants) - fixed
    least = max(spec.min_input, fixed)
    if least > most:
        raise GenerationError(f"{spec.name} takes no {fixed} inputs at this opset")
    room = least - fixed + generator.choices.draw_below(most - least + 1) if rests else 0
    slots: list[InputPattern] = []
    for want in wants:
        if not isinstance(want, VariadicVar):
            slots.append(_select_optional(generator, want))
            continue
        rests -= 1
        size = room if rests == 0 else generator.choices.draw_below(room + 1)
        room -= size
        name = want.name or f"... {next(generator.unnamed)}"
        slots += [_select_rest(generator, Var(f"{name} {i}"), len(slots) + i, spec) for i in range(size)]
    while slots and slots[-1] is None:
        slots.pop()
    return slots


def _required_count(wants: tuple[Any, ...]) -> int:
    """The number of inputs up to the last one that must not be omitted."""
    return max((i for i, w in enumerate(wants, 1) if not (isinstance(w, Var) and w.optional)), default=0)


def _select_optional(generator: PatternGenerator, want: Any) -> InputPattern:
    """Omit an optional input in half of all models."""
    if not isinstance(want, Var) or not want.optional:
        return want
    if want.name in generator.bound:
        return want if generator.bound[want.name] is not None else None
    if generator.choices.draw_below(2):
        return want
    generator.bound[want.name] = None
    generator.add_trait("an optional input is left out")
    return None


def _select_rest(generator: PatternGenerator, var: Var, index: int, spec: defs.OpSchema) -> InputPattern:
    optional = index < len(spec.inputs) and spec.inputs[index].option == OPTIONAL
    return None if optional and generator.choices.one_in(3) else var


VARIADIC = defs.OpSchema.FormalParameterOption.Variadic
InputPattern = OpPattern | Var | None
DTYPES_BY_TYPE_STR = {
    f"tensor({'float' if t == TensorProto.FLOAT else TensorProto.DataType.Name(t).lower()})": t
    for t in TensorProto.DataType.values()
}
PREFERRED_DTYPES = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.BOOL, TensorProto.UINT8)


@dataclass(frozen=True, slots=True)
class Hint:
    """The preferred type and shape of a value, which its consumer suggests."""

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
    hint: Hint
    operands: dict[int, TypedValue] = field(default_factory=dict[int, TypedValue])
    attrs: dict[str, Any] = field(default_factory=dict[str, Any])
    bound_types: dict[str, int] = field(default_factory=dict[str, int])
    output_count: int = 1

    @property
    def choices(self) -> Choices:
        """The choices of the generator."""
        return self.generator.choices

    @property
    def input_count(self) -> int:
        """The number of inputs in the pattern, including omitted ones."""
        return len(self.input_patterns)

    def wants_input(self, index: int) -> bool:
        """Whether the pattern has an input at `index`."""
        return index < len(self.input_patterns) and self.input_patterns[index] is not None

    def operand_order(self, *, reverse: bool = False) -> list[int]:
        """The inputs, those that determine others first: ops, then bound variables, then the rest, the last first."""

        def rank(index: int) -> int:
            want = self.input_patterns[index]
            if isinstance(want, OpPattern):
                return 0
            if isinstance(want, Var) and want.name in self.generator.bound:
                return 1
            return 3 if isinstance(want, Var) and want.constant else 2

        present = [i for i, want in enumerate(self.input_patterns) if want is not None]
        return sorted(present[::-1] if reverse else present, key=rank)

    def existing_operand(self, index: int) -> TypedValue | None:
        """The operand at `index`, if it exists already, here or as a bound variable."""
        want = self.input_patterns[index] if index < len(self.input_patterns) else None
        if index not in self.operands and isinstance(want, Var):
            return cast("TypedValue | None", self.generator.bound.get(want.name))
        return self.operands.get(index)

    def operand(self, index: int, shape: Shape, *, positive: bool = False, array: Array | None = None) -> TypedValue:
        """The input at `index`, generated with `shape` (or the elements of `input_array`) unless it exists already."""
        found = self.operands.get(index)
        if found is not None:
            return found
        want = self.input_patterns[index] if index < len(self.input_patterns) else None
        if want is None:
            raise GenerationError(f"{self.op_type} has no input {index}")
        dtype = self.input_dtype(index)
        with self.choices.scope(str(index)):
            if isinstance(want, OpPattern):
                found = self.generator.generate(want, Hint(shape, dtype if isinstance(dtype, int) else self.hint.dtype))
            else:
                found = self.generator.bound_value(
                    want, dtype, shape, positive=positive, array=array, is_only_operand=self.input_count < 2
                )
        self.operands[index] = found
        formal = self.formal_parameter(index).type_str
        if found.dtype and not formal.startswith("tensor("):
            self.bound_types[formal] = found.dtype
        return found

    def first_operand(self, min_rank: int = 0, max_rank: int = 5) -> TypedValue:
        """The first input, of a rank from `min_rank` to `max_rank`, like the hint for the output."""
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
        """The element type of an input, consistent with other operands; the name of the type if it is no tensor."""
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
        with self.choices.scope(name):
            return self._parameter(name, make, default, needed)

    def _parameter(self, name: str, make: Callable[[], Any], default: Any, needed: bool) -> Any:
        named = dict(self.pattern.attrs)
        index = next((i for i, formal in enumerate(self.spec.inputs) if formal.name == name), None)
        if name in named:
            value = self._pattern_value(named[name], make)
            self._set_parameter(name, index, value)
            return default if value is None else value
        if index is not None:
            return self._read_parameter(index, make, default) if self.wants_input(index) else default
        if name not in self.spec.attributes or not self._may_set_attribute(needed):
            return default
        value = self.attrs[name] = make()
        if not self.pattern.bound_name:
            self.generator.record_attribute(self, name, value)
        return value

    def _pattern_value(self, want: Any, make: Callable[[], Any]) -> Any:
        if not isinstance(want, Var):
            return want
        if want.name not in self.generator.bound:
            self.generator.bound[want.name] = make()
        return self.generator.bound[want.name]

    def _set_parameter(self, name: str, index: int | None, value: Any) -> None:
        """Set the value of the pattern, as the attribute or constant input that it is at this opset."""
        if index is None:
            if name in self.spec.attributes:
                self.attrs[name] = value
        elif value is not None:
            self.operands[index] = self.generator.builder.constant(self.input_array(index, value))

    def _read_parameter(self, index: int, make: Callable[[], Any], default: Any) -> Any:
        settled = self.existing_operand(index)
        if settled is None:
            array = self.input_array(index, make())
            settled = self.operand(index, array.shape, array=array)
        else:
            self.operand(index, settled.shape)
        return default if settled.array is None else settled.array.tolist()

    def _may_set_attribute(self, needed: bool) -> bool:
        if self.pattern.bound_name:
            return needed or not self.choices.one_in(4)
        return not self.generator.depth and self.choices.one_in(self.generator.distribution.non_default_attributes)

    def input_array(self, index: int, value: Any) -> Array:
        """`value` as an array of the type of the input at `index`."""
        dtype = self.input_dtype(index)
        if not isinstance(dtype, int):
            raise GenerationError(f"input {index} of {self.op_type} is no tensor")
        try:
            return np.asarray(value, helper.tensor_dtype_to_np_dtype(dtype))
        except (OverflowError, ValueError, TypeError) as e:
            raise GenerationError(f"input {index} of {self.op_type} cannot be {value}") from e

    def add_remaining_operands(self, shape: Shape) -> None:
        """Generate the inputs that were not requested."""
        for i in range(len(self.input_patterns)):
            if self.wants_input(i):
                self.operand(i, shape)

    def add_node(self, outputs: int) -> list[TypedValue]:
        """The outputs of the op."""
        count = max(self.operands, default=-1) + 1
        inputs: Sequence[TypedValue | None] = [self.operands.get(i) for i in range(count)]
        return self.generator.builder.node(self.op_type, inputs, self.attrs, self.pattern.domain, outputs)


OpGenerator = Callable[[OpSite], None]
MAX_DEPTH = 3  # of what feeds an operand that the pattern leaves open
DIMS = (2, 3, 1, 4, 2, 3, 1, 5, 0)


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
    pattern_outputs: list[TypedValue] = field(
        default_factory=list[TypedValue]
    )  # what the pattern's ops make, the root's last
    no_fire_reasons: list[str] = field(default_factory=list[str])  # why the rule may not fire
    traits: list[str] = field(default_factory=list[str])
    unnamed: Iterator[int] = field(default_factory=count)  # numbers for operands that `...` stands for
    depth: int = 0
    last_dim: int = 0  # the dim chosen last
    has_extra_producers: bool = False  # whether anything was grown that the pattern does not have
    has_extra_constants: bool = False  # whether a constant stands where the pattern wants none
    last_outputs: list[TypedValue] = field(default_factory=list[TypedValue])  # the outputs of the op made last

    def generate(self, pattern: OpPattern, hint: Hint) -> TypedValue:
        """The output of `pattern`, generated."""
        site = self._op_site(pattern, hint)
        if pattern.bound_name:
            self.bound[pattern.bound_name] = None
        try:
            self.op_generators.get(site.op_type, inputs_like_output)(site)
            site.add_remaining_operands(hint.shape)
        except (ArithmeticError, IndexError, TypeError, ValueError) as e:  # a pattern may name any attribute's value
            raise GenerationError(f"{site.op_type} cannot be made so: {e}") from e
        made = site.add_node(max(pattern.output + 1, self._output_count(site)))
        if self.depth == 0:
            self.pattern_outputs.append(made[pattern.output])
            self.last_outputs = made
        return made[pattern.output]

    def _op_site(self, pattern: OpPattern, hint: Hint) -> OpSite:
        version = self.builder.opset
        specs = {t: spec for t in pattern.types if (spec := signatures.schema(t, pattern.domain, version)) is not None}
        if not specs:
            raise GenerationError(f"{pattern.types[0]} does not exist at opset {version}")
        op_type = self.choices.pick(list(specs))
        spec = specs[op_type]
        site = OpSite(self, pattern, op_type, spec, select_inputs(self, pattern, spec), hint)
        makes = spec.outputs[pattern.output if pattern.output < len(spec.outputs) else -1].type_str
        if hint.dtype in map(DTYPES_BY_TYPE_STR.get, site.allowed_types(makes)) and not makes.startswith("tensor("):
            site.bound_types[makes] = hint.dtype
        return site

    def _output_count(self, site: OpSite) -> int:
        """The number of outputs: the required ones, and some of a variadic one."""
        last = site.spec.outputs[-1]
        if last.option == VARIADIC:
            return site.output_count
        return max(site.output_count, site.spec.min_output)

    # -- operands ------------------------------------------------------------------------

    def bound_value(
        self, var: Var, dtype: int | str, shape: Shape, *, positive: bool, array: Array | None, is_only_operand: bool
    ) -> TypedValue:
        """The value of a variable of the pattern, the same at each occurrence."""
        found = self.bound.get(var.name)
        if found is None:
            found = self.bound[var.name] = self._new_value(var, dtype, shape, positive, array, is_only_operand)
        if not isinstance(found, TypedValue):
            raise GenerationError(f"{var.name} is an attribute elsewhere")
        return found

    def _new_value(
        self, var: Var, dtype: int | str, shape: Shape, positive: bool, array: Array | None, is_only_operand: bool
    ) -> TypedValue:
        if not isinstance(dtype, int):
            return self._container(dtype, shape)
        if array is not None:
            return self._computed_shape(array) if self._may_compute(var, array) else self._new_constant(array, var)
        alone = is_only_operand or (self.distribution.constant_operands == 1 and not self.builder.inputs)
        if var.constant or (not alone and self.choices.one_in(self.distribution.constant_operands)):
            array = constant_array(self.choices, self.dictionary, dtype, shape, self.distribution, positive=positive)
            return self._new_constant(array, var)
        if self.choices.one_in(2 if self.depth else self.distribution.reused_values) and (
            same := self._values_of_type(dtype, shape)
        ):
            return self.choices.pick(same)
        if dtype == TensorProto.INT64 and len(shape) < 2 and self.choices.one_in(self.distribution.shapes_from_inputs):
            return self._dims_of_input(shape)
        if (
            self.depth < MAX_DEPTH
            and self.dictionary.operators
            and self.choices.one_in(self.distribution.extra_producers)
        ):
            return self._producer_output(dtype, shape)
        return self.builder.input(dtype, shape)

    def _new_constant(self, array: Array, var: Var) -> TypedValue:
        known = self.builder.constant(array)
        self.has_extra_constants |= not var.constant
        if self.choices.one_in(self.distribution.overridable_constants):
            self.builder.overridable.add(known.name)
            self.add_trait("a constant is an input that may be overridden")
            if var.constant and self.depth == 0:
                self.no_fire_reasons.append(f"{known.name} is no constant: a caller may override it")
        return known

    def _may_compute(self, var: Var, array: Array) -> bool:
        small = array.dtype == np.int64 and array.ndim == 1 and array.size < MAX_OPERANDS
        if var.constant or not small or not all(0 <= n < MAX_OPERANDS + 1 for n in array.tolist()):
            return False
        return self.choices.one_in(self.distribution.shapes_from_inputs)

    def _computed_shape(self, array: Array) -> TypedValue:
        """The numbers as the computed shape of an input."""
        self.add_trait("a shape is computed")
        self.has_extra_producers = True
        return self.builder.node("Shape", [self.builder.input(self.dtype, array.tolist())], {})[0]

    def _values_of_type(self, dtype: int, shape: Shape) -> list[TypedValue]:
        """Existing values of the same type and shape."""
        known = [*self.builder.inputs, *self.builder.node_outputs]
        same = [k for k in known if k.dtype == dtype and _has_shape(k, shape)]
        return same or ([k for k in known if k.dtype == dtype] if self.depth else [])

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
            return self.generate(OpPattern((op_type,), "", inputs, (), bound_name=fresh), Hint(shape, dtype))
        finally:
            self.depth -= 1

    def _container(self, type_name: str, shape: Shape) -> TypedValue:
        """A sequence of two tensors, or an optional that holds one."""
        dtype = self.dtype
        items: list[TypedValue | None] = [self.builder.input(dtype, shape)]
        if type_name.startswith("seq("):
            items.append(self.builder.input(dtype, shape))
            return self.builder.node("SequenceConstruct", items, {})[0]
        if type_name.startswith("optional("):
            return self.builder.node("Optional", items, {})[0]
        raise GenerationError(f"no {type_name} can be made")

    def _dims_of_input(self, shape: Shape) -> TypedValue:
        """Dims of an input: all of them, or one."""
        self.has_extra_producers = True
        rank = shape[0] if shape and shape != (1,) else 1 + self.choices.draw_below(3)
        dims = self.builder.node("Shape", [self.builder.input(self.dtype, self.draw_shape(rank))], {})[0]
        if shape == (rank,):
            return dims
        place = self.builder.constant(np.full(shape, self.choices.draw_below(rank)))
        return self.builder.node("Gather", [dims, place], {})[0]

    # -- shapes --------------------------------------------------------------------------

    def draw_dim(self) -> int:
        """A small dim; 0 only with `zero_dims`, always the same with `equal_dims`."""
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
        """Record an attribute that the pattern does not name; off its default, the rule must not match."""
        if value != op_schemas.attribute_default(site.op_type, site.pattern.domain, self.builder.opset, name):
            self.add_trait("an attribute is off its default")
            self.no_fire_reasons.append(
                f"{name} of {site.op_type}, which the pattern does not name, is off its default"
            )


def inputs_like_output(site: OpSite) -> None:
    """All inputs like the output."""
    site.add_remaining_operands(site.hint.shape)


def _has_shape(known: TypedValue, shape: Shape) -> bool:
    try:
        return known.shape == shape
    except GenerationError:
        return False
