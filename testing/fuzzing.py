"""Cases made from a rule's pattern, until one shows a fault; hypothesis then makes that one smaller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis.strategies import SearchStrategy

from ..core.errors import EvaluationError, ModelError, Unverifiable
from ..core.rewriting.rules import Rule
from .application import tried
from .case import Case
from .decline_reasons import reasons
from .fault import Fault
from .guided_search import hunt
from .model_comparison import Judge, judged
from .mutation import Tape, around

STEPS = 400  # cases tried to make the one that shows a fault smaller
UNCHECKED = (
    HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Budget:
    """How many `models` are made at most, and after how many that fired and ran it is `enough`."""

    models: int
    enough: int


@dataclass(slots=True)
class Tally:
    """How many `models` were made; on how many the rule `fired`, and of these how many `ran` before and after.

    `mute` says why the others did not run; `odd` counts what was made and is no model, `declined` what the
    rule said where it declined.
    """

    models: int = 0
    fired: int = 0
    ran: int = 0
    odd: int = 0
    mute: Counter[str] = field(default_factory=Counter[str])
    declined: Counter[str] = field(default_factory=Counter[str])


class _Shown(Exception):
    """A fault, on its way through hypothesis."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Examiner:
    """Tries a rule on cases, with the rules `beside` it too, and runs those on which it fires; `judge` compares."""

    rule: Rule
    judge: Judge
    examples: Sequence[onnx.ModelProto]
    beside: Sequence[Rule] = ()
    by_reference: bool = False

    def fault(self, case: Case, tally: Tally) -> Fault | None:
        """What is wrong on a case, if anything is; counted in `tally`."""
        try:
            trial = tried(self.rule, case, self.beside)
        except ModelError:
            tally.odd += 1
            return None
        if trial.after is None or trial.fault is not None:
            tally.declined.update(set(reasons(self.rule, case)) if trial.fault is None and not tally.fired else ())
            return trial.fault
        tally.fired += 1
        try:
            fault = judged(self.rule, case, trial.after, self.judge, by_reference=self.by_reference)
        except (Unverifiable, EvaluationError) as e:
            tally.mute[str(e)] += 1
            return None
        tally.ran += 1
        return fault

    def smallest(self, fault: Fault, tape: Tape, seed: int) -> Fault:
        """A smaller case than that of `tape` with a fault of the same kind, if hypothesis finds one."""
        known: dict[bytes, Fault | None] = {}

        def look(case: Case) -> None:
            key = case.model.SerializeToString(deterministic=True) + repr((case.place, case.must_stay)).encode()
            if key not in known:
                known[key] = self.fault(case, Tally()) if len(known) < STEPS else None
            found = known[key]
            if found is not None and found.kind == fault.kind:
                raise _Shown(found)

        try:
            _draw(look, around(self.rule, tape, self.examples), seed)
        except _Shown as shown:
            return shown.fault
        return fault


def search(examiner: Examiner, budget: Budget, seed: int) -> tuple[Tally, Fault | None]:
    """Try a rule on examples, then on models made from its pattern and from them; the first fault, on a smaller one.

    Where onnxruntime runs none of them, the reference evaluator of ONNX does. The same for the same `seed`.
    """
    tally, fault = _searched(examiner, budget, seed)
    if fault is not None or tally.ran or not tally.fired:
        return tally, fault
    return _searched(replace(examiner, by_reference=True), budget, seed)


def _searched(examiner: Examiner, budget: Budget, seed: int) -> tuple[Tally, Fault | None]:
    tally = Tally()
    for model in examiner.examples:
        tally.models += 1
        if (fault := examiner.fault(Case(model, "", ("an example",)), tally)) is not None:
            return tally, fault
    hunted = hunt(examiner.rule, seed=seed, examples=examiner.examples)
    for found in hunted.found(budget.models):
        fault = examiner.fault(found.case, tally)
        if fault is not None:
            tally.models += hunted.made
            return tally, examiner.smallest(fault, found.tape, seed)
        if tally.ran >= budget.enough:
            break
    tally.models += hunted.made
    return tally, None


def _draw(look: Callable[[Case], None], cases: SearchStrategy[Case], seed: int) -> None:
    """Have `look` called with cases; where it raises an Exception, once more with the smallest on which it does."""
    chosen = settings(
        max_examples=STEPS,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=UNCHECKED,
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
        print_blob=False,
    )

    def test(case: Case) -> None:
        look(case)

    run: Callable[[], Any] = seeded(seed)(chosen(given(case=cases)(test)))
    run()
