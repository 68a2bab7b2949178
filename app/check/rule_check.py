"""`check`: tests of rules against their contracts, on models made from their patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.errors import UsageError
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import publish_text
from ...core.proof.prover import RuleProof
from ...core.rewriting.rules import Rule
from ...core.run.pipeline import Pass, Pipeline, RulePass, leaves
from ...core.support.printable_text import json_text
from ...core.verify.proof_guarantees import PROOFS, Guarantee
from ...passes.pipelines import BUILT_IN
from ...testing.check import CheckResult, default_prover, examine
from ...testing.fault_report import model_text, write_repro
from ...testing.model_comparison import ComparisonProcess
from ..options import with_process_options
from ..registry.environment import versions
from ..registry.pass_sources import find_subject, plugin_registries
from ..report.progress import phase_callback
from .check_options import CheckOptions


@dataclass(slots=True)
class CheckReport:
    """The results of checks; `unchecked_passes` have no patterns."""

    budget: int
    seed: int
    prove: bool = False
    checked: list[CheckResult] = field(default_factory=list[CheckResult])
    unchecked_passes: list[str] = field(default_factory=list[str])
    repros: dict[str, str] = field(default_factory=dict[str, str])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def proved(self) -> list[CheckResult]:
        """The rules with a proof."""
        return [c for c in self.checked if c.fault is None and c.proof is not None and c.proof.is_proved]

    @property
    def wrong(self) -> list[CheckResult]:
        """The rules that violate their contracts."""
        return [c for c in self.checked if c.fault is not None]

    @property
    def inconclusive(self) -> list[CheckResult]:
        """The rules that could not be tested."""
        return [c for c in self.checked if c.fault is None and not c.is_sound]

    def to_json(self) -> str:
        """The report as JSON text."""
        data = {
            "budget": self.budget,
            "seed": self.seed,
            "proved": len(self.proved) if self.prove else None,
            "rules": [_result_data(c, self.repros.get(c.rule.name)) for c in self.checked],
            "not_checked": self.unchecked_passes,
            "versions": versions(),
            "options": self.options,
        }
        return json_text(data)


def result_word(checked: CheckResult) -> str:
    """The result of a check in a word."""
    return "wrong" if checked.fault is not None else "sound" if checked.is_sound else "inconclusive"


def _result_data(checked: CheckResult, repro: str | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": checked.rule.name,
        "contract": str(checked.rule.contract),
        "result": result_word(checked),
        "models": checked.models,
        "fired": checked.fired,
        "ran": checked.ran,
        "seconds": round(checked.seconds, 3),
        "declined": dict(checked.decline_counts.most_common()),
        "fault": None,
        "proof": _proof_data(checked.proof) if checked.proof is not None else None,
    }
    if (fault := checked.fault) is not None:
        input_set = fault.mismatch.input_set if fault.mismatch is not None else None
        data["fault"] = {
            "kind": fault.kind.name.lower(),
            "message": fault.message,
            "model": model_text(fault.case.model),
            "traits": list(fault.case.traits),
            "after": model_text(fault.after) if fault.after is not None else None,
            "inputs": str(input_set) if input_set is not None else None,
            "repro": repro,
        }
    return data


def _proof_data(proof: RuleProof) -> dict[str, Any]:
    return {
        "guarantee": Guarantee.UNKNOWN if proof.unreached and proof.guarantee in PROOFS else proof.guarantee,
        "text": list(proof.lines()),
        "models": [
            {
                "build_site": m.build_site,
                "guarantee": m.best.guarantee,
                "verdicts": [{"technique": v.technique, "text": str(v)} for v in m.verdicts],
            }
            for m in proof.models
        ],
    }


@with_process_options
def check_rules(targets: Sequence[str], options: CheckOptions) -> CheckReport:
    """Check the rules of Python files and rules and passes by name, or all that are built in.

    Names select from the files, if there are any. With `prove`, results have proofs, and with `float32`
    exact rules are then run on every float32, too. Raises UsageError, and PluginError for a file that cannot be loaded.
    """
    if options.float32 and not options.prove:
        raise UsageError("--float32 needs --prove")
    passes = select_passes(targets, built_in=options.built_in)
    paths = OutputPaths.of(report=options.json, repro_folder=options.repro)
    paths.require_distinct([Path(t) for t in targets if is_file_path(t)])
    report = CheckReport(options.budget, options.seed, options.prove, options=options.chosen)
    progress = phase_callback(options.progress)
    rules: dict[Rule, list[Rule]] = {}  # each with the rules of its passes
    for p in (leaf for whole in passes for leaf in leaves(whole)):
        if isinstance(p, RulePass):
            for r in p.rules:
                rules.setdefault(r, []).extend(p.rules)
        else:
            report.unchecked_passes.append(p.name)
    prover = default_prover(float32=options.float32) if options.prove else None
    with ComparisonProcess() as process:
        for number, (rule, others) in enumerate(rules.items(), 1):
            progress(f"{rule.name} ({number} of {len(rules)})")
            checked = examine(
                rule, budget=options.budget, seed=options.seed, other_rules=others, compare=process, prover=prover
            )
            report.checked.append(checked)
    if options.repro is not None:
        report.repros = {
            c.rule.name: str(write_repro(c.rule, c.fault, Path(options.repro))) for c in report.wrong if c.fault
        }
    publish_text(paths.report, report.to_json)
    return report


def select_passes(targets: Sequence[str], *, built_in: bool = False) -> list[Pass]:
    """The passes of files and names, with named rules alone. Raises UnknownNameError, PluginError and UsageError."""
    files, names = [t for t in targets if is_file_path(t)], [t for t in targets if not is_file_path(t)]
    if not targets and not built_in:
        raise UsageError("nothing to check: name a Python file, a rule or a pass, or say --built-in")
    file_passes = tuple(found.item for registry in plugin_registries(files) for found in registry.passes.values())
    if not names:
        return [*file_passes, *(BUILT_IN if built_in else ())]
    only_files = bool(files) and not built_in
    searched = Pipeline("files", file_passes if only_files else ())
    subjects = [find_subject(name, searched, None if only_files else files) for name in names]
    return [p for subject in subjects for p in subject.selection]


def is_file_path(target: str) -> bool:
    """Whether a target is a Python file rather than a name."""
    return target.endswith(".py") or "/" in target or "\\" in target
