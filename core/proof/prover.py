"""Chooses the techniques to try on an obligation, and combines their verdicts to the proof of a rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec
import numpy as np
import onnx
from msgspec import Struct
from onnx import TensorProto

from ..errors import PassesError
from ..rewriting.rules import Rule
from ..serialization.proto_queries import opset_versions
from ..verify.proof_guarantees import PROOFS, STRENGTH, Guarantee
from .extent_limits import with_visits
from .finite_field_proof import DIFFERENCES, Difference, Redraw, prove_by_field
from .float_rounding import with_rounding
from .obligation import NotApplicable, Obligation, promises_bits
from .replay import as_input
from .rule_branches import Branch, RuleCode, with_counts
from .rule_obligation import obligation_of
from .verdict import ProofVerdict, Technique, sizes_words, strongest, unknown

ProofMethod = Callable[[Obligation], Sequence[ProofVerdict]]
"""One technique: returns its verdicts on an obligation, or raises NotApplicable."""
Replayer = Callable[[Obligation, Mapping[str, np.ndarray[Any, Any]]], str]
"""The difference that onnxruntime shows on inputs, as text; "" if it shows none."""
UNDER_CONDITION = "under its condition"
NUMBERS_ONLY = "bits: compared on numbers only"
MAX_MODELS = 16  # on which a rule is proved, of all models on which it fired
MAX_MODELS_OF_SITE = 6  # models with the same build site


class Prover(Struct, frozen=True):
    """The available techniques: the finite field always, the others if they are installed.

    `methods` are tried if the field does not suffice: for an exactness proof of an exact rule, or any proof.
    """

    methods: Mapping[Technique, ProofMethod] = msgspec.field(default_factory=dict[Technique, ProofMethod])
    replayer: Replayer | None = None

    def prove(self, obligation: Obligation, redraw: Redraw | None = None) -> list[ProofVerdict]:
        """The verdicts on an obligation, one from each technique that was tried.

        An obligation with a condition is tried without it first, and under it if that gives no proof.
        """
        try:
            obligation = with_visits(obligation)
        except NotApplicable as why:
            return [unknown(why)]
        if obligation.condition is None and not obligation.unsaid:
            return self._tried(obligation, redraw)
        unconditional = self._tried(replace(obligation, condition=None), redraw and partial(without_condition, redraw))
        if strongest(unconditional).guarantee in PROOFS:
            return unconditional
        if obligation.unsaid:
            return [unknown(obligation.unsaid)]
        found = self._tried(obligation, redraw)
        return [replace(v, coverage=(*v.coverage, UNDER_CONDITION)) if v.guarantee in PROOFS else v for v in found]

    def _tried(self, obligation: Obligation, redraw: Redraw | None) -> list[ProofVerdict]:
        verdicts = [*attempt(partial(self._by_field, redraw=redraw), obligation)]
        for technique, method in self.methods.items():
            best = strongest(verdicts)
            if best.guarantee is Guarantee.REFUTED or not is_open(obligation, best):
                break
            verdicts += attempt(method, obligation, technique)
        return verdicts

    def _by_field(self, obligation: Obligation, redraw: Redraw | None) -> list[ProofVerdict]:
        """The verdict of the field; a difference refutes if onnxruntime shows one, too. Raises NotApplicable."""
        try:
            return prove_by_field(obligation, redraw)
        except Difference as found:
            inputs = {i.name: as_input(found.feeds[i.name], i.dtype) for i in obligation.inputs}
            shown = self.replayer(obligation, inputs) if self.replayer is not None else ""
            if not shown:
                return [ProofVerdict(found.guarantee, Technique.FINITE_FIELD, reason=str(found))]
            return [ProofVerdict(Guarantee.REFUTED, Technique.FINITE_FIELD, reason=shown, counterexample=inputs)]


def attempt(
    method: ProofMethod, obligation: Obligation, technique: Technique = Technique.FINITE_FIELD
) -> Sequence[ProofVerdict]:
    """The verdicts of one technique, or an unknown verdict with the reason why it does not apply."""
    try:
        with np.errstate(all="ignore"):
            return method(with_visits(obligation))
    except NotApplicable as why:
        return [unknown(why, technique)]


def without_condition(redraw: Redraw, seed: int) -> Obligation | None:
    """Another obligation from `redraw`, without its condition."""
    found = redraw(seed)
    return None if found is None else replace(found, condition=None)


def is_open(obligation: Obligation, best: ProofVerdict) -> bool:
    """Whether another technique may show more: exactness of an exact rule, or anything for one that is not proved."""
    wants_bits = promises_bits(obligation.contract)
    return best.guarantee is not Guarantee.EXACT and (wants_bits or best.guarantee is not Guarantee.REALS)


@dataclass(frozen=True, slots=True)
class ProvedModel:
    """The verdicts on one model, before and after.

    `build_site` is the line of the rule that returned the replacement, and `branches` are those that led to it.
    """

    verdicts: tuple[ProofVerdict, ...]
    build_site: int
    before: onnx.ModelProto = field(repr=False)
    after: onnx.ModelProto | None = field(default=None, repr=False)
    branches: frozenset[Branch] = field(default=frozenset(), repr=False)

    @property
    def best(self) -> ProofVerdict:
        """The strongest verdict."""
        return strongest(self.verdicts)

    @property
    def fixed_extents(self) -> set[int]:
        """The extents of the inputs that are not symbols."""
        types = (i.type.tensor_type for i in self.before.graph.input)
        return {d.dim_value for t in types for d in t.shape.dim if d.HasField("dim_value")}

    @property
    def types(self) -> set[str]:
        """The element types of the inputs."""
        return {TensorProto.DataType.Name(i.type.tensor_type.elem_type).lower() for i in self.before.graph.input}

    @property
    def ranks(self) -> set[int]:
        """The ranks of the inputs."""
        return {len(i.type.tensor_type.shape.dim) for i in self.before.graph.input}

    @property
    def contradicts(self) -> bool:
        """Whether the rewritten model differs from the original in a way that no other technique explains."""
        found = self.best
        differs = found.guarantee is Guarantee.UNKNOWN and found.reason in DIFFERENCES
        return differs or found.guarantee in (Guarantee.REFUTED, Guarantee.FEWER_INPUTS)


class RuleProof(Struct, frozen=True):
    """The verdicts on the models on which a rule fired, and the build sites of its function."""

    rule: Rule
    models: tuple[ProvedModel, ...]
    sites: frozenset[int] = frozenset()
    branches: frozenset[Branch] = frozenset()

    @property
    def guarantee(self) -> Guarantee:
        """The weakest guarantee of the build sites that were reached, each with the weakest proof among its models.

        A site without a proof has the strongest guarantee of its models. A model that contradicts the rule outweighs
        all others. The guarantee says nothing about branches that are `unreached`.
        """
        against = [m.best.guarantee for m in self.models if m.contradicts]
        if against:
            return min(against, key=STRENGTH.__getitem__)
        by_site: dict[int, list[Guarantee]] = {}
        applicable = [m for m in self.models if m.after is not None]
        for m in applicable or self.models:
            by_site.setdefault(m.build_site, []).append(m.best.guarantee)
        proofs = {site: [g for g in given if g in PROOFS] for site, given in by_site.items()}
        sites = [
            min(proofs[site], key=STRENGTH.__getitem__) if proofs[site] else max(given, key=STRENGTH.__getitem__)
            for site, given in by_site.items()
        ]
        return min(sites, key=STRENGTH.__getitem__, default=Guarantee.UNKNOWN)

    @property
    def unreached(self) -> frozenset[Branch]:
        """The branches that no model with a proof takes."""
        return self.branches - with_counts(b for m in self.models if m.best.guarantee in PROOFS for b in m.branches)

    @property
    def is_proved(self) -> bool:
        """Whether the rule is considered proved, over the reals or bit for bit, on all of its branches."""
        return self.guarantee in PROOFS and not self.unreached

    @property
    def holding(self) -> list[ProvedModel]:
        """The models with the guarantee of the rule, or a stronger one."""
        return [m for m in self.models if STRENGTH[m.best.guarantee] >= STRENGTH[self.guarantee]]

    @property
    def reached_sites(self) -> frozenset[int]:
        """The build sites of the models with the guarantee of the rule, or a stronger one."""
        return frozenset(m.build_site for m in self.holding)

    @property
    def reasons(self) -> Counter[str]:
        """The reasons for models without a proof, with their counts."""
        return Counter(m.best.reason for m in self.models if m.best.guarantee not in PROOFS and m.best.reason)

    @property
    def refuted_model(self) -> ProvedModel | None:
        """The first model with a refutation."""
        return next((m for m in self.models if m.best.guarantee is Guarantee.REFUTED), None)

    @property
    def keeps_bits(self) -> bool:
        """Whether equal bits were shown wherever the rule promises them."""
        return self.guarantee is Guarantee.EXACT

    def lines(self) -> Iterator[str]:
        """The proof as text: the guarantee with what it covers, exactness, and reasons for what is open."""
        if self.guarantee in PROOFS and self.unreached:
            yield f"unknown: no model with a proof takes the branches at {self._unreached_lines()}"
        yield self.summary
        if promises_bits(self.rule.contract) and not self.keeps_bits:
            yield NUMBERS_ONLY
        for reason, count in self.reasons.most_common(MAX_REASONS):
            yield f"{count} of {len(self.models)} models: {reason}"

    def _unreached_lines(self) -> str:
        """The lines of the branches that are not reached, by function."""
        own = self.rule.build.__name__
        found: list[str] = []
        for name in sorted({b.function for b in self.unreached}, key=lambda name: (name != own, name)):
            numbers = [*map(str, sorted({b.line for b in self.unreached if b.function == name}))]
            lines = f"line{'s' * (len(numbers) > 1)} {', '.join(numbers)}"
            found.append(f"{lines} of {'its function' if name == own else name}")
        return " and ".join(found)

    @property
    def summary(self) -> str:
        """The guarantee with what it covers."""
        where = "on the branches that are taken, " if self.guarantee in PROOFS and self.unreached else ""
        return f"{where}{self.guarantee}{self._details()}"

    def _details(self) -> str:
        if self.guarantee not in PROOFS | {Guarantee.DRAWN_INTEGERS, Guarantee.FEWER_INPUTS}:
            return ""
        holding = self.holding
        words = [f"{len(holding)} of {len(self.models)} models"]
        if self.sites:
            words.append(f"{len(self.reached_sites & self.sites)} of {len(self.sites)} build sites")
        if self.branches:
            words.append(f"{len(self.branches - self.unreached)} of {len(self.branches)} branches")
        words += dict.fromkeys(c for m in holding if m.best.guarantee is self.guarantee for c in m.best.coverage)
        words += sizes_words({n for m in holding for n in m.best.sizes})
        words += sizes_words({n for m in holding if not m.best.sizes for n in m.fixed_extents}, "fixed extent")
        words.append(" and ".join(sorted({t for m in holding for t in m.types})))
        words += sizes_words({n for m in holding for n in m.ranks}, "rank")
        words += sizes_words({opset_versions(m.before)[""] for m in holding}, "opset")
        if self.guarantee is Guarantee.REALS:
            words.append("error below 2^-60")
        return f" ({', '.join(words)})"


MAX_REASONS = 3


def prove_rule(rule: Rule, models: Iterable[onnx.ModelProto], prover: Prover) -> RuleProof:
    """Prove a rule on the models on which it fires, with a limit for each of its build sites.

    No more `models` are generated than are needed.
    """
    found: list[ProvedModel] = []
    per_site: Counter[int] = Counter()
    code = RuleCode.of(rule)
    sites, branches = code.sites, set(code.branches)
    reached = set[Branch]()
    for model in models:
        is_full = len(found) >= MAX_MODELS or (sites and all(per_site[s] >= MAX_MODELS_OF_SITE for s in sites))
        if is_full and branches <= reached:
            break
        try:
            obligation = obligation_of(rule, model)
        except NotApplicable as why:
            found.append(ProvedModel((unknown(why),), 0, model))
            continue
        except PassesError:  # the check reports it
            continue
        if obligation is None:
            continue
        branches |= obligation.all_branches
        is_full = is_full or per_site[obligation.build_site] >= MAX_MODELS_OF_SITE
        taken = with_counts(reached | obligation.branches)
        if is_full and (not branches & taken - reached or len(found) >= 2 * MAX_MODELS):
            continue
        per_site[obligation.build_site] += 1
        verdicts = with_rounding(obligation, prover.prove(obligation, partial(obligation_of, rule, model)))
        proved = ProvedModel(tuple(verdicts), obligation.build_site, model, obligation.after.model, obligation.branches)
        found.append(proved)
        reached |= taken if proved.best.guarantee in PROOFS else set()
    return RuleProof(rule, tuple(found), sites, frozenset(branches))
