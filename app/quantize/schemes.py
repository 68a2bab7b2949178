"""Quantization schemes for a model, with their requirements, and their variants in the order of trial."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace
from onnx import TensorProto

from ...core.calibration.collection import collect_statistics
from ...core.calibration.methods import METHODS, Method, calibrated_ranges
from ...core.calibration.statistics import ChannelStatistics, Gram, Rows, ValueStatistics
from ...core.errors import UsageError
from ...core.io.model import Model
from ...core.io.model_source import ModelSource, model_source, transformed_source
from ...core.ir.dtypes import HALF_OR_SINGLE
from ...core.ir.graph import defined_values
from ...core.ir.op import Op
from ...core.ir.quantization_spec import QuantizationSpec, Range
from ...core.plugins.plugin import PluginLike
from ...core.rewriting.change_log import ChangeLog
from ...core.run.pipeline import Fixpoint, Pass, RulePass, leaves, rule_pass
from ...core.support.suggestions import did_you_mean
from ...passes.cleanup import quantization as no_op_quantization
from ...passes.cleanup.constants import MergeConstants
from ...passes.cleanup.merge_duplicates import MergeDuplicates
from ...passes.quantization import cache, dynamic, integer_operators, static_groups, weights
from ...passes.quantization.cache import cached_operands
from ...passes.quantization.channel_scales import (
    EqualizeChannels,
    ProtectWeights,
    SmoothActivations,
    smoothable_channels,
)
from ...passes.quantization.channels import ChannelClasses
from ...passes.quantization.dynamic import QUANTIZE_LSTM
from ...passes.quantization.half import ConvertToHalf, StoreWeights
from ...passes.quantization.layer_rounding import RoundLayers, layer_pairs, rounded_layers
from ...passes.quantization.low_rank import FactorLayers, LowRank, factorable_ops
from ...passes.quantization.pruning import PruneChannels, Pruning, input_rows
from ...passes.quantization.recurrent import STATES, ScanRecurrentOps
from ...passes.quantization.weight_rounding import gram_inputs, joint_grams
from ...passes.quantization.weights import BLOCKS, CHANNEL_AXES, QUANTIZE_TABLES
from ...passes.support.operand_queries import Array
from ..measure.criterion import Feeds
from ..optimize.match_report import diagnose_match
from ..registry.pass_sources import plugin_registries
from .candidates import CandidateBuilder, Reduction, Scheme
from .quantize_options import QuantizationOptions
from .search import BuiltCandidate, Deadline, Variant, Variants

UNSIGNED_LIMIT = 127  # of unsigned weights minus their zero point
MAX_GRAM_BYTES = 1 << 30  # of all Gram matrices of a model
QUANTIZE_WEIGHTS = rule_pass(weights, "quantize-weights")
STORE_INT8_WEIGHTS = rule_pass(weights, "store-int8-weights")
QUANTIZE_CACHE = rule_pass(cache, "quantize-cache")
FORMATS: Mapping[str, tuple[Pass, ...]] = {"qdq": (), "qoperator": (rule_pass(integer_operators, "integer-operators"),)}
STORE_WEIGHTS: Mapping[str, tuple[Pass, ...]] = {
    "int8-weights": (STORE_INT8_WEIGHTS, StoreWeights()),
    "half-weights": (StoreWeights(),),
}
"""The passes of the schemes that only store weights, with which other schemes are combined."""
WEIGHT_ONLY = frozenset({"GRU", "Gather", "Gemm", "LSTM", "MatMul"})
STORED_OPERATORS = frozenset({*CHANNEL_AXES, "Gather"})  # the static scheme at least makes their weights smaller
JOIN_GROUPS = Fixpoint(
    "join-groups", (rule_pass(no_op_quantization, "simplify-quantization"), MergeDuplicates(), MergeConstants())
)
"""Adjacent groups of QuantizeLinear, DequantizeLinear and an operator become one chain of integer ops."""
PRUNED = Scheme("pruned", "redundant channels, neurons and heads removed, arithmetic in float32", (), is_base=True)
LOW_RANK = Scheme("low-rank", "products and convolutions become two narrow ones, in float32", (), is_base=True)
SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""The shares of the multiplications that base schemes keep; the smallest is tried first."""
SCHEMES: Mapping[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        Scheme(
            "static",
            "int8 arithmetic with calibrated ranges (LSTMs: with the ranges of each run); other weights stored in int8",
            (rule_pass(static_groups, "quantize-static"), QUANTIZE_LSTM, QUANTIZE_TABLES, STORE_INT8_WEIGHTS),
            (JOIN_GROUPS, rule_pass(static_groups, "keep-in-float")),
            needs_ranges=True,
        ),
        Scheme(
            "dynamic",
            "int8 weights, and activations with the range of each run",
            (rule_pass(dynamic, "quantize-dynamic"), QUANTIZE_TABLES),
            settings={"operators": frozenset({"Gather", "Gemm", "LSTM", "MatMul"})},
            variants=(("", {}), ("clipped weights", {"rounding": "mse"}), ("GPTQ", {"rounding": "gptq"})),
        ),
        Scheme(
            "weights8",
            "int8 weights of products, tables, and large GRUs and LSTMs, multiplied with floats",
            (QUANTIZE_WEIGHTS, ScanRecurrentOps()),
            settings={"operators": WEIGHT_ONLY, "weight_bits": 8},
        ),
        Scheme(
            "weights4",
            "weights of products, tables, and large GRUs and LSTMs in 4 bits, in blocks of 32, multiplied with floats",
            (QUANTIZE_WEIGHTS, ScanRecurrentOps()),
            settings={"operators": WEIGHT_ONLY, "weight_bits": 4, "block": 32},
            variants=(
                ("clipped", {"rounding": "mse"}),
                ("with zero points", {"rounding": "mse", "symmetric": False}),
                ("HQQ", {"rounding": "hqq", "symmetric": False}),
                ("GPTQ", {"rounding": "gptq"}),
                ("AWQ", {"rounding": "mse"}),
                ("AWQ and GPTQ", {"rounding": "gptq"}),
            ),
            protected=frozenset({"AWQ", "AWQ and GPTQ"}),
        ),
        Scheme(
            "int8-weights",
            "weights stored in int8, other constants in float16, arithmetic in float32",
            (STORE_INT8_WEIGHTS,),
            stores=STORE_WEIGHTS["int8-weights"][1:],
        ),
        Scheme("half", "arithmetic in float16, inputs and outputs unchanged", (ConvertToHalf(),), takes_extremes=True),
        PRUNED,
        LOW_RANK,
        Scheme("half-weights", "weights stored in float16, arithmetic in float32", STORE_WEIGHTS["half-weights"]),
    )
}
AUTO = "auto"


@dataclass
class Calibration:
    """Statistics of the float values of a model on calibration data, collected when they are first needed.

    Each collection takes at most half of the time until the `deadline`: later, it has fewer samples.
    """

    source: ModelSource
    feeds: Sequence[Feeds]
    progress: Callable[[str], None] = field(default=lambda _: None, repr=False)
    deadline: Deadline = field(default_factory=Deadline, repr=False)
    _reduced: dict[tuple[str, float], tuple[Calibration, Reduction]] = field(default_factory=dict[Any, Any], init=False)
    _known: dict[tuple[str, Rows], Gram] = field(default_factory=dict[Any, Gram], init=False, repr=False)

    @cached_property
    def statistics(self) -> dict[str, ValueStatistics]:
        """The statistics of float inputs and computed floats, by name."""
        graphs = self.source.load().graph.with_subgraphs()
        values = (v for g in graphs for v in defined_values(g) if v.name and v.tensor is None)
        return self._collected(self.source, [v.name for v in values if v.known_dtype in HALF_OR_SINGLE])

    @property
    def extremes(self) -> dict[str, Range]:
        """The smallest and largest finite element of each value, including masks."""
        return {name: Range(found.lowest, found.highest) for name, found in self.statistics.items()}

    def ranges(self, method: Method) -> dict[str, Range]:
        """The ranges of values by a calibration method."""
        return calibrated_ranges(self.statistics, method)

    def channels(self, axes: Mapping[str, int]) -> dict[str, ChannelStatistics]:
        """The maxima of channels of some values, by name."""
        found = self._collected(self.source, [], channels=axes, histograms=False)
        return {name: s.channels for name, s in found.items() if s.channels is not None}

    @cached_property
    def grams(self) -> dict[str, Array]:
        """The Gram matrices of operands of products with constant weights, by name; the largest are skipped."""
        graph = self.source.load().graph
        sizes = gram_inputs(graph)
        kept = {name: n for name, n in sizes.items() if 8 * n * n * len(sizes) <= MAX_GRAM_BYTES}
        rows = {name: [Rows(n)] for name, n in kept.items()}
        grams = {name: s.grams[r] for name, s in self._grams(rows, self.source).items() for r in s.grams}
        return joint_grams(graph, {n: g.sums[0] for n, g in grams.items()}, {n: g.rows for n, g in grams.items()})

    @cached_property
    def pruning(self) -> Pruning:
        """The channels that can be removed; empty if the Gram matrices of their layers are too large."""
        graph = self.source.load().graph
        statistics = self._layer_statistics([r.op for r in ChannelClasses(graph).readers])
        self.progress("ranking the channels")
        return Pruning(graph, statistics, until=self.deadline.midway)

    @cached_property
    def low_rank(self) -> LowRank:
        """The layers whose weights can be of low rank; without those whose Gram matrices are too large."""
        graph = self.source.load().graph
        statistics = self._layer_statistics([*factorable_ops(graph)])
        self.progress("decomposing the weights")
        return LowRank(graph, statistics, until=self.deadline.midway)

    def _layer_statistics(self, layers: Collection[Op]) -> dict[str, ValueStatistics]:
        """The statistics with the Gram matrices of the inputs of layers, without the largest ones."""
        kept = {
            name: found
            for name, found in input_rows(layers).items()
            if len(layers) * sum(rows.gram_bytes for rows in found) <= MAX_GRAM_BYTES
        }
        grams = self._grams(kept, self.source)
        counted = self.statistics.items()
        return {n: dataclasses.replace(s, grams=grams[n].grams if n in grams else {}) for n, s in counted}

    def reduced(self, base: str, share: float) -> tuple[Calibration, Reduction]:
        """The calibration of the model with a share of its multiplications by a base scheme, and what was removed."""
        if (base, share) not in self._reduced:
            if base == PRUNED.name:
                pruned = self.pruning.plan(share)
                change, reduction = PruneChannels(pruned), Reduction(pruned.share, removed=pruned.removed)
            else:
                factored = self.low_rank.plan(share)
                change, reduction = FactorLayers(factored), Reduction(factored.share, ranks=factored.ranks)
            self._reduced[base, share] = self.after(change) or self, reduction
        return self._reduced[base, share]

    def rounded(self, best: BuiltCandidate) -> CandidateBuilder | None:
        """The builder of a candidate whose integer weights are rounded for the inputs in its float model."""
        builder, quantized = best.builder, model_source(best.path, inline=True)
        pairs = layer_pairs(builder.source.load().graph, quantized.load().graph)
        layers = rounded_layers(pairs, lambda rows: self._grams(rows, builder.source), self.deadline.at)
        scheme = replace(builder.scheme, after=(*builder.scheme.after, RoundLayers(layers)))
        return replace(builder, scheme=scheme) if layers else None

    def _grams(self, rows: Mapping[str, Collection[Rows]], source: ModelSource) -> dict[str, ValueStatistics]:
        """Statistics with Gram matrices alone. Those of the model itself are kept, up to MAX_GRAM_BYTES."""
        is_own = source is self.source
        found = {key: gram for key, gram in self._known.items() if is_own and key[0] in rows}
        missing = {n: left for n, wanted in rows.items() if (left := [r for r in wanted if (n, r) not in found])}
        collected = self._collected(source, [], grams=missing, histograms=False) if missing else {}
        for name, s in collected.items():
            found |= {(name, rows): gram for rows, gram in s.grams.items()}
            if is_own and s.samples == len(self.feeds):
                self._known |= {(name, rows): gram for rows, gram in s.grams.items() if self._has_room(rows)}
        grams = {n: {r: found[n, r] for r in wanted if (n, r) in found} for n, wanted in rows.items()}
        return {name: ValueStatistics(name, grams=of) for name, of in grams.items()}

    def _has_room(self, rows: Rows) -> bool:
        """Whether a further Gram matrix is kept."""
        return rows.gram_bytes + sum(known.gram_bytes for _, known in self._known) <= MAX_GRAM_BYTES

    def _collected(self, source: ModelSource, names: Sequence[str], **settings: Any) -> dict[str, ValueStatistics]:
        until = self.deadline.midway
        return collect_statistics(source, names, self.feeds, until=until, progress=self.progress, **settings)

    def after(self, change: Pass) -> Calibration | None:
        """The calibration of the float model after a pass; None if the pass changes nothing."""

        def transform(model: Model) -> None:
            change.run(model.graph, ChangeLog())

        changed = transformed_source(self.source, [transform])
        has_changes = change.run(self.source.load().graph, ChangeLog()) > 0
        return Calibration(changed, self.feeds, self.progress, self.deadline) if has_changes else None


def lossy_passes(plugins: Sequence[PluginLike]) -> list[RulePass]:
    """The rules of contract LOSSY of plugins, by pass. Raises PluginError, and UsageError for a plugin without any."""
    found: list[RulePass] = []
    for registry in plugin_registries(plugins):
        passes = [p for entry in registry.passes.values() for p in leaves(entry.item) if isinstance(p, RulePass)]
        lossy = [RulePass(p.name, rules) for p in passes if (rules := tuple(r for r in p.rules if r.contract.is_lossy))]
        if not lossy and not registry.kernels:
            raise UsageError(f"--plugin: no rule has the contract LOSSY: {', '.join(registry.passes) or 'none'}")
        found += lossy
    return found


def requested_schemes(
    text: str, calibrate: str, output_format: str, precisions: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[Scheme], list[Method]]:
    """The schemes and calibration methods that options name. Raises UsageError for unknown or unused ones.

    Each of the engine's `precisions` is also a scheme, with the weights of another scheme if it needs them.
    """
    known = {**SCHEMES, **{name: _in_precision(name, weights) for name, weights in precisions.items()}}
    names = list(known) if text == AUTO else list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name == AUTO:
            raise UsageError(f"--scheme {text}: {AUTO} stands for all schemes; give it alone")
        if name not in known:
            choices = f"choose from {AUTO}, {', '.join(known)}{did_you_mean(name, known)}"
            raise UsageError(f"--scheme {name or repr(text)}: {choices}")
    methods: list[Method] = [m for m in METHODS if calibrate in {"", m}]
    if not methods:
        raise UsageError(f"--calibrate {calibrate}: choose from {', '.join(METHODS)}{did_you_mean(calibrate, METHODS)}")
    if output_format not in FORMATS:
        raise UsageError(f"--format {output_format}: choose from {', '.join(FORMATS)}")
    schemes = [known[name] for name in names]
    if not any(s.needs_ranges for s in schemes):
        for option, value, default in (("--calibrate", calibrate, ""), ("--format", output_format, "qdq")):
            if value != default:
                users = ", ".join(s.name for s in SCHEMES.values() if s.needs_ranges)
                raise UsageError(f"{option} {value}: it needs the scheme {users}, which --scheme does not include")
    return schemes, methods


def _in_precision(name: str, weights: str) -> Scheme:
    """The scheme of a precision, with the weights of another scheme; "" for the original's weights."""
    own = Scheme(name, f"arithmetic in {name}", (), precision=name)
    return replace(SCHEMES[weights], name=name, description=own.description, precision=name) if weights else own


def weight_settings(options: QuantizationOptions, *, runs_steps: bool = True) -> dict[str, Any]:
    """The settings of options for the schemes with few-bit weights. Raises UsageError for unknown or unused ones.

    Without `runs_steps`, GRUs and LSTMs stay as they are: their steps were measured in onnxruntime alone.
    """
    given: dict[str, Any] = {"block": options.block_size} if options.block_size else {}
    given |= {"symmetric": False} if options.asymmetric else {}
    if options.block_size and options.block_size not in BLOCKS:
        raise UsageError(f"--block-size {options.block_size}: choose from {', '.join(map(str, BLOCKS))}")
    users = [s.name for s in SCHEMES.values() if QUANTIZE_WEIGHTS in s.lossy]
    names = {name.strip() for name in options.scheme.split(",")}
    if given and AUTO not in names and not names & set(users):
        flag = f"--block-size {options.block_size}" if options.block_size else "--asymmetric"
        raise UsageError(f"{flag}: it needs one of the schemes {', '.join(users)}, which --scheme does not include")
    return given if runs_steps else {**given, "operators": WEIGHT_ONLY - STATES.keys()}


def spec_of_caches(spec: QuantizationSpec, calibration: Calibration | None) -> QuantizationSpec:
    """The spec with the channels of caches. Raises UsageError without data, or if no cache can be int8."""
    if calibration is None:
        raise UsageError("--int8-cache needs texts to calibrate with: give --labelled or --data")
    graph = calibration.source.load().graph
    found = replace(spec, channels={n: c.maxima for n, c in calibration.channels(cached_operands(graph)).items()})
    graph.context.quantization = found
    tried = [diagnose_match(r, op) for op in graph.ops("Attention") for r in QUANTIZE_CACHE.rules]
    if all(d.failures for d in tried):
        reasons = [f"{d.failures[0].reason}" for d in tried] or ["the optimized model has no Attention"]
        raise UsageError(f"--int8-cache: {reasons[0]}")
    return found


def chosen_schemes(
    text: str,
    source: ModelSource,
    calibration: Calibration | None,
    spec: QuantizationSpec,
    calibrate: str = "",
    output_format: str = "qdq",
    plugins: Sequence[RulePass] = (),
    original: ModelSource | None = None,
    precisions: Mapping[str, str] = MappingProxyType({}),
    weights: Mapping[str, Any] | None = None,
) -> dict[str, Variants]:
    """The schemes that `text` names, or for `auto` all that the data permits, with their variants.

    `calibrate` is the only calibration method; "" tries all in order. With `output_format` qoperator, groups become
    integer operators. Passes of `plugins` run before those of each scheme. Schemes of `precisions` use the `original`
    unchanged, unless they need quantized weights. `weights` are settings for few-bit weights. Raises the UsageError of
    `requested_schemes`, and one for a scheme that needs data if there is none.
    """
    requested, methods = requested_schemes(text, calibrate, output_format, precisions)
    chosen: dict[str, Variants] = {}
    for s in requested:
        settings = {**s.settings, **(weights or {})} if QUANTIZE_WEIGHTS in s.lossy else s.settings
        is_original = bool(s.precision) and not s.lossy
        scheme = s if is_original else replace(s, lossy=(*plugins, *s.lossy), settings=settings)
        if s.is_base and calibration is not None:
            chosen[s.name] = [*_reduced_variants(scheme, calibration, spec, is_automatic=text == AUTO)]
        elif s.is_base:
            _require_no_request(s, text)
        elif is_original:
            chosen[scheme.name] = list(_variants(scheme, original or source, None, spec))
        elif not scheme.needs_ranges:
            variants = [*_variants(scheme, source, calibration, spec)]
            if STORE_INT8_WEIGHTS in scheme.lossy and calibration is not None:
                variants.append(("GPTQ", calibration.rounded))
            chosen[scheme.name] = variants
        elif calibration is not None:
            formatted = replace(scheme, after=(*scheme.after, *FORMATS[output_format]))
            chosen[scheme.name] = list(_calibrated_variants(formatted, calibration, spec, methods))
        else:
            _require_no_request(s, text)
    return chosen


def _require_no_request(scheme: Scheme, text: str) -> None:
    """Raise UsageError if a scheme that needs data was requested by name and there is none."""
    if text != AUTO:
        raise UsageError(f"--scheme {scheme.name} needs calibration data: give --data")


def reduced_schemes(calibration: Calibration | None, finalists: Sequence[BuiltCandidate]) -> dict[str, Variants]:
    """The best finalists with fewer bits, made from the best reduced model within the budget, and from larger ones."""
    bases = [b.builder for b in finalists if b.builder.scheme.is_base]
    narrow = [b.builder for b in finalists if b.builder.scheme.lossy and not b.builder.scheme.is_base]
    if calibration is None or not bases or not narrow:
        return {}
    base, least, name = narrow[0], bases[0].reduction.share, bases[0].scheme.name

    def narrowed(share: float, _: object) -> CandidateBuilder:
        data, reduction = calibration.reduced(name, share)
        ranges = data.ranges(base.method) if base.scheme.needs_ranges else base.spec.ranges
        ranges = data.extremes if base.scheme.takes_extremes else ranges
        grams = data.grams if base.spec.rounding == "gptq" else {}
        return CandidateBuilder(
            data.source, scheme, replace(base.spec, ranges=ranges, grams=grams, remembered={}), base.method, reduction
        )

    def rounded(share: float, best: BuiltCandidate) -> CandidateBuilder | None:
        return calibration.rounded(best) if best.trial.variant.startswith(_share_text(share)) else None

    after = tuple(p for p in base.scheme.after if not isinstance(p, RoundLayers))
    scheme = replace(base.scheme, after=after, stores=base.scheme.stores if base.scheme.name in STORE_WEIGHTS else ())
    variants: list[tuple[str, Variant]] = []
    for share in (share for share in SHARES if share >= least or share == SHARES[-1]):
        variants.append((_share_text(share), partial(narrowed, share)))
        if STORE_INT8_WEIGHTS in scheme.lossy:
            variants.append((f"{_share_text(share)}, GPTQ", partial(rounded, share)))
    return {f"{name} {scheme.name}": variants}


def _share_text(share: float) -> str:
    return f"{share:g} of the multiplications"


def _reduced_variants(
    scheme: Scheme, calibration: Calibration, spec: QuantizationSpec, *, is_automatic: bool
) -> Iterator[tuple[str, Variant]]:
    """Yield the float model with increasing shares of its multiplications.

    Low rank takes longer than pruning for as many multiplications: `auto` tries it only if pruning cannot leave the
    largest of SHARES.
    """

    def reduced(share: float, _: object) -> CandidateBuilder | None:
        if is_automatic and scheme.name == LOW_RANK.name:
            _, pruned = calibration.reduced(PRUNED.name, SHARES[0])
            if pruned.share <= SHARES[-1]:
                return None
        data, reduction = calibration.reduced(scheme.name, share)
        if reduction.share > share != SHARES[0]:
            return None  # it is the least possible share, as the first one was
        return CandidateBuilder(data.source, scheme, spec, reduction=reduction)

    for share in SHARES:
        yield _share_text(share), partial(reduced, share)


def combined_schemes(chosen: Collection[str]) -> dict[str, Sequence[Pass]]:
    """The ways to store weights that are combined with the chosen schemes, by name: those that are also chosen.

    Static quantization always stores weights in int8.
    """
    wanted = {*chosen, *(["int8-weights"] if "static" in chosen else [])}
    return {name: stores for name, stores in STORE_WEIGHTS.items() if name in wanted}


def _variants(
    scheme: Scheme, source: ModelSource, calibration: Calibration | None, spec: QuantizationSpec
) -> Iterator[tuple[str, Variant]]:
    """Yield the variants of a scheme without ranges; those that need Gram matrices only if there is data."""

    def built(settings: Mapping[str, Any], data: Calibration | None, _: object) -> CandidateBuilder | None:
        """Build with the extremes of values as their ranges, if there is data."""
        extremes = data.extremes if scheme.takes_extremes and data is not None else spec.ranges
        grams = data.grams if data is not None and settings.get("rounding") == "gptq" else {}
        found = replace(spec, ranges=extremes, grams=grams, remembered={}, **settings)
        is_unable = found.rounding == "gptq" and not grams
        return None if is_unable else CandidateBuilder(source if data is None else data.source, scheme, found)

    def protected(settings: Mapping[str, Any], data: Calibration, best: object) -> CandidateBuilder | None:
        scaled = data.after(ProtectWeights(replace(spec, grams=data.grams, **settings)))
        return None if scaled is None else built(settings, scaled, best)

    for name, changes in scheme.variants:
        settings: dict[str, Any] = {**scheme.settings, **changes}
        if name not in scheme.protected and (calibration is not None or settings.get("rounding") != "gptq"):
            yield name, partial(built, settings, calibration)
        elif calibration is not None:
            yield name, partial(protected, settings, calibration)


def _calibrated_variants(
    scheme: Scheme, calibration: Calibration, spec: QuantizationSpec, methods: Sequence[Method]
) -> Iterator[tuple[str, Variant]]:
    """Yield a variant for each method, then the best with weights rounded by GPTQ, then models with other scales.

    Each extends the best one so far: scales are added to other scales, and rounding is done last.
    """
    calibrations = [calibration]

    def calibrated(data: Calibration, base: QuantizationSpec, method: Method) -> CandidateBuilder:
        operators = base.operators | STORED_OPERATORS
        with_ranges = replace(base, ranges=data.ranges(method), operators=operators, **scheme.settings)
        return CandidateBuilder(data.source, scheme, with_ranges, method)

    def after(change: Pass, best: BuiltCandidate) -> CandidateBuilder | None:
        """Apply the best calibration method to the best candidate's model with other scales."""
        changed = calibration_of(best).after(change)
        if changed is None:
            return None
        calibrations.append(changed)
        return calibrated(changed, best.builder.spec, best.builder.method)

    def calibration_of(best: BuiltCandidate) -> Calibration:
        return next(c for c in calibrations if c.source is best.builder.source)

    def with_smoothed_activations(best: BuiltCandidate) -> CandidateBuilder | None:
        data = calibration_of(best)
        axes = smoothable_channels(data.source.load().graph)
        maxima = {name: c.maxima for name, c in data.channels(axes).items()}
        return after(SmoothActivations(maxima), best)

    def with_rounded_scales(best: BuiltCandidate) -> CandidateBuilder | None:
        is_rounded = any(isinstance(p, RoundLayers) for p in best.builder.scheme.after)
        return None if is_rounded else calibration.rounded(best)

    def with_unsigned_weights(best: BuiltCandidate) -> CandidateBuilder:
        """Use unsigned weights, which all processors add exactly, but more slowly."""
        unsigned = replace(best.builder.spec, weights=TensorProto.UINT8, weight_limit=UNSIGNED_LIMIT)
        return calibrated(calibration_of(best), unsigned, best.builder.method)

    for method in methods:
        yield method, lambda _, method=method: calibrated(calibration, spec, method)
    yield "GPTQ", calibration.rounded
    yield "equalized channels", partial(after, EqualizeChannels())
    yield "smoothed activations", with_smoothed_activations
    yield "other scales and GPTQ", with_rounded_scales
    if spec.weight_limit < UNSIGNED_LIMIT:
        yield "weights of 8 bits", with_unsigned_weights
