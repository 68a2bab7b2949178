"""`bisect_ort`: whether onnxruntime's own optimizers are right about a model, and if not, which of them is to blame."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import onnx

from ...core.io.model_source import model_source
from ...core.io.output_paths import OutputPaths
from ...core.pass_manager.phase_timer import PhaseTimer
from ...core.pass_manager.report import write_json
from ...core.support.gc_pause import gc_paused
from ...core.verify.verification_spec import Inputs, VerificationSpec
from ..environment import versions
from .optimizer_bisection import OptimizerBisection, bisect_optimizers


@dataclass(slots=True)
class OrtBisectReport:
    """What became of it: `blame` is None where onnxruntime agrees with itself at `level` on all `input_sets`."""

    source: str
    level: str
    input_sets: tuple[str, ...]
    blame: OptimizerBisection | None
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    versions: dict[str, str] = field(default_factory=dict[str, str])

    def to_json(self) -> str:
        """The finding as JSON text."""
        return json.dumps(asdict(self), indent=1, allow_nan=False)


def bisect_ort(
    model: onnx.ModelProto | str | Path,
    level: str = "all",
    inputs: Inputs | None = None,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    report_to: str | Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> OrtBisectReport:
    """Hold onnxruntime at a level of optimization (basic, extended, layout, all) to itself with none.

    `inputs` and `seed` as for `optimize`; `shapes` of inputs and sizes of symbols (`dims`) say what to ask with, and
    change no model. Raises ModelError for a model or input that is unusable, UsageError for a level that does not
    exist, UnverifiableError if no inputs can be made up.
    """
    watch = PhaseTimer(progress)
    source = model_source(model, inline=False)
    places = OutputPaths(report=Path(report_to) if report_to is not None else None)
    places.require_writable((*source.files, *([Path(inputs)] if isinstance(inputs, str | Path) else [])))
    with gc_paused(), watch.phase("loading"):
        question = VerificationSpec.of(source.load(), inputs, shapes or {}, dims or {})
    with watch.phase("asking the original"):
        oracle = question.build_oracle(source, seed)
    with watch.phase("asking onnxruntime"):
        found = bisect_optimizers(oracle, source.loadable(), level, progress)
    input_sets = tuple(str(answer.input_set) for answer in oracle.answers)
    suspicion = OrtBisectReport(source.label, level, input_sets, found, watch.seconds, versions())
    if places.report is not None:
        write_json(suspicion.to_json(), places.report)
    return suspicion
