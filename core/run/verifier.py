"""Verification of runs: comparison of their results with the original, until one is right."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..errors import UnverifiableError
from ..io.split_models import Loadable
from ..ort.sessions import AS_USERS_RUN
from ..verify.comparison_options import ComparisonOptions
from ..verify.engine_verdict import LIMITS, RANDOM_WHOLE, compare_in_engine
from ..verify.oracle_process import OracleProcess
from ..verify.ort_files import PORTABLE, different_bits
from ..verify.verdict import Verdict
from .failures import RewriteFailure
from .model_writer import ExportedModel, ModelWriter, RunOutcome
from .phase_timer import COMPARING, RUNNING_ORIGINAL, PhaseTimer
from .pipeline_run import PipelineRun, RewriteResult


class Verifier(Struct, frozen=True):
    """The original, which `oracle` runs in another process meanwhile, and the comparison of results with it.

    `exact`: outputs have to be bit-identical, whatever the rules guarantee. `uses_half`: the original computes 16-bit
    floats, which are not reproduced to the bit.
    """

    oracle: OracleProcess
    timer: PhaseTimer
    exact: bool = False
    uses_half: bool = False

    def verify(self, run: PipelineRun, result: RewriteResult, writer: ModelWriter) -> RunOutcome:
        """The first right result: `result`, or the result of a repetition without wrong changes; `writer` writes it.

        Changes that are right under the condition of their rule, as everything else is right without them, are in it.
        """
        while True:
            if not run.conditional:
                result, exported, verdict = self._check(run, result, writer)
                if verdict.failure is None:
                    return RunOutcome(result, exported, verdict)
            else:
                result, _, verdict = self._check(run, result, writer.without_files())
                if verdict.failure is None:
                    kept = run.readmit_conditional()
                    result, exported, verdict = self._check(run, run.rewrite(), writer)
                    if verdict.failure is None:
                        notes = (f"{q.label} holds on condition that {q.condition}; else {q.message}" for q in kept)
                        return RunOutcome(result, exported, replace(verdict, notes=(*verdict.notes, *notes)))
                    run.distrust_conditions()
            if result.failure is not None:
                run.reject(result, self.oracle.compare)
                result = run.rewrite()

    def _check(
        self, run: PipelineRun, result: RewriteResult, writer: ModelWriter
    ) -> tuple[RewriteResult, ExportedModel, Verdict]:
        """The result, with its failure if it is wrong, as it is written, and the verdict on it."""
        result, exported = writer.export(run, result)
        options = ComparisonOptions(
            exact=self.exact or not (result.may_round or self.uses_half),
            compare_regions=run.keeps_names,
            may_round=result.may_round,
        )
        verdict = writer.write_verified(
            exported, partial(self.compare, options=options), partial(self.compare_file, exact=self.exact)
        )
        if run.reuses_names:
            names = ", ".join(sorted(run.reuses_names))
            note = f"values inside were not compared by name: {names} gave names other meanings"
            verdict = replace(verdict, notes=(*verdict.notes, note))
        if verdict.failure is not None:
            result = result.failing(RewriteFailure.of_mismatch(verdict.failure), exact=options.exact)
        return result, exported, verdict

    def compare_file(self, model: Loadable, path: Path, *, exact: bool) -> Verdict:
        """Compare a file in onnxruntime's own format, made of `model`, with the original.

        Raises UnverifiableError for random outputs.
        """
        if self.oracle.spec.random_outputs:
            raise UnverifiableError(f"{path.name}: {RANDOM_WHOLE}")
        config = replace(AS_USERS_RUN, model_file=str(path))
        with self.timer.phase(COMPARING):
            verdict = compare_in_engine(self.oracle, model, ComparisonOptions(exact=exact), config=config)
            if verdict.failure is None or exact:
                return verdict
            # Integers jump, so ops are compared one by one in the session that wrote the file.
            by_ops = ComparisonOptions(compare_regions=True)
            of_session = compare_in_engine(self.oracle, model, by_ops, config=PORTABLE)
            sets = (run.input_set for run in self.oracle.runs)
            feeds = (s.feeds for s in sets if all(holds(s) for holds in LIMITS.values()))
            if of_session.failure is not None or different_bits(model, path, self.oracle.output_names, feeds):
                return verdict
            note = f"{path.name} has the bits of a session with the same optimizations, which was compared"
            return replace(of_session, notes=(*of_session.notes, note))

    def compare(self, model: Loadable, options: ComparisonOptions) -> Verdict:
        """Compare a model with the original, when that has run."""
        if not self.oracle.is_open:
            with self.timer.phase(RUNNING_ORIGINAL):
                self.oracle.wait()
        with self.timer.phase(COMPARING):
            return self.oracle.compare(model, options)
