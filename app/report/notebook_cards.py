"""Cards of reports in notebooks, each by the function that makes it."""

from __future__ import annotations

from importlib import import_module

CARDS = {
    "BenchReport": ("measure.bench_render", "bench_card"),
    "ComparisonReport": ("compare.render", "comparison_card"),
    "DiffReport": ("diff.render", "difference_card"),
    "QuantizationReport": ("quantize.render", "quantization_card"),
    "Report": ("optimize.card", "notebook_card"),
    "TuneReport": ("tune.render", "tune_card"),
    "VerificationReport": ("verify.document", "verification_card"),
}
"""The module and the function by the class of a report; rich and jinja2 are imported for a card alone."""


def card_html(report: object) -> str:
    """The card of a report, as a notebook shows it."""
    module, function = CARDS[type(report).__name__]
    return getattr(import_module(f"..{module}", __package__), function)(report).html()
