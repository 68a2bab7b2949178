"""Cards of reports in notebooks: short, escaped, without scripts, and in the colours of the notebook."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from page_parser import ParsedPage
from passwright.app.optimize.document import describe, keyword_of
from passwright.app.report import page as page_module
from passwright.app.report.document import Document
from passwright.app.report.notebook import card_html
from passwright.core.errors import FailureKind
from passwright.core.run.failures import RejectedChange
from passwright.core.run.report import PassRecord, RunHint, Stats, TransformRecord
from passwright.core.verify.verdict import OutputDifference, Verdict
from rewriting import load
from sample_reports import NAMES, advice, bench_report, comparison, profile_pair, quantization, report, tuning

import passwright

TEXT = "g (float[N,4] x) => (float[N,4] y) { a = Identity(x) t = Transpose(a) b = Transpose(t) y = Relu(b) }"
SMALLER = "g (float[N,4] x) => (float[N,4] y) { y = Relu(x) }"
WRONG = "g (float[N,4] x) => (float[N,4] y) { y = Neg(x) }"
RENAMED = "g (float[N,4] x) => (float[N,4] z) { z = Relu(x) }"
ESCAPED = "<&>\"'" * 100


def parsed(card: Document | str) -> ParsedPage:
    """A card, which is short."""
    html = card if isinstance(card, str) else card_html(card)
    assert len(html.encode()) < 30_000
    return ParsedPage(html)


def test_card_of_a_run() -> None:
    result = passwright.optimize(load(TEXT))
    found = parsed(result._repr_html_())
    assert "verified: bit-identical, on " in found.text
    for words in ("nodes", "from 4", "2 rewrites by rule", "drop_identity", "Transpose", "passes run"):
        assert words in found.text, words
    assert found.tags.count("details") == 2
    assert repr(result).startswith("<Result g: 4 -> 1 nodes (-75.0%), ")
    assert "verified: bit-identical" in repr(result)


def test_card_of_a_run_without_verification_is_marked_open() -> None:
    found = parsed(passwright.optimize(load(SMALLER), verify=False)._repr_html_())
    assert "NOT VERIFIED" in found.text
    assert ("div", "class", "verdict open") in found.attributes
    assert "details" not in found.tags  # nothing changed


def test_card_names_all_that_was_left_out_and_hints() -> None:
    run = replace(
        report(rejected=True),
        hints=[RunHint("convert-opset", "at opset 20, more ops could be fused (6 Gelu)", "--opset 20")],
        transforms=[TransformRecord("clear-docs", 9)],
        notes=["a note"],
    )
    found = parsed(describe(run))
    assert "skipped pad-pool/pad_into_max_pool #4 at y: off by up to 2.0" in found.text
    assert "quantized skipped: the model has no quantized ops" in found.text
    assert "note: a note" in found.text
    assert "compared with the model after clear-docs" in found.text
    noted = parsed(describe(run, in_notebook=True)).text
    assert "hint: at opset 20, more ops could be fused (6 Gelu): opset=20" in noted


@pytest.mark.parametrize(
    ("option", "keyword"),
    [
        ("--opset 20", "opset=20"),
        ("--freeze-initializers", "freeze_initializers=True"),
        ('--enable "raise-opset{to=20}"', "enable=['raise-opset{to=20}']"),
    ],
)
def test_hints_in_notebooks_are_keywords(option: str, keyword: str) -> None:
    assert keyword_of(option) == keyword


CARDS: dict[str, tuple[Callable[[], Any], str, str]] = {
    "explain": (lambda: passwright.explain(load(TEXT), "drop_identity"), "", "in a run of basic; nothing was verified"),
    "info": (lambda: passwright.info(load(TEXT)), "none", "g"),
    "bisect ort": (lambda: passwright.bisect_ort(load(TEXT)), "good", "agrees with itself unoptimized"),
    "bisect engine": (lambda: passwright.bisect_engine(load(TEXT), "onnxruntime"), "good", "agrees with onnxruntime"),
    "verify": (lambda: passwright.verify(load(TEXT), load(SMALLER)), "good", "verified: no difference seen"),
    "verify wrong": (lambda: passwright.verify(load(TEXT), load(WRONG)), "bad", "wrong: y: off by"),
    "verify renamed": (lambda: passwright.verify(load(TEXT), load(RENAMED)), "bad", "output y is missing"),
    "diff": (lambda: passwright.diff(load(TEXT), load(SMALLER)), "open", "3 ops removed"),
    "diff equal": (lambda: passwright.diff(load(TEXT), load(TEXT)), "good", "identical"),
    "compare": (comparison, "good", "175 -> 122 nodes"),
}


@pytest.mark.parametrize("name", CARDS)
def test_cards_of_other_reports(name: str) -> None:
    make, tone, text = CARDS[name]
    made = make()
    found = parsed(made._repr_html_())
    assert text in found.text
    classes = [value for _, name, value in found.attributes if name == "class" and value.startswith("verdict")]
    assert classes == ([] if tone == "none" else [f"verdict {tone}".strip()])
    assert re.fullmatch(rf"<{type(made).__name__} [^\n]{{1,300}}>", repr(made))
    assert bool(made) == (tone in {"good", "", "none"})


MADE: dict[str, Callable[[], Any]] = {
    "advise": lambda: advice(NAMES),
    "tune": lambda: tuning(NAMES),
    "quantize": lambda: quantization(NAMES),
    "bench": lambda: bench_report(NAMES),
    "profile": profile_pair,
}


@pytest.mark.parametrize("name", MADE)
def test_reports_of_measurements_have_cards_and_short_texts(name: str) -> None:
    made = MADE[name]()
    assert f"passes {name}" in parsed(made._repr_html_()).text
    assert re.fullmatch(rf"<{type(made).__name__} [^\n]{{1,600}}>", repr(made))


def test_parts_of_results_have_short_texts() -> None:
    result = passwright.optimize(load(TEXT))
    assert re.fullmatch(
        r"<Report of g: 4 -> 1 nodes, verified: bit-identical, on \d+ sets of inputs>", repr(result.report)
    )
    assert re.fullmatch(r"<Verdict: verified: bit-identical, on \d+ sets of inputs>", repr(result.report.verification))
    assert repr(passwright.verify(load(TEXT), load(WRONG)).verdict).startswith("<Verdict: wrong: y: off by up to ")
    assert repr(passwright.optimize(load(TEXT), verify=False).report) == "<Report of g: 4 -> 1 nodes, not verified>"


def test_notes_of_reports_name_arguments_of_python(tmp_path: Path) -> None:
    labelled = tmp_path / "rows.npz"
    x = np.random.default_rng(0).normal(size=(4, 4)).astype("float32")
    np.savez(labelled, x=x, labels=x.argmax(1))
    result = passwright.quantize(load(SMALLER), labelled=labelled, threads=1, min_time=0.01, trials=1, scheme="half")
    assert "calibrated with the labelled rows of the search; data names other samples" in result.report.notes
    assert "--" not in parsed(result._repr_html_()).text


def test_cards_of_large_reports_are_cut() -> None:
    run = report(ESCAPED, rejected=True)
    ops = {f"{n}{ESCAPED}": n for n in range(1000)}
    rejected = [
        RejectedChange("p", ESCAPED, ESCAPED, FailureKind.WRONG, ESCAPED, ordinal=n, repro=ESCAPED) for n in range(100)
    ]
    passes = [PassRecord(ESCAPED, 2, {f"{n}{ESCAPED}": 2}, 0.1) for n in range(1000)]
    run = replace(run, rejected=rejected, passes=passes, before=Stats(ops, 5, 5, 5), notes=[ESCAPED] * 100)
    found = parsed(describe(run))
    assert "and 995 other rows" in found.text
    assert "and 94 more" in found.text
    outputs = {f"{n}{ESCAPED}": OutputDifference(1e-7, 1e-5) for n in range(1000)}
    verdict = Verdict("onnxruntime", exact=False, input_sets=("normal",), differences=outputs)
    parsed(passwright.VerificationReport(ESCAPED, ESCAPED, [ESCAPED] * 100, verdict)._repr_html_())
    nodes = " ".join(f"v{n} = Add(v{n - 1}, v{n - 1})" for n in range(1, 400))
    large = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (float v0) => (float v399) {{ {nodes} }}'
    )
    for number, node in enumerate(large.graph.node):
        node.name = f"{number}{ESCAPED}"
    empty = load("g (float v0) => (float v399) { v399 = Identity(v0) }")
    parsed(passwright.diff(large, empty)._repr_html_())


def test_marks_are_seen_on_light_and_dark() -> None:
    """Text has the notebook's own colour; each colour of the style contrasts by 3 with white and with #1e1e1e."""
    style = (Path(page_module.__file__).parent / "assets" / "card.css").read_text()
    colours = set(re.findall(r"#([0-9a-f]{6})", style))
    assert len(colours) == 3
    for colour in colours:
        for ground in ("ffffff", "1e1e1e"):
            low, high = sorted((luminance(colour), luminance(ground)))
            assert (high + 0.05) / (low + 0.05) >= 3, (colour, ground)


def luminance(colour: str) -> float:
    """The relative luminance of a colour, as in WCAG 2."""
    channels = [int(colour[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
