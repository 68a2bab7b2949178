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
from ...core.io.model_source import Source, source_of
from ...core.io.output_paths import Places
from ...core.pass_manager.attempt_check import Look
from ...core.pass_manager.pass_manager import Manager
from ...core.pass_manager.phase_timer import Stopwatch
from ...core.pass_manager.pipeline import Pass, RulePass, leaves
from ...core.pass_manager.plan import Plan, content
from ...core.pass_manager.quarantine import Keep, Quarantine
from ...core.pass_manager.report import Report, Stats, pass_records, write_json
from ...core.pass_manager.verified_run import DRAWING, Candidate, Proof, judge_by
from ...core.rewriting.ledger import Ledger
from ...core.support.gc_pause import no_collection
from ...core.transform.model_edits import edited, edits_for
from ...core.verify.verdict import Verdict
from ...core.verify.verification_spec import Inputs, Question
from ..environment import versions
from ..registry.pass_sources import Given
from ..registry.resolved_pipeline import Choice, choose

if TYPE_CHECKING:
    from ..visualization.snapshots import Album
    from ..visualization.visualization import Story


@dataclass
class Result:
    """An optimized model and what was done to it."""

    report: Report
    _source: Source = field(repr=False)
    _candidate: Candidate = field(repr=False)
    story: Story | None = field(default=None, repr=False)

    @cached_property
    def model(self) -> onnx.ModelProto:
        """The optimized model, with all its weights."""
        return self._candidate.exported.to_proto()

    def save(self, path: str | Path) -> None:
        """Write the model to `path`, whole or not at all; with external data if it came with some.

        Raises ModelError if `path` cannot be written or is what the model is read from.
        """
        destination = Path(path)
        Places(destination).require(self._source.files)
        with self._candidate.staged(destination) as stage:
            publish(stage, destination)


def optimize(
    model: onnx.ModelProto | str | Path,
    pipeline: str | Pass = "basic",
    plugins: Sequence[Given] = (),
    verify: bool = True,
    inputs: Inputs | None = None,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    outputs: Sequence[str] = (),
    inputs_only: bool = False,
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
    story: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Result:
    """Rewrite a model and prove against onnxruntime that it still computes the same.

    `pipeline`: names of pipelines and passes, as in `basic,my-pass{n=3}`, or a Pass. `plugins`: Python files, Plugins,
    passes or rules to add to it.
    `inputs`: arrays by input name, an .npz, or a folder of ONNX test data; without them inputs are drawn,
    from `seed`. `shapes` of inputs (by name) and sizes of symbols (`dims`) specialise the model before anything
    is rewritten: what is declared becomes those numbers. `outputs`: values of the main graph that are
    to be the outputs; what they do not need is cut off first, and `inputs_only` drops the inputs that nothing reads:
    the result is held to the model that this leaves. `only`, `skip`: passes and rules by name.
    `enable`: passes to add, or to set options of, as in `my-pass{n=3}`. `exact` runs only rules that keep every bit.

    A change that breaks the model is found, left out and told of in `Result.report.quarantined`; with `strict` it
    ends the run. `output`: where to write the verified model; `report_to`: the report, `map_to`: what became of
    each name, both as JSON; `page_to`: an HTML page to look at. `repro_to`: a folder for small models that show what
    was left out. With `plan`, `Result.report.plan` lists each change with what it saves; with `story`, `Result.story`
    has pictures of each change, and of the model before and after.

    A pass of a plugin that does not support the model's opset is left out, see `Result.report.unfit`.

    Raises ModelError for a model or input that is unusable, BadUsage for a pipeline that is, PluginError,
    VerificationError if a change is wrong and `strict` (nothing is written), Unverifiable if nobody can tell.
    """
    watch = Stopwatch(progress)
    source = edited(
        source_of(model, inline=not keep_functions), edits_for(shapes, dims, outputs, inputs_only=inputs_only)
    )
    places = Places(*(Path(p) if p is not None else None for p in (output, report_to, map_to, repro_to, page_to)))
    others = [Path(p) for p in (inputs, *plugins) if isinstance(p, str | Path)]
    places.require((*source.files, *others))
    choice = choose(pipeline, plugins, only, skip, enable)
    others += choice.files
    with no_collection(), watch.phase("loading"):
        original = source.load()
        before = Stats.of(original, source.size)
        whole = content(original.graph) if plan else None
        question = Question.of(original, inputs, {}) if verify or inputs is not None else None
    places.require((*source.files, *others))
    chosen, unfit = choice.fitting(original.graph.opsets)
    keep = keeper(places.repros, chosen, choice, plugins, only, skip, exact=exact, functions=keep_functions)
    quarantine = Quarantine(Manager(source.load, chosen, exact), Look(), keep)
    album = album_maker() if story or places.page is not None else None
    proof = Proof(source, quarantine, watch, strict, track=places.names is not None, record=plan, new_album=album)
    proof.start(original)
    candidate, verdict = proven(proof, chosen, question if verify else None, places.model, seed, exact=exact)
    told = told_story(proof, chosen, candidate)
    report = Report(
        source.label,
        chosen.name,
        before,
        Stats.of(candidate.model, candidate.exported.size),
        pass_records(chosen, proof.trial.attempt.ledger),
        verdict,
        quarantine.found,
        quarantine.replays,
        watch.seconds,
        versions(),
        Plan.of(proof.trial.attempt.ledger.changes, whole, content(candidate.model.graph))
        if whole is not None
        else None,
        unfit,
    )
    write_told(report, proof, told, places)
    return Result(report, source, candidate, told)


def proven(
    proof: Proof, chosen: Pass, question: Question | None, destination: Path | None, seed: int, *, exact: bool
) -> tuple[Candidate, Verdict | None]:
    """The candidate that agrees with the answers to `question`, or without one the first, written to `destination`."""
    if question is None:
        candidate = proof.candidate()
        if destination is not None:
            with proof.watch.phase("writing"), candidate.staged(destination) as stage:
                publish(stage, destination)
        return candidate, None
    with proof.watch.phase("asking the original"):
        oracle = question.put_to(proof.source, seed, fragile(chosen, proof.trial.attempt.ledger))
    proof.quarantine.look = Look(judge_by(oracle))
    return proof.verdict(oracle, destination, exact=exact, half=question.half)


def write_told(report: Report, proof: Proof, story: Story | None, places: Places) -> None:
    """Write what is to be told of a run. Raises ModelError if that cannot be done."""
    if places.report is not None:
        write_json(report.to_json(), places.report)
    if places.names is not None:
        write_json(json.dumps(proof.name_map(), indent=1), places.names)
    if story is not None and places.page is not None:
        from ..pages.rendering import write_page  # noqa: PLC0415 - seldom needed
        from .page import run_page  # noqa: PLC0415 - seldom needed

        write_page(run_page(report, story), places.page)


def album_maker() -> Callable[[], Album]:
    """What makes an album for a run; drawing is imported only if it is wanted."""
    from ..visualization.snapshots import Album  # noqa: PLC0415 - seldom needed

    return Album


def told_story(proof: Proof, pipeline: Pass, candidate: Candidate) -> Story | None:
    """The story of the run that stands, if it was drawn. Raises what kept it from being drawn."""
    if proof.album is None:
        return None
    ledger = proof.trial.attempt.ledger
    if ledger.watch is not None and ledger.watch.failure is not None:
        raise ledger.watch.failure
    from ..visualization.snapshots import Album  # noqa: PLC0415 - as above
    from ..visualization.visualization_builder import story_of  # noqa: PLC0415 - seldom needed

    assert isinstance(proof.album, Album)
    with no_collection(), proof.watch.phase(DRAWING):
        return story_of(pipeline, ledger.changes, proof.album, proof.source.load().graph, candidate.model.graph)


def fragile(pipeline: Pass, ledger: Ledger) -> list[float]:
    """The numbers at which rules that made changes say that they are delicate."""
    fired = {by for counts in ledger.counts.values() for by in counts}
    rules = [r for p in leaves(pipeline) if isinstance(p, RulePass) for r in p.rules]
    return sorted({number for r in rules if r.name in fired for number in r.fragile})


def keeper(
    root: Path | None,
    chosen: Pass,
    choice: Choice,
    plugins: Sequence[Given],
    only: Collection[str],
    skip: Collection[str],
    *,
    exact: bool,
    functions: bool,
) -> Keep | None:
    """What writes repros of a run of `chosen`, if they are wanted; the rest is what the run was asked."""
    if root is None:
        return None
    from ..repro.folder import Asked, ReproFolder  # noqa: PLC0415 - seldom needed

    options = [f"--pipeline {shlex.quote(choice.spec)}"] if choice.spec not in {"", "basic"} else []
    options += [f"--plugin {shlex.quote(str(Path(p).resolve()))}" for p in plugins if isinstance(p, str | Path)]
    options += ["--exact"] * exact + ["--keep-functions"] * functions
    asked = Asked(options, tuple(only), tuple(skip), choice.enabled, exact)
    return ReproFolder(root, chosen, asked, versions()).keep
