"""`passes batch`: one command done to many models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..cli import options
from ..cli.command_class import TRUST
from ..cli.exit_codes import one_line_errors
from ..models.actions import ACTIONS, DEFAULT
from ..models.batch_command import ARGUMENTS, BatchCommand, action_options
from ..models.batch_settings import ActionOptions, BatchConditions, OutputLocations

COMMAND_CLASS = BatchCommand
EXIT_CODES = """Exit codes: 0 done; 2 usage; else the highest of all models, as of the command that is done: 1 a model
failed, crashed or took too long; 3 a result is wrong; 4 one could not be verified."""
EXAMPLES = {
    "passes batch models/ --output-dir small/": "optimizes each model",
    "passes batch zoo.csv --do quantize --output-dir q/": "with options of each row",
    "passes batch models/ --do verify --other small/ --output-dir checked/": "compares pairs of the same name",
    "passes batch --summarize small/": "writes the table and the page again",
}
DEFAULT_SECONDS = 3600.0  # for a model
Names = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="SOURCE",
        help="Models, folders of them, patterns such as 'a/**/*.onnx', lists (.txt), and tables (.csv, .parquet) with "
        "a column model and one for each option.",
    ),
]


def batch(
    ctx: typer.Context,
    sources: Names = None,
    do: Annotated[
        str, typer.Option(metavar="COMMAND", help=f"{', '.join(ACTIONS)}; its options can be given, too.")
    ] = DEFAULT,
    output_dir: Annotated[
        Path | None, options.output_option(metavar="DIR", help="Where to write results, a table and a page of them.")
    ] = None,
    resume: Annotated[
        bool, options.output_option("--resume", help="Keep results for which model, options and versions are the same.")
    ] = False,
    keep_reports: Annotated[
        bool, options.output_option("--keep-reports", help="Write the report of each model as JSON beside its result.")
    ] = False,
    store: Annotated[
        Path | None,
        options.output_option(
            metavar="PLACE",
            help="A folder, or a URL such as s3://bucket/small, for the results; the other folder then has the record, "
            "the table and the page.",
        ),
    ] = None,
    other: Annotated[
        Path | None, options.output_option(metavar="DIR", help="For verify: the folder of the models to compare with.")
    ] = None,
    processes: Annotated[
        int | None,
        options.speed_option(
            "--jobs", min=1, metavar="N", help="Models at a time; one for each core, or one where times are measured."
        ),
    ] = None,
    timeout: Annotated[
        float, options.speed_option(min=0.001, metavar="SECONDS", help="Time for a model, whose process is then ended.")
    ] = DEFAULT_SECONDS,
    max_memory: Annotated[
        str | None,
        options.speed_option(metavar="SIZE", help="Estimated memory of all models at a time: 75 % of the machine's."),
    ] = None,
    on: Annotated[
        str,
        options.speed_option(
            metavar="ADDRESS", help="The scheduler of a Dask cluster that does it, such as tcp://host:8786."
        ),
    ] = "",
    table: Annotated[
        Path | None,
        options.report_option(metavar="FILE", help="The table, as .csv or .parquet: results.csv in the folder."),
    ] = None,
    html: Annotated[
        Path | None, options.report_option(metavar="FILE", help="The page: results.html in the folder.")
    ] = None,
    summarize: Annotated[
        Path | None, options.report_option(metavar="DIR", help="Write the table and the page of earlier results.")
    ] = None,
    json: options.Json = None,
    quiet: Annotated[bool, options.report_option("-q", "--quiet", help="Print warnings and errors alone.")] = False,
) -> None:
    """Do a command to many models, each in one of several processes, and write a table and a page of the results.

    A model that crashes or takes too long is tried once more, and costs no other its result.
    """
    with one_line_errors():
        options.require(do in ACTIONS, f"--do {do}: choose from {', '.join(ACTIONS)}")
        options.require(summarize or sources, "name models, folders, lists or tables, or give --summarize DIR")
        options.require(not (summarize and sources), "--summarize takes no models: it reads the record of a folder")
        places = OutputLocations(summarize or output_dir or Path(), table, html, json)
        if summarize is not None:
            from ..models.summary_files import summarize_folder  # noqa: PLC0415 - imports onnx

            summarize_folder(places, quiet=quiet)
            return
        options.require(output_dir, "--output-dir DIR has to say where to write the results")
        with_other = [name for name, action in ACTIONS.items() if action.other]
        options.require(other is None or do in with_other, f"--other is for --do {' or '.join(with_other)}")
        memory = options.parse_memory(max_memory, "--max-memory")
        conditions = BatchConditions(timeout, processes, memory, on, store, resume, keep_reports)
        from ..models.batch import run_batch  # noqa: PLC0415 - imports onnx
        from ..models.sources import Sources  # noqa: PLC0415 - as above

        is_trusted = TRUST in ctx.meta[ARGUMENTS]
        named = Sources(sources or (), action_options(do), is_trusted)
        jobs = named.jobs(places.folder, other)
        if code := run_batch(jobs, ActionOptions(ctx, do), places, conditions, quiet=quiet):
            raise typer.Exit(code)
