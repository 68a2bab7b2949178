"""Cases of the fuzzer: a command on mutated files, both made from one number."""

import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random

import onnx
from passwright.passes.pipelines import TRANSFORMS

from .archives import write_inputs
from .mutations import as_model, mutate_bytes, mutate_model

CORPUS = Path(__file__).parent / "corpus"
GOLDEN = Path(__file__).parent.parent.parent / "golden_models"
MAX_GOLDEN_BYTES = 12_000
SIMPLE = Path(onnx.__file__).parent / "backend" / "test" / "data" / "simple"
TIME_LIMIT = ("--time-limit", "30")
MEMORY = ("--memory", "1GB")  # a model may itself need any amount, as by sequences that double


@dataclass(frozen=True)
class Case:
    """A command, the files of its folder having been written by `write`.

    `number` repeats it. Paths in `arguments` are relative to that folder; only `out` may change. It ends within `limit`
    seconds, if given, of its start, or of the signal `ended_by`, which is sent so many seconds after the start.
    """

    number: int
    arguments: tuple[str, ...]
    write: Callable[[Path], None]
    kind: str = ""
    limit: float | None = None
    memory: int | None = None
    ended_by: tuple[signal.Signals, float] | None = None


@cache
def seeds() -> tuple[onnx.ModelProto, ...]:
    """The models that are mutated: those of the corpus, small golden ones, and the simple ones of the onnx package."""
    golden = [p for p in sorted(GOLDEN.glob("*.onnx")) if p.stat().st_size < MAX_GOLDEN_BYTES]
    files = [*sorted(CORPUS.glob("*.onnx")), *golden, *sorted(SIMPLE.glob("*/model.onnx"))]
    texts = sorted(CORPUS.glob("*.onnxtxt"))
    parsed = [onnx.parser.parse_model(p.read_text(encoding="utf-8")) for p in texts]
    return (*parsed, *(model for p in files if (model := as_model(p.read_bytes())) is not None))


def make_case(number: int, models: tuple[onnx.ModelProto, ...] | None = None) -> Case:
    """The case of a number, from `seeds()` or other models."""
    rng = Random(number)
    models = models or seeds()
    base = onnx.ModelProto()
    base.CopyFrom(rng.choice(models))
    kind = rng.random()
    if kind < 0.12:
        arguments = ("run", "m.onnx", "--inputs", _input_name(number), "-o", "out/o.onnx", *TIME_LIMIT)
        return Case(number, arguments, _input_writer(base, number))
    data = mutate_bytes(base.SerializeToString(), rng) if kind < 0.2 else mutate_model(base, rng, rng.sample(models, 3))

    def write(folder: Path) -> None:
        (folder / "m.onnx").write_bytes(data)
        (folder / "base.onnx").write_bytes(base.SerializeToString())
        (folder / "weights.bin").write_bytes(bytes(range(256)) * 16)
        (folder / "link").symlink_to("/etc/passwd")
        (folder / "out").mkdir()

    command = rng.random()
    if command < 0.05:
        return Case(number, ("diff", "m.onnx", "base.onnx"), write)
    if command < 0.08:
        return Case(number, ("verify", "m.onnx", "base.onnx", *MEMORY, *TIME_LIMIT), write)
    if command < 0.1:
        return Case(number, ("explain", "basic", "m.onnx"), write)
    if command < 0.13:
        return Case(number, ("info", "m.onnx", "--json", "out/info.json"), write)
    quick = ("--verify", "quick", *MEMORY, "--json", "out/report.json")
    effort = quick if rng.random() < 0.5 else ("--no-verify",)
    return Case(number, ("run", "m.onnx", *_options(base, rng), *effort, *TIME_LIMIT), write)


def _options(model: onnx.ModelProto, rng: Random) -> tuple[str, ...]:
    """Options of a run, mostly none but the output."""
    name = rng.choice([v.name for v in model.graph.input] or ["x"])
    dims = [d.dim_param for v in model.graph.input for d in v.type.tensor_type.shape.dim if d.dim_param] or ["N"]
    values = [o for n in model.graph.node for o in n.output if o] or ["y"]
    output = ("-o", "out/o.onnx")
    choices: tuple[tuple[str, ...], ...] = (
        ("--exact",), ("--debloat",), ("--value-info", "write"), ("--value-info", "keep"),
        ("--pipeline", "ort"), ("--pipeline", "none"),
        ("--keep-functions",), ("--drop-unused-inputs",), ("-v",), ("--strict",), ("--dim", f"{rng.choice(dims)}=2"),
        ("--map", "out/map.json"), ("--html", "out/page.html"), ("--shape", f"{name}:1,2"),
    )  # fmt: skip
    kind = rng.random()
    if kind < 0.35:
        return (*output, *rng.choice(choices))
    if kind < 0.5:
        return (*output, *rng.choice(_transforms(rng.choice(values))), *rng.choice(((), ("--map", "out/map.json"))))
    return ("--dry-run",) if rng.random() < 0.05 else output


def _transforms(value: str) -> list[tuple[str, ...]]:
    """Options for each transform; `value` is one of the model."""
    given = {"cut-inputs": ("--cut-inputs", value), "keep-outputs": ("--outputs", value)}
    return [given.get(transform.name, ("--enable", transform.name)) for transform in TRANSFORMS]


def _input_name(number: int) -> str:
    """The name that `write_inputs` gives to the inputs of a case."""
    return "in.npz" if Random(f"{number} inputs").random() < 0.6 else "in"


def _input_writer(model: onnx.ModelProto, number: int) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / "m.onnx").write_bytes(model.SerializeToString())
        (folder / "out").mkdir()
        write_inputs(folder, model, Random(f"{number} inputs"))

    return write
