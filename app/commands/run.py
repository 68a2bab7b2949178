"""`passes run`: optimize, verify, write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from ...core.ort.sessions import MAX_THREADS
from ...core.verify.oracle_start import start_oracle_worker
from ..cli import options
from ..cli.exit_codes import one_line_errors
from ..cli.outputs import Outputs
from ..models.model_files import STREAM, ModelJob, model_jobs, single_job
from ..optimize.run_options import RunOptions

EXIT_CODES = """Exit codes: 0 done; 1 bad model, input or plugin; 2 usage; 3 verification failed, nothing written, or
a change would be made, with --check; 4 could not be verified, nothing written."""

EXAMPLES = {
    "passes run model.onnx": "prints the changes in three lines",
    "passes run model.onnx small.onnx": "writes the verified model",
    "passes run model.onnx --check": "exits with 3 if anything would change",
    "passes run models/ --output-dir small/": "writes each of them",
}

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE",
        help="A model, and after it the file for the result, if it does not exist yet. With --output-dir, --in-place, "
        "--check or --dry-run: models, folders of them, and patterns such as 'a/**/*.onnx'. - is standard input, or "
        "output.",
    ),
]
OF_ALL_MODELS = frozenset({
    "files", "output", "output_dir", "resume", "processes", "check", "limit", "formats", "json", "verbose", "quiet",
})  # fmt: skip
"""Parameters about all models together, or about the text that is printed for one."""
DEFAULT_LIMIT = 20  # changes of a dry run
DEFAULT_MIN_TIME = 2.0  # seconds


def run(
    ctx: typer.Context,
    files: Files,
    *,
    output: Annotated[
        Path | None, options.output_option("-o", "--output", metavar="FILE", help="Where to write the verified model.")
    ] = None,
    output_dir: Annotated[
        Path | None,
        options.output_option("--output-dir", metavar="DIR", help="Where to write the results of several models."),
    ] = None,
    in_place: Annotated[
        bool, options.output_option("--in-place", help="Replace each model that changes by the verified result.")
    ] = False,
    resume: Annotated[
        bool, options.output_option("--resume", help="With --output-dir: keep results of runs that would be the same.")
    ] = False,
    processes: Annotated[
        int | None,
        options.output_option("--jobs", min=1, metavar="N", help="Models that are run at a time; one for each core."),
    ] = None,
    pipeline: options.PipelineOptions,
    verification: options.VerificationOptions,
    debloat: Annotated[
        bool, options.model_option("--debloat", help="Write large repetitive constants as ops that compute them.")
    ] = False,
    shapes: Annotated[
        str,
        options.model_option(
            metavar="CHOICE",
            help="Shapes of intermediate values: keep those of the model, write all that are known, or strip them, the "
            "default except for --pipeline none.",
        ),
    ] = "",
    external_data: Annotated[
        str,
        options.output_option(
            "--external-data",
            metavar="CHOICE",
            help="Weights in a file of their own: always, never, auto, as in the original, or a SIZE such as 1MB, for "
            "tensors from that size on.",
        ),
    ] = "",
    settings: Annotated[
        Path | None,
        options.selection_option(
            options.TUNED, metavar="FILE", help="Pipeline, rules and opset of settings that `passes tune` wrote."
        ),
    ] = None,
    check_speed: Annotated[
        bool,
        options.speed_option(
            "--check-speed",
            help="Race the result against the original in onnxruntime, and keep the original, or the result of the "
            "pipeline's fallback, if it is slower.",
        ),
    ] = False,
    threads: Annotated[
        int | None,
        options.speed_option(min=0, max=MAX_THREADS, metavar="N", help="Threads of the race; one for each core."),
    ] = None,
    min_time: Annotated[
        float | None,
        options.speed_option(
            "--min-time", min=0.01, metavar="SECONDS", help="Seconds of calls for each model in the race: 2."
        ),
    ] = None,
    no_verify: Annotated[bool, options.verification_option("--no-verify", help="Write without verification.")] = False,
    strict: Annotated[
        bool,
        options.verification_option(
            "--strict", help="Write nothing if any change is wrong, instead of leaving it out."
        ),
    ] = False,
    prove: Annotated[
        bool,
        options.verification_option(
            "--prove", help="Prove the regions in which the result differs, as far as they are small enough."
        ),
    ] = False,
    map_to: Annotated[
        Path | None,
        options.report_option("--map", metavar="FILE", help="Write the fate of each name, as JSON, to this file."),
    ] = None,
    dry_run: Annotated[
        bool, options.output_option("--dry-run", help="List each change with its savings, and write no model.")
    ] = False,
    limit: Annotated[
        int | None, options.output_option(min=0, metavar="N", help="Of a dry run, list at most so many changes: 20.")
    ] = None,
    check: Annotated[
        bool, options.output_option("--check", help="Write no model, and exit with 3 if any change would be made.")
    ] = False,
    html: options.Html = None,
    formats: options.Format = None,
    json: options.Json = None,
    verbose: Annotated[
        bool,
        options.report_option("-v", "--verbose", help="Show operators, passes, outputs, notes and declined changes."),
    ] = False,
    quiet: Annotated[bool, options.report_option("-q", "--quiet", help="Print warnings and errors alone.")] = False,
) -> None:
    """Optimize models, verify them against the originals, and write them.

    A wrong change is found, named and left out.
    """
    with one_line_errors():
        is_planned = dry_run or check
        jobs = named_jobs(files, output, output_dir, in_place=in_place, is_planned=is_planned)
        is_single = len(jobs) == 1 and output_dir is None
        if is_single and not no_verify:
            start_oracle_worker()
        places = {"-o": output, "--output-dir": output_dir, "--in-place": in_place}
        given = [name for name, place in places.items() if place]
        options.require(len(given) < 2, f"{' and '.join(given)} exclude each other")
        option = "--dry-run" if dry_run else "--check"
        written = given or map_to or verification.repro
        options.require(
            not (is_planned and written), f"{option} writes nothing: leave out {', '.join(places)}, --map and --repro"
        )
        options.require(output_dir or not resume, "--resume is for --output-dir, which has the earlier results")
        options.require(not (verbose and quiet), "--verbose and --quiet exclude each other")
        options.require(dry_run or limit is None, "--limit is for --dry-run: other runs list no changes")
        is_timed = threads is not None or min_time is not None
        options.require(not (no_verify and verification.verify), "--no-verify and --verify exclude each other")
        options.require(check_speed or not is_timed, "--threads and --min-time are for --check-speed")
        outputs = Outputs.parse(formats, json)
        read_or_written = (path for job in jobs for path in (job.model, job.output))
        outputs.require_distinct((*read_or_written, outputs.json, html, map_to))
        common = options.run_options(pipeline, verification, outputs.json)
        run_options = replace(
            common,
            verify=False if no_verify else common.verify,
            enable=[*common.enable, *["debloat"] * debloat],
            strict=strict,
            prove=prove,
            in_place=in_place,
            map_to=map_to,
            page_to=html,
            plan=dry_run,
            value_info=shapes or None,
            external_data=options.parse_external_data(external_data or "auto"),
            check_speed=check_speed,
            threads=threads or 0,
            min_time=DEFAULT_MIN_TIME if min_time is None else min_time,
        )
        if settings is not None:
            run_options = with_tuned_settings(run_options, settings)
        from ..models.display import Display  # noqa: PLC0415 - imports rich

        max_changes = DEFAULT_LIMIT if limit is None else limit
        end = end_without_output(check=check, in_place=in_place, dry_run=dry_run)
        display = Display(outputs, verbose, quiet, max_changes, end, is_check=check, is_planned=dry_run)
        if is_single:
            from ..models.single_run import run_single  # noqa: PLC0415 - imports onnx and numpy

            code = run_single(jobs[0], run_options, display)
        else:
            of_one = {"--map": map_to, "--html": html, "--repro": verification.repro}
            refused = next((name for name, given in of_one.items() if given), "")
            options.require(not refused, f"{refused} is for one model: run that by itself, or use --json for all")
            is_raced_alone = not (check_speed and (processes or 1) > 1)
            options.require(is_raced_alone, "--check-speed runs one model at a time: leave out --jobs")
            from ..models.driver import Driver, new_pool, open_journal  # noqa: PLC0415 - imports onnx and numpy
            from ..models.many_models import ResultFiles, do_many  # noqa: PLC0415 - as above

            result_files = ResultFiles.of(jobs, output_dir, outputs.json)
            journal = open_journal(output_dir, display.terminal()) if output_dir is not None else None
            driver = Driver("run", jobs, display, journal, resume)
            pool = new_pool(1 if check_speed else processes or 0, verify=bool(run_options.verify))
            values = {name: value for name, value in ctx.params.items() if name not in OF_ALL_MODELS}
            end = f"written to {output_dir}" if output_dir else "written in place" if in_place else end
            code = do_many(driver, pool, lambda _: values, result_files, end)
        if code:
            raise typer.Exit(code)


def with_tuned_settings(run_options: RunOptions, file: Path) -> RunOptions:
    """The options with the pipeline, rules and opset of a file. Raises UsageError if they are given as well."""
    from ..measure.tuned_settings import read_tuned_settings  # noqa: PLC0415 - imports onnx

    recipe = read_tuned_settings(file).recipe
    chosen = {"--skip": run_options.skip, "--enable": run_options.enable, "--opset": run_options.opset}
    given = [name for name, value in {"--pipeline": run_options.pipeline != "basic", **chosen}.items() if value]
    options.require(not given, f"{', '.join(given)}: {options.TUNED} {file} says that")
    return replace(run_options, pipeline=recipe.pipeline, skip=recipe.skip, enable=recipe.enable, opset=recipe.opset)


def named_jobs(
    files: Sequence[Path], output: Path | None, output_dir: Path | None, *, in_place: bool, is_planned: bool
) -> list[ModelJob]:
    """The models to run, and the places of the results. Raises UsageError."""
    is_standard_input = is_planned and len(files) == 1 and files[0] == STREAM
    if is_standard_input or not (output_dir or in_place or is_planned):
        return [single_job(files, output)]
    return model_jobs(files, output_dir, in_place=in_place)


def end_without_output(*, check: bool, in_place: bool, dry_run: bool) -> str:
    """The last line about a model that is not written."""
    if check or dry_run:
        return f"nothing written: this was a {'check' if check else 'dry run'}"
    return "left as it is" if in_place else "not written: give -o FILE to keep it"
