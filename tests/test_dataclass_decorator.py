"""Dataclasses made by our decorator behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, field
from functools import cached_property
from itertools import product
from typing import Any, get_type_hints
from weakref import ref

import pytest
from passwright.core.support.dataclass_decorator import quick_dataclass

NAN = float("nan")
OPTIONS = [dict(zip(("frozen", "slots", "eq"), row, strict=True)) for row in product((False, True), repeat=3)]
DECORATORS = (dataclasses.dataclass, quick_dataclass)


def classes(decorate: Any, options: dict[str, bool]) -> dict[str, Any]:
    """Classes of all shapes, each with its arguments."""

    class Empty:
        """No fields."""

    class Single:
        """One field."""

        x: float

    class Several:
        """Defaults, factories, and fields that are left out of methods."""

        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list)
        d: int = field(default=4, repr=False, compare=False)
        e: tuple[int, ...] = field(default=(), hash=False)
        f: dict[str, int] = field(default_factory=dict, init=False, compare=False)
        g: int = field(default=7, init=False)
        h: Any = field(init=False, repr=False, compare=False)
        _: dataclasses.KW_ONLY
        i: int = 9
        j: int

    class WithMethods:
        """Methods of its own."""

        x: int

        def __post_init__(self) -> None:
            object.__setattr__(self, "x", self.x + 1)

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, WithMethods)

        def __hash__(self) -> int:
            return 5

    class WithEq:  # noqa: PLW1641 - on purpose
        """An own comparison alone."""

        x: int

        def __eq__(self, other: object) -> bool:
            return True

    return {cls.__name__: decorate(**options)(cls) for cls in (Empty, Single, Several, WithMethods, WithEq)}


ARGUMENTS: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "Empty": [((), {}), ((1,), {})],
    "Single": [((1,), {}), ((NAN,), {}), ((1.0,), {}), ((), {}), ((), {"x": 2}), (([],), {})],
    "Several": [
        ((1,), {"j": 2}), ((1, "b", [], 5), {"j": 2}), ((1, "b", [], 5, (3,)), {"j": 2, "i": 9}), ((1,), {}),
        ((1, "c"), {"j": 2}), ((1, "b", (), 4, (), 0), {"j": 2}), ((), {"a": 1, "f": 1, "j": 2}),
        ((1, "b", ()), {"j": 2}),
    ],
    "WithMethods": [((1,), {}), ((2,), {})],
    "WithEq": [((1,), {}), ((2,), {})],
}  # fmt: skip


def outcome(call: Any) -> Any:
    try:
        return call()
    except Exception as e:  # noqa: BLE001 - compared as well
        return type(e), str(e).partition(" argument")[0]


def behaviour(cls: Any, arguments: list[tuple[tuple[Any, ...], dict[str, Any]]]) -> list[Any]:
    """All that can be told of a class and its instances."""
    found: list[Any] = [[(f.name, f.type, f.init, f.kw_only) for f in dataclasses.fields(cls)], cls.__match_args__]
    params = cls.__dataclass_params__
    found += [cls.__doc__, params.init, params.eq, params.frozen, sorted(getattr(cls, "__slots__", ["none"]))]
    found += [[(p.name, p.kind, p.annotation) for p in inspect.signature(cls).parameters.values()]]
    made = [item for a, k in arguments if isinstance(item := outcome(lambda a=a, k=k: cls(*a, **k)), cls)]
    found += [outcome(lambda a=a, k=k: repr(cls(*a, **k))) for a, k in arguments]
    found += [outcome(lambda x=x, y=y: x == y) for x in made for y in [*made, 3]]
    found += [cls.__hash__ is object.__hash__ or outcome(lambda x=x: hash(x)) for x in made]
    names = [f.name for f in dataclasses.fields(cls)]
    if not (params.frozen and hasattr(cls, "__slots__")):  # the standard library's raise TypeError there for others
        names.append("other")
    for item in made:
        found += [outcome(lambda x=item, n=n: setattr(x, n, 8)) for n in names]
        found += [outcome(lambda x=item, n=n: delattr(copy.copy(x), n)) for n in names]
        found += [
            repr(item),
            outcome(lambda x=item: repr(copy.copy(x))),
            outcome(lambda x=item: repr(copy.deepcopy(x))),
        ]
        found += [outcome(lambda x=item: repr(dataclasses.replace(x))), outcome(lambda x=item: dataclasses.astuple(x))]
    return found


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(n for n, on in o.items() if on) or "plain")
@pytest.mark.parametrize("name", ARGUMENTS)
def test_as_in_standard_library(name: str, options: dict[str, bool]) -> None:
    theirs, own = (behaviour(classes(d, options)[name], ARGUMENTS[name]) for d in DECORATORS)
    assert own == theirs


@pytest.mark.parametrize("slots", [False, True])
def test_derived_classes(slots: bool) -> None:
    for base_of, derived_of in product(DECORATORS, repeat=2):

        @base_of(frozen=True, slots=slots)
        class Base:
            x: int

        @derived_of(frozen=True, slots=slots)
        class Derived(Base):
            y: int = 2

        class Plain(Base):
            @cached_property
            def double(self) -> int:
                return 2 * self.x

        assert repr(Derived(1)).endswith("Derived(x=1, y=2)")
        assert Derived(1) == Derived(1) != Base(1)
        assert Plain(3).double == 6
        with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
            Plain(3).x = 4  # type: ignore[misc]
        with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):
            derived_of(type("Wrong", (Base,), {}))


@quick_dataclass(frozen=True, slots=True)
class Point:
    """A point."""

    x: int
    y: Any = field(default=None, compare=False)


@quick_dataclass(slots=True, weakref_slot=True)
class Node:
    """A node."""

    name: str
    next: Any = None


def test_pickles_type_hints_and_references() -> None:
    point = pickle.loads(pickle.dumps(Point(1, "a")))
    assert (point.x, point.y, point) == (1, "a", Point(1))
    assert get_type_hints(Point.__init__) == {"x": int, "y": Any, "return": type(None)}
    node = Node("a")
    node.next = node
    assert repr(node) == "Node(name='a', next=...)"
    assert ref(node)() is node


def test_one_function_is_compiled() -> None:
    compiled = {
        n for n, f in vars(Point).items() if getattr(f, "__code__", None) and f.__code__.co_filename == "<string>"
    }
    assert compiled == {"__init__"}
