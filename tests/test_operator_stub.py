"""The methods of operators that type checkers see are held to the schemas."""

from __future__ import annotations

from operator_stub import STUB, stub


def test_the_stub_is_up_to_date() -> None:
    assert STUB.read_text(encoding="utf-8") == stub(), "python tests/operator_stub.py writes it"
