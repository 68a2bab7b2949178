"""Coverage-guided search for models on which a rule fires, without hypothesis and without running them.

A rule declines most models generated from its pattern. The line of the rule's code that declines measures progress: a
model that is declined at a new line is kept, and others are mutated from its choices. A model on which the rule fires
comes with its `choice_sequence`, from which `strategies.cases` generates it again: given a database that holds
`choices_to_bytes(choice_sequence)`, hypothesis starts there and minimizes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import onnx

from ..core.errors import Declined, ModelError, PassesError
from ..core.io.convert import from_onnx
from ..core.ir.graph import Graph
from ..core.ir.op import Op
from ..core.rewriting.builder import Build
from ..core.rewriting.rules import Rule
from .case import Case
from .models.choices import NO_CHOICES, Choices, Key
from .models.dictionary import Dictionary, dictionary_of
from .models.fingerprint import fingerprint, structure_fingerprint
from .models.model_builder import GenerationError
from .models.model_generator import MODEL_WIDE_CHOICES, generate_case

DeclineSite = tuple[tuple[str, int], ...]
"""The functions and lines of the traceback of a decline, the outermost first."""
NO_MATCH: DeclineSite = ()
FIRES_OFTEN_ONE_IN = 4  # models for each on which it fires, from which on others are made from what came near
MUTATION_RATE_RARE, MUTATION_RATE_OFTEN = 0.7, 0.2  # how many, then and else
FIRED_CORPUS_SIZE = 8  # models on which it fired that others are made from
MAX_SAME_FINGERPRINT, MAX_SAME_STRUCTURE = 2, 6  # models on which it fired that look alike, or from farther away
MAX_DECLINED_PER_SITE = 16  # cases declined at the same place that are shown: a rule may change one and decline
MAX_MUTATIONS = 3  # choices, or parts, that are made anew at most where a model is changed
ChoiceMap = Mapping[Key, int]


@dataclass(frozen=True, slots=True)
class GeneratedCase:
    """A case on which the rule fires, or must not, with its `choice_sequence`; `fired` as found by the search."""

    case: Case
    choice_sequence: tuple[int, ...]
    fired: bool


@dataclass(slots=True)
class GuidedSearch:
    """Generates distinct cases, and keeps the choices that led to each line where the rule declined."""

    rule: Rule
    dictionary: Dictionary
    seed: int
    examples: tuple[onnx.ModelProto, ...] = ()
    generated: int = 0
    fired: int = 0
    corpus: dict[DeclineSite, ChoiceMap] = field(default_factory=dict[DeclineSite, ChoiceMap])
    decline_counts: Counter[DeclineSite] = field(default_factory=Counter[DeclineSite])
    fingerprint_counts: Counter[Hashable] = field(default_factory=Counter[Hashable])
    shuffled_levels: dict[Key, list[int]] = field(default_factory=dict[Key, list[int]])

    def generate(self, attempts: int) -> Iterator[GeneratedCase]:
        """The cases found in that many attempts. Deterministic for a given seed."""
        rng = Random(f"{self.rule.name} {self.seed}")  # noqa: S311 - nothing secret
        for turn in range(attempts):
            often = self.fired * FIRES_OFTEN_ONE_IN > self.generated
            varies = self.corpus and rng.random() < (MUTATION_RATE_OFTEN if often else MUTATION_RATE_RARE)
            before = self._mutated_choices(rng) if varies else dict[Key, int]()
            if often or turn % 2:  # each turns up evenly, also in what is made from others
                before.update((key, self._next_level(key, rng)) for key in MODEL_WIDE_CHOICES)
            choices = Choices(rng.randrange, before)
            try:
                case = generate_case(self.rule, choices, self.dictionary, self.examples)
            except GenerationError:
                continue
            site = decline_site(self.rule, case)
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
        """The next level of a model-wide choice: all of them in random order, repeatedly."""
        deck = self.shuffled_levels.setdefault(key, [])
        if not deck:
            deck += rng.sample(range(MODEL_WIDE_CHOICES[key]), MODEL_WIDE_CHOICES[key])
        return deck.pop()

    def _mutated_choices(self, rng: Random) -> dict[Key, int]:
        """The choices that led to a rarely reached line, some of them omitted or from another model."""
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


def guided_search(rule: Rule, *, seed: int = 0, examples: Sequence[onnx.ModelProto] = ()) -> GuidedSearch:
    """A search for models on which `rule` fires, among those made from its pattern and variants of `examples`."""
    return GuidedSearch(rule, dictionary_of(rule), seed, tuple(examples))


def decline_site(rule: Rule, case: Case) -> DeclineSite | None:
    """The site of the last decline of `rule`; None if it fires, or raises another exception."""
    try:
        graph = from_onnx(case.model).graph
    except ModelError:
        return NO_MATCH
    site: DeclineSite | None = NO_MATCH
    for g in graph.with_subgraphs():
        for op in list(g.ops(*rule.pattern.types)):
            for site in _decline_sites(rule, g, op):
                if site is None:
                    return None
    return site


def _decline_sites(rule: Rule, graph: Graph, root: Op) -> Iterator[DeclineSite | None]:
    try:
        for match in rule.matches(graph, root):
            g = Build(graph, root)
            try:
                built = rule.build(g, **match.bindings)
            except Declined as why:
                yield _traceback_lines(why)
            except KeyboardInterrupt:
                raise
            except BaseException:  # noqa: BLE001 - it is the rule's; whoever applies it finds out
                yield None
            else:
                new = built if isinstance(built, tuple) else (built,)
                yield None if any(v is not None and v not in root.outputs for v in new) else (("", 0),)
            graph.discard(g.added_ops[::-1])
    except (Declined, PassesError) as why:
        yield _traceback_lines(why)


def _traceback_lines(error: BaseException) -> DeclineSite:
    """The functions and lines in the traceback of an exception."""
    frames: list[tuple[str, int]] = []
    at = error.__traceback__
    while at is not None:
        frames.append((at.tb_frame.f_code.co_name, at.tb_lineno))
        at = at.tb_next
    return tuple(frames[1:])
