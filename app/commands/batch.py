"""`passes batch`: one command done to many models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...core.errors import UsageError
from ..cli import options
from ..cli.command_class import TRUST
from ..cli.exit_codes import one_line_errors
from ..cli.outputs import Outputs
from ..models.actions import ACTIONS, DEFAULT
from ..models.batch_command import ARGUMENTS, ActionOptions, BatchCommand, action_options

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
        help="Models, folders of them, patterns such as 'a/**/*.onnx', and tables (.csv) with a column model and one "
        "for each option.",
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
    store: Annotated[
        Path | None,
        options.output_option(
            metavar="PLACE",
            help="A folder, or a URL such as s3://bucket/small, for the results; the other folder then has the "
            "journal, the table and the page.",
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
        options.require(summarize or sources, "name models, folders or tables, or give --summarize DIR")
        options.require(not (summarize and sources), "--summarize takes no models: it reads the journal of a folder")
        from ..models.display import Display  # noqa: PLC0415 - imports onnx
        from ..models.many_models import ResultFiles, do_many, summarize_folder  # noqa: PLC0415 - as above

        display = Display(Outputs.parse((), json), quiet=quiet)
        if summarize is not None:
            summarize_folder(summarize, table, html, display)
            return
        with_other = [name for name, action in ACTIONS.items() if action.other]
        options.require(other is None or do in with_other, f"--other is for --do {' or '.join(with_other)}")
        options.require(not (on and processes), "--jobs is for this machine: a cluster is given by --on")
        if output_dir is None:
            raise UsageError("--output-dir DIR has to say where to write the results")
        from ..models.driver import Driver, make_folder, new_pool, open_journal  # noqa: PLC0415 - as above
        from ..models.sources import Sources  # noqa: PLC0415 - as above

        is_trusted = TRUST in ctx.meta[ARGUMENTS]
        jobs = Sources(sources or (), action_options(do), is_trusted).jobs(output_dir, other)
        chosen = ActionOptions(ctx, do)
        is_timed = ACTIONS[do].is_timed(chosen.values())
        terminal = display.terminal()
        if is_timed and (processes or 1) > 1:
            terminal.warning("warning: models that are measured at the same time slow each other down")
        journal = open_journal(output_dir, terminal)
        make_folder(output_dir)
        files = ResultFiles.in_folder(output_dir, table, html, json, jobs)
        driver = Driver(do, jobs, display, journal, resume, store, timeout)
        pool = new_pool(processes or int(is_timed), verify=not chosen.values().get("no_verify"), cluster=on)
        if code := do_many(driver, pool, chosen.of, files, f"written to {output_dir}"):
            raise typer.Exit(code)
