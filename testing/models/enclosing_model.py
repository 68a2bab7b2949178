"""The model around a generated pattern: further consumers, an If, symbolic dims."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ...core.ir.traits import Trait, ops_with
from ...core.rewriting.rules import Rule
from ..case import Case
from .choices import Choices
from .generator import PatternGenerator
from .model_builder import GenerationError, ModelBuilder, TypedValue

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

    @property
    def _choices(self) -> Choices:
        return self.generator.choices

    @property
    def _builder(self) -> ModelBuilder:
        return self.generator.builder

    def build_case(self) -> Case:
        """Build the case. Raises GenerationError for a model without inputs in use."""
        if self.generator.has_extra_constants and not self._builder.inputs:
            raise GenerationError("all is constant")
        root = self.generator.pattern_outputs[-1]
        self._add_outputs()
        if self._choices.one_in(5):
            self._expose_inner_value()
        if self._choices.one_in(6):
            self._share_constant()
        with self._choices.scope("open"):
            if self._choices.one_in(SYMBOLIC_ONE_IN):
                self._make_size_symbolic()
        inputs = list(self._builder.inputs)
        nodes, constants = self._builder.nodes, self._builder.constants
        if self._choices.one_in(6):
            inputs.append(TypedValue("condition", helper.make_tensor_type_proto(TensorProto.BOOL, ())))
            nodes = self._wrap_in_if()
        inputs += [k for k in constants if k.name in self._builder.overridable]
        graph = helper.make_graph(
            nodes,
            "g",
            self._value_infos(inputs, symbolic_size=self.symbolic_size),
            self._value_infos(self.outputs),
            _initializers(constants),
        )
        model = helper.make_model(graph, opset_imports=self._builder.opset_imports, ir_version=IR_VERSION)
        return Case(model, root.name, tuple(self.generator.traits), self._no_fire_reason())

    def _no_fire_reason(self) -> str:
        """The reason for which the rule must not fire; empty unless it is certain."""
        if (
            self.generator.has_extra_producers
            or self.generator.has_extra_constants
            or not self.generator.no_fire_reasons
        ):
            return ""
        return self.generator.no_fire_reasons[0]

    def _add_outputs(self) -> None:
        """Add the root's outputs, or the outputs of further ops on them, as graph outputs."""
        first, *others = [k for k in self.generator.last_outputs if k.name]
        root = self.generator.pattern_outputs[-1]
        if self._choices.one_in(4) and first is root and root.dtype:
            self.outputs.append(self._with_known_rank(self._builder.node("Identity", [root], {})[0]))
        else:
            self.outputs.append(self._with_known_rank(root))
        self.outputs += [self._with_known_rank(k) for k in others if k is not root and self._choices.draw_below(3)]

    def _with_known_rank(self, value: TypedValue) -> TypedValue:
        """The value, reshaped if its rank is unknown, as a graph output must have a known rank."""
        if not value.dtype or value.type.tensor_type.HasField("shape"):
            return value
        flat = self._builder.constant(np.array([-1]))
        return self._builder.node("Reshape", [value, flat], {})[0]

    def _expose_inner_value(self) -> None:
        """Give an inner value of the pattern another consumer, or make it a graph output."""
        values = [k for k in self.generator.pattern_outputs[:-1] if k.dtype]
        if not values:
            return
        value = self._choices.pick(values)
        if self._choices.draw_below(2) == 0:
            self.outputs.append(self._with_known_rank(value))
            self.generator.add_trait("a middle value is an output")
            why = f"{value.name} is an output"
        else:
            self.outputs.append(self._with_known_rank(self._builder.node("Identity", [value], {})[0]))
            self.generator.add_trait("a middle value has another reader")
            why = f"{value.name} is read elsewhere"
        if not self.rule.shared:
            self.generator.no_fire_reasons.append(why)

    def _share_constant(self) -> None:
        """Give a constant another consumer."""
        if self._builder.constants:
            self.outputs += self._builder.node("Identity", [self._choices.pick(self._builder.constants)], {})
            self.generator.add_trait("a constant has another reader")

    def _make_size_symbolic(self) -> None:
        """Make one size of the inputs symbolic, if onnxruntime is well-defined for a size of 0 there."""
        sizes = sorted(_sizes(self._builder.inputs) - _sizes(self._fixed_size_values()) - {0})
        if sizes:
            self.symbolic_size = self._choices.pick(sizes)
            self.generator.add_trait("a size is left open")

    def _fixed_size_values(self) -> list[TypedValue]:
        """Values whose sizes must stay fixed: filters of convolutions and, with a Concat, constants."""
        builder = self._builder
        names = {name for node in builder.nodes if node.op_type in CONV_OPS for name in node.input[1:]}
        windows = [k for k in (*builder.inputs, *builder.node_outputs) if k.name in names]
        return [*windows, *(builder.constants if any(n.op_type == "Concat" for n in builder.nodes) else ())]

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
            inner = {o: o + suffix for node in self._builder.nodes for o in node.output if o}
            outs = [TypedValue(inner.get(k.name, k.name), k.type) for k in self.outputs]
            bodies.append(
                helper.make_graph(_rename_values(self._builder.nodes, inner), f"g{suffix}", [], self._value_infos(outs))
            )
        self.outputs = [TypedValue(f"y{i}", k.type) for i, k in enumerate(self.outputs)]
        names = [k.name for k in self.outputs]
        return [helper.make_node("If", ["condition"], names, then_branch=bodies[0], else_branch=bodies[1])]


def _sizes(values: Sequence[TypedValue]) -> set[int]:
    return {dim.dim_value for k in values for dim in k.type.tensor_type.shape.dim}


def _rename_values(nodes: Sequence[onnx.NodeProto], names: dict[str, str]) -> list[onnx.NodeProto]:
    found: list[onnx.NodeProto] = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [names.get(i, i) for i in node.input]
        copy.output[:] = [names.get(o, o) for o in node.output]
        found.append(copy)
    return found


def _initializers(constants: Sequence[TypedValue]) -> list[onnx.TensorProto]:
    return [numpy_helper.from_array(k.array, k.name) for k in constants if k.array is not None]
