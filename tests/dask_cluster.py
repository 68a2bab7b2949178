"""A Dask cluster of processes on this machine, whose parts can be killed and started again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from process_faults import wait_until

if TYPE_CHECKING:
    from process_server import ProcessServer

SCHEDULER = """import sys
sys.modules["passwright"] = None
from distributed.cli.dask_scheduler import main
main()"""
"""A scheduler on a machine that lacks this package."""
WORKER = "from distributed.cli.dask_worker import main; main()"


class DaskCluster:
    """A scheduler and workers with one thread each, as processes on the loopback interface, with their logs.

    `options` are those of all their commands. The processes are forked by a `server`, if one is given.
    """

    def __init__(self, folder: Path, workers: int = 0, *options: str, server: ProcessServer | None = None) -> None:
        self.folder, self.options, self.server = folder, options, server
        self.processes = list[subprocess.Popen[bytes]]()
        self.scheduler = self.start_scheduler()
        self.workers = [self.start_worker() for _ in range(workers)]

    def start_scheduler(self, port: int = 0) -> subprocess.Popen[bytes]:
        file = self.folder / "scheduler.json"
        file.unlink(missing_ok=True)
        places = [
            "--dashboard-address",
            ":0",
            "--host",
            "127.0.0.1",
            "--port",
            str(port),
            "--scheduler-file",
            str(file),
        ]
        process = self._start("scheduler", [sys.executable, "-c", SCHEDULER, *places], {})
        wait_until(lambda: file.is_file() and file.read_text().endswith("}"))
        self.address: str = json.loads(file.read_text())["address"]
        return process

    def start_worker(self, *options: str, **variables: str) -> subprocess.Popen[bytes]:
        """Start a worker with more options and variables of the environment."""
        command = [sys.executable, "-c", WORKER, self.address, "--nthreads", "1", "--no-nanny"]
        command += ["--no-dashboard", "--host", "127.0.0.1", "--local-directory", str(self.folder / "dask")]
        return self._start(f"worker{len(self.processes)}", [*command, *options], variables)

    def _start(self, name: str, command: list[str], variables: dict[str, str]) -> subprocess.Popen[bytes]:
        command, env = [*command, *self.options], {**os.environ, **variables}
        with (self.folder / f"{name}.log").open("ab") as log, Path(os.devnull).open("rb") as nothing:
            if self.server is not None:
                process: Any = self.server.fork(command, [f.fileno() for f in (nothing, log, log)], env)
            else:
                process = subprocess.Popen(command, stdin=nothing, stdout=log, stderr=log, env=env)
        self.processes.append(process)
        return process

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process in self.processes:
            kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, as if its machine had lost power, and wait for its end."""
    process.kill()
    process.wait()
