"""`suspect`: whether onnxruntime's own optimizers are right about a model, and if not, which of them is to blame."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import onnx

from ...core.io.model_source import source_of
from ...core.io.output_paths import Places
from ...core.pass_manager.phase_timer import Stopwatch
from ...core.pass_manager.report import write_json
from ...core.support.gc_pause import no_collection
from ...core.verify.verification_spec import Inputs, Question
from ..environment import versions
from .optimizer_bisection import Blame, blame


@dataclass(slots=True)
class Suspicion:
    """What became of it: `blame` is None where onnxruntime agrees with itself at `level` on all `draws`."""

    source: str
    level: str
    draws: tuple[str, ...]
    blame: Blame | None
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    versions: dict[str, str] = field(default_factory=dict[str, str])

    def to_json(self) -> str:
        """The finding as JSON text."""
        return json.dumps(asdict(self), indent=1, allow_nan=False)


def suspect(
    model: onnx.ModelProto | str | Path,
    level: str = "all",
    inputs: Inputs | None = None,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    seed: int = 0,
    report_to: str | Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Suspicion:
    """Hold onnxruntime at a level of optimization (basic, extended, layout, all) to itself with none.

    `inputs` and `seed` as for `optimize`; `shapes` of inputs and sizes of symbols (`dims`) say what to ask with, and
    change no model. Raises ModelError for a model or input that is unusable, BadUsage for a level that does not exist,
    Unverifiable if no inputs can be made up.
    """
    watch = Stopwatch(progress)
    source = source_of(model, inline=False)
    places = Places(report=Path(report_to) if report_to is not None else None)
    places.require((*source.files, *([Path(inputs)] if isinstance(inputs, str | Path) else [])))
    with no_collection(), watch.phase("loading"):
        question = Question.of(source.load(), inputs, shapes or {}, dims or {})
    with watch.phase("asking the original"):
        oracle = question.put_to(source, seed)
    with watch.phase("asking onnxruntime"):
        found = blame(oracle, source.loadable(), level, progress)
    draws = tuple(str(answer.draw) for answer in oracle.answers)
    suspicion = Suspicion(source.label, level, draws, found, watch.seconds, versions())
    if places.report is not None:
        write_json(suspicion.to_json(), places.report)
    return suspicion
