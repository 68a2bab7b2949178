"""Verified runs of a pipeline and of its fallbacks, as `optimize` makes them."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from ...core.errors import UsageError
from ...core.io.model import Model
from ...core.io.model_source import ModelSource
from ...core.io.publishing import Publication
from ...core.ir.graph import ValueInfo
from ...core.run.pass_manager import CheckOptions, PassManager
from ...core.run.phase_timer import WRITING, PhaseTimer
from ...core.run.pipeline import Pass, RulePass, leaves
from ...core.run.quarantine import OnQuarantine, Quarantine
from ...core.run.transforms import SkippedPass
from ...core.run.verified_run import Accept, Candidate, ExternalData, VerifiedRun, attempt_comparer
from ...core.verify.oracle_process import OracleProcess
from ...core.verify.verdict import Verdict
from ...core.verify.verification_spec import VerificationSpec
from ...passes.structure.opset import ConvertOpset
from ..environment import versions
from ..registry.resolved_pipeline import ResolvedPipeline
from ..run_options import RunOptions

if TYPE_CHECKING:
    from ...core.rewriting.changes import ChangeObserver
    from .speed_check import SpeedRaces

EXTERNAL_DATA = {"auto": None, "always": True, "never": False}


@dataclass(frozen=True, slots=True)
class RunAttempt:
    """A verified run of a pipeline, without the passes that are `unfit` for the model."""

    pipeline: Pass
    unfit: list[SkippedPass]
    run: VerifiedRun
    candidate: Candidate
    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class Attempts:
    """Verified runs of pipelines on one model: their results are added to `publication`, if it has a place for a model.

    `spec`: how to verify, and the inputs that are given. `races`: those against the original.
    """

    source: ModelSource
    spec: VerificationSpec | None
    options: RunOptions
    timer: PhaseTimer
    races: SpeedRaces | None
    publication: Publication

    def first_accepted(self, choice: ResolvedPipeline, original: Model) -> RunAttempt:
        """The run of the pipeline, or of the first of its fallbacks that loses no race; `original` is rewritten."""
        attempt = self.run(choice, original)
        for fallback in (*choice.fallbacks, choice.last_fallback):
            if self.races is None or not self.races.has_lost:
                break
            other, attempts = replace(choice, pipeline=fallback, spec=fallback.name), self
            if fallback is choice.last_fallback:
                attempts = replace(self, options=replace(self.options, value_info=None), races=None)
            attempt = attempts.run(other, self.source.load())
        return attempt

    def run(self, choice: ResolvedPipeline, original: Model) -> RunAttempt:
        """Run a pipeline on `original`, which is rewritten. A result is published if it is right and not slower."""
        options, timer, races = self.options, self.timer, self.races
        pipeline, unfit = choice.for_opsets(original.graph.opsets)
        run = self._verified_run(choice, pipeline)
        accept = partial(races.is_accepted, pipeline.name) if races is not None and leaves(pipeline) else None
        files = self.publication if self.publication.model is not None else None
        if self.spec is None or not options.verify:
            run.start(original)
            return RunAttempt(pipeline, unfit, run, unverified_candidate(run, accept, files), None)
        rules = (r for p in leaves(pipeline) if isinstance(p, RulePass) for r in p.rules)
        boundaries = sorted({number for r in rules for number in r.critical_values})
        with OracleProcess(
            self.source.loadable(), self.spec, options.seed, boundaries, label=self.source.label, report=timer.report
        ) as oracle:
            run.start(original)
            run.quarantine.options = CheckOptions(
                attempt_comparer(oracle, lambda: run.quarantine.keeps_names, run.may_round)
            )
            verified = run.verify(oracle, files, exact=options.exact, uses_half=self.spec.uses_half, accept=accept)
        return RunAttempt(pipeline, unfit, run, *verified)

    def _verified_run(self, choice: ResolvedPipeline, pipeline: Pass) -> VerifiedRun:
        """A run of the pipeline that has not started."""
        options = self.options
        new_observer: Callable[[], ChangeObserver] | None = None
        if options.visualize or options.page_to is not None:
            from ..visualization.snapshots import SnapshotObserver  # noqa: PLC0415 - seldom needed

            new_observer = SnapshotObserver
        manager = PassManager(
            self.source.load,
            pipeline,
            options.exact,
            value_info=value_info_policy(options.value_info, pipeline),
            report=self.timer.report,
        )
        return VerifiedRun(
            self.source,
            Quarantine(manager, CheckOptions(), repro_writer(options, pipeline, choice)),
            self.timer,
            options.strict,
            {p.name for p in leaves(pipeline) if isinstance(p, ConvertOpset)},
            track_names=options.map_to is not None,
            record_changes=options.plan,
            new_observer=new_observer,
            external_data=external_data_choice(options.external_data),
        )


def external_data_choice(choice: str | int) -> ExternalData:
    """The place of weights for the choice of a caller. Raises UsageError for an unknown one."""
    if isinstance(choice, int):
        return ExternalData(choice=True, above=choice - 1)
    if choice not in EXTERNAL_DATA:
        raise UsageError(
            f"--external-data {choice}: choose from {', '.join(EXTERNAL_DATA)}, or give a size such as 1MB"
        )
    return ExternalData(EXTERNAL_DATA[choice])


def value_info_policy(choice: str | None, pipeline: Pass) -> ValueInfo:
    """The chosen policy, or the default for a pipeline. Raises UsageError for an unknown one."""
    default: ValueInfo = "strip" if any(not isinstance(p, ConvertOpset) for p in leaves(pipeline)) else "keep"
    policies: tuple[ValueInfo, ...] = get_args(ValueInfo)
    for policy in policies:
        if policy == (choice or default):
            return policy
    hint = "; --shape sets the shape of an input" if ":" in str(choice) else ""
    raise UsageError(f"--shapes {choice}: choose from {', '.join(policies)}{hint}")


def unverified_candidate(run: VerifiedRun, accept: Accept | None, publication: Publication | None) -> Candidate:
    """The first candidate; if accepted, it is in `publication`."""
    candidate = run.candidate()
    if publication is not None or accept is not None:
        with run.timer.phase(WRITING):
            candidate.stage_if(accept or (lambda _: True), publication)
    return candidate


def repro_writer(options: RunOptions, pipeline: Pass, choice: ResolvedPipeline) -> OnQuarantine | None:
    """A function that writes the repros of a run; None without a folder for them."""
    if options.repro_to is None:
        return None
    from ..repro.repro import CommandOptions, ReproFolder  # noqa: PLC0415 - seldom needed

    texts = [f"--pipeline {shlex.quote(choice.spec)}"] if choice.spec not in {"", "basic"} else []
    texts += [f"--plugin {shlex.quote(str(file.resolve()))}" for file in options.plugin_files]
    texts += ["--exact"] * options.exact + ["--keep-functions"] * options.keep_functions
    repeated = CommandOptions(texts, tuple(options.only), tuple(options.skip), choice.enabled_specs, options.exact)
    return ReproFolder(Path(options.repro_to), pipeline, repeated, versions()).write
