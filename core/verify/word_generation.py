"""Strings that string operators distinguish: matches of patterns, texts with delimiters, words of a vocabulary."""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

MATCHES = 6  # words generated for a pattern, and as many that nearly match
MAX_REPEATS = 3  # of an unbounded repetition, beyond its minimum
CATEGORY_LETTERS = {
    "CATEGORY_DIGIT": string.digits, "CATEGORY_SPACE": " \t",
    "CATEGORY_WORD": string.ascii_letters + string.digits + "_", "CATEGORY_NOT_DIGIT": "ab",
    "CATEGORY_NOT_SPACE": "ab1", "CATEGORY_NOT_WORD": " -.",
}  # fmt: skip
PRINTABLE = string.ascii_letters + string.digits + string.punctuation + " "


def matching_words(pattern: str) -> list[str]:
    """Words that match a regular expression, and words one character away from it; empty if it cannot be parsed.

    RE2, which onnxruntime uses, has the same syntax as Python for everything that is generated here.
    """
    parser: Any = getattr(re, "_parser", None)
    try:
        tree = list(parser.parse(pattern))
    except (AttributeError, re.error, RecursionError, OverflowError):
        return []
    rng = Random(pattern)  # noqa: S311 - reproducible
    matches = ["".join(_samples(tree, rng)) for _ in range(MATCHES)]
    return list(dict.fromkeys([*matches, *(_nearly(word, rng) for word in matches)]))


def _samples(tree: Iterable[Any], rng: Random) -> Iterator[str]:
    """Yield parts of a word that matches a parsed expression; look-around and references add nothing."""
    for operator, argument in tree:
        match str(operator):
            case "LITERAL":
                yield chr(argument)
            case "NOT_LITERAL":
                yield rng.choice([c for c in PRINTABLE if ord(c) != argument])
            case "ANY":
                yield rng.choice(PRINTABLE)
            case "IN":
                yield _in_class(argument, rng)
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, inner = argument
                for _ in range(rng.randint(least, min(int(most), least + MAX_REPEATS))):
                    yield from _samples(inner, rng)
            case "BRANCH":
                yield from _samples(rng.choice(argument[1]), rng)
            case "SUBPATTERN":
                yield from _samples(argument[-1], rng)
            case _:
                pass


def _in_class(argument: Any, rng: Random) -> str:
    members = [(str(kind), value) for kind, value in argument]
    found = [c for kind, value in members for c in _members(kind, value)]
    if members[0][0] == "NEGATE":
        found = [c for c in PRINTABLE if c not in set(found)]
    return rng.choice(found or ["a"])


def _members(kind: str, value: Any) -> str:
    if kind == "LITERAL":
        return chr(value)
    if kind == "RANGE":
        return "".join(map(chr, range(value[0], min(value[1], value[0] + 255) + 1)))
    return CATEGORY_LETTERS.get(str(value), "")


def _nearly(word: str, rng: Random) -> str:
    """A word with one character changed, removed or added."""
    at = rng.randrange(len(word) + 1)
    return rng.choice([word[:at] + word[at + 1 :], word[:at] + "~" + word[at:], word + rng.choice("aZ0 ")])


def delimited_words(delimiter: str) -> list[str]:
    """Texts in which a delimiter separates words, begins or ends the text, or is repeated; "" splits at blanks."""
    d = delimiter or " "
    return [f"a{d}b", f"{d}c", f"d{d}", f"e{d}{d}f", f"g{d}h{d}i{d}j", d, "k", "", *([" l\tm  n "] if d == " " else [])]


def case_variants(words: Sequence[str]) -> list[str]:
    """The words, and variants of each in other letter cases."""
    others = (f(w) for f in (str.upper, str.lower, str.capitalize) for w in words)
    return list(dict.fromkeys([*words, *others]))


def words_of_operator(op_type: str, attributes: Mapping[str, Any]) -> list[str]:
    """Strings that an operator of the standard domain distinguishes, by its attributes."""
    if op_type == "RegexFullMatch":
        return matching_words(str(attributes.get("pattern", "")))
    if op_type == "StringSplit":
        return delimited_words(str(attributes.get("delimiter", "")))
    if op_type == "StringNormalizer":
        return case_variants([*map(str, attributes.get("stopwords", ())), "Passwright"])
    return []
