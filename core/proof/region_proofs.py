"""Proofs of the regions in which a rewritten model differs from the original, on their real weights.

A region computes one value that both models share from values that both share, as verification cuts them out: a proof
holds for whatever these values are. A weight into which the rewrite folded others is rounded, and is taken as it is:
only regions whose weights were moved, or kept, are proved over the reals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

import numpy as np
import onnx
from onnx import TensorProto, helper

from ..ir.dtypes import FLOATS
from ..ir.tensor import Tensor
from ..ort.split_models import SplitModel
from ..rewriting.rules import EXACT, ROUNDING
from ..verify.noise import is_float
from ..verify.regions.region_models import cut_region
from ..verify.regions.sites import SharedValues
from ..verify.regions.value_graph import ValueGraph
from .obligation import Fragment, InputType, NotApplicable, Obligation, input_types
from .prover import Prover
from .verdict import PROOFS, Guarantee, Technique, Verdict, strongest

MAX_WEIGHTS = 1 << 16  # elements of the weights of a region
RESULT = "result of the region"
"""The name of the output of a region in both models."""


@dataclass(frozen=True, slots=True)
class RegionProof:
    """The verdict on the region of one shared value."""

    site: str
    verdict: Verdict

    @property
    def is_proved(self) -> bool:
        """Whether the region counts as proved."""
        return self.verdict.guarantee in PROOFS


@dataclass(frozen=True, slots=True)
class RegionProofs:
    """The verdicts on the changed regions of a rewritten model, in the order of the original."""

    regions: tuple[RegionProof, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    @property
    def counts(self) -> Counter[Guarantee]:
        """The number of regions by guarantee."""
        return Counter(r.verdict.guarantee for r in self.regions)

    @property
    def proved(self) -> int:
        """The number of regions that are proved."""
        return sum(r.is_proved for r in self.regions)

    @property
    def reasons(self) -> Counter[str]:
        """The reasons for which regions are not proved, with their number."""
        return Counter(r.verdict.reason or str(r.verdict) for r in self.regions if not r.is_proved)

    def to_data(self) -> dict[str, object]:
        """The proofs as data for JSON."""
        regions = [{"value": r.site, "verdict": str(r.verdict), "proved": r.is_proved} for r in self.regions]
        return {"changed": len(self.regions), "proved": self.proved, "regions": regions}


def prove_regions(
    original: SplitModel, rewritten: SplitModel, prover: Prover, *, exact: bool = False, seconds: float | None = None
) -> RegionProofs:
    """Prove each changed region; those that are left after so many `seconds` are unknown.

    With `exact`, equal bits are demanded. Nothing is run but where a difference is replayed.
    """
    start = monotonic()
    found: list[RegionProof] = []
    regions = Regions.of(original, rewritten)
    for site in regions.sites:
        if seconds is not None and monotonic() - start > seconds:
            found.append(RegionProof(site, _unknown("no time was left")))
            continue
        try:
            obligation = regions.obligation(site, exact=exact)
        except NotApplicable as why:
            found.append(RegionProof(site, _unknown(str(why))))
            continue
        with np.errstate(all="ignore"):
            found.append(RegionProof(site, _of_region(strongest(prover.prove(obligation)))))
    return RegionProofs(tuple(found), monotonic() - start)


def _of_region(verdict: Verdict) -> Verdict:
    """The verdict on a region: its inputs may be values that the model never has, which refute nothing."""
    if verdict.guarantee in {Guarantee.REFUTED, Guarantee.FEWER_INPUTS}:
        return _unknown("it differs for values that it may never be given")
    return verdict


def _unknown(reason: str) -> Verdict:
    return Verdict(Guarantee.UNKNOWN, Technique.FINITE_FIELD, reason=reason)


@dataclass(frozen=True, slots=True)
class Regions:
    """Two models and the values that they share."""

    original: ValueGraph
    rewritten: ValueGraph
    shared: SharedValues

    @classmethod
    def of(cls, original: SplitModel, rewritten: SplitModel) -> Regions:
        """The regions of two models; shapes and places, sequences and optionals are inside of them.

        Integers mostly follow from the shapes of other values: as variables, they would be independent of those.
        """
        first, second = ValueGraph.of(original), ValueGraph.of(rewritten)
        others = {n for n, t in first.types.items() if t.tensor_type.elem_type not in {*FLOATS, TensorProto.BOOL}}
        return cls(first, second, SharedValues.of(first, second, others))

    @property
    def sites(self) -> tuple[str, ...]:
        """The shared values that the models compute in different ways."""
        return self.shared.sites

    def obligation(self, site: str, *, exact: bool = False) -> Obligation:
        """The obligation that both models compute the value of a site alike. Raises NotApplicable."""
        names = self.shared.names
        before = self._fragment(self.original, site, names.__contains__)
        after = self._fragment(self.rewritten, site, self._is_read_by_rewritten)
        given: dict[str, InputType] = {}
        for fragment in (before, after):
            given.update((i.name, i) for i in input_types(fragment.model) if i.name not in given)
        return Obligation(before, after, tuple(given.values()), EXACT if exact else ROUNDING, rule=site)

    def _is_read_by_rewritten(self, name: str) -> bool:
        """Whether a region of the rewritten model is given a value; shapes and the like stay constant."""
        constant = self.rewritten.constants.get(name)
        is_exact = isinstance(constant, Tensor) and not is_float(helper.tensor_dtype_to_np_dtype(constant.dtype))
        return name in self.shared.names and not is_exact

    def _fragment(self, values: ValueGraph, site: str, is_given: Callable[[str], bool]) -> Fragment:
        _, outside = values.ancestors((site,), is_given)
        types = {name: self._type(name) for name in outside if is_given(name) and name not in values.inputs}
        region = cut_region(values, (site,), is_given, types)
        _require_small(region.model)
        model = region.model.whole_message()
        for name, tensor in region.constants.items():
            model.graph.initializer.append(tensor.to_proto(name))
        del model.graph.output[:]
        model.graph.node.append(helper.make_node("Identity", [region.outputs.get(site, site)], [RESULT]))
        model.graph.output.append(onnx.ValueInfoProto(name=RESULT))
        return Fragment(model)

    def _type(self, name: str) -> onnx.TypeProto:
        found = self.original.types.get(name)
        if found is None or not found.tensor_type.elem_type:
            raise NotApplicable(f"the type of {name} is not known")
        return found


def _require_small(model: SplitModel) -> None:
    """Raise NotApplicable for weights that take too long to evaluate, and for bodies."""
    sizes = (int(np.prod(t.dims, dtype=np.int64)) for t in model.message.graph.initializer)
    if sum(sizes) > MAX_WEIGHTS:
        raise NotApplicable(f"its weights have more than {MAX_WEIGHTS} elements")
    if model.message.functions:
        raise NotApplicable("it calls functions of the model")
