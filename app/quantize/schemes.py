"""Schemes of compression for a model: what each needs, and its variants in the order of trial."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

from ...core.calibration.collection import collect_statistics
from ...core.calibration.methods import METHODS, Method, calibrated_ranges
from ...core.calibration.statistics import ValueStatistics
from ...core.io.model_source import ModelSource
from ...core.ir.dtypes import HALF_OR_SINGLE
from ...core.ir.graph import defined_values
from ...core.ir.quantization_spec import QuantizationSpec, Range
from ...core.pass_manager.pass_selection import UsageError
from ...core.pass_manager.pipeline import Fixpoint
from ...core.support.suggestions import did_you_mean
from ...passes.cleanup.constants import MergeConstants
from ...passes.cleanup.merge_duplicates import MergeDuplicates
from ...passes.cleanup.quantization import SIMPLIFY_QUANTIZATION
from ...passes.quantization.dynamic import QUANTIZE_DYNAMIC
from ...passes.quantization.half import ConvertToHalf, StoreWeights
from ...passes.quantization.static_groups import KEEP_IN_FLOAT, QUANTIZE_STATIC
from ...passes.quantization.weights import QUANTIZE_WEIGHTS
from .candidates import CandidateBuilder, Scheme
from .criterion import Feeds
from .search import Variants

WEIGHT_ONLY = frozenset({"Gather", "Gemm", "MatMul"})
JOIN_GROUPS = Fixpoint("join-groups", (SIMPLIFY_QUANTIZATION, MergeDuplicates(), MergeConstants()))
"""Neighbouring groups of QuantizeLinear, DequantizeLinear and an operator become one chain of integers."""
SCHEMES: Mapping[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        Scheme(
            "static",
            "int8 weights and activations, with calibrated ranges",
            (QUANTIZE_STATIC,),
            (JOIN_GROUPS, KEEP_IN_FLOAT),
            needs_ranges=True,
        ),
        Scheme(
            "dynamic",
            "int8 weights, and activations with the range of each run",
            (QUANTIZE_DYNAMIC,),
            (MergeDuplicates(),),
            {"operators": frozenset({"Gemm", "LSTM", "MatMul"})},
            (("", {}), ("clipped weights", {"rounding": "mse"})),
        ),
        Scheme(
            "weights8",
            "int8 weights of products and tables, multiplied with floats",
            (QUANTIZE_WEIGHTS,),
            settings={"operators": WEIGHT_ONLY, "weight_bits": 8},
        ),
        Scheme(
            "weights4",
            "weights of products in 4 bits, in blocks of 32",
            (QUANTIZE_WEIGHTS,),
            settings={"operators": WEIGHT_ONLY - {"Gather"}, "weight_bits": 4, "block": 32},
            variants=(
                ("clipped", {"rounding": "mse"}),
                ("with zero points", {"rounding": "mse", "symmetric": False}),
                ("HQQ", {"rounding": "hqq", "symmetric": False}),
            ),
        ),
        Scheme("half", "arithmetic in float16, inputs and outputs as they are", (ConvertToHalf(),)),
        Scheme("half-weights", "weights stored in float16, arithmetic in float32", (StoreWeights(),)),
    )
}
AUTO = "auto"


@dataclass
class Calibration:
    """Statistics of the float values of a model on calibration data, collected when they are first needed."""

    source: ModelSource
    feeds: Sequence[Feeds]
    progress: Callable[[str], None] = field(default=lambda _: None, repr=False)

    @cached_property
    def statistics(self) -> dict[str, ValueStatistics]:
        """The statistics of all computed floats, and of float inputs, by name."""
        self.progress("calibrating")
        graphs = self.source.load().graph.with_subgraphs()
        values = (v for g in graphs for v in defined_values(g) if v.name and v.tensor is None)
        return collect_statistics(self.source, [v.name for v in values if v.known_dtype in HALF_OR_SINGLE], self.feeds)

    def ranges(self, method: Method) -> dict[str, Range]:
        """The ranges of values by a method of calibration."""
        return calibrated_ranges(self.statistics, method)


def chosen_schemes(
    text: str, source: ModelSource, calibration: Calibration | None, spec: QuantizationSpec, calibrate: str
) -> dict[str, Variants]:
    """The schemes that `text` names, for `auto` all that the data allows, with their variants.

    `calibrate` is the one method of calibration to use; "": all, in their order. Raises UsageError for unknown names,
    and for a scheme that needs data where there are none.
    """
    names = list(SCHEMES) if text == AUTO else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in SCHEMES:
            raise UsageError(f"--scheme {name}: choose from {AUTO}, {', '.join(SCHEMES)}{did_you_mean(name, SCHEMES)}")
    methods: list[Method] = [m for m in METHODS if calibrate in {"", m}]
    if not methods:
        raise UsageError(f"--calibrate {calibrate}: choose from {', '.join(METHODS)}{did_you_mean(calibrate, METHODS)}")
    chosen: dict[str, Variants] = {}
    for scheme in (SCHEMES[name] for name in names):
        found = [
            (name, CandidateBuilder(source, scheme, replace(spec, **scheme.settings, **changes)))
            for name, changes in scheme.variants
        ]
        if not scheme.needs_ranges:
            chosen[scheme.name] = [(name, lambda builder=builder: builder) for name, builder in found]
        elif calibration is not None:
            with_ranges = partial(_with_ranges, found[0][1], calibration)
            chosen[scheme.name] = [(method, partial(with_ranges, method)) for method in methods]
        elif text != AUTO:
            raise UsageError(f"--scheme {scheme.name} needs calibration data: give --data")
    return chosen


def _with_ranges(builder: CandidateBuilder, calibration: Calibration, method: Method) -> CandidateBuilder:
    return replace(builder, spec=replace(builder.spec, ranges=calibration.ranges(method)))
