"""Proofs of the regions in which a rewritten model differs from the original.

A proof of a region holds for all values that the original computes before it. A proof with folded weights says that
there are exact weights that round to the weights of the model.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from time import monotonic, thread_time

import msgspec
from msgspec import Struct

from ..verify.proof_guarantees import PROOFS, Guarantee, ProofCounts
from .finite_field_proof import NO_FIELD_KERNEL, NO_TIME
from .float_rounding import with_rounding
from .obligation import NotApplicable
from .prover import ProofMethod, attempt
from .region_obligations import RegionClaim, Regions
from .verdict import ProofVerdict, sizes_words, strongest, unknown


class RegionProof(Struct, frozen=True):
    """The verdict on the region of a shared value, and the errors in ulps of folded weights that are `rounded`."""

    cut_point: str
    verdict: ProofVerdict
    rounded: Mapping[str, float] = msgspec.field(default_factory=dict[str, float])

    @property
    def is_proved(self) -> bool:
        """Whether the region is considered proved."""
        return self.verdict.guarantee in PROOFS


@dataclass(frozen=True, slots=True)
class RegionProofs:
    """The verdicts on the changed regions of a rewritten model, in the order of the original."""

    regions: tuple[RegionProof, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    @property
    def counts(self) -> ProofCounts:
        """The numbers of regions."""
        proved = Counter(str(r.verdict.guarantee) for r in self.regions if r.is_proved)
        reasons = Counter(r.verdict.reason or str(r.verdict) for r in self.regions if not r.is_proved)
        ulps = [u for r in self.regions if r.is_proved for u in r.rounded.values() if u]
        largest = max(ulps, default=0.0)
        extents = " ".join(sizes_words(n for r in self.regions if r.is_proved for n in r.verdict.sizes))
        return ProofCounts(len(self.regions), dict(proved), dict(reasons.most_common()), len(ulps), largest, extents)

    def to_data(self) -> dict[str, object]:
        """The proofs as data for JSON."""
        regions = [
            {"value": r.cut_point, "verdict": str(r.verdict), "proved": r.is_proved, "rounded_weights": dict(r.rounded)}
            for r in self.regions
        ]
        return {"changed": len(self.regions), "proved": sum(r.is_proved for r in self.regions), "regions": regions}


class ProofSeconds(Struct, frozen=True):
    """The seconds after which the first technique tries no more regions, and the seconds for all techniques."""

    first: float = inf
    all: float = inf


NO_LIMIT = ProofSeconds()


def prove_regions(
    regions: Regions, techniques: Sequence[ProofMethod], *, exact: bool = False, seconds: ProofSeconds = NO_LIMIT
) -> RegionProofs:
    """Prove each changed region by the first technique that can; regions left after so many `seconds` are unknown.

    With `exact`, equal bits are required. Each technique is tried on all regions before the next one, starting with
    small regions: the first technique on all claims, others on the claim with the weights of the model. Claims that
    differ only in names, as for equal layers, are proved once.
    """
    start = monotonic()
    # The first technique computes in this thread, which may have to wait for others; later ones in other processes.
    limits = _left(thread_time, seconds.first), _left(monotonic, seconds.all)
    work = _Work()
    claims = {
        cut_point: Claims(regions.claims(cut_point, exact=exact))
        for cut_point in sorted(regions.cut_points, key=regions.op_count)
    }
    for number, technique in enumerate(techniques):
        work.left = limits[min(number, 1)]
        for cut_point, of_cut_point in claims.items():
            work.attempt(
                technique, cut_point, (c for c in of_cut_point if c.is_of_real_weights) if number else of_cut_point
            )
    found = [RegionProof(s, _of_region(strongest(work.verdicts[s])), work.ulps.get(s, {})) for s in regions.cut_points]
    return RegionProofs(tuple(found), monotonic() - start)


@dataclass(slots=True)
class Claims:
    """The claims of a region, each created when it is needed."""

    left: Iterator[RegionClaim]
    made: list[RegionClaim] = field(default_factory=list[RegionClaim])

    def __iter__(self) -> Iterator[RegionClaim]:
        """Yield the claims in order. Raises NotApplicable."""
        yield from self.made
        for claim in self.left:
            self.made.append(claim)
            yield claim


SMALL_EXTENTS = "small images and signals"


@dataclass(slots=True)
class _Work:
    """The verdicts on regions so far, and on claims by technique and key."""

    left: Callable[[], float] = lambda: inf
    """The seconds left for a technique."""
    verdicts: defaultdict[str, list[ProofVerdict]] = field(default_factory=lambda: defaultdict(list))
    ulps: dict[str, Mapping[str, float]] = field(default_factory=dict[str, Mapping[str, float]])
    known: dict[Hashable, Sequence[ProofVerdict]] = field(default_factory=dict[Hashable, Sequence[ProofVerdict]])

    def attempt(self, technique: ProofMethod, cut_point: str, claims: Iterable[RegionClaim]) -> None:
        """Try the claims of a region until one is proved, unless one already is."""
        verdicts = self.verdicts[cut_point]
        if any(v.guarantee in PROOFS for v in verdicts):
            return
        if self.left() < 0:
            verdicts += [] if verdicts else [unknown(NO_TIME)]
            return
        try:
            for claim in claims:
                if self.left() < 0 and verdicts:
                    return
                found = self._verdicts(technique, claim)
                verdicts += found
                if any(v.guarantee in PROOFS for v in found):
                    self.ulps[cut_point] = claim.rounded
                if any(v.guarantee in PROOFS or v.reason == NO_FIELD_KERNEL for v in found):
                    return
        except NotApplicable as why:
            verdicts.append(unknown(why))

    def _verdicts(self, technique: ProofMethod, claim: RegionClaim) -> Sequence[ProofVerdict]:
        key = (id(technique), claim.key)
        if key not in self.known:
            verdicts = attempt(technique, replace(claim.obligation, has_time=lambda: self.left() > 0))
            self.known[key] = with_rounding(claim.obligation, verdicts)
        found = self.known[key]
        if claim.small_extents:
            found = [replace(v, coverage=(*v.coverage, SMALL_EXTENTS)) for v in found]
        return [_with_rounded_weights(v) for v in found] if claim.rounded else found


def _left(clock: Callable[[], float], seconds: float) -> Callable[[], float]:
    """Return a function for the seconds left of a number from now on."""
    end = clock() + seconds
    return lambda: end - clock()


def _with_rounded_weights(verdict: ProofVerdict) -> ProofVerdict:
    """The verdict on a claim with exact weights for a model that has rounded ones."""
    return replace(verdict, guarantee=Guarantee.REALS) if verdict.guarantee is Guarantee.EXACT else verdict


def _of_region(verdict: ProofVerdict) -> ProofVerdict:
    """The verdict on a region; its inputs may be values that never occur in the model, which refute nothing."""
    if verdict.guarantee in {Guarantee.REFUTED, Guarantee.FEWER_INPUTS}:
        return unknown("it differs for values that it may never be given")
    return verdict
