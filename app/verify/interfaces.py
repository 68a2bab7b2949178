"""Differences of the interfaces of two models, and adaptation of the second to the first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import onnx
from msgspec import Struct

from ...core.io.graph_interface import default_values, lists_all_initializers
from ...core.io.model import Model
from ...core.io.model_source import ModelSource, transformed_source
from ...core.ir.dtypes import FLOATS
from ...core.ir.graph import defined_values
from ...core.ir.tensor import Tensor, element_type
from ...core.ir.values import Value
from ...core.run.transforms import RequestedTransform
from ...core.serialization.importer import declare_input
from ...core.verify.input_specs import TENSOR, InputSpec, input_specs
from ..report.number_text import plural


class Interfaces(Struct, frozen=True):
    """The interfaces of a model and of the original, compared.

    `differences`, in words, are those that callers of the original would notice; `float_types` are the differences
    between float types of inputs. `outputs` are in both models. `obstacle` says why no values can be compared.
    """

    differences: list[str]
    float_types: list[str]
    outputs: list[str]
    obstacle: str = ""
    missing: Sequence[str] = ()
    casts: Mapping[str, tuple[int, int]] = {}
    defaults: Mapping[str, Tensor] = {}

    @classmethod
    def of(cls, original: Model, other: Model) -> Interfaces:
        """Compare the interfaces of two models."""
        expected, actual = ({i.name: i for i in input_specs(m)} for m in (original, other))
        known = {v.name: v.tensor for v in original.graph.initializers if v.tensor is not None}
        known |= {v.name: tensor for v, tensor in original.graph.input_defaults.items()}
        required = [n for n, i in actual.items() if i.default is None]
        tensors = {n: i.dtype for n, i in actual.items() if i.type_kind == TENSOR}
        without_default = [n for n in required if n in known and known[n].dtype == tensors.get(n)]
        new = [n for n in required if n not in expected and n not in without_default]
        missing = [n for n in expected if n not in actual]
        defaults = {n: known[n] for n in (*without_default, *missing) if n in known}
        shared = {n: (expected[n], actual[n]) for n in expected if n in actual}
        changed = {n: pair for n, pair in shared.items() if _type(pair[0]) != _type(pair[1])}
        casts = {n: (b.dtype, a.dtype) for n, (a, b) in changed.items() if a.type_kind == b.type_kind == TENSOR}
        floats = [n for n, types in casts.items() if FLOATS.issuperset(types)]
        of_type = {n: f"input {n} is {_type(b)}, not {_type(a)}" for n, (a, b) in changed.items()}
        names = [[v.name for v in m.graph.outputs] for m in (original, other)]
        lost = [n for n in names[0] if n not in names[1]]
        found = [
            *(f"input {n} is missing" for n in missing),
            *(f"input {n} is new" for n in new),
            *(f"{n} no longer has a default" for n in without_default),
            *(text for n, text in of_type.items() if n not in floats),
            *(f"output {n} is missing" for n in lost),
        ]
        if not found:
            inputs = [[n for n, i in specs.items() if i.default is None] for specs in (expected, actual)]
            for kind, (wanted, given) in {"inputs": inputs, "outputs": names}.items():
                if given[: len(wanted)] != wanted:  # additional ones may follow at the end
                    found.append(f"the {kind} are in a different order: {', '.join(given)}")
        outputs = [n for n in names[0] if n not in lost]
        obstacle = "the model has none of the original's outputs" if not outputs else ""
        if new:
            obstacle = f"the original has no input {new[0]}" + f", and {len(new) - 1} others are new" * (len(new) > 1)
        elif odd := [n for n in changed if n not in casts]:
            obstacle = f"{_type(expected[odd[0]])} cannot be converted to {_type(actual[odd[0]])}"
        return cls(sorted(found), [of_type[n] for n in floats], outputs, obstacle, missing, casts, defaults)

    def adapted(self, source: ModelSource, original: Model) -> ModelSource:
        """The second model with the inputs of the original."""
        if not (self.missing or self.casts or self.defaults):
            return source
        declared = {v.name: info for v, info in original.graph.declared.inputs if v.name in self.missing}
        return transformed_source(source, [partial(self._give_inputs, declared)])

    def _give_inputs(self, declared: Mapping[str, bytes], model: Model) -> None:
        from ...passes.transforms.interface import cast_inputs  # noqa: PLC0415 - seldom needed

        graph = model.graph
        for v in [v for v in defined_values(graph) if v.name in declared]:  # such as a constant instead of an input
            v.name = graph.fresh_name(v.name)
        for name, info in declared.items():
            v = declare_input(Value(name), onnx.ValueInfoProto.FromString(info).type, graph.context)
            graph.inputs.append(v)
            graph.declared.inputs.append((v, info))
        for types in set(self.casts.values()):
            cast_inputs(model, *types, [n for n, t in self.casts.items() if t == types])
        given = [v for v in graph.inputs if v.name in self.defaults and v not in graph.input_defaults]
        graph.input_defaults |= {v: self.defaults[v.name] for v in given}
        graph.declared.initializers += given
        graph.mark_changed()


def comparable_original(source: ModelSource, other: Model) -> tuple[ModelSource, Model, list[str]]:
    """The original without overridable initializers, and a note, if all are overridable and `other` has none.

    Exporters make them inputs, and optimizers make them constants.
    """
    model = source.load()
    listed = default_values(model.graph)
    if not lists_all_initializers(model.graph) or listed.keys() & {v.name for v in other.graph.inputs}:
        return source, model, []
    from ...passes.transforms.interface import FreezeInitializers  # noqa: PLC0415 - seldom needed

    count = plural(len(listed), "initializer")
    text = f"{count} that the original also lists as inputs can no longer be overridden"
    frozen = transformed_source(source, [RequestedTransform(FreezeInitializers())])
    return frozen, frozen.load(), [text]


def _type(spec: InputSpec) -> str:
    return f"a {spec.type_kind} of {element_type(spec.dtype)}"
