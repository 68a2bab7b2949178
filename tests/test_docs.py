"""Documents: output of their code blocks, and targets of their links."""

import re
from pathlib import Path

import pytest
from executable_documents import PAGES, ROOT, run_document
from tiers import needs_openvino, slow_unless

DOCUMENTS = [ROOT / "README.md", ROOT / "skills" / "passwright" / "SKILL.md", *PAGES]
OF_OPENVINO = {"engines"}
FIRST = {"README", "quick-start", "write-a-pass"}  # the tests of all commands run what the other pages show
QUICK = [d for d in DOCUMENTS if d.stem in FIRST]


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(d, marks=[pytest.mark.slow, needs_openvino]) if d.stem in OF_OPENVINO else value
        for d, value in zip(DOCUMENTS, slow_unless(QUICK, DOCUMENTS), strict=True)
    ],
    ids=[d.stem for d in DOCUMENTS],
)
def test_document_shows_actual_output(document: Path, tmp_path: Path) -> None:
    run_document(document, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=[p.stem for p in PAGES])
def test_page_links_to_next_page(page: Path) -> None:
    last = page.read_text(encoding="utf-8").rstrip().rpartition("\n\n")[2]
    assert page.stem in {"index", "reference"} or re.search(r"Next: .*\]\([\w-]+\.md\)", last, re.DOTALL)


def test_readme_links_exist() -> None:
    targets = re.findall(r"\]\(([^)]+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(targets) > 10
    paths = [t.partition("#")[0] for t in targets if not t.startswith("http")]
    assert [p for p in paths if not (ROOT / p).exists()] == []
