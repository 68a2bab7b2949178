"""Interface of pools of workers, on this machine and on others."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol

from ...core.errors import PassesError
from ...core.processes.worker_process import WorkerError

Message = dict[str, Any]
"""An object of JSON."""
MEMORY, SECONDS = "memory", "seconds"
"""Keys of a request that a pool reads: the bytes that it needs, and the time after which its worker is ended."""
REPEATED = "repeated"
"""Key that a pool may add to the reply to a repeated request: the end of the first worker, in words."""
SHORTAGE = "shortage"
"""Key that a worker adds to its reply if the machine lacks something, such as space on a disk: that, in words."""


class PoolLost(PassesError):
    """All workers of a pool are lost, with the requests that have no reply yet."""


class RequestServer(Protocol):
    """The worker of a pool, in a process of its own."""

    def reply_to(self, request: Message) -> Message:
        """Serve a request."""
        ...


class Pool(Protocol):
    """Workers of one command, as of `module_command`, each of which serves one request at a time.

    A request is an object of JSON, and complete by itself: any worker can serve it, and serve it again. `running` are
    the numbers of the requests that are being served; `on_start` is called when there is another one, by any thread.
    """

    running: set[int]
    on_start: Callable[[], object]

    def replies(self, requests: Sequence[Message]) -> Generator[tuple[int, Message | WorkerError]]:
        """The number and the reply of each request, once each, in the order of their ends.

        A request whose worker crashed or was killed for being late is repeated once, by another worker; the reply is a
        WorkerError if that one ends, too, and costs no other request. The generator has to be closed: then all
        workers end, within seconds, and have the time to clean up. Raises PassesError if there is no worker at all, and
        PoolLost.
        """
        ...
