"""Options of several commands: types, groups and parsers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from ...core.errors import UsageError
from ...core.ort.sessions import MAX_THREADS
from ..optimize.run_options import RunOptions
from . import completion
from .standard_streams import STANDARD_OUTPUT

OUTPUT, SELECTION, MODEL, VERIFICATION, SPEED, REPORTS, SETTINGS = GROUPS = (
    "Output", "Selection", "Model", "Verification", "Speed", "Reports", "Settings",
)  # fmt: skip
"""Groups of options in the help of a command."""
output_option, selection_option, model_option, verification_option, speed_option, report_option = (
    partial(typer.Option, rich_help_panel=group) for group in GROUPS[:-1]
)

Model = Annotated[
    Path,
    typer.Argument(metavar="FILE", help="The .onnx file; it is never written to."),
]
Pipeline = Annotated[
    str,
    selection_option(
        metavar="NAMES",
        help="Pipelines and passes, run in this order, as in basic,mine{n=3,name=text}; or FILE.toml:NAME.",
        autocompletion=completion.complete_lists(completion.PIPELINES, completion.PASSES),
    ),
]
Plugins = Annotated[
    list[Path] | None,
    selection_option("--plugin", metavar="FILE", help="A Python file with rules, passes or a Plugin; may be repeated."),
]
name_option = partial(
    selection_option,
    metavar="NAME",
    autocompletion=completion.complete_names(completion.PASSES, completion.RULES),
)
Only = Annotated[list[str] | None, name_option(help="Run only this pass or rule; may be repeated.")]
Skip = Annotated[list[str] | None, name_option(help="Leave out this pass or rule; may be repeated.")]
Enable = Annotated[
    list[str] | None,
    selection_option(
        metavar="NAMES",
        help="Add passes, or set options of passes of the pipeline, as in a,b{n=3,name=text}; may be repeated.",
        autocompletion=completion.complete_lists(completion.PASSES),
    ),
]
Opset = Annotated[
    int | None,
    model_option(
        "--opset", min=1, metavar="N", help="Convert it to this opset of ONNX first, or end with the reason why not."
    ),
]
INPUTS_HELP = "an .npz, a folder of ONNX test data or of .npz, or file.py:function; may be repeated."
Inputs = Annotated[
    list[str] | None, verification_option("--inputs", metavar="FILE", help=f"Inputs to verify with: {INPUTS_HELP}")
]
Shapes = Annotated[
    list[str] | None, model_option("--shape", metavar="NAME:N,...", help="Shape of an input, such as x:1,3,224,224.")
]
Dims = Annotated[
    list[str] | None, model_option("--dim", metavar="NAME=N", help="Size of a symbolic dim, such as batch=1.")
]
Seed = Annotated[int, verification_option(min=0, metavar="N", help="Seed of generated inputs.")]
EFFORT_HELP = "Effort of verification: quick, default or thorough."
Memory = Annotated[
    str | None,
    verification_option(metavar="SIZE", help="Memory of the process that runs the models, such as 2GB."),
]
TimeLimit = Annotated[
    float | None,
    verification_option(
        "--time-limit",
        min=0.001,
        metavar="SECONDS",
        help="Time for everything; some inputs are left out to keep it, or nothing is written.",
    ),
]
Threads = Annotated[
    int,
    speed_option(min=0, max=MAX_THREADS, metavar="N", help="Threads that compute an op; 0 for one on each core."),
]
ExecutionProvider = Annotated[
    str,
    speed_option(
        "--ep",
        metavar="NAME",
        help="Execution provider of onnxruntime, with options: cuda, or openvino{device_type=CPU}.",
    ),
]
TUNED = "--settings"
Tuned = Annotated[
    Path | None,
    typer.Option(TUNED, metavar="FILE", help="Settings that `passes tune` wrote.", rich_help_panel=SPEED),
]
Level = Annotated[
    str,
    speed_option(
        metavar="LEVEL",
        help="Optimization level of onnxruntime: disable, basic, extended, layout or all.",
        autocompletion=completion.complete_names(completion.LEVELS),
    ),
]
MeasuredInputs = Annotated[
    list[str] | None,
    typer.Option("--inputs", metavar="FILE", help=f"Inputs to run, of several the first: {INPUTS_HELP}"),
]
Batch = Annotated[
    str, speed_option(metavar="N,...", help="Batch sizes to measure beside a single sample, such as 8,32.")
]
MinTime = Annotated[
    float,
    speed_option("--min-time", min=0.01, metavar="SECONDS", help="Seconds of calls for each model and batch size."),
]
Json = Annotated[
    Path | None, report_option(metavar="FILE", help="Write the report as JSON to this file; - for standard output.")
]
Format = Annotated[
    list[str] | None,
    report_option(
        "--format",
        metavar="NAME[:FILE]",
        help="Format of standard output, or of a file: text, json, github (annotations), markdown or sarif. May be "
        "repeated.",
    ),
]
Html = Annotated[Path | None, report_option(metavar="FILE", help="Write the report as a page of HTML to this file.")]

CRITERION = "Accuracy of quantized models"
Data = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="Inputs to calibrate with: an .npz, a folder of ONNX test data, or file.py:reader; may be repeated.",
    ),
]
labelled_option = partial(typer.Option, metavar="FILE", help="An .npz with inputs and labels, for an accuracy.")
metric_option = partial(
    typer.Option, metavar="FILE:NAME", help="Accuracy of outputs and labels, as file.py:function; without it, top-1."
)
Labelled = Annotated[Path | None, labelled_option(rich_help_panel=CRITERION)]
Metric = Annotated[str, metric_option(rich_help_panel=CRITERION)]
Budget = Annotated[
    str,
    typer.Option(
        metavar="LOSS", help="The loss allowed: 1% of the original's figure, or 0.5pt.", rich_help_panel=CRITERION
    ),
]

SEARCH = "Search"
search_option = partial(typer.Option, rich_help_panel=SEARCH)


def trials_option(tried: str) -> Any:
    """The greatest number of trials of a search, which are called `tried`."""
    return search_option("--trials", min=1, metavar="N", help=f"{tried} at most.")


def time_option(trial: str) -> Any:
    """The seconds of a search, each step of which is a `trial`."""
    return search_option("--time", min=0, metavar="SECONDS", help=f"Seconds after which no {trial} is begun.")


def journal_option(trial: str) -> Any:
    """The file of a search that it is continued from, each step of which is a `trial`."""
    return search_option(
        "--journal", metavar="FILE", help=f"Keep results of {trial}s here; an interrupted search goes on."
    )


MAX_DIGITS = 30


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """Options of commands that run a pipeline."""

    pipeline: Pipeline = "basic"
    plugin: Plugins = None
    enable: Enable = None
    opset: Opset = None
    shape: Annotated[
        list[str] | None,
        model_option(
            "--shape",
            metavar="NAME:N,...",
            help="Fix the shape of an input, such as x:1,3,224,224, in the written model too.",
        ),
    ] = None
    dim: Annotated[
        list[str] | None,
        model_option("--dim", metavar="NAME=N", help="Fix the size of a symbolic dim, such as batch=1."),
    ] = None
    exact: Annotated[bool, selection_option("--exact", help="Only rewrites that keep every bit.")] = False
    keep_functions: Annotated[bool, model_option("--keep-functions", help="Leave local functions as they are.")] = False


@dataclass(frozen=True, slots=True)
class VerificationOptions:
    """Options of commands that also choose passes by name, cut the model and verify the result."""

    only: Only = None
    skip: Skip = None
    inputs: Inputs = None
    outputs: Annotated[
        list[str] | None,
        model_option(
            metavar="NAMES",
            help="Values that become the outputs, as a,b; ops that they do not need are removed. May be repeated.",
        ),
    ] = None
    cut_inputs: Annotated[
        list[str] | None,
        model_option(
            "--cut-inputs",
            metavar="NAMES",
            help="Values that become inputs, as a,b; ops that only computed them are removed. May be repeated.",
        ),
    ] = None
    drop_unused_inputs: Annotated[
        bool, model_option("--drop-unused-inputs", help="Drop the inputs that nothing reads.")
    ] = False
    freeze_initializers: Annotated[
        bool, model_option("--freeze-initializers", help="Make initializers that are inputs as well constants.")
    ] = False
    seed: Seed = 0
    verify: Annotated[
        str | None,
        verification_option(
            "--verify", metavar="CHOICE", help=EFFORT_HELP, autocompletion=completion.complete_names(completion.EFFORTS)
        ),
    ] = None
    memory: Memory = None
    time_limit: TimeLimit = None
    repro: Annotated[
        Path | None, report_option(metavar="FOLDER", help="Write a small model and inputs here for each wrong change.")
    ] = None


def run_options(pipeline: PipelineOptions, verification: VerificationOptions, json: Path | None) -> RunOptions:
    """The options of a run. Raises UsageError for malformed texts."""
    from ...core.verify.verification_spec import known_effort  # noqa: PLC0415 - imports onnx

    return RunOptions(
        pipeline.pipeline,
        pipeline.plugin or (),
        known_effort(verification.verify, "--verify") if verification.verify is not None else True,
        inputs=verification.inputs or None,
        outputs=parse_names("--outputs", verification.outputs or ()),
        cut_inputs=parse_names("--cut-inputs", verification.cut_inputs or ()),
        drop_unused_inputs=verification.drop_unused_inputs,
        freeze_initializers=verification.freeze_initializers,
        only=verification.only or (),
        skip=verification.skip or (),
        seed=verification.seed,
        repro_to=verification.repro,
        memory=parse_memory(verification.memory),
        time_limit=verification.time_limit,
        **shared_options(pipeline, json),
    )


def shared_options(pipeline: PipelineOptions, json: Path | None) -> dict[str, Any]:
    """The fields of SharedOptions except `progress`. Raises UsageError for malformed texts."""
    return {
        "shapes": parse_shapes(pipeline.shape or ()),
        "dims": parse_dims(pipeline.dim or ()),
        "enable": pipeline.enable or (),
        "opset": pipeline.opset,
        "exact": pipeline.exact,
        "keep_functions": pipeline.keep_functions,
        "report_to": report_file(json),
    }


def option_groups(command: Callable[..., None]) -> dict[str, Any]:
    """The parameters of a command that are dataclasses, each for a group of options."""
    hints = get_type_hints(command, include_extras=True)
    return {name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)}


def flat_parameters(command: Callable[..., None]) -> list[inspect.Parameter]:
    """The parameters of a command, with the fields of a group of options in place of it, for typer."""
    hints, groups = get_type_hints(command, include_extras=True), option_groups(command)
    parameters = list[inspect.Parameter]()
    for parameter in inspect.signature(command).parameters.values():
        if (group := groups.get(parameter.name)) is None:
            parameters.append(parameter.replace(annotation=hints[parameter.name]))
            continue
        types = get_type_hints(group, include_extras=True)
        parameters += (
            inspect.Parameter(f.name, parameter.kind, default=f.default, annotation=types[f.name])
            for f in fields(group)
        )
    return parameters


def report_file(json: Path | None) -> Path | None:
    """The file for a report, None for standard output."""
    return json if json != STANDARD_OUTPUT else None


def require(condition: object, reason: str) -> None:
    """Raise UsageError unless `condition` holds."""
    if not condition:
        raise UsageError(reason)


def is_count(text: str) -> bool:
    """Whether a text is a number in decimal digits; Python refuses thousands of them."""
    return text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS


def parse_batches(text: str) -> tuple[int, ...]:
    """The batch sizes in a text such as `1,32`, sorted, and 1. Raises UsageError."""
    sizes = sizes_in(text)
    require(sizes, f"--batch {text}: not of the form 1,32, sizes from 1 on")
    return tuple(sorted({1, *sizes}))


def sizes_in(text: str) -> list[int]:
    """The sizes from 1 on in a text such as `1,32`, sorted, each once; none for another text."""
    sizes = [size.strip() for size in text.split(",")]
    return sorted(set(map(int, sizes))) if all(is_count(s) and 0 < int(s) < 1 << 31 for s in sizes) else []


def parse_dims(texts: Iterable[str]) -> dict[str, int]:
    """Sizes by symbol, in texts such as `batch=1`. Raises UsageError for another form, or two sizes of a symbol."""
    dims: dict[str, int] = {}
    for text in texts:
        symbol, _, size = text.rpartition("=")
        require(symbol and is_count(size.strip()), f"--dim {text}: not of the form batch=1")
        require(dims.setdefault(symbol, int(size)) == int(size), f"--dim {symbol}: given twice")
    return dims


def parse_names(option: str, texts: Iterable[str]) -> list[str]:
    """The names in texts such as `a,b`. Raises UsageError for an empty one."""
    names = [name.strip() for text in texts for name in text.split(",")]
    require(all(names), f"{option}: a name is empty")
    return names


def parse_external_data(text: str) -> str | int:
    """The bytes in a text such as `1MB`, or the text itself."""
    return parse_size(text) or text


def parse_size(text: str) -> int:
    """The bytes in a text such as `2GB`; 0 for another text."""
    from ...core.plugins.pass_spec import parse_value  # noqa: PLC0415 - imports onnx

    try:
        return max(parse_value(int, text), 0)
    except ValueError:
        return 0


def parse_memory(text: str | None, option: str = "--memory") -> int | None:
    """The bytes in a text such as `2GB`, None for None. Raises UsageError."""
    if text is None:
        return None
    size = parse_size(text)
    require(size > 0, f"{option} {text}: not of the form 2GB, 512MiB or 1000000")
    return size


def parse_shapes(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Shapes by input name, in texts such as `x:1,3,224,224`; a name may have colons. Raises UsageError."""
    shapes: dict[str, tuple[int, ...]] = {}
    for text in texts:
        name, _, dims = text.rpartition(":")
        try:
            shape = tuple(int(d) for d in dims.split(",") if d.strip())
        except ValueError:
            shape = (-1,)
        require(name and all(d >= 0 for d in shape), f"--shape {text}: not of the form name:1,3,224,224")
        require(shapes.setdefault(name, shape) == shape, f"--shape {name}: given twice")
    return shapes
