"""Options of passes: dataclass fields set by text."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Optional

import pytest
from passwright.core import Fixpoint, Pipeline, RulePass
from passwright.core.errors import UsageError
from passwright.core.plugins.pass_spec import options_of, with_options
from passwright.passes.cleanup.constants import Debloat
from passwright.passes.folding.fold_constants import FoldConstants
from rewriting import cases

if TYPE_CHECKING:
    from decimal import Decimal


class Mode(Enum):
    FAST = "fast"
    SAFE = 2


@dataclass(frozen=True)
class Everything:
    count: int = 1
    share: float = 0.5
    flag: bool = False
    text: str = "some"
    path: Path = Path("a")
    maybe: int | None = None
    perhaps: Optional[str] = None  # noqa: UP045 - either way of writing it
    either: int | str = 3
    pair: tuple[int, float] = (1, 2.0)
    many: tuple[int, ...] = ()
    words: tuple[str, ...] = ("x",)
    mode: Mode = Mode.FAST
    choice: Literal["a", "b", 3] = "a"
    said: Annotated[int, "about it"] = 1
    table: dict[str, int] = field(default_factory=dict)
    told: int = field(default=1, metadata={"doc": "how many"})
    made: int = field(default=0, init=False)
    kind: ClassVar[int] = 3
    _own: int = 3
    name: str = "everything"

    def __post_init__(self) -> None:
        if self.count == 13:
            raise TypeError("not thirteen")

    def run(self, *_: object) -> int:
        return 0


@dataclass(frozen=True)
class Unresolved:
    number: Decimal | None = None
    name: str = "unresolved"

    def run(self, *_: object) -> int:
        return 0


class Bare:
    name = "bare"

    def run(self, *_: object) -> int:
        return 0


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        ("count", "3", 3), ("count", "-3", -3), ("count", "+3", 3), ("count", "1kB", 1000), ("count", "1MB", 10**6),
        ("count", "2MiB", 2 << 20), ("count", "1 GiB", 1 << 30), ("count", "1TB", 10**12),
        ("share", "0.25", 0.25), ("share", "1e-3", 1e-3), ("share", "3", 3.0), ("share", "inf", inf),
        ("flag", "true", True), ("flag", "False", False),
        ("text", "more", "more"), ("text", "'a,b}'", "a,b}"), ("text", "", ""), ("text", '""', ""), ("text", "3", "3"),
        ("path", "x/y.txt", Path("x/y.txt")),
        ("maybe", "none", None), ("maybe", "4", 4), ("perhaps", "none", None), ("perhaps", "'none'", "none"),
        ("either", "4", 4), ("either", "four", "four"),
        ("pair", "3:0.5", (3, 0.5)), ("many", "1:2:3", (1, 2, 3)), ("many", "", ()), ("words", "a:b", ("a", "b")),
        ("mode", "SAFE", Mode.SAFE), ("mode", "fast", Mode.FAST), ("mode", "2", Mode.SAFE),
        ("choice", "b", "b"), ("choice", "3", 3), ("said", "2", 2), ("told", "2", 2),
    ],
)  # fmt: skip
def test_option_is_set(option: str, text: str, value: Any) -> None:
    p: Any = with_options(Everything(), {option: text})
    assert getattr(p, option) == value
    assert type(getattr(p, option)) is type(value)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("count", "1.5"), ("count", "x"), ("count", ""), ("count", "1XB"), ("count", "1M"), ("count", "9" * 5000),
        ("share", "much"), ("share", "nan"), ("share", ""), ("flag", "1"), ("flag", "yes"),
        ("maybe", "x"), ("pair", "3"), ("pair", "3:4:5"), ("pair", "x:4"), ("many", "1:x"), ("many", "1::2"),
        ("mode", "slow"), ("choice", "c"), ("choice", "4"),
    ],
)  # fmt: skip
def test_value_of_wrong_type_is_rejected(option: str, text: str) -> None:
    with pytest.raises(
        UsageError, match=rf"^everything: {option}=.* is not of the type .*; there are count \(int, 1\), "
    ):
        with_options(Everything(), {option: text})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cuont": "1"}, r"everything has no option cuont; there are count \(int, 1\), share \(float, 0.5\)"),
        ({"name": "other"}, "has no option name"),
        ({"made": "1"}, "has no option made"),
        ({"kind": "1"}, "has no option kind"),
        ({"_own": "1"}, "has no option _own"),
        ({"table": "1"}, "option table cannot be set as text"),
        ({"count": "13"}, "everything does not accept count=13: TypeError: not thirteen"),
    ],
)
def test_bad_option_is_rejected(given: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        with_options(Everything(), given)


@cases("p", {"rules": RulePass("r", ()), "pipeline": Pipeline("p", ()), "loop": Fixpoint("f", ()), "class": Bare()})
def test_pass_without_options(p: Any) -> None:
    assert options_of(p) == []
    assert with_options(p, {}) is p
    with pytest.raises(UsageError, match=f"^{p.name} has no option patience; it has none$"):
        with_options(p, {"patience": "3"})


def test_unresolvable_type_cannot_be_set() -> None:
    assert [(o.name, o.type, o.value) for o in options_of(Unresolved())] == [("number", "", "none")]
    with pytest.raises(UsageError, match="cannot be set as text"):
        with_options(Unresolved(), {"number": "3"})


def test_options_are_described() -> None:
    told = {o.name: (o.type, o.value) for o in options_of(Everything())}
    assert told["maybe"] == ("int or none", "none")
    assert told["pair"] == ("int:float", "1:2.0")
    assert told["many"] == ("int:int:...", "")
    assert told["mode"] == ("FAST or SAFE", "FAST")
    assert told["choice"] == ("a or b or 3", "a")
    assert told["flag"] == ("true or false", "false")
    assert told["table"] == ("", "{}")
    assert {o.name: o.doc for o in options_of(Everything())}["told"] == "how many"


def test_written_values_round_trip() -> None:
    p = Everything(text="a,b", words=("x", "y"), perhaps="none", mode=Mode.SAFE, share=1e-7)
    given = {o.name: o.value for o in options_of(p) if o.type}
    assert with_options(Everything(), given) == p


@pytest.mark.parametrize(
    ("p", "given"),
    [
        (FoldConstants(), {"max_growth": "-1"}),
        (FoldConstants(), {"max_share": "-0.5"}),
        (FoldConstants(), {"max_share": "inf"}),
        (Debloat(), {"min_bytes": "-1B"}),
        (Debloat(), {"min_bytes": "-1"}),
    ],
)
def test_built_in_passes_check_their_options(p: Any, given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=f"^{p.name}"):
        with_options(p, given)


def test_other_options_are_kept() -> None:
    p = with_options(FoldConstants(max_share=0.5), {"max_growth": "1MB"})
    assert p == FoldConstants(max_growth=10**6, max_share=0.5)
