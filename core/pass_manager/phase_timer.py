"""Where the time of a run goes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter


@dataclass(slots=True)
class PhaseTimer:
    """Seconds by phase; tells `progress` what is going on."""

    progress: Callable[[str], None]
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def phase(self, name: str) -> Generator[None]:
        """Time one phase; what comes again adds up."""
        self.progress(name)
        start = perf_counter()
        try:
            yield
        finally:
            self._add(name, perf_counter() - start)

    def transfer(self, name: str, other: str, seconds: float) -> None:
        """Book seconds of one phase on another, if there are any."""
        if seconds:
            self._add(name, -seconds)
            self._add(other, seconds)

    def _add(self, name: str, seconds: float) -> None:
        self.seconds[name] = round(self.seconds.get(name, 0.0) + seconds, 6)
