"""Regions loaded by onnxruntime, which also evaluate in float64."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import onnx

from ...io.split_models import SplitModel
from ...ir.dtypes import FLOATS
from ...operators.declaration import Trait
from ...operators.table import ops_with
from ...ort.backends import Arrays, OnnxRuntime
from ...ort.kernels import PRODUCTS_OF_BYTES, saturates_sums_of_bytes
from ...ort.sessions import SessionConfig
from ...serialization.proto_queries import all_nodes
from ..reference.float64_evaluation import Float64Values, evaluate_in_float64, evaluate_rounded
from ..reference.judgement import kernel_error
from ..seeded_session import Session
from .region_models import RegionModel

LoadRegion = Callable[[SplitModel], Session]
"""Loads a model. Raises ModelLoadError."""
STEPWISE_OPS, JUMPING_OPS = ops_with(Trait.STEPWISE), ops_with(Trait.JUMPS)


@dataclass(frozen=True, slots=True)
class LoadedRegion:
    """A region and its session; none if it has only constants."""

    model: RegionModel
    session: Session | None

    @classmethod
    def load(cls, model: RegionModel, config: SessionConfig, load: LoadRegion | None = None) -> Self:
        """Load a region, with a `config` or by `load`. Raises ModelLoadError."""
        if not model.outputs:
            return cls(model, None)
        return cls(model, load(model.model) if load is not None else OnnxRuntime(model.model, config))

    def run(self, values: Arrays, timeout: float | None) -> dict[str, Any]:
        """The wanted values, from the inputs among `values`. Raises EvaluationError."""
        outputs, constants = self.model.outputs, {name: t.array for name, t in self.model.constants.items()}
        if self.session is None:
            return constants
        found = self.session.run(list(outputs.values()), self.feeds(values), timeout)
        return {**dict(zip(outputs, found, strict=True)), **constants}

    def in_float64(self, site: str, values: Arrays) -> Float64Values:
        """The value of its one site in double precision. Raises EvaluationError."""
        message, output, arrays = self._evaluated(site)
        return evaluate_in_float64(message, self.feeds(values), output, arrays)

    def with_rounded_ops(self, site: str, values: Arrays) -> Any:
        """The value of its one site where each op rounds its result to the declared type. Raises EvaluationError."""
        message, output, arrays = self._evaluated(site)
        return evaluate_rounded(message, self.feeds(values), output, arrays)[site]

    def _evaluated(self, site: str) -> tuple[onnx.ModelProto, dict[str, str], dict[str, Any]]:
        """The model, its output by the name of the site, and its constants."""
        model = self.model.model
        arrays = {name: t.array for name, t in (*model.tensors.items(), *self.model.constants.items())}
        return model.message, {site: self.model.outputs.get(site, site)}, arrays

    @property
    def has_steps(self) -> bool:
        """Whether an op computes in steps, over which rounding accumulates."""
        return self._has(STEPWISE_OPS)

    @property
    def has_jumps(self) -> bool:
        """Whether results may jump where inputs move by an ulp."""
        return any(node.op_type in JUMPING_OPS and not _is_cast_to_floats(node) for node in self._nodes())

    @property
    def may_saturate(self) -> bool:
        """Whether sums of products of bytes may saturate in kernels for this processor."""
        return may_saturate(self.model.model)

    def kernel_error(self, dtype: np.dtype[Any]) -> float:
        """The absolute error of kernels of bounded functions in it, whose results are floats of that type."""
        return kernel_error(self.model.model.message, dtype)

    def _has(self, op_types: Collection[str]) -> bool:
        return any(node.op_type in op_types for node in self._nodes())

    def _nodes(self) -> Iterator[onnx.NodeProto]:
        return all_nodes(self.model.model.message.graph.node)

    def feeds(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs among `values`; a model's input may have no value, if it has a default or is optional."""
        return {name: values[name] for name in self.model.inputs if name in values}


def may_saturate(model: SplitModel) -> bool:
    """Whether sums of products of bytes may saturate in kernels for this processor."""
    has_products = any(node.op_type in PRODUCTS_OF_BYTES for node in all_nodes(model.message.graph.node))
    return has_products and saturates_sums_of_bytes()


def _is_cast_to_floats(node: onnx.NodeProto) -> bool:
    return node.op_type == "Cast" and any(a.name == "to" and a.i in FLOATS for a in node.attribute)
