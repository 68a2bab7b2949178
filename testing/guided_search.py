"""Finds models on which a rule fires, many a second, without hypothesis and without running any.

Most models made from a pattern are declined. Where in the rule's code that happens tells how near a model came: one
that is declined where none was before is kept, and others are made from it by changing some of the choices that led
to it. What fired comes with its `tape`, from which `cases.cases` makes the same model again: a hypothesis database
that holds `choices_to_bytes(tape)` lets hypothesis begin there, and make it smaller.
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
from .models.choices import NOTHING, Choices, Key
from .models.dictionary import Dictionary, dictionary_of
from .models.fingerprint import build, look
from .models.model_builder import Unmade
from .models.model_generator import LEVELS, grown

Site = tuple[tuple[str, int], ...]
"""Where a rule declined: the functions and lines on the way there, the outermost first."""
NO_MATCH: Site = ()
RARE = 4  # models for each on which it fires, from which on others are made from what came near
OFTEN, SELDOM = 0.7, 0.2  # how many, then and else
FIRED = 8  # models on which it fired that others are made from
ALIKE, OF_A_BUILD = 2, 6  # models on which it fired that look alike, or from farther away
LOOKED_AT = 16  # cases declined at the same place that are shown: a rule may change one and decline
CHANGED = 3  # choices, or parts, that are made anew at most where a model is changed
Made = Mapping[Key, int]


@dataclass(frozen=True, slots=True)
class Found:
    """A case on which the rule fires, or must not; made again from its `tape`. `fired` is what a first look tells."""

    case: Case
    tape: tuple[int, ...]
    fired: bool


@dataclass(slots=True)
class Hunt:
    """Counts what was made, look-alikes aside and keeps the choices that led to each place where the rule declined."""

    rule: Rule
    words: Dictionary
    seed: int
    examples: tuple[onnx.ModelProto, ...] = ()
    made: int = 0
    fired: int = 0
    near: dict[Site, Made] = field(default_factory=dict[Site, Made])
    hits: Counter[Site] = field(default_factory=Counter[Site])
    looks: Counter[Hashable] = field(default_factory=Counter[Hashable])
    decks: dict[Key, list[int]] = field(default_factory=dict[Key, list[int]])

    def found(self, models: int) -> Iterator[Found]:
        """What is found in so many tries. The same for the same seed."""
        rng = Random(f"{self.rule.name} {self.seed}")  # noqa: S311 - nothing secret
        for turn in range(models):
            often = self.fired * RARE > self.made
            varies = self.near and rng.random() < (SELDOM if often else OFTEN)
            before = self._changed(rng) if varies else dict[Key, int]()
            if often or turn % 2:  # each turns up evenly, also in what is made from others
                before.update((key, self._dealt(key, rng)) for key in LEVELS)
            choices = Choices(rng.randrange, before)
            try:
                case = grown(self.rule, choices, self.words, self.examples)
            except Unmade:
                continue
            site = declined_at(self.rule, case)
            if site is None and not self._is_new(case):
                continue
            self.made += 1
            if site is None:
                self.fired += 1
                self.near[(("", -self.fired % FIRED),)] = choices.made
            if site is None or case.must_stay or self.hits[site] < LOOKED_AT:
                yield Found(case, choices.tape, fired=site is None)
            if site is not None and not case.must_stay:
                self.hits[site] += 1
                self.near.setdefault(site, choices.made)

    def _is_new(self, case: Case) -> bool:
        """Whether there were few models yet that look like this one."""
        seen = (look(case), build(case))
        self.looks.update(seen)
        return self.looks[seen[0]] <= ALIKE and self.looks[seen[1]] <= OF_A_BUILD

    def _dealt(self, key: Key, rng: Random) -> int:
        """The next level of what colours a model: all of them in some order, then in another."""
        deck = self.decks.setdefault(key, [])
        if not deck:
            deck += rng.sample(range(LEVELS[key]), LEVELS[key])
        return deck.pop()

    def _changed(self, rng: Random) -> dict[Key, int]:
        """The choices behind one of the places that were seldom reached, some of them left out or of another model."""
        sites = list(self.near)
        made = dict(self.near[min((rng.choice(sites) for _ in range(3)), key=self.hits.__getitem__)])
        for _ in range(1 + rng.randrange(rng.choice((CHANGED, max(CHANGED, len(made) // 4))))):
            key = rng.choice(list(made)) if made else ("", 0)
            if rng.randrange(2):
                made.pop(key, None)
                continue
            part = key[0]
            other = self.near[rng.choice(sites)] if rng.randrange(3) == 0 else NOTHING
            made = {k: n for k, n in made.items() if not k[0].startswith(part)}
            made.update((k, n) for k, n in other.items() if k[0].startswith(part))
        return made


def hunt(rule: Rule, *, seed: int = 0, examples: Sequence[onnx.ModelProto] = ()) -> Hunt:
    """A search for models on which `rule` fires, among those made from its pattern and variants of `examples`."""
    return Hunt(rule, dictionary_of(rule), seed, tuple(examples))


def declined_at(rule: Rule, case: Case) -> Site | None:
    """Where `rule` declines, the last that it does; None if it fires, or raises something else."""
    try:
        graph = from_onnx(case.model).graph
    except ModelError:
        return NO_MATCH
    site: Site | None = NO_MATCH
    for g in graph.with_subgraphs():
        for op in list(g.ops(*rule.pattern.types)):
            for site in _sites(rule, g, op):
                if site is None:
                    return None
    return site


def _sites(rule: Rule, graph: Graph, root: Op) -> Iterator[Site | None]:
    try:
        for match in rule.matches(graph, root):
            g = Build(graph, root)
            try:
                built = rule.build(g, **match.bound)
            except Declined as why:
                yield _way(why)
            except KeyboardInterrupt:
                raise
            except BaseException:  # noqa: BLE001 - it is the rule's; whoever applies it finds out
                yield None
            else:
                new = built if isinstance(built, tuple) else (built,)
                yield None if any(v is not None and v not in root.outputs for v in new) else (("", 0),)
            graph.discard(g.added[::-1])
    except (Declined, PassesError) as why:
        yield _way(why)


def _way(why: BaseException) -> Site:
    """The functions and lines that an exception passed."""
    frames: list[tuple[str, int]] = []
    at = why.__traceback__
    while at is not None:
        frames.append((at.tb_frame.f_code.co_name, at.tb_lineno))
        at = at.tb_next
    return tuple(frames[1:])
