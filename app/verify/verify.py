"""`verify`: numerical comparison of two models."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import onnx
from msgspec.structs import replace as replace_fields

from ...core.errors import UnverifiableError, UsageError
from ...core.io.model import Model
from ...core.io.model_source import ModelLike, ModelSource, model_source
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import publish_report
from ...core.ir.tensor import element_bits
from ...core.ort.engines import SINGLE, SPLIT
from ...core.ort.remote_backend import RemoteBackend
from ...core.ort.sessions import AS_USERS_RUN, SessionConfig
from ...core.proof.region_proofs import RegionProofs
from ...core.run.phase_timer import COMPARING, LOADING, PROVING, RUNNING_ORIGINAL, PhaseTimer
from ...core.support.gc_pause import gc_paused
from ...core.verify.comparison_options import ComparisonOptions
from ...core.verify.engine_verdict import RANDOM_WHOLE, compare_in_engine, ops_in
from ...core.verify.oracle_process import OracleProcess
from ...core.verify.oracle_start import start_oracle_worker
from ...core.verify.verdict import Verdict
from ...core.verify.verification_spec import VerificationSpec
from ..measure.execution_provider import compared_config, engine_versions
from ..measure.tuned_settings import read_tuned_settings
from ..options import require, with_process_options
from ..registry.python_data import data_files, read_given
from ..report.notebook import report_page
from ..report.progress import phase_callback, with_keywords_after_one_or_two
from .interfaces import Interfaces, comparable_original
from .report import VerificationReport
from .verify_options import VerifyOptions

NARROW_BITS = 16
MAX_OPS = 5  # maximum number of named ops


@with_process_options
def verify_models(original: ModelLike, other: ModelLike | None, options: VerifyOptions) -> VerificationReport:
    """Compare the outputs of `other` with those of `original` in onnxruntime, both without optimizations.

    Options:
        engine: an engine that runs `other`, or the original if there is no other model, such as `openvino`. Precisions
            other than f32, such as `openvino:bf16`, are measured with a `budget`, 1% by default.
        settings: a settings file of `tune`, used like `engine`.
        inputs, shape, memory: as for `optimize`; `effort` is its `verify`.
        exact: require bit-identical outputs.
        prove: if the models agree, also prove the regions in which they differ, if they are small enough.
        budget: accept a model that differs intentionally, up to an accuracy loss such as `1%`. The report's `accuracy`
            is measured on typical inputs, `inputs`, or `labelled` rows, with `metric` as for `quantize`.

    Raises ModelError for an unusable model or input, UsageError for an unknown effort, and UnverifiableError if no
    inputs can be generated for the original.

    Examples:
        >>> report = verify("model.onnx", optimize("model.onnx").model)
        >>> report.verdict.failure is None, list(report.verdict.differences)
        (True, ['y'])
    """
    timer = PhaseTimer(phase_callback(options.progress))
    if options.budget is None:
        start_oracle_worker()
    config = None if options.engine is None else compared_config(options.engine)
    if options.settings is not None:
        config = read_tuned_settings(Path(options.settings)).session.config()
    if other is None and config is None:
        raise UsageError("give a second model, or an engine, such as --engine openvino")
    first = model_source(original, inline=False)
    second = model_source(original if other is None else other, inline=False, takes_ort=True)
    if second.is_ort:
        require(not options.prove, f"--prove needs .onnx files, not {second.label}")
        config = replace_fields(config or AS_USERS_RUN, model_file=str(second.files[0].resolve()))
    paths = OutputPaths.of(report=options.json, page=options.html)
    data = (*data_files(options.inputs), *data_files(options.labelled))
    paths.require_distinct((*first.files, *second.files, *data, *options.custom_operator_files))
    with gc_paused(), timer.phase(LOADING):
        rewritten = second.load()
        first, model, notes = comparable_original(first, rewritten)
        given = read_given(options.inputs, model)
        spec = VerificationSpec.of(model, given, options.shape or {}, effort=options.effort, memory=options.memory)
        if second.is_ort and spec.random_outputs:
            raise UnverifiableError(f"{second.label}: {RANDOM_WHOLE}")
        interfaces = Interfaces.of(model, rewritten)
        is_narrower = bool(_narrow_types(rewritten) - _narrow_types(model))
        spec, second = (
            replace_fields(spec, outputs=interfaces.outputs, notes=(*spec.notes, *notes)),
            interfaces.adapted(second, model),
        )
    differences, verdict, accuracy = interfaces.differences, None, None
    precision = SINGLE if config is None else config.precision
    if options.budget is None:
        differences = sorted((*differences, *interfaces.float_types))
    else:
        spec = replace_fields(spec, notes=(*spec.notes, *interfaces.float_types))
    if interfaces.obstacle:
        pass
    elif options.budget is not None:
        from .accuracy_loss import measure_loss  # noqa: PLC0415 - imports the oracle and measurements

        accuracy, precision = measure_loss(first, second, spec, options, timer, config)
    else:
        verdict = _verdict(first, second, spec, options, timer, config)
    proofs = None
    if options.prove and verdict is not None and verdict.failure is None and not differences:
        proofs = _proofs(first, model, second, options, timer)
    report = VerificationReport(
        first.label, second.label, differences, verdict, accuracy, proofs, interfaces.obstacle, is_narrower,
        "" if config is None else config.engine_name,
        precision if config is None or verdict is None or verdict.failure else _precision_in(config, second),
        "" if config is None else _wrong_ops(rewritten, verdict), timer.seconds,
        engine_versions([] if config is None else [config]), options=options.chosen,
    )  # fmt: skip
    publish_report(paths, report.to_json, partial(report_page, report))
    return report


def _verdict(
    first: ModelSource,
    second: ModelSource,
    spec: VerificationSpec,
    options: VerifyOptions,
    timer: PhaseTimer,
    config: SessionConfig | None,
) -> Verdict:
    """The verdict on the second model, in an engine if `config` is given, which names a file of onnxruntime."""
    with OracleProcess(first.loadable(), spec, options.seed, label=first.label, report=timer.report) as oracle:
        with timer.phase(RUNNING_ORIGINAL):
            oracle.wait()
        with timer.phase(COMPARING):
            has_ops = config is not None and not second.is_ort
            demands = ComparisonOptions(exact=options.exact, compare_regions=has_ops)
            compare = oracle.compare if config is None else partial(compare_in_engine, oracle, config=config)
            return compare((first if second.is_ort else second).loadable(), demands)


def _proofs(
    first: ModelSource, model: Model, second: ModelSource, options: VerifyOptions, timer: PhaseTimer
) -> RegionProofs:
    """Prove the regions in which models that agree differ; `model` is the first."""
    from ..optimize.region_proofs import ProvedModels, built_in_rewrites, proofs_of  # noqa: PLC0415 - imports z3

    with timer.phase(PROVING):
        rewrites = built_in_rewrites(first.load, model.graph.opsets)
        models = ProvedModels(model, first.loadable(), second.loadable(), rewrites)
        return proofs_of(models, timer.verification_seconds, exact=options.exact)


def _precision_in(config: SessionConfig, model: ModelSource) -> str:
    """The precision in an engine and, if it consists of several, what runs where."""
    if config.engine != SPLIT:
        return config.precision
    with RemoteBackend(config) as backend:
        return backend(model.loadable()).precision


def _wrong_ops(model: Model, verdict: Verdict | None) -> str:
    """The op that computes the first wrong value, or the ops that together do; "" if unknown."""
    region = verdict.failure.region if verdict is not None and verdict.failure is not None else frozenset[str]()
    found = ops_in(model.graph, region)
    more = f" and {len(found) - MAX_OPS} other ops" if len(found) > MAX_OPS else ""
    return ", ".join(found[:MAX_OPS]) + more


def _narrow_types(model: Model) -> set[int]:
    """The types of constants with 16 bits or fewer, other than bools."""
    found = {v.known_dtype for graph in model.graph.with_subgraphs() for v in graph.initializers}
    return {t for t in found - {onnx.TensorProto.BOOL, onnx.TensorProto.STRING, 0} if element_bits(t) <= NARROW_BITS}


verify = with_keywords_after_one_or_two(VerifyOptions, "verify")(verify_models)
