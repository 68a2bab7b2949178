"""HTML pages: self-contained, deterministic, and safe against markup in names."""

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from msgspec import structs
from page_parser import ParsedPage, decompress_json
from passwright.app.compare.document import compare_tiles, comparison_charts, row_tone
from passwright.app.measure.metrics import RatioInterval
from passwright.app.optimize.document import describe
from passwright.app.profile.document import timeline_data
from passwright.app.report import number_text
from passwright.app.report import page as page_module
from passwright.app.report.charts import FONT_SIZE, Bar, BarChart, PairedBarChart
from passwright.app.report.page import compress_json, page_html
from passwright.app.report.picture import svg
from passwright.app.report.rewrite_sections import CHUNK_SIZE, PicturePool, rewrite_data, rewrites_by_rule
from passwright.app.report.visualization import Visualization
from passwright.core.verify.input_sets import InputSet
from passwright.core.verify.verdict import Mismatch, Verdict
from sample_reports import (
    HOSTILE,
    compare_page,
    comparison,
    documents,
    picture,
    profile_page,
    profile_pair,
    report,
    run_page,
    trace,
)  # fmt: skip

VERIFIED = Verdict("onnxruntime", exact=False, input_sets=("normal",), differences={})
ASSETS = Path(page_module.__file__).parent / "assets"


SECTIONS = {"comparison", "profile", "ops", "rewrites", "graph", "left-out"}


@pytest.mark.parametrize(
    ("page", "there"),
    [
        pytest.param(lambda: run_page(report(), trace(30)), {"ops", "rewrites", "graph", "left-out"}, id="run"),
        pytest.param(lambda: run_page(report(), Visualization()), {"ops", "left-out"}, id="run-that-changed-nothing"),
        pytest.param(lambda: compare_page(comparison(), report(), trace(30)), SECTIONS - {"profile"}, id="compare"),
        pytest.param(
            lambda: profile_page(profile_pair(), report(), trace(30)), SECTIONS - {"comparison"}, id="profile"
        ),
        pytest.param(lambda: profile_page(profile_pair(), None, None), {"profile"}, id="profile-without-run"),
        pytest.param(
            lambda: profile_page(replace(profile_pair(), after=None), None, None), {"profile"}, id="one-profile"
        ),
    ],
)
def test_sections_follow_the_data(page: Callable[[], str], there: set[str]) -> None:
    parsed = ParsedPage(page())
    assert set(parsed.ids) & SECTIONS == there
    linked = {v[1:] for tag, name, v in parsed.attributes if tag == "a" and name == "href"} - {"content"}
    assert linked == there


def test_rejected_changes_are_listed() -> None:
    text = ParsedPage(run_page(report(rejected=True), Visualization())).text
    for part in ("pad-pool/pad_into_max_pool #4 at y", "off by up to 2.0", "wrong/01-pad_into_max_pool-y", "quantized"):
        assert part in text
    assert "Nothing was skipped" not in text
    assert "Nothing was skipped" in ParsedPage(run_page(report(), Visualization())).text


@pytest.mark.parametrize(
    ("verification", "tone", "message"),
    [
        pytest.param(VERIFIED, "good", "verified: no difference seen", id="verified"),
        pytest.param(None, "open", "NOT VERIFIED", id="not-verified"),
        pytest.param(
            structs.replace(VERIFIED, failure=Mismatch("y", "off by 2", InputSet("normal"), None)),
            "bad",
            "off by 2",
            id="wrong",
        ),
    ],
)
def test_banner_states_the_verdict(verification: Any, tone: str, message: str) -> None:
    result = report()
    result.verification = verification
    document = describe(result)
    assert document.tone == tone
    assert message in document.verdict


def test_embedded_data_is_complete() -> None:
    drawn = trace(50, HOSTILE)
    scripts = ParsedPage(run_page(report(), drawn)).scripts
    graph = decompress_json(scripts["data-graph"])
    for side, sheets in (("before", drawn.before), ("after", drawn.after)):
        for data, sheet in zip(graph[side], sheets, strict=True):
            assert [n["name"] for n in data["nodes"]] == [n.name for n in sheet.nodes]
            assert [n.get("rewrites", []) for n in data["nodes"]] == [list(n.rewrites) for n in sheet.nodes]
            assert [e[:3] for e in data["edges"]] == [[e.source, e.target, e.name] for e in sheet.links]
            assert [(e[3], e[4]) for e in data["edges"]] == [path[0] for path in sheet.layout.paths]
    rewrites = decompress_json(scripts["data-rewrites"])
    assert [r["place"] for r in rewrites] == [r.change.place for r in drawn.rewrites]
    for data, rewrite in zip(rewrites, drawn.rewrites, strict=True):
        chunk, place = data["before"]
        words = "".join(ET.fromstring(decompress_json(scripts[f"data-pictures-{chunk}"])[place]).itertext())
        assert all(op in words for op in rewrite.change.replaced)


def test_lanes_hold_all_nodes() -> None:
    beside = profile_pair(40, HOSTILE)
    lanes = decompress_json(ParsedPage(profile_page(beside, None, None)).scripts["data-lanes"])
    assert [[n["name"] for n in lane["nodes"]] for lane in lanes] == [
        [n.name for n in side.nodes] for side in (beside.before, beside.after) if side is not None
    ]


def test_the_same_picture_is_stored_once() -> None:
    drawn = trace(10, changes=400)
    found = rewrite_data(drawn.rewrites)
    data, chunks = found["rewrites"], [found[f"pictures-{n}"] for n in range(len(found) - 1)]
    pictures = {(n, place): drawing for n, chunk in enumerate(chunks) for place, drawing in enumerate(chunk)}
    assert len(pictures) == len(set(pictures.values())) < 120
    placed = [r for r in data if r["before"] is not None]
    assert len(placed) == sum(r.before is not None for r in drawn.rewrites) < 400
    assert {r["before"] for r in placed} | {r["after"] for r in placed} == set(pictures)


def test_pictures_with_other_labels_share_a_layout() -> None:
    gallery = PicturePool()
    pictures = [picture(["Conv", op], name) for op in ("Relu", "Tanh", "BatchNormalization") for name in ("abc", "xyz")]
    places = [gallery.index(each) for each in pictures]
    assert len(gallery.layouts) == 1
    assert len(set(places)) == 6
    for each, place in zip(pictures, places, strict=True):
        assert place is not None
        assert gallery.chunks[place[0]][place[1]] == svg(each, "a piece of the graph")


def test_many_pictures_are_chunked() -> None:
    gallery = PicturePool()
    places = [gallery.index(picture(["Conv"], f"{n}")) for n in range(2 * CHUNK_SIZE + 1)]
    assert [len(chunk) for chunk in gallery.chunks] == [CHUNK_SIZE, CHUNK_SIZE, 1]
    assert places[CHUNK_SIZE - 1 : CHUNK_SIZE + 1] == [(0, CHUNK_SIZE - 1), (1, 0)]


def test_undrawn_changes_are_counted() -> None:
    drawn = trace(10, changes=100)
    undrawn = sum(r.before is None for r in drawn.rewrites)
    assert undrawn > 1
    assert f"{undrawn} of them are listed, but not drawn." in ParsedPage(run_page(report(), drawn)).text
    drawn.rewrites = [r for r in drawn.rewrites if r.before is not None]
    assert "not drawn" not in ParsedPage(run_page(report(), drawn)).text


def test_lanes_are_in_order_of_time() -> None:
    beside = profile_pair(40)
    beside = replace(beside, before=structs.replace(beside.before, nodes=beside.before.nodes[::-1]))
    assert [n["start"] for n in timeline_data(beside)[0]["nodes"]] == sorted(n.start for n in beside.before.nodes)


def test_rules_list_rewrites_once_by_saving() -> None:
    drawn = trace(10, changes=41)
    rules = rewrites_by_rule(drawn.rewrites)
    assert sorted(n for _, indices, _ in rules for n in indices) == list(range(41))
    saved = [savings.nodes for _, _, savings in rules]
    assert saved == sorted(saved, reverse=True)
    assert sum(saved) == 41


def test_pages_stay_light() -> None:
    assert len(run_page(report(), Visualization())) < 120_000
    assert len(run_page(report(), trace(5000, changes=200))) < 1_000_000


def test_nonfinite_numbers_are_null() -> None:
    assert decompress_json(compress_json([float("nan"), "NaN", float("-inf")])) == [None, "NaN", None]


def test_every_style_and_script_is_in_the_page() -> None:
    assert {*page_module.STYLES, *page_module.SCRIPTS, "card.css"} == {p.name for p in ASSETS.iterdir()}


def bars_of(drawing: str) -> list[ET.Element]:
    return [e for e in ET.fromstring(drawing).iter() if "bar" in e.get("class", "").split() and e.tag.endswith("rect")]


def test_bars_are_as_long_as_their_numbers() -> None:
    bars = [Bar("a", 2.0, "2 s", 1.5, 2.5, "ours"), Bar("b", 1.0, "1 s", tone="plain"), Bar("<c>", 4.0, "4 s")]
    drawn = BarChart("Times", "", bars, lambda n: f"{n:g} s").svg()
    widths = {e.get("class"): float(e.get("width", "")) for e in bars_of(drawn)}
    assert widths["bar ours"] / widths["bar plain"] == pytest.approx(2)
    assert widths["bar"] / widths["bar plain"] == pytest.approx(4)
    whisker = next(e for e in ET.fromstring(drawn).iter() if e.get("class") == "ci")[0].get("d", "")
    xs = [float(x) for x in re.findall(r"[ML](\S+) ", whisker)]
    assert (max(xs) - min(xs)) / widths["bar plain"] == pytest.approx(1)
    texts = [t for e in ET.fromstring(drawn).iter() if (t := e.text or "")]
    assert [t for t in texts if t in {"2 s", "1 s", "4 s"}][-3:] == ["4 s", "1 s", "2 s"]
    assert "<c>" in texts


def test_intervals_stay_left_of_the_numbers() -> None:
    bars = [Bar("a", 1.0, "1 s", 0.9, 5.0), Bar("b", 2.0, "2 s", 1.8, 2.1)]
    parts = list(ET.fromstring(BarChart("Times", "", bars, str).svg()).iter())
    whiskers = [e[0].get("d", "") for e in parts if e.get("class") == "ci"]
    numbers_at = [float(e.get("x", "")) - 3 * FONT_SIZE for e in parts if e.get("class") == "value"]
    assert len(whiskers) == len(numbers_at) == 2
    assert max(float(x) for d in whiskers for x in re.findall(r"[ML](\S+) ", d)) < min(numbers_at)


def test_charts_leave_no_importer() -> None:
    code = (
        "from importlib.metadata import version; from passwright.app.report.charts import Bar, BarChart; "
        "BarChart('t', '', [Bar('a', 1.0, '1')], str).svg(); import colorsys; version('passwright')"
    )
    subprocess.run([sys.executable, "-W", "error::ImportWarning", "-c", code], check=True)


@pytest.mark.parametrize("numbers_drawn", [[0.0], [0.0, 0.0], [1.0], [1e-9, 1e9]])
def test_any_numbers_give_a_chart(numbers_drawn: list[float]) -> None:
    bars = [Bar(str(n), n, str(n), n, n) for n in numbers_drawn]
    assert len(bars_of(BarChart("Times", "", bars, str).svg())) == len(bars)


@pytest.mark.parametrize("unwanted", ["<script", "<style", "<desc", "<!--", "pygal", " id=", "Consolas"])
def test_charts_have_no_unwanted_elements(unwanted: str) -> None:
    drawn = PairedBarChart("Ops", "", [("Conv", 3, 1), ("Relu", 1, 1)], "{:.0f}".format).svg()
    assert len(bars_of(drawn)) == 4
    assert unwanted not in drawn


def test_charts_have_a_bar_per_measured_row() -> None:
    beside = comparison()
    bars = {chart.title: len(bars_of(chart.svg())) for chart in comparison_charts(beside)}
    assert bars == {"Latency, one sample": 8, "Latency, batch of 8": 8, "Bytes on disk": 5, "Nodes that run": 8}
    assert [row_tone(row, beside) for row in beside.rows] == [
        "plain", "ours", "plain", "plain", "wrong", "baseline", "ours", "plain", "wrong",
    ]  # fmt: skip


def test_comparison_without_runs_has_no_charts() -> None:
    beside = comparison()
    beside.rows = [
        structs.replace(r, measured=None, stats=None, online_stats=None, failure="no such file") for r in beside.rows
    ]
    text = ParsedPage(compare_page(beside, report(), Visualization())).text
    assert f"{', '.join(row.label for row in beside.rows)}: fails: no such file" in text
    assert list(comparison_charts(beside)) == []


def test_failed_rows_state_reason_and_remedy() -> None:
    text = ParsedPage(compare_page(comparison(), report(), Visualization())).text
    for part in (
        "y: off by up to 2.0",
        "passes bisect model.onnx --ort all",
        "list index out of range",
        "not installed",
    ):
        assert part in text


@pytest.mark.parametrize("kind", documents())
def test_no_heading_is_there_twice(kind: str) -> None:
    headings = [" ".join(text.split()) for text in ParsedPage(page_html(documents()[kind])).headings]
    assert [text for text, count in Counter(filter(None, headings)).items() if count > 1] == []


@pytest.mark.parametrize(
    ("interval", "value", "tone"),
    [
        pytest.param(RatioInterval(0.8, 0.7, 0.9), "0.80", "good", id="faster"),
        pytest.param(RatioInterval(1.2, 1.1, 1.3), "1.20", "bad", id="slower"),
        pytest.param(RatioInterval(0.99, 0.9, 1.1), "no difference", "", id="no-difference"),
    ],
)
def test_latency_tile_shows_only_measured_values(interval: RatioInterval, value: str, tone: str) -> None:
    beside = comparison()
    beside.rows[6] = structs.replace(beside.rows[6], ratios={1: interval})
    (tile,) = compare_tiles(beside)
    assert (tile.value, tile.tone) == (value, tone)
    assert tile.note.partition(":")[0] == {"good": "faster", "bad": "slower"}.get(tone, tile.note)
    assert f"{interval.low:.2f}-{interval.high:.2f} of the original's" in tile.note


@pytest.mark.parametrize(
    ("say", "number", "expected"),
    [
        (number_text.duration, 0.0, "0 s"),
        (number_text.duration, 1.2345, "1.23 s"),
        (number_text.duration, 0.99999, "1.00 s"),
        (number_text.duration, 0.0123, "12.3 ms"),
        (number_text.duration, 4.2e-5, "42.0 µs"),
        (number_text.duration, 3e-10, "0.30 ns"),
        (number_text.duration, -0.5, "-500 ms"),
        (lambda n: number_text.duration_range([n, 0.0, 2 * n]), 1e-5, "10.0-20.0 µs"),
        (lambda n: number_text.duration_range([100 * n, n]), 4.2e-5, "42.0 µs-4.20 ms"),
        (lambda n: number_text.duration_range([n, n]), 0.5, "500 ms"),
        (lambda n: number_text.duration_range([n]), 0.0, ""),
        (lambda n: number_text.ratio(RatioInterval(1.0, 0.9, n)), 1.1, "no difference"),
        (lambda n: number_text.ratio(RatioInterval(1.0, 0.9, n)), 70.0, "inconclusive"),
        (lambda n: number_text.ratio(RatioInterval(1.0, n, 1.02)), 0.049, "inconclusive"),
        (lambda n: number_text.ratio(RatioInterval(0.5, 0.1, n)), 0.99, "0.50"),
        (number_text.compact, 999, "999"),
        (number_text.compact, 25_557_032, "25.6 M"),
        (number_text.compact, 999.6, "1.00 k"),
        (number_text.compact, 12.345, "12.3"),
        (lambda n: number_text.change(200, n), 150, "-25.0%"),
        (lambda n: number_text.change(200, n), 199, "-0.5%"),
        (lambda n: number_text.change(10_000, n), 9_999, "<0.1%"),
        (lambda n: number_text.change(200, n), 300, "+50.0%"),
        (lambda n: number_text.change(200, n), 200, ""),
        (lambda n: number_text.change(0, n), 200, ""),
    ],
)
def test_number_formats(say: Callable[[Any], str], number: float, expected: str) -> None:
    assert say(number) == expected


TEXT_ON_GROUND = [
    *((text, ground) for text in ("text", "muted", "accent") for ground in ("ground", "surface", "sunken")),
    *((tone, f"{tone}-soft") for tone in ("good", "bad", "open", "gone", "made")),
    *((tone, "surface") for tone in ("good", "bad")),
    ("bad", "accent-soft"), ("good", "accent-soft"), ("muted", "accent-soft"), ("text", "accent-soft"),
    ("muted", "good-soft"), ("muted", "open-soft"), ("muted", "bad-soft"),
    *((kind, f"{mark}-soft") for kind in ("text", "muted") for mark in ("gone", "made")),
]  # fmt: skip


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), TEXT_ON_GROUND)
def test_text_has_contrast_in_both_schemes(text: str, ground: str, scheme: str) -> None:
    style = (ASSETS / "page.css").read_text()
    pairs = {n: (a, b) for n, a, b in re.findall(r"--([\w-]+): light-dark\((#\w{6}), (#\w{6})\)", style)}
    light, dark = sorted((luminance(pairs[name][scheme == "dark"]) for name in (text, ground)), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def luminance(colour: str) -> float:
    """Contrast as defined by WCAG 2."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
