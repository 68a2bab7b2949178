"""Folders with minimal models that reproduce skipped changes, for the authors of rules."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import onnx
from msgspec import Struct, field
from msgspec.structs import replace
from onnx import helper

from ...core.errors import FailureKind
from ...core.io.convert import from_onnx
from ...core.io.files import ModelFile, load
from ...core.io.model import Model, export_header, split
from ...core.io.publishing import staging_folder
from ...core.io.writer import encode_text, write_files
from ...core.ir.graph import Graph
from ...core.ir.op import Op
from ...core.ir.tensor import join_chunks
from ...core.ir.values import Value, inferred_type_proto
from ...core.ort.remote_backend import RemoteBackend
from ...core.plugins.pass_spec import PassSpec
from ...core.run.failures import RejectedChange
from ...core.run.pipeline import Pass, leaves, selectable_rules
from ...core.run.pipeline_run import PipelineRun, RewriteResult
from ...core.serialization.exporter import node_bytes
from ...core.support.printable_text import file_name, printable
from ...core.verify.comparison_options import ComparisonOptions
from ...core.verify.input_sets import InputSet
from ...core.verify.oracle_process import OracleProcess
from ...core.verify.verdict import Mismatch
from ...core.verify.verification_spec import VerificationSpec

COMPARISON_FAILURES = frozenset({FailureKind.WRONG, FailureKind.REFUSED})
LOG = logging.getLogger(__name__)
NEIGHBOURHOOD_RADII = (0, 1, 2, 4, 8)  # number of ops around the op at which a rule raises, tried in this order
ReproFiles = dict[str, Any]
"""Models, or arrays by name, by file name."""


def changed_ops(before: Graph, after: Graph) -> tuple[list[Op], list[Op]]:
    """The ops that only one of two graphs has, comparing edges by name; in order. O(V + E)."""
    mine, others = ({node_bytes(op): op for op in g.sorted_ops()} for g in (before, after))
    return [op for k, op in mine.items() if k not in others], [op for k, op in others.items() if k not in mine]


def external_inputs(ops: Collection[Op]) -> list[Value]:
    """The values that ops read and do not produce, including constants, in order."""
    made = {v for op in ops for v in op.outputs}
    read = dict.fromkeys(v for op in ops for v in (*op.inputs, *op.captures) if v is not None)
    return [v for v in read if v not in made]


def external_outputs(graph: Graph, ops: Collection[Op]) -> list[Value]:
    """The values that ops produce and other ops read or the graph outputs, in order."""
    made = [v for op in ops for v in op.outputs]
    leaving = {v for v, _ in nx.edge_boundary(graph.nx, {*ops, *made})}
    return [v for v in made if graph.is_output(v) or v in leaving]


def neighbourhood(op: Op, radius: int) -> list[Op]:
    """The ops at most `radius` ops away in either direction, in order. O(V + E)."""
    net = op.graph.nx
    near: set[Op | Value] = {op}
    for _ in range(radius):
        ways = (net.successors, net.predecessors)
        near.update([other for o in near for step in ways for v in step(o) for other in step(v)])
    return [o for o in op.graph.sorted_ops() if o in near]


def declared_type(value: Value) -> onnx.TypeProto:
    """The type of a value, as far as it is known."""
    return inferred_type_proto(value) or onnx.TypeProto()


def extract_model(
    model: Model, ops: Collection[Op], inputs: Mapping[str, onnx.TypeProto], outputs: Collection[str]
) -> onnx.ModelProto:
    """Make a model of these ops, with inputs of the given types.

    An output that none of the ops produces is a constant, copied by an Identity.
    """
    proto = export_header(model)
    del proto.metadata_props[:], proto.training_info[:]
    proto.ir_version = max(proto.ir_version, 4)  # before IR 4, each initializer also had to be an input
    graph = proto.graph
    graph.name = model.graph.declared.header.name or "repro"
    graph.input.extend(onnx.ValueInfoProto(name=name, type=kind) for name, kind in inputs.items())
    made = {v.name for op in ops for v in op.outputs}
    handed_on = {name: f"{name}_constant" for name in outputs if name not in made}
    # A Constant op or an enclosing graph may hold a constant, which is therefore found by its value.
    held = [(v.name, v.tensor) for v in external_inputs(ops) if v.name not in inputs]
    held += [(handed_on[v.name], tensor) for v, tensor in model.written_initializers() if v.name in handed_on]
    for name, tensor in held:
        if tensor is not None:
            graph.initializer.append(onnx.TensorProto.FromString(join_chunks(tensor.chunks(name))))
    graph.node.extend(onnx.NodeProto.FromString(node_bytes(op)) for op in ops)
    graph.node.extend(helper.make_node("Identity", [constant], [name]) for name, constant in handed_on.items())
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    return proto


def mismatch_files(before: RewriteResult, after: RewriteResult) -> ReproFiles:
    """Two models and inputs on which they differ; only the changed ops, if these differ in the same way."""
    first, second = before.model, after.model
    mismatch = after.failure.mismatch if after.failure is not None else None
    small = _small_mismatch_files(first, second, mismatch, exact=after.exact) if mismatch is not None else None
    if small is not None:
        return small
    feeds = dict(mismatch.input_set.feeds) if mismatch is not None and mismatch.input_set is not None else {}
    arrays = feeds if all(isinstance(a, np.ndarray) for a in feeds.values()) else {}
    return {"before.onnx": first, "after.onnx": second, "inputs.npz": arrays}


def _small_mismatch_files(first: Model, second: Model, mismatch: Mismatch, *, exact: bool) -> ReproFiles | None:
    """The changed ops, if they run alone and differ in the same way."""
    try:
        files = _changed_subgraph_files(first, second, mismatch.input_set)
        if files is None:
            return None
        with _oracle_for(files["before.onnx"], files["inputs.npz"]) as oracle:
            failure = oracle.compare(files["after.onnx"].SerializeToString(), ComparisonOptions(exact=exact)).failure
    except Exception:  # noqa: BLE001 - a pass may leave any graph; one that cannot be cut is shown completely
        return None
    is_same = failure is not None and (failure.input_set is None) == (mismatch.input_set is None)
    return files if is_same else None


def _changed_subgraph_files(first: Model, second: Model, input_set: InputSet | None) -> ReproFiles | None:
    """The changed ops, with inputs computed from the input set if there is one, otherwise as declared."""
    gone, made = changed_ops(first.graph, second.graph)
    outside = {v.name: v for ops in (gone, made) for v in external_inputs(ops)}
    inner = {v.name for ops in (gone, made) for op in ops for v in op.outputs}
    inputs = [n for n, v in outside.items() if not v.is_const and n not in inner]
    outputs = [v.name for v in external_outputs(first.graph, gone)]
    arrays = _evaluated_values(first, inputs, input_set.feeds) if input_set is not None else {}
    if not outputs or not all(isinstance(a, np.ndarray) for a in arrays.values()):
        return None
    types = {n: declared_type(outside[n]) for n in inputs} | {
        n: helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in arrays.items()
    }
    return {
        "before.onnx": extract_model(first, gone, types, outputs),
        "after.onnx": extract_model(second, made, types, outputs),
        "inputs.npz": arrays,
    }


def _evaluated_values(model: Model, names: Iterable[str], feeds: Mapping[str, Any]) -> dict[str, Any]:
    """Compute values from `feeds`, as additional outputs of the whole model."""
    found = {n: feeds[n] for n in names if n in feeds}
    computed = [n for n in names if n not in feeds]
    whole = split(model)
    known = {o.name for o in whole.message.graph.output}
    whole.message.graph.output.extend(onnx.ValueInfoProto(name=n) for n in computed if n not in known)
    if computed:
        with RemoteBackend() as backend:
            found |= dict(zip(computed, backend(whole).run(computed, feeds), strict=True))
    return found


def _oracle_for(proto: onnx.ModelProto, given: Mapping[str, Any] | None = None) -> OracleProcess:
    """An oracle for a small model, as in a run."""
    return OracleProcess(proto.SerializeToString(), VerificationSpec.of(from_onnx(proto), given or None))


def exception_files(
    model: Model, culprit: Pass | None, place: str, kind: FailureKind, *, exact_only: bool = False
) -> ReproFiles:
    """The smallest model around a value on which the pass also fails; otherwise the whole model."""
    producers = (op for g in model.graph.with_subgraphs() for op in g.ops() if any(v.name == place for v in op.outputs))
    op = next(producers, None)
    while op is not None and op.graph.owner is not None:
        op = op.graph.owner
    if culprit is not None and op is not None:
        for radius in NEIGHBOURHOOD_RADII:
            proto = _failing_subgraph(model, neighbourhood(op, radius), culprit, kind, exact_only=exact_only)
            if proto is not None:
                return {"before.onnx": proto}
    return {"before.onnx": model}


def _failing_subgraph(
    model: Model, ops: Sequence[Op], culprit: Pass, kind: FailureKind, *, exact_only: bool
) -> onnx.ModelProto | None:
    """A model of these ops, if it runs and the pass fails on it in the same way."""
    try:
        types = {v.name: declared_type(v) for v in external_inputs(ops) if not v.is_const}
        proto = extract_model(model, ops, types, [v.name for v in external_outputs(model.graph, ops)])
        if failure_alone(lambda: from_onnx(proto), culprit, exact_only=exact_only) != kind:
            return None
        _oracle_for(proto).wait().close()
    except Exception:  # noqa: BLE001 - a pass may leave any graph; one that cannot be cut is shown completely
        return None
    return proto


def failure_alone(load: Callable[[], Model], culprit: Pass, *, exact_only: bool = False) -> FailureKind | None:
    """The failure of a run of only this pass, without verification; None if it does not fail."""
    run = PipelineRun(load, culprit, exact_only)
    failure = run.replay(validates_graphs=True, tries_export=True).failure
    return failure.kind if failure is not None else None


class CommandOptions(Struct, frozen=True):
    """The options with which another run fails in the same way; `options` apply to all its passes."""

    options: Sequence[str] = ()
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    enable: Sequence[PassSpec] = ()
    exact_only: bool = False
    operators: Sequence[str] = ()  # options for custom operators, for all commands that run the models

    def arguments(self, only_pass: Pass | None) -> list[str]:
        """The arguments for a run of only `only_pass`, or of everything that ran here."""
        if only_pass is None:
            names = [*_flags("only", map(absolute_name, self.only)), *_flags("skip", map(absolute_name, self.skip))]
            return [*self.options, *names, *_flags("enable", self.enable)]
        rules = [r.name for r in selectable_rules(only_pass)]
        by_rule = rules and (self.skip or any(r in self.only for r in rules))
        name = absolute_name(only_pass.name)
        enabled = [spec for spec in self.enable if spec.name == name]
        return [*self.options, *_flags("enable", enabled), *_flags("only", rules if by_rule else [name])]


def absolute_name(name: str) -> str:
    """The name of a pass for a run in any folder, with an absolute path if it contains a file."""
    return PassSpec(name).with_absolute_paths(Path()).name


def _flags(option: str, values: Iterable[str | PassSpec]) -> list[str]:
    return [f"--{option} {shlex.quote(str(value))}" for value in values]


class ReproFolder(Struct, frozen=True):
    """Writes a folder below `root` for each skipped change, atomically.

    Its README has a command with `command_options`, and the installed `versions`.
    """

    root: Path
    pipeline: Pass
    command_options: CommandOptions = CommandOptions()
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    def write(self, rejected: RejectedChange, before: RewriteResult, after: RewriteResult | None) -> RejectedChange:
        """Write the folder of one change; return the change with the folder's name, or unchanged if writing fails."""
        culprit = next((p for p in leaves(self.pipeline) if p.name == rejected.pass_name), None)
        kind, exact_only = rejected.failure_kind, self.command_options.exact_only
        if kind in COMPARISON_FAILURES and after is not None:
            files = mismatch_files(before, after)
        else:
            files = exception_files(before.model, culprit, rejected.place, kind, exact_only=exact_only)
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            name = file_name(f"{rejected.by}-{rejected.place or 'whole'}")
            number = next(n for n in count(1) if not any(self.root.glob(f"{n:02}-*")))
            folder = self.root / f"{number:02}-{name}"
            with staging_folder(self.root) as temporary:
                stage = temporary / folder.name
                stage.mkdir()
                lost = write_files(stage, files)
                command = self._command(rejected, stage, culprit, exact=after is not None and after.exact)
                (stage / "README.md").write_bytes(encode_text(self._readme(folder, rejected, command, lost)))
                stage.rename(folder)
        except OSError as e:
            LOG.warning("warning: cannot write a repro to %s: %s", self.root, e.strerror)
            return rejected
        return replace(rejected, repro=str(folder))

    def _command(self, rejected: RejectedChange, stage: Path, culprit: Pass | None, *, exact: bool) -> str:
        """The command that shows the failure with the files in `stage`; "" if they do not suffice."""
        before, after, inputs = (stage / name for name in ("before.onnx", "after.onnx", "inputs.npz"))
        if not before.exists():
            return ""
        if after.exists():
            given = ["--inputs inputs.npz"] if inputs.exists() else []
            given += [*["--exact"] * exact, *self.command_options.operators]
            return " ".join(("passes verify before.onnx after.onnx", *given))
        fails_alone = culprit is not None and self._fails_alone(before, culprit, rejected.failure_kind)
        arguments = self.command_options.arguments(culprit if fails_alone else None)
        return " ".join(("passes bisect before.onnx", *arguments))

    def _fails_alone(self, path: Path, culprit: Pass, kind: FailureKind) -> bool:
        """Whether only this pass needs to run; some failures need two passes."""
        if kind in COMPARISON_FAILURES:
            return True
        file, exact_only = ModelFile(path), self.command_options.exact_only
        try:
            return failure_alone(lambda: load(file, inline=False), culprit, exact_only=exact_only) == kind
        except Exception:  # noqa: BLE001 - the model that a pass leaves may not load again
            return False

    def _readme(self, folder: Path, rejected: RejectedChange, command: str, unwritten: Sequence[str]) -> str:
        """The contents of the folder, and two lines that reproduce the failure."""
        installed = [f"{name} {version}" for name, version in self.versions.items()]
        sections = {"Replaced:": rejected.replaced, "Not written:": unwritten, "Seen with:": installed}
        replaced, missing, seen = (
            f"{title}\n" + "".join(f"\n- {printable(line)}" for line in lines) if lines else ""
            for title, lines in sections.items()
        )
        reproduce = f"To reproduce it:\n\n    cd {shlex.quote(str(folder))}\n    {command}" if command else ""
        title = f"# {printable(rejected.label)}\n\n{rejected.failure_kind}: {printable(rejected.message)}"
        return "\n\n".join(filter(None, (title, replaced, missing, reproduce, seen))) + "\n"
