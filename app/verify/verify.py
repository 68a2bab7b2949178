"""`verify`: numerical comparison of two models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx
from msgspec import to_builtins

from ...core.io.model import Model
from ...core.io.model_source import model_source
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import publish_text
from ...core.ir.tensor import element_type
from ...core.proof.region_proofs import RegionProofs
from ...core.run.phase_timer import COMPARING, LOADING, PROVING, RUNNING_ORIGINAL, PhaseTimer
from ...core.support.gc_pause import gc_paused
from ...core.support.printable_text import json_text
from ...core.verify.comparison_options import ComparisonOptions
from ...core.verify.input_specs import input_specs
from ...core.verify.oracle_process import OracleProcess
from ...core.verify.oracle_start import start_oracle_worker
from ...core.verify.verdict import Verdict
from ...core.verify.verification_spec import VerificationSpec
from ..registry.environment import versions
from ..registry.python_data import data_files, read_given
from ..report.notebook import report_card
from ..report.progress import phase_callback, with_keywords_after_two
from ..report.result_row import VERIFIED, WRONG, ResultRow, verdict_columns
from .verify_options import VerifyOptions


@dataclass(slots=True)
class VerificationReport:
    """The comparison of a model with the original.

    `interface_differences` are in words; with any, `verdict` is None. `proofs` are those of the changed regions, if
    asked for. `seconds` are by phase.
    """

    original: str
    other: str
    interface_differences: list[str]
    verdict: Verdict | None
    proofs: RegionProofs | None = None
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def agrees(self) -> bool:
        """Whether the interfaces and the outputs of the models agree."""
        return not self.interface_differences and self.verdict is not None and self.verdict.failure is None

    @property
    def columns(self) -> ResultRow:
        """Its columns in tables; the error is the difference."""
        failure = self.verdict.failure if self.verdict is not None else None
        reasons = self.interface_differences or ([] if failure is None else [f"{failure.output}: {failure.reason}"])
        outcome = VERIFIED if self.agrees else WRONG
        return {"outcome": outcome, **verdict_columns(self.verdict), "error": "; ".join(reasons) or None}

    def to_json(self) -> str:
        """The comparison as JSON text."""
        verdict = None if self.verdict is None else self.verdict.to_data()
        data = to_builtins(replace(self, verdict=None, proofs=None)) | {"agrees": self.agrees, "verdict": verdict}
        data["proofs"] = None if self.proofs is None else self.proofs.to_data()
        return json_text(data)

    _repr_html_ = report_card


def verify_models(
    original: onnx.ModelProto | str | Path, other: onnx.ModelProto | str | Path, options: VerifyOptions
) -> VerificationReport:
    """Compare the outputs of `other` with those of `original` in onnxruntime, both without optimizations.

    `inputs`, `shapes` and `memory` as for `optimize`, `effort` as its `verify`; `exact` requires bit-identical outputs.
    With `prove`, the regions in which models that agree differ are also proved, as far as they are small enough.
    Raises ModelError for a model or input that is unusable, UsageError for an unknown effort, UnverifiableError if no
    inputs can be generated for the original.
    """
    timer = PhaseTimer(phase_callback(options.progress))
    start_oracle_worker()
    first, second = (model_source(m, inline=False) for m in (original, other))
    paths = OutputPaths.of(report=options.json)
    paths.require_distinct((*first.files, *second.files, *data_files(options.inputs)))
    with gc_paused(), timer.phase(LOADING):
        model = first.load()
        given = read_given(options.inputs, model)
        spec = VerificationSpec.of(model, given, options.shape or {}, effort=options.effort, memory=options.memory)
        differences = interface_differences(model, second.load())
    verdict = None
    if not differences:
        with OracleProcess(first.loadable(), spec, options.seed, label=first.label, report=timer.report) as oracle:
            with timer.phase(RUNNING_ORIGINAL):
                oracle.wait()
            with timer.phase(COMPARING):
                verdict = oracle.compare(second.loadable(), ComparisonOptions(exact=options.exact))
    proofs = None
    if options.prove and verdict is not None and verdict.failure is None:
        from .region_proofs import ProvedModels, built_in_rewrites, proofs_of  # noqa: PLC0415 - imports z3

        with timer.phase(PROVING):
            rewrites = built_in_rewrites(first.load, model.graph.opsets)
            models = ProvedModels(model, first.loadable(), second.loadable(), rewrites)
            proofs = proofs_of(models, timer.verification_seconds, exact=options.exact)
    report = VerificationReport(
        first.label, second.label, differences, verdict, proofs, timer.seconds, versions(), options=options.chosen
    )
    publish_text(paths.report, report.to_json)
    return report


verify = with_keywords_after_two(VerifyOptions, "verify")(verify_models)


def interface_differences(original: Model, other: Model) -> list[str]:
    """Differences of inputs and outputs, by name and type, that callers of the original would notice."""
    expected, actual = ({i.name: i for i in input_specs(m)} for m in (original, other))
    found = [f"input {name} is missing" for name in expected.keys() - actual.keys()]
    found += [f"input {n} is new" for n, i in actual.items() if n not in expected and i.default is None]
    for name in expected.keys() & actual.keys():
        a, b = expected[name], actual[name]
        if (a.type_kind, a.dtype) != (b.type_kind, b.dtype):
            types = [f"a {i.type_kind} of {element_type(i.dtype)}" for i in (b, a)]
            found.append(f"input {name} is {types[0]}, not {types[1]}")
        elif a.default is not None and b.default is None:
            found.append(f"input {name} has lost its default")
    outputs = [[v.name for v in m.graph.outputs] for m in (original, other)]
    found += [f"output {name} is missing" for name in outputs[0] if name not in outputs[1]]
    if not found:
        inputs = [[n for n, i in specs.items() if i.default is None] for specs in (expected, actual)]
        for kind, (names, other_names) in {"inputs": inputs, "outputs": outputs}.items():
            if other_names[: len(names)] != names:  # more may follow at the end
                found.append(f"the {kind} come in another order: {', '.join(other_names)}")
    return sorted(found)
