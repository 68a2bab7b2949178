"""Calls of native code of onnx and onnxruntime on hostile models, in forks, to find those that crash or hang."""

from __future__ import annotations

import ctypes
import faulthandler
import itertools
import json
import mmap
import os
import resource
import signal
import struct
import sys
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import onnx
from onnx import checker, defs, inliner, shape_inference, version_converter

from .archives import feeds_for
from .hostile_models import KINDS, as_model, attribute_bomb, operator_extremes, rank_bomb
from .mutations import MUTATIONS, add_functions, grow, messages, nest_in_branches

SLOW = 0.5  # CPU seconds of a call
HANG = 3.0  # CPU seconds of a call that is tried again
STUCK = 20.0  # seconds of a call that takes no CPU time
MEMORY = 3 << 30  # bytes that a process may allocate
MINIMIZING = 3.0  # seconds for each failure
PER_PROCESS = 20_000  # calls of a process, as native code leaks
WIDE_KINDS = (attribute_bomb, operator_extremes, operator_extremes, operator_extremes, rank_bomb)
SMALL_MUTATIONS = [m for m in MUTATIONS if m not in {add_functions, grow, nest_in_branches}]
"""Others than those that make endless work."""
Call = Callable[[onnx.ModelProto, Random], object]


def infer_nodes(model: onnx.ModelProto, _: Random) -> None:
    """Infer the outputs of each node from the declared types and the constants, as rewrites do."""
    graph, opsets = model.graph, {o.domain: o.version for o in model.opset_import}
    types = {v.name: v.type for v in graph.input if v.type.WhichOneof("value")}
    types |= {t.name: onnx.helper.make_tensor_type_proto(t.data_type, t.dims) for t in graph.initializer}
    data = {t.name: t for t in graph.initializer}
    imports = list(model.opset_import)
    for node in graph.node[:20]:
        with suppress(Exception):
            schema = defs.get_schema(node.op_type, min(opsets.get(node.domain, 1), 10**6), node.domain)
            given = {n: types[n] for n in node.input if n in types}
            known = {n: data[n] for n in node.input if n in data}
            types |= shape_inference.infer_node_outputs(schema, node, given, known, opset_imports=imports)


def infer_model(model: onnx.ModelProto, rng: Random) -> None:
    """Infer the types of a whole model."""
    shape_inference.infer_shapes(
        model, check_type=rng.random() < 0.5, strict_mode=rng.random() < 0.5, data_prop=rng.random() < 0.7
    )


def convert(model: onnx.ModelProto, rng: Random) -> None:
    """Convert to another opset."""
    version_converter.convert_version(model, rng.randrange(6, 27))


def inline(model: onnx.ModelProto, rng: Random) -> None:
    """Inline functions."""
    inliner.inline_local_functions(model, convert_version=rng.random() < 0.3)


def check(model: onnx.ModelProto, rng: Random) -> None:
    """Check a model."""
    checker.check_model(model, full_check=rng.random() < 0.5)


def load_and_run(model: onnx.ModelProto, rng: Random) -> None:
    """Load a model in onnxruntime, and run it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = rng.choice(
        (levels.ORT_DISABLE_ALL, levels.ORT_ENABLE_BASIC, levels.ORT_ENABLE_ALL)
    )
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    run = onnxruntime.RunOptions()
    run.log_severity_level = 4
    with np.errstate(all="ignore"):
        session.run(None, feeds_for(model, rng), run)


CALLS: dict[str, tuple[Call, ...]] = {
    "onnx": (infer_nodes, infer_nodes, infer_model, convert, convert, inline, check),
    "onnxruntime": (load_and_run,),
}


@dataclass(frozen=True)
class Failure:
    """A call that ended its process: the number, the function, and the signal or "hang"."""

    number: int
    call: str
    how: str


def model_of(number: int) -> onnx.ModelProto | None:
    """The model of a number: one of a hostile kind, with further mutations of its messages."""
    rng = Random(f"native {number}")
    with suppress(Exception):
        made = rng.choice(WIDE_KINDS if rng.random() < 0.9 else KINDS)(rng)
        made = made if not isinstance(made, dict) else made["m.onnx"]
        model = made if isinstance(made, onnx.ModelProto) else as_model(bytes(made))
        if model is not None and rng.random() < 0.5:
            for _ in range(rng.choice((1, 1, 2, 4))):
                rng.choice(SMALL_MUTATIONS)(model, rng, [model])
        return model
    return None


def perform(
    number: int,
    calls: tuple[Call, ...],
    model: onnx.ModelProto | None = None,
    left_out: Container[tuple[str, str]] = (),
) -> bool:
    """Make the call of a number on its model or another one; False if it is left out for one of its operators."""
    rng = Random(f"call {number}")
    call, found = rng.choice(calls), model if model is not None else model_of(number)
    if found is None or any((call.__name__, n.op_type) in left_out for n in found.graph.node):
        return False
    with suppress(Exception):
        call(found, rng)
    return True


def name_of_call(number: int, calls: tuple[Call, ...]) -> str:
    """The name of the function that the call of a number is."""
    return Random(f"call {number}").choice(calls).__name__


def failures(
    first: int, calls: tuple[Call, ...], seconds: float, progress: Counter[str], left_out: Container[tuple[str, str]]
) -> Iterator[Failure]:
    """Make calls in forks of this process until the time is over, and count them in `progress`."""
    shared, end, number = mmap.mmap(-1, 16), time.monotonic() + seconds, first
    while time.monotonic() < end:
        last = number + PER_PROCESS
        pid = os.fork()
        if pid == 0:
            _spare_the_machine()
            made = 0
            for n in range(number, last):
                shared[:] = struct.pack("qq", n, made)
                signal.setitimer(signal.ITIMER_PROF, SLOW)
                made += perform(n, calls, left_out=left_out)
            os._exit(0)
        status = _watch(pid, shared, end)
        reached, made = struct.unpack("qq", shared[:])
        progress["calls"] += made
        if status is None:
            return
        if status != 0:
            yield Failure(
                reached,
                name_of_call(reached, calls),
                "hang" if -status in {signal.SIGKILL, signal.SIGPROF} else signal.Signals(-status).name,
            )
        number = reached + 1


def _spare_the_machine() -> None:
    faulthandler.disable()  # of pytest
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def _watch(pid: int, shared: mmap.mmap, end: float) -> int | None:
    """The exit code of a process, which is killed if it stays at one call; None at the end of the time."""
    at, since = b"", time.monotonic()
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            code = os.waitstatus_to_exitcode(status)
            return -signal.SIGABRT if code > 0 else code
        now = time.monotonic()
        if shared[:8] != at:
            at, since = shared[:8], now
        if now > end or now - since > STUCK:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None if now > end else -signal.SIGKILL
        time.sleep(0.05)


def crashes(model: onnx.ModelProto, number: int, calls: tuple[Call, ...], limit: float) -> bool:
    """Whether a call on a model ends its process, or does not end."""
    pid = os.fork()
    if pid == 0:
        _spare_the_machine()
        signal.setitimer(signal.ITIMER_PROF, limit)
        perform(number, calls, model)
        os._exit(0)
    end = time.monotonic() + STUCK
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status != 0
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True


def minimized(number: int, calls: tuple[Call, ...], how: str) -> onnx.ModelProto | None:
    """The model of a failed call without fields that the failure does not need; None if it does not fail alone."""
    model = model_of(number)
    if model is None or not crashes(model, number, calls, HANG):
        return None
    limit = SLOW if how == "hang" else HANG
    end, at = time.monotonic() + MINIMIZING, 0
    while time.monotonic() < end:  # goes on behind the last place that was left out
        smaller = next(itertools.islice(_smaller(model), at, None), None)
        if smaller is None:
            break
        if crashes(smaller, number, calls, limit):
            model = smaller
        else:
            at += 1
    return model


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


def search(library: str, first: int, seconds: float, folder: Path) -> int:
    """Make calls until the time is over; write each new failure, made smaller, to a folder. Returns 0.

    Operators that failed in a function, as the folder knows of earlier searches too, are left out of its calls.
    """
    calls, progress, found, started = CALLS[library], Counter[str](), list[str](), time.monotonic()
    folder.mkdir(parents=True, exist_ok=True)
    known = folder / f"{library}.jsonl"
    lines = known.read_text().splitlines() if known.exists() else []
    left_out = {(call, name) for line in lines for call, _, names in [json.loads(line)] for name in names}
    for failure in failures(first, calls, seconds, progress, left_out):
        small = minimized(failure.number, calls, failure.how)
        model = small or model_of(failure.number)
        operators = [n.op_type for n in model.graph.node][:5] if model else []
        how = failure.how if small else "slow" if failure.how == "hang" else f"{failure.how}, not alone"
        left_out |= {(failure.call, name) for name in operators}
        if small is not None:
            (folder / f"{library}_{failure.number}.onnx").write_bytes(small.SerializeToString())
        with known.open("a") as f:
            f.write(json.dumps([failure.call, how, operators]) + "\n")
        found.append(f"{failure.number}: {failure.call} {how} {' '.join(operators)}")
        sys.stdout.write(f"{found[-1]}\n")
        sys.stdout.flush()
    spent = time.monotonic() - started
    sys.stdout.write(f"# {progress['calls']} calls of {library} in {spent:.0f} s, {len(found)} failures\n")
    return 0
