"""Operators on strings."""

from __future__ import annotations

from .declaration import Family, T
from .reference import by_reference

TEXT = Family()
TEXT.declare("RegexFullMatch", T.SAME_SHAPE, by_reference)
TEXT.declare("StringConcat", T.SAME_DTYPE | T.LINEAR_TIME, by_reference)
TEXT.declare("StringNormalizer", T.SAME_DTYPE | T.DATA_DEPENDENT | T.JUMPS | T.LINEAR_TIME, by_reference)
TEXT.declare("StringSplit", T.SAME_DTYPE | T.DATA_DEPENDENT | T.JUMPS, by_reference)
TEXT.declare("TfIdfVectorizer", meaning=by_reference)
