"""The list of operators that OpenVINO computes: `python tests/openvino_operators.py` writes the file of the target.

Each was measured: the node cases of ONNX's backend suite, at each opset from 7 with which a version of their operator
came, with each element type, and with inputs as constants where it needs them. An outcome is right if it equals
onnxruntime's, or the reference evaluator's. Takes half an hour; `--records FILE` keeps the outcomes, and reads them.
"""

import argparse
import itertools
import json
import textwrap
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from node_cases import FREEZE_MODES, RANDOM, BackendCase, backend_cases, freeze_inputs, model_outputs
from onnx import TensorProto, defs, helper
from onnx.reference import ReferenceEvaluator
from opset_cases import at_older_opsets, at_opset, opset_of, versions_of
from passwright.core import from_onnx, to_onnx
from passwright.core.errors import EvaluationError, MatchFailure, UnverifiableError
from passwright.core.ir.tensor import element_type
from passwright.core.ort.kernels import highest_opset_of_onnxruntime, runs_on_cpu
from passwright.core.ort.remote_backend import RemoteBackend
from passwright.core.ort.sessions import SessionConfig
from passwright.core.transform.opset_conversion import plan_conversion
from passwright.core.verify.output_comparison import compare_outputs

LIST = Path(__file__).parent.parent / "passes" / "target_lists" / "openvino.toml"
OPENVINO = SessionConfig(engine="openvino", precision="f32", intra_op_threads=1)
LOWEST = 7  # onnxruntime runs no older opset
TIMEOUT = 120.0
MAX_OLDER, MAX_TYPED = 48, 2  # the cases of a version of an operator in another version, and with another type
NAMES = "float float16 bfloat16 double int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool"
DTYPES = {name: getattr(TensorProto, name.upper()) for name in NAMES.split()}
ROUNDED = frozenset({"DynamicQuantizeLinear"})  # it differs by 1 where a quotient is between two integers, and is taken
RIGHT = "right"
Condition = tuple[str, str, Any]
"""A key of the list, the name of an attribute or input, and what is allowed."""


@dataclass
class Record:
    """The outcome of a case: "right", "wrong: ..." or an error of a phase, and what the case is of.

    `ranks` and `dtypes` are by the names of inputs in the specification, `input` is the first one of several types,
    `constant` are the inputs that have to be constants for the outcome.
    """

    case: str
    op: str
    since: int
    input: str
    attributes: dict[str, Any]
    dtypes: dict[str, str]
    ranks: dict[str, int]
    outputs: int
    is_empty: bool
    outcome: str
    constant: list[str] = field(default_factory=list)

    @property
    def dtype(self) -> str:
        """The type of that input; "" if there is none."""
        return self.dtypes.get(self.input, "")


def openvino_outputs(backend: RemoteBackend, case: BackendCase) -> list[np.ndarray] | str:
    """The outputs of a case, or why there are none."""
    names = [o.name for o in case.model.graph.output if o.name]
    try:
        return backend(case.model.SerializeToString()).run(names, case.feeds, TIMEOUT)
    except (EvaluationError, UnverifiableError) as e:
        return str(e)


def node_of(case: BackendCase) -> onnx.NodeProto:
    return case.model.graph.node[0]


def spec_of(case: BackendCase) -> defs.OpSchema:
    return defs.get_schema(node_of(case).op_type, opset_of(case.model), "")


def parameter(spec: defs.OpSchema, index: int) -> defs.OpSchema.FormalParameter:
    """The input of that number; the last one may be repeated."""
    return spec.inputs[min(index, len(spec.inputs) - 1)]


def as_type(array: Any, dtype: int) -> np.ndarray:
    """Numbers in another type, inside its range; those of double are no numbers of float."""
    kind, found = helper.tensor_dtype_to_np_dtype(dtype), np.asarray(array)
    if dtype == TensorProto.DOUBLE:
        return found.astype(kind) * (1 + 2.0**-26)
    if kind.kind == "b":
        return found > 0
    if kind.kind in "iu" and found.dtype.kind not in "iub":
        found = np.round(np.nan_to_num(found.astype(np.float64)) * 3).clip(-100, 100)
    return (np.abs(found) if kind.kind == "u" else found).astype(kind)


def typed_cases(case: BackendCase) -> Iterator[BackendCase]:
    """The case with each other element type of inputs that have several, and of inputs of the same type."""
    spec, node = spec_of(case), node_of(case)
    allowed = {t.type_param_str: t.allowed_type_strs for t in spec.type_constraints}
    dtypes = {v.name: v.type.tensor_type.elem_type for v in case.model.graph.input}
    kinds = {n: allowed.get(parameter(spec, i).type_str, ()) for i, n in enumerate(node.input) if n}
    arrays = [n for n in kinds if len(kinds[n]) > 1 and isinstance(case.feeds.get(n), np.ndarray | np.generic)]
    seen: set[tuple[str, ...]] = set()
    for first, (name, dtype) in itertools.product(arrays, DTYPES.items()):
        text = f"tensor({name})"
        if dtypes.get(first) in DTYPES.values() and dtype != dtypes[first] and text in kinds[first]:
            changed = [n for n in kinds if dtypes.get(n) == dtypes[first] and text in kinds[n]]
            with_types = None if (name, *changed) in seen else _with_dtype(case, changed, dtype)
            seen.add((name, *changed))
            if with_types is not None:
                yield BackendCase(f"{case.name}, {name}", with_types.model, with_types.feeds)


def _with_dtype(case: BackendCase, names: Sequence[str], dtype: int) -> BackendCase | None:
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for v in model.graph.input:
        if v.name in names:
            v.type.tensor_type.elem_type = dtype
    for v in model.graph.output:
        v.type.Clear()
        v.type.tensor_type.elem_type = TensorProto.UNDEFINED
    try:
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    except onnx.shape_inference.InferenceError:
        return None
    if any(v.type.tensor_type.elem_type == TensorProto.UNDEFINED for v in inferred.graph.output):
        return None
    return BackendCase("", inferred, {n: as_type(a, dtype) if n in names else a for n, a in case.feeds.items()})


def is_legal(case: BackendCase) -> bool:
    """Whether the version of the operator takes inputs of these types."""
    spec, node = spec_of(case), node_of(case)
    dtypes = {v.name: v.type.tensor_type.elem_type for v in case.model.graph.input}
    given = ((parameter(spec, i), dtypes.get(n, 0)) for i, n in enumerate(node.input))
    return all(not d or f"tensor({element_type(d)})" in p.types for p, d in given)


def has_sequences(case: BackendCase) -> bool:
    """Whether a node with bodies handles sequences or optional values, which are operators of their own."""
    node = node_of(case)
    inner = [n.op_type for a in node.attribute for n in a.g.node]
    types = [v.type for v in (*case.model.graph.input, *case.model.graph.output)]
    is_sequential = any(t.WhichOneof("value") != "tensor_type" for t in types)
    return any(a.type == a.GRAPH for a in node.attribute) and (
        is_sequential or any("Sequence" in kind or "Optional" in kind for kind in inner)
    )


def at_newer_opsets(case: BackendCase) -> Iterator[BackendCase]:
    """A case converted to each newer version of its operator, up to the one that gives it other ops."""
    for version in versions_of(node_of(case).op_type):
        if opset_of(case.model) < version <= highest_opset_of_onnxruntime():
            loaded = from_onnx(case.model)
            try:
                plan_conversion(loaded.graph, version, runs_on_cpu).apply(loaded.graph, "raise-opset")
            except MatchFailure:
                return
            model = to_onnx(loaded)
            if len(model.graph.node) != 1 or set(case.feeds) != {i.name for i in model.graph.input}:
                return
            yield BackendCase(f"{case.name} at opset {version}", model, case.feeds)


def casts() -> Iterator[BackendCase]:
    """A Cast of each type to each."""
    numbers = np.array([0, 1, 2, 3, 100, 0.4, 1.6], np.float32)
    for version, (name, dtype), to in itertools.product(versions_of("Cast"), DTYPES.items(), DTYPES.values()):
        if LOWEST <= version <= highest_opset_of_onnxruntime():
            text = f'<ir_version: 8, opset_import: ["": {version}]> g ({name}[7] x) => (y) {{ y = Cast<to={to}>(x) }}'
            model = onnx.parser.parse_model(text)
            model.graph.output[0].type.tensor_type.elem_type = to
            yield BackendCase(f"{name} to {element_type(to)}", model, {"x": as_type(numbers, dtype)})


def cases() -> Iterator[BackendCase]:
    """All cases of one node of the standard domain, in versions, and some in other element types."""
    count: Counter[Any] = Counter()
    highest = highest_opset_of_onnxruntime()
    for own in backend_cases().values():
        node = node_of(own) if len(own.model.graph.node) == 1 else onnx.NodeProto()
        if not node.op_type or node.domain or own.model.functions or node.op_type == "Cast" or has_sequences(own):
            continue
        versions = versions_of(node.op_type)
        for found in (own, *at_older_opsets(own), *at_newer_opsets(own)):
            since = max((v for v in versions if v <= opset_of(found.model)), default=0)
            replaced = next((v for v in versions if v > since), highest + 1)
            if replaced <= LOWEST or since > highest or not is_legal(found):
                continue
            opset = min(max(LOWEST, opset_of(found.model)), replaced - 1, highest)
            case = BackendCase(found.name, at_opset(found.model, opset), found.feeds)
            dtype = next((v.type.tensor_type.elem_type for v in case.model.graph.input), 0)
            count[node.op_type, since, dtype] += 1
            if own.name == case.name or count[node.op_type, since, dtype] <= MAX_OLDER:
                yield case
            count[node.op_type, since] += 1
            if count[node.op_type, since] <= MAX_TYPED:
                yield from typed_cases(case)
    yield from casts()


def references(case: BackendCase) -> Iterator[Mapping[str, Any]]:
    """The outputs by name, by onnxruntime and by the reference evaluator."""
    found = model_outputs(case.model, case.feeds)
    if found is not None:
        yield found
    names = [o.name for o in case.model.graph.output if o.name]
    try:
        yield dict(zip(names, ReferenceEvaluator(case.model).run(None, case.feeds), strict=True))
    except Exception:  # noqa: BLE001 - it raises whatever numpy does
        return


def difference(want: Mapping[str, Any], got: Sequence[np.ndarray], *, compare_values: bool) -> str:
    """How outputs differ; "" if they do not."""
    for (name, expected), found in zip(want.items(), got, strict=True):
        if not isinstance(expected, np.ndarray | np.generic):
            return f"{name} is no tensor"
        reason = compare_outputs(np.asarray(expected), found, exact=False, compare_values=compare_values).reason
        if reason:
            return f"{name}: {reason}"
    return ""


def outcome(backend: RemoteBackend, case: BackendCase, wanted: Sequence[Mapping[str, Any]]) -> str:
    """The outcome of a case as it is."""
    got = openvino_outputs(backend, case)
    if isinstance(got, str):
        return got
    is_random = case.name.startswith(RANDOM)
    reasons = [difference(want, got, compare_values=not is_random) for want in wanted]
    return RIGHT if not all(reasons) else f"wrong: {reasons[0]}"


def needed_constants(backend: RemoteBackend, case: BackendCase, wanted: Sequence[Mapping[str, Any]]) -> list[str]:
    """The inputs that have to be constants; [] if it is not right with all but the first constant."""
    frozen = freeze_inputs(case, FREEZE_MODES[1])
    names = list(set(case.feeds) - set(frozen.feeds))
    if not names or outcome(backend, frozen, wanted) != RIGHT:
        return []
    by_name = {n: parameter(spec_of(case), i).name for i, n in enumerate(node_of(case).input) if n}
    if len(names) == 1:
        return [by_name[names[0]]]
    alone = ((n, _thawed(case, frozen, n)) for n in names)
    return sorted({by_name[n] for n, c in alone if outcome(backend, c, wanted) != RIGHT})


def _thawed(case: BackendCase, frozen: BackendCase, name: str) -> BackendCase:
    model = onnx.ModelProto()
    model.CopyFrom(frozen.model)
    kept = [t for t in model.graph.initializer if t.name != name]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    model.graph.input.extend(v for v in case.model.graph.input if v.name == name)
    return BackendCase(case.name, model, {**frozen.feeds, name: case.feeds[name]})


def record(backend: RemoteBackend, case: BackendCase) -> Record | None:
    """The record of a case; None without a reference."""
    wanted = list(references(case))
    if not wanted:
        return None
    spec, node = spec_of(case), node_of(case)
    types = {v.name: v.type for v in case.model.graph.input}
    given = {n: parameter(spec, i) for i, n in enumerate(node.input) if n in types}
    several = {t.type_param_str for t in spec.type_constraints if len(t.allowed_type_strs) > 1}
    has_body = any(a.type == a.GRAPH for a in node.attribute)
    typed = "" if has_body else next((n for n, p in given.items() if p.type_str in several), "")
    plain = [a.default_value for a in spec.attributes.values() if a.default_value.name] + list(node.attribute)
    values = {a.name: helper.get_attribute_value(a) for a in plain if a.type not in {a.GRAPH, a.TENSOR}}
    found = Record(
        case.name,
        node.op_type,
        spec.since_version,
        given[typed].name if typed else "",
        {k: v.decode() if isinstance(v, bytes) else v for k, v in values.items() if isinstance(v, bytes | int)},
        {p.name: element_type(d) for n, p in given.items() if (d := types[n].tensor_type.elem_type)},
        {p.name: len(types[n].tensor_type.shape.dim) for n, p in given.items()},
        sum(map(bool, node.output)),
        any(isinstance(v, np.ndarray) and not v.size for v in case.feeds.values()),
        outcome(backend, case, wanted),
    )
    if found.outcome != RIGHT and (needed := needed_constants(backend, case, wanted)):
        found.outcome, found.constant = RIGHT, needed
    return found


@dataclass
class Version:
    """The form of an operator that is taken from opset `since` on, as keys of the list; None if none is.

    `differing` are the cases that no key excludes.
    """

    since: int
    form: dict[str, Any] | None
    differing: list[Record]

    @classmethod
    def of(cls, since: int, records: Sequence[Record]) -> "Version":
        """What the outcomes of its cases say.

        Of a type or under a condition of which no case is right, none is taken. Neither is a type of which, for each
        four cases that are right, one or more differ all the same.
        """
        constant = constant_inputs(records)
        right = [r for r in records if r.outcome == RIGHT and r.dtype != "double" and constant.issuperset(r.constant)]
        dtypes = {r.dtype for r in right}
        conditions: list[Condition] = []
        rest = [r for r in records if r not in right and r.dtype in dtypes]
        while (found := best_condition(rest, right)) is not None:
            conditions.append(found)
            rest = [r for r in rest if not violates(r, found)]
        count = Counter(r.dtype for r in right)
        odd = Counter(r.dtype for r in rest if not r.is_empty and r.op not in ROUNDED)
        kept = {d for d in dtypes if 4 * odd[d] <= count[d]}
        if not kept:
            return cls(since, None, [])
        form: dict[str, Any] = {}
        if kept != {""}:
            typed = next(r for r in right if r.dtype in kept and r.dtype)
            taken = [d for d in (*DTYPES, *sorted(kept - {*DTYPES})) if d in kept and d]
            is_first = next(iter(typed.dtypes)) == typed.input and not any(key == "dtypes" for key, _, _ in conditions)
            form["dtypes"] = taken if is_first else {typed.input: taken}
        for key, name, allowed in conditions:
            if key in {"outputs", "omitted"}:
                form[key] = allowed if key == "outputs" else sorted({*form.get(key, ()), name})
            else:
                form.setdefault(key, {})[name] = allowed
        if targets := {r.attributes["to"] for r in right if "to" in r.attributes}:
            form["attributes"] = {"to": [name for name, dtype in DTYPES.items() if dtype in targets]}
        if constant:
            form["constant"] = sorted(constant)
        return cls(since, form, [r for r in rest if r.dtype in kept])


def constant_inputs(records: Sequence[Record]) -> set[str]:
    """The inputs that have to be constants in more than a fifth of the cases that are right and have them."""
    right = [r for r in records if r.outcome == RIGHT]
    count, needed = (Counter(n for r in right for n in names(r)) for names in (lambda r: r.ranks, lambda r: r.constant))
    return {n for n in needed if 5 * needed[n] > count[n]}


def best_condition(failed: Sequence[Record], right: Sequence[Record]) -> Condition | None:
    """The condition that excludes the most failed cases and none that is right; else, only a tenth of these."""
    tried = [c for r in failed if not r.is_empty for c in separating(r, right, failed)]
    for most in (0, len(right) // 10):
        near = [c for c in tried if sum(violates(r, c) for r in right) <= most]
        if near:
            return max(near, key=lambda c: sum(violates(r, c) for r in failed))
    return None


def separating(record: Record, right: Sequence[Record], failed: Sequence[Record]) -> Iterator[Condition]:
    """Conditions that do not hold of a case: values that no right case has, or of which more than a fifth fail."""
    for key in ("attributes", "ranks", "dtypes"):
        for name, value in getattr(record, key).items():
            if (key, name) == ("dtypes", record.input):
                continue
            count, odd = (Counter(getattr(r, key).get(name) for r in found) for found in (right, failed))
            for allowed in (set(count), {v for v in count if 4 * odd[v] <= count[v]}):
                if allowed - {None} and value not in allowed:
                    yield key, name, sorted(allowed - {None})
    given = [name for name in record.ranks if not any(name in r.ranks for r in right)]
    yield from (("omitted", name, None) for name in reversed(given))
    most = max(r.outputs for r in right)
    if record.outputs > most:
        yield "outputs", "", most


def violates(record: Record, condition: Condition) -> bool:
    """Whether a condition does not hold of a case."""
    key, name, allowed = condition
    if key == "omitted":
        return name in record.ranks
    if key == "outputs":
        return record.outputs > allowed
    facts = getattr(record, key)
    return name in facts and facts[name] not in allowed


def listed_forms(op: str, versions: Sequence[Version], replaced: Mapping[int, int]) -> list[dict[str, Any]]:
    """The forms of an operator; neighbouring versions with the same form are one."""
    found: list[dict[str, Any]] = []
    for form, group in itertools.groupby(versions, lambda v: v.form):
        alike = list(group)
        if form is not None:
            first, last = alike[0].since, replaced.get(alike[-1].since, 0) - 1
            ends = {"first": first} if replaced.get(0, first) < first else {}
            found.append({**ends, **({"last": last} if last > 0 else {}), **form})
    return found


def toml(value: Any) -> str:
    """A value in the list."""
    if isinstance(value, Mapping):
        inner = ", ".join(f"{k} = {toml(v)}" for k, v in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return json.dumps(value)


HEADER = """# Operators that OpenVINO computes on a CPU in float32, made by tests/openvino_operators.py.
#
# Each was measured: the models of ONNX's backend tests (onnx {onnx}), of one node, at the opset of each version of its
# operator and with each element type, converted, compiled, and compared with onnxruntime and the reference evaluator.
# Numbers of double are rounded to float there, so that type is not listed.

name = "openvino"
description = "OpenVINO on a CPU"
source = "openvino {openvino} of PyPI, by the outputs of {count} models of one node"
opset = {opset}

[operators]
"""


def write_list(records: Sequence[Record], openvino: str) -> list[Record]:
    """Write the file; return the cases that differ though the operator is listed."""
    by_op: dict[str, dict[int, list[Record]]] = {}
    for r in records:
        by_op.setdefault(r.op, {}).setdefault(r.since, []).append(r)
    by_forms: dict[str, list[str]] = {}
    differing: list[Record] = []
    for op, by_version in sorted(by_op.items(), key=lambda entry: entry[0].lower()):
        measured = [Version.of(since, found) for since, found in sorted(by_version.items())]
        known = versions_of(op)
        replaced = dict(itertools.pairwise(known)) | ({0: known[0]} if known[0] > LOWEST else {0: LOWEST})
        differing += [r for v in measured for r in v.differing]
        if forms := listed_forms(op, measured, replaced):
            by_forms.setdefault(",\n    ".join(map(toml, forms)) if len(forms) > 1 else toml(forms[0]), []).append(op)
    opset = highest_opset_of_onnxruntime()
    text = HEADER.format(onnx=onnx.__version__, openvino=openvino, count=len(records), opset=opset)
    for form, ops in by_forms.items():
        value = f"[\n    {form},\n]" if "\n" in form else form
        text += "".join(f'"{names}" = {value}\n' for names in wrapped(ops))
    LIST.write_text(text)
    return differing


def wrapped(names: Sequence[str]) -> Iterator[str]:
    """Names in lines of at most 80 letters."""
    yield from textwrap.wrap(" ".join(names), 80)


def main() -> None:
    """Measure, and write the list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=Path, required=True, help="where the outcomes are, or are written")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not options.records.exists():
        with RemoteBackend(OPENVINO) as backend:
            found = [record(backend, case) for case in cases()]
        options.records.write_text("".join(json.dumps(vars(r)) + "\n" for r in found if r is not None))
    records = [Record(**json.loads(line)) for line in options.records.read_text().splitlines()]
    for r in write_list(records, metadata.version("openvino")):
        print(f"{r.op}: {r.case}: {r.outcome}")  # noqa: T201 - a script


if __name__ == "__main__":
    main()
