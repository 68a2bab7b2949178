"""Runs of commands on hostile files in forks of one process, and the promises that each must keep."""

import atexit
import ctypes
import gc
import hashlib
import importlib
import json
import os
import pkgutil
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import traceback
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from .cases import Case

TIME_LIMIT = 60.0  # seconds of a case; five times as many where it is repeated, as the machine may be busy
MEMORY_CAP = 2 << 30  # bytes that a process of a case may have in memory
ADDRESS_SPACE = 12 << 30  # bytes that it may map, to spare the machine
STARTED = 3.0  # seconds within which a command may not handle signals yet, on a busy machine
GRACE_PERIOD = 3.0  # seconds for the processes of a command to end after it
SHARED_MEMORY = Path("/dev/shm")
PR_SET_CHILD_SUBREAPER = 36
EXIT_CODES = range(5)
JOURNAL = ".passwright-finished.jsonl"  # of a batch
CRASHED = "error: the command crashed ("  # which the supervisor of a command says
UNTRUE = "; the model declares "  # a shape that its output does not have, and on which the change relied


@dataclass
class Outcome:
    """The outcome of a case: its exit code, seconds, peak of memory in bytes, output, and broken promises."""

    case: Case
    code: int | None
    seconds: float
    memory: int
    stdout: str
    stderr: str
    seconds_after: float | None = None
    """Seconds between the signal or, in a case without one, the start and the end; None if it ended before a signal."""
    broken: list[str] = field(default_factory=list)
    changes_left_out: list[str] = field(default_factory=list)


class ForkedPopen(subprocess.Popen):  # type: ignore[type-arg]
    """A process of one of our workers as a fork of this one, in which all imports are done; others are started."""

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, *rest: Any) -> None:
        arguments = list(args) if not isinstance(args, str) else [args]
        if arguments[:3] != [sys.executable, "-P", "-c"]:
            super()._execute_child(args, executable, preexec_fn, *rest)  # type: ignore[misc]
            return
        env, streams = rest[3], rest[7:13]  # of close_fds, pass_fds, cwd, env, startupinfo, ..., p2cread, ..., errwrite
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite = streams
        self.pid = os.fork()
        if self.pid == 0:
            _become_worker(arguments[3:], env, p2cread, c2pwrite, errwrite, preexec_fn)
        self._child_created = True
        for ours, theirs in ((p2cwrite, p2cread), (c2pread, c2pwrite), (errread, errwrite)):
            if ours != -1:  # a pipe; a file belongs to the caller
                os.close(theirs)


def _become_worker(arguments: list[str], env: Any, stdin: int, stdout: int, stderr: int, preexec_fn: Any) -> None:
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a background job
        for fd, number in ((stdin, 0), (stdout, 1), (stderr, 2)):
            if fd >= 0:
                os.dup2(fd, number)
        os.closerange(3, 200)
        if env is not None:
            os.environ.update({k: v for k, v in env.items() if isinstance(k, str)})
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(i, m, closefd=False) for i, m in ((0, "r"), (1, "w"), (2, "w")))
        if preexec_fn is not None:
            preexec_fn()
        sys.argv = ["-c", *arguments[1:]]
        exec(arguments[0], {})
        code = 0
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 1
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def passes() -> None:
    """The command with its supervisor, and with the arguments in `sys.argv`."""
    from passwright.__main__ import main

    main()


def adopt_processes() -> None:
    """Become the parent of processes whose parent ends, as Linux allows."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@cache
def warm_up() -> None:
    """Import all that commands import, once for all cases, and adopt the processes that they leave."""
    adopt_processes()
    for folder in ("app", "core", "passes"):
        package = importlib.import_module(f"passwright.{folder}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with suppress(ImportError):
                importlib.import_module(module.name)
    for name in ("onnxruntime", "typer._adapters", "typer.rich_utils"):
        importlib.import_module(name)
    from passwright.core.plugins.pass_registry import all_rules
    from passwright.core.run.pipeline import leaves
    from passwright.passes.pipelines import PIPELINES

    for pipeline in PIPELINES.values():
        for found in leaves(pipeline):
            all_rules(found)
    gc.collect()
    gc.freeze()


def run_case(
    case: Case, root: Path, *, forked: bool = True, main: Callable[[], None] = passes, limit: float = TIME_LIMIT
) -> Outcome:
    """Run a case in a new folder below `root`, which is removed, and return what it did.

    `main` is the command in the fork; without one, `passes` is started as a process of its own.
    """
    folder = Path(tempfile.mkdtemp(dir=root))
    try:
        work, scratch = folder / "work", folder / "scratch"
        work.mkdir()
        scratch.mkdir()
        case.write(work)
        before = snapshot(work)
        started = time.monotonic()
        pid = _fork(case, work, folder, main) if forked else _start(case, work, folder)
        try:
            code, memory, signalled = _wait(pid, started, limit, case.ended_by if forked else _delayed(case.ended_by))
        except SystemExit:
            os.kill(pid, signal.SIGTERM)
            raise
        seconds = time.monotonic() - started
        outcome = Outcome(case, code, seconds, memory, _text(folder / "stdout"), _text(folder / "stderr"))
        outcome.seconds_after = seconds if case.ended_by is None else signalled and time.monotonic() - signalled
        outcome.broken = [
            *output_problems(outcome),
            *file_problems(before, snapshot(work), code),
            *left_processes(),
            *(
                f"left {p.name} in the folder for temporary files" for p in scratch.iterdir() if p.name != ".ses"
            ),  # see below
            *(f"left {p} " for p in SHARED_MEMORY.glob(f"passwright-{pid}-*")),
        ]
        report = work / "out" / "report.json"
        if report.is_file():
            for change in json.loads(report.read_text(encoding="utf-8"))["rejected"]:
                outcome.changes_left_out.append(
                    f"{change['by'] or change['pass_name']}: {change['failure_kind']}: {change['message']}"
                )
        return outcome
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 30, 4 << 30))


def _start(case: Case, work: Path, folder: Path) -> int:
    with (folder / "stdout").open("wb") as stdout, (folder / "stderr").open("wb") as stderr:
        script = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        script += "from passwright.__main__ import main; main()"
        return subprocess.Popen(
            [sys.executable, "-c", script, *case.arguments],
            cwd=work, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, preexec_fn=_limit,  # noqa: PLW1509 - this process has no threads of its own
            env=os.environ | {"TMPDIR": str(folder / "scratch")},
        ).pid  # fmt: skip


def _fork(case: Case, work: Path, folder: Path, main: Callable[[], None]) -> int:
    """Run the command in a fork of this process; returns its id."""
    warm_up()
    sys.stdout.flush()
    sys.stderr.flush()
    handlers = {n: signal.signal(n, signal.SIG_DFL) for n in (signal.SIGINT, signal.SIGTERM)}
    pid = os.fork()
    if pid:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        return pid
    code = 70
    try:
        for name, number in (("stdout", 1), ("stderr", 2)):
            os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.closerange(3, 200)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(i, m, closefd=False, encoding="utf-8") for i, m in ((0, "r"), (1, "w"), (2, "w"))
        )
        os.chdir(work)
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "scratch")
        _limit()
        atexit._clear()  # those of the parent, as the next two
        weakref.finalize._registry.clear()
        weakref.finalize._registered_with_atexit = False  # which the first object with a finalizer changes
        subprocess.Popen = ForkedPopen  # type: ignore[misc]
        sys.argv = ["passes", *case.arguments]
        try:
            main()
            code = 0
        except SystemExit as e:
            code = e.code if isinstance(e.code, int) else int(e.code is not None)
        atexit._run_exitfuncs()
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
        code = 1
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _delayed(ended_by: tuple[signal.Signals, float] | None) -> tuple[signal.Signals, float] | None:
    """A signal after the imports of a process of its own, which a fork has done."""
    return ended_by and (ended_by[0], ended_by[1] + 1.0)


def _wait(
    pid: int, started: float, limit: float, ended_by: tuple[signal.Signals, float] | None
) -> tuple[int | None, int, float | None]:
    """The exit code of a process, None if it did not end in time, the peak of memory with its children,

    and when it was sent a signal.
    """
    pause, signalled = 0.001, None
    while True:
        found, status, usage = os.wait4(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status), usage.ru_maxrss << 10, signalled
        now = time.monotonic()
        if ended_by and not signalled and now > started + ended_by[1]:
            os.kill(pid, ended_by[0])
            signalled = now
        if now > started + limit:
            os.kill(pid, signal.SIGKILL)
            _, _, usage = os.wait4(pid, 0)
            return None, usage.ru_maxrss << 10, signalled
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)


def left_processes(grace_period: float | None = None) -> list[str]:
    """The processes that a case left behind; they are ended."""
    end = time.monotonic() + (GRACE_PERIOD if grace_period is None else grace_period)
    while True:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        children = _children()
        if not children:
            return []
        if time.monotonic() > end:
            break
        time.sleep(0.02)
    names = [
        Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:80] for pid in children
    ]
    for pid in children:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)
    return [f"left the process {name}" for name in names]


def _children() -> list[int]:
    return [int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]


def snapshot(folder: Path) -> dict[str, str]:
    """The kind, mode and contents of all files below a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if stat.S_ISREG(info.st_mode) else ""
        found[str(path.relative_to(folder))] = f"{stat.filemode(info.st_mode)} {content}"
    return found


def file_problems(before: dict[str, str], after: dict[str, str], code: int | None) -> list[str]:
    """Files that changed, and results of commands that failed."""
    changed = sorted(p for p in before.keys() | after.keys() if before.get(p) != after.get(p))
    outside = [f"changed {p}" for p in changed if not p.startswith("out/")]
    hidden = [f"left {p}" for p in changed if Path(p).name.startswith(".") and Path(p).name != JOURNAL]
    written = [f"wrote {p} and ended with {code}" for p in changed if p == "out/o.onnx" and code != 0]
    return [*outside, *hidden, *written]


def output_problems(outcome: Outcome) -> list[str]:
    """Exit codes that are not documented, tracebacks, errors of several lines, control characters, too much memory."""
    found = list[str]()
    code, stderr = outcome.code, outcome.stderr
    everything = outcome.stdout + stderr
    if code is None:
        return [f"did not end within {outcome.seconds:.0f} s"]
    found += _end_problems(outcome, code)
    if "Traceback (most recent call last)" in everything:
        found.append(f"traceback: {everything.rstrip().splitlines()[-1]}")
    reports_difference = (*outcome.case.arguments[:1], code) in {("verify", 3), ("bisect", 3), ("diff", 1)}
    errors = [line for line in stderr.splitlines() if line.startswith("error: ")]
    if code in {1, 2, 3, 4} and not reports_difference:
        if len(errors) != 1 and "Usage: " not in stderr:
            found.append(f"{len(errors)} lines of error")
        if "-v" not in outcome.case.arguments and stderr.count("\n") != 1 and "Usage: " not in stderr:
            found.append(f"{stderr.count(chr(10))} lines on standard error")
    unsafe = sorted(
        {c for c in everything if (ord(c) < 32 and c != "\n") or ord(c) == 127 or c in "\u202e\u2028\u2066"}
    )
    if unsafe:
        found.append(f"control characters {unsafe}")
    if outcome.memory > (outcome.case.memory or MEMORY_CAP):
        found.append(f"{outcome.memory >> 20} MiB of memory")
    if code == 3 and not reports_difference and UNTRUE not in stderr:
        found.append("a wrong change: " + stderr.strip())
    return found


def _end_problems(outcome: Outcome, code: int) -> list[str]:
    """An end that is late, and a code that is neither documented nor stands for the signal that was sent."""
    case, after, found = outcome.case, outcome.seconds_after, list[str]()
    if after is not None and case.limit is not None and after > case.limit:
        begin = "signal" if case.ended_by else "start"
        found.append(f"ended {after:.1f} s after its {begin}, {case.limit:g} s are allowed")
    if CRASHED in outcome.stderr:
        found.append(outcome.stderr.strip())
    ends = set(EXIT_CODES)
    if case.ended_by and after is not None:
        ends.add(128 + case.ended_by[0])
        if outcome.seconds < STARTED:
            ends.add(-case.ended_by[0])
        if outcome.stderr.count("\n") > 1:
            found.append(f"{outcome.stderr.count(chr(10))} lines on standard error")
    return found if code in ends else [*found, f"exit code {code}"]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="backslashreplace") if path.exists() else ""
