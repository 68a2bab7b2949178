"""Cases of the fuzzer on hostile models: each command in turn, within a time limit or ended by a signal."""

import signal
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from random import Random

from .cases import Case
from .hostile_models import CRASHERS, MODEL, hostile_files, kind_of, text_model

LIMITED = 5  # seconds of --time-limit
LATE = 2.0  # seconds after the limit in which a command ends
SIGNAL_PATIENCE = 1.0  # seconds after Ctrl-C or SIGTERM in which a command ends
SMALL_MODEL_MEMORY = 1 << 30  # bytes of each process, for a model below a megabyte
RUN = ("run", "m.onnx", "-o", "out/o.onnx")
WITH_LIMIT = (
    RUN, (*RUN, "--verify", "quick"), (*RUN, "--no-verify"), (*RUN, "--pipeline", "ort"), (*RUN, "--keep-functions"),
    (*RUN, "--no-verify", "--opset", "23"), (*RUN, "--opset", "13"), (*RUN, "--format", "github"), (*RUN, "--prove"),
    (*RUN, "--exact", "--value-info", "write"), ("run", "m.onnx", "--dry-run"), ("verify", "m.onnx", "m.onnx"),
    ("verify", "m.onnx", "base.onnx"), ("verify", "base.onnx", "m.onnx", "--format", "github"), ("bisect", "m.onnx"),
    ("verify", "m.onnx", "m.onnx", "--budget", "1%"),
)  # fmt: skip
WITHOUT_LIMIT = (
    ("info", "m.onnx"), ("info", "m.onnx", "base.onnx", "--json", "out/info.json"), ("diff", "m.onnx", "base.onnx"),
    ("diff", "m.onnx", "m.onnx", "--format", "github"), ("explain", "basic", "m.onnx"), ("profile", "m.onnx",
    "--min-time", "0.1"),
    ("bench", "m.onnx", "--min-time", "0.1"), ("compare", "m.onnx", "--tools", "ort", "--min-time", "0.1"),
    ("quantize", "m.onnx", "-o", "out/o.onnx", "--time", "3", "--trials", "2", "--min-time", "0.1"),
    ("tune", "m.onnx", "-o", "out/o.onnx", "--time", "3", "--trials", "2", "--min-time", "0.1"),
    ("batch", "m.onnx", "--output-dir", "out", "--timeout", "5", "--jobs", "1"), RUN, (*RUN, "--no-verify"), ("verify",
    "m.onnx", "m.onnx"),
)  # fmt: skip


def hostile_case(number: int, slack: float = 1.0) -> Case:
    """The case of a number: the model of the number below a million that it ends with, and a command.

    Two in three have a time limit; to the others a signal is sent, when many have ended. On a busy machine both take
    longer by a factor, `slack`.
    """
    rng, model = Random(f"command {number}"), number % 10**6

    def write(folder: Path) -> None:
        write_files(hostile_files(model), folder)

    if rng.random() < 2 / 3:
        command = (*rng.choice(WITH_LIMIT), "--time-limit", str(LIMITED))
        return Case(number, command, write, kind_of(model), limit=LIMITED + LATE * slack, memory=SMALL_MODEL_MEMORY)
    ended = (rng.choice((signal.SIGINT, signal.SIGTERM)), rng.choice((0.3, 1.0, 3.0, 6.0)) * (0.5 + rng.random()))
    command = rng.choice(WITHOUT_LIMIT)
    return Case(
        number, command, write, kind_of(model), limit=SIGNAL_PATIENCE * slack, memory=SMALL_MODEL_MEMORY, ended_by=ended
    )


CRASHER_COMMANDS = (RUN, ("verify", "m.onnx", "m.onnx"), ("info", "m.onnx"))


def crasher_cases(slack: float) -> list[Case]:
    """Each of some commands on each model that crashed native code once, or that it did not end on."""
    cases = list[Case]()
    for path, command in product(sorted(CRASHERS.glob("*.onnx")), CRASHER_COMMANDS):

        def write(folder: Path, path: Path = path) -> None:
            write_files({MODEL: path.read_bytes()}, folder)

        end = () if command[0] == "info" else ("--time-limit", str(LIMITED))
        limit = LIMITED + LATE * slack if end else None
        cases.append(Case(len(cases), (*command, *end), write, path.name, limit=limit, memory=SMALL_MODEL_MEMORY))
    return cases


def write_files(files: Mapping[str, bytes], folder: Path) -> None:
    """Write the files of a model, another model, a link, and a folder for results."""
    for name, data in files.items():
        (folder / name).write_bytes(data)
    base = text_model("a = Identity(f) y = Abs(a)", inputs=["float[2] f"], outputs="float[2] y")
    (folder / "base.onnx").write_bytes(base.SerializeToString())
    (folder / "link").symlink_to("/etc/passwd")
    (folder / "out").mkdir()
