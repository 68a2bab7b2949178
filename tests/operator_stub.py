"""The operators as methods, for type checkers and editors: `python tests/operator_stub.py` writes the file.

The schemas are of the newest opset of `onnx.defs`, and of onnxruntime for its own domain.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from keyword import iskeyword
from pathlib import Path
from typing import Any

from onnx import defs, helper
from onnxruntime.capi import onnxruntime_pybind11_state as ort
from passwright.core.ir.op_schemas import decode_strings

STUB = Path(__file__).parents[1] / "core" / "rewriting" / "operator_methods.pyi"
CONTRIB_DOMAIN = "com.microsoft"
PREFIXES = {
    "": "",
    "ai.onnx.ml": "Ml",
    "ai.onnx.preview": "Preview",
    "ai.onnx.preview.training": "Training",
    CONTRIB_DOMAIN: "Contrib",
}
"""The known domains, each with the first part of the names of its classes."""
ATTRIBUTES = {
    "FLOAT": "float", "INT": "int", "STRING": "str", "TENSOR": "Tensor | onnx.TensorProto", "GRAPH": "Graph",
    "SPARSE_TENSOR": "onnx.SparseTensorProto", "TYPE_PROTO": "onnx.TypeProto",
}  # fmt: skip
MAX_SUMMARY = 100  # characters
HEADER = '''# Written by tests/operator_stub.py from the schemas of operators: do not edit.
"""The operators of each domain as methods, for builders and for patterns."""

from collections.abc import Sequence
from typing import Any, Literal, overload

import onnx

from ..ir.graph import Graph
from ..ir.tensor import Tensor
from ..ir.values import Value
from .builder import Operand
from .pattern import NamedInput, OpPattern, PatternInput, Predicate, Var

class CustomOperators:
    """The operators of a domain whose schemas are not known."""
    def __getattr__(self, op_type: str) -> CustomOperator: ...

class CustomOperator:
    """An operator whose schema is not known: any inputs and attributes."""
    @overload
    def __call__(  # pyright: ignore[reportOverlappingOverload]
        self, *inputs: Operand | None, outputs: int, **attributes: Any
    ) -> tuple[Value, ...]: ...
    @overload
    def __call__(self, *inputs: Operand | None, **attributes: Any) -> Value: ...

class CustomOperatorPatterns:
    """Patterns of operators of a domain whose schemas are not known."""
    def __getattr__(self, op_type: str) -> CustomOperatorPattern: ...

class CustomOperatorPattern:
    """A pattern of an operator whose schema is not known: any inputs and attributes."""
    def __call__(self, *inputs: PatternInput, **attributes: NamedInput) -> OpPattern: ...
'''


def stub() -> str:
    """The file: two lines a method."""
    lines = [HEADER]
    for domain, prefix in PREFIXES.items():
        schemas = newest_schemas(domain)
        about = domain or "the standard domain"
        lines += ["", f"class {prefix}Operators:", f'    """The operators of {about}."""']
        lines += [] if domain else _domains("Operators")
        lines += [line for spec in schemas for line in _methods(spec)]
        lines += ["", f"class {prefix}OperatorPatterns:", f'    """Patterns of the operators of {about}."""']
        lines += [] if domain else _domains("OperatorPatterns")
        lines += [_pattern_method(spec) for spec in schemas]
    return "\n".join(lines) + "\n"


def newest_schemas(domain: str) -> list[Any]:
    """The operators of a domain, in their order by name."""
    known: Any = ort.get_all_operator_schema() if domain == CONTRIB_DOMAIN else defs.get_all_schemas()
    return sorted((s for s in known if s.domain == domain and not s.deprecated), key=lambda s: s.name)


def _domains(suffix: str) -> Iterator[str]:
    doc = '"""The operators of another domain: `g.domain("com.microsoft").Gelu(x)`."""'
    for domain, prefix in [*PREFIXES.items(), (None, "Custom")]:
        kind = "str" if domain is None else f'Literal["{domain}"]'
        ignored = "" if domain is None else "  # type: ignore[overload-overlap]"
        ignored += "  # pyright: ignore[reportOverlappingOverload]" * (domain == "")
        yield f"    @overload\n    def domain(self, name: {kind}, /) -> {prefix}{suffix}:{ignored}\n        {doc}"


def _methods(spec: Any) -> Iterator[str]:
    """A method of a builder, or one without and one with `outputs=` where the number of outputs is open."""
    is_known = spec.domain != CONTRIB_DOMAIN
    fewest, most = max(1, spec.min_output) if is_known else 1, spec.max_output
    inputs = _inputs(spec)
    attributes = [f"{name}: {kind} = {default}" for name, (kind, default) in _attributes(spec).items()]
    attributes = [a.removesuffix(" = ...") for a in sorted(attributes, key=lambda a: not a.endswith(" = ..."))]
    result = "Value" if fewest == 1 else f"tuple[{', '.join(['Value'] * fewest)}]"
    if fewest == most:
        yield _method(spec, inputs, attributes, result)
        return
    yield "    @overload\n" + _method(spec, inputs, attributes, result)
    yield "    @overload\n" + _method(spec, inputs, ["outputs: int", *attributes], "tuple[Value, ...]")


def _method(spec: Any, inputs: list[str], keywords: list[str], result: str) -> str:
    star = [] if not keywords or any(i.startswith("*") for i in inputs) else ["*"]
    signature = f"{spec.name}({', '.join(['self', *inputs, *star, *keywords])})"
    return f'    def {signature} -> {result}:\n        """{_summary(spec)}"""'


def _pattern_method(spec: Any) -> str:
    """A method of a pattern: any inputs, for `...` takes any number of them, and no attribute is required."""
    named = {name: f"{kind.removesuffix(' | None')} | Var | Predicate" for name, (kind, _) in _attributes(spec).items()}
    inputs = [] if spec.domain == CONTRIB_DOMAIN else [i for i in spec.inputs if not str(i.option).endswith("Variadic")]
    named |= {i.name: "NamedInput" for i in inputs if i.name not in named}
    return _method(
        spec, ["*inputs: PatternInput"], [f"{name}: {kind} = ..." for name, kind in sorted(named.items())], "OpPattern"
    )


def _inputs(spec: Any) -> list[str]:
    """The parameters of the inputs; optional ones before the last required one have no default."""
    kinds = [str(i.option).rpartition(".")[2] for i in spec.inputs]
    required = max((n for n, kind in enumerate(kinds) if kind == "Single"), default=-1)
    found: list[str] = []
    for n, (formal, kind) in enumerate(zip(spec.inputs, kinds, strict=True)):
        name = f"{formal.name}_" if iskeyword(formal.name) else formal.name
        star, default = "*" * (kind == "Variadic"), " = None" * (kind == "Optional" and n > required)
        found.append(f"{star}{name}: Operand{' | None' * (kind != 'Single')}{default}")
    is_named = spec.domain != CONTRIB_DOMAIN and "Variadic" not in kinds
    return found if is_named or not found or "Variadic" in kinds else [*found, "/"]


def _attributes(spec: Any) -> dict[str, tuple[str, str]]:
    """The type and default of each attribute; no default, `...`, of a required one."""
    found: dict[str, tuple[str, str]] = {}
    for name, declared in sorted(spec.attributes.items()):
        kind = declared.type.name
        stated = f"Sequence[{ATTRIBUTES[kind[:-1]]}]" if kind.endswith("S") else ATTRIBUTES[kind]
        default = declared.default_value if spec.domain != CONTRIB_DOMAIN else None
        if declared.required:
            found[name] = stated, "..."
        else:
            found[name] = f"{stated} | None", _literal(default) if default is not None and default.name else "None"
    return found


def _literal(default: Any) -> str:
    value: Any = decode_strings(helper.get_attribute_value(default))
    if isinstance(value, list):
        return repr(tuple(value))
    return repr(float(f"{value:.7g}")) if isinstance(value, float) else repr(value)


def _summary(spec: Any) -> str:
    """The inputs, and the first sentence of the description, in one line."""
    text = re.sub(r"[`*_]{1,3}(\w[^`*]*)[`*]{1,3}", r"\1", " ".join((spec.doc or "").split()))
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)|https?://\S+", r"\1", text).replace("\\", "/").replace('"', "'")
    sentence = re.split(r"(?<=[.:;]) (?=[A-Z0-9#`<(-])|<br", text, maxsplit=1)[0].strip().rstrip(":;.")
    if len(sentence) > MAX_SUMMARY:
        sentence = f"{sentence[:MAX_SUMMARY].rpartition(' ')[0].rstrip(',;:(')} .."
    inputs = ", ".join(f"[{i.name}]" if "Optional" in str(i.option) else i.name for i in spec.inputs)
    return f"{spec.name}({inputs}): {sentence}." if sentence else f"{spec.name}({inputs})."


if __name__ == "__main__":
    STUB.write_text(stub(), encoding="utf-8")
