"""Python processes that are forked from one that imported what most need: the imports take a process 0.4 CPU seconds.

`make test-all` and tests of processes start them as the tool does.
"""

import gc
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import IO, Any

PRELOADED = [
    "passwright.app.bisect.probe_process",
    "passwright.app.commands.actions",
    "passwright.app.measure.benchmark_worker",
    "passwright.app.models.worker",
    "passwright.app.optimize.optimize",
    "passwright.app.profile.profile_recording",
    "passwright.app.registry.timed_runs",
    "passwright.app.registry.tool_worker",
    "passwright.core.calibration.collection_worker",
    "passwright.core.ort.remote_backend",
    "passwright.core.proof.exhaustion_worker",
    "passwright.core.proof.smt_worker",
    "passwright.core.verify.oracle_worker",
    "passwright.testing.model_comparison",
]
MAX_REQUEST = 1 << 17  # bytes


class ForkedProcess:
    """A process of a `ProcessServer`, with what worker processes use of `subprocess.Popen`."""

    def __init__(
        self, pid: int, status: socket.socket, stdin: IO[bytes] | None = None, stdout: IO[bytes] | None = None
    ) -> None:
        self.pid = pid
        self.stdin, self.stdout = stdin, stdout
        self.returncode: int | None = None
        self._status = status
        self._lock = threading.Lock()

    def wait(self, timeout: float | None = None) -> int:
        with self._lock:
            if self.returncode is None:
                self._status.settimeout(timeout)
                try:
                    answer = self._status.recv(8)
                except (TimeoutError, BlockingIOError):
                    raise subprocess.TimeoutExpired("forked process", timeout or 0.0) from None
                self.returncode = int(answer or b"-9")  # nothing from a server that has ended
                self._status.close()
            return self.returncode

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0.0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self) -> tuple[bytes, None]:
        assert self.stdin is not None
        assert self.stdout is not None
        with suppress(OSError):
            self.stdin.close()
        output = b"" if self.stdout.closed else self.stdout.read()
        self.stdout.close()
        self.wait()
        return output, None


class ProcessServer:
    """A process that forks others on request, once it has imported `modules`; started when it is needed first."""

    def __init__(self, modules: Sequence[str] = PRELOADED) -> None:
        self._modules = modules
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def popen(self, command: Sequence[str], *, stderr: IO[bytes], env: Mapping[str, str], **pipes: int) -> Any:
        """What `subprocess.Popen` does for a worker process; by it, unless this interpreter runs a text."""
        if command[0] != sys.executable or "-c" not in command[1:3]:
            return subprocess.Popen(command, stderr=stderr, env=env, **pipes)
        stdin, to_child = os.pipe()
        from_child, stdout = os.pipe()
        try:
            return self.fork(
                command, [stdin, stdout, stderr.fileno()], env, os.fdopen(to_child, "wb"), os.fdopen(from_child, "rb")
            )
        finally:
            os.close(stdin)
            os.close(stdout)

    def fork(
        self, command: Sequence[str], streams: Sequence[int], env: Mapping[str, str], *pipes: IO[bytes]
    ) -> ForkedProcess:
        """A process for a command with `-c`, which has these files as its standard streams."""
        at = command.index("-c")
        request = [command[at + 1], command[at + 2 :], dict(env), os.getcwd(), "-P" not in command[:at]]  # noqa: PTH109
        mine, its = socket.socketpair()
        with self._lock, its:
            server = self._running()
            socket.send_fds(server, [json.dumps(request).encode()], [*streams, its.fileno()])
            return ForkedProcess(int(server.recv(16)), mine, *pipes)

    def end(self) -> None:
        """End the server, if it runs; the processes that it forked end with their pipes."""
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait()

    def _running(self) -> socket.socket:
        if self._socket is None:
            self._socket, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            text = f"from {__name__} import main; main({its.fileno()}, {[*self._modules]})"
            path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
            self._process = subprocess.Popen(
                [sys.executable, "-c", text],
                pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": path},
            )
            its.close()
        return self._socket


def main(descriptor: int, modules: Sequence[str]) -> None:
    """Fork a process for each request; in each, run its text as the main module, and end as Python ends."""
    for module in modules:
        import_module(module)
    gc.collect()
    gc.freeze()
    text = _fork_on_request(socket.socket(fileno=descriptor))
    namespace = vars(sys.modules["__main__"])
    exec(compile(text, "<string>", "exec"), namespace)


def _fork_on_request(requests: socket.socket) -> str:
    """Serve until the tests end, which ends this process; return, in each process that is forked, what it shall run."""
    statuses: dict[int, socket.socket] = {}
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker)
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        while True:
            ready = [key.fd for key, _ in selector.select()]
            if woken in ready:
                os.read(woken, 512)
                _report_ended(statuses)
            if requests.fileno() in ready:
                request, given, _, _ = socket.recv_fds(requests, MAX_REQUEST, 4)
                if not request:
                    os._exit(0)
                if not (pid := os.fork()):
                    break
                requests.send(b"%d" % pid)
                statuses[pid] = socket.socket(fileno=given.pop())
                for descriptor in given:
                    os.close(descriptor)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for stream in (requests, *statuses.values()):
        stream.close()
    for number, descriptor in enumerate(given[:3]):
        os.dup2(descriptor, number)
    for descriptor in (woken, waker, *given):
        os.close(descriptor)
    return _become(*json.loads(request))


def _become(text: str, arguments: list[str], environment: dict[str, str], folder: str, has_folder: bool) -> str:
    """Take what a new interpreter has: its environment, working folder, arguments, and places of modules."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = ["-c", *arguments]
    path = [p for p in environment.get("PYTHONPATH", "").split(os.pathsep) if p]
    sys.path[:] = [*([""] if has_folder else []), *path, *(p for p in sys.path if p and p not in path)]
    return text


def _report_ended(statuses: dict[int, socket.socket]) -> None:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            with suppress(OSError), statuses.pop(ended[0]) as stream:
                stream.send(b"%d" % os.waitstatus_to_exitcode(ended[1]))
