"""Finalists of a search: its results, and each pipeline in the usual session, in one thread and in that found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from msgspec import Struct

from ...core.errors import PassesError
from ..measure.tuned_settings import ORIGINAL
from .decisions import ONE_THREAD, pipeline_choices
from .racing import LAST, RUNGS, RaceEntry
from .search import Choices, TuningSearch

TIED = 1.005  # the ratio of figures up to which the earlier finalist is taken: the last race resolves no less
CLOSE = 1.02  # the ratio to the best up to which a finalist is in the last race, too
MOST_LATE, MOST_CLOSE = 3, 3  # earlier results of the search, and finalists beside the original in the last race


def finalists(search: TuningSearch, pipelines: Iterable[str]) -> list[Choices]:
    """Choices in the order of preference, the original first, of which no two run the same.

    A pipeline may gain more in the session that was found for another one, and the best session may depend on chance:
    so each is raced with each. One thread, which decides most, may be better only with a pipeline that was found later.
    """
    session = without_denormals({d: c for d, c in search.chosen.items() if not c.is_of_model})
    sessions: list[Choices] = [{}, session]
    if search.objective.goal != "size":
        sessions.insert(1, {ONE_THREAD.decision: ONE_THREAD})
    made = [{c.decision: c} for c in pipeline_choices([p for p in pipelines if p != ORIGINAL], [])]
    late = [*search.history[-MOST_LATE:], search.chosen]
    wanted: list[Choices] = [{**choice, **session} for session in sessions for choice in ({}, *made)]
    wanted += [choices for step in late for choices in (without_denormals(step), step)]
    found: dict[str, Choices] = {}
    for choices in wanted:
        try:
            identity = search.race.identity(search.configuration(choices))
        except PassesError:  # the trial of this pipeline has the reason
            continue
        found.setdefault(identity, choices)
    return list(found.values())


def without_denormals(choices: Choices) -> Choices:
    """The choices without those that take denormals for zero, which changes values."""
    return {decision: c for decision, c in choices.items() if "denormals_as_zero" not in c.session}


class LastRace(Struct, frozen=True):
    """The finalists of the last race, the original first, with their figures, and the index of the `best`."""

    field: Sequence[Choices]
    raced: Sequence[RaceEntry]
    best: int


def race_finalists(search: TuningSearch, field: Sequence[Choices]) -> LastRace:
    """Race all finalists, then those which are close to the best once more, in fresh processes.

    The best one is surely better than the original; of those with as good a figure it is the first.
    """
    if len(field) > 1 + MOST_CLOSE:
        first = search.race([search.configuration(c) for c in field], RUNGS[-1])
        field = [field[n] for n in _closest(first.raced)]
    rung = LAST if len(field) > 1 else RUNGS[-1]
    raced = search.race([search.configuration(c) for c in field], rung).raced
    better = [n for n, r in enumerate(raced) if n and r.ratio is not None and r.ratio.high < 1 and search.is_allowed(r)]
    least = min((_figure(raced[n]) for n in better), default=inf)
    best = next((n for n in better if _figure(raced[n]) <= TIED * least), 0)
    return LastRace(field, raced, best)


def _closest(raced: Sequence[RaceEntry]) -> list[int]:
    """The first one, and the best of the others with those next to it, in order; of equal ones the first."""
    least = min(map(_figure, raced[1:]))
    near = [n for n in range(1, len(raced)) if _figure(raced[n]) <= CLOSE * least]
    order = sorted(near, key=lambda n: max(_figure(raced[n]), TIED * least))
    return [0, *sorted(order[:MOST_CLOSE])]


def _figure(raced: RaceEntry) -> float:
    return raced.ratio.ratio if raced.ratio is not None else inf
