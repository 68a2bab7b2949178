"""Generation of a model from a rule's pattern or from an example: opset, distribution of features, the graph around."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from types import MappingProxyType

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference
from onnx.shape_inference import InferenceError

from ...core.errors import MatchFailure, PassesError
from ...core.io.convert import from_onnx
from ...core.ir import op_schemas
from ...core.ir.dtypes import CPU_FLOATS
from ...core.ir.values import inferred_type_proto
from ...core.operators.declaration import Trait
from ...core.operators.table import ops_with
from ...core.processes.custom_operators import custom_operators
from ...core.rewriting.pattern import COMMUTATIVE, OpPattern, Var
from ...core.rewriting.rules import Rule
from ...core.serialization.proto_queries import opset_versions
from ..case import Case
from .choices import LEVELS, Choices, Key, draw_distribution
from .dictionary import Dictionary
from .generator import DTYPES_BY_TYPE_STR as BY_NAME
from .generator import MAX_OPERANDS, PatternGenerator, PreferredType
from .model_builder import GenerationError, ModelBuilder, TypedValue, schema, tensor_type
from .op_generators import OP_GENERATORS

MAX_OPSET_INCREASE = 4  # how many opsets later than the example's a variant may be


def generate_variant(rule: Rule, example: onnx.ModelProto, generator: PatternGenerator) -> None:
    """Load a variant of `example` into the builder. Raises GenerationError if it is invalid."""
    choices, builder = generator.choices, generator.builder
    model = deepcopy(example)
    builder.opset = opset_versions(model)[""]
    if choices.one_in(3):
        builder.opset += 1 + choices.draw_below(MAX_OPSET_INCREASE)
    _fix_symbolic_dims(model.graph, choices)
    if choices.one_in(3):
        _replace_float_type(model, choices.pick((TensorProto.FLOAT16, TensorProto.DOUBLE)))
        generator.add_trait("of another type")
    for node in model.graph.node:
        if node.op_type in COMMUTATIVE and len(node.input) == 2 and choices.one_in(3):
            node.input[:] = list(node.input)[::-1]
    if choices.one_in(3):
        _replace_constant_values(model.graph, choices, generator.dictionary)
    _load_into_builder(model, generator)
    made = {name for node in model.graph.node for name in node.output}
    ends = [[o.name] for o in model.graph.output if o.name in made]
    matched = list(_match_outputs(rule, model)) if rule.patterns else ends
    if not matched:
        raise GenerationError("the pattern matches nowhere in the example")
    known = {k.name: k for k in builder.node_outputs}
    root, *inner = choices.pick(matched)
    if root not in known:
        raise GenerationError(f"the type of {root} is unknown")
    generator.has_extra_constants = len(matched) > 1  # with several matches, no reason not to fire is certain
    generator.pattern_outputs = [known[n] for n in inner if n in known] + [known[root]]
    outputs = [o.name for o in model.graph.output]
    generator.last_outputs = [known[root], *(known[o] for o in outputs if o in known and o != root)]


def _fix_symbolic_dims(graph: onnx.GraphProto, choices: Choices) -> None:
    """Replace each symbolic size by a number, the same at each occurrence; or keep all symbols."""
    sizes: dict[str, int] = {}
    stay = choices.one_in(3)
    for info in graph.input:
        for dim in info.type.tensor_type.shape.dim:
            if not dim.HasField("dim_value") and not stay:
                dim.dim_value = sizes.setdefault(dim.dim_param, choices.pick((2, 3, 1, 4, 0)))
    del graph.value_info[:]
    for info in graph.output:
        info.type.tensor_type.ClearField("shape")


def _replace_float_type(model: onnx.ModelProto, dtype: int) -> None:
    """Replace all float types by another one."""
    graph = model.graph
    for info in (*graph.input, *graph.output):
        if info.type.tensor_type.elem_type in CPU_FLOATS:
            info.type.tensor_type.elem_type = dtype
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    for tensor in (*graph.initializer, *(a.t for node in graph.node for a in node.attribute if a.HasField("t"))):
        if tensor.data_type in CPU_FLOATS:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(kind), tensor.name))


def _replace_constant_values(graph: onnx.GraphProto, choices: Choices, dictionary: Dictionary) -> None:
    """Replace trailing elements of a constant by another number."""
    tensors = [t for t in graph.initializer if t.data_type in CPU_FLOATS]
    if not tensors:
        return
    tensor = choices.pick(tensors)
    array = numpy_helper.to_array(tensor).copy()
    if array.size:
        with np.errstate(over="ignore"):  # of half floats
            array.reshape(-1)[choices.draw_below(array.size) :] = dictionary.draw_number(choices)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _load_into_builder(model: onnx.ModelProto, generator: PatternGenerator) -> None:
    """Load the model into the builder."""
    builder = generator.builder
    builder.domain_versions.update((domain, version) for domain, version in opset_versions(model).items() if domain)
    del model.opset_import[:]
    model.opset_import.extend(builder.opset_imports)
    try:
        inferred = shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True).graph
    except (InferenceError, onnx.checker.ValidationError, ValueError) as e:
        raise GenerationError(str(e)) from e
    held = {t.name for t in inferred.initializer}
    builder.nodes += inferred.node
    builder.reserved_names |= {n for node in inferred.node for n in (*node.input, *node.output)}
    builder.inputs += [TypedValue(i.name, i.type) for i in inferred.input if i.name not in held]
    builder.overridable.update(i.name for i in inferred.input if i.name in held)
    for tensor in inferred.initializer:
        type_ = tensor_type(tensor.data_type, tensor.dims)
        builder.constants.append(TypedValue(tensor.name, type_, numpy_helper.to_array(tensor)))
    made = {o for node in inferred.node for o in node.output}
    infos = {i.name: i.type for i in (*inferred.value_info, *inferred.output) if i.name in made}
    if custom_operators() is not None:
        infos = {**_types_with_custom_operators(model), **infos}
    builder.node_outputs += [TypedValue(name, type_) for name, type_ in infos.items()]


def _types_with_custom_operators(model: onnx.ModelProto) -> dict[str, onnx.TypeProto]:
    """The types of the outputs of nodes, as far as they are known, including operators that onnx does not know."""
    try:
        outputs = [v for op in from_onnx(model).graph.sorted_ops() for v in op.outputs]
    except PassesError as e:
        raise GenerationError(str(e)) from e
    return {v.name: type_ for v in outputs if (type_ := inferred_type_proto(v)) is not None}


def _match_outputs(rule: Rule, model: onnx.ModelProto) -> Iterator[Sequence[str]]:
    """For each match in the main graph, yield the first outputs of the matched ops, root first."""
    try:
        graph = from_onnx(model).graph
        for root in list(graph.ops(*rule.root_types)):
            for match in rule.matches(root):
                yield [op.outputs[0].name for op in match.ops]
    except (MatchFailure, PassesError):
        return


IR_VERSION = 10
SYMBOL = "N"
SYMBOLIC_ONE_IN = 4  # a size is left open in one model of this many
CONV_OPS = ops_with(Trait.CONVOLUTION)


@dataclass(slots=True)
class EnclosingModel:
    """The model around generated ops."""

    rule: Rule
    generator: PatternGenerator
    outputs: list[TypedValue] = field(default_factory=list[TypedValue])
    symbolic_size: int | None = None  # the size that is left open

    def build_case(self) -> Case:
        """Build the case. Raises GenerationError for a model without inputs in use."""
        builder, choices = self.generator.builder, self.generator.choices
        if self.generator.has_extra_constants and not builder.inputs:
            raise GenerationError("all values are constant")
        root = self.generator.pattern_outputs[-1]
        self._add_outputs()
        if choices.one_in(5):
            self._expose_inner_value()
        if choices.one_in(6) and builder.constants:
            self.outputs += builder.node("Identity", [choices.pick(builder.constants)], {})
            self.generator.add_trait("a constant has another reader")
        with choices.scope("open"):
            if choices.one_in(SYMBOLIC_ONE_IN):
                self._make_size_symbolic()
        inputs, nodes = list(builder.inputs), builder.nodes
        if choices.one_in(6):
            inputs.append(TypedValue("condition", tensor_type(TensorProto.BOOL, ())))
            nodes = self._wrap_in_if()
        inputs += [k for k in builder.constants if k.name in builder.overridable]
        graph = helper.make_graph(
            nodes,
            "g",
            self._value_infos(inputs, symbolic_size=self.symbolic_size),
            self._value_infos(self.outputs),
            [numpy_helper.from_array(k.array, k.name) for k in builder.constants if k.array is not None],
        )
        model = helper.make_model(graph, opset_imports=builder.opset_imports, ir_version=IR_VERSION)
        is_uncertain = self.generator.has_extra_producers or self.generator.has_extra_constants
        reasons = [] if is_uncertain or not self.rule.patterns else self.generator.no_fire_reasons
        return Case(model, root.name, tuple(self.generator.traits), reasons[0] if reasons else "")

    def _add_outputs(self) -> None:
        """Add the root's outputs, or the outputs of additional ops on them, as graph outputs."""
        first, *others = [k for k in self.generator.last_outputs if k.name]
        root = self.generator.pattern_outputs[-1]
        has_reader = self.generator.choices.one_in(4) and first is root and root.dtype
        self._add_output(self.generator.builder.node("Identity", [root], {})[0] if has_reader else root)
        for k in self.generator.other_roots:
            self._add_output(k)
        for k in others:
            if k is not root and self.generator.choices.draw_below(3):
                self._add_output(k)

    def _add_output(self, value: TypedValue) -> None:
        """Add a graph output; it is reshaped if its rank is unknown, because the rank of an output must be known."""
        builder = self.generator.builder
        if value.dtype and not value.type.tensor_type.HasField("shape"):
            value = builder.node("Reshape", [value, builder.constant(np.array([-1]))], {})[0]
        self.outputs.append(value)

    def _expose_inner_value(self) -> None:
        """Give an inner value of the pattern another consumer, or make it a graph output."""
        values = [k for k in self.generator.pattern_outputs[:-1] if k.dtype]
        if not values:
            return
        value = self.generator.choices.pick(values)
        if self.generator.choices.draw_below(2) == 0:
            self._add_output(value)
            self.generator.add_trait("a middle value is an output")
            why = f"{value.name} is an output"
        else:
            self._add_output(self.generator.builder.node("Identity", [value], {})[0])
            self.generator.add_trait("a middle value has another reader")
            why = f"{value.name} is read elsewhere"
        if not self.rule.allow_other_uses:
            self.generator.no_fire_reasons.append(why)

    def _make_size_symbolic(self) -> None:
        """Make one size of the inputs symbolic, if onnxruntime is well-defined for a size of 0 there."""
        builder = self.generator.builder
        filters = {name for node in builder.nodes if node.op_type in CONV_OPS for name in node.input[1:]}
        fixed = [k for k in (*builder.inputs, *builder.node_outputs) if k.name in filters]
        if any(n.op_type == "Concat" for n in builder.nodes):
            fixed += builder.constants
        sizes = sorted(_sizes(builder.inputs) - _sizes(fixed) - {0})
        if sizes:
            self.symbolic_size = self.generator.choices.pick(sizes)
            self.generator.add_trait("a size is left open")

    def _value_infos(self, values: Sequence[TypedValue], symbolic_size: int | None = None) -> list[onnx.ValueInfoProto]:
        """Declarations of values; with a symbolic size, outputs only have a rank."""
        infos = [helper.make_value_info(k.name, k.type) for k in values]
        variable = [i for i, k in zip(infos, values, strict=True) if k.array is None and self.symbolic_size is not None]
        for dim in (dim for info in variable for dim in info.type.tensor_type.shape.dim):
            if symbolic_size is None:
                dim.ClearField("dim_value")
            elif dim.dim_value == symbolic_size:
                dim.dim_param = SYMBOL
        return infos

    def _wrap_in_if(self) -> list[onnx.NodeProto]:
        """Move all nodes into both branches of an If."""
        self.generator.add_trait("it is inside an If")
        bodies: list[onnx.GraphProto] = []
        for suffix in ("", "_else"):
            inner = {o: o + suffix for node in self.generator.builder.nodes for o in node.output if o}
            outs = [TypedValue(inner.get(k.name, k.name), k.type) for k in self.outputs]
            body = helper.make_graph(self.generator.builder.nodes, f"g{suffix}", [], self._value_infos(outs))
            for node in body.node:
                node.input[:] = [inner.get(i, i) for i in node.input]
                node.output[:] = [inner.get(o, o) for o in node.output]
            bodies.append(body)
        self.outputs = [TypedValue(f"y{i}", k.type) for i, k in enumerate(self.outputs)]
        names = [k.name for k in self.outputs]
        return [helper.make_node("If", ["condition"], names, then_branch=bodies[0], else_branch=bodies[1])]


def _sizes(values: Sequence[TypedValue]) -> set[int]:
    return {dim.dim_value for k in values for dim in k.type.tensor_type.shape.dim}


OPSETS = (18, 21, 17, 13, 20, 22, 11, 23, 9, 12, 7, 24)
DTYPES = (
    TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.INT64, TensorProto.DOUBLE,
    TensorProto.FLOAT16, TensorProto.INT32, TensorProto.FLOAT16, TensorProto.UINT8, TensorProto.INT8, TensorProto.BOOL,
    TensorProto.STRING,
)  # fmt: skip
MODEL_WIDE_CHOICES: Mapping[Key, int] = MappingProxyType({
    ("/dtype", 0): len(DTYPES),
    ("/setting/open", 0): SYMBOLIC_ONE_IN,
    **{(f"/distribution/{field}", 0): len(levels) for field, levels in LEVELS.items()},
})  # fmt: skip
"""The model-wide choices, and the number of options of each."""
RANKS = (2, 3, 4, 1, 4, 0, 5)


def generate_case(
    rule: Rule, choices: Choices, dictionary: Dictionary, examples: Sequence[onnx.ModelProto] = ()
) -> Case:
    """A model with the pattern of `rule`, or a variant of one of `examples`.

    Raises GenerationError if the choices lead to none.
    """
    which = choices.draw_below(1 + 2 * len(examples))
    with choices.scope("dtype"):
        dtype = choices.pick(DTYPES)
    generator = PatternGenerator(ModelBuilder(1), choices, dictionary, OP_GENERATORS, draw_distribution(choices), dtype)
    if which:
        generate_variant(rule, examples[(which - 1) // 2], generator)
    else:
        pattern = choices.pick(rule.patterns) if rule.patterns else draw_pattern(choices, dictionary)
        generator.builder.opset = _opset(pattern, dtype, choices)
        shape = generator.draw_shape(choices.pick(RANKS))
        for other in pattern.others:
            generator.generate(other, PreferredType(shape, generator.dtype))
            generator.other_roots.append(generator.pattern_outputs.pop())
        generator.generate(pattern, PreferredType(shape, generator.dtype))
    with choices.scope("setting"):
        return EnclosingModel(rule, generator).build_case()


MAX_DRAWN_DEPTH = 5


def draw_pattern(choices: Choices, dictionary: Dictionary) -> OpPattern:
    """A tree of operators with any attributes, for a pass without patterns; mostly operators that its code names."""
    known, drawn = tuple(OP_GENERATORS), count()
    newest = op_schemas.latest_opset_version("")

    def draw(depth: int) -> OpPattern:
        op_type = choices.pick(known if choices.one_in(4) else dictionary.operators)
        spec = op_schemas.schema(op_type, "", newest)
        if spec is None:
            raise GenerationError(f"there is no operator {op_type} any more")
        most = min(spec.max_input, max(spec.min_input, MAX_OPERANDS))
        operands = spec.min_input + choices.draw_below(most - spec.min_input + 1)
        inputs = tuple(
            Var(f"x{next(drawn)}") if depth >= MAX_DRAWN_DEPTH or choices.one_in(2) else draw(depth + 1)
            for _ in range(operands)
        )
        return OpPattern((op_type,), "", inputs, (), bound_name=f"op{next(drawn)}")

    return draw(1)


def _opset(pattern: OpPattern, dtype: int, choices: Choices) -> int:
    """An opset with the operators of a pattern; if possible, one in which its root supports that type."""
    opsets = [o for o in OPSETS if all(_root_schemas(p, o) for p in pattern.walk())]
    if not opsets:
        raise GenerationError(f"the pattern from {pattern.types[0]} on exists at no opset")
    makes = [o for o in opsets if any(dtype in map(BY_NAME.get, s.outputs[0].types) for s in _root_schemas(pattern, o))]
    return choices.pick(makes or opsets)


def _root_schemas(pattern: OpPattern, opset: int) -> list[onnx.defs.OpSchema]:
    """The schemas of those operators of the pattern's root that exist at that opset."""
    found = (schema(t, pattern.domain, opset) for t in pattern.types)
    return [spec for spec in found if spec is not None]
