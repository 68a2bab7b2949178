"""`passes run`: optimize, verify, write."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .. import options
from ..exit_codes import echo_json, one_line_errors

EXIT_CODES = """Exit codes: 0 done; 1 bad model, input or plugin; 2 usage; 3 verification failed, nothing written;
4 could not be verified, nothing written."""

DEFAULT_LIMIT = 20  # changes of a dry run


def run(
    model: options.Model,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Where to write the verified model.")] = None,
    pipeline: options.Pipeline = "basic",
    plugin: options.Plugins = None,
    only: options.Only = None,
    skip: options.Skip = None,
    enable: options.Enable = None,
    inputs: options.Inputs = None,
    shape: options.FixedShapes = None,
    dim: options.Dims = None,
    outputs: options.Outputs = None,
    drop_unused_inputs: options.DropUnusedInputs = False,
    debloat: Annotated[
        bool, typer.Option("--debloat", help="Write large constants that repeat themselves as how to make them.")
    ] = False,
    seed: options.Seed = 0,
    no_verify: Annotated[bool, typer.Option("--no-verify", help="Write without verification.")] = False,
    strict: Annotated[
        bool, typer.Option("--strict", help="Write nothing if any change is wrong, instead of leaving it out.")
    ] = False,
    exact: options.Exact = False,
    keep_functions: options.KeepFunctions = False,
    repro: options.Repro = None,
    map_to: Annotated[
        Path | None, typer.Option("--map", help="Write what became of each name, as JSON, to this file.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List each change with what it saves, and write no model.")
    ] = False,
    limit: Annotated[int | None, typer.Option(min=0, help="Of a dry run, list at most so many changes: 20.")] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write what was done as a page to look at, to this file.")
    ] = None,
    json: options.Json = None,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Say why rules declined, and show every rule.")
    ] = False,
) -> None:
    """Optimize a model, verify it against the original, and write it.

    A change that breaks the model is found, named and left out.
    """
    with one_line_errors():
        from ..terminal import Terminal, log_to_stderr  # noqa: PLC0415 - imports rich
        from .optimize import optimize  # noqa: PLC0415 - imports onnx and numpy
        from .render import show_report  # noqa: PLC0415 - imports rich

        written = output or map_to or repro
        options.require(not (dry_run and written), "--dry-run writes nothing: leave out -o, --map and --repro")
        options.require(dry_run or limit is None, "--limit is for --dry-run: other runs list no changes")
        if verbose:
            log_to_stderr()
        screen = Terminal(quiet=json == options.STANDARD_OUTPUT)
        with screen.progress() as progress:
            result = optimize(
                model,
                pipeline,
                plugin or (),
                not no_verify,
                inputs,
                shapes=options.parse_shapes(shape or ()),
                dims=options.parse_dims(dim or ()),
                outputs=options.parse_outputs(outputs or ()),
                drop_unused_inputs=drop_unused_inputs,
                only=only or (),
                skip=skip or (),
                enable=[*(enable or ()), *["debloat"] * debloat],
                exact=exact,
                strict=strict,
                keep_functions=keep_functions,
                seed=seed,
                output=output,
                report_to=options.report_file(json),
                repro_to=repro,
                map_to=map_to,
                page_to=html,
                plan=dry_run,
                progress=progress,
            )
        if result.report.plan is not None:
            from .render import show_plan  # noqa: PLC0415 - for dry runs alone

            show_plan(screen, result.report, result.report.plan, DEFAULT_LIMIT if limit is None else limit)
        else:
            show_report(screen, result.report, output, verbose=verbose)
        echo_json(json, result.report)
