"""Calls of native code of onnx and onnxruntime on hostile models, in forks, to find those that crash or hang."""

import ctypes
import faulthandler
import itertools
import json
import mmap
import os
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from random import Random

import numpy as np
import onnx
from onnx.helper import make_tensor_type_proto
from passwright.core.processes.onnx_worker import OnnxCode

from .archives import feeds_for
from .hostile_models import KINDS, attribute_bomb, operator_extremes, rank_bomb
from .mutations import MUTATIONS, add_functions, grow, messages, nest_in_branches

HANG = 1.5  # CPU seconds of a call
STUCK = 20.0  # seconds of a call that takes no CPU time
MEMORY = 1 << 29  # bytes that a process may allocate
MAX_TRIES = 100  # of smaller models
SELDOM = 64  # a function that failed is called on one of so many models with the operators
RARE = {"convert up": 61, "convert down": 61}  # calls that take 4 ms: on one of so many models
MAX_BYTES = 1 << 14  # of a model
FORMS = 4  # of a model: as it is made, and mutated
PER_PROCESS = 5_000  # models of a process, as native code leaks
WIDE_KINDS = (*[operator_extremes] * 4, *[attribute_bomb] * 2, rank_bomb)
SMALL_MUTATIONS = [m for m in MUTATIONS if m not in {add_functions, grow, nest_in_branches}]
"""Others than those that make endless work."""
Call = Callable[[onnx.ModelProto, bytes, Random], object]
"""A call on a model, which is given serialized as well."""
CODE = OnnxCode()


def infer_nodes(model: onnx.ModelProto, _: bytes, __: Random) -> None:
    """Infer the outputs of each node from the declared types and the constants, as rewrites do.

    Ask for the functions that define the operators, too.
    """
    graph, opsets = model.graph, {o.domain: o.version for o in model.opset_import}
    types = {v.name: v.type.SerializeToString() for v in graph.input if v.type.WhichOneof("value")}
    constants = {t.name: t for t in graph.initializer}
    types |= {n: make_tensor_type_proto(t.data_type, t.dims).SerializeToString() for n, t in constants.items()}
    data = {n: t.SerializeToString() for n, t in constants.items()}
    for node in graph.node[:20]:
        operator, written = (node.op_type, node.domain, opsets.get(node.domain, 1)), node.SerializeToString()
        given = {n: types[n] for n in node.input if n in types}
        with suppress(Exception):
            CODE.function_body(operator, operator[2], written, [types.get(n, b"") for n in node.input])
        with suppress(Exception):
            known = {n: data[n] for n in given if n in data}
            types |= CODE.infer_node_outputs(operator, written, given, known, opsets)


def infer_model(_: onnx.ModelProto, data: bytes, rng: Random) -> None:
    """Infer the types of a model, and perhaps check those that are declared."""
    is_strict = rng.random() < 0.5
    CODE.library.shape_inference.infer_shapes(data, is_strict, is_strict, rng.random() < 0.5)


def check(_: onnx.ModelProto, data: bytes, rng: Random) -> None:
    """Check a model."""
    CODE.library.checker.check_model(data, rng.random() < 0.5, False, rng.random() < 0.5)


def write_and_read(_: onnx.ModelProto, data: bytes, __: Random) -> None:
    """Write a model in ONNX's text form, and read the text."""
    CODE.library.parser.parse_model(CODE.library.printer.model_to_text(data))


def load_and_run(model: onnx.ModelProto, data: bytes, rng: Random) -> None:
    """Load a model in onnxruntime at one of the levels of optimization, and run it."""
    import onnxruntime

    options, run = onnxruntime.SessionOptions(), onnxruntime.RunOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel(rng.choice((0, 1, 2, 3, 99)))
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    run.log_severity_level = 4
    with np.errstate(all="ignore"):
        session.run(None, feeds_for(model, rng), run)


CALLS: dict[str, dict[str, Call]] = {
    "onnx": {
        "infer nodes": infer_nodes,
        "infer model": infer_model,
        "convert up": lambda model, data, rng: CODE.convert_version(data, opset_of(model) + rng.choice((1, 1, 2, 9))),
        "convert down": lambda model, data, rng: CODE.convert_version(data, opset_of(model) - rng.choice((1, 1, 2, 9))),
        "check": check,
        "write and read": write_and_read,
    },
    "onnxruntime": {"load and run": load_and_run},
}


def opset_of(model: onnx.ModelProto) -> int:
    """The opset of the default domain; 1 if there is none."""
    return next((o.version for o in model.opset_import if not o.domain), 1)


@dataclass(frozen=True)
class Failure:
    """A call that ended its process: the number of the model, the function, and the signal or "hang"."""

    number: int
    call: str
    how: str


def model_of(number: int) -> onnx.ModelProto | None:
    """The model of a number: of a hostile kind, the same for some numbers, with mutations of its messages.

    None for a large one.
    """
    data, rng = _first_form(number // FORMS), Random(f"form {number}")
    with suppress(Exception):
        model = onnx.ModelProto.FromString(data if len(data) <= MAX_BYTES else b"")
        for _ in range(rng.choice((1, 1, 2, 4)) if number % FORMS else 0):
            rng.choice(SMALL_MUTATIONS)(model, rng, [model])
        return model if 0 < model.ByteSize() <= MAX_BYTES else None
    return None


@lru_cache(1)
def _first_form(number: int) -> bytes:
    """A hostile model without further mutations; empty if none is made."""
    rng = Random(f"native {number}")
    with suppress(Exception):
        made = rng.choice(WIDE_KINDS if rng.random() < 0.9 else KINDS)(rng)
        made = made if not isinstance(made, dict) else made["m.onnx"]
        return made.SerializeToString() if isinstance(made, onnx.ModelProto) else bytes(made)
    return b""


class NativeCalls:
    """Calls of a library on models, each of which may end its process. Those that fail alike are made seldom."""

    def __init__(self, calls: Mapping[str, Call]) -> None:
        self.calls, self.names = calls, tuple(calls)
        self.failed = set[tuple[str, frozenset[str]]]()
        """Functions that failed, and the operators of the models."""
        self._shared = memoryview(mmap.mmap(-1, 8 * (2 + len(calls)))).cast("q")
        """The number of the model, the index of the call, and how many calls were made of each."""

    @property
    def made(self) -> dict[str, int]:
        """How many calls of each function were made."""
        return dict(zip(self.names, self._shared[2:], strict=True))

    def failures(self, first: int, last: int, seconds: float) -> Iterator[Failure]:
        """Make all calls on the models of numbers in forks of this process, until the time is over."""
        shared, end, index = self._shared, time.monotonic() + seconds, 0
        while first < last and time.monotonic() < end:
            shared[0], shared[1] = first, index
            pid = _fork(lambda first=first, index=index: self._make_calls(first, min(first + PER_PROCESS, last), index))
            code = _watch(pid, shared, end)
            if code is None:
                return
            if code == 0:
                first, index = first + PER_PROCESS, 0
                continue
            first, index = shared[0], shared[1] + 1
            is_hang = -code in {signal.SIGKILL, signal.SIGPROF}
            yield Failure(first, self.names[index - 1], "hang" if is_hang else signal.Signals(-code).name)

    def _make_calls(self, first: int, last: int, index: int) -> None:
        shared = self._shared
        for number in range(first, last):
            model = model_of(number)
            for at, name in enumerate(self.names[index:], index) if model is not None else ():
                if number % RARE.get(name, 1) or (number % SELDOM and self.has_failed(name, model)):
                    continue
                shared[0], shared[1] = number, at
                shared[2 + at] += 1
                signal.setitimer(signal.ITIMER_PROF, HANG)
                self.perform(number, name, model)
            index = 0

    def has_failed(self, name: str, model: onnx.ModelProto) -> bool:
        """Whether a function failed on a model whose operators this one has."""
        operators = {n.op_type for n in model.graph.node}
        return any(failed == name and found <= operators for failed, found in self.failed)

    def perform(self, number: int, name: str, model: onnx.ModelProto) -> None:
        """Make the call of a number on a model, which need not be the one of the number."""
        with suppress(Exception):
            self.calls[name](model, model.SerializeToString(), Random(f"{name} {number}"))

    def fails(self, failure: Failure, model: onnx.ModelProto) -> bool:
        """Whether the call of a failure ends its process on another model, or does not end."""

        def call() -> None:
            signal.setitimer(signal.ITIMER_PROF, HANG)
            self.perform(failure.number, failure.call, model)

        return _watch(_fork(call), self._shared, time.monotonic() + 2 * STUCK) != 0

    def minimized(self, failure: Failure, model: onnx.ModelProto) -> onnx.ModelProto | None:
        """The model of a crash without fields that it does not need; None if it does not crash alone.

        One of a hang stays as it is, as each try would take so long.
        """
        if failure.how == "hang":
            return model
        if not self.fails(failure, model):
            return None
        at = 0
        for _ in range(MAX_TRIES):  # goes on behind the last place that was left out
            smaller = next(itertools.islice(_smaller(model), at, None), None)
            if smaller is None:
                break
            if self.fails(failure, smaller):
                model = smaller
            else:
                at += 1
        return model


def _fork(work: Callable[[], None]) -> int:
    """The process that does some work and ends."""
    pid = os.fork()
    if pid == 0:
        _spare_the_machine()
        work()
        os._exit(0)
    return pid


def _spare_the_machine() -> None:
    faulthandler.disable()  # of pytest
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def _watch(pid: int, shared: memoryview, end: float) -> int | None:
    """The exit code of a process, which is killed if it stays at one call; None at the end of the time."""
    at, since, pause = (0, 0), time.monotonic(), 0.001
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            code = os.waitstatus_to_exitcode(status)
            return -signal.SIGABRT if code > 0 else code
        now = time.monotonic()
        if (shared[0], shared[1]) != at:
            at, since = (shared[0], shared[1]), now
        if now > end or now - since > STUCK:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None if now > end else -signal.SIGKILL
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def _smaller(model: onnx.ModelProto) -> Iterator[onnx.ModelProto]:
    """The model without one field of one message, or one element of such a field."""
    for i, message in enumerate(messages(model)):
        for field, value in message.ListFields():
            for element in (None, *range(min(len(value), 20) if field.is_repeated else 0)):
                smaller = onnx.ModelProto()
                smaller.CopyFrom(model)
                target = messages(smaller)[i]
                if element is None:
                    target.ClearField(field.name)
                else:
                    del getattr(target, field.name)[element]
                yield smaller


def search(library: str, first: int, models: float, seconds: float, folder: Path) -> int:
    """Make calls until the time is over; write each new failure, made smaller, to a folder. Returns 0.

    Failures of earlier searches, as the folder knows them, count as well.
    """
    native, started = NativeCalls(CALLS[library]), time.monotonic()
    if library == "onnxruntime":
        import onnxruntime  # noqa: F401 - once, not in each process
    folder.mkdir(parents=True, exist_ok=True)
    known = folder / f"{library}.jsonl"
    for line in known.read_text().splitlines() if known.exists() else ():
        name, _, operators = json.loads(line)
        native.failed.add((name, frozenset(operators)))
    again = Counter[str]()
    for failure in native.failures(first, first + int(min(models, 1 << 40)), seconds):
        model = model_of(failure.number)
        if model is None or native.has_failed(failure.call, model):
            again[failure.how] += 1
            continue
        small = native.minimized(failure, model)
        operators = sorted({n.op_type for n in (small or model).graph.node})
        how = failure.how if small else f"{failure.how}, not alone"
        native.failed.add((failure.call, frozenset(operators)))
        if small is not None:
            name = f"{library}_{failure.number}_{failure.call.replace(' ', '_')}.onnx"
            (folder / name).write_bytes(small.SerializeToString())
        with known.open("a") as f:
            f.write(json.dumps([failure.call, how, operators]) + "\n")
        sys.stdout.write(f"{failure.number}: {failure.call}: {how} {' '.join(operators[:9])}\n")
        sys.stdout.flush()
    made, spent = native.made, time.monotonic() - started
    sys.stdout.write(f"# {sum(made.values())} calls of {library} in {spent:.0f} s: {made}; again {dict(again)}\n")
    return 0
