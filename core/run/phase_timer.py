"""Times of the phases of a run."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

from ..processes.watchdog import tell_time_limit

LOADING, CHOOSING_INPUTS, MEASURING = "loading", "choosing inputs", "measuring"
REWRITING, EXPORTING, WRITING, VISUALIZING = "rewriting", "exporting", "writing", "visualizing"
INSTRUMENTATION = "instrumentation"
RUNNING_ORIGINAL, COMPARING = "running the original", "comparing"
BISECTING, PROVING = "finding wrong changes", "proving"
DETAIL_SECONDS = 0.1  # between two reports of details
SHOWN_NAMES = {COMPARING: "verifying"}
VERIFICATION_PHASES = (RUNNING_ORIGINAL, COMPARING, BISECTING)


def seconds_of_verification(seconds: Mapping[str, float]) -> float:
    """The seconds of the verification phases, from those by phase."""
    return sum(seconds.get(phase, 0.0) for phase in VERIFICATION_PHASES)


@dataclass(slots=True)
class PhaseTimer:
    """Seconds by phase; each phase and its details are reported to `progress`; `current` is the latest phase."""

    progress: Callable[[str], None] = lambda _: None
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    current: str = field(default="loading", init=False)
    _inner: float = field(default=0.0, init=False)
    _reported: float = field(default=0.0, init=False)

    @contextmanager
    def phase(self, name: str) -> Generator[None]:
        """Time one phase; repetitions are added, and the time of an inner phase is not included."""
        self.progress(SHOWN_NAMES.get(name, name))
        self.current = name
        tell_time_limit()
        start, before = perf_counter(), self._inner
        self._inner = 0.0
        try:
            yield
        finally:
            elapsed = perf_counter() - start
            self._add(name, elapsed - self._inner)
            self._inner = before + elapsed

    @property
    def verification_seconds(self) -> float:
        """The seconds of the phases of verification so far."""
        return seconds_of_verification(self.seconds)

    def report(self, describe: Callable[[], str], *, phase: str = "", always: bool = False) -> None:
        """Report a detail of a phase, by default the current one, unless one was just reported."""
        now = perf_counter()
        if always or now - self._reported >= DETAIL_SECONDS:
            self._reported = now
            self.progress(f"{phase or SHOWN_NAMES.get(self.current, self.current)}: {describe()}")

    def transfer(self, name: str, other: str, seconds: float) -> None:
        """Move seconds from one phase to another, if both exist."""
        if seconds:
            self._add(name, -seconds)
            self._add(other, seconds)

    def _add(self, name: str, seconds: float) -> None:
        self.seconds[name] = round(self.seconds.get(name, 0.0) + seconds, 6)
