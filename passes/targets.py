"""Targets: runtimes to make models for, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..core import Pass
from ..core.ir.context import Runs
from ..core.ir.cost_model import CPU, CostModel
from ..core.ir.op_schemas import qualified_op_type
from ..core.ort.kernels import runs_on_cpu
from .fusion.skip_norms import KEEP_NORMS_APART


@dataclass(frozen=True, slots=True)
class OperatorSupport:
    """The opsets, from `first` to `last`, and the element types for which a target runs an operator well.

    `dtypes`, of TensorProto.DataType, are those of the first input; None for any.
    """

    first: int = 1
    last: int | None = None
    dtypes: frozenset[int] | None = None

    def covers(self, version: int, dtypes: Sequence[int]) -> bool:
        """Whether it is true of an op of that opset; an unknown type, 0, counts as supported."""
        is_version = self.first <= version and (self.last is None or version <= self.last)
        return is_version and (self.dtypes is None or not dtypes or dtypes[0] in {0, *self.dtypes})


NEVER = OperatorSupport(last=0)
"""An operator that a target does not run, or only slowly."""


@dataclass(frozen=True, slots=True)
class Target:
    """A runtime: its opset, the operators that it runs well, and what ops and moving data cost.

    `opset` is the standard opset to which models are raised, as far as all their ops can be; 0: the highest that the
    installed onnxruntime runs. `operators`, as in `Attention` or `com.microsoft.Gelu`, limits the ops that rewrites
    add: of the standard domain all but those listed are free, of other domains none. `runs`, if given, must be true of
    each as well. `costs` serve the rewrites that trade ops for moved data or for one op with a slow kernel. `last` are
    passes after those of `basic`.
    `fallback` is the pipeline to use where the result of this one turns out to be slower than the original
    (`passes run --check-speed`).
    """

    name: str
    description: str
    opset: int = 0
    operators: Mapping[str, OperatorSupport] = field(default_factory=dict[str, OperatorSupport])
    runs: Runs | None = None
    costs: CostModel = CPU
    last: Sequence[Pass] = ()
    fallback: str = "basic"

    def may_add(self, op_type: str, domain: str, version: int, dtypes: Sequence[int]) -> bool:
        """Whether rewrites may add an op of that operator, opset of its domain, and element types of its inputs."""
        unlisted = NEVER if domain else OperatorSupport()
        support = self.operators.get(qualified_op_type(domain, op_type), unlisted)
        return support.covers(version, dtypes) and (self.runs is None or self.runs(op_type, domain, version, dtypes))


ORT = Target("ort", "onnxruntime on the CPU", runs=runs_on_cpu, last=(KEEP_NORMS_APART,))
"""onnxruntime's CPU provider.

No operator of com.microsoft is added: none was measured to be faster than the standard ones (docs/onnxruntime.md).
"""
