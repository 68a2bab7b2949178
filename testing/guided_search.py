"""Coverage-guided search for models on which a rule fires, without running the models.

A rule declines most models generated from its pattern. The line of the rule's code that declines measures progress:
a model that is declined at a new line is kept, and others are mutated from its choices. A model on which the rule fires
is returned with its `choice_sequence`, from which it can be generated again.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
import onnx
from msgspec import Struct
from onnx import TensorProto, numpy_helper

from ..core.errors import MatchFailure, ModelError, PassesError
from ..core.io.convert import from_onnx
from ..core.ir.quantization_spec import QuantizationSpec
from ..core.rewriting.driver import is_live, try_build
from ..core.rewriting.rules import Match, Rule
from .case import Case
from .models.choices import NO_CHOICES, Choices, Key
from .models.dictionary import Dictionary, dictionary_of
from .models.model_builder import Array, GenerationError
from .models.model_generator import MODEL_WIDE_CHOICES, generate_case


def structure_fingerprint(case: Case) -> Hashable:
    """Operators, types and classes of dims, independent of the model around the pattern."""

    def size(dim: onnx.TensorShapeProto.Dimension) -> int:
        return _size_class(dim.dim_value) if dim.HasField("dim_value") else 2

    graph = case.model.graph
    types = [i.type.tensor_type for i in graph.input]
    sizes = {d.dim_value for t in types for d in t.shape.dim if d.dim_value > 1}
    return (
        len(sizes) > 1,
        tuple((t.elem_type, tuple(map(size, t.shape.dim))) for t in types if t.elem_type != TensorProto.BOOL),
        tuple((t.data_type, tuple(map(_size_class, t.dims))) for t in graph.initializer),
        tuple(node.op_type for node in _nodes(graph) if node.op_type != "Identity"),
    )


def _size_class(dim: int) -> int:
    """0, 1, 2 for larger dims, 3 for dims larger than in small models."""
    return min(dim, 2 if dim <= MAX_SMALL_DIM else 3)


def fingerprint(case: Case) -> Hashable:
    """The structure of a model, with attributes, summaries of constants, and traits."""
    graph = case.model.graph
    attributes = (a.SerializeToString(deterministic=True) for node in _nodes(graph) for a in node.attribute)
    constants = (_constant_summary(numpy_helper.to_array(t)) for t in graph.initializer)
    return structure_fingerprint(case), case.traits, case.no_fire_reason, tuple(attributes), tuple(constants)


def _constant_summary(array: Array) -> Hashable:
    """Whether all elements are equal, or some integers, and the sign of the first one."""
    if array.size == 0:
        return None
    first = array.reshape(-1)[0]
    sign = int(np.sign(np.nan_to_num(first))) if array.dtype.kind in "if" else 0
    repeats = array.dtype.kind == "i" and len(np.unique(array)) < array.size
    return bool((array == first).all()), repeats, sign


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """The nodes, with the nodes of one branch instead of an If."""
    for node in graph.node:
        bodies = [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
        yield from _nodes(bodies[0]) if bodies else (node,)


Quantizer = Callable[[onnx.ModelProto], QuantizationSpec | None]
"""Returns the data with which rules quantize a model; None if it is not to be quantized."""


def no_quantization(model: onnx.ModelProto) -> QuantizationSpec | None:
    """Quantize no model."""
    return None


DeclineSite = tuple[tuple[str, int], ...]
"""The functions and lines of the traceback of a decline, outermost first."""
NO_MATCH: DeclineSite = ()
MAX_SMALL_DIM = 64
FIRES_OFTEN_ONE_IN = 4  # if fewer models fire, most are mutated from others
MUTATION_RATE_RARE, MUTATION_RATE_OFTEN = 0.7, 0.2  # fractions of mutated models if few fire, and if many do
FIRED_CORPUS_SIZE = 8  # firing models that are kept for mutation
MAX_SAME_FINGERPRINT, MAX_SAME_STRUCTURE = 2, 4  # firing models with equal fingerprints
MAX_DECLINED_PER_SITE = 16  # cases declined at one site that are yielded: a rule may change something and then decline
MAX_MUTATIONS = 3  # choices, or parts, that one mutation replaces at most
ChoiceMap = Mapping[Key, int]


class GeneratedCase(Struct, frozen=True):
    """A case on which the rule fires, or must not, with its `choice_sequence`; `fired` as determined by the search."""

    case: Case
    choice_sequence: tuple[int, ...]
    fired: bool


@dataclass(slots=True)
class GuidedSearch:
    """Generates distinct cases, and keeps the choices that led to each line at which the rule declined."""

    rule: Rule
    dictionary: Dictionary
    seed: int
    examples: tuple[onnx.ModelProto, ...] = ()
    quantize: Quantizer = no_quantization
    generated: int = 0
    fired: int = 0
    corpus: dict[DeclineSite, ChoiceMap] = field(default_factory=dict[DeclineSite, ChoiceMap])
    decline_counts: Counter[DeclineSite] = field(default_factory=Counter[DeclineSite])
    fingerprint_counts: Counter[Hashable] = field(default_factory=Counter[Hashable])
    shuffled_levels: dict[Key, list[int]] = field(default_factory=dict[Key, list[int]])

    def generate(self, attempts: int) -> Iterator[GeneratedCase]:
        """Yield the cases found in that many attempts. Deterministic for a given seed."""
        rng = Random(f"{self.rule.name} {self.seed}")  # noqa: S311 - nothing secret
        for turn in range(attempts):
            often = self.fired * FIRES_OFTEN_ONE_IN > self.generated
            varies = self.corpus and rng.random() < (MUTATION_RATE_OFTEN if often else MUTATION_RATE_RARE)
            before = self._mutated_choices(rng) if varies else dict[Key, int]()
            if often or turn % 2:  # each level is equally frequent, also in mutated models
                before.update((key, self._next_level(key, rng)) for key in MODEL_WIDE_CHOICES)
            choices = Choices(rng.randrange, before)
            try:
                case = generate_case(self.rule, choices, self.dictionary, self.examples)
            except GenerationError:
                continue
            site = decline_site(self.rule, case, self.quantize)
            if site is None and not self._is_new(case):
                continue
            self.generated += 1
            if site is None:
                self.fired += 1
                self.corpus[(("", -self.fired % FIRED_CORPUS_SIZE),)] = choices.recorded
            if site is None or case.no_fire_reason or self.decline_counts[site] < MAX_DECLINED_PER_SITE:
                yield GeneratedCase(case, choices.sequence, fired=site is None)
            if site is not None and not case.no_fire_reason:
                self.decline_counts[site] += 1
                self.corpus.setdefault(site, choices.recorded)

    def _is_new(self, case: Case) -> bool:
        """Whether few models with this fingerprint were generated so far."""
        seen = (fingerprint(case), structure_fingerprint(case))
        self.fingerprint_counts.update(seen)
        return (
            self.fingerprint_counts[seen[0]] <= MAX_SAME_FINGERPRINT
            and self.fingerprint_counts[seen[1]] <= MAX_SAME_STRUCTURE
        )

    def _next_level(self, key: Key, rng: Random) -> int:
        """The next level of a model-wide choice: all levels in random order, repeatedly."""
        levels = self.shuffled_levels.setdefault(key, [])
        if not levels:
            levels += rng.sample(range(MODEL_WIDE_CHOICES[key]), MODEL_WIDE_CHOICES[key])
        return levels.pop()

    def _mutated_choices(self, rng: Random) -> dict[Key, int]:
        """The choices that led to a rarely reached line, with some omitted or taken from another model."""
        sites = list(self.corpus)
        made = dict(self.corpus[min((rng.choice(sites) for _ in range(3)), key=self.decline_counts.__getitem__)])
        for _ in range(1 + rng.randrange(rng.choice((MAX_MUTATIONS, max(MAX_MUTATIONS, len(made) // 4))))):
            key = rng.choice(list(made)) if made else ("", 0)
            if rng.randrange(2):
                made.pop(key, None)
                continue
            part = key[0]
            other = self.corpus[rng.choice(sites)] if rng.randrange(3) == 0 else NO_CHOICES
            made = {k: n for k, n in made.items() if not k[0].startswith(part)}
            made.update((k, n) for k, n in other.items() if k[0].startswith(part))
        return made


def guided_search(
    rule: Rule, *, seed: int = 0, examples: Sequence[onnx.ModelProto] = (), quantize: Quantizer = no_quantization
) -> GuidedSearch:
    """A search for models on which `rule` fires, among those made from its pattern and variants of `examples`."""
    return GuidedSearch(rule, dictionary_of(rule), seed, tuple(examples), quantize)


def decline_site(rule: Rule, case: Case, quantize: Quantizer = no_quantization) -> DeclineSite | None:
    """The site of the last decline of `rule`; None if it fires, or raises another exception."""
    site = NO_MATCH
    try:
        for why in declines(rule, case, quantize):
            if why is None:
                return None
            frames = traceback.walk_tb(why.__traceback__)
            site = tuple((frame.f_code.co_name, line) for frame, line in frames)
    except ModelError:
        return NO_MATCH
    return site


def declines(rule: Rule, case: Case, quantize: Quantizer = no_quantization) -> Iterator[Exception | None]:
    """For each match, yield the exception by which `rule` declines; None if it fires, or raises another one."""
    whole = from_onnx(case.model).graph
    whole.context.quantization = quantize(case.model)
    for graph in whole.with_subgraphs():
        for root in filter(is_live, list(graph.ops(*rule.root_types))):
            try:
                yield from (_decline(rule, match) for match in rule.matches(root))
            except (MatchFailure, PassesError) as why:  # of a condition in the pattern
                yield why


def _decline(rule: Rule, match: Match) -> MatchFailure | None:
    try:
        try_build(rule, match)
    except MatchFailure as why:
        why.args = (match.in_words_of_author(str(why), ()),)
        return why
    except PassesError:  # it is shown when the rule is applied
        pass
    return None
