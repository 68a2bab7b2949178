"""`check`: tests of rules against their contracts, on models generated from their patterns, and tests of passes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ...core.errors import UsageError
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import publish_text
from ...core.plugins.pass_registry import PassRegistry, registry_from_file
from ...core.proof.prover import RuleProof
from ...core.rewriting.rules import Rule
from ...core.run.pipeline import Pass, Pipeline, RulePass, leaves
from ...core.run.transforms import TransformPass
from ...core.support.printable_text import json_text
from ...core.verify.proof_guarantees import PROOFS, Guarantee
from ...passes.pipelines import BUILT_IN
from ...testing.check import CheckResult, default_prover, examine
from ...testing.fault_report import model_text, write_repro
from ...testing.model_comparison import ComparisonProcess
from ..registry.environment import versions
from ..registry.guarantees import OWN_PACKAGE
from ..registry.pass_sources import all_passes, find_subject
from ..registry.tool_pass import ToolPass
from ..report.number_text import plural
from ..report.progress import phase_callback
from .check_options import CheckOptions

EXAMPLES = Path(__file__).with_name("examples.json")
"""The smallest model for each built-in rule and pass, by name; see docs/catalogue/record.py."""


@cache
def _examples() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(EXAMPLES.read_text(encoding="utf-8"))
    return found


def built_in_examples(subject: Rule | Pass) -> list[str]:
    """The example of a built-in rule or pass as text; empty for other packages."""
    made = subject.build if isinstance(subject, Rule) else type(subject)
    if not made.__module__.startswith(OWN_PACKAGE):
        return []
    entry = _examples().get(subject.name)
    return [f'<ir_version: 10, opset_import: ["" : {entry["opset"]}]> {entry["text"]}'] if entry is not None else []


@dataclass(slots=True)
class CheckReport:
    """The results of checks.

    `subjects` are the names of all rules and passes to check; an interrupted check has finished only the first of them.
    `unchecked_passes` are transforms, passes of other tools, and built-in passes that were not named. `empty_files`
    maps files without anything to check to a description of their contents.
    """

    budget: int
    seed: int
    prove: bool = False
    subjects: list[str] = field(default_factory=list[str])
    checked: list[CheckResult] = field(default_factory=list[CheckResult])
    unchecked_passes: list[str] = field(default_factory=list[str])
    empty_files: dict[str, str] = field(default_factory=dict[str, str])
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

    @property
    def unfinished(self) -> list[str]:
        """The rules and passes that an interrupted check did not reach."""
        return self.subjects[len(self.checked) :]

    def to_json(self) -> str:
        """The report as JSON text."""
        data = {
            "budget": self.budget,
            "seed": self.seed,
            "proved": len(self.proved) if self.prove else None,
            "rules": [_result_data(c, self.repros.get(c.rule.name)) for c in self.checked],
            "not_checked": self.unchecked_passes,
            "unfinished": self.unfinished,
            "nothing_to_check": self.empty_files,
            "versions": versions(),
            "options": self.options,
        }
        return json_text(data)


def result_word(checked: CheckResult) -> str:
    """The result of a check as one word."""
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
        "not_run": dict(checked.run_errors.most_common()),
        "examples": checked.example_notes,
        "left_out": checked.left_out,
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


def check_rules(
    targets: Sequence[str], options: CheckOptions, on_result: Callable[[CheckReport], None] = lambda _: None
) -> CheckReport:
    """Check rules and passes from Python files or by name, or all built-in rules.

    Names select from the files, if files are given. `prove` adds proofs; `float32` then runs exact rules on every
    float32 value. `on_result` is called with the report after each result. An interrupted check writes its finished
    results. Raises UsageError, and PluginError for a file that cannot be loaded.
    """
    if options.float32 and not options.prove:
        raise UsageError("--float32 needs --prove")
    report = CheckReport(options.budget, options.seed, options.prove, options=options.chosen)
    files = [t for t in targets if is_file_path(t)]
    with options.with_operators(files):
        subjects = _subjects(targets, options, report)
        report.subjects = [subject.name for subject in subjects]
        paths = OutputPaths.of(report=options.json, repro_folder=options.repro)
        paths.require_distinct([*map(Path, files), *options.custom_operator_files])
        try:
            _check(subjects, options, report, on_result)
        except KeyboardInterrupt as e:
            e.add_note(f"{len(report.checked)} of {len(report.subjects)} were checked")
            if report.checked:
                _write(report, options, paths)
            raise
        _write(report, options, paths)
    return report


def _write(report: CheckReport, options: CheckOptions, paths: OutputPaths) -> None:
    """Write the counterexamples of wrong rules, and the report."""
    if options.repro is not None:
        report.repros = {
            c.rule.name: str(write_repro(c.rule, c.fault, Path(options.repro))) for c in report.wrong if c.fault
        }
    publish_text(paths.report, report.to_json)


Subjects = Mapping[Rule | Pass, Sequence[Rule]]
"""Rules, each with the rules of its passes, and other passes."""


def _subjects(targets: Sequence[str], options: CheckOptions, report: CheckReport) -> Subjects:
    """The rules and passes to check; adds passes that cannot be checked and empty files to the report."""
    rules, others = dict[Rule, list[Rule]](), dict[Rule | Pass, Sequence[Rule]]()
    for p in (leaf for whole in select_passes(targets, options, report.empty_files) for leaf in leaves(whole)):
        if isinstance(p, RulePass):
            for r in p.rules:
                rules.setdefault(r, []).extend(p.rules)
        elif isinstance(p, TransformPass | ToolPass) or (p in BUILT_IN and not targets):
            report.unchecked_passes.append(p.name)
        else:
            others[p] = ()
    return {**rules, **others}


def _check(
    subjects: Subjects, options: CheckOptions, report: CheckReport, on_result: Callable[[CheckReport], None]
) -> None:
    """Check rules and passes in sequence, and add each result to the report."""
    progress = phase_callback(options.progress)
    prover = default_prover(float32=options.float32) if options.prove else None
    with ComparisonProcess() as process:
        for number, (subject, beside) in enumerate(subjects.items(), 1):
            progress(f"{subject.name} ({number} of {len(subjects)})")
            checked = examine(
                subject,
                budget=options.budget,
                seed=options.seed,
                examples=built_in_examples(subject),
                other_rules=beside,
                compare=process,
                prover=prover,
                measure=process.measure,
            )
            report.checked.append(checked)
            on_result(report)


def select_passes(
    targets: Sequence[str], options: CheckOptions | None = None, empty_files: dict[str, str] | None = None
) -> list[Pass]:
    """Select passes from files and by name, keeping only named rules; `empty_files` gets files without passes.

    Raises UnknownNameError, PluginError and UsageError.
    """
    options = options or CheckOptions()
    files, names = [t for t in targets if is_file_path(t)], [t for t in targets if not is_file_path(t)]
    if not (targets or options.plugin or options.built_in):
        raise UsageError("nothing to check: name a Python file, a rule or a pass, or give --built-in")
    read = files if targets or options.built_in else list(map(str, options.plugin))
    found = {file: registry_from_file(Path(file)) for file in read}
    file_passes = {file: all_passes(registry) for file, registry in found.items()}
    in_files = [p for passes in file_passes.values() for p in passes]
    if not names:
        if empty_files is not None:
            empty_files.update((file, _contents(found[file])) for file, passes in file_passes.items() if not passes)
        return [*in_files, *(BUILT_IN if options.built_in else ())]
    only_files = bool(files) and not options.built_in
    searched = Pipeline("files", tuple(in_files) if only_files else ())
    plugins = None if only_files else [*files, *options.plugin]
    return [p for name in names for p in find_subject(name, searched, plugins).selection]


def _contents(registry: PassRegistry) -> str:
    """A description of a registry that has no passes."""
    found = [f"target {name} without decompositions of its own" for name in registry.targets]
    found += [f"pipeline {name} of other passes" for name in registry.pipelines]
    found += [f"analysis {name}" for name in registry.analyses]
    found += [plural(len(registry.kernels), "kernel")] if registry.kernels else []
    return ", ".join(found) or "an empty Plugin"


def is_file_path(target: str) -> bool:
    """Whether a target is a Python file rather than a name."""
    return target.endswith(".py") or "/" in target or "\\" in target
