"""Row-by-row comparison of a model with another batch size and the original."""

from __future__ import annotations

from dataclasses import replace

from ...core.errors import VerificationError
from ...core.io.convert import from_onnx, to_onnx
from ...core.io.files import in_memory
from ...core.io.model_source import ModelSource
from ...core.run.phase_timer import COMPARING, RUNNING_ORIGINAL, PhaseTimer
from ...core.run.transforms import RequestedTransform
from ...core.transform.row_reference import row_by_row
from ...core.verify.comparison_options import ComparisonOptions
from ...core.verify.oracle_process import OracleProcess
from ...core.verify.verification_spec import VerificationSpec
from ...passes.transforms.interface import ChangeBatch
from ..report.number_text import plural
from .run_options import RunOptions

OUTPUTS_ALONE = ComparisonOptions(explain_by_regions=False)


def compare_rows(source: ModelSource, options: RunOptions, timer: PhaseTimer) -> str:
    """Compare each row of the converted model with the original on that row; return a note about it.

    `source` includes the conversion among its transforms. Raises VerificationError for a row that differs, and
    UnverifiableError.
    """
    changes = [t.item if isinstance(t, RequestedTransform) else None for t in source.transforms]
    index, change = next((i, c) for i, c in enumerate(changes) if isinstance(c, ChangeBatch))
    before = replace(source, transforms=source.transforms[:index])
    original, converted = to_onnx(before.load()), before.load()
    plan = change.convert(converted)
    spec = VerificationSpec.of(converted, effort=options.effort, memory=options.memory)
    reference = in_memory(from_onnx(row_by_row(original, plan)))
    with OracleProcess(reference, spec, options.seed, label=source.label, report=timer.report) as oracle:
        with timer.phase(RUNNING_ORIGINAL):
            oracle.wait()
        with timer.phase(COMPARING):
            verdict = oracle.compare(in_memory(converted), OUTPUTS_ALONE)
    if verdict.failure is not None:
        raise VerificationError(f"--batch {options.batch}: a row differs from the original's: {verdict.failure}")
    sets = len(verdict.input_sets) + len(verdict.nonfinite_input_sets)
    alike = [v.name for v in converted.graph.outputs if v.name not in plan.outputs]
    same = f"; equal for all rows: {', '.join(alike)}" if alike else ""
    return f"batch {options.batch}: each row equals the original's on {plural(sets, 'input set')}{same}"
