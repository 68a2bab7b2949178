"""The search for candidates within a budget, with accuracies and times that the tests decide."""

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest
from msgspec import structs
from onnx import TensorProto
from passwright.app.measure.agreement import Score
from passwright.app.measure.criterion import Budget
from passwright.app.measure.metrics import ModelMetrics
from passwright.app.quantize import quantize as quantize_module
from passwright.app.quantize.candidates import CandidateBuilder, Scheme
from passwright.app.quantize.inventory import kept_high_precision
from passwright.app.quantize.journal import Journal
from passwright.app.quantize.samples import Criteria
from passwright.app.quantize.schemes import JOIN_GROUPS, STORE_WEIGHTS
from passwright.app.quantize.search import LESS, LIMITED, BuiltCandidate, Limits, RaceRatios, Search, Variants
from passwright.core import QuantizationSpec, Range, rule_pass
from passwright.core.errors import ModelError
from passwright.core.io.model_source import model_source
from passwright.core.ort.sessions import AS_USERS_RUN
from passwright.core.support.confidence_intervals import RatioInterval
from passwright.passes.quantization import static_groups
from passwright.passes.quantization import weights as weight_rules
from rewriting import cases, each, load, op_types, run
from tiers import slow_unless

OPENVINO = structs.replace(AS_USERS_RUN, engine="openvino")
QUANTIZE_STATIC = rule_pass(static_groups, "quantize-static")

LAYERS = 8
STATIC = Scheme("static", "", (QUANTIZE_STATIC,), after=(JOIN_GROUPS,), needs_ranges=True)


def chain() -> onnx.ModelProto:
    """Convolutions, behind each second one a Sigmoid, behind the others a Relu."""
    rng = np.random.default_rng(0)
    layers = [
        f"m{i} = Conv({f'y{i - 1}' if i else 'x'}, w{i}) y{i} = {'Sigmoid' if i % 2 else 'Relu'}(m{i})"
        for i in range(LAYERS)
    ]
    weights = {f"w{i}": rng.normal(size=(4, 4, 1, 1)).astype(np.float32) for i in range(LAYERS)}
    return load(f"g (float[1,4,2,2] x) => (float[1,4,2,2] y{LAYERS - 1}) {{ {' '.join(layers)} }}", weights=weights)


def dequantized_values(path: Path) -> set[str]:
    return {name for node in onnx.load(path).graph.node if node.op_type == "DequantizeLinear" for name in node.output}


def spec() -> QuantizationSpec:
    names = ["x", *(f"{kind}{i}" for kind in "my" for i in range(LAYERS))]
    return QuantizationSpec(dict.fromkeys(names, Range(-3, 3)), operators=frozenset({"Conv", "Sigmoid"}))


@dataclass
class HarmfulPlaces:
    """A criterion by which only some quantized values do harm, each as much as the budget allows for one."""

    harmful: Collection[str]
    files: dict[Path, BuiltCandidate] = field(default_factory=dict[Path, BuiltCandidate])
    name: str = "harm"
    reference: float = 0.0
    scored: int = 0

    def score(self, model: Path | bytes, _: Any = None) -> Score:
        self.scored += 1
        assert isinstance(model, Path)
        harm = len(dequantized_values(model) & set(self.harmful))
        return Score(-harm, harm)

    def allows(self, score: Score) -> bool:
        return score.loss < 1


@dataclass
class MildlyHarmfulPlaces(HarmfulPlaces):
    """A criterion by which each does harm of a `share` of what the budget allows."""

    share: float = 1 / 8

    def score(self, model: Path | bytes, _: Any = None) -> Score:
        found = super().score(model)
        return structs.replace(found, loss=self.share * found.loss)


def built_search(
    tmp_path: Path, criterion: HarmfulPlaces, *, time: float = 0.5, sigmoid: float = 1.0, **changes: object
) -> tuple[Search, dict[str, Variants]]:
    def race(models: Sequence[Path], _: Any) -> list[RaceRatios | str]:
        times = [time * (sigmoid if "y1" in dequantized_values(path) else 1) for path in models]
        return [RaceRatios(RatioInterval(t, t * 0.98, t * 1.02)) for t in times]

    def rankings(built: BuiltCandidate) -> list[list[tuple[str, str]]]:
        order = sorted(built.candidate.keys, key=lambda key: key[1])
        return [order, order[::-1]]

    source = model_source(chain(), inline=True)
    settings: dict[str, object] = {"limits": Limits(100, 600), **changes}
    settings = {"race": race, "size": 1 << 20, **settings}
    search = Search(criterion, rankings=rankings, folder=tmp_path, **settings)  # type: ignore[arg-type]
    return search, {"static": [("minmax", lambda _: CandidateBuilder(source, STATIC, spec()))]}


def changed_places(built: BuiltCandidate) -> set[str]:
    return {c.place for c in built.candidate.changes}


def searched(
    tmp_path: Path, harmful: Collection[str] = (), **changes: Any
) -> tuple[list[BuiltCandidate], Search, HarmfulPlaces]:
    """The results of a search, the search, and its criterion."""
    search, schemes = built_search(tmp_path, criterion := HarmfulPlaces(harmful), **changes)
    return search.run(schemes), search, criterion


EVERYTHING = {*(f"y{i}" for i in range(LAYERS)), *(f"m{i}" for i in range(1, LAYERS, 2))}


def test_everything_is_quantized_where_nothing_does_harm(tmp_path: Path) -> None:
    (best,), search, _ = searched(tmp_path)
    assert (changed_places(best), search.scored) == (EVERYTHING, 1)


def test_a_result_over_the_budget_on_other_samples_is_followed_by_a_more_accurate_one(tmp_path: Path) -> None:
    """Each has less loss than that before, until nothing is left to try."""
    search, schemes = built_search(tmp_path, MildlyHarmfulPlaces(("m1", "m3", "y7")))
    ((_, variant),) = schemes["static"]
    untried: Variants = [("minmax", variant), ("same", variant)]
    (found,) = search.run({"static": untried})
    losses = [found.trial.score.loss] if found.trial.score is not None else []
    places = [changed_places(found)]
    while closer := search.more_accurate(found):
        (found,) = closer
        assert found.trial.score is not None
        losses.append(found.trial.score.loss)
        places.append(changed_places(found))
    assert losses == [3 / 8, 2 / 8, 1 / 8, 0]
    assert all(after < before for before, after in itertools.pairwise(places))
    assert "same" in {t.variant for t in search.trials}
    assert search.more_accurate(found) == []


def test_each_candidate_is_the_best_of_those_that_are_left(tmp_path: Path) -> None:
    """Of two that are as fast as each other and slower than the best one, the smaller one is first."""
    search, schemes = built_search(tmp_path, HarmfulPlaces(()))
    ((_, variant),) = schemes["static"]
    builts = [b for name in "abc" if (b := search._first(name, [("", variant)])) is not None]
    for built, (time, size) in zip(builts, ((0.95, 100), (0.96, 50), (0.3, 200)), strict=True):
        built.trial.ratio, built.trial.bytes = RatioInterval(time, time - 0.05, time + 0.05), size
    assert [b.trial.scheme for b in search.ordered(builts)] == ["c", "b", "a"]


def test_one_that_is_surely_faster_than_the_original_is_better_than_a_smaller_one_that_may_not_be(
    tmp_path: Path,
) -> None:
    search, schemes = built_search(tmp_path, HarmfulPlaces(()))
    ((_, variant),) = schemes["static"]
    builts = [b for name in "ab" if (b := search._first(name, [("", variant)])) is not None]
    for built, (time, size) in zip(builts, ((0.98, 100), (1.0, 50)), strict=True):
        built.trial.ratio, built.trial.bytes = RatioInterval(time, time - 0.01, time + 0.01), size
    assert [b.trial.scheme for b in search.ordered(builts)] == ["a", "b"]


def test_a_candidate_that_another_outran_is_scored_in_the_end(tmp_path: Path) -> None:
    """If the other one is over the budget on other samples."""
    search, schemes = built_search(tmp_path, HarmfulPlaces(()))
    ((_, variant),) = schemes["static"]

    def smaller(_: object) -> CandidateBuilder:
        whole = variant(None)
        assert whole is not None
        return structs.replace(whole, spec=structs.replace(whole.spec, operators=frozenset({"Conv"})))

    def race(models: Sequence[Path], _: Any) -> list[RaceRatios | str]:
        times = [0.5 if path.name == "1.onnx" else 0.8 for path in models]
        return [RaceRatios(RatioInterval(t, t * 0.98, t * 1.02)) for t in times]

    search.race = race
    (fast,) = search.run({"static": [("", smaller)], "other": [("", variant)]})
    assert (fast.trial.scheme, search.scored) == ("static", 1)
    search._start = monotonic() - 1.2 * search.limits.seconds
    assert not search.more_accurate(fast)  # for which there would be time without the other one
    (found,) = search.outrun()
    assert (found.trial.scheme, found.is_within) == ("other", True)
    assert search.outrun() == []


def test_a_result_that_takes_longer_than_in_the_search_is_compared_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that was ranked by the time of a candidate with fewer ops in float; the better one is taken then."""

    def interval(time: float) -> RatioInterval:
        return RatioInterval(time, time - 0.01, time + 0.01)

    search, schemes = built_search(tmp_path, HarmfulPlaces(()))
    ((_, variant),) = schemes["static"]
    for time, expected in ((0.98, "b"), (0.5, "a")):
        builts = [b for name in "ab" if (b := search._first(name, [("", variant)])) is not None]
        for built, (ranked, size) in zip(builts, ((0.5, 200), (0.95, 100)), strict=True):
            built.trial.ratio, built.trial.bytes = interval(ranked), size
        times = {builts[0].path: time, builts[1].path: 0.95}
        setup = context(
            (Score(1.0, 0.0), ""),
            lambda models, *_, t=times: [ModelMetrics(), ModelMetrics(peak_bytes=t[models[0]])],
        )
        monkeypatch.setattr(quantize_module, "latency_ratios", lambda made, _: {1: interval(made.peak_bytes)})
        taken, _, after = quantize_module.measured_result(builts, setup, search)
        assert taken is not None
        assert (taken.trial.scheme, after.bytes) == (expected, taken.trial.bytes)


def context(excess: tuple[Score, str], measure: Callable[..., list[ModelMetrics]]) -> Any:
    """The parts of a context that `measured_result` reads: each model has this score on the samples of the report."""
    return SimpleNamespace(
        budget=Budget.parse("1%"),
        criteria=SimpleNamespace(reported=SimpleNamespace(reference=1.0), excess=lambda *_: excess),
        racing=SimpleNamespace(scoring=AS_USERS_RUN, measure=measure),
        source=SimpleNamespace(size=400),
    )


@pytest.mark.parametrize(("loss", "followed"), [(0.015, "ab"), (0.05, "b")])
def test_a_result_far_over_the_budget_on_other_samples_is_followed_by_another_scheme(
    loss: float, followed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only if there is none, more accurate ones of its own are tried."""
    search, schemes = built_search(tmp_path, HarmfulPlaces(()))
    ((_, variant),) = schemes["static"]
    finalists = search.run({name: [("", variant)] for name in "ab"})
    setup = context((Score(1 - loss, loss), "on the report set"), lambda *_: [ModelMetrics()])
    tried: list[str] = []

    def note(failed: BuiltCandidate) -> list[BuiltCandidate]:
        tried.append(failed.trial.scheme)
        return []

    monkeypatch.setattr(search, "more_accurate", note)
    taken, *_ = quantize_module.measured_result(finalists, setup, search)
    assert (taken, "".join(tried)) == (None, followed)


@each(
    ("times", "sizes", "share"),
    {
        "it alone": ([0.25], [8], 1),
        "another one that gains half as much": ([0.25, 0.5], [8, 8], 2 / 3),
        "one that gains twice as much": ([0.5, 0.25], [8, 8], 1 / 3),
        "others that gain nothing": ([0.5, 1.0, 1.1], [8, 8, 4], 1),
        "one as fast as the best": ([1.0, 0.5], [8, 8], 0),
        "one as fast and half as large": ([1.0, 0.5], [4, 8], 1 / 3),
        "a base that gains as much": ([0.25, -0.25], [8, 8], 2 / 3),
    },
)
def test_the_time_for_repairs_is_shared_by_what_they_may_gain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: Sequence[float], sizes: Sequence[int], share: float
) -> None:
    """Compared with a finalist that is as fast as the original; times of bases are negative."""
    search, schemes = built_search(tmp_path, HarmfulPlaces(()), limits=Limits(9, 600))
    ((_, variant),) = schemes["static"]
    base = base_variants(1)
    variants = [base if time < 0 else [("", variant)] for time in (1.0, *times)]
    builts = [b for v in variants if (b := search._first("", v)) is not None]
    for built, time, size in zip(builts, (1.0, *times), (8, *sizes), strict=True):
        built.trial.ratio, built.trial.bytes = RatioInterval(abs(time), abs(time) - 0.001, abs(time) + 0.001), size
    given: list[float] = []
    monkeypatch.setattr(search, "_with_other_variant", lambda start: start)
    monkeypatch.setattr(search, "_with_ops_left", lambda _: given.append(search.deadline.at - monotonic()))
    finalist, over, *waiting = builts
    search._repaired([over], [finalist], waiting)
    assert given == pytest.approx([600 * share] * (share > 0), abs=2)
    assert not search.ended_by


def test_other_variants_of_all_schemes_come_before_ops_in_float(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that a scheme that gains less, but needs only another variant, is repaired before the time is used up."""
    search, schemes = built_search(tmp_path, HarmfulPlaces(()))
    ((_, variant),) = schemes["static"]
    over = [b for name in "ab" if (b := search._first(name, [("", variant)])) is not None]
    search._race(over)
    steps: list[str] = []
    for step in ("_with_other_variant", "_with_ops_left"):
        monkeypatch.setattr(search, step, lambda b, step=step: steps.append(f"{b.trial.scheme}{step}"))
    assert search._repaired(over, []) == []
    assert steps == ["a_with_other_variant", "b_with_other_variant", "a_with_ops_left", "b_with_ops_left"]


@pytest.mark.parametrize("seconds", [50.0, 100.0])
def test_a_base_for_which_there_is_no_time_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """It needs the time of eight scores, of 600 seconds."""
    search, _ = built_search(tmp_path, HarmfulPlaces(()), limits=Limits(9, 600))
    finalist, base = (search._first(name, base_variants(1)) for name in ("finalist", "base"))
    assert finalist is not None
    assert base is not None
    search._race([base])
    search.seconds, repaired = seconds, list[BuiltCandidate]()
    monkeypatch.setattr(search, "_least_within_budget", repaired.append)
    search._repaired([base], [finalist])
    assert (repaired, search.ended_by) == (([base], "") if seconds < 600 / 8 else ([], "time"))


def test_no_order_is_measured_after_the_search_has_ended(tmp_path: Path) -> None:
    search, schemes = built_search(tmp_path, HarmfulPlaces(("y0",)), limits=Limits(1, 600))
    search.rankings = lambda _: pytest.fail("an order takes long")
    assert not search.run(schemes)
    assert search.ended_by == "trials"


def test_of_equal_losses_less_noise_is_more_accurate(tmp_path: Path) -> None:
    """A figure of few samples cannot tell them apart."""

    class Noisy(HarmfulPlaces):
        def score(self, model: Path | bytes, _: Any = None) -> Score:
            found = super().score(model)
            return Score(1.0, 0.0, 20 - 2 * found.loss)

    search, schemes = built_search(tmp_path, Noisy(("m1", "m3")))
    (found,) = search.run(schemes)
    noises: list[float | None] = []
    while closer := search.more_accurate(found):
        (found,) = closer
        noises.append(found.trial.score.snr if found.trial.score is not None else None)
    assert noises == [18, 20]


HARMFUL = [("y0",), ("m5",), ("y0", "m5"), ("m1", "y2", "y7")]


@pytest.mark.parametrize("harmful", slow_unless(HARMFUL[1::2], HARMFUL))
def test_exactly_the_harmful_ops_stay_in_float(tmp_path: Path, harmful: tuple[str, ...]) -> None:
    (best,), *_ = searched(tmp_path, harmful)
    # A Sigmoid is left with the convolution before it, which gives it no integers then.
    assert set(harmful) <= EVERYTHING - changed_places(best) <= {f"{kind}{n[1:]}" for n in harmful for kind in "my"}


def test_no_candidate_where_every_op_does_harm(tmp_path: Path) -> None:
    found, search, _ = searched(tmp_path, [f"{kind}{i}" for kind in "my" for i in range(LAYERS)])
    assert not found
    assert all(t.outcome for t in search.trials)


def test_slower_candidates_are_not_scored(tmp_path: Path) -> None:
    found, search, criterion = searched(tmp_path, time=1.5)
    assert (found, criterion.scored) == ([], 0)
    assert "slower" in {t.outcome for t in search.trials}


def test_an_operator_that_is_faster_in_float_stays_there(tmp_path: Path) -> None:
    (best,), *_ = searched(tmp_path, sigmoid=1.5)
    assert not changed_places(best) & {"y1", "y3", "y5", "y7"}
    assert set(best.left.values()) == {"Sigmoid is faster in float here"}


def test_each_trial_says_what_came_of_it(tmp_path: Path) -> None:
    """Sigmoid or LeakyRelu are better in float, but not both."""
    text = "m = Conv(x, w) a = Sigmoid(m) n = Conv(a, w) b = LeakyRelu(n) y = Conv(b, w)"
    weights = {"w": np.ones((4, 4, 1, 1), np.float32)}
    source = model_source(
        load(f"g (float[1,4,2,2] x) => (float[1,4,2,2] y) {{ {text} }}", weights=weights), inline=True
    )

    def race(models: Sequence[Path], _: Any) -> list[RaceRatios | str]:
        quantized = [len(dequantized_values(path) & {"a", "b"}) for path in models]
        return [RaceRatios(RatioInterval(t, t, t)) for t in ({0: 0.8, 1: 0.5, 2: 0.7}[n] for n in quantized)]

    ranges = dict.fromkeys("xmanby", Range(-3, 3))
    given = QuantizationSpec(ranges, operators=frozenset({"Conv", "LeakyRelu", "Sigmoid"}))
    search, _ = built_search(tmp_path, HarmfulPlaces(()))
    schemes: dict[str, Variants] = {"static": [("minmax", lambda _: CandidateBuilder(source, STATIC, given))]}
    search = replace(search, race=race)
    (best,) = search.run(schemes)
    assert len(changed_places(best) & {"a", "b"}) == 1
    assert "slow operators in float" in {t.variant for t in search.trials}
    assert all(t.outcome for t in search.trials)


def base_variants(count: int) -> Variants:
    """A scheme for others, with ever more of the first layers in float: all up to its number, if that is not 0."""
    source = model_source(chain(), inline=True)
    scheme = structs.replace(STATIC, name="base", is_base=True)

    def variant(first: int) -> Callable[[object], CandidateBuilder]:
        kept = {name: r for name, r in spec().ranges.items() if name == "x" or int(name[1:]) >= first}
        return lambda _: CandidateBuilder(source, scheme, structs.replace(spec(), ranges=kept))

    return [(str(n), variant(n)) for n in range(count)]


@each(("harmful", "found"), [(["y0"], ["1"]), (["y3"], ["3"]), (["y6"], ["6"]), (EVERYTHING, [])])
def test_the_least_model_within_the_budget_is_found_by_bisection(
    tmp_path: Path, harmful: Collection[str], found: list[str]
) -> None:
    search, _ = built_search(tmp_path, HarmfulPlaces(harmful))
    assert [b.trial.variant for b in search.run({"base": base_variants(8)})] == found
    assert search.scored <= 4


@pytest.mark.parametrize("time", [0.9, 1.3])
def test_weights_of_a_slower_base_are_not_stored(tmp_path: Path, time: float) -> None:
    """It takes as long with stored weights. Schemes that are made from it may be faster."""

    def race(models: Sequence[Path], _: Any) -> list[RaceRatios | str]:
        return [ratios(time if path.name != "1.onnx" else 0.9, 0.01) for path in models]

    search, _ = built_search(tmp_path, HarmfulPlaces(["y0"]), race=race, stores=STORE_WEIGHTS)
    bases: list[str] = []
    search.run({"base": base_variants(2)}, lambda found: bases.extend(b.trial.variant for b in found) or {})
    stored = [t.variant for t in search.trials if t.variant.endswith("weights")]
    assert (bases, stored) == (["1"], [] if time > 1 else [f"1, {name}" for name in STORE_WEIGHTS])


def test_the_least_model_over_the_budget_on_other_samples_is_followed_by_a_larger_one(tmp_path: Path) -> None:
    places = [f"y{i}" for i in range(LAYERS)]
    search, _ = built_search(tmp_path, MildlyHarmfulPlaces(places, share=1 / 3))
    (failed,) = search.run({"base": base_variants(8)})
    failed.trial.outcome = "over the budget on other samples"
    (closer,) = search.more_accurate(failed)
    assert int(closer.trial.variant) == int(failed.trial.variant) + 1


def test_the_next_result_is_a_candidate_with_more_ops_in_float_that_was_within_the_budget(tmp_path: Path) -> None:
    """Of three harmful ops, one in float is sufficient; two were as well, before one of them was quantized again."""
    search, schemes = built_search(tmp_path, MildlyHarmfulPlaces(("m3", "m5", "m7"), share=0.4))
    (failed,) = search.run(schemes)
    failed.trial.outcome = "over the budget on other samples"
    before = len(search.trials)
    (closer,) = search.more_accurate(failed)
    left = [{place for _, place in found.left} for found in (failed, closer)]
    assert left == [{"m5"}, {"m5", "m7"}]
    assert (closer.is_within, len(search.trials)) == (True, before)
    (last,) = search.more_accurate(closer)
    assert {place for _, place in last.left} > {"m5", "m7"}
    assert search.more_accurate(last) == []


def test_a_candidate_with_ops_in_float_takes_at_most_as_long_as_the_original_until_it_is_raced(tmp_path: Path) -> None:
    """So it is raced if it is no smaller, and does not keep others from being scored."""

    def race(models: Sequence[Path], _: Any) -> list[RaceRatios | str]:
        return [ratios(0.5 if "m3" in dequantized_values(path) else 0.8, 0.01) for path in models]

    for size, raced in ((1 << 20, (0.5, 1.0)), (0, (0.8, 0.808))):
        search, schemes = built_search(tmp_path, HarmfulPlaces(("m3",)), race=race, size=size)
        (found,) = search.run(schemes)
        assert found.trial.ratio is not None
        assert (found.trial.ratio.ratio, found.trial.ratio.high) == raced


@each("is_raced_after", [True, False])
def test_a_candidate_with_ops_in_float_may_be_a_result_without_a_race(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_raced_after: bool
) -> None:
    """If the caller races it, or if there is no time for one but the last: as large as the original, it is a gain."""
    search, schemes = built_search(tmp_path, HarmfulPlaces(("m3",)), size=0, is_raced_after=is_raced_after)
    score = search.criterion.score

    def late(model: Any, config: Any) -> Score:
        if (result := score(model, config)).loss < 1 and not is_raced_after:
            search._start = monotonic() - 700
        return result

    monkeypatch.setattr(search.criterion, "score", late)
    (found,) = search.run(schemes)
    assert found.left
    assert found.trial.ratio is not None
    assert found.trial.ratio.ratio == 0.5


def test_the_memory_of_a_candidate_with_ops_in_float_is_measured(tmp_path: Path) -> None:
    """However much smaller the file is."""

    def race(models: Sequence[Path], _: Any) -> list[RaceRatios | str]:
        return [ratios(0.5, 0.01, 0.5 if "m3" in dequantized_values(path) else 0.8) for path in models]

    search, schemes = built_search(tmp_path, HarmfulPlaces(("m3",)), race=race, goal="memory")
    (found,) = search.run(schemes)
    assert found.trial.memory is not None
    assert found.trial.memory.ratio == 0.8


def test_models_for_other_schemes_are_scored_last(tmp_path: Path) -> None:
    search, schemes = built_search(tmp_path, HarmfulPlaces(()))
    said = list[str]()
    search.progress = said.append
    search.run({"base": base_variants(1), **schemes})
    assert said.index("quantizing: static") < said.index("quantizing: base")


def test_work_ends_at_the_deadline(tmp_path: Path) -> None:
    """Candidates of a round are made in half of the time, later in all of it; a search that goes on has more."""
    search, schemes = built_search(tmp_path, HarmfulPlaces(["y0"]), limits=Limits(100, 600))
    ((name, variant),) = schemes["static"]
    deadlines = list[float]()

    def noted(best: Any) -> CandidateBuilder | None:
        deadlines.append(search.deadline.at - search._start)
        return variant(best)

    (found,) = search.run({"static": [(name, noted), ("same", noted)]})
    assert deadlines == pytest.approx([300, 600], abs=30)
    search.more_accurate(found)
    assert search.deadline.at - search._start == pytest.approx(750)


def test_no_trial_is_begun_that_would_end_too_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes as long as the last one."""
    now = [1000.0]
    monkeypatch.setattr("passwright.app.quantize.search.monotonic", lambda: now[0])

    class Slow(HarmfulPlaces):
        def score(self, model: Path | bytes, _: Any = None) -> Score:
            now[0] += 40
            return super().score(model)

    criterion = Slow([f"y{i}" for i in range(LAYERS)])
    search, schemes = built_search(tmp_path, criterion, limits=Limits(100, 100))
    search._start = now[0]
    assert not search.run(schemes)
    assert (criterion.scored, search.ended_by) == (2, "time")


def test_requested_names_stay_in_float(tmp_path: Path) -> None:
    (best,), *_ = searched(tmp_path, leave=frozenset({"Sigmoid", "y2", "m4"}))
    assert changed_places(best) == {"y0", "y6", "m1", "m3", "m5", "m7"}


def int8_sizes(path: Path) -> Counter[int]:
    """The numbers of elements of constants of 8 bits with more than one dim."""
    return Counter(int(np.prod(t.dims)) for t in onnx.load(path).graph.initializer if t.data_type == TensorProto.INT8)


def stored_search(
    tmp_path: Path, harmful: Collection[str], allows_stored: Callable[[Path], bool]
) -> tuple[Search, dict[str, Variants]]:
    """A search over two convolutions of many weights, one of which does harm on integers."""
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=(32, 32, 1, 1)).astype(np.float32) for name in "vw"}
    text = "g (float[1,32,2,2] x) => (float[1,32,2,2] y) { a = Conv(x, v) y = Conv(a, w) }"
    source = model_source(load(text, weights=weights), inline=True)
    given = QuantizationSpec(dict.fromkeys("xay", Range(-30, 30)), operators=frozenset({"Conv"}))

    class Storing(HarmfulPlaces):
        def score(self, model: Path | bytes, _: Any = None) -> Score:
            found = super().score(model)
            assert isinstance(model, Path)
            return found if allows_stored(model) else structs.replace(found, loss=9)

    search, _ = built_search(tmp_path, Storing(harmful), stores=STORE_WEIGHTS)
    return search, {"static": [("minmax", lambda _: CandidateBuilder(source, STATIC, given))]}


def test_weights_of_ops_left_in_float_are_stored_in_eight_bits(tmp_path: Path) -> None:
    search, schemes = stored_search(tmp_path, {"a"}, lambda _: True)
    stored, plain = search.run(schemes)
    assert (stored.trial.variant, plain.trial.variant) == ("minmax, int8-weights", "minmax")
    assert (int8_sizes(stored.path)[1024], int8_sizes(plain.path)[1024]) == (2, 1)
    assert stored.trial.bytes < LESS * plain.trial.bytes
    assert stored.trial.changed == plain.trial.changed
    assert not kept_high_precision(stored, search.trials)
    x = np.random.default_rng(1).normal(size=(1, 32, 2, 2)).astype(np.float32)
    a, b = (run(onnx.load(built.path), {"x": x})[0] for built in (plain, stored))
    assert 0 < np.square(a - b).sum() / np.square(a).sum() < 1e-3
    ((wide, reason),) = [(w.name, w.reason) for w in kept_high_precision(plain, search.trials)]
    assert (wide, reason) == ("v", "int8-weights: within the budget")


def test_the_same_with_float_weights_is_not_built_again_if_stored_weights_are_over_the_budget(tmp_path: Path) -> None:
    """On other samples: it is a result of the search, too. The next variant follows."""
    search, schemes = stored_search(tmp_path, (), lambda _: True)
    search.leave = frozenset({"a"})
    ((name, variant),) = schemes["static"]
    stored, plain = search.run({"static": [(name, variant), ("next", variant)]})
    stored.trial.outcome = "over the budget on other samples"
    before = [t.variant for t in search.trials]
    search.more_accurate(stored)
    made = [t.variant for t in search.trials][len(before) :]
    assert (plain.trial.variant, made[0]) == (name, "next")
    assert name not in made


def test_weights_are_stored_in_the_first_way_within_the_budget(tmp_path: Path) -> None:
    """In 16 bits where the budget is missed with 8, and as they are where it is missed with either."""
    search, schemes = stored_search(tmp_path, {"a"}, lambda path: int8_sizes(path)[1024] < 2)
    stored, _ = search.run(schemes)
    assert stored.trial.variant == "minmax, half-weights"
    ((wide, bits, reason),) = [(w.name, w.bits, w.reason) for w in kept_high_precision(stored, search.trials)]
    assert (wide.startswith("v"), bits, reason) == (True, 16, "int8-weights: over the budget")
    (tmp_path / "none").mkdir()
    search, schemes = stored_search(tmp_path / "none", {"a"}, lambda path: "Cast" not in op_types(onnx.load(path)))
    (kept,) = search.run(schemes)
    ((bits, reason),) = [(w.bits, w.reason) for w in kept_high_precision(kept, search.trials)]
    assert (bits, reason) == (32, "int8-weights: over the budget; half-weights: over the budget")


def test_result_that_is_found_late_is_stored_in_fewer_bits(tmp_path: Path) -> None:
    """In part of the time for the last scores."""
    found = list[list[str]]()
    for number, seconds in enumerate((700, 800)):
        (folder := tmp_path / str(number)).mkdir()
        search, schemes = stored_search(folder, {"a"}, lambda _: True)
        score = search.criterion.score

        def late(model: Any, config: Any, search: Search = search, score: Any = score, seconds: int = seconds) -> Score:
            if (result := score(model, config)).loss < 1:
                search._start = monotonic() - seconds
            return result

        search.criterion.score = late
        found.append([b.trial.variant for b in search.run(schemes)])
    assert found == [["minmax, int8-weights", "minmax"], ["minmax"]]


def test_unfused_groups_are_left_out_before_the_race(tmp_path: Path) -> None:
    def unfused(_: Path, changes: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
        return {key: "onnxruntime does not fuse it" for key in changes if key[1] == "m3"}

    (best,), *_ = searched(tmp_path, unfused_groups=unfused)
    assert "m3" not in changed_places(best)


def test_the_number_of_trials_is_bounded(tmp_path: Path) -> None:
    assert searched(tmp_path, ("y7",), limits=Limits(3, 600))[2].scored <= 3


def test_other_schemes_are_scored_before_a_long_search_in_the_fastest(tmp_path: Path) -> None:
    """A slower scheme within the budget is found although the limits end the search in the one over it."""
    source = model_source(chain(), inline=True)
    last = QuantizationSpec(dict.fromkeys(["y6", "m7"], Range(-3, 3)), operators=frozenset({"Conv"}))
    search, schemes = built_search(tmp_path, HarmfulPlaces([f"y{i}" for i in range(5)]), limits=Limits(4, 600))
    other = Scheme("other", "", (QUANTIZE_STATIC,), after=(JOIN_GROUPS,))
    schemes["other"] = [("", lambda _: CandidateBuilder(source, other, last))]
    (best,) = search.run(schemes)
    assert best.trial.scheme == "other"
    assert search.scored == 4


def test_a_journal_answers_a_repeated_search(tmp_path: Path) -> None:
    journals = (Journal(tmp_path / "journal") for _ in range(2))
    first, again = (searched(tmp_path, ("y0", "m5"), journal=journal) for journal in journals)
    assert [changed_places(b) for b in first[0]] == [changed_places(b) for b in again[0]] != []
    assert first[2].scored > 0 == again[2].scored


def test_a_journal_forgets_an_interrupted_line(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    Journal(path).result("a", int, lambda: 1)
    with path.open("a", encoding="utf-8") as f:
        f.write('["b", ')
    assert Journal(path).result("a", int, lambda: 2) == 1
    assert Journal(path).result("b", int, lambda: 3) == 3
    assert path.read_text(encoding="utf-8").splitlines() == ['["a", 1]', '["b", 3]']
    assert Journal(path, "other samples").result("a", int, lambda: 4) == 4


@cases(
    "line",
    {
        "none": "null",
        "text": '"x"',
        "wrong element": '[{"estimate": "x"}]',
        "too few": "[]",
        "too many": '["x", "x", "x"]',
        "other fields": '{"figure": 1}',
    },
)
def test_results_of_another_kind_are_computed_again(tmp_path: Path, line: str) -> None:
    path = tmp_path / "journal"
    path.write_text(f'["a", {line}]\n', encoding="utf-8")
    for _ in range(2):
        assert Journal(path).result("a", list[str], lambda: ["y", "y"], lambda r: len(r) == 2) == ["y", "y"]
        path.write_text(path.read_text(encoding="utf-8").removesuffix("\n"), encoding="utf-8")
    assert len(path.read_text(encoding="utf-8").splitlines()) == 2


@cases("text", {"line": "something else\n", "no line": "my notes", "list": '["cat", "dog", "bird"]', "number": "7"})
def test_another_file_is_no_journal(tmp_path: Path, text: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ModelError, match=r"is not a journal"):
        Journal(path)
    assert path.read_text(encoding="utf-8") == text


@dataclass
class Figures:
    """A criterion with a figure for each model, of at least 0.99."""

    figures: dict[str, float]
    name: str = "precision"
    reference: float = 1.0

    def score(self, model: Any, _: Any = None) -> Score:
        figure = self.figures[Path(model).name]
        return Score(figure, self.reference - figure)

    def allows(self, score: Score) -> bool:
        return score.loss <= 0.01


def test_budget_holds_for_all_labelled_rows_together() -> None:
    halves, together = Figures({"a": 0.993, "b": 0.993, "c": 0.9}), Figures({"a": 0.975, "b": 0.992, "c": 0.9})
    setup = Criteria(halves, halves, together)
    assert setup.excess(Path("a")) == (Score(0.993, 1.0 - 0.993), "on all labelled rows together: precision 0.975")
    assert setup.excess(Path("b"))[1] == ""
    assert setup.excess(Path("c"))[1] == "on the report set: precision 0.9"
    without = structs.replace(setup, all_rows=None)
    assert without.excess(Path("a"))[1] == ""


def test_inconclusive_races_say_so(tmp_path: Path) -> None:
    """A candidate that is not smaller needs a race that decides."""
    busy = RaceRatios(RatioInterval(0.5, 0.3, 1.0, "the machine is busy"))
    search, schemes = built_search(tmp_path, HarmfulPlaces(()))
    search = replace(search, race=lambda models, _: [busy] * len(models), size=0)
    assert not search.run(schemes)
    assert "inconclusive: the machine is busy" in {t.outcome for t in search.trials}


def schemes_of_sizes(
    tmp_path: Path, harmful: Collection[str] = (), **changes: Any
) -> tuple[Search, dict[str, Variants]]:
    """A search over two schemes: `small` quantizes all, `large` one convolution."""
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(size=(32, 32, 1, 1)).astype(np.float32) for name in "vw"}
    text = "g (float[1,32,2,2] x) => (float[1,32,2,2] y) { a = Conv(x, v) y = Conv(a, w) }"
    source = model_source(load(text, weights=weights), inline=True)
    search, _ = built_search(tmp_path, HarmfulPlaces(harmful), **changes)

    def variant(name: str, places: str) -> Variants:
        given = QuantizationSpec(dict.fromkeys(places, Range(-30, 30)), operators=frozenset({"Conv"}))
        scheme = Scheme(name, "", (QUANTIZE_STATIC,), after=(JOIN_GROUPS,))
        return [("", lambda _: CandidateBuilder(source, scheme, given))]

    return search, {"large": variant("large", "xa"), "small": variant("small", "xay")}


def races(large: RaceRatios, small: RaceRatios) -> Callable[[Sequence[Path], Any], list[RaceRatios | str]]:
    """A race with the same ratios for the two schemes each time."""
    return lambda models, _: [small if int8_sizes(path)[1024] == 2 else large for path in models]


def ratios(time: float, noise: float, memory: float = 1.0) -> RaceRatios:
    return RaceRatios(*(RatioInterval(x, x * (1 - noise), x * (1 + noise)) for x in (time, memory)))


@cases(
    ("goal", "large", "small", "taken"),
    {
        "surely faster": ("latency", ratios(0.40, 0.01), ratios(0.45, 0.01), "large"),
        "as fast as the race can say": ("latency", ratios(0.40, 0.07), ratios(0.45, 0.07), "small large"),
        "as fast as a model loaded twice": ("latency", ratios(0.43, 0.001), ratios(0.45, 0.001), "small large"),
        "hardly measured": ("latency", ratios(0.40, 0.5), ratios(0.75, 0.5), "large small"),
        "slower": ("latency", ratios(0.9, 0.01), ratios(1.3, 0.01), "large"),
        "small and slow": ("size", ratios(0.9, 0.01), ratios(1.3, 0.01), "small large"),
        "less memory, but slow": ("memory", ratios(0.9, 0.01, 1.2), ratios(1.3, 0.01, 0.7), "small"),
        "least memory": ("memory", ratios(0.9, 0.01, 0.4), ratios(0.3, 0.01, 0.7), "large"),
    },
)
def test_goals(tmp_path: Path, goal: str, large: RaceRatios, small: RaceRatios, taken: str) -> None:
    search, schemes = schemes_of_sizes(tmp_path, goal=goal, race=races(large, small), size=12_000)
    assert " ".join(b.trial.scheme for b in search.run(schemes)) == taken
    assert all(t.outcome for t in search.trials)
    assert search.ended_by == ""


@each(
    ("changes", "raced"),
    {
        "one": ({}, [["large"]]),
        "the next if one does not run": ({"fails": "large"}, [["large"], ["small"]]),
        "each for its memory": ({"goal": "memory"}, [["large", "small"]]),
        "each in an engine that may multiply integers": ({"session": OPENVINO}, [["large", "small"]]),
    },
)
def test_of_candidates_that_only_store_weights_one_is_raced(
    tmp_path: Path, changes: dict[str, Any], raced: list[list[str]]
) -> None:
    found: list[list[str]] = []
    fails = changes.pop("fails", "")

    def race(models: Sequence[Path], _: Any) -> list[RaceRatios | str]:
        names = ["small" if int8_sizes(path)[1024] == 2 else "large" for path in models]
        found.append(names)
        return ["no kernel" if name == fails else ratios(0.9, 0.01, 0.9) for name in names]

    search, schemes = schemes_of_sizes(tmp_path, race=race, stores={"large": (), "small": ()}, **changes)
    assert "small" in {b.trial.scheme for b in search.run(schemes)}
    assert found == raced


def test_size_alone_needs_no_race_before_candidates_are_scored(tmp_path: Path) -> None:
    search, schemes = schemes_of_sizes(tmp_path, "ay", goal="size", race=races(ratios(1, 0), ratios(1, 0)))
    search = replace(search, race=lambda models, _: pytest.fail(f"{len(models)} models were raced"))
    assert not search.run(schemes)
    assert search.scored >= 2


def test_the_fastest_is_scored_where_the_time_is_spent_before(tmp_path: Path) -> None:
    """Time that building and racing took is no reason to return the original without a score."""
    race = races(ratios(0.5, 0.2), ratios(0.4, 0.2))
    search, schemes = schemes_of_sizes(tmp_path, race=race, limits=Limits(9, 600))

    def late(models: Sequence[Path], precisions: Any) -> list[RaceRatios | str]:
        search._start -= 700
        return race(models, precisions)

    search.race = late
    (best,) = search.run(schemes)
    assert (best.trial.scheme, search.scored, search.ended_by) == ("small", 1, "time")
    assert [t.outcome for t in search.trials if t.scheme == "large"] == [LIMITED]


@pytest.mark.parametrize(("seconds", "scored"), [(20, "small"), (30, "large")])
def test_stored_weights_are_scored_where_there_is_time_for_one(tmp_path: Path, seconds: float, scored: str) -> None:
    """They are the most likely result."""
    race = races(ratios(0.9, 0.01), ratios(0.4, 0.01))
    search, schemes = schemes_of_sizes(tmp_path, limits=Limits(9, 600), stores={"large": ()}, seconds=seconds)

    def late(models: Sequence[Path], precisions: Any) -> list[RaceRatios | str]:
        search._start = monotonic() - 700
        return race(models, precisions)

    search.race = late
    assert search.run(schemes)[-1].trial.scheme == scored
    assert [t.scheme for t in search.trials if t.score is not None] == [scored]


@pytest.mark.parametrize(("seconds", "second"), [(100, 1), (400, 2), (700, 0)])
def test_half_of_the_time_is_left_for_scores(tmp_path: Path, seconds: float, second: int) -> None:
    """Of two schemes, the second one is raced with the first, after it is scored, or not at all."""
    race, raced = races(ratios(0.5, 0.01), ratios(0.4, 0.01)), list[int]()
    search, schemes = schemes_of_sizes(tmp_path)
    ((name, variant),) = schemes["large"]

    def slow(best: Any) -> CandidateBuilder | None:
        search._start -= seconds
        return variant(best)

    def noted(models: Sequence[Path], precisions: Any) -> list[RaceRatios | str]:
        raced.append(len(models))
        return race(models, precisions)

    search.race = noted
    found = [b.trial.scheme for b in search.run({**schemes, "large": [(name, slow)]})]
    assert (raced[:2], found) == {
        0: ([1], ["large"]), 1: ([2], ["small"]), 2: ([1, 1], ["small", "large"])
    }[second]  # fmt: skip
    assert search.ended_by == ("" if second else "time")
    assert ((LIMITED, 0) in {(t.outcome, t.changed) for t in search.trials}) == (not second)


@pytest.mark.parametrize(("noise", "scored"), [(0.01, "large"), (0.07, "small")])
def test_the_smaller_one_of_equal_ones_is_scored_first(noise: float, scored: str, tmp_path: Path) -> None:
    """So that a short search takes it."""
    limits, race = Limits(1, 600), races(ratios(0.40, noise), ratios(0.45, noise))
    search, schemes = schemes_of_sizes(tmp_path, race=race, limits=limits)
    assert [b.trial.scheme for b in search.run(schemes)] == [scored]


def test_the_number_of_trials_is_named_where_it_ended_the_search(tmp_path: Path) -> None:
    search, schemes = schemes_of_sizes(
        tmp_path, "ay", race=races(ratios(0.5, 0.01), ratios(0.4, 0.01)), limits=Limits(1, 600)
    )
    assert not search.run(schemes)
    assert (search.scored, search.ended_by) == (1, "trials")


@dataclass
class HarmfulBits(HarmfulPlaces):
    """A criterion by which some products do harm in 4 bits, and those `worse` in 8 bits, too."""

    worse: Collection[str] = ()

    def score(self, model: Path | bytes, _: Any = None) -> Score:
        assert isinstance(model, Path)
        bits = bits_of_products(model)
        harm = sum(bits.get(name, 0) == 4 for name in self.harmful) + sum(name in bits for name in self.worse)
        return Score(-harm, harm)


def bits_of_products(path: Path) -> dict[str, int]:
    nodes = [node for node in onnx.load(path).graph.node if node.op_type == "MatMulNBits"]
    return {node.output[0]: next(a.i for a in node.attribute if a.name == "bits") for node in nodes}


@pytest.mark.parametrize(
    ("harmful", "worse"), [(["m2"], ()), (["m1", "m5"], ()), (["m1"], ["m4"])], ids=["one", "two", "one in float"]
)
def test_weights_have_8_bits_before_they_stay_in_float(
    tmp_path: Path, harmful: Sequence[str], worse: Sequence[str]
) -> None:
    rng = np.random.default_rng(0)
    text = " ".join(f"m{i} = MatMul({f'y{i - 1}' if i else 'x'}, w{i}) y{i} = Relu(m{i})" for i in range(LAYERS))
    weights = {f"w{i}": rng.normal(size=(32, 32)).astype(np.float32) for i in range(LAYERS)}
    source = model_source(
        load(f"g (float[N,32] x) => (float[N,32] y{LAYERS - 1}) {{ {text} }}", 21, weights), inline=True
    )
    scheme = Scheme("weights4", "", (rule_pass(weight_rules, "quantize-weights"),))
    four = QuantizationSpec(operators=frozenset({"MatMul"}), min_weights=0, weight_bits=4, block=32)
    search, _ = built_search(tmp_path, HarmfulBits(harmful, worse=worse))
    best = search.run({"weights4": [("clipped", lambda _: CandidateBuilder(source, scheme, four))]})[0]
    bits = bits_of_products(best.path)
    if worse:
        assert set(bits.values()) == {4}
        assert not {*harmful, *worse} & bits.keys()
    else:
        assert {name for name, n in bits.items() if n == 8} == set(harmful)
        assert len(bits) == LAYERS
        assert best.trial.variant == f"clipped, {len(harmful)} in 8 bits"
