"""Pages: documents as HTML, with their styles and scripts inside."""

from __future__ import annotations

from pathlib import Path

from .document import PAGE, Document, Section, Widget, shown_blocks
from .rendering import compress_json, render_template


def page_html(document: Document) -> str:
    """The page of a document, as HTML."""
    widgets = [block for block in document.shown(PAGE) if isinstance(block, Widget)]
    return render_template(
        "page.html",
        document=document,
        model=Path(document.subject).name or document.subject,
        details=document.details if document.details.on & PAGE else (),
        head=list(
            shown_blocks((b for b in (*document.evidence, *document.blocks) if not isinstance(b, Section)), PAGE)
        ),
        data={name: compress_json(data) for widget in widgets for name, data in widget.data().items()},
    )
