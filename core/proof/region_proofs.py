"""Proofs of the regions in which a rewritten model differs from the original, on their real weights.

A region computes one value that both models share from values that both share, as verification cuts them out: a proof
holds for whatever these values are. A weight into which the rewrite folded others is rounded, and is taken as it is:
only regions whose weights were moved, or kept, are proved over the reals.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from time import monotonic

import numpy as np
import onnx
from onnx import TensorProto, helper

from ..ir.dtypes import FLOATS
from ..ir.graph import Graph
from ..ir.tensor import Tensor
from ..ort.split_models import SplitModel
from ..rewriting.rules import EXACT, ROUNDING
from ..verify.noise import is_float
from ..verify.regions.region_models import cut_region
from ..verify.regions.sites import SharedValues
from ..verify.regions.value_graph import ValueGraph
from .guarantee import PROOFS, Guarantee
from .obligation import Fragment, InputType, NotApplicable, Obligation, input_types
from .prover import Backend
from .verdict import ProofCounts, Technique, Verdict, strongest

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
    def counts(self) -> ProofCounts:
        """The numbers of regions."""
        proved = Counter(str(r.verdict.guarantee) for r in self.regions if r.is_proved)
        reasons = Counter(r.verdict.reason or str(r.verdict) for r in self.regions if not r.is_proved)
        return ProofCounts(len(self.regions), dict(proved), dict(reasons.most_common()))

    def to_data(self) -> dict[str, object]:
        """The proofs as data for JSON."""
        regions = [{"value": r.site, "verdict": str(r.verdict), "proved": r.is_proved} for r in self.regions]
        return {"changed": len(self.regions), "proved": sum(r.is_proved for r in self.regions), "regions": regions}


def prove_regions(
    models: RewrittenModel, techniques: Sequence[Backend], *, exact: bool = False, seconds: float = inf
) -> RegionProofs:
    """Prove each changed region by the first technique that does; what is left after so many `seconds` is unknown.

    With `exact`, equal bits are demanded. Each technique is tried on all regions before the next one.
    """
    start = monotonic()
    regions = Regions.of(models)
    obligations: dict[str, Obligation] = {}
    verdicts: dict[str, list[Verdict]] = {site: [] for site in regions.sites}
    for site in regions.sites:
        try:
            obligations[site] = regions.obligation(site, exact=exact)
        except NotApplicable as why:
            verdicts[site].append(_unknown(str(why)))
    for technique in techniques:
        for site, obligation in obligations.items():
            if monotonic() - start > seconds:
                verdicts[site] = verdicts[site] or [_unknown("no time was left")]
            elif not any(v.guarantee in PROOFS for v in verdicts[site]):
                verdicts[site] += _attempt(technique, obligation)
    found = tuple(RegionProof(site, _of_region(strongest(given))) for site, given in verdicts.items())
    return RegionProofs(found, monotonic() - start)


def _attempt(technique: Backend, obligation: Obligation) -> Sequence[Verdict]:
    try:
        with np.errstate(all="ignore"):
            return technique(obligation)
    except NotApplicable as why:
        return [_unknown(str(why))]


def _of_region(verdict: Verdict) -> Verdict:
    """The verdict on a region: its inputs may be values that the model never has, which refute nothing."""
    if verdict.guarantee in {Guarantee.REFUTED, Guarantee.FEWER_INPUTS}:
        return _unknown("it differs for values that it may never be given")
    return verdict


def _unknown(reason: str) -> Verdict:
    return Verdict(Guarantee.UNKNOWN, Technique.FINITE_FIELD, reason=reason)


@dataclass(frozen=True, slots=True)
class RewrittenModel:
    """An original, whose values `graph` describes, and its rewritten form."""

    original: SplitModel
    rewritten: SplitModel
    graph: Graph


def value_types(graph: Graph) -> dict[str, onnx.TypeProto]:
    """The types of the values of a graph, with the names of its symbols as dims."""
    found: dict[str, onnx.TypeProto] = {}
    for value in (v for op in graph.ops() for v in op.outputs):
        if value.known_dtype:
            shape = value.known_shape
            dims = None if shape is None else [d if isinstance(d, int | str) else None for d in shape]
            found[value.name] = helper.make_tensor_type_proto(value.known_dtype, dims)
    return found


@dataclass(frozen=True, slots=True)
class Regions:
    """Two models, the values that they share, and the types of those of the original."""

    original: ValueGraph
    rewritten: ValueGraph
    shared: SharedValues
    types: Mapping[str, onnx.TypeProto]

    @classmethod
    def of(cls, models: RewrittenModel) -> Regions:
        """The regions of two models; shapes and places, sequences and optionals are inside of them.

        Integers mostly follow from the shapes of other values: as variables, they would be independent of those.
        """
        first, second = ValueGraph.of(models.original), ValueGraph.of(models.rewritten)
        types = value_types(models.graph)
        kept = {n for n, t in types.items() if t.tensor_type.elem_type in {*FLOATS, TensorProto.BOOL}}
        return cls(first, second, SharedValues.of(first, second, first.producers.keys() - kept), types)

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
        found = self.types.get(name)
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
