"""Quantization schemes, and the candidates that they make from a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from itertools import count, product
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ...core.calibration.methods import Method
from ...core.errors import PassesError, VerificationError
from ...core.io.model import Model, serialize
from ...core.io.model_source import ModelSource, model_source
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import Publication
from ...core.io.writer import write_for_sessions, write_model
from ...core.ir.graph import FRESH_NAME_MARK, constant_bytes, defined_values
from ...core.ir.op import Op
from ...core.ir.quantization_spec import QuantizationSpec
from ...core.ir.tensor import chunk_bytes
from ...core.ir.values import Value
from ...core.rewriting.change_log import Change, ChangeKey, Exclusions
from ...core.rewriting.rules import Rule
from ...core.run.pipeline import Pass, Pipeline, RulePass, leaves
from ...core.run.pipeline_run import PipelineRun
from ...core.support.scratch_folder import ScratchFolder
from ...core.verify.ort_files import different_bits, is_ort_place, write_ort
from ...passes.cleanup.constants import MergeConstants
from ...passes.cleanup.merge_duplicates import MergeDuplicates
from ...passes.quantization.low_rank import LayerRank
from ...passes.quantization.pruning import RemovedChannels
from ...passes.quantization.static_groups import added_bias
from ...passes.support.operand_queries import unless_declined
from ..measure.feeds import drawn_feeds

SMALL_MODEL = 1 << 20  # bytes of weights
MUCH = 0.1  # of the bytes of the weights of a small model: its inner names are short if they take more
COMPARED_SAMPLES = 8  # on which a file of onnxruntime is compared with the session that wrote it
MERGE_EQUAL = (MergeConstants(), MergeDuplicates())


class Reduction(Struct, frozen=True):
    """The removal of channels, or of ranks, by a base scheme; a `share` of the multiplications is left."""

    share: float = 1.0
    removed: Sequence[RemovedChannels] = ()
    ranks: Sequence[LayerRank] = ()

    @property
    def count(self) -> int:
        """The number of groups of channels, or of layers, that have fewer channels or a lower rank."""
        return len(self.removed) + len(self.ranks)


class Scheme(Struct, frozen=True):
    """A way to compress: `lossy` passes followed by cleanup, configured by a spec.

    Attributes:
        settings: fields of the spec that the scheme sets.
        variants: further settings by name, tried in order until one is within the budget. Weights of those `protected`
            are scaled by AWQ.
        needs_ranges: the scheme needs ranges of activations from data; each calibration method is then a variant.
        takes_extremes: the smallest and largest elements of values serve as ranges, if there is data.
        stores: passes that store weights with fewer bits, also in ops that the other passes leave in float.
        precision: a precision of the engine, if that is all that changes; there are no lossy passes.
        is_base: the best other scheme is tried on this scheme's models, so this one need not be the best itself.
    """

    name: str
    description: str
    lossy: Sequence[Pass]
    after: Sequence[Pass] = ()
    settings: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    variants: Sequence[tuple[str, Mapping[str, Any]]] = (("", {}),)
    protected: frozenset[str] = frozenset()
    needs_ranges: bool = False
    takes_extremes: bool = False
    stores: Sequence[Pass] = ()
    precision: str = ""
    is_base: bool = False

    def pipeline(self, spec: QuantizationSpec) -> Pipeline:
        """The passes of the scheme for a spec; constants that are equal after rounding are merged."""
        passes = (*self.lossy, *self.after, *self.stores)
        return Pipeline(self.name, (*passes, *MERGE_EQUAL) if passes else (), quantization=spec)

    @property
    def rules(self) -> list[Rule]:
        """The rules of its lossy passes."""
        return _rules(self.lossy)

    @property
    def storing_sources(self) -> frozenset[str]:
        """The names under which changes of the `stores` passes are recorded."""
        return _sources(self.stores)

    @property
    def sources(self) -> frozenset[str]:
        """The names under which lossy changes are recorded: the names of rules, or of passes without rules."""
        return _sources(self.lossy) | self.storing_sources


def _rules(passes: Sequence[Pass]) -> list[Rule]:
    return [r for p in passes for q in leaves(p) if isinstance(q, RulePass) for r in q.rules]


def _sources(passes: Sequence[Pass]) -> frozenset[str]:
    others = (q.name for p in passes for q in leaves(p) if not isinstance(q, RulePass))
    return frozenset((*(r.name for r in _rules(passes) if r.contract.is_lossy), *others))


@dataclass(frozen=True)
class Candidate:
    """A compressed model, the lossy changes that made it, and the reasons why passes did not change other places.

    `is_reduced`: its float model lacks channels or ranks. `shortened`: the names of the float model in place of which
    its values have short ones.
    """

    model: Model = field(repr=False)
    changes: tuple[Change, ...]
    is_external: bool
    declines: Mapping[str, str] = field(default_factory=dict[str, str])
    is_reduced: bool = False
    shortened: set[str] = field(default_factory=set[str], repr=False)

    @property
    def keys(self) -> frozenset[ChangeKey]:
        """The changes, as keys of exclusions."""
        return frozenset((c.by, c.place) for c in self.changes)

    def save(self, path: str | Path) -> None:
        """Write the model to `path` atomically, with external data if the original has external data."""
        with Publication(OutputPaths.of(model=path).model) as publication:
            self.stage(publication)
            publication.publish()

    def stage(self, publication: Publication) -> None:
        """Add the model to the files of `publication`, with external weights if the original has external weights.

        A file in onnxruntime's own format must compute the same bits as the session that wrote it, on generated inputs.
        Raises VerificationError.
        """
        self.shorten_texts()
        if not is_ort_place(publication):
            publication.add_model(self.model, external=self.is_external)
            return
        path = publication.add_model(self.model, external=True, convert=write_ort)
        with ScratchFolder() as folder:
            write_for_sessions(self.model, folder / "model.onnx")
            source = model_source(folder / "model.onnx", inline=True)
            feeds, names = drawn_feeds(source, COMPARED_SAMPLES), [v.name for v in self.model.graph.outputs]
            if difference := different_bits(source.loadable(), path, names, feeds):
                raise VerificationError(f"{path.name}, written by onnxruntime, is wrong: {difference}")

    def write(self, path: Path) -> int:
        """Write the model to a new file in the same form; return its bytes, with short texts. Raises OSError."""
        data = write_model(self.model, path, external=self.is_external)
        size, before = sum(file.stat().st_size for file in (path, data) if file is not None), self._texts
        self.shorten_texts()
        return size - before + self._texts

    @property
    def _texts(self) -> int:
        """The bytes of a small model without external weights; 0 for other models."""
        return serialize(self.model).size if constant_bytes(self.model.graph) < SMALL_MODEL else 0

    def shorten_texts(self) -> None:
        """Shorten the names of values that rules made in a small model, and remove the provenance of nodes.

        They would be a quarter of the file. Where the inner names of the float model take MUCH, its values have short
        names, too, and its nodes none; the others keep their names.
        """
        graph, size = self.model.graph, constant_bytes(self.model.graph)
        graphs = list(graph.with_subgraphs())
        if not (self.changes or self.is_reduced) or size >= SMALL_MODEL:
            return
        graph.context.has_provenance = False
        fixed = {*graph.inputs, *graph.outputs, *(v for g in graphs for v in g.pinned)}
        inner = [v for g in graphs for v in dict.fromkeys(defined_values(g)) if v.name and v not in fixed]
        known = [v for v in inner if FRESH_NAME_MARK not in v.name]
        ops = [op for g in graphs for op in g.ops()]
        texts = sum(len(v.name) * (1 + len(v.consumers)) for v in known) + sum(len(op.name) for op in ops)
        if texts > MUCH * size:
            for op in ops:
                op.name = ""
            self.shortened.update(v.name for v in known)
            known = []
        kept = {*fixed, *known}
        taken = {v.name for v in kept}
        names = (name for n in count(1) if (name := f"{FRESH_NAME_MARK}{n}") not in taken)
        for v in inner:
            v.name = v.name if v in kept else next(names)

    @cached_property
    def digest(self) -> str:
        """A digest of the serialized model, which must not change afterwards."""
        exported, found = serialize(self.model), sha256()
        for chunk in (exported.header, exported.body, *(piece for t in exported.initializers for piece in t)):
            found.update(chunk_bytes(chunk))
        return found.hexdigest()


class CandidateBuilder(Struct, frozen=True):
    """Makes candidates from a float model with one scheme, optionally without some of its changes.

    `method` is the calibration method of the ranges in the spec. `reduction` is what the `source` lacks.
    """

    source: ModelSource
    scheme: Scheme
    spec: QuantizationSpec
    method: Method = "minmax"
    reduction: Reduction = Reduction()

    def build(self, left: Collection[ChangeKey] = ()) -> Candidate:
        """Build the candidate without the changes at the places in `left`, whose weights may still be stored.

        Raises PassesError if a rule fails or the result is not valid.
        """
        stores, sources = self.scheme.storing_sources, self.scheme.sources
        excluded = {
            pair for by, place in left for pair in product(sources if by in stores else sources - stores, [place])
        }
        exclusions = Exclusions(changes=dict.fromkeys(excluded, 0), why="this op stays in float")
        pipeline = self.scheme.pipeline(self.spec)
        result = PipelineRun(self.source.load, pipeline, exclusions=exclusions, value_info="strip").replay(
            tries_export=True
        )
        if result.failure is not None:
            raise result.error or PassesError(result.failure.message)
        made = tuple(c for c in result.change_log.changes if c.by in self.scheme.sources)
        declined = (result.change_log.declines.get(p.name, {}) for p in (*self.scheme.lossy, *self.scheme.stores))
        reasons = {place: reason for found in declined for place, reason in found.items()}
        return Candidate(result.model, made, self.source.is_external, reasons, self.reduction.count > 0)


def replaced_operators(model: Model, changes: Sequence[Change]) -> dict[ChangeKey, str]:
    """The operators that lossy changes affect, by key: the type of the op at the place, or `operator_kind`.

    `model` is the float model.
    """
    makers = _makers(model)
    return {(c.by, c.place): operator_kind(weighted_op(makers[c.place])) for c in changes if c.place in makers}


def replaced_names(model: Model, changes: Sequence[Change]) -> dict[ChangeKey, frozenset[str]]:
    """The operators that lossy changes affect, and the values that they compute, by key.

    `model` is the float model.
    """
    makers = _makers(model)
    found: dict[ChangeKey, frozenset[str]] = {}
    for c in changes:
        ops = (makers[c.place], weighted_op(makers[c.place])) if c.place in makers else ()
        computed = (v.name for op in ops for v in op.outputs)
        kinds = (kind for op in ops[1:] for kind in (op.type, operator_kind(op)))
        found[c.by, c.place] = frozenset((c.place, *computed, *kinds))
    return found


def changed_weights(model: Model, changes: Sequence[Change]) -> dict[ChangeKey, list[Value]]:
    """The constant weights of the ops that lossy changes affect, by key. `model` is the float model."""
    makers = _makers(model)
    ops = {(c.by, c.place): weighted_op(makers[c.place]) for c in changes if c.place in makers}
    read = {key: [_before_transpose(v) for v in op.inputs if v is not None] for key, op in ops.items()}
    return {key: [v for v in values if v.is_const and v.rank > 1] for key, values in read.items()}


def _before_transpose(v: Value) -> Value:
    turn = v.producer
    inner = turn.inputs[0] if turn is not None and turn.type == "Transpose" else None
    return v if inner is None else inner


def _makers(model: Model) -> dict[str, Op]:
    """The ops by the names of the values that they produce."""
    return {v.name: op for g in model.graph.with_subgraphs() for op in g.ops() for v in op.outputs}


def weighted_op(op: Op) -> Op:
    """The op before a clamp or bias Add, with which it is quantized, or the op itself."""
    maker = op.inputs[0].producer if op.type in {"Relu", "Clip", "Max", "Min"} and op.inputs[0] is not None else None
    inner = op if maker is None else maker
    summed = (v.producer for v in inner.inputs if v is not None and inner.type == "Add")
    products = (p for p in summed if p is not None and p.type == "MatMul")
    return next((p for p in products if unless_declined(added_bias, p) is inner), inner)


def operator_kind(op: Op) -> str:
    """The operator type; depthwise and grouped Conv, and MatMul without weights, are distinguished."""
    if op.type == "MatMul" and not any(v is not None and v.is_const for v in op.inputs):
        return "MatMul of two values"
    groups = int(op.attr("group", 1)) if op.type == "Conv" else 1
    return "depthwise Conv" if groups > 1 else op.type


def by_operator(operators: Mapping[ChangeKey, str]) -> Iterator[tuple[str, frozenset[ChangeKey]]]:
    """Yield the changes of each operator, most frequent first."""
    for name, _ in Counter(operators.values()).most_common():
        yield name, frozenset(key for key, other in operators.items() if other == name)
