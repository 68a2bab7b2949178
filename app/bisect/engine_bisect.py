"""`bisect_engine`: the ops of a model that an engine computes wrongly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ...core.io.model_source import ModelLike, model_source
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import publish_text
from ...core.run.phase_timer import LOADING, RUNNING_ORIGINAL, PhaseTimer
from ...core.support.gc_pause import gc_paused
from ...core.verify.comparison_options import ComparisonOptions
from ...core.verify.engine_verdict import compare_in_engine, ops_in
from ...core.verify.oracle_process import OracleProcess
from ...core.verify.oracle_start import start_oracle_worker
from ...core.verify.verification_spec import VerificationSpec
from ..measure.execution_provider import compared_config, engine_versions
from ..options import with_process_options
from ..registry.python_data import data_files, read_given
from ..report.notebook import report_card, report_json, report_line
from ..report.progress import phase_callback, with_keywords
from .bisect_options import EngineBisectOptions

MAX_WRONG_OPS = 20
"""The maximum number of wrong ops to list."""


class WrongEngineOp(Struct, frozen=True):
    """An op that is wrong in an engine: its type, its first wrong value, the failure and the inputs that cause it."""

    op_type: str
    place: str
    failure: str
    input_set: str


@dataclass(slots=True)
class EngineBisectReport:
    """The result of `bisect_engine`.

    `failure` is None if the engine agrees with unoptimized onnxruntime on all `input_sets`. Each op in `wrong_ops` is
    wrong by itself, given onnxruntime's values as inputs. If there are none, `together` lists the ops that are wrong
    only in combination, if they are known. `notes` name the ops that were not compared.

    Examples:
        >>> report = bisect_engine("model.onnx", "onnxruntime")
        >>> report.failure, report.wrong_ops
        (None, [])
    """

    source: str
    engine: str
    input_sets: list[str]
    failure: str | None
    wrong_ops: list[WrongEngineOp]
    together: list[str]
    notes: list[str]
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __bool__(self) -> bool:
        """Whether nothing is wrong."""
        return self.failure is None and not self.wrong_ops

    to_json, __repr__, _repr_html_ = report_json, report_line, report_card


@with_process_options
def bisect_engine_model(model: ModelLike, options: EngineBisectOptions) -> EngineBisectReport:
    """Compare each op of a model in an engine with unoptimized onnxruntime, on the same input values.

    `inputs`, `seed` and `memory` mean the same as for `optimize`; `effort` is its `verify`. `shapes` of inputs and
    sizes of symbols (`dims`) apply to the generated inputs and do not change the model. Raises ModelError for an
    unusable model or input, UsageError for an unknown engine, and UnverifiableError if no inputs can be generated.

    Examples:
        >>> bisect_engine("model.onnx", "onnxruntime").failure is None
        True
    """
    timer = PhaseTimer(phase_callback(options.progress))
    start_oracle_worker()
    config = compared_config(options.engine)
    source = model_source(model, inline=False)
    paths = OutputPaths.of(report=options.json)
    paths.require_distinct((*source.files, *data_files(options.inputs)))
    with gc_paused(), timer.phase(LOADING):
        loaded, effort = source.load(), options.verify
        given = read_given(options.inputs, loaded)
        spec = VerificationSpec.of(
            loaded, given, options.shape or {}, options.dim or {}, effort=effort, memory=options.memory
        )
    with OracleProcess(source.loadable(), spec, options.seed, label=source.label, report=timer.report) as oracle:
        with timer.phase(RUNNING_ORIGINAL):
            oracle.wait()
        with timer.phase("comparing ops"):
            demands = ComparisonOptions(compare_regions=True)
            verdict = compare_in_engine(oracle, source.loadable(), demands, config=config)
            failure = verdict.failure
            sets = [run.input_set for run in oracle.runs]
            shown = [] if failure is None or failure.input_set is None else [failure.input_set]
            usual = [s for s in (*shown, *sets) if s.is_finite and 0 not in s.sizes.values()][:2]
            found = oracle.wrong_ops(config, usual, MAX_WRONG_OPS)
    types = {v.name: op.type for op in loaded.graph.ops() for v in op.outputs}
    wrong = [WrongEngineOp(types.get(w.place, ""), w.place, w.reason, w.input_set) for w in found.found]
    together = [] if wrong or failure is None else ops_in(loaded.graph, failure.region)
    report = EngineBisectReport(
        source.label,
        config.engine_name,
        [str(s) for s in sets],
        None if failure is None else replace(failure, cut_point="").describe("it"),
        wrong,
        together,
        list(dict.fromkeys((*verdict.notes, *found.notes))),
        timer.seconds,
        engine_versions([config]),
        options=options.chosen,
    )
    publish_text(paths.report, report.to_json)
    return report


bisect_engine = with_keywords(EngineBisectOptions, "bisect_engine")(bisect_engine_model)
