"""Parser of pages and cards."""

import gzip
import json
from base64 import b64decode
from html.parser import HTMLParser
from typing import Any

HEADINGS = {"h1", "h2", "h3"}
VOID = {"meta", "link", "input", "br", "path", "circle", "rect", "hr", "img"}


class ParsedPage(HTMLParser):
    """The tags of a page in order, its ids, its attributes, and the text of its scripts; every tag is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.scripts: dict[str, str] = {}
        self.text = ""
        self.headings: list[str] = []
        self._open: list[str] = []
        self._id = ""
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self._id = dict(attrs).get("id") or ""
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "script":
            self.scripts[self._id] = data
        elif self._open and self._open[-1] != "style":
            self.text += data
            if HEADINGS & {*self._open}:
                self.headings.append(data)


def decompress_json(letters: str) -> Any:
    """The data that a page has as letters."""
    return json.loads(gzip.decompress(b64decode(letters)))
