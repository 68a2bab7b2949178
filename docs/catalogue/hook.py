"""mkdocs: adds the generated pages of the catalogue with their pictures, schemas of reports, and descriptions."""

from __future__ import annotations

import re
from pathlib import Path
from shutil import copytree, ignore_patterns, rmtree
from typing import Any

from facts import passes_by_family
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pages import pages
from passwright.core import RulePass
from record import load_examples
from schemas import schemas
from shown import pictures

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "build" / "api" / "passwright"
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
PROSE = re.compile(r"\n\n(?=[A-Z]|`(?!``)|passwright|onnxruntime)(.+?)(?:[.:](?=\s)|\n\n|$)", re.DOTALL)
"""The first sentence of the first paragraph that is neither code nor a list, a table or a heading."""
PLACEHOLDER = re.compile(r'<div data-pictures="([\w-]+)"></div>')


def on_startup(**_: Any) -> None:
    """Copy the sources of the API reference into one tree: mkdocstrings reads packages, and no mapping of folders."""
    rmtree(SOURCES, ignore_errors=True)
    for name in ("passwright", "app", "core", "passes", "testing"):
        place = SOURCES if name == "passwright" else SOURCES / name
        copytree(ROOT / name, place, ignore=ignore_patterns("__pycache__"), dirs_exist_ok=True)


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages and schemas that are not on disk."""
    for path, text in (pages() | schemas()).items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Describe each page by its first sentence, in its HTML and in llms.txt, which has the pages of the navigation."""
    if found := PROSE.search(markdown):
        page.meta.setdefault("description", LINK.sub(r"\1", " ".join(found[1].split())) + ".")
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Put pictures in their places, as HTML: Markdown need not look through them."""
    if not PLACEHOLDER.search(html):
        return html
    passes = [p for ps in passes_by_family().values() for p in ps]
    named = {x.name: x for p in passes for x in (p, *(p.rules if isinstance(p, RulePass) else ()))}
    examples = load_examples()
    return PLACEHOLDER.sub(lambda m: pictures(named[m[1]], examples[m[1]]), html)
