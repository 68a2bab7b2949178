"""The documentation site built by mkdocs: complete, self-contained and searchable."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from executable_documents import PAGES, ROOT
from facts import passes_by_family
from passwright.core import RulePass

pytestmark = pytest.mark.slow  # building the site takes long; `test_docs.py` and `test_readme.py` read the pages
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed|object)\b[^>]*\b(?:src|data|srcset)=["']?\s*(?:https?:)?//"""
    r"""|<link\b[^>]*\brel=["']?(?:stylesheet|preconnect|preload|icon|dns-prefetch|modulepreload)[^>]*\bhref=["']?(?:https?:)?//"""
    r"""|@import\s+["']?(?:url\()?["']?(?:https?:)?//|url\(\s*["']?(?:https?:)?//""",
    re.IGNORECASE,
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with warnings as errors."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


def test_the_site_has_every_page_and_no_sources(site: Path) -> None:
    assert {p.stem for p in PAGES} <= {p.stem for p in site.glob("*.html")}
    assert not [p for p in site.rglob("*") if p.suffix == ".py" or p.name == "examples.json"]


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    found = {
        p.name: LOADED.findall(p.read_text(encoding="utf-8")) for p in site.rglob("*") if p.suffix in {".html", ".css"}
    }
    assert len(found) > len(PAGES)
    assert {name: urls for name, urls in found.items() if urls} == {}


def test_no_page_needs_an_external_diagram_script(site: Path) -> None:
    assert not [p.name for p in site.rglob("*.html") if "mermaid" in p.read_text(encoding="utf-8")]


def test_search_index_has_rules_and_no_pictures(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "matmul_add_to_gemm" in index
    assert "<svg" not in index
    assert "figcaption" not in index


def test_the_search_works_from_disk(site: Path) -> None:
    assert (site / "search" / "search_index.js").read_text(encoding="utf-8").startswith("var __index = ")
    assert 'src="iframe-worker.js"' in (site / "index.html").read_text(encoding="utf-8")
    assert (site / "iframe-worker.js").exists()


def test_an_equation_is_not_cut_off(site: Path) -> None:
    rules = [r for p in passes_by_family()["linear"] if isinstance(p, RulePass) for r in p.rules]
    page = (site / "catalogue" / "linear.html").read_text(encoding="utf-8")
    assert len(re.findall(r'class="[^"]*\bequation\b', page)) == len(rules)
    assert ".equation pre > code" in (site / "style.css").read_text(encoding="utf-8")


def test_links_have_targets(site: Path) -> None:
    pages = {p.resolve(): p.read_text(encoding="utf-8") for p in site.rglob("*.html")}
    broken = []
    for page, text in pages.items():
        for target in re.findall(r'href="([^"]+)"', text):
            path, _, anchor = target.partition("#")
            if re.match(r"\w+:", path) or path.startswith("/"):
                continue
            other = (page.parent / path).resolve() if path else page
            if not other.exists() or (anchor and other in pages and f'id="{anchor}"' not in pages[other]):
                broken.append(f"{page.name}: {target}")
    assert [b for b in broken if "#__" not in b] == []


def test_external_resources_are_detected() -> None:
    for text in (
        '<script src="https://unpkg.com/x.js"></script>',
        "<link rel=stylesheet href=//fonts.example/x.css>",
        "@import url('https://example.org/x.css');",
        "p { background: url(http://example.org/x.png) }",
    ):
        assert LOADED.search(text)
