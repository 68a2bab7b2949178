"""Pages: documents as HTML from templates, including styles and scripts."""

from __future__ import annotations

import gzip
from base64 import b64encode
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from rich.filesize import decimal

from ...core.support.printable_text import json_text, printable
from .document import PAGE, Document, Section, Widget, shown_blocks

if TYPE_CHECKING:
    from jinja2 import Environment

STYLES = ("page.css", "sections.css", "viewer.css")
SCRIPTS = (
    "elements.js", "blobs.js", "theme.js", "rewrites.js", "colours.js", "viewport.js", "steering.js", "scene.js",
    "painting.js", "overview.js", "search.js", "panel.js", "graph.js", "timeline.js", "models.js", "start.js",
)  # fmt: skip
"""Concatenated in this order, they form one module: a self-contained file cannot import."""


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


def render_template(template: str, **values: Any) -> str:
    """Render a template with values. All text is escaped, and its control characters are made visible."""
    return _environment().get_template(template).render(**values, styles=STYLES, scripts=SCRIPTS)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined  # noqa: PLC0415 - only for cards and pages

    environment = Environment(
        loader=FunctionLoader(lambda name: _read_resource(f"templates/{name}")),
        autoescape=True,
        finalize=lambda value: value if isinstance(value, Markup) or not isinstance(value, str) else printable(value),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    def asset(name: str) -> Markup:
        return Markup(_read_resource(f"assets/{name}"))  # noqa: S704 - a style or script of this package

    environment.filters.update(size=decimal, thousands="{:,}".format, asset=asset)
    return environment


def _read_resource(place: str) -> str:
    return (files(__spec__.parent) / place).read_text("utf-8")


def compress_json(data: Any) -> str:
    """JSON data compressed to letters without meaning in HTML; deterministic."""
    text = json_text(data, indent=None)
    return b64encode(gzip.compress(text.encode(), mtime=0)).decode()
