"""Transforms of initializers that are inputs as well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from onnx import helper

from ...core import Model
from ...core.inference import forget_inferred_types
from ...core.io.graph_interface import default_values
from ...core.ir.subgraphs import constant_bytes
from ...core.run.report import Hint, Report
from ...core.transform.extract import require_known


@dataclass(frozen=True, slots=True)
class FreezeInitializers:
    """Makes initializers that a caller may override constants; they are no inputs any more.

    Exporters with `keep_initializers_as_inputs` list all weights as inputs, and nothing can be folded into them.
    """

    name: str = "freeze-initializers"
    option: ClassVar[str] = "--freeze-initializers"

    def transform(self, model: Model) -> int:
        """Freeze the initializers of the main graph. O(inputs + initializers)."""
        graph = model.graph
        names = default_values(graph).keys()
        frozen = {v for v in graph.inputs if v.name in names}
        for v in frozen:
            if v in graph.input_defaults:
                v.set_constant(graph.input_defaults.pop(v))
                graph.initializers[v] = None
        graph.inputs = [v for v in graph.inputs if v not in frozen]
        graph.declared.inputs[:] = [(v, info) for v, info in graph.declared.inputs if v not in frozen]
        graph.context.weight_bytes = constant_bytes(graph)
        graph.mark_changed()
        return len(frozen)

    def hint(self, model: Model, report: Report) -> Hint | None:  # noqa: ARG002 - as hints have
        """The hint for a result in which some initializers are inputs."""
        count = len(default_values(model.graph))
        are = "initializer is an input" if count == 1 else "initializers are inputs"
        return Hint(f"{count} {are} as well, and no constant to fold") if count else None


@dataclass(frozen=True, slots=True)
class ExposeInitializers:
    """Makes initializers inputs as well, so that a caller may override them.

    `names` are the initializers of the main graph to expose, all if empty. Before IR version 4, where every initializer
    is listed as an input and none may be overridden, nothing changes. Sparse ones stay constants.
    """

    names: tuple[str, ...] = ()
    name: str = "expose-initializers"

    def transform(self, model: Model) -> int:
        """Expose them, after the other inputs in the order of the file. O(initializers). Raises ModelError."""
        graph = model.graph
        if graph.context.initializers_are_inputs:
            return 0
        known = {v.name: v for v in graph.initializers if v.tensor is not None and v.producer is None}
        for name in self.names:
            require_known(name, known.keys() | {v.name for v in graph.input_defaults}, "initializer")
        exposed = [v for name, v in known.items() if not self.names or name in self.names]
        for v in exposed:
            tensor = v.tensor
            assert tensor is not None
            info = helper.make_tensor_value_info(v.name, tensor.dtype, tensor.dims)
            del graph.initializers[v]
            v.reset()
            v.merge_type(tensor.dtype, tensor.dims)
            graph.input_defaults[v] = tensor
            graph.declared.inputs.append((v, info.SerializeToString(deterministic=True)))
        graph.inputs += exposed
        forget_inferred_types(graph)
        return len(exposed)
