"""Runs a pipeline over a model, from a fresh start each time, so that a run can be repeated with changes left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from .errors import PassesError
from .ledger import Ledger
from .model import Model
from .pipeline import Pass, run_pass


@dataclass(frozen=True, slots=True)
class Manager:
    """`load` gives the unchanged model anew each time; passes are deterministic, so runs can be replayed."""

    load: Callable[[], Model]
    pipeline: Pass
    exact_only: bool = False
    forbidden: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])

    def run(
        self, model: Model | None = None, *, limit: int | None = None, record: bool = False
    ) -> tuple[Model, Ledger]:
        """The model after the pipeline, or after its first `limit` changes, and the ledger of that run.

        `model`, if given, must be as `load` gives it; it is rewritten in place.
        """
        model = self.load() if model is None else model
        ledger = Ledger(limit, self.forbidden, self.exact_only, record)
        try:
            run_pass(self.pipeline, model.graph, ledger)
        except PassesError as e:
            e.add_note(f"in pipeline {self.pipeline.name}, after {ledger.made} changes")
            raise
        return model, ledger
