"""What stands around a pattern in a model: other readers of its values, an If, sizes that are left open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ...core.rewriting.rules import Rule
from ..case import Case
from .choices import Choices
from .generator import Grower
from .model_builder import Known, Sketch, Unmade

IR_VERSION = 10
OPEN = "N"
OPENED = 4  # models for each in which a size is left open
SLIDING = frozenset({"Conv", "ConvTranspose", "ConvInteger", "QLinearConv"})


@dataclass(slots=True)
class Setting:
    """The model around what was grown."""

    rule: Rule
    grower: Grower
    outputs: list[Known] = field(default_factory=list[Known])
    outside: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    open: int | None = None  # the size that is left open

    @property
    def _choices(self) -> Choices:
        return self.grower.choices

    @property
    def _sketch(self) -> Sketch:
        return self.grower.sketch

    def case(self) -> Case:
        """The model, what is special about it, and why the rule may not fire in it. Raises Unmade for a dull one."""
        if self.grower.held and not self._sketch.inputs:
            raise Unmade("all is constant")
        root = self.grower.inner[-1]
        self._ends()
        if self._choices.one_in(5):
            self._middle()
        if self._choices.one_in(6):
            self._constant()
        with self._choices.about("open"):
            if self._choices.one_in(OPENED):
                self._open()
        inputs = list(self._sketch.inputs)
        nodes, constants = self._sketch.nodes, self._sketch.constants
        if self._choices.one_in(6):
            inputs.append(Known("condition", helper.make_tensor_type_proto(TensorProto.BOOL, ())))
            nodes = self._inside_if()
        inputs += [k for k in constants if k.name in self._sketch.overridable]
        graph = helper.make_graph(
            nodes, "g", self._infos(inputs, at=self.open), self._infos(self.outputs), _tensors(constants)
        )
        model = helper.make_model(graph, opset_imports=self._sketch.imports, ir_version=IR_VERSION)
        return Case(model, root.name, tuple(self.grower.traits), self._reason())

    def _reason(self) -> str:
        """Why the rule may not fire: only told where nothing else could stand for what is in the way."""
        if self.grower.fed or self.grower.held or not self.grower.reasons:
            return ""
        return self.grower.reasons[0]

    def _ends(self) -> None:
        """Outputs: what the root makes, or what is made of that."""
        first, *others = [k for k in self.grower.last if k.name]
        root = self.grower.inner[-1]
        if self._choices.one_in(4) and first is root and root.dtype:
            self.outputs.append(self._shown(self._sketch.node("Identity", [root], {})[0]))
        else:
            self.outputs.append(self._shown(root))
        self.outputs += [self._shown(k) for k in others if k is not root and self._choices.below(3)]

    def _shown(self, value: Known) -> Known:
        """The value as it may be an output: of a known rank."""
        if not value.dtype or value.type.tensor_type.HasField("shape"):
            return value
        flat = self._sketch.constant(np.array([-1]))
        return self._sketch.node("Reshape", [value, flat], {})[0]

    def _middle(self) -> None:
        """A value between the ops of the pattern has another reader, or is an output."""
        values = [k for k in self.grower.inner[:-1] if k.dtype]
        if not values:
            return
        value = self._choices.pick(values)
        if self._choices.below(2) == 0:
            self.outputs.append(self._shown(value))
            self.grower.note("a middle value is an output")
            why = f"{value.name} is an output"
        else:
            self.outputs.append(self._shown(self._sketch.node("Identity", [value], {})[0]))
            self.grower.note("a middle value has another reader")
            why = f"{value.name} is read elsewhere"
        if not self.rule.shared:
            self.grower.reasons.append(why)

    def _constant(self) -> None:
        """A constant is read elsewhere too."""
        if self._sketch.constants:
            self.outputs += self._sketch.node("Identity", [self._choices.pick(self._sketch.constants)], {})
            self.grower.note("a constant has another reader")

    def _open(self) -> None:
        """One size of the inputs is left open, but none with which onnxruntime does anything at all where it is 0."""
        sizes = sorted(_sizes(self._sketch.inputs) - _sizes(self._fixed()) - {0})
        if sizes:
            self.open = self._choices.pick(sizes)
            self.grower.note("a size is left open")

    def _fixed(self) -> list[Known]:
        """What has its sizes for good: the windows of Convs, and, beside a Concat, constants."""
        sketch = self._sketch
        names = {name for node in sketch.nodes if node.op_type in SLIDING for name in node.input[1:]}
        windows = [k for k in (*sketch.inputs, *sketch.made) if k.name in names]
        return [*windows, *(sketch.constants if any(n.op_type == "Concat" for n in sketch.nodes) else ())]

    def _infos(self, values: Sequence[Known], at: int | None = None) -> list[onnx.ValueInfoProto]:
        """Values as a graph declares them; of outputs only the rank is told where a size is open."""
        infos = [helper.make_value_info(k.name, k.type) for k in values]
        if self.open is None:
            return infos
        for info, known in zip(infos, values, strict=True):
            copied = onnx.TypeProto()
            copied.CopyFrom(info.type)
            for dim in copied.tensor_type.shape.dim if known.array is None else ():
                if at is None:
                    dim.ClearField("dim_value")
                elif dim.dim_value == at:
                    dim.dim_param = OPEN
            info.type.CopyFrom(copied)
        return infos

    def _inside_if(self) -> list[onnx.NodeProto]:
        """All nodes in both branches of an If."""
        self.grower.note("it stands inside an If")
        bodies: list[onnx.GraphProto] = []
        for suffix in ("", "_else"):
            inner = {o: o + suffix for node in self._sketch.nodes for o in node.output if o}
            outs = [Known(inner.get(k.name, k.name), k.type) for k in self.outputs]
            bodies.append(helper.make_graph(_renamed(self._sketch.nodes, inner), f"g{suffix}", [], self._infos(outs)))
        self.outputs = [Known(f"y{i}", k.type) for i, k in enumerate(self.outputs)]
        names = [k.name for k in self.outputs]
        return [helper.make_node("If", ["condition"], names, then_branch=bodies[0], else_branch=bodies[1])]


def _sizes(values: Sequence[Known]) -> set[int]:
    return {dim.dim_value for k in values for dim in k.type.tensor_type.shape.dim}


def _renamed(nodes: Sequence[onnx.NodeProto], names: dict[str, str]) -> list[onnx.NodeProto]:
    found: list[onnx.NodeProto] = []
    for node in nodes:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [names.get(i, i) for i in node.input]
        copy.output[:] = [names.get(o, o) for o in node.output]
        found.append(copy)
    return found


def _tensors(constants: Sequence[Known]) -> list[onnx.TensorProto]:
    return [numpy_helper.from_array(k.array, k.name) for k in constants if k.array is not None]
