"""An extension of griffe, which reads sources: functions of the public API as they are when the package runs."""

from __future__ import annotations

from importlib import import_module
from inspect import getdoc, signature
from typing import Any

import griffe


class RuntimeSignatures(griffe.Extension):
    """Gives functions that a call makes, `optimize = with_keywords(...)(...)`, their parameters and docstring."""

    def on_attribute_instance(self, *, attr: griffe.Attribute, **_: Any) -> None:
        """Replace such an attribute by a function."""
        if attr.parent is None or not str(attr.value).startswith("with_keywords"):
            return
        function = getattr(import_module(attr.parent.path), attr.name)
        own = signature(function)
        parameters = [
            griffe.Parameter(
                p.name,
                annotation=str(p.annotation),
                kind=griffe.ParameterKind[p.kind.name.lower()],
                default=None if p.default is p.empty else repr(p.default),
            )
            for p in own.parameters.values()
        ]
        made = griffe.Function(
            attr.name,
            lineno=attr.lineno,
            endlineno=attr.endlineno,
            parameters=griffe.Parameters(*parameters),
            returns=str(own.return_annotation),
            docstring=griffe.Docstring(getdoc(function) or "", parser="google"),
        )
        attr.parent.set_member(attr.name, made)
