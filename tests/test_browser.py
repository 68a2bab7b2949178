"""Pages in a real browser: clicks, search, drawing and layout."""

import os
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import onnx
import pytest
from msgspec import structs
from passwright.app.compare.comparison_report import ComparisonVerdict
from passwright.app.measure.metrics import RatioInterval
from passwright.app.measure.model_stats import compute_model_stats
from passwright.app.models.document import describe as describe_batch
from passwright.app.profile.profile import profile
from passwright.app.report.graph_layout import GraphLayout
from passwright.app.report.page import page_html
from passwright.app.report.visualization import GraphView, NodeView, Visualization
from sample_reports import (
    HOSTILE,
    batch_summary,
    compare_page,
    comparison,
    profile_page,
    profile_pair,
    report,
    row,
    run_page,
    trace,
)  # fmt: skip
from tiers import slow_unless

from passwright import optimize

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to open pages with")]

GOLDEN = Path(__file__).parent.parent / "golden_models"
EMPTY = GraphLayout(0, 0, [], [])


def _run_page(model: Path) -> str:
    result = optimize(model, visualize=True)
    assert result.visualization is not None
    return run_page(result.report, result.visualization)


def _compare_page(model: Path) -> str:
    """A comparison with node counts and verdicts of real files and invented times."""
    result = optimize(model, visualize=True)
    assert result.visualization is not None
    verdict = result.report.verification
    assert verdict is not None
    with TemporaryDirectory() as folder:
        ours = Path(folder) / "ours.onnx"
        onnx.save(result.model, ours)
        original, optimized = compute_model_stats(model), compute_model_stats(ours)
    error = verdict.differences["y"]
    our_verdict = ComparisonVerdict("", error.error, error.allowed)
    near = RatioInterval(0.996, 0.958, 1.021)
    exact = ComparisonVerdict("", 0.0, error.allowed)
    rows = [
        structs.replace(row("original", 2.62e-4, None, 73), stats=original, verdict=exact),
        structs.replace(row("passwright", 2.73e-4, 0.1, 51), stats=optimized, verdict=our_verdict),
        structs.replace(row("original", 1.29e-4, None, 73, online=True), stats=original, online_stats=optimized),
        structs.replace(
            row("passwright", 1.28e-4, 0.1, 51, online=True, interval=near),
            stats=optimized, online_stats=optimized, verdict=our_verdict,
        ),
    ]  # fmt: skip
    compared = replace(comparison(str(model)), rows=rows, baseline=2)
    return compare_page(compared, result.report, result.visualization)


def _profile_page(model: Path) -> str:
    with TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        profile(model, min_time=0.05, threads=1, trace=Path(folder) / "trace.json", html=page)
        return page.read_text("utf-8")


MAKERS: dict[str, Callable[[], str]] = {
    "run": lambda: run_page(report(rejected=True), trace(60)),
    "hostile": lambda: run_page(report(HOSTILE[0]), trace(60, HOSTILE)),
    "compare": lambda: compare_page(comparison(), report(), trace(30)),
    "profile": lambda: profile_page(profile_pair(), report(), trace(30)),
    "one node": lambda: run_page(
        report(),
        Visualization(
            [], [], [GraphView("main", [NodeView("", "op", "Conv", 0, 0)], [], GraphLayout(0, 0, [(0, 0)], []))]
        ),
    ),
    "no node": lambda: run_page(report(), Visualization([], [GraphView("main", [], [], EMPTY)], [])),
    "batch": lambda: page_html(describe_batch(batch_summary(500))),
    "hostile batch": lambda: page_html(describe_batch(batch_summary(9, HOSTILE))),
    "no time": lambda: profile_page(profile_pair(0), report(), Visualization([], [], [])),
    "1000": lambda: run_page(report(), trace(1000, changes=300)),
    "5000": lambda: run_page(report(), trace(5000, changes=300)),
    "bert": lambda: _run_page(GOLDEN / "bert.onnx"),
    "real compare": lambda: _compare_page(GOLDEN / "resnet_kept_bn.onnx"),
    "real profile": lambda: _profile_page(GOLDEN / "resnet_kept_bn.onnx"),
}
COLOURS = """canvas => {
    const { width, height } = canvas;
    const copy = new OffscreenCanvas(width, height).getContext("2d");  // Chromium warns of canvases read repeatedly
    copy.drawImage(canvas, 0, 0);
    return new Set(new Uint32Array(copy.getImageData(0, 0, width, height).data.buffer)).size;
}"""
PIXELS_BY_COLOUR = """async png => {
    const image = await createImageBitmap(new Blob([Uint8Array.from(atob(png), byte => byte.charCodeAt(0))]));
    const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
    context.drawImage(image, 0, 0);
    const counts = new Map();
    for (const pixel of new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer))
        counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
    return [...counts.values()];
}"""
CLIPPED = """() => [
    ...[...document.querySelectorAll(".tile, .tile *, .claim, .legend, .panel, figcaption")]
        .filter((e) => e.clientWidth && e.scrollWidth > e.clientWidth + 1),
    ...[...document.querySelectorAll("svg.chart text")].filter((text) => {
        const [box, around] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
        return box.left < around.left - 1 || box.right > around.right + 1 || box.bottom > around.bottom + 1;
    }),
].map((e) => `${e.tagName} ${e.textContent}`)"""
PIXELS = "canvas => canvas.toDataURL()"
CHANGED = "([canvas, was]) => canvas.toDataURL() !== was"
FRAMES = """async canvas => {
    const box = canvas.getBoundingClientRect();
    const fire = (type, x, y) => canvas.dispatchEvent(new PointerEvent(type,
        { pointerId: 1, button: 0, buttons: 1, clientX: box.left + x, clientY: box.top + y, bubbles: true }));
    canvas.setPointerCapture = () => {};
    fire("pointerdown", 300, 300);
    const frames = [];
    let last = performance.now();
    for (let n = 1; n <= 20; n++) {
        fire("pointermove", 300 + 9 * n, 300 + 7 * n);
        await new Promise(requestAnimationFrame);
        frames.push(performance.now() - last);
        last = performance.now();
    }
    fire("pointerup", 480, 440);
    return frames;
}"""
SLOWEST_FRAME = 2.0
"""Limit of the median frame time in seconds, even on a busy machine: frames of 5,000 nodes take 0.02."""


TIMEOUT = 120
"""Timeout of each wait in seconds, for a busy machine."""
OLD_BROWSER = "delete window.DecompressionStream"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    flags = ["--disable-gpu", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=flags, timeout=1000 * TIMEOUT)
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def opened(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Open a page and require that it causes no errors, messages or requests.

    Windows share a tab, as a process for each takes longer than most pages; one with a `script` has its own.
    """
    folder = tmp_path_factory.mktemp("pages")

    @cache
    def written(name: str) -> Path:
        path = folder / f"{name}.html"
        path.write_text(MAKERS[name](), encoding="utf-8")
        return path

    def new_tab() -> Any:
        tab = browser.new_page()
        tab.set_default_timeout(1000 * TIMEOUT)
        return tab

    shared = new_tab()

    @contextmanager
    def window(
        name: str, script: str = "", width: int = 1280, height: int = 900, scheme: str = "light"
    ) -> Iterator[Any]:
        page = new_tab() if script else shared
        page.add_init_script(script) if script else page.mouse.move(0, 0)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(media="screen", color_scheme=scheme)
        messages: list[str] = []
        listeners = {
            "console": lambda message: messages.append(message.text),
            "pageerror": lambda error: messages.append(str(error)),
            "dialog": lambda dialog: (messages.append(dialog.message), dialog.dismiss()),
            "request": lambda request: messages.append(request.url),
        }
        for event, listener in listeners.items():
            page.on(event, listener)
        address = written(name).as_uri()
        try:
            page.goto(address)
            page.wait_for_selector("html[data-ready]", state="attached")
            yield page
            assert [line for line in messages if line != address] == []
        finally:
            for event, listener in listeners.items():
                page.remove_listener(event, listener)
            page.goto("about:blank")
            if script:
                page.close()

    return window


@pytest.mark.parametrize("name", ["run", "compare", "profile", "batch"])
def test_page_is_not_blank_and_fits_phone(opened: Any, name: str) -> None:
    with opened(name, width=390, height=500) as page:
        picture = page.screenshot(clip={"x": 0, "y": 60, "width": 390, "height": 150})
        counts = page.evaluate(PIXELS_BY_COLOUR, b64encode(picture).decode())
        assert len(counts) > 40
        assert max(counts) < 0.97 * sum(counts)
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
        assert page.evaluate(CLIPPED) == []


def test_click_opens_rewrite_with_pictures(opened: Any) -> None:
    with opened("run") as page:
        page.locator("#rules > .rule > summary").first.click()
        page.locator("#rewrite-0 > summary").click()
        pictures = page.locator("#rewrite-0 svg.passes-picture")
        pictures.nth(1).wait_for()
        assert ["BatchNormalization" in text for text in pictures.all_text_contents()] == [True, False]
        assert all(pictures.nth(n).bounding_box()["height"] > 100 for n in range(2))
        assert "Conv(x, w * s, (b - m) * s + B)" in page.locator("#rewrite-0 .reasons").text_content()


def test_rewrites_are_filtered(opened: Any) -> None:
    with opened("1000") as page:
        page.locator("#rules > .rule > summary").first.click()
        page.locator(".rule").first.locator(".rewrite").first.wait_for()
        assert page.locator(".rule").first.locator(".rewrite").count() == 100
        page.get_by_role("button", name="Show more").click()
        assert page.locator(".rule").first.locator(".rewrite").count() == 200
        page.fill("#filter", "Layer.17/")
        assert page.locator("#filtered").text_content() == "1 of 300 rewrites"
        assert page.locator(".rule:visible").count() == 1
        page.fill("#filter", "nothing is called this")
        assert page.locator(".rule:visible").count() == 0


@pytest.mark.parametrize("name", slow_unless({"1000"}, ("1000", "5000")))
def test_search_selects_node(opened: Any, name: str) -> None:
    with opened(name) as page:
        page.fill("#search", "matmul_984")
        page.locator("#side").wait_for()
        assert "/encoder/layer.82/MatMul_984" in page.locator("#side").text_content()
        assert page.locator("#hits").text_content() == "1 of 1"
        page.fill("#search", "gelu_9")
        page.press("#search", "Enter")
        assert page.locator("#hits").text_content().startswith("2 of ")
        page.press("#search", "Shift+Enter")
        assert "Gelu_9" in page.locator("#side").text_content()
        page.fill("#search", "no such thing")
        assert page.locator("#hits").text_content() == "nothing"
        assert not page.locator("#side").is_visible()


@pytest.mark.parametrize("name", slow_unless({"1000"}, ("1000", "5000")))
def test_large_graphs_are_drawn_and_panned(opened: Any, name: str) -> None:
    with opened(name) as page:
        canvas = page.locator("#canvas")
        for which, colours in (("#canvas", 20), ("#overview", 3)):  # drawn when the browser has time for a frame
            drawn = f"([canvas, least]) => ({COLOURS})(canvas) > least"
            page.wait_for_function(drawn, arg=[page.query_selector(which), colours])
        before = canvas.evaluate(PIXELS)
        near = canvas.evaluate(FRAMES)
        page.click("#fit")
        far = canvas.evaluate(FRAMES)
        assert canvas.evaluate(PIXELS) != before
        assert max(median(near), median(far)) < 1000 * SLOWEST_FRAME


def test_click_selects_node(opened: Any) -> None:
    with opened("run") as page:
        page.fill("#search", "matmul_4")
        page.locator("#side").wait_for()
        side, stage = page.locator("#side").bounding_box(), page.locator("#canvas").bounding_box()
        right = page.locator("#overview").bounding_box()["x"]
        middle = {"x": (side["x"] + side["width"] + right) / 2 - stage["x"], "y": stage["height"] / 2}
        page.locator("#side .close").click()
        assert not page.locator("#side").is_visible()
        page.locator("#canvas").click(position=middle)
        assert "/encoder/layer.0/MatMul_4" in page.locator("#side").text_content()


def test_rewrite_links_to_graph_and_back(opened: Any) -> None:
    with opened("run") as page:
        page.locator("#rules > .rule > summary").first.click()
        page.locator("#rewrite-4 > summary").click()
        page.get_by_role("button", name="Show in the graph").click()
        assert page.locator("#hits").text_content().startswith("#4: 1 of ")
        assert "made by a rewrite" in page.locator("#side").text_content()
        page.locator("#rewrite-4 > summary").click()
        page.locator("#side").get_by_role("button", name="change #4").click()
        assert page.locator("#rewrite-4").evaluate("row => row.open")


def test_original_graph_can_be_shown(opened: Any) -> None:
    with opened("run") as page:
        legend, after = page.locator("#marks"), page.locator("#canvas").evaluate(PIXELS)
        assert "made by a rewrite" in legend.text_content()
        page.get_by_text("before", exact=True).locator("visible=true").last.click()
        assert "replaced by a rewrite" in legend.text_content()
        page.wait_for_function(CHANGED, arg=[page.locator("#canvas").element_handle(), after])
        page.fill("#search", "relu_2")
        page.get_by_text("after", exact=True).locator("visible=true").last.click()
        page.locator("#side").wait_for()
        page.locator("#side").get_by_role("button", name="bn_1").wait_for()
        page.locator("#side").get_by_role("button", name="/encoder/layer.0/Relu_2").click()
        assert "replaced" in page.locator("#side").text_content()


def test_subgraph_bodies_can_be_opened(opened: Any) -> None:
    with opened("run") as page:
        page.fill("#search", "relu_12")
        page.locator("#side").get_by_role("button", name="then_branch of If_7").click()
        assert page.locator("#sheet option:checked").text_content() == "then_branch of If_7"
        assert "6 nodes" in page.locator("#marks").text_content()


def test_keys_and_wheel_pan_and_zoom(opened: Any) -> None:
    with opened("run") as page:
        canvas = page.locator("#canvas")
        canvas.focus()
        presses = [lambda key=key: page.keyboard.press(key) for key in ("+", "ArrowDown", "0")]
        canvas.hover()
        for act in (*presses, lambda: page.mouse.wheel(0, -200)):
            before = canvas.evaluate(PIXELS)
            act()
            page.wait_for_function(CHANGED, arg=[canvas.element_handle(), before])


@pytest.mark.parametrize("name", slow_unless({"no node"}, ("one node", "no node", "no time")))
def test_nearly_empty_pages_are_usable(opened: Any, name: str) -> None:
    with opened(name) as page:
        canvas = page.locator("#lanes" if name == "no time" else "#canvas")
        canvas.click()
        for key in ("+", "ArrowDown", "0", "Escape"):
            page.keyboard.press(key)
        assert canvas.bounding_box()["height"] > 100


@pytest.mark.parametrize("scheme", slow_unless({"dark"}, ("light", "dark")))
def test_colour_scheme_follows_system_until_changed(opened: Any, scheme: str) -> None:
    with opened("run", scheme=scheme) as page:
        seen = [page.evaluate("getComputedStyle(document.body).backgroundColor")]
        canvas = page.locator("#canvas")
        painted = canvas.evaluate(PIXELS)
        page.get_by_role("button", name="Light or dark").click()
        page.wait_for_function(CHANGED, arg=[canvas.element_handle(), painted])
        seen.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        light, dark = seen if scheme == "light" else seen[::-1]
        assert min(map(int, light.strip("rgb()").split(","))) > 230
        assert max(map(int, dark.strip("rgb()").split(","))) < 40


def test_hostile_names_are_shown_as_text(opened: Any) -> None:
    with opened("hostile") as page:
        page.locator("#rules > .rule > summary").first.click()
        for n in range(3):
            page.locator(f"#rewrite-{n} > summary").click()
            page.locator(f"#rewrite-{n} svg").first.wait_for()
        assert "<img src=x onerror=alert(1)>:0" in page.locator("#rewrite-0 > summary").text_content()
        page.fill("#search", "onerror")
        page.locator("#side").wait_for()
        assert HOSTILE[0] in page.locator("#side").text_content()
        page.fill("#search", "right to left")
        assert "\\u202eright to left" in page.locator("#side").text_content()
        assert page.locator("img").count() == 0


def test_models_are_sorted_and_filtered(opened: Any) -> None:
    with opened("batch") as page:
        rows = page.locator("#models-body tr")
        assert rows.count() == 200
        page.get_by_role("button", name="Show more").click()
        assert rows.count() == 400
        heading = page.locator("#models-head th", has_text="seconds")
        heading.locator("button").click()
        assert heading.get_attribute("aria-sort") == "descending"
        assert rows.first.locator("th").text_content() == "b 499.onnx"
        heading.locator("button").click()
        assert rows.first.locator("th").text_content() == "a 0.onnx"
        page.select_option("#models-outcome", "failed")
        assert page.locator("#models-count").text_content() == "166 of 500 models"
        assert rows.first.get_attribute("class") == "wrong"
        page.fill("#models-filter", "c 11.onnx")
        assert rows.all_text_contents() == ["c 11.onnxfailedc is no model"]


def test_hostile_names_of_a_batch_are_text(opened: Any) -> None:
    with opened("hostile batch") as page:
        page.locator("#models-body tr").first.wait_for()
        assert f"{HOSTILE[0]} 0.onnx" in page.locator("#models-body").text_content()
        assert HOSTILE[0] in page.locator("#rules-of-all").text_content()
        assert "\\u202eright to left" in page.locator("#models-body").text_content()
        assert page.locator("img").count() == 0


def test_timeline_shows_node_details(opened: Any) -> None:
    with opened("profile") as page:
        lanes = page.locator("#lanes")
        assert lanes.evaluate(COLOURS) > 8
        lanes.hover(position={"x": 20, "y": 60})
        assert "Conv" in page.locator("#tip").text_content()
        lanes.click(position={"x": 20, "y": 60})
        details = page.locator("#lane-side").text_content()
        assert all(text in details for text in ("original", "/layer.0/Conv", "bn_0", "90 µs"))
        lanes.click(position={"x": 20, "y": 150})
        assert "fold_batch_norm_into_conv" in page.locator("#lane-side").text_content()
        before = lanes.evaluate(PIXELS)
        page.keyboard.press("+")
        page.wait_for_function(CHANGED, arg=[lanes.element_handle(), before])


@pytest.mark.parametrize(("name", "places"), [("run", 2), pytest.param("profile", 3, marks=pytest.mark.slow)])
def test_old_browser_notice_replaces_missing_parts(opened: Any, name: str, places: int) -> None:
    with opened(name, OLD_BROWSER) as page:
        notice = page.get_by_text("This browser is too old to unpack what belongs here.")
        assert notice.count() == places
        assert all(notice.nth(n).is_visible() for n in range(places))
        assert page.locator("h1").is_visible()


def test_rule_opened_before_data_is_filled(opened: Any) -> None:
    open_at_once = "addEventListener('DOMContentLoaded', () => { document.querySelector('.rule').open = true; })"
    slow = """{ const json = Response.prototype.json;
        Response.prototype.json = async function () {
            await new Promise((go) => setTimeout(go, 300));
            return json.call(this);
        }; }"""
    with opened("run", slow + open_at_once) as page:
        page.locator(".rule .rewrite").first.wait_for()


def test_page_of_real_run(opened: Any) -> None:
    with opened("bert") as page:
        rule = page.locator(".rule", has_text="fold-scale")
        rule.locator("summary").first.click()
        rule.locator(".rewrite > summary").first.click()
        pictures = rule.locator("svg.passes-picture")
        pictures.nth(1).wait_for()
        before, after = (pictures.nth(n).locator("text").all_text_contents() for n in range(2))
        assert "MatMul" in before
        assert "MatMul" in after
        assert "Mul" in before
        assert "Mul" not in after
        page.get_by_role("button", name="Show in the graph").click()
        side = page.locator("#side")
        side.locator("dt", has_text="made by").wait_for()
        assert "fold-scale" in side.text_content()
        assert " of " in page.locator("#hits").text_content()
        ordinal = rule.locator(".rewrite[open]").get_attribute("id").removeprefix("rewrite-")
        rule.locator(".rewrite[open] > summary").click()
        side.get_by_role("button", name=f"change #{ordinal}", exact=True).click()
        assert page.locator(f"#rewrite-{ordinal}").evaluate("row => row.open")
        page.fill("#search", "softmax")
        assert page.locator("#hits").text_content().startswith("1 of ")
        assert side.locator("h3").text_content() == "Softmax"
        assert page.locator("#canvas").evaluate(COLOURS) > 20
        assert page.evaluate(CLIPPED) == []


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280, 1800])
@pytest.mark.parametrize("name", ["bert", "real compare", "real profile"])
def test_text_of_real_page_is_not_clipped(opened: Any, name: str, width: int) -> None:
    with opened(name, width=width) as page:
        assert page.evaluate(CLIPPED) == []
        assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")


def test_page_of_real_comparison(opened: Any) -> None:
    with opened("real compare") as page:
        tile = page.locator(".tile", has_text="latency under ORT ALL")
        assert "no difference" in tile.text_content()
        assert page.locator("#comparison svg.chart").count() == 4
        row = page.locator("#comparison tr", has_text="passwright").first
        assert row.text_content().startswith("passwrightwithin tolerance")
        assert page.locator("#rules .rule").first.is_visible()
        assert page.evaluate(CLIPPED) == []


def test_page_of_real_profile(opened: Any) -> None:
    with opened("real profile") as page:
        lanes = page.locator("#lanes")
        lanes.scroll_into_view_if_needed()
        boxes = lanes.evaluate(COLOURS)
        assert boxes > 8
        assert page.locator("#profile tbody").first.locator("tr").count() > 3
        assert page.locator("#lane-legend").text_content().count("Conv") == 1
        assert page.evaluate(CLIPPED) == []


def test_print_omits_controls(opened: Any) -> None:
    with opened("run") as page:
        page.emulate_media(media="print")
        assert not page.locator(".controls").is_visible()
        assert not page.locator("#theme").is_visible()
        assert page.locator("h1").is_visible()
