"""Objects of dataclasses from data of JSON, each part of which must be of its declared type."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def read_data(kind: type[T], data: Any) -> T:
    """An object of a dataclass from the data of its fields. Raises ValueError for data of other types or names."""
    return cast("T", _read(kind, data))


def _read(kind: Any, data: Any) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if is_dataclass(kind):
        return _read_fields(kind, data)
    if origin in {Union, types.UnionType}:
        return _read_member(arguments, data)
    if origin in {list, tuple} and isinstance(data, list):
        found = [_read(arguments[0], item) for item in cast("list[Any]", data)]
        return found if origin is list else tuple(found)
    if origin in {dict, Mapping} and isinstance(data, dict):
        items = cast("dict[Any, Any]", data).items()
        return {_read(arguments[0], name): _read(arguments[1], item) for name, item in items}
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(data)
    if type(data) is kind or (kind is float and type(data) is int):
        return data
    raise ValueError(f"{type(data).__name__} is not {kind}")


def _read_member(kinds: tuple[Any, ...], data: Any) -> Any:
    """The data as one of several types."""
    for kind in kinds:
        try:
            return _read(kind, data)
        except ValueError:
            continue
    raise ValueError(f"{type(data).__name__} is none of {kinds}")


def _read_fields(kind: Any, data: Any) -> Any:
    types_of = _field_types(kind)
    required = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
    if not isinstance(data, dict) or not required <= data.keys() <= types_of.keys():
        raise ValueError(f"not the fields of {kind.__name__}")
    given = cast("dict[str, Any]", data)
    return kind(**{name: _read(types_of[name], item) for name, item in given.items()})


@cache
def _field_types(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind)}
