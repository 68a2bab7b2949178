"""`passes run`: optimization, verification and writing of models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from ...core.errors import UsageError
from ...core.verify.oracle_start import start_oracle_worker
from ..cli.exit_codes import WRONG
from ..cli.outputs import Outputs
from ..cli.parameters import path_of
from ..cli.standard_streams import STANDARD_OUTPUT
from ..models.model_files import STREAM, ModelJob, is_pattern, model_jobs, single_job
from ..optimize.run_options import RunOptions
from ..options import TUNED, FormatOptions, output_option, report_option, require, selection_option

EXIT_CODES = """Exit codes: 0 done; 1 bad model, input or plugin; 2 usage error; 3 nothing written, as verification
failed or the target does not support the result; with --check, a change would be made; with --replay, the outcome
differs; 4 could not be verified, nothing written."""

EXAMPLES = {
    "passes run model.onnx": "prints a summary, writes nothing",
    "passes run model.onnx small.onnx": "writes the verified model",
    "passes run model.onnx --check": "exits with 3 if anything would change",
    "passes run models/ --output-dir small/": "writes the result of each model",
    "passes run --replay run.zip": "repeats a run that --reproducer recorded",
}

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE",
        help="A model, optionally followed by a new file for the result. With --output-dir, --in-place, --check or "
        "--dry-run: models, folders of models, and patterns such as 'a/**/*.onnx'. - stands for standard input or "
        "output.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class RunDisplayOptions(FormatOptions):
    """Options for the command line only: several models, and the output."""

    output_dir: Path | None = output_option(None, "Where to write the results of several models.", "DIR", kind=Path)
    resume: bool = output_option(
        False, "With --output-dir: keep earlier results whose run would be the same.", is_typed=True
    )
    jobs: int | None = output_option(
        None, "Number of models to run at a time; one per core by default.", "N", kind=int, least=1
    )
    limit: int | None = output_option(
        None, "List at most N changes in a dry run; 20 by default.", "N", kind=int, least=0, is_own=True
    )
    replay: Path | None = selection_option(
        None, "Repeat the run that --reproducer recorded in this file, and compare; takes no FILE.", "FILE.zip",
        kind=Path, is_typed=True,
    )  # fmt: skip
    trust_plugins: bool = selection_option(
        False, "Allow --replay to run plugins and other code from its file.", is_typed=True
    )
    check: bool = output_option(False, "Write no model, and exit with 3 if any change would be made.")
    settings: Path | None = selection_option(
        None,
        "Use the pipeline, rules and opset in this file, which `passes tune` wrote.",
        "FILE",
        kind=Path,
        is_typed=True,
        excludes=TUNED,
    )
    verbose: bool = report_option(
        False,
        "Show operators, passes, outputs, notes and declined changes.",
        flags=("-v", "--verbose"),
        excludes=("quiet",),
    )
    quiet: bool = report_option(
        False, "Print only warnings and errors.", flags=("-q", "--quiet"), excludes=("verbose",)
    )


DEFAULT_LIMIT = 20  # changes of a dry run


def run(options: RunOptions, shown: RunDisplayOptions, files: Files = None) -> int:
    """Optimize models, verify them against the originals, and write them.

    A wrong change is found, reported and skipped.
    """
    if shown.replay is not None:
        require(not files, "--replay takes no model: its file contains one")
        return _replay(shown.replay, options, shown)
    require(not shown.trust_plugins, "--trust-plugins needs --replay")
    if not files:
        raise UsageError("missing argument 'FILE'")
    _require_consistent(options, shown)
    is_planned = options.dry_run or shown.check
    if is_planned:  # nothing is written, whatever the output path
        files = files[:1] if len(files) == 2 and not files[1].exists() and not is_pattern(files[1]) else files
        options, shown = replace(options, output=None, in_place=False), replace(shown, output_dir=None, resume=False)
    output = path_of(options.output)
    jobs = named_jobs(files, output, shown.output_dir, in_place=options.in_place, is_planned=is_planned)
    is_single = len(jobs) == 1 and shown.output_dir is None
    if is_single and options.verify:
        start_oracle_worker()
    outputs = Outputs.parse(shown.format, options.json)
    read_or_written = (path for job in jobs for path in (job.model, job.output))
    outputs.require_distinct((*read_or_written, outputs.json, path_of(options.html), path_of(options.map)))
    json = None if outputs.json == STANDARD_OUTPUT else outputs.json
    options = replace(options, json=json, output=None)
    if shown.settings is not None:
        options = with_tuned_settings(options, shown.settings)
    from ..models.display import Display  # noqa: PLC0415 - imports rich

    max_changes = DEFAULT_LIMIT if shown.limit is None else shown.limit
    end = end_without_output(check=shown.check, in_place=options.in_place, dry_run=options.dry_run)
    display = Display(
        outputs, shown.verbose, shown.quiet, max_changes, end, is_check=shown.check, is_planned=options.dry_run
    )
    if is_single:
        from ..models.single_run import run_single  # noqa: PLC0415 - imports onnx and numpy

        return run_single(jobs[0], options, display)
    of_one = {"--map": options.map, "--html": options.html, "--repro": options.repro, "--dump-to": options.dump_to}
    of_one |= {"--reproducer": options.reproducer}
    refused = next((name for name, given in of_one.items() if given), "")
    require(not refused, f"{refused} works on a single model; for several, use --json")
    is_raced_alone = not (options.check_speed and (shown.jobs or 1) > 1)
    require(is_raced_alone, "--check-speed runs one model at a time: leave out --jobs")
    from ..models.driver import Driver, new_pool, open_journal  # noqa: PLC0415 - imports onnx and numpy
    from ..models.results import ResultFiles  # noqa: PLC0415 - as above
    from .actions import ACTIONS, WORKER  # noqa: PLC0415 - only for several models

    folder = shown.output_dir
    result_files = ResultFiles.of(jobs, folder, outputs.json)
    journal = open_journal(folder, display.terminal()) if folder is not None else None
    driver = Driver(ACTIONS["run"], jobs, display, result_files, journal, shown.resume)
    pool = new_pool(WORKER, 1 if options.check_speed else shown.jobs or 0, verify=bool(options.verify))
    options = replace(options, json=None)
    end = f"written to {folder}" if folder else "written in place" if options.in_place else end
    return driver.run(pool, lambda _: options, end)


def _require_consistent(options: RunOptions, shown: RunDisplayOptions) -> None:
    """Raise UsageError for options that are mutually exclusive or lack a required option."""
    places = {"-o": options.output, "--output-dir": shown.output_dir, "--in-place": options.in_place}
    given = [name for name, place in places.items() if place]
    require(len(given) < 2, f"{' and '.join(given)} are mutually exclusive")
    is_planned = options.dry_run or shown.check
    name = "--dry-run" if options.dry_run else "--check"
    is_written = options.map or options.repro
    require(not (is_planned and is_written), f"{name} writes nothing: leave out --map and --repro")
    require(not (is_planned and options.dump_to), f"{name} writes no models: leave out --dump-to")
    require(shown.output_dir or not shown.resume, "--resume needs --output-dir, which has the earlier results")
    require(not (shown.verbose and shown.quiet), "--verbose and --quiet are mutually exclusive")
    require(options.dry_run or shown.limit is None, "--limit needs --dry-run: other runs list no changes")
    is_timed = (options.threads, options.min_time) != (RunOptions.threads, RunOptions.min_time)
    require(options.check_speed or not is_timed, "--threads and --min-time need --check-speed")


def _replay(file: Path, options: RunOptions, shown: RunDisplayOptions) -> int:
    """Repeat a recorded run, and report whether its outcome is the same."""
    from ..cli.report_output import print_report, shown_progress  # noqa: PLC0415 - imports rich
    from ..models.display import Display  # noqa: PLC0415 - as above
    from ..models.replay import PLACES, replay_with  # noqa: PLC0415 - imports onnx

    given = {"--output-dir": shown.output_dir, "--jobs": shown.jobs, "--settings": shown.settings}
    given |= {"--check": shown.check, "--resume": shown.resume, "--limit": shown.limit is not None}
    refused = next((name for name, value in given.items() if value), "")
    require(not refused, f"{refused} cannot be combined with --replay, which repeats one recorded run")
    chosen = options.chosen.keys() - set(PLACES)
    require(not chosen, f"{file} sets --{', --'.join(sorted(chosen)).replace('_', '-')}: leave it out")
    outputs = Outputs.parse(shown.format, options.json)
    json = None if outputs.json == STANDARD_OUTPUT else outputs.json
    display = Display(outputs, shown.verbose, shown.quiet, end="not written: give -o FILE to keep it")
    terminal = display.terminal()
    with shown_progress(terminal) as progress:
        here = replace(options, json=json, progress=progress)
        found = replay_with(file, here, trust_plugins=shown.trust_plugins)
    if found.report is not None:
        document = display.document(found.report)
        print_report(found.report, document, outputs, terminal, verbose=shown.verbose, quiet=shown.quiet)
    if found.is_same:
        terminal.lines(found.lines())
        return 0
    for line in found.lines():
        terminal.warning(line)
    return WRONG


def with_tuned_settings(run_options: RunOptions, file: Path) -> RunOptions:
    """The options with the pipeline, rules and opset of a file. Raises UsageError if they are also given as options."""
    from ..measure.tuned_settings import read_tuned_settings  # noqa: PLC0415 - imports onnx

    recipe = read_tuned_settings(file).recipe
    chosen = {"--skip": run_options.skip, "--enable": run_options.enable, "--opset": run_options.opset}
    given = [name for name, value in {"--pipeline": run_options.pipeline != "basic", **chosen}.items() if value]
    require(not given, f"{', '.join(given)}: --settings {file} sets it already")
    return replace(run_options, pipeline=recipe.pipeline, skip=recipe.skip, enable=recipe.enable, opset=recipe.opset)


def named_jobs(
    files: Sequence[Path], output: Path | None, output_dir: Path | None, *, in_place: bool, is_planned: bool
) -> list[ModelJob]:
    """The models to run and the paths of their results. Raises UsageError."""
    is_standard_input = is_planned and len(files) == 1 and files[0] == STREAM
    if is_standard_input or not (output_dir or in_place or is_planned):
        return [single_job(files, output)]
    return model_jobs(files, output_dir, in_place=in_place)


def end_without_output(*, check: bool, in_place: bool, dry_run: bool) -> str:
    """The last line for a model that is not written."""
    if check or dry_run:
        return f"nothing written: this was a {'check' if check else 'dry run'}"
    return "unchanged" if in_place else "not written: give -o FILE to keep it"
