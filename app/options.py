"""The options that commands share, as types, and how their texts are read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

Model = Annotated[Path, typer.Argument(help="The .onnx file; it is never written to.")]
Pipeline = Annotated[
    str,
    typer.Option(
        help="Pipelines and passes, run in this order, as in basic,my-pass{n=3,name=text}; or FILE.toml:NAME."
    ),
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugin", help="A Python file with rules, passes or a Plugin of your own; may be repeated."),
]
Only = Annotated[list[str] | None, typer.Option(help="Run only this pass or rule; may be repeated.")]
Skip = Annotated[list[str] | None, typer.Option(help="Leave out this pass or rule; may be repeated.")]
Enable = Annotated[
    list[str] | None,
    typer.Option(help="Add passes, or set options of those there, as in a,b{n=3,name=text}; may be repeated."),
]
Inputs = Annotated[Path | None, typer.Option(help="Inputs to verify with: an .npz, or a folder of ONNX test data.")]
Shapes = Annotated[list[str] | None, typer.Option("--shape", help="Shape of an input, such as x:1,3,224,224.")]
Dims = Annotated[list[str] | None, typer.Option("--dim", help="Size of a symbolic dim, such as batch=1.")]
FixedShapes = Annotated[
    list[str] | None,
    typer.Option("--shape", help="Fix the shape of an input, such as x:1,3,224,224, in what is written too."),
]
Outputs = Annotated[
    list[str] | None,
    typer.Option(help="Values that are to be the outputs, as a,b; what they do not need is cut off. May be repeated."),
]
DropUnusedInputs = Annotated[bool, typer.Option("--drop-unused-inputs", help="Drop the inputs that nothing reads.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the inputs that are made up.")]
Exact = Annotated[bool, typer.Option("--exact", help="Only rewrites that keep every bit.")]
KeepFunctions = Annotated[bool, typer.Option("--keep-functions", help="Leave local functions as they are.")]
Repro = Annotated[Path | None, typer.Option(help="Write a small model and inputs here for each wrong change.")]
Limit = Annotated[int, typer.Option(min=0, help="List at most so many of each kind.")]
Threads = Annotated[int, typer.Option(min=0, help="Threads that compute an op; 0 for one on each core.")]
ExecutionProvider = Annotated[
    str,
    typer.Option("--ep", help="Execution provider of onnxruntime, with options: cuda, or openvino{device_type=CPU}."),
]
Batch = Annotated[str, typer.Option(help="Batch sizes to measure beside a single sample, such as 8,32.")]
MinTime = Annotated[float, typer.Option("--min-time", min=0.01, help="Seconds of calls for each model and batch size.")]
Json = Annotated[Path | None, typer.Option(help="Write the report as JSON to this file; - for the output.")]

STANDARD_OUTPUT = Path("-")
ORT_LEVELS = ("basic", "extended", "layout", "all")


class OptionalLevelCommand(TyperCommand):
    """A command whose option --ort may stand without a value, which typer has no word for."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments with the level spelled out."""
        return super().parse_args(ctx, with_default_level(args))


def report_file(json: Path | None) -> Path | None:
    """The file that a report is to be written to, if it is one."""
    return json if json != STANDARD_OUTPUT else None


def require(condition: object, reason: str) -> None:
    """Raise UsageError unless `condition` holds."""
    from ..core.pass_manager.pass_selection import UsageError  # noqa: PLC0415 - its package imports onnx

    if not condition:
        raise UsageError(reason)


def with_default_level(args: list[str]) -> list[str]:
    """The arguments with `all` for a level that is left out."""
    own = args[: args.index("--")] if "--" in args else args
    alone = {i for i, a in enumerate(own) if a == "--ort" and (own[i + 1 : i + 2] or [""])[0] not in ORT_LEVELS}
    return ["--ort=all" if i in alone else a for i, a in enumerate(args)]


def parse_batches(text: str) -> tuple[int, ...]:
    """Batch sizes of a text such as `1,32`, in order; a single sample is always the first. Raises UsageError."""
    sizes = [size.strip() for size in text.split(",")]
    require(
        all(s.isascii() and s.isdecimal() and 0 < int(s) < 1 << 31 for s in sizes),
        f"--batch {text}: not of the form 1,32, sizes from 1 on",
    )
    return tuple(sorted({1, *map(int, sizes)}))


def parse_outputs(texts: Iterable[str]) -> list[str]:
    """The names in texts such as `a,b`. Raises UsageError for an empty one."""
    names = [name.strip() for text in texts for name in text.split(",")]
    require(all(names), "--outputs: a name is empty")
    return names


def parse_dims(texts: Iterable[str]) -> dict[str, int]:
    """Sizes by symbol, of texts such as `batch=1`. Raises UsageError for another form, or two of one symbol."""
    dims: dict[str, int] = {}
    for text in texts:
        symbol, _, size = text.rpartition("=")
        require(symbol and size.strip().isdecimal(), f"--dim {text}: not of the form batch=1")
        require(dims.setdefault(symbol, int(size)) == int(size), f"--dim {symbol}: given twice")
    return dims


def parse_shapes(texts: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Shapes by input name. Raises UsageError for two of one name."""
    shapes: dict[str, tuple[int, ...]] = {}
    for name, shape in map(parse_shape, texts):
        require(shapes.setdefault(name, shape) == shape, f"--shape {name}: given twice")
    return shapes


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """`x:1,3,224,224` as a name and dims; a name may hold colons. Raises UsageError."""
    name, _, dims = text.rpartition(":")
    try:
        shape = tuple(int(d) for d in dims.split(",") if d.strip())
    except ValueError:
        shape = (-1,)
    require(name and all(d >= 0 for d in shape), f"--shape {text}: not of the form name:1,3,224,224")
    return name, shape
