"""The worker process of a benchmark, which times one model.

It imports little of the package, because that memory would count as the model's.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from time import perf_counter, perf_counter_ns, process_time_ns
from typing import TYPE_CHECKING, Any, cast

import psutil
from msgspec import Struct
from msgspec.structs import replace

from ...core.errors import EvaluationError, PassesError
from ...core.ort.engines import EngineSession, checked_results, find_engine
from ...core.ort.sessions import SessionConfig, create_session, engine_settings
from ...core.ort.value_files import read_value
from ...core.processes.process_limits import end_with_parent
from ...core.processes.worker_process import Parent
from .profile_trace import read_events

if TYPE_CHECKING:
    from ...core.ort.kernel_session import KernelSession
    from ...core.ort.sessions import OrtSession

Call = Callable[[], object]
WARMUP_CALLS, WARMUP_SECONDS = 10, 0.1
COLD_CALLS, COLD_NS = 5, 20_000_000  # at the beginning of a block; not counted
COLD_CALL_LIMIT = 0.25  # seconds; for longer calls, cold caches do not matter
LEAST_ON_CORE = 0.8  # share of the time without waits for a core; less indicates work on a device
GROUP_SECONDS = 5e-4  # of calls between two readings of the time on a core, which take some microseconds


class LoadMetrics(Struct, frozen=True):
    """The `creation` time of a session in seconds, and the threads that it starts.

    In bytes: the memory of the process before it (`base`), after a run (`resident`), and its `peak`; `virtual` is the
    size of its address space after the run. Where the engine computes in processes of its own, as a browser does, these
    are sums over them, and there is no `virtual`. `precision` is that in which the engine really computes.
    """

    creation: float
    base: int
    threads: int
    resident: int
    peak: int
    precision: str
    virtual: int = 0


class CallBlock(Struct, frozen=True):
    """Consecutive calls in nanoseconds: each call, the time that `elapsed`, and the time `waited` for a core.

    `on_core` is the time of each call on a core, averaged over a few calls, without waits. It is empty unless a single
    thread computes on a core: several threads keep their cores busy while they wait for each other.
    """

    calls: list[int]
    elapsed: int
    waited: int = 0
    on_core: list[int] = []


class BenchmarkWorker:
    """A model in a session, with one call for each batch size."""

    def __init__(self) -> None:
        self.process = psutil.Process()
        self.model = Path()
        self.config = SessionConfig()
        self.session: EngineSession | None = None
        self.calls: dict[int, Call] = {}
        self.callers = 1
        self.is_single = False

    def load(self, model: Path, config: SessionConfig, feeds: Mapping[int, Path], callers: int = 1) -> LoadMetrics:
        """Create a session and run its first batch once, measuring memory; then read all other batches.

        `feeds` are files by batch size. `callers` is the number of threads that call the session.
        """
        self.model, self.config, self.callers = model, config, callers
        first = read_value(next(iter(feeds.values())))
        engine = find_engine(config.engine)
        engine.devices()  # this loads its library
        try:
            engine.start(engine_settings(config))
            gc.collect()
            base, threads = self._memory()[0], self.process.num_threads()
            start = perf_counter()
            self.session = create_session(self.model, self.config)
            creation = self.session.load_seconds or perf_counter() - start
            threads = self.process.num_threads() - threads + 1
            self.session.bind(first)()
            resident, peak, virtual = self._memory()
            if not config.is_onnxruntime:
                names = [v.name for v in self.session.outputs]
                checked_results(self.session.run(names, first), names)
        except BaseException as e:  # code of a plugin may raise any, and Ctrl-C is ignored here
            if config.is_onnxruntime or isinstance(e, PassesError | MemoryError):
                raise
            from ...core.ort.backends import engine_message  # noqa: PLC0415 - imports onnx, which takes memory

            raise EvaluationError(engine_message(e, config)) from e
        self.calls = {batch: self.session.bind(read_value(file)) for batch, file in feeds.items()}
        threads = self.session.threads or threads
        self.is_single = threads == callers == 1
        return LoadMetrics(creation, base, threads, resident, peak, self.session.precision, virtual)

    def _memory(self) -> tuple[int, int, int]:
        """The memory of this process, at most, and its address space; or of the processes that its engine started."""
        if not (others := self.process.children(recursive=True)):
            found = self.process.memory_info()
            return found.rss, max(found.rss, peak_bytes(self.process)), found.vms  # the kernel rounds them differently
        used = most = 0
        for process in others:
            with suppress(psutil.Error):  # one that ends meanwhile
                full = process.memory_full_info()
                own = getattr(full, "pss", full.uss)  # pages that they share count once
                used += own
                most += own + max(peak_bytes(process) - full.rss, 0)
        return used, most, 0

    def warm_up(self, batch: int) -> float:
        """Run until warm; return the seconds of a call."""
        times: list[float] = []
        while len(times) < WARMUP_CALLS and sum(times) < WARMUP_SECONDS:
            start = perf_counter()
            self.calls[batch]()
            times.append(perf_counter() - start)
        return min(times)

    def time_calls(self, batch: int, calls: int, seconds: float) -> CallBlock:
        """Time this many calls, of about `seconds` each."""
        run = self.calls[batch]
        if seconds < COLD_CALL_LIMIT:
            begin = perf_counter_ns()
            for _ in range(COLD_CALLS):
                run()
                if perf_counter_ns() - begin > COLD_NS:
                    break
        if self.callers > 1:
            return concurrent_times(run, calls, self.callers)
        found, on_core, waits = list[int](), list[int](), WaitClock()
        if self.session is not None and self.session.load_seconds:  # the engine measures its calls itself
            found = [round(cast("float", run()) * 1e9) for _ in range(calls)]
            return CallBlock(found, *waits.read())
        for first in range(0, calls, most := max(1, round(GROUP_SECONDS / seconds))):
            group = min(most, calls - first)
            begin, marks = process_time_ns(), [perf_counter_ns()]
            for _ in range(group):
                run()
                marks.append(perf_counter_ns())
            on_core += [(process_time_ns() - begin) // group] * group
            found += [b - a for a, b in pairwise(marks)]
        elapsed, waited = waits.read()
        is_on_core = self.is_single and sum(on_core) >= LEAST_ON_CORE * (elapsed - waited)
        return CallBlock(found, elapsed, waited, on_core if is_on_core else [])

    def is_divided(self, model: Path) -> bool:
        """Whether a model is divided between OpenVINO and onnxruntime. Raises EvaluationError."""
        from ...core.ort.split_engine import division  # noqa: PLC0415 - imports OpenVINO, which takes memory

        return division(model) is not None

    def provider_node_counts(self, feeds: Path, folder: Path) -> dict[str, int]:
        """The number of nodes by provider, from a separate session, because recording takes time and memory.

        The record goes to a `folder` of the parent, which removes it even if it kills this process.
        """
        self.calls.clear()
        self.session = None
        setting = replace(self.config, profile_prefix=str(folder / "run"), optimized_model_path="")
        session = cast("OrtSession | KernelSession", create_session(self.model, setting))
        session.bind(read_value(feeds))()
        record = session.end_profile()
        events: list[dict[str, Any]] = read_events(record)
        record.unlink()
        named = [(e["name"], e.get("args", {})) for e in events]
        ran = {(name, args.get("node_index")): args["provider"] for name, args in named if args.get("provider")}
        return dict(Counter(ran.values()))


def concurrent_times(run: Call, calls: int, callers: int) -> CallBlock:
    """Run calls concurrently, at least one per caller; the time of each is their mean divided by the callers."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - takes memory, and is seldom needed
    from threading import Barrier  # noqa: PLC0415 - as above

    each = -(-calls // callers)
    ready = Barrier(callers + 1)

    def call() -> None:
        ready.wait()
        for _ in range(each):
            run()

    with ThreadPoolExecutor(callers) as pool:
        futures = [pool.submit(call) for _ in range(callers)]
        waits = WaitClock()
        ready.wait()
        begin = perf_counter_ns()
        for future in futures:
            future.result()
        mean = (perf_counter_ns() - begin) // (each * callers)
        return CallBlock([mean] * (each * callers), *waits.read())


class WaitClock:
    """The nanoseconds since creation: elapsed, and waited for a core by the threads of this process."""

    def __init__(self) -> None:
        self.start, self.waited = perf_counter_ns(), waited_ns()

    def read(self) -> tuple[int, int]:
        """Both times so far."""
        waited = max(waited_ns() - self.waited, 0)
        return perf_counter_ns() - self.start, waited


def waited_ns() -> int:
    """The nanoseconds that the threads of this process have waited for a core; 0 on systems other than Linux.

    A wait that has not ended is not included.
    """
    with suppress(OSError, IndexError):
        return sum(int((task / "schedstat").read_text().split()[1]) for task in Path("/proc/self/task").iterdir())
    return 0


def peak_bytes(process: psutil.Process) -> int:
    """The peak memory of a process. On Linux, getrusage(2) would start with the parent's."""
    with suppress(OSError, StopIteration):
        lines = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8").splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) << 10
    if hasattr(process.memory_info(), "peak_wset"):
        return int(process.memory_info().peak_wset)
    import resource  # noqa: PLC0415 - not available on Windows

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Serve the parent until it ends. The kernel ends a stopped process with its parent."""
    parent = Parent()
    if sys.platform == "linux":
        end_with_parent(os.getppid(), signal.SIGKILL)
    gc.disable()
    parent.serve(BenchmarkWorker())
