"""Decorator for dataclasses that takes a third of the time of the standard library's.

That compiles up to six functions for each class, which was a quarter of the time of a small run. Here, only `__init__`
is compiled; the other functions are the same for all classes, and get the names of the fields.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

Fields = Sequence[dataclasses.Field[Any]]
Reader = Callable[[Any], tuple[Any, ...]]
NOT_GIVEN = object()  # for a field with a factory


def quick_dataclass(cls: type[Any] | None = None, /, *, eq: bool = True, frozen: bool = False, **options: bool) -> Any:
    """`dataclasses.dataclass` with the options `repr`, `eq`, `frozen`, `kw_only`, `slots` and `weakref_slot`.

    A class derived from a dataclass is left to the standard library.
    """

    def decorate(cls: type[Any]) -> type[Any]:
        if dataclasses.is_dataclass(cls):
            return dataclasses.dataclass(eq=eq, frozen=frozen, **options)(cls)
        own, has_repr = vars(cls), options.get("repr", True)
        made: Any = dataclasses.dataclass(init=False, eq=False, **{**options, "repr": False})(cls)
        fields, params = dataclasses.fields(made), made.__dataclass_params__
        params.init, params.repr, params.eq, params.frozen = True, has_repr, eq, frozen
        made.__init__ = _init(made, fields, is_frozen=frozen)
        if has_repr and "__repr__" not in own:
            made.__repr__ = _repr([f.name for f in fields if f.repr])
        if eq and "__eq__" not in own:
            made.__eq__ = _eq(_reader([f.name for f in fields if f.compare]))
        if eq and own.get("__hash__") is None:
            hashed = [f.name for f in fields if (f.compare if f.hash is None else f.hash)]
            made.__hash__ = _hash(_reader(hashed)) if frozen else None
        if frozen:
            made.__setattr__, made.__delattr__ = _setters(made, frozenset(f.name for f in fields))
            if options.get("slots"):
                made.__getstate__ = own.get("__getstate__", _state)
                made.__setstate__ = own.get("__setstate__", _set_state)
        return made

    return decorate if cls is None else decorate(cls)


def _init(cls: type[Any], fields: Fields, *, is_frozen: bool) -> Callable[..., None]:
    """The method that sets the fields, and calls `__post_init__`."""
    given: dict[str, Any] = {"_set": object.__setattr__, "_not_given": NOT_GIVEN}
    positional, keywords, lines = ["self"], list[str](), list[str]()
    for f in fields:
        parameter = value = f.name
        if f.default is not dataclasses.MISSING:
            given[f"_default_{f.name}"] = f.default
            parameter, value = f"{f.name}=_default_{f.name}", f.name if f.init else f"_default_{f.name}"
        elif f.default_factory is not dataclasses.MISSING:
            given[f"_new_{f.name}"] = f.default_factory
            parameter, value = f"{f.name}=_not_given", f"_new_{f.name}()"
            value = f"{value} if {f.name} is _not_given else {f.name}" if f.init else value
        elif not f.init:
            continue  # set later
        if f.init:
            (keywords if f.kw_only else positional).append(parameter)
        lines.append(f"_set(self, {f.name!r}, {value})" if is_frozen else f"self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join([*positional, *(["*", *keywords] if keywords else [])])
    body = "".join(f"\n  {line}" for line in lines or ["pass"])
    made: dict[str, Any] = {}
    text = f"def make({', '.join(given)}):\n def __init__({parameters}):{body}\n return __init__"
    exec(text, vars(sys.modules[cls.__module__]), made)  # noqa: S102 - of names of fields alone
    init = made["make"](**given)
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {**{f.name: f.type for f in fields if f.init}, "return": None}
    return init


def _repr(names: Sequence[str]) -> Callable[[Any], str]:
    def __repr__(self: Any) -> str:  # noqa: N807 - becomes that method
        return f"{type(self).__qualname__}({', '.join([f'{name}={getattr(self, name)!r}' for name in names])})"

    return recursive_repr()(__repr__)


def _eq(read: Reader) -> Callable[[Any, Any], bool]:
    def __eq__(self: Any, other: Any) -> bool:  # noqa: N807 - as above
        return read(self) == read(other) if type(other) is type(self) else NotImplemented

    return __eq__


def _hash(read: Reader) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:  # noqa: N807 - as above
        return hash(read(self))

    return __hash__


def _reader(names: Sequence[str]) -> Reader:
    """The function that gives the values of these fields; `attrgetter` of a single name would give no tuple."""
    return attrgetter(*names) if len(names) > 1 else lambda item: tuple(getattr(item, name) for name in names)


def _setters(cls: type[Any], names: frozenset[str]) -> tuple[Callable[..., None], Callable[..., None]]:
    """The methods that refuse to set and to delete fields; a derived class may have other attributes."""

    def __setattr__(self: Any, name: str, value: Any) -> None:  # noqa: N807 - as above
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807 - as above
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __setattr__, __delattr__


def _state(item: Any) -> list[Any]:
    """The state of an instance for copies and pickles, which cannot be set by attributes."""
    return [getattr(item, f.name) for f in dataclasses.fields(item)]


def _set_state(item: Any, state: Sequence[Any]) -> None:
    for field, value in zip(dataclasses.fields(item), state, strict=True):
        object.__setattr__(item, field.name, value)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = quick_dataclass
