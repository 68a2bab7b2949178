"""Assertions on rewrites of models in ONNX's text form, with the meaning checked in onnxruntime.

    def test_two_negations_cancel():
        becomes("g (float[N] x) => (float[N] y) { a = Neg(x) y = Neg(a) }",
                "g (float[N] x) => (float[N] y) { y = Identity(x) }", cancel_negations)

Each text is a graph without header: `g (float[2,3] x) => (float[n,m] y) { y = Relu(x) }`. Initializers have the
syntax of the parser: `g (...) => (...) <float[2] w = {1.0, 2.0}> { ... }`; larger ones are given as arrays in
`weights`, by name. In the expected graph, a name that nothing defines stands for a constant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from difflib import ndiff
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from msgspec.structs import replace
from onnx import checker, numpy_helper, parser, printer

from ..core import ChangeLog, Model, Pass, Rule, RulePass, from_onnx, to_onnx
from ..core.errors import UsageError
from ..core.ort.backends import OnnxReference
from ..core.ort.custom_operator_files import read_custom_operators
from ..core.ort.python_kernels import is_kernel
from ..core.plugins.pass_registry import all_rules
from ..core.processes.custom_operators import CustomOperators, custom_operators, with_custom_operators
from ..core.rewriting.rules import CONDITIONAL
from ..core.run.model_interface import ModelInterface
from ..core.serialization.proto_queries import captured_names
from ..core.serialization.provenance import with_conditions
from ..core.support.author_errors import require_type
from ..core.verify.comparison_options import ComparisonOptions
from ..core.verify.oracle import Oracle, Verdict
from ..core.verify.seeded_session import SINGLE_THREADED
from ..core.verify.verification_spec import VerificationSpec
from .case import Case
from .guided_search import declines

OPSET = 17
COMBINED_PART = (0, 1)  # of the combined input sets: the first one, and the distance to the next
MAX_REGION_SETS: int | None = None  # input sets on which changed regions are compared, None for as many as affordable
NO_NAMES: frozenset[str] = frozenset()
ANY = np.zeros((), np.float32)
"""The value of constants in expected graphs, which is not compared."""


def load(
    text: str, opset: int = OPSET, weights: Mapping[str, Any] | None = None, domains: Mapping[str, int] | None = None
) -> onnx.ModelProto:
    """The model that `text` describes, with `weights` as further initializers, and versions of other `domains`.

    The domains of kernels of custom operators are imported. A text with a header says all this itself.
    """
    require_type(text, str, "becomes or stays", "models as texts first")
    added = custom_operators() or CustomOperators()
    own = {k.domain: 1 for k in added.kernels} | {onnx.FunctionProto.FromString(f).domain: 1 for f in added.functions}
    imports = ", ".join(f'"{domain}" : {version}' for domain, version in {"": opset, **own, **(domains or {})}.items())
    is_whole = text.lstrip().startswith("<")
    try:
        model = parser.parse_model(text if is_whole else f"<ir_version: 10, opset_import: [{imports}]> {text}")
    except parser.ParseError as e:
        raise UsageError(f"it is not ONNX text: {' '.join(str(e).split())}") from e
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(a), name) for name, a in (weights or {}).items())
    return model


def operators_of(
    rules: Iterable[Rule], libraries: Sequence[str | Path], kernels: Sequence[Any]
) -> AbstractContextManager[None]:
    """The custom operators of a check, and the operators for which the modules of the rules have kernels."""
    modules = {r.build.__module__: getattr(r.build, "__globals__", {}) for r in rules}
    own = [t for module, names in modules.items() for t in names.values() if is_kernel(t, module)]
    return with_custom_operators(read_custom_operators(libraries, [*own, *kernels]))


def apply_passes(model: onnx.ModelProto, *passes: Rule | Pass, exact_only: bool = False) -> tuple[Model, ChangeLog]:
    """The model after applying the rules and passes, and the change log; invariants and the interface are checked."""
    result, change_log = from_onnx(model), ChangeLog(exact_only=exact_only, record=True)
    interface = ModelInterface.of(result)
    for item in passes:
        require_type(item, (Rule, Pass), "becomes or stays", "rules and passes")
        p = RulePass(item.name, (item,)) if isinstance(item, Rule) else item
        p.run(result.graph, change_log)
        result.graph.validate()
        interface.require(result)
    return result, change_log


def require_equivalent(
    before: onnx.ModelProto,
    after: onnx.ModelProto,
    *,
    exact: bool = False,
    finite_only: bool = False,
    compare_regions: bool = True,
    **fixed: int,
) -> Verdict:
    """Compare two models in onnxruntime on many inputs, as `passes run` does.

    `compare_regions`: changed regions are compared too; values with the same name must be equal. `fixed` gives sizes of
    symbolic dims. `exact`: outputs must be bit-identical. `finite_only`: they may differ on NaN and infinite inputs,
    and where they are not finite in `before`. Raises VerificationError if they differ.
    """
    spec = replace(
        VerificationSpec.of(from_onnx(before)),
        fixed_sizes=fixed,
        combined_part=COMBINED_PART,
        max_region_sets=MAX_REGION_SETS,
    )
    oracle = Oracle(before.SerializeToString(), spec, backends=(SINGLE_THREADED, OnnxReference))
    options = ComparisonOptions(exact=exact, compare_regions=compare_regions)
    after = with_conditions(after, ["numbers are finite"]) if finite_only else after
    return oracle.check(after.SerializeToString(), options)


def becomes(
    before: str,
    after: str,
    *passes: Rule | Pass,
    opset: int = OPSET,
    weights: Mapping[str, Any] | None = None,
    runs: bool = True,
    custom_ops: Sequence[str | Path] = (),
    kernels: Sequence[Any] = (),
) -> onnx.ModelProto:
    """Assert that rules and passes make the ops of `after` of `before`, with equal results; returns the result.

    Both are graphs as text of `opset`, or with a header such as `<ir_version: 10, opset_import: ["" : 17]>`. In
    `after`, a name that nothing defines stands for a constant. `weights` are further initializers of `before`.
    `runs=False`: no backend can run it. Custom operators have `kernels`, or libraries for onnxruntime, as for
    `optimize`, and the kernels of the modules of rules.

    Examples:
        >>> head = "g (float[N] x) => (float[N] y)"
        >>> made = becomes(f"{head} {{ a = Abs(x) y = Relu(a) }}", f"{head} {{ y = Abs(x) }}", drop_relu)
        >>> [node.op_type for node in made.graph.node]
        ['Abs']
    """
    with operators_of(_rules(passes), custom_ops, kernels):
        model = load(before, opset, weights)
        result, change_log = apply_passes(model, *passes)
        out = to_onnx(result)
        checker.check_model(out)  # pyright: ignore[reportUnknownMemberType] - a parameter of it has no full type
        if runs:
            keeps_names = not any(getattr(p, "reuses_names", False) for p in passes)
            conditional = {r.name for r in _rules(passes) if r.contract.kind == CONDITIONAL}
            is_conditional = any(c.by in conditional for c in change_log.changes)
            options = {"finite_only": is_conditional, "compare_regions": keeps_names}
            require_equivalent(model, out, exact=change_log.is_exact, **options)
        expected = load(after, result.graph.opsets.get("", opset))
        expected.graph.initializer.extend(numpy_helper.from_array(ANY, n) for n in captured_names(expected.graph))
        got, wanted = canonical_nodes(out.graph), canonical_nodes(to_onnx(from_onnx(expected)).graph)
        if got != wanted:
            reasons = ((r.name, why) for r in _rules(passes) for why in declines(r, Case(model, "")) if why)
            declined = dict.fromkeys(f"{name} declined: {why}" for name, why in reasons)
            raise AssertionError("\n".join(("wanted (-) and got (+):", *ndiff(wanted, got), *declined)))
        return out


def _rules(passes: Sequence[Rule | Pass]) -> list[Rule]:
    """The rules among arguments, which are checked after the models."""
    rules = (item for item in passes if isinstance(item, Rule))
    return [*rules, *(r for item in passes if isinstance(item, Pass) for r in all_rules(item))]


def stays(
    before: str,
    *passes: Rule | Pass,
    opset: int = OPSET,
    weights: Mapping[str, Any] | None = None,
    runs: bool = True,
    custom_ops: Sequence[str | Path] = (),
    kernels: Sequence[Any] = (),
) -> None:
    """Assert that `before`, which onnxruntime loads, does not change. `runs=False`: no backend can run it.

    Custom operators are as for `becomes`.

    Examples:
        >>> stays("g (float[N] x) => (float[N] y) { a = Neg(x) y = Relu(a) }", drop_relu)
    """
    with operators_of(_rules(passes), custom_ops, kernels):
        model = load(before, opset, weights)
        result, change_log = apply_passes(model, *passes)
        assert not change_log.changes, (
            f"it was changed by {', '.join(f'{c.by} at {c.place}' for c in change_log.changes)}"
        )
        assert to_onnx(result) == model, "it was changed, but no change was recorded"
        if runs:
            SINGLE_THREADED(model.SerializeToString())


def canonical_nodes(
    graph: onnx.GraphProto, outer_names: Mapping[str, str] | None = None, outer_constants: frozenset[str] = NO_NAMES
) -> list[str]:
    """The nodes as text, values renumbered in order of appearance, so that only structure is compared.

    `outer_names` and `outer_constants` are the names of values and the constants of enclosing graphs.
    """
    names = {**(outer_names or {}), **{n.name: n.name for n in (*graph.input, *graph.output)}}
    constants = outer_constants | {t.name for t in graph.initializer}
    lines: list[str] = []
    for node in graph.node:
        n = onnx.NodeProto(op_type=node.op_type, domain=node.domain)
        n.input.extend(_canonical_name(i, names, constants) for i in node.input)
        n.output.extend(_canonical_name(o, names, NO_NAMES) for o in node.output)
        subgraphs: list[str] = []
        for a in sorted(node.attribute, key=lambda a: a.name):
            if a.type == onnx.AttributeProto.GRAPH:
                subgraphs += [f"  {a.name}: {line}" for line in canonical_nodes(a.g, names, constants)]
            else:
                n.attribute.add().CopyFrom(a)
        lines += [re.sub(r"\s+", " ", printer.to_text(n)).strip(), *subgraphs]
    return lines


def _canonical_name(name: str, names: dict[str, str], constants: frozenset[str]) -> str:
    if not name:
        return ""
    if name in constants and name not in names:
        return "const"
    return names.setdefault(name, f"v{len(names)}")


def op_types(model: onnx.ModelProto) -> list[str]:
    """The operators of the main graph, in order."""
    return [n.op_type for n in model.graph.node]


def initializers(model: onnx.ModelProto) -> dict[str, np.ndarray[Any, Any]]:
    """The initializers by name."""
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


def run(model: onnx.ModelProto, feeds: Mapping[str, Any], outputs: Sequence[str] | None = None) -> list[Any]:
    """The outputs in onnxruntime with all optimizations disabled."""
    return SINGLE_THREADED(model.SerializeToString()).run(outputs or [o.name for o in model.graph.output], feeds)
