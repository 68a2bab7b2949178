"""`check`: rules, and whether they keep what they promise on models made from their own patterns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.io.output_paths import OutputPaths
from ...core.pass_manager.pass_selection import UsageError
from ...core.pass_manager.pipeline import Pass, RulePass, leaves
from ...core.pass_manager.report import write_json
from ...core.plugins.pass_registry import PassRegistry, all_rules
from ...core.rewriting.rules import Rule
from ...passes.pipelines import BUILT_IN
from ...testing.check import DEFAULT_BUDGET, CheckResult, examine
from ...testing.comparison_process import ComparisonProcess
from ...testing.fault_report import model_text, write_repro
from ..environment import versions
from ..registry.pass_sources import caller_registry, plugin_registries, search_passes, unknown_name_error


@dataclass(frozen=True, slots=True)
class RuleSelection:
    """The rules to be checked, each with those of its passes, and the names of passes that have no patterns."""

    rules: dict[Rule, list[Rule]]
    ruleless_passes: list[str]

    @classmethod
    def of(cls, passes: Iterable[Pass]) -> RuleSelection:
        """The rules in passes, each once, and the passes that are none."""
        single = [leaf for p in passes for leaf in leaves(p)]
        rules: dict[Rule, list[Rule]] = {}
        for p in (p for p in single if isinstance(p, RulePass)):
            for r in p.rules:
                rules.setdefault(r, []).extend(p.rules)
        return cls(rules, [p.name for p in single if not isinstance(p, RulePass)])


@dataclass(slots=True)
class CheckReport:
    """What checking rules came to; `others` are passes that have no pattern to make models from."""

    budget: int
    seed: int
    checked: list[CheckResult] = field(default_factory=list[CheckResult])
    unchecked_passes: list[str] = field(default_factory=list[str])
    repros: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def wrong(self) -> list[CheckResult]:
        """Those that do not keep their promises."""
        return [c for c in self.checked if c.fault is not None]

    @property
    def inconclusive(self) -> list[CheckResult]:
        """Those that were not put to the test."""
        return [c for c in self.checked if c.fault is None and not c.is_sound]

    def to_json(self) -> str:
        """All of it as JSON text."""
        told = {
            "budget": self.budget,
            "seed": self.seed,
            "rules": [_result_data(c, self.repros.get(c.rule.name)) for c in self.checked],
            "not_checked": self.unchecked_passes,
            "versions": versions(),
        }
        return json.dumps(told, indent=1, allow_nan=False)


def _result_data(checked: CheckResult, repro: str | None) -> dict[str, Any]:
    fault = checked.fault
    result = "wrong" if fault is not None else "sound" if checked.is_sound else "inconclusive"
    said: dict[str, Any] = {
        "name": checked.rule.name,
        "contract": str(checked.rule.contract),
        "result": result,
        "models": checked.models,
        "fired": checked.fired,
        "ran": checked.ran,
        "seconds": round(checked.seconds, 3),
        "declined": checked.decline_counts,
        "fault": None,
    }
    if fault is not None:
        draw = fault.mismatch.input_set if fault.mismatch is not None else None
        said["fault"] = {
            "kind": fault.kind.name.lower(),
            "message": fault.message,
            "model": model_text(fault.case.model),
            "traits": list(fault.case.traits),
            "after": model_text(fault.after) if fault.after is not None else None,
            "inputs": str(draw) if draw is not None else None,
            "repro": repro,
        }
    return said


def check(
    targets: Sequence[str],
    *,
    built_in: bool = False,
    budget: int = DEFAULT_BUDGET,
    seed: int = 0,
    report_to: Path | None = None,
    repro_to: Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> CheckReport:
    """Check the rules of Python files and rules and passes by name, or all that are built in.

    Names choose among what the files hold, where there are any. Raises UsageError, and PluginError for a file that
    cannot be loaded.
    """
    chosen = select_rules(targets, built_in=built_in)
    OutputPaths(report=report_to, repro_folder=repro_to).require_writable([Path(t) for t in targets if is_file_path(t)])
    found = CheckReport(budget, seed, unchecked_passes=chosen.ruleless_passes)
    with ComparisonProcess() as judge:
        for number, (rule, beside) in enumerate(chosen.rules.items(), 1):
            progress(f"{rule.name} ({number} of {len(chosen.rules)})")
            found.checked.append(examine(rule, budget=budget, seed=seed, other_rules=beside, compare=judge))
    if repro_to is not None:
        found.repros = {c.rule.name: str(write_repro(c.rule, c.fault, repro_to)) for c in found.wrong if c.fault}
    if report_to is not None:
        write_json(found.to_json(), report_to)
    return found


def select_rules(targets: Sequence[str], *, built_in: bool = False) -> RuleSelection:
    """The rules that `targets` stand for. Raises UnknownNameError for a name that stands for none, and UsageError."""
    files, names = [t for t in targets if is_file_path(t)], [t for t in targets if not is_file_path(t)]
    if not targets and not built_in:
        raise UsageError("nothing to check: name a Python file, a rule or a pass, or say --built-in")
    shelves = plugin_registries(files)
    mine = [found.item for shelf in shelves for found in shelf.passes.values()]
    if not names:
        return RuleSelection.of([*mine, *(BUILT_IN if built_in else ())])
    shelf = None if files and not built_in else caller_registry(shelves)
    return RuleSelection.of([p for name in names for p in _passes_named(name, mine, shelf)])


def is_file_path(target: str) -> bool:
    """Whether a target is a Python file rather than a name."""
    return target.endswith(".py") or "/" in target or "\\" in target


def _passes_named(name: str, file_passes: Sequence[Pass], registry: PassRegistry | None) -> list[Pass]:
    """The pass of a name, or else the rule, alone in a pass: of `file_passes`, or of all in a registry if one is given.

    Raises UnknownNameError, and PluginError for what is broken under that name.
    """
    if registry is not None:
        return search_passes(name, registry, lambda passes: _with_name(name, passes))
    found = _with_name(name, file_passes)
    if found is None:
        raise unknown_name_error(name, file_passes)
    return found


def _with_name(name: str, passes: Sequence[Pass]) -> list[Pass] | None:
    found = [leaf for p in passes for leaf in (p, *leaves(p)) if leaf.name == name]
    rules = [r for p in passes for r in all_rules(p) if r.name == name]
    return found[:1] or ([RulePass(name, (rules[0],))] if rules else None)
