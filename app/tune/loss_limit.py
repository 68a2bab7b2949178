"""Losses of configurations that intentionally differ: other precisions, and quantized models in other engines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from ...core.errors import PassesError, VerificationError
from ...core.ort.sessions import SessionConfig
from ..measure.agreement import Score, score_text
from ..measure.criterion import Criterion
from ..measure.tuned_settings import Configuration
from ..quantize.samples import Criteria


def has_loss(configuration: Configuration) -> bool:
    """Whether the results of a configuration intentionally differ from the original's beyond rounding."""
    return configuration.session.is_lossy or bool(configuration.recipe.scheme)


def has_own_loss(configuration: Configuration) -> bool:
    """Whether the session adds to that loss; `quantize` measures its models in onnxruntime."""
    return has_loss(configuration) and not configuration.session.is_onnxruntime


@dataclass
class LossLimit:
    """A `budget` for the loss of configurations, by the criteria of `quantize`, which are computed when needed."""

    make_criteria: Callable[[], Criteria]
    budget: str = ""
    _scores: dict[tuple[str, SessionConfig], Score] = field(default_factory=dict[tuple[str, SessionConfig], Score])

    @cached_property
    def _criteria(self) -> Criteria:
        return self.make_criteria()

    def require_within(self, model: Path, digest: str, session: SessionConfig) -> None:
        """Raise PassesError if a model in a session is over the budget on the search samples."""
        computed = SessionConfig(
            engine=session.engine, precision=session.precision, provider_options=session.provider_options
        )  # threads and streams change results only by rounding
        criterion, key = self._criteria.searched, (digest, computed)
        if key not in self._scores:
            self._scores[key] = criterion.score(model, computed)
        score = self._scores[key]
        if score.failure:
            raise PassesError(f"in {session.engine_name}, {score.failure}")
        if not criterion.allows(score):
            raise PassesError(f"over the budget in {session.engine_name}: {_figure_text(criterion, score)}")

    def unseen_loss(self, model: Path, session: SessionConfig) -> str:
        """The loss on unseen samples, in words. Raises VerificationError if it is over the budget."""
        score, excess = self._criteria.excess(model, session)
        if excess:
            raise VerificationError(f"over the budget in {session.engine_name} {excess}")
        return f"{_figure_text(self._criteria.reported, score)}, on inputs that the search did not see"


def _figure_text(criterion: Criterion, score: Score) -> str:
    """The figure of a score, compared with the original's, and the noise if the figure is another one."""
    before = score_text(criterion.name, Score(criterion.reference, 0.0))
    against = f", the original's {before}" if before else ""
    has_noise = score.snr is not None and not criterion.name.startswith("SNR")
    noise = f", SNR {score.snr:.1f} dB" if has_noise else ""
    return f"{criterion.name} {score_text(criterion.name, score) or 'without difference'}{against}{noise}"
