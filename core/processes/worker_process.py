"""Worker processes for code that may crash, hang or print: objects whose methods are called from another process.

A request is a method with its arguments, and the custom operators of its caller. Its reply is any number of
announcements, then the method's result or exception. Each message is pickled, with large arrays separate: it begins
with the number of parts and their lengths.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
import traceback
from _thread import start_new_thread
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from math import inf
from pathlib import Path
from queue import Empty, SimpleQueue
from signal import SIG_IGN, SIGINT, Signals, signal
from threading import Lock, current_thread, main_thread
from time import monotonic
from typing import IO, Any, Generic, ParamSpec, Self, TypeVar, cast
from weakref import WeakSet, finalize

from msgspec import Struct

from ..errors import OUT_OF_MEMORY, MemoryExhausted, PassesError
from .custom_operators import custom_operators, set_custom_operators
from .process_limits import IDLE_THREADS, MODEL_MEMORY, end_after_parent, limit_memory
from .watchdog import call_after, require_time, time_limit_end

Buffer = bytes | bytearray | memoryview
Command = tuple[str, ...]
T = TypeVar("T")
P = ParamSpec("P")
RESULT, ERROR, FAILURE, WITHIN, PROGRESS = "result", "error", "failure", "within", "progress"
"""The kinds of a worker's messages."""
LOADER_EXIT = 127  # of glibc's loader, if it has no memory for a thread's data (elf/dl-tls.c, _dl_fatal_printf)
IDLE = 64  # the exit code of an idle process
EXIT_WAIT = 10.0  # seconds between the last message of a process and its exit code
PARENT = "PASSWRIGHT_PARENT"  # the variable with the id of the process whose main thread started this one
EXHAUSTED = f"its process {OUT_OF_MEMORY}"
PIPE_BYTES = 1 << 16  # the capacity of a pipe on Linux


class WorkerError(Exception):
    """A request has no result."""


class RequestFailed(WorkerError):
    """A request raised an unexpected exception in the worker: its message, and its `traceback` as text."""

    def __init__(self, message: str, remote_traceback: str = "") -> None:
        super().__init__(message)
        self.traceback = remote_traceback
        if remote_traceback:
            self.add_note(remote_traceback)

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        return type(self), (str(self), self.traceback)


class WorkerExit(WorkerError):
    """A process ended before its reply: its exit code `code`, or None if it was killed after `timeout` seconds.

    `progress` is what it last reported, or None.
    """

    def __init__(self, code: int | None, timeout: float, last_line: str, progress: Any = None) -> None:
        self.code = code
        self.timeout = timeout
        self.last_line = last_line
        self.progress = progress
        super().__init__(self.describe("it"))

    def __reduce__(self) -> tuple[type[Self], tuple[object, ...]]:
        return type(self), (self.code, self.timeout, self.last_line, self.progress)

    def describe(self, subject: str) -> str:
        """Describe how the process ended; `subject` is the name of the program."""
        if self.code is None:
            return f"{subject} did not end within {round(self.timeout, 2):g} s"
        if self.code < 0:
            with suppress(ValueError):
                name = Signals(-self.code).name
                return f"{subject} crashed ({name})" + ", possibly because memory ran out" * (name == "SIGKILL")
        lack = ", possibly because memory ran out" if self.code == LOADER_EXIT else ""
        return f"{subject} ended with exit code {self.code}{lack}" + (f": {self.last_line}" if self.last_line else "")


def module_command(module: str, *arguments: str) -> Command:
    """The command that runs a module's function `main` in this interpreter.

    The module keeps its name, so that its classes have the same names in both processes, which pickling requires.
    """
    return (sys.executable, "-P", "-c", f"from {module} import main; main()", *arguments)


@dataclass(slots=True, weakref_slot=True)
class WorkerProcess(Generic[T]):
    """A process of `command` with an object of class `T`, whose methods take at most `timeout` seconds each.

    The process is started when needed, and replaced if it ends. Its standard error goes to `log`, if given. It ends
    with this object or the context. After a fork, the child gets its own worker. It may allocate at most `memory`
    bytes, by default as for a small model. None, for a worker that runs no model or limits itself, allows most of the
    machine's memory.
    """

    command: Command
    timeout: float
    log: Path | None = None
    memory: int | None = MODEL_MEMORY
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _owner: int = field(default=0, init=False)
    is_busy: bool = field(default=False, init=False)  # whether its last request has no reply yet
    _is_unused: bool = field(default=True, init=False)
    _request: Sequence[Buffer] | None = field(default=None, init=False)  # already sent once
    _terminate_process: Callable[[], object] = field(default=lambda: None, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate()

    @property
    def pid(self) -> int | None:
        """The id of the running process."""
        process = self._running()
        return process.pid if process is not None else None

    def call(self, timeout: float | None = None, *, retry: bool = False) -> T:
        """The object of the process, for calls of its methods that take at most `timeout` seconds.

        A call raises WorkerExit if the process ends, PassesErrors of the method, and RequestFailed for its other
        exceptions. With `retry`, a crash of a process that served other requests, which may have damaged it, counts
        only if a new process also crashes.
        """
        return cast("T", _RemoteObject(self, timeout, retry))

    def call_method(self, name: str, arguments: Arguments, timeout: float | None, *, retry: bool) -> Any:
        """Call a method by name; see `call`."""
        is_fresh = self._running() is None
        self._begin(name, arguments)
        try:
            return self.reply(timeout)
        except WorkerExit as e:
            if not retry or is_fresh or e.code is None:
                raise
        self._begin(name, arguments)
        return self.reply(timeout)

    @property
    def is_unused(self) -> bool:
        """Whether its process is not running, or has had no request yet."""
        return self._running() is None or self._is_unused

    @property
    def is_alive(self) -> bool:
        """Whether its process is running."""
        process = self._running()
        return process is not None and process.poll() is None

    def start(self) -> None:
        """Start the process, unless it is running; a process that ended because it was idle is replaced.

        A process that crashed between requests is not replaced: its state is lost, which the next request reports.
        """
        process = self._running()
        if process is not None and not self.is_busy and process.poll() == 0:
            self.terminate()
        if self._running() is None:
            self._process, self._owner = self._start(), os.getpid()
            self.is_busy, self._is_unused = False, True

    def begin(self, method: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Start a method of `call()`, for `reply` to wait for its result; an earlier result is discarded."""
        assert isinstance(method, _RemoteMethod)
        self._begin(method.name, (args, kwargs))

    def _begin(self, name: str, arguments: Arguments) -> None:
        if self.is_busy and self._running() is not None:
            with suppress(WorkerError, PassesError):
                self.reply()
        self._request = _packed((name, *arguments, custom_operators()))
        self._send(self._request)

    def reply(self, timeout: float | None = None) -> Any:
        """Wait for the result of the started method. Raises the exceptions of `call`."""
        process = self._running()
        assert process is not None
        waiting = _Waiting(process, self.timeout if timeout is None else timeout)
        try:
            reply = waiting.last_message()
        except BaseException:
            self.terminate()  # later messages would be treated as the reply to the next request
            raise
        self.is_busy = False
        again, self._request = self._request, None
        if reply is None:
            self.terminate()
            if again is not None and not waiting.has_begun and process.returncode == IDLE:
                self._send(again)
                return self.reply(timeout)
            log = self.log.read_text(encoding="utf-8", errors="replace") if self.log is not None else ""
            last_line = next((line for line in reversed(log.split("\n")) if line.strip()), "")
            code = None if waiting.is_late else process.returncode
            raise WorkerExit(code, waiting.timeout, last_line, waiting.progress)
        kind, content = reply
        if kind == ERROR:
            try:
                raise content
            finally:  # avoids a reference cycle with the traceback, which holds all arguments of the request
                del reply, content
        if kind == FAILURE:
            raise RequestFailed(*content)
        return content

    def _send(self, request: Sequence[Buffer]) -> None:
        self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        stdin = self._process.stdin
        self.is_busy, self._is_unused = True, False

        def write() -> None:
            with suppress(OSError, ValueError):  # it has ended, which `reply` reports
                _write(stdin, request)

        if sum(map(len, request)) < PIPE_BYTES:
            write()
        else:
            start_new_thread(write, ())  # the process may not read now, or ever

    def ask_to_end(self) -> None:
        """Send SIGTERM to the process, if it is running; may be called from any thread."""
        self._request = None
        if (process := self._running()) is not None:
            process.terminate()

    def kill(self) -> None:
        """Kill the process, if it is running, while another thread awaits its reply."""
        if (process := self._running()) is not None:
            process.kill()

    def wait(self, seconds: float) -> None:
        """Wait for the end of the process, which has no request; kill it after `seconds`."""
        if (process := self._running()) is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
            self.terminate()

    def terminate(self) -> None:
        """End the process, if it is running."""
        self._terminate_process()
        self._process = None

    def limit_memory(self, size: int | None) -> None:
        """Limit the memory that the process, and its replacements, may allocate."""
        self.memory = size
        if (process := self._running()) is not None:
            limit_memory(size, process.pid)

    def _running(self) -> subprocess.Popen[bytes] | None:
        """The process, unless there is none, or it belongs to the parent from which this process was forked."""
        return self._process if self._owner == os.getpid() else None

    def _start(self) -> subprocess.Popen[bytes]:
        """Start a process with this one's module search path, but with the standard library first.

        The folder of a script may contain a file such as random.py, which has not been imported yet.
        """
        library = Path(os.__file__).parent
        is_other = {p: Path(p) not in {library, library / "lib-dynload"} for p in sys.path if p}
        path = os.pathsep.join(sorted(is_other, key=lambda p: is_other[p]))
        parent = {PARENT: str(os.getpid())} if current_thread() is main_thread() else {}
        with Path(self.log or os.devnull).open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 - this interpreter, this package
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**IDLE_THREADS, **os.environ, "PYTHONPATH": path, **parent},
            )
        self._terminate_process = finalize(self, _kill_and_wait, process, os.getpid())
        if self.memory is not None:
            limit_memory(self.memory, process.pid)
        _processes_to_leave_to_parent().add(process)
        return process


Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class _RemoteObject(Struct, frozen=True):
    """The object of a worker process; its attributes are its methods."""

    process: WorkerProcess[Any]
    timeout: float | None
    retry: bool

    def __getattr__(self, name: str) -> _RemoteMethod:
        return _RemoteMethod(name, self)


class _RemoteMethod(Struct, frozen=True):
    name: str
    remote: _RemoteObject

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        remote = self.remote
        return remote.process.call_method(self.name, (args, kwargs), remote.timeout, retry=remote.retry)


@dataclass(slots=True)
class _Waiting:
    """A wait of at most `timeout` seconds for a process's reply; its announcements change the limit."""

    process: subprocess.Popen[bytes]
    timeout: float
    progress: Any = None
    has_begun: bool = False  # whether the reply has begun
    is_late: bool = False

    def last_message(self) -> tuple[str, Any] | None:
        """The kind and content of the last message; None if the process ended before it."""
        assert self.process.stdout is not None
        end = last = monotonic() + self.timeout
        while True:
            try:
                with call_after(max(0.0, min(end, time_limit_end()) - monotonic()), self.process.kill) as late:
                    message = _read(self.process.stdout)
                kind, content = _unpacked(message) if message is not None else ("", None)
            except Exception as e:
                raise RequestFailed(f"its reply cannot be read: {e}") from e
            if message is None:
                with suppress(subprocess.TimeoutExpired):
                    self.process.wait(EXIT_WAIT)
                if late.is_set():
                    require_time()
                self.is_late = late.is_set()
                return None
            self.has_begun = True
            if kind == WITHIN:
                end = last if content is None else monotonic() + content
                self.timeout = content or self.timeout
            elif kind == PROGRESS:
                self.progress = content
            else:
                return kind, content


class Parent:
    """The process that started this one as its worker: it sends requests, and receives announcements and replies.

    From now on, printed text goes to standard error, and Ctrl-C is handled by the parent.
    """

    def __init__(self) -> None:
        signal(SIGINT, SIG_IGN)
        end_after_parent(int(os.environ.get(PARENT, "0")))
        self._lock = Lock()
        self._output = os.fdopen(os.dup(1), "wb")
        os.dup2(2, 1)

    def expect_within(self, seconds: float | None) -> None:
        """Announce that the running method will end within `seconds`; None to withdraw this."""
        self._send(_packed((WITHIN, seconds)))

    def report(self, progress: object) -> None:
        """Announce the progress of the running method, which the parent then knows if this process ends."""
        self._send(_packed((PROGRESS, progress)))

    def _send(self, message: Sequence[Buffer]) -> None:
        with self._lock:
            _write(self._output, message)

    def serve(
        self,
        worker: object,
        idle_limit: Callable[[], float | None] = lambda: None,
        clean_up: Callable[[], object] = lambda: None,
    ) -> None:
        """Call the requested methods of `worker` until the parent ends or is idle for `idle_limit()` seconds.

        If the parent ends during a call, `clean_up` is called. BaseExceptions other than Exceptions end the process.
        """
        requests = SimpleQueue[list[bytearray] | MemoryExhausted]()

        def read_requests() -> None:
            code = 1  # for a thread that fails, which nobody waits for
            request: list[bytearray] | MemoryExhausted | None = []
            try:
                with os.fdopen(os.dup(0), "rb") as stream:
                    while request is not None:
                        try:
                            request = _read(stream)
                        except MemoryError:
                            request = MemoryExhausted(EXHAUSTED)
                        if request is not None:
                            requests.put(request)
                code = 0
                clean_up()
            finally:
                os._exit(code)  # the parent no longer waits for a reply

        start_new_thread(read_requests, ())
        while True:
            try:
                request = requests.get(timeout=idle_limit())
            except Empty:
                sys.exit(IDLE)
            self._send(_reply_to(worker, request))
            del request


def serve(worker: object) -> None:
    """Call the requested methods of `worker` until the parent ends."""
    Parent().serve(worker)


def _reply_to(worker: object, request: list[bytearray] | MemoryExhausted) -> Sequence[Buffer]:
    """Call a method of the worker; return its result or exception as a message."""
    if isinstance(request, MemoryExhausted):
        return _packed((ERROR, request))
    try:
        name, args, kwargs, added = _unpacked(request)
        set_custom_operators(added)
        return _packed((RESULT, getattr(worker, name)(*args, **kwargs)))
    except Exception as caught:  # noqa: BLE001 - raised in the parent
        e = MemoryExhausted(EXHAUSTED) if isinstance(caught, MemoryError) else caught
        if isinstance(e, PassesError):
            with suppress(Exception):  # an exception that cannot be pickled is unexpected
                message = _packed((ERROR, e))
                _unpacked(message)
                return message
        return _packed((FAILURE, (str(e), "".join(traceback.format_exception(e)))))


def _packed(message: object) -> Sequence[Buffer]:
    """The parts of a message: its pickle, and the memory of large arrays, which is not copied."""
    buffers = list[pickle.PickleBuffer]()
    head = pickle.dumps(message, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append)
    return [head, *(b.raw() for b in buffers)]


def _unpacked(parts: Sequence[Buffer]) -> Any:
    return pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301 - from a process of our own


def _write(stream: IO[Any], parts: Sequence[Buffer]) -> None:
    stream.write(struct.pack(f"<{len(parts) + 1}Q", len(parts), *map(len, parts)))
    stream.writelines(parts)
    stream.flush()


def _read(stream: IO[Any]) -> list[bytearray] | None:
    """The parts of the next message; None at the end, or if a crash cut it off.

    Raises MemoryError if there is not enough memory for them, after reading them.
    """
    head = stream.read(8)
    lengths = stream.read(8 * struct.unpack("<Q", head)[0]) if len(head) == 8 else b""
    sizes = [length for (length,) in struct.iter_unpack("<Q", lengths[: len(lengths) // 8 * 8])]
    try:
        parts = [bytearray(length) for length in sizes]
    except MemoryError:
        left = sum(sizes)
        while left and (skipped := len(stream.read(min(left, PIPE_BYTES)))):
            left -= skipped
        raise
    return parts if parts and all(cast("Any", stream).readinto(part) == len(part) for part in parts) else None


def _kill_and_wait(process: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() == owner:
        process.kill()
        process.communicate()


@cache
def _processes_to_leave_to_parent() -> WeakSet[subprocess.Popen[bytes]]:
    """The processes started by this one; a forked child neither writes to them nor keeps their pipes open."""
    processes: WeakSet[subprocess.Popen[bytes]] = WeakSet()

    def detach() -> None:
        nowhere = os.open(os.devnull, os.O_RDWR)
        for process in processes:
            for pipe in filter(None, (process.stdin, process.stdout)):
                if not pipe.closed:
                    os.dup2(nowhere, pipe.fileno())
        processes.clear()
        os.close(nowhere)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=detach)
    return processes


@dataclass(slots=True)
class WorkerPool:
    """At most one idle worker per command, kept for reuse. Thread-safe."""

    _idle: dict[Command, WorkerProcess[Any]] = field(default_factory=dict[Command, WorkerProcess[Any]])
    _substitutes: dict[Command, Command] = field(default_factory=dict[Command, Command])

    def start(self, command: Command, also: Command | None = None) -> None:
        """Start a worker for a later `take`, unless there is one. It can also serve as a worker for `also`."""
        if also is not None:
            self._substitutes[also] = command
        if command not in self._idle:
            worker = WorkerProcess[Any](command, inf, memory=None)
            worker.start()
            self._keep(worker)

    def take(self, command: Command) -> WorkerProcess[Any]:
        """A worker that is not otherwise in use."""
        for known in filter(None, (command, self._substitutes.get(command))):
            worker = self._idle.pop(known, None)
            if worker is not None and worker.is_alive:
                return worker
        return WorkerProcess(command, inf, memory=None)

    def give_back(self, worker: WorkerProcess[Any], clear: Callable[[], object] | None = None) -> None:
        """Keep a worker for reuse, or end it if there already is one.

        It first does `clear`, a method of its `call()`; if it is busy, it is ended instead.
        """
        if clear is not None and worker.is_alive and not worker.is_busy:
            worker.begin(clear)
        elif clear is not None:
            worker.terminate()
        if worker.is_alive:
            self._keep(worker)

    def _keep(self, worker: WorkerProcess[Any]) -> None:
        if self._idle.setdefault(worker.command, worker) is not worker:
            worker.terminate()


def worker_pool() -> WorkerPool:
    """The pool of this process."""
    return _pool_of_process(os.getpid())


@cache
def _pool_of_process(_pid: int) -> WorkerPool:
    """The pool of a process; after a fork, the new one has its own."""
    return WorkerPool()
