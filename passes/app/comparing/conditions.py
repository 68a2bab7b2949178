"""Under which conditions models are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ....core.measure.provider import Provider
from ....core.measure.race import Effort
from ....core.sessions import Setting
from .compared import Row


@dataclass(frozen=True, slots=True)
class Conditions:
    """Under which everything is measured: `threads` of onnxruntime, 0 for as many as there are cores.

    `is_timed` says of a row that has been judged whether it is worth the time.
    """

    threads: int = 0
    provider: Provider = field(default_factory=Provider)
    batches: Sequence[int] = (1,)
    effort: Effort = field(default_factory=Effort)
    is_timed: Callable[[Row], bool] = lambda _: True

    def setting(self, level: str) -> Setting:
        """As users have it, apart from the level."""
        return self.provider.setting(level, self.threads)


AS_USERS_HAVE_IT = Conditions()
