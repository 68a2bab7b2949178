"""`check`: rules, and whether they keep what they promise on models made from their own patterns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.io.output_paths import Places
from ...core.pass_manager.pass_selection import BadUsage
from ...core.pass_manager.pipeline import Pass, RulePass, leaves
from ...core.pass_manager.report import write_json
from ...core.plugins.pass_registry import Shelf, rules_of
from ...core.rewriting.rules import Rule
from ...passes.pipelines import BUILT_IN
from ...testing.check import BUDGET, Checked, examine
from ...testing.comparison_process import Isolated
from ...testing.fault_report import text
from ...testing.repro import write_repro
from ..environment import versions
from ..registry.pass_sources import given, known, search, unknown


@dataclass(frozen=True, slots=True)
class Chosen:
    """The rules to be checked, each with those of its passes, and the names of passes that have no patterns."""

    rules: dict[Rule, list[Rule]]
    others: list[str]

    @classmethod
    def of(cls, passes: Iterable[Pass]) -> Chosen:
        """The rules in passes, each once, and the passes that are none."""
        single = [leaf for p in passes for leaf in leaves(p)]
        rules: dict[Rule, list[Rule]] = {}
        for p in (p for p in single if isinstance(p, RulePass)):
            for r in p.rules:
                rules.setdefault(r, []).extend(p.rules)
        return cls(rules, [p.name for p in single if not isinstance(p, RulePass)])


@dataclass(slots=True)
class Checking:
    """What checking rules came to; `others` are passes that have no pattern to make models from."""

    budget: int
    seed: int
    checked: list[Checked] = field(default_factory=list[Checked])
    others: list[str] = field(default_factory=list[str])
    repros: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def wrong(self) -> list[Checked]:
        """Those that do not keep their promises."""
        return [c for c in self.checked if c.fault is not None]

    @property
    def untold(self) -> list[Checked]:
        """Those that were not put to the test."""
        return [c for c in self.checked if c.fault is None and not c.is_sound]

    def to_json(self) -> str:
        """All of it as JSON text."""
        told = {
            "budget": self.budget,
            "seed": self.seed,
            "rules": [_told(c, self.repros.get(c.rule.name)) for c in self.checked],
            "not_checked": self.others,
            "versions": versions(),
        }
        return json.dumps(told, indent=1, allow_nan=False)


def _told(checked: Checked, repro: str | None) -> dict[str, Any]:
    fault = checked.fault
    result = "wrong" if fault is not None else "sound" if checked.is_sound else "not told"
    said: dict[str, Any] = {
        "name": checked.rule.name,
        "contract": str(checked.rule.contract),
        "result": result,
        "models": checked.models,
        "fired": checked.fired,
        "ran": checked.ran,
        "seconds": round(checked.seconds, 3),
        "declined": checked.declined,
        "fault": None,
    }
    if fault is not None:
        draw = fault.mismatch.draw if fault.mismatch is not None else None
        said["fault"] = {
            "kind": fault.kind.name.lower(),
            "message": fault.message,
            "model": text(fault.case.model),
            "traits": list(fault.case.traits),
            "after": text(fault.after) if fault.after is not None else None,
            "inputs": str(draw) if draw is not None else None,
            "repro": repro,
        }
    return said


def check(
    targets: Sequence[str],
    *,
    built_in: bool = False,
    budget: int = BUDGET,
    seed: int = 0,
    report_to: Path | None = None,
    repro_to: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Checking:
    """Check the rules of Python files and rules and passes by name, or all that are built in.

    Names choose among what the files hold, where there are any. Raises BadUsage, and PluginError for a file that
    cannot be loaded.
    """
    chosen = choose(targets, built_in=built_in)
    Places(report=report_to, repros=repro_to).require([Path(t) for t in targets if is_file(t)])
    found = Checking(budget, seed, others=chosen.others)
    with Isolated() as judge:
        for number, (rule, beside) in enumerate(chosen.rules.items(), 1):
            progress(f"{rule.name} ({number} of {len(chosen.rules)})")
            found.checked.append(examine(rule, budget=budget, seed=seed, beside=beside, judge=judge))
    if repro_to is not None:
        found.repros = {c.rule.name: str(write_repro(c.rule, c.fault, repro_to)) for c in found.wrong if c.fault}
    if report_to is not None:
        write_json(found.to_json(), report_to)
    return found


def choose(targets: Sequence[str], *, built_in: bool = False) -> Chosen:
    """The rules that `targets` stand for. Raises UnknownName for a name that stands for none, and BadUsage."""
    files, names = [t for t in targets if is_file(t)], [t for t in targets if not is_file(t)]
    if not targets and not built_in:
        raise BadUsage("nothing to check: name a Python file, a rule or a pass, or say --built-in")
    shelves = given(files)
    mine = [found.item for shelf in shelves for found in shelf.passes.values()]
    if not names:
        return Chosen.of([*mine, *(BUILT_IN if built_in else ())])
    shelf = None if files and not built_in else known(shelves)
    return Chosen.of([p for name in names for p in _named(name, mine, shelf)])


def is_file(target: str) -> bool:
    """Whether a target is a Python file rather than a name."""
    return target.endswith(".py") or "/" in target or "\\" in target


def _named(name: str, mine: Sequence[Pass], shelf: Shelf | None) -> list[Pass]:
    """What goes by a name: the pass, or else the rule, alone in a pass; of `mine`, or with a shelf, of all there is.

    Raises UnknownName, and PluginError for what is broken under that name.
    """
    if shelf is not None:
        return search(name, shelf, lambda passes: _of_name(name, passes))
    found = _of_name(name, mine)
    if found is None:
        raise unknown(name, mine)
    return found


def _of_name(name: str, passes: Sequence[Pass]) -> list[Pass] | None:
    found = [leaf for p in passes for leaf in (p, *leaves(p)) if leaf.name == name]
    rules = [r for p in passes for r in rules_of(p) if r.name == name]
    return found[:1] or ([RulePass(name, (rules[0],))] if rules else None)
