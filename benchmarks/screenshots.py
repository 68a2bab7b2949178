"""The pictures of pages in the documents: `python benchmarks/screenshots.py`. It takes a minute, and a Chromium.

Both show written pages: `docs/images/report.png` shows a comparison, `docs/images/report-graph.png` the graph of
a run with a node that a rewrite made. playwright is in the extra `dev`.
"""

from __future__ import annotations

import argparse
import os
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from passwright.app.cli.entry import app
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).parent.parent
CNN, TRANSFORMER = (ROOT / "golden_models" / f"{name}.onnx" for name in ("keras_cnn", "bert"))
IMAGES = ROOT / "docs" / "images"
WIDTH, HEIGHT = 1280, 900


def main() -> None:
    """Make both pages and photograph them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--min-time", default="3", help="seconds of calls for each model of the comparison")
    parser.add_argument("--page", type=Path, help="a comparison that was written already")
    given = parser.parse_args()
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        raise SystemExit("there is no Chromium")
    IMAGES.mkdir(exist_ok=True)
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=chromium, args=flags)
        compared, ran = Path(folder) / "compare.html", Path(folder) / "run.html"
        if given.page is None:
            run_passes("compare", str(CNN), "--threads", "1", "--min-time", given.min_time, "--html", str(compared))
        run_passes("run", str(TRANSFORMER), "--html", str(ran))
        open_page(browser, given.page or compared).screenshot(path=IMAGES / "report.png")
        save_graph_screenshot(open_page(browser, ran))
        browser.close()


def run_passes(*arguments: str) -> None:
    """Run a command. Raises SystemExit if it fails."""
    app(list(arguments), standalone_mode=False)


def open_page(browser: Browser, path: Path) -> Page:
    """The page in a light window."""
    page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
    page.goto(path.resolve().as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    return page


def save_graph_screenshot(page: Page) -> None:
    """The graph where a scale of attention became part of a weight."""
    page.fill("#search", "fold-scale")
    page.locator("#side").wait_for()
    page.wait_for_timeout(400)  # until the view that moved is painted in full
    page.locator("#viewer").screenshot(path=IMAGES / "report-graph.png")


if __name__ == "__main__":
    main()
