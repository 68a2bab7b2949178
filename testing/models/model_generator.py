"""Generation of a model from a rule's pattern: its opset, its distribution of features, the graph around."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ...core.ir.traits import Trait, ops_with
from ...core.rewriting.pattern import OpPattern
from ...core.rewriting.rules import Rule
from ..case import Case
from .choices import Choices, Key
from .dictionary import Dictionary
from .distribution import LEVELS, draw_distribution
from .generator import DTYPES_BY_TYPE_STR as BY_NAME
from .generator import Hint, PatternGenerator
from .model_builder import GenerationError, ModelBuilder, TypedValue, schema
from .op_generators import OP_GENERATORS
from .variants import generate_variant

IR_VERSION = 10
SYMBOL = "N"
SYMBOLIC_ONE_IN = 4  # models for each in which a size is left open
CONV_OPS = ops_with(Trait.CONVOLUTION)


@dataclass(slots=True)
class EnclosingModel:
    """The model around generated ops."""

    rule: Rule
    generator: PatternGenerator
    outputs: list[TypedValue] = field(default_factory=list[TypedValue])
    outside: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    symbolic_size: int | None = None  # the size that is left open

    def build_case(self) -> Case:
        """Build the case. Raises GenerationError for a model without inputs in use."""
        if self.generator.has_extra_constants and not self.generator.builder.inputs:
            raise GenerationError("all is constant")
        root = self.generator.pattern_outputs[-1]
        self._add_outputs()
        if self.generator.choices.one_in(5):
            self._expose_inner_value()
        if self.generator.choices.one_in(6):
            self._share_constant()
        with self.generator.choices.scope("open"):
            if self.generator.choices.one_in(SYMBOLIC_ONE_IN):
                self._make_size_symbolic()
        inputs = list(self.generator.builder.inputs)
        nodes, constants = self.generator.builder.nodes, self.generator.builder.constants
        if self.generator.choices.one_in(6):
            inputs.append(TypedValue("condition", helper.make_tensor_type_proto(TensorProto.BOOL, ())))
            nodes = self._wrap_in_if()
        inputs += [k for k in constants if k.name in self.generator.builder.overridable]
        graph = helper.make_graph(
            nodes,
            "g",
            self._value_infos(inputs, symbolic_size=self.symbolic_size),
            self._value_infos(self.outputs),
            [numpy_helper.from_array(k.array, k.name) for k in constants if k.array is not None],
        )
        model = helper.make_model(graph, opset_imports=self.generator.builder.opset_imports, ir_version=IR_VERSION)
        is_uncertain = self.generator.has_extra_producers or self.generator.has_extra_constants
        reasons = [] if is_uncertain else self.generator.no_fire_reasons
        return Case(model, root.name, tuple(self.generator.traits), reasons[0] if reasons else "")

    def _add_outputs(self) -> None:
        """Add the root's outputs, or the outputs of further ops on them, as graph outputs."""
        first, *others = [k for k in self.generator.last_outputs if k.name]
        root = self.generator.pattern_outputs[-1]
        has_reader = self.generator.choices.one_in(4) and first is root and root.dtype
        self._add_output(self.generator.builder.node("Identity", [root], {})[0] if has_reader else root)
        for k in others:
            if k is not root and self.generator.choices.draw_below(3):
                self._add_output(k)

    def _add_output(self, value: TypedValue) -> None:
        """Add a graph output, reshaped if its rank is unknown, since that of an output must be known."""
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
        if not self.rule.shared:
            self.generator.no_fire_reasons.append(why)

    def _share_constant(self) -> None:
        """Give a constant another consumer."""
        builder = self.generator.builder
        if builder.constants:
            self.outputs += builder.node("Identity", [self.generator.choices.pick(builder.constants)], {})
            self.generator.add_trait("a constant has another reader")

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
        """Declarations of values; with a symbolic size, of outputs only the rank."""
        infos = [helper.make_value_info(k.name, k.type) for k in values]
        if self.symbolic_size is None:
            return infos
        for info, known in zip(infos, values, strict=True):
            copied = onnx.TypeProto()
            copied.CopyFrom(info.type)
            for dim in copied.tensor_type.shape.dim if known.array is None else ():
                if symbolic_size is None:
                    dim.ClearField("dim_value")
                elif dim.dim_value == symbolic_size:
                    dim.dim_param = SYMBOL
            info.type.CopyFrom(copied)
        return infos

    def _wrap_in_if(self) -> list[onnx.NodeProto]:
        """Move all nodes into both branches of an If."""
        self.generator.add_trait("it stands inside an If")
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
    grower = PatternGenerator(ModelBuilder(1), choices, dictionary, OP_GENERATORS, draw_distribution(choices), dtype)
    if which:
        generate_variant(rule, examples[(which - 1) // 2], grower)
    else:
        grower.builder.opset = _opset(rule.pattern, dtype, choices)
        shape = grower.draw_shape(choices.pick(RANKS))
        grower.generate(rule.pattern, Hint(shape, grower.dtype))
    with choices.scope("setting"):
        return EnclosingModel(rule, grower).build_case()


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
