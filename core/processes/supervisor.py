"""The supervisor of a command: the process that starts another one for the command, and ends it if necessary.

Limits and signals apply even while native code runs or holds Python's global lock, because the process is killed. The
supervisor has few modules and no threads, and waits. It is in the command's process group, so that a terminal stops and
continues both.
"""

from __future__ import annotations

import atexit
import marshal
import os
import select
import signal
import struct
import sys
from contextlib import suppress
from time import monotonic
from typing import NoReturn

from ..support.supervision import END, FOLDER, OUTCOME, PHASE, PROGRESS, TIME, Limit, supervise_by, tell
from .process_limits import adopt_orphans, end_with_parent

GRACE = 0.7  # for a command to end after a signal
MAX_TEXT = 1000  # of a fact; a pipe accepts a message of this size atomically
CRASHED = 4  # the exit code of a command whose process crashed
USUAL_ENDS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGPIPE")
"""Signals that may end a command that did not crash."""


def supervise_command() -> None:
    """Return in a new process, for the command; in this process, supervise it, and exit as it does.

    Without forks, for example on Windows, return in this process.
    """
    if not hasattr(os, "fork"):
        return
    (messages, told), (wakeups, noted) = os.pipe(), os.pipe()
    for descriptor in (told, noted):
        os.set_blocking(descriptor, False)
    noticed = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) != signal.SIG_IGN]
    handlers = {n: signal.signal(n, _note) for n in (*noticed, signal.SIGCHLD)}
    signal.set_wakeup_fd(noted, warn_on_full_buffer=False)
    adopt_orphans()
    supervisor, child = os.getpid(), os.fork()
    if child:
        os.close(told)
        _Supervisor(child, messages, wakeups).supervise()
    for number, handler in handlers.items():
        signal.signal(number, handler)
    signal.set_wakeup_fd(-1)
    for descriptor in (messages, wakeups, noted):
        os.close(descriptor)
    end_with_parent(supervisor, signal.SIGKILL)

    def write(fact: str, value: str | Limit | None) -> None:
        if fact == END:
            os.set_blocking(told, True)  # the exit code depends on these messages
        message = marshal.dumps((fact, value[:MAX_TEXT] if isinstance(value, str) else value))
        with suppress(OSError):  # it has ended or is stopped
            os.write(told, struct.pack("<H", len(message)) + message)

    supervise_by(write)
    atexit.register(tell, END, "")  # not reached by code that ends the process


def _note(_number: int, _at: object) -> None:
    """Do nothing; the number of the signal is in a pipe."""


class _Supervisor:
    """The facts that the process `child` sends through a pipe; signals to this process come through another one."""

    def __init__(self, child: int, messages: int, wakeups: int) -> None:
        self.child, self.messages, self.wakeups = child, messages, wakeups
        self.pending = b""
        self.texts: dict[str, str] = {}
        self.folders: set[str] = set()
        self.limits: dict[str, Limit] = {}

    def supervise(self) -> NoReturn:
        """Wait for the end of the process, or end it, and exit."""
        open_pipes = [self.wakeups, self.messages]
        while True:
            found, status = os.waitpid(self.child, os.WNOHANG)
            if found:
                self._exit_as(status)
            at, code, text = min(self.limits.values(), default=(None, 0, ""))
            left = None if at is None else at - monotonic()
            if left is not None and left <= 0:
                self._kill()
                self._exit(code, text)
            ready, _, _ = select.select(open_pipes, [], [], left)
            if self.wakeups in ready:
                for number in os.read(self.wakeups, 100):
                    if self._note_signal(number):
                        os.kill(self.child, number)
            if self.messages in ready and not self._take_messages():
                open_pipes.remove(self.messages)

    def _note_signal(self, number: int) -> bool:
        """Set a limit for the end of the process; False for a signal about its end."""
        if number != signal.SIGCHLD:
            self.limits.setdefault("signal", (monotonic() + GRACE, 128 + number, ""))
        return number != signal.SIGCHLD

    def _take_messages(self) -> bool:
        """Read messages from the process; False at the end."""
        if not (data := os.read(self.messages, 1 << 16)):
            return False
        self.pending += data
        while len(self.pending) > 2 and len(self.pending) >= (end := 2 + struct.unpack_from("<H", self.pending)[0]):
            fact, value = marshal.loads(self.pending[2:end])  # noqa: S302 - from a process of our own
            self.pending = self.pending[end:]
            if fact in {TIME, PROGRESS}:
                self.limits.pop(fact, None)
                if value is not None:
                    self.limits[fact] = value
            elif fact == FOLDER:
                self.folders.add(value)
            else:
                self.texts[fact] = value
        return True

    def _kill(self) -> None:
        """Kill the process and its descendants, which become children of this one as their parents end."""
        os.kill(self.child, signal.SIGKILL)
        with suppress(ChildProcessError):
            while True:
                for process in _children():
                    os.kill(process, signal.SIGKILL)
                os.waitpid(-1, 0)

    def _exit_as(self, status: int) -> NoReturn:
        """Exit like the process did, with a line if it crashed."""
        while select.select([self.messages], [], [], 0)[0] and self._take_messages():
            pass
        code = os.waitstatus_to_exitcode(status)
        if code in {128 + signal.SIGINT, -signal.SIGINT} and PHASE not in self.texts and not self._was_interrupted():
            self._exit(
                CRASHED, "the command ended while starting, possibly because memory or threads ran out: see `ulimit -a`"
            )
        if code >= 0 and END not in self.texts:
            cause = f"code that it called ended its process with exit code {code}"
            self._exit(CRASHED, f"the command did not finish: {cause}; {self._outcome}")
        if code >= 0:
            os._exit(code)
        name = signal.Signals(-code).name if -code in {*signal.Signals} else f"signal {-code}"
        if name in USUAL_ENDS:
            signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        lack = ", possibly because memory ran out" if name == "SIGKILL" else ""
        self._exit(CRASHED, f"the command crashed ({name}){lack}; {self._outcome}")

    def _was_interrupted(self) -> bool:
        """Whether this process received a signal; OpenBLAS sends the command one if it cannot start its threads."""
        while select.select([self.wakeups], [], [], 0)[0]:
            for number in os.read(self.wakeups, 100):
                self._note_signal(number)
        return "signal" in self.limits

    def _exit(self, code: int, text: str) -> NoReturn:
        """Remove what a killed process left, print a line unless it printed its last one, and exit."""
        from ..support.scratch_folder import remove_killed  # noqa: PLC0415 - seldom needed

        try:
            text = (
                f"error: {text}" if text else f"interrupted while {self.texts.get(PHASE, 'starting')}; {self._outcome}"
            )
            cleared = "\r\x1b[K\x1b[?25h" if sys.stderr is not None and os.isatty(2) else ""  # the progress line
            if END not in self.texts or "signal" not in self.limits:
                os.write(2, f"{cleared}{text}\n".encode(errors="backslashreplace"))
            remove_killed(self.folders)
        finally:
            os._exit(code)

    @property
    def _outcome(self) -> str:
        return self.texts.get(OUTCOME, "nothing was written")


def _children() -> list[int]:
    """The children of this process, if Linux lists them."""
    found, own = list[int](), str(os.getpid())
    with suppress(OSError):
        for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - a plain name each
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - pathlib is not needed
                if file.read().rpartition(b")")[2].split()[1] == own.encode():
                    found.append(int(name))
    return found
