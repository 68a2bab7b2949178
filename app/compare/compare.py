"""`compare`: a model beside what optimizers make of it, judged and measured in one go."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from ...core.errors import EvaluationError, Unverifiable
from ...core.io.model import Model
from ...core.io.model_source import Source, source_of
from ...core.pass_manager.phase_timer import Stopwatch
from ...core.pass_manager.report import write_json
from ...core.support.gc_pause import no_collection
from ...core.verify.oracle import Oracle
from ...core.verify.verification_spec import Inputs, Question
from ..environment import machine, versions
from ..measure.feeds import Feeds, feeds_for
from .bisect_advice import ORIGINAL, Advice
from .comparison_paths import Destinations
from .comparison_report import AS_USERS_HAVE_IT, Compared, Conditions, Row
from .own_run import Ours, Wanted
from .row_timing import left_of, timed_rows
from .row_verification import Examination
from .tool_runs import Contender, make
from .tools import Tool, tools

BASELINE = 1  # the place of the original under ORT ALL


def compare(
    model: str | Path,
    pipeline: str = "basic",
    plugins: Sequence[str | Path] = (),
    others: Sequence[str] | None = None,
    inputs: Inputs | None = None,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    enable: Sequence[str] = (),
    conditions: Conditions = AS_USERS_HAVE_IT,
    seed: int = 0,
    report_to: str | Path | None = None,
    page_to: str | Path | None = None,
    keep_to: str | Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Compared:
    """Compare the model in a file with what this optimizer, onnxruntime's and `others` make of it.

    `pipeline`, `plugins`, `only`, `skip`, `enable` and `inputs` are as for `optimize`; `shapes` of inputs and sizes of
    symbols (`dims`) say what to judge and measure with, and change no model. `others`: ort, onnxsim, onnxslim,
    onnxoptimizer, onnxscript; None for those installed. `report_to`: a file for all of it as JSON, `page_to` for a
    page; `keep_to`: a folder for the optimized files. What others make that is wrong or missing is told in its row;
    where the original cannot be asked, nothing is judged, and the rest is measured all the same.

    Raises ModelError for a model or input that is unusable, BadUsage for optimizers that are not there.
    """
    watch = Stopwatch(progress)
    path = Path(model)
    chosen, left_out = tools(others)
    source = source_of(path, inline=False)
    places = Destinations.of(report_to, page_to, keep_to)
    names = ["passwright", *(t.known for t in chosen)]
    read = [Path(p) for p in (inputs, *plugins) if isinstance(p, str | Path)]
    places.require([path, *read], names)
    with no_collection(), watch.phase("loading"):
        original = source.load()
        question = _question(original, inputs, shapes or {}, dims or {})
    places.require([*source.files, *read], names)
    run = Wanted(pipeline, plugins, only, skip, enable)
    with TemporaryDirectory() as name:
        folder = Path(name)
        ours = Ours.of(path, run, inputs, seed, folder, watch, story=page_to is not None)
        made = [Contender(ORIGINAL, "", path, seconds=0.0), ours.contender, *_made(chosen, path, folder, watch)]
        with watch.phase("asking the original"):
            asked = _asked(source, question, seed)
        options = _options(inputs, shapes or {}, dims or {}, seed)
        advice = Advice(path, options, conditions.setting("ENABLE_ALL"), places.folder)
        rows = _rows(made, original, asked.oracle, conditions, folder, advice, watch)
        feeds = _feeds(path, inputs, conditions.batches, asked.sizes, seed)
        files = {c.made_by: c.file for c in made}
        rows = timed_rows(rows, files, feeds.by_batch, conditions, watch, BASELINE)
        if places.folder is not None:
            with watch.phase("keeping the files"):
                places.keep([c.file for c in made if c.file != path and not c.failure])
    found = Compared(
        str(path),
        ours.report.pipeline,
        rows,
        BASELINE,
        left_of(rows),
        max((r.measured.threads for r in rows if r.measured is not None), default=conditions.threads),
        conditions.provider.name,
        list(feeds.by_batch),
        feeds.sizes,
        asked.told,
        feeds.note,
        left_out,
        watch.seconds,
        versions() | {c.made_by: c.version for c in made if c.version and not c.level},
        machine(),
        asked.oracle is not None,
        [*ours.notes, *asked.notes],
        str(places.folder or ""),
    )
    _publish(found, ours, places)
    return found


@dataclass(frozen=True, slots=True)
class _Asked:
    """The answers of the original, or why there are none; `sizes` that were asked for, by symbol."""

    oracle: Oracle | None
    told: str
    sizes: Mapping[str, int]

    @property
    def notes(self) -> list[str]:
        return [] if self.oracle is None else self.oracle.notes


def _question(
    original: Model, inputs: Inputs | None, shapes: Mapping[str, Sequence[int]], dims: Mapping[str, int]
) -> Question | str:
    """What to ask, or why nothing can be asked. Raises ModelError for inputs and sizes that are not the model's."""
    try:
        return Question.of(original, inputs, shapes, dims)
    except Unverifiable as e:
        return str(e)


def _asked(source: Source, question: Question | str, seed: int) -> _Asked:
    if isinstance(question, str):
        return _Asked(None, f"nothing was judged: {question}", {})
    try:
        oracle = question.put_to(source, seed)
    except (Unverifiable, EvaluationError) as e:
        return _Asked(None, f"nothing was judged: {e}", question.fixed)
    sets = len(oracle.answers)
    told = f"held to {oracle.backend} without optimizations on {sets} set{'s' * (sets != 1)} of inputs"
    return _Asked(oracle, told, question.fixed)


def _feeds(path: Path, inputs: Inputs | None, batches: Sequence[int], sizes: Mapping[str, int], seed: int) -> Feeds:
    try:
        return feeds_for(path, inputs, batches, dict(sizes), seed)
    except (Unverifiable, EvaluationError) as e:
        return Feeds({}, {}, f"nothing was measured: {e}")


def _made(chosen: Sequence[Tool], path: Path, folder: Path, watch: Stopwatch) -> list[Contender]:
    made: list[Contender] = []
    for tool in chosen:
        with watch.phase(f"optimizing with {tool.shown}"):
            made.append(make(tool, path, folder))
    return made


def _rows(
    made: Sequence[Contender],
    original: Model,
    oracle: Oracle | None,
    conditions: Conditions,
    folder: Path,
    advice: Advice,
    watch: Stopwatch,
) -> list[Row]:
    written = replace(conditions.setting("DISABLE_ALL"), repacks=False)  # as a run is verified
    online = conditions.setting("ENABLE_ALL")
    rows: list[Row] = []
    with watch.phase("judging"), Examination(original, oracle, written, online, folder, advice) as examination:
        for contender in made:
            watch.progress(f"judging {contender.made_by}")
            rows += examination.rows(contender)
    return rows


def _options(
    inputs: Inputs | None, shapes: Mapping[str, Sequence[int]], dims: Mapping[str, int], seed: int
) -> list[str]:
    """What `passes bisect` is to be given to ask the same."""
    options = ["--inputs", str(inputs)] if isinstance(inputs, str | Path) else []
    for name, shape in shapes.items():
        options += ["--shape", f"{name}:{','.join(map(str, shape))}"]
    for symbol, size in dims.items():
        options += ["--dim", f"{symbol}={size}"]
    return options + (["--seed", str(seed)] if seed else [])


def _publish(found: Compared, ours: Ours, places: Destinations) -> None:
    if places.report is not None:
        write_json(found.to_json(), places.report)
    if places.page is not None:
        from ..pages.rendering import write_page  # noqa: PLC0415 - seldom needed
        from ..visualization.visualization import Story  # noqa: PLC0415 - as above
        from .page import compare_page  # noqa: PLC0415 - seldom needed

        write_page(compare_page(found, ours.report, ours.story or Story()), places.page)
