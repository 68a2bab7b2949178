"""Reports and plans of runs, and hints on passes that would change the result if enabled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec import Struct, to_builtins

from ..errors import PluginError, plugin_failures
from ..io.model import Model
from ..ir.graph import Graph, constant_bytes, is_counted
from ..ir.op_schemas import ONNX_DOMAIN, qualified_op_type, split_op_type
from ..rewriting.change_log import Change, ChangeLog
from ..rewriting.rules import Rule
from ..support.confidence_intervals import RatioInterval
from ..support.printable_text import json_text
from ..verify.proof_guarantees import ProofCounts
from ..verify.verdict import Verdict
from .failures import RejectedChange
from .pipeline import Fixpoint, Pass, Pipeline, RulePass, leaves, rules_in
from .target import TargetFit
from .transforms import SkippedPass, definition


class Savings(Struct, frozen=True):
    """Savings, negative for growth: nodes (including subgraphs, without Constant ops) and bytes of constants."""

    nodes: int = 0
    weight_bytes: int = 0

    @classmethod
    def of_change(cls, change: Change) -> Savings:
        """The savings of one change."""
        return cls(change.nodes_saved, change.weight_bytes_saved)

    def __add__(self, other: Savings) -> Savings:
        return Savings(self.nodes + other.nodes, self.weight_bytes + other.weight_bytes)

    def __sub__(self, other: Savings) -> Savings:
        return Savings(self.nodes - other.nodes, self.weight_bytes - other.weight_bytes)


class RuleSavings(Struct, frozen=True):
    """The total savings of one rule, or of one pass without rules."""

    pass_name: str
    by: str
    changes: int
    saved: Savings


class ChangePlan(Struct, frozen=True):
    """All `changes` in order, and the savings of each rule or pass, most nodes first.

    `saved` is their sum. `unattributed` are savings outside recorded changes, which are 0 unless a pass bypasses the
    graph's mutators. Bytes of nodes and names are in neither, but are in the sizes of the files.
    """

    changes: list[Change]
    shares: list[RuleSavings]
    saved: Savings
    unattributed: Savings

    @classmethod
    def of(cls, changes: Sequence[Change], before: Savings, after: Savings) -> ChangePlan:
        """The plan for changes with recorded sizes; `before` and `after` are the sizes of the model."""
        shares: dict[tuple[str, str], RuleSavings] = {}
        for c in changes:
            known = shares.get((c.pass_name, c.by), RuleSavings(c.pass_name, c.by, 0, Savings()))
            saved = known.saved + Savings.of_change(c)
            shares[c.pass_name, c.by] = RuleSavings(c.pass_name, c.by, known.changes + 1, saved)
        ordered = sorted(shares.values(), key=lambda s: (-s.saved.nodes, -s.saved.weight_bytes))
        saved = sum((s.saved for s in ordered), Savings())
        return cls(list(changes), ordered, saved, before - after - saved)


def graph_size(graph: Graph) -> Savings:
    """The size of a graph, as its maximum savings. O(V)."""
    return Savings(sum(op_histogram(graph).values()), constant_bytes(graph))


class Stats(Struct, frozen=True):
    """The size of a model: ops by type (including subgraphs, without Constant), nodes, elements of initializers, bytes.

    `opset` is the opset of the standard domain, or 0.
    """

    ops: dict[str, int]
    nodes: int
    parameters: int
    bytes: int
    opset: int = 0

    @classmethod
    def of(cls, model: Model, size: int) -> Stats:
        """Count `model`, which takes `size` bytes."""
        ops = op_histogram(model.graph)
        parameters = sum(t.size for _, t in model.written_initializers())
        return cls(ops, sum(ops.values()), parameters, size, model.graph.opsets.get(ONNX_DOMAIN, 0))


def op_histogram(graph: Graph) -> dict[str, int]:
    """The number of ops by type in a graph and its subgraphs, without Constant; `domain.type` for other domains."""
    ops = (op for g in graph.with_subgraphs() for op in g.ops() if is_counted(op))
    return dict(sorted(Counter(qualified_op_type(op.domain, op.type) for op in ops).items()))


class PassRecord(Struct, frozen=True):
    """Changes by rule and seconds of one pass over the whole run."""

    name: str
    changes: int
    rules: dict[str, int]
    seconds: float


class DeclineReason(Struct, frozen=True):
    """A reason why a rule or pass made no change, with an `example` place, and the number of its places.

    Reasons that differ only in numbers and names of operands are merged.
    """

    reason: str
    places: int
    example: str


class RuleStatistics(Struct, frozen=True):
    """Counts of a rule in a run: `tries` at ops, `matches` that it rewrote or declined, and `changes`."""

    name: str
    tries: int
    matches: int
    changes: int
    seconds: float
    declines: list[DeclineReason]


class PassStatistics(Struct, frozen=True):
    """Counts of a pass in a run, and of its rules; `declines`: of a pass without rules, in its last run."""

    name: str
    runs: int
    changes: int
    seconds: float
    rules: list[RuleStatistics]
    declines: list[DeclineReason]


class StopPoint(Struct, frozen=True):
    """The point at which a run stopped: after `changes` of the `requested` number; the last change is also given.

    A run that ended by itself made fewer changes.
    """

    requested: int
    changes: int
    pass_name: str = ""
    by: str = ""
    place: str = ""

    @classmethod
    def of(cls, requested: int, change_log: ChangeLog) -> StopPoint:
        """The end of a run whose changes are recorded."""
        last = next(reversed(change_log.changes), None)
        made = (last.pass_name, last.by, last.place) if last is not None else ()
        return cls(requested, change_log.change_count, *made)

    def __str__(self) -> str:
        who = self.by if self.by == self.pass_name else f"{self.pass_name}/{self.by}"
        last = f"; the last is {who} {f'at {self.place}' if self.place else 'as a whole'}" if self.by else ""
        if self.changes < self.requested:
            return f"did not stop: there are {self.changes} changes, fewer than {self.requested}{last}"
        return f"stopped after {self.changes} change{'s' * (self.changes != 1)}{last}"


class PipelineRace(Struct, frozen=True):
    """The latency of a pipeline's result, divided by the latency of the original, both under ORT ALL.

    `ratio` is None if there is a `failure`, the reason why one of them could not be measured.
    """

    pipeline: str
    ratio: RatioInterval | None = None
    failure: str = ""
    is_lost: bool = False


class SpeedCheck(Struct, frozen=True):
    """The races of a run in order: of the chosen pipeline and, if it lost, of its fallbacks.

    `threads` are the threads of onnxruntime; `sizes` has the symbolic dims in the inputs, except the batch.
    """

    races: list[PipelineRace]
    threads: int
    sizes: dict[str, int]

    @property
    def lost(self) -> list[PipelineRace]:
        """The results that were slower than the original, and discarded."""
        return [race for race in self.races if race.is_lost]


class MissingOperators(Struct, frozen=True):
    """The number of places for an operator that was added after the model's opset."""

    op_type: str
    since: int
    places: int

    @classmethod
    def of(cls, change_log: ChangeLog, opset: int) -> list[MissingOperators]:
        """The operators for whose lack rules declined in a run whose result has that opset, earliest opset first."""
        found = (cls(op_type, since, len(places)) for (op_type, since), places in change_log.missing_operators.items())
        return sorted((m for m in found if m.since > opset), key=lambda m: (m.since, m.op_type))


class TransformRecord(Struct, frozen=True):
    """A transform of the model before the run, and the number of its changes."""

    name: str
    changes: int


class RunHint(Struct, frozen=True):
    """A pass that would change the result, with a description of the gain and the `option` that enables it."""

    pass_name: str
    text: str
    option: str

    def __str__(self) -> str:
        return f"{self.text}: {self.option}"


@dataclass(slots=True)
class Report:
    """The report of a run.

    Attributes:
        seconds: times by phase; `plan` has an entry for each change.
        pipeline: the pipeline that made the result: a fallback, or `none` for the original, if others lost in `speed`.
        notes: notes of passes, such as ops that could not be folded.
        missing_operators: operators of later opsets that would replace parts of the result.
        overridable_initializers: the number of initializers that are also inputs, and therefore not constants.
        transforms: changes made first; the result was compared with the transformed model.
        before: the size of the file.
        hints: passes that would change the result.
        guarantees: the number of changes by the guarantees of their rules; `proofs` are of changed regions.
        stop: where the run ended, and `statistics` its counts, if requested.
        written_to: the file of the result; None if it was not written, for example because nothing changed.
        target: the ops that the requested target does not support.

    Examples:
        >>> report = optimize(model).report
        >>> report.before.nodes - report.after.nodes, report.has_changes, report.rejected
        (1, True, [])
    """

    source: str
    pipeline: str
    before: Stats
    after: Stats
    passes: list[PassRecord]
    verification: Verdict | None
    rejected: list[RejectedChange] = field(default_factory=list[RejectedChange])
    replays: int = 0
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    plan: ChangePlan | None = None
    unfit: list[SkippedPass] = field(default_factory=list[SkippedPass])
    speed: SpeedCheck | None = None
    notes: list[str] = field(default_factory=list[str])
    missing_operators: list[MissingOperators] = field(default_factory=list[MissingOperators])
    overridable_initializers: int = 0
    transforms: list[TransformRecord] = field(default_factory=list[TransformRecord])
    hints: list[RunHint] = field(default_factory=list[RunHint])
    written_to: str | None = None
    guarantees: dict[str, int] = field(default_factory=dict[str, int])
    proofs: ProofCounts | None = None
    stop: StopPoint | None = None
    statistics: list[PassStatistics] = field(default_factory=list[PassStatistics])
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    target: TargetFit | None = None

    def __repr__(self) -> str:
        sizes = f"{self.before.nodes} -> {self.after.nodes} nodes"
        return f"<Report of {self.source}: {sizes}, {self.verification or 'not verified'}>"

    @property
    def has_changes(self) -> bool:
        """Whether any transform or pass changed the model."""
        return any(record.changes for record in (*self.transforms, *self.passes))

    @property
    def nonstandard_ops(self) -> list[str]:
        """The operators outside the ONNX standard that the run added."""
        return [name for name in self.after.ops if split_op_type(name)[0] and name not in self.before.ops]

    def to_json(self) -> str:
        """The report as JSON text."""
        data = to_builtins(replace(self, verification=None))
        data["verification"] = None if self.verification is None else self.verification.to_data()
        return json_text(data)


def pass_records(pipeline: Pass, change_log: ChangeLog) -> list[PassRecord]:
    """One record for each pass of the pipeline in order, then for each inner pass that made changes."""
    names = (*(p.name for p in leaves(pipeline)), *change_log.counts)
    counts = {name: dict(change_log.counts.get(name, Counter[str]())) for name in names}
    seconds = {name: round(change_log.seconds.get(name, 0.0), 6) for name in counts}
    return [PassRecord(name, sum(rules.values()), rules, seconds[name]) for name, rules in counts.items()]


class Hint(Struct, frozen=True):
    """What a model gains from a pass, in words with counts, and the `options` of the pass for it, by name.

    Examples:
        >>> Hint("3 inputs could be merged", {"most": "3"}).options
        {'most': '3'}
    """

    text: str
    options: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])


@runtime_checkable
class HintingPass(Protocol):
    """A pass or transform that can tell from the result of a run without it whether it would change that result."""

    def hint(self, model: Model, report: Report) -> Hint | None:
        """The hint for a run with this result, which must not be modified; None if there is nothing to gain."""
        ...


def option_of(p: Pass) -> str:
    """The option of `passes run` that enables a pass, with its options in braces, such as `--opset {to}`; "" for none.

    A pass or transform declares it as its attribute `option`.
    """
    with plugin_failures(f"the option of {p.name} cannot be read"):
        found: Any = getattr(definition(p), "option", "")
    return found if isinstance(found, str) else ""


def enabling_text(p: Pass, options: Mapping[str, str]) -> str:
    """The command-line text for a pass with these options."""
    if option := option_of(p):
        return option.format_map(options)
    given = ",".join(f"{name}={text}" for name, text in options.items())
    return f'--enable "{p.name}{{{given}}}"' if given else f"--enable {p.name}"


def run_hints(passes: Iterable[Pass], model: Model, report: Report) -> list[RunHint]:
    """The hints of passes that are not in a run, for its result. A failing pass becomes a note in the report."""
    found: list[RunHint] = []
    for p in passes:
        item = definition(p)
        if not isinstance(item, HintingPass):
            continue
        try:
            with plugin_failures(f"{p.name} failed to give a hint"):
                if (hint := item.hint(model, report)) is not None:
                    found.append(RunHint(p.name, hint.text, enabling_text(p, hint.options)))
        except PluginError as e:
            report.notes.append(str(e))
    return found


QUANTIZES = "`passes quantize --plugin FILE` applies lossy rules, and measures their accuracy loss"


def lossy_notes(p: Pass, rejected: Iterable[RejectedChange]) -> list[str]:
    """The lossy rules that were not applied, because the pipeline does not quantize, or whose changes were skipped."""
    rules = {r.name: (r, leaf.name) for leaf in leaves(p) for r in rules_in(leaf) if isinstance(r, Rule)}
    lossy = {name: pass_name for name, (r, pass_name) in rules.items() if r.contract.is_lossy}
    idle = [name for name in lossy if name not in {r.name for r in _quantizing_rules(p)}]
    wrong = [name for name in dict.fromkeys(r.by for r in rejected) if name in lossy]
    notes = [f"{_of_passes(idle, lossy)} not applied: lossy rules need a pipeline that quantizes"] if idle else []
    notes += [f"changes of {_of_passes(wrong, lossy)} skipped: lossy, so results differ"] if wrong else []
    return [f"{note}; {QUANTIZES}" for note in notes]


def _of_passes(names: Sequence[str], passes: Mapping[str, str]) -> str:
    return ", ".join(f"{passes[name]}/{name}" for name in names)


def _quantizing_rules(p: Pass, *, quantizes: bool = False) -> Iterator[Rule]:
    """Yield the rules that may quantize in a pipeline."""
    quantizes = quantizes or (isinstance(p, Pipeline) and p.quantization is not None)
    if isinstance(p, Pipeline | Fixpoint):
        yield from (r for inner in p.passes for r in _quantizing_rules(inner, quantizes=quantizes))
    elif quantizes and isinstance(p, RulePass):
        yield from p.rules
