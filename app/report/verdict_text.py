"""Text about verdicts of comparisons with the original, and about proofs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING

from ...core.verify.verdict import OutputDifference, Verdict
from .number_text import plural
from .result_row import BIT_IDENTICAL, NO_DIFFERENCE, WITHIN_TOLERANCE

if TYPE_CHECKING:
    from ...core.verify.proof_guarantees import ProofCounts

INVALID = "invalid"  # a model that the ONNX checker rejects
NOT_VERIFIED = "NOT VERIFIED, as requested"
MAX_SHOWN_OUTPUTS = 3
MAX_SHOWN_DIMS, MAX_SHOWN_SIZES = 4, 10


def verdict_line(verdict: Verdict | None) -> str:
    """The verdict of the comparison with the original, in one line."""
    if verdict is None:
        return NOT_VERIFIED
    excused = sum(d.excused for d in verdict.differences.values())
    where = f" where {' and '.join(verdict.limits)}" if verdict.limits else ""
    parts = [f"verified{where}: {agreement_text(verdict)}, on {input_sets_text(verdict.input_sets)}"]
    if verdict.limits:
        parts.append(f"on other inputs ({plural(verdict.excused_sets, 'set')}) it differs")
    elif verdict.excused_sets:
        sets = plural(verdict.excused_sets, "set")
        parts.append(f"on {sets} the outputs differ at NaN or infinite values, which conditions of the model permit")
    parts += [f"{plural(excused, 'element')} differ at discontinuities of the original"] * bool(excused)
    parts += [f"{plural(len(verdict.random), 'random output')} compared only by type and rank"] * bool(verdict.random)
    return "; ".join(parts)


def agreement_text(verdict: Verdict) -> str:
    """How closely the outputs agree: the largest error of all outputs, as a share of the tolerance."""
    if verdict.exact:
        return BIT_IDENTICAL
    worst = max(verdict.differences.values(), key=lambda d: d.share_of_allowed, default=OutputDifference())
    if worst.error:
        return f"{WITHIN_TOLERANCE} (largest error: {worst.share_of_allowed:.0%} of the tolerance)"
    are_excused = any(d.excused for d in verdict.differences.values())
    return WITHIN_TOLERANCE if are_excused else NO_DIFFERENCE


def difference_lines(verdict: Verdict) -> Iterator[str]:
    """Yield the outputs with the largest errors, one per line, the number of the others, and further comparisons."""
    different = [(name, d) for name, d in verdict.differences.items() if d.error]
    different.sort(key=lambda item: -item[1].share_of_allowed)
    for name, d in different[:MAX_SHOWN_OUTPUTS]:
        of_allowed = f"{d.share_of_allowed:.0%} of the {d.allowed:.2g} allowed" if d.allowed else "none allowed"
        yield f"{name}: off by {d.error:.2g}, {of_allowed}"
    if (more := len(different) - MAX_SHOWN_OUTPUTS) > 0:
        yield f"{plural(more, 'other output')} with smaller errors relative to the tolerance"
    if different and (alike := len(verdict.differences) - len(different)):
        yield f"{plural(alike, 'output')} with no difference"
    for name, d in verdict.differences.items():
        if d.excused:
            yield f"{name}: {plural(d.excused, 'element')} differ at discontinuities of the original"
    if verdict.sizes:
        yield f"sizes: {'; '.join(sizes_text(verdict.sizes))}"
    if verdict.nonfinite_input_sets:
        yield f"NaN and infinite inputs: agreement on {plural(len(verdict.nonfinite_input_sets), 'set')}"
    yield from (f"condition: {condition}" for condition in verdict.conditions)
    if verdict.random:
        yield f"random outputs, compared only by type and rank: {', '.join(verdict.random)}"


def proof_lines(proofs: ProofCounts) -> Iterator[str]:
    """Yield the number of proved regions, and the reasons why others are not proved."""
    if not proofs.changed:
        yield "proved: no region differs"
        return
    counts = [f"{n} {guarantee.removeprefix('proved ')}" for guarantee, n in proofs.proved.items()]
    if proofs.rounded_weights:
        weights = plural(proofs.rounded_weights, "folded weight")
        counts.append(f"with {weights} that differ by at most {ceil(proofs.ulps * 10) / 10:g} ulp")
    if proofs.proved:
        counts.append(f"at {proofs.extents} of symbols" if proofs.extents else "at the extents of the models")
    proved = sum(proofs.proved.values())
    yield f"proved: {proved} of {plural(proofs.changed, 'changed region')}" + (
        f" ({', '.join(counts)})" if counts else ""
    )
    for reason, count in [*proofs.reasons.items()][:MAX_SHOWN_OUTPUTS]:
        yield f"{plural(count, 'region')} not proved: {reason}"


def input_sets_text(labels: Sequence[str]) -> str:
    """The number of input sets: generated sets, or samples that the user gave."""
    are_given = all(label.startswith("given") for label in labels)
    return plural(len(labels), "given sample") if labels and are_given else f"{plural(len(labels), 'set')} of inputs"


def sizes_text(sizes: Mapping[str, Sequence[int]]) -> Iterator[str]:
    """Yield the sizes of each symbolic dim; if there are many, some of them."""
    for symbol, found in [*sizes.items()][:MAX_SHOWN_DIMS]:
        shown = [*found[:5], "...", *found[-2:]] if len(found) > MAX_SHOWN_SIZES else found
        yield f"{symbol} of {', '.join(map(str, shown))}" + f" ({len(found)} sizes)" * (shown is not found)
    if (more := len(sizes) - MAX_SHOWN_DIMS) > 0:
        yield plural(more, "other dim")
