"""Results of checks of rules, and reports of faults: the smallest model, inputs, and outputs before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent
from typing import Any, cast

import numpy as np
import onnx
from onnx import printer

from ..core.errors import EvaluationError, ModelError
from ..core.io.writer import encode_text, write_files
from ..core.ir.op_schemas import is_foreign, known_domains
from ..core.ort.backends import Arrays, LoadedModel
from ..core.processes.custom_operators import CustomOperators, custom_operators, with_custom_operators
from ..core.proof.prover import RuleProof
from ..core.rewriting.rules import EXACT, Rule
from ..core.support.author_errors import describe_exception
from ..core.support.printable_text import file_name, printable_lines
from ..core.support.python_files import FILE_MODULE_PREFIX
from ..core.support.suggestions import did_you_mean
from ..core.verify.reference.float64_evaluation import evaluate_in_float64, evaluate_rounded
from ..core.verify.reference.judgement import IN_OWN_TYPES
from .case import Fault
from .model_comparison import contract_in

MAX_REASONS = 3
LINE_WIDTH = 100
MAX_SHOWN_ELEMENTS = 24  # elements of an array that is shown in full; larger ones are shortened


@dataclass(slots=True)
class CheckResult:
    """The result of checking a rule, or a pass whose facts `rule` has.

    It fired on `fired` of `models`, of which `ran` ran in onnxruntime. `decline_counts` counts its reasons to decline
    if it never fired, `run_errors` the reasons why models with it did not run. `example_notes` say which examples of
    the author do not fire, and why. `left_out` is the first difference that its contract allows but because of which a
    run skips the rewrite; "" if none was found. `operators` are the custom operators of the check, `fired_models` the
    first models on which it fired and that ran, `proof` is the proof of the rule on them, if one was requested.

    Examples:
        >>> result = examine(drop_relu, budget=20)
        >>> result.models >= result.fired >= result.ran > 0
        True
    """

    rule: Rule
    models: int = 0
    fired: int = 0
    ran: int = 0
    seconds: float = 0.0
    fault: Fault | None = None
    decline_counts: Counter[str] = field(default_factory=Counter[str])
    run_errors: Counter[str] = field(default_factory=Counter[str])
    example_notes: list[str] = field(default_factory=list[str])
    left_out: str = ""
    operators: CustomOperators | None = field(default_factory=custom_operators, repr=False)
    fired_models: list[onnx.ModelProto] = field(default_factory=list[onnx.ModelProto], repr=False)
    proof: RuleProof | None = None

    @property
    def is_sound(self) -> bool:
        """Whether the rule ran on models without a fault."""
        return self.fault is None and self.ran > 0

    def __bool__(self) -> bool:
        """Whether the rule is sound."""
        return self.is_sound

    @property
    def report(self) -> str:
        """A full report of the fault, with a test; or one line about the result."""
        name = self.rule.name
        if self.fault is not None:
            with with_custom_operators(self.operators):
                return "\n".join([format_fault(self.rule, self.fault), *self.proof_lines])
        if self.is_sound:
            return "\n".join([f"{name} keeps its contract on {self.ran} models", *self.proof_lines])
        if self.fired:
            why = _most_common(self.run_errors, "for no reason that is known")
            said = f"{name} fired on {self.fired} models, none of which runs ({why}): give examples that do"
        else:
            usual = "its pattern matched nowhere" if self.rule.patterns else "it changed none of them"
            domains = {p.domain for pattern in self.rule.patterns for p in pattern.walk() if is_foreign(p.domain)}
            usual += "".join(f", as for ops of {d}{did_you_mean(d, known_domains())}" for d in sorted(domains))
            why = _most_common(self.decline_counts, usual)
            said = f"{name} never fired in {self.models} models ({why}): give examples in which it does"
        return "\n".join([said, *(f"    {note}" for note in self.example_notes)])

    @property
    def proof_lines(self) -> list[str]:
        """The proof as text, indented; empty if none was requested."""
        return [f"    {line}" for line in self.proof.lines()] if self.proof is not None else []


def _most_common(reasons: Counter[str], otherwise: str) -> str:
    return "; ".join(why for why, _ in reasons.most_common(MAX_REASONS)) or otherwise


def describe_decline(why: Exception, rule: Rule) -> str:
    """The reason for a decline, with the line in the file of the rule."""
    return describe_exception(why, rule.build.__code__).removeprefix(f"{type(why).__name__}: ")


def format_fault(rule: Rule, fault: Fault) -> str:
    """The full report of a fault."""
    contract = str(contract_in(rule, fault.case.model))
    if contract == str(EXACT) and fault.mismatch is not None and not fault.exact:
        contract += " (within rounding in 16-bit floats)"
    traits = f" ({', '.join(fault.case.traits)})" if fault.case.traits else ""
    return "\n".join([
        f"{rule.name} {fault.kind}: {fault.message}",
        f"    {rule.equation}    contract: {contract}",
        *_section(f"the model{traits}:", model_text(fault.case.model)),
        *(_section("the rewritten model:", model_text(fault.after)) if fault.after is not None else ()),
        *_inputs_and_outputs(fault),
        *_section("a test:", pytest_snippet(rule, fault)),
    ])  # fmt: skip


def model_text(model: onnx.ModelProto) -> str:
    """A model in ONNX's text format."""
    return printer.to_text(model).strip()


def pytest_snippet(rule: Rule, fault: Fault) -> str:
    """A pytest test that checks the rule, or the pass, on this model first."""
    if not rule.patterns:
        module, (made, *method) = (
            rule.build.__module__.removeprefix(FILE_MODULE_PREFIX), rule.build.__qualname__.split("."),
        )  # fmt: skip
        call = f"{made}()" if method else made  # of a class, or a function that @networkx_pass turned into a pass
        return _snippet([f"from {module} import {made}"], fault, made, f"check_pass({call}, examples=[MODEL])")
    others = f", other_rules=[{', '.join(r.name for r in fault.other_rules)}]" if fault.other_rules else ""
    sources = ((r.build.__module__.removeprefix(FILE_MODULE_PREFIX), r.name) for r in (rule, *fault.other_rules))
    imports = [f"from {module} import {name}" for module, name in sources]
    return _snippet(imports, fault, rule.name, f"check_rule({rule.name}, examples=[MODEL]{others})")


def _snippet(imports: list[str], fault: Fault, name: str, call: str) -> str:
    return "\n".join([
        *imports,
        f"from passwright.testing import {call.partition('(')[0]}",
        "",
        'MODEL = """',
        model_text(fault.case.model).replace("\\", "\\\\"),
        '"""',
        "",
        f"def test_{name}():",
        f"    {call}",
    ])  # fmt: skip


def _section(title: str, body: str) -> list[str]:
    return [title, indent(body, "    ")]


def _inputs_and_outputs(fault: Fault) -> Iterator[str]:
    """Lines with the inputs, and the outputs of both models."""
    if fault.mismatch is None or fault.mismatch.input_set is None:
        return
    given = fault.mismatch.input_set.feeds
    yield from _section(f"inputs ({fault.mismatch.input_set}):", _format_arrays(given.items()))
    outputs = [v.name for v in fault.case.model.graph.output]
    shown = [fault.mismatch.output] if fault.mismatch.output else outputs
    made: list[Sequence[Any]] = []
    for title, model in (("before:", fault.case.model), ("after:", fault.after)):
        if model is None:
            continue
        try:
            results = LoadedModel(model.SerializeToString()).run(shown, given)
        except EvaluationError as e:
            yield from _section(title, str(e))
        else:
            made.append(results)
            yield from _section(title, _format_arrays(zip(shown, results, strict=True)))
    if fault.after is not None and IN_OWN_TYPES in fault.message:
        with suppress(EvaluationError):
            rounded = evaluate_rounded(fault.after, given, shown)
            yield from _section(f"after, {IN_OWN_TYPES}:", _format_arrays(rounded.items()))
    if len(made) == 2 and _alone_follows_onnx(
        fault.case.model, given, dict(zip(shown, zip(*made, strict=True), strict=True))
    ):
        yield "onnxruntime computes the model otherwise than ONNX defines it, and the rewritten model as defined:"
        yield "    declare contract=ROUNDING, which is judged by the definition too, or decline these element types"


def _alone_follows_onnx(model: onnx.ModelProto, feeds: Arrays, results: Mapping[str, tuple[Any, Any]]) -> bool:
    """Whether only the integers or bools after the rewrite, and not those before, are what ONNX defines."""
    if any(np.asarray(before).dtype.kind not in "iub" for before, _ in results.values()):
        return False
    try:
        defined = evaluate_in_float64(model, feeds, list(results))
    except EvaluationError:
        return False
    follows = [tuple(np.array_equal(defined[n].value, v) for v in pair) for n, pair in results.items()]
    return all(after for _, after in follows) and not all(before for before, _ in follows)


def _format_arrays(named: Iterable[tuple[str, Any]]) -> str:
    return "\n".join(f"{name} = {_format_array(value)}" for name, value in named)


def _format_array(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return repr(value)
    array = cast("np.ndarray[Any, Any]", value)
    numbers = np.array2string(
        array, max_line_width=LINE_WIDTH, threshold=MAX_SHOWN_ELEMENTS, separator=", ", floatmode="unique"
    )
    return f"{array.dtype}{list(array.shape)} {' '.join(numbers.split())}"


def write_repro(rule: Rule, fault: Fault, root: Path) -> Path:
    """Write the models before and after, the inputs and the report to a folder named after the rule.

    Existing files with these names are overwritten. Raises ModelError if a file cannot be written.
    """
    folder = root / file_name(rule.name)
    shown = fault.mismatch.input_set if fault.mismatch is not None else None
    feeds: Mapping[str, Any] = shown.feeds if shown is not None else {}
    arrays: dict[str, Any] = {name: a for name, a in feeds.items() if isinstance(a, np.ndarray)}
    files: dict[str, Any] = {"before.onnx": fault.case.model, "after.onnx": fault.after, "inputs.npz": arrays}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in (*files, "README.md"):
            (folder / name).unlink(missing_ok=True)
        write_files(folder, {name: content for name, content in files.items() if content is not None})
        (folder / "README.md").write_bytes(encode_text(printable_lines(format_fault(rule, fault)) + "\n"))
    except OSError as e:
        raise ModelError(f"cannot write a repro to {folder}: {e.strerror}") from e
    return folder
