"""`optimize`: a model goes in, a verified smaller model comes out."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import onnx

from ...core.io.files import publish
from ...core.io.model_source import ModelSource, model_source
from ...core.io.output_paths import OutputPaths
from ...core.pass_manager.attempt_check import CheckOptions
from ...core.pass_manager.pass_manager import PassManager
from ...core.pass_manager.phase_timer import PhaseTimer
from ...core.pass_manager.pipeline import Pass, RulePass, leaves
from ...core.pass_manager.plan import Plan, graph_size
from ...core.pass_manager.quarantine import OnQuarantine, Quarantine
from ...core.pass_manager.report import Report, Stats, pass_records, write_json
from ...core.pass_manager.verified_run import DRAWING, Candidate, VerifiedRun, oracle_judge
from ...core.rewriting.ledger import Ledger
from ...core.support.gc_pause import gc_paused
from ...core.transform.model_edits import edited_source, requested_edits
from ...core.verify.verdict import Verdict
from ...core.verify.verification_spec import Inputs, VerificationSpec
from ..environment import versions
from ..registry.pass_sources import PluginLike
from ..registry.resolved_pipeline import ResolvedPipeline, resolve_pipeline

if TYPE_CHECKING:
    from ..visualization.snapshots import SnapshotObserver
    from ..visualization.visualization import Visualization


@dataclass
class Result:
    """An optimized model and what was done to it."""

    report: Report
    _source: ModelSource = field(repr=False)
    _candidate: Candidate = field(repr=False)
    visualization: Visualization | None = field(default=None, repr=False)

    @cached_property
    def model(self) -> onnx.ModelProto:
        """The optimized model, with all its weights."""
        return self._candidate.exported.to_proto()

    def save(self, path: str | Path) -> None:
        """Write the model to `path`, whole or not at all; with external data if it came with some.

        Raises ModelError if `path` cannot be written or is what the model is read from.
        """
        destination = Path(path)
        OutputPaths(destination).require_writable(self._source.files)
        with self._candidate.staged(destination) as stage:
            publish(stage, destination)


def optimize(
    model: onnx.ModelProto | str | Path,
    pipeline: str | Pass = "basic",
    plugins: Sequence[PluginLike] = (),
    verify: bool = True,
    inputs: Inputs | None = None,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    outputs: Sequence[str] = (),
    drop_unused_inputs: bool = False,
    only: Collection[str] = (),
    skip: Collection[str] = (),
    enable: Collection[str] = (),
    exact: bool = False,
    strict: bool = False,
    keep_functions: bool = False,
    seed: int = 0,
    output: str | Path | None = None,
    report_to: str | Path | None = None,
    map_to: str | Path | None = None,
    repro_to: str | Path | None = None,
    page_to: str | Path | None = None,
    plan: bool = False,
    visualize: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Result:
    """Rewrite a model and prove against onnxruntime that it still computes the same.

    `pipeline`: names of pipelines and passes, as in `basic,my-pass{n=3}`, or a Pass. `plugins`: Python files, Plugins,
    passes or rules to add to it.
    `inputs`: arrays by input name, an .npz, or a folder of ONNX test data; without them inputs are drawn,
    from `seed`. `shapes` of inputs (by name) and sizes of symbols (`dims`) specialise the model before anything
    is rewritten: what is declared becomes those numbers. `outputs`: values of the main graph that are
    to be the outputs; what they do not need is cut off first, and `drop_unused_inputs` drops the inputs that nothing
    reads: the result is compared with the model that this leaves. `only`, `skip`: passes and rules by name.
    `enable`: passes to add, or to set options of, as in `my-pass{n=3}`. `exact` runs only rules that keep every bit.

    A change that breaks the model is found, left out and told of in `Result.report.quarantined`; with `strict` it
    ends the run. `output`: where to write the verified model; `report_to`: the report, `map_to`: what became of
    each name, both as JSON; `page_to`: an HTML page to look at. `repro_to`: a folder for small models that show what
    was left out. With `plan`, `Result.report.plan` lists each change with what it saves; with `story`, `Result.story`
    has pictures of each change, and of the model before and after.

    A pass of a plugin that does not support the model's opset is left out, see `Result.report.unfit`.

    Raises ModelError for a model or input that is unusable, UsageError for a pipeline that is, PluginError,
    VerificationError if a change is wrong and `strict` (nothing is written), UnverifiableError if nobody can tell.
    """
    watch = PhaseTimer(progress)
    source = edited_source(
        model_source(model, inline=not keep_functions),
        requested_edits(shapes, dims, outputs, drop_inputs=drop_unused_inputs),
    )
    places = OutputPaths(*(Path(p) if p is not None else None for p in (output, report_to, map_to, repro_to, page_to)))
    others = [Path(p) for p in (inputs, *plugins) if isinstance(p, str | Path)]
    places.require_writable((*source.files, *others))
    choice = resolve_pipeline(pipeline, plugins, only, skip, enable)
    others += choice.read_files
    with gc_paused(), watch.phase("loading"):
        original = source.load()
        before = Stats.of(original, source.size)
        whole = graph_size(original.graph) if plan else None
        question = VerificationSpec.of(original, inputs, {}) if verify or inputs is not None else None
    places.require_writable((*source.files, *others))
    chosen, unfit = choice.for_opsets(original.graph.opsets)
    keep = repro_writer(places.repro_folder, chosen, choice, plugins, only, skip, exact=exact, functions=keep_functions)
    quarantine = Quarantine(PassManager(source.load, chosen, exact), CheckOptions(), keep)
    album = observer_factory() if visualize or places.page is not None else None
    proof = VerifiedRun(
        source,
        quarantine,
        watch,
        strict,
        track_names=places.name_map is not None,
        record_changes=plan,
        new_observer=album,
    )
    proof.start(original)
    candidate, verdict = verified_candidate(
        proof, chosen, question if verify else None, places.model, seed, exact=exact
    )
    told = run_visualization(proof, chosen, candidate)
    report = Report(
        source.label,
        chosen.name,
        before,
        Stats.of(candidate.model, candidate.exported.size),
        pass_records(chosen, proof.checked.attempt.ledger),
        verdict,
        quarantine.quarantined,
        quarantine.replays,
        watch.seconds,
        versions(),
        Plan.of(proof.checked.attempt.ledger.changes, whole, graph_size(candidate.model.graph))
        if whole is not None
        else None,
        unfit,
    )
    write_reports(report, proof, told, places)
    return Result(report, source, candidate, told)


def verified_candidate(
    run: VerifiedRun,
    chosen: Pass,
    verification_spec: VerificationSpec | None,
    destination: Path | None,
    seed: int,
    *,
    exact: bool,
) -> tuple[Candidate, Verdict | None]:
    """The first candidate that verification accepts, or without a `verification_spec` the first; written."""
    if verification_spec is None:
        candidate = run.candidate()
        if destination is not None:
            with run.timer.phase("writing"), candidate.staged(destination) as stage:
                publish(stage, destination)
        return candidate, None
    with run.timer.phase("asking the original"):
        oracle = verification_spec.build_oracle(
            run.source, seed, fired_rule_boundaries(chosen, run.checked.attempt.ledger)
        )
    run.quarantine.options = CheckOptions(oracle_judge(oracle))
    return run.verify(oracle, destination, exact=exact, uses_half=verification_spec.uses_half)


def write_reports(report: Report, run: VerifiedRun, visualization: Visualization | None, places: OutputPaths) -> None:
    """Write what is to be told of a run. Raises ModelError if that cannot be done."""
    if places.report is not None:
        write_json(report.to_json(), places.report)
    if places.name_map is not None:
        write_json(json.dumps(run.name_map(), indent=1), places.name_map)
    if visualization is not None and places.page is not None:
        from ..pages.rendering import write_page  # noqa: PLC0415 - seldom needed
        from .page import run_page  # noqa: PLC0415 - seldom needed

        write_page(run_page(report, visualization), places.page)


def observer_factory() -> Callable[[], SnapshotObserver]:
    """What makes an album for a run; drawing is imported only if it is wanted."""
    from ..visualization.snapshots import SnapshotObserver  # noqa: PLC0415 - seldom needed

    return SnapshotObserver


def run_visualization(run: VerifiedRun, pipeline: Pass, candidate: Candidate) -> Visualization | None:
    """The story of the run that stands, if it was drawn. Raises what kept it from being drawn."""
    if run.observer is None:
        return None
    ledger = run.checked.attempt.ledger
    if ledger.dispatcher is not None and ledger.dispatcher.failure is not None:
        raise ledger.dispatcher.failure
    from ..visualization.snapshots import SnapshotObserver  # noqa: PLC0415 - as above
    from ..visualization.visualization_builder import build_visualization  # noqa: PLC0415 - seldom needed

    assert isinstance(run.observer, SnapshotObserver)
    with gc_paused(), run.timer.phase(DRAWING):
        return build_visualization(
            pipeline, ledger.changes, run.observer, run.source.load().graph, candidate.model.graph
        )


def fired_rule_boundaries(pipeline: Pass, ledger: Ledger) -> list[float]:
    """The numbers at which rules that made changes say that they are delicate."""
    fired = {by for counts in ledger.counts.values() for by in counts}
    rules = [r for p in leaves(pipeline) if isinstance(p, RulePass) for r in p.rules]
    return sorted({number for r in rules if r.name in fired for number in r.fragile})


def repro_writer(
    root: Path | None,
    chosen: Pass,
    choice: ResolvedPipeline,
    plugins: Sequence[PluginLike],
    only: Collection[str],
    skip: Collection[str],
    *,
    exact: bool,
    functions: bool,
) -> OnQuarantine | None:
    """What writes repros of a run of `chosen`, if they are wanted; the rest is what the run was asked."""
    if root is None:
        return None
    from ..repro.folder import CommandOptions, ReproFolder  # noqa: PLC0415 - seldom needed

    options = [f"--pipeline {shlex.quote(choice.spec)}"] if choice.spec not in {"", "basic"} else []
    options += [f"--plugin {shlex.quote(str(Path(p).resolve()))}" for p in plugins if isinstance(p, str | Path)]
    options += ["--exact"] * exact + ["--keep-functions"] * functions
    asked = CommandOptions(options, tuple(only), tuple(skip), choice.enabled_specs, exact)
    return ReproFolder(root, chosen, asked, versions()).write
