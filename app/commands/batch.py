"""`passes batch`: one command run on many models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ...core.errors import UsageError
from ..cli.command_class import TRUST
from ..cli.outputs import Outputs
from ..options import QuietOptions, ReportOptions, option, output_option, report_option, require, speed_option
from .actions import ACTIONS, DEFAULT, WORKER
from .batch_command import ARGUMENTS, ActionOptions, BatchCommand, action_options

COMMAND_CLASS = BatchCommand
EXIT_CODES = """Exit codes: 0 done; 2 usage error; otherwise the highest exit code of the models: 1 a model failed,
crashed or took too long; 3 a result is wrong; 4 a result could not be verified."""
EXAMPLES = {
    "passes batch models/ --output-dir small/": "optimizes each model",
    "passes batch zoo.csv --do quantize --output-dir q/": "takes the options in each row",
    "passes batch models/ --do verify --other small/ --output-dir checked/": "compares models of the same name",
    "passes batch --summarize small/": "writes the table and the page again",
}
Names = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="SOURCE",
        help="Models, folders of models, patterns such as 'a/**/*.onnx', and .csv tables with a column `model` and a "
        "column for each option.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class BatchOptions(ReportOptions, QuietOptions):
    """The options of `passes batch`."""

    do: str = option(DEFAULT, f"{', '.join(ACTIONS)}; options of that command can be given, too.", "COMMAND")
    output_dir: Path | None = output_option(
        None, "Where to write the results, with a table and a page of them.", "DIR", kind=Path
    )
    resume: bool = output_option(
        False, "Keep earlier results with the same model, options and versions.", is_typed=True
    )
    store: Path | None = output_option(
        None,
        "A folder, or a URL such as s3://bucket/small, for the results; --output-dir then gets only the journal, the "
        "table and the page.",
        "PLACE",
        kind=Path,
    )
    other: Path | None = output_option(
        None, "With --do verify, without --engine: the folder of the models to compare with.", "DIR", kind=Path
    )
    jobs: int | None = speed_option(
        None,
        "Number of models to run at a time; by default one per core, or one where times are measured.",
        "N",
        kind=int,
        least=1,
    )
    timeout: float = speed_option(
        3600.0, "Time limit for each model, after which its process is ended.", "SECONDS", kind=float, least=0.001
    )
    on: str = speed_option(
        "", "Run on the Dask cluster of this scheduler, such as tcp://host:8786.", "ADDRESS", runs_code=True
    )
    table: Path | None = report_option(
        None,
        "Where to write the table, as .csv or .parquet; by default, results.csv in the output folder.",
        "FILE",
        kind=Path,
    )
    html: Path | None = report_option(
        None, "Where to write the page; by default, results.html in the output folder.", "FILE", kind=Path
    )
    summarize: Path | None = report_option(
        None, "Write the table and the page again from the results in this folder.", "DIR", kind=Path
    )


def batch(ctx: typer.Context, options: BatchOptions, sources: Names = None) -> int:
    """Run a command over many models, each in one of several processes, and write a table and a page of the results.

    A model that crashes or takes too long is tried once more, and does not affect other models.
    """
    do, folder = options.do, options.output_dir
    require(do in ACTIONS, f"--do {do}: choose from {', '.join(ACTIONS)}")
    require(options.summarize or sources, "name models, folders or tables, or give --summarize DIR")
    require(not (options.summarize and sources), "--summarize takes no models: it reads the journal of a folder")
    from ..models.display import Display  # noqa: PLC0415 - imports onnx
    from ..models.results import ResultFiles, summarize_folder  # noqa: PLC0415 - as above

    outputs = Outputs.parse((), options.json)
    display = Display(outputs, quiet=options.quiet)
    if options.summarize is not None:
        summarize_folder(options.summarize, options.table, options.html, display)
        return 0
    with_other = [name for name, action in ACTIONS.items() if action.other]
    require(options.other is None or do in with_other, f"--other is for --do {' or '.join(with_other)}")
    require(not (options.on and options.jobs), "--jobs is for this machine: a cluster is given by --on")
    if folder is None:
        raise UsageError("give --output-dir DIR for the results")
    from ..models.driver import Driver, make_folder, new_pool, open_journal  # noqa: PLC0415 - as above
    from ..models.sources import Sources  # noqa: PLC0415 - as above

    is_trusted = TRUST in ctx.meta[ARGUMENTS]
    jobs = Sources(sources or (), action_options(do), is_trusted).jobs(folder, options.other)
    chosen = ActionOptions(ctx, do)
    common = chosen.with_arguments()
    is_timed = ACTIONS[do].is_timed(common)
    terminal = display.terminal()
    if is_timed and (options.jobs or 1) > 1:
        terminal.warning("warning: models that are measured at the same time slow each other down")
    journal = open_journal(folder, terminal)
    make_folder(folder)
    files = ResultFiles.in_folder(folder, options.table, options.html, outputs.json, jobs)
    driver = Driver(ACTIONS[do], jobs, display, files, journal, options.resume, options.store, options.timeout)
    verify = bool(getattr(common, "verify", True))
    pool = new_pool(WORKER, options.jobs or int(is_timed), verify=verify, cluster=options.on)
    return driver.run(pool, chosen.of, f"written to {folder}")
