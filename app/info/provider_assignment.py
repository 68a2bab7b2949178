"""The nodes that an execution provider of onnxruntime supports, and why the others run on the CPU."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ...core.errors import MORE_MEMORY, EvaluationError, ModelError
from ...core.io.model import Model
from ...core.io.writer import write_model
from ...core.ir.graph import Graph
from ...core.ir.op_schemas import qualified_op_type
from ...core.ir.tensor import element_type
from ...core.ort.backends import LoadedModel, is_lack_of_memory, session_memory, strip_source_locations
from ...core.ort.sessions import CPU, OrtSession, SessionConfig, short_name
from ...core.processes.worker_process import RequestFailed, WorkerExit, WorkerProcess, module_command, serve
from ...core.run.target import Misfit, TargetFit
from ...core.support.scratch_folder import ScratchFolder
from ..measure.profile_trace import make_node_names_unique

LOAD_TIMEOUT = 600.0  # seconds
WORKER = module_command(__name__)
KEPT_ON_CPU = re.compile(r"Force fallback to CPU execution for node: (.*) because")
REMARK = re.compile(r"\[[EW]:onnxruntime:[^\]]*\] (.*?)(?:\x1b\[m)?$")
MAX_REMARKS, MAX_REMARK = 5, 300  # the number of remarks, and the characters of each
INSERTED = "made by onnxruntime"  # the name of nodes that come from functions inlined by onnxruntime
CHEAP_REASON = "onnxruntime keeps it on the CPU because copying its operands would take longer"


class AssignedNode(Struct, frozen=True):
    """A node of a model after onnxruntime's basic optimizations, and the full name of its `provider`."""

    provider: str
    name: str
    op: str


class ProviderAssignment(Struct, frozen=True):
    """The number of nodes by short name of their provider, and the nodes that the requested provider does not support.

    Providers take nodes after the basic optimizations of onnxruntime, before other optimizations fuse them. `remarks`
    are warnings of onnxruntime and the provider, if any nodes are unsupported.
    """

    nodes: dict[str, int]
    fit: TargetFit
    remarks: Sequence[str] = ()


class AssignmentWorker:
    """Sessions in this process."""

    def assigned(self, model: Path, config: SessionConfig) -> tuple[list[str], list[AssignedNode]]:
        """The providers of a session, and the nodes with their providers. Raises EvaluationError."""
        session = LoadedModel(model, config).session
        assert isinstance(session, OrtSession)
        inner: Any = session.session
        found = [
            AssignedNode(part.ep_name, node.name or INSERTED, qualified_op_type(node.domain, node.op_type))
            for part in inner.get_provider_graph_assignment_info()
            for node in part.get_nodes()
        ]
        return list(inner.get_providers()), found


def assignment(model: Model, config: SessionConfig, *, is_external: bool) -> ProviderAssignment:
    """The assignment of a model's nodes to the provider of a config; gives the nodes unique names.

    `is_external`: weights are in other files. Raises ModelError if the model does not load.
    """
    make_node_names_unique(model.graph)
    with ScratchFolder() as folder:
        copy, log = folder / "model.onnx", folder / "log"
        write_model(model, copy, external=is_external)
        setting = replace(config, verbose=True, records_assignment=True)
        try:
            with WorkerProcess[AssignmentWorker](WORKER, LOAD_TIMEOUT, log, session_memory(copy, config)) as process:
                providers, nodes = process.call().assigned(copy, setting)
        except (EvaluationError, RequestFailed) as e:
            message = strip_source_locations(str(e))
            raise ModelError(f"{message}; {MORE_MEMORY}" if is_lack_of_memory(e) else message) from e
        except WorkerExit as e:
            name = f" with {Path(config.provider_library).name}" if config.provider_library else ""
            raise ModelError(f"onnxruntime{name} does not load it: {e}") from e
        with log.open(encoding="utf-8", errors="replace") as lines:
            return assignment_of(model.graph, nodes, config.provider, providers, lines)


def assignment_of(
    graph: Graph, nodes: Sequence[AssignedNode], wanted: str, providers: Collection[str], log: Iterable[str]
) -> ProviderAssignment:
    """The assignment of nodes in a session with these providers, according to its log.

    `wanted` is the full name of a provider, or "" for the provider of a library.
    """
    wanted = wanted or next((p for p in providers if p != CPU), CPU)
    name, lines = short_name(wanted), list(log)
    kept = {found[1] for line in lines if (found := KEPT_ON_CPU.search(line))}
    remarks = dict.fromkeys(found[1] for line in lines if (found := REMARK.search(line.rstrip())))
    types = {op.name: _input_types(op) for g in graph.with_subgraphs() for op in g.sorted_ops()}
    taken = {(n.op, types.get(n.name, "")) for n in nodes if n.provider == wanted}

    def reason(node: AssignedNode) -> str:
        kind = types.get(node.name, "")
        of_type = f" of {kind}" if kind else ""
        if node.name in kept:
            return CHEAP_REASON
        if (node.op, kind) in taken:
            return f"{name} supports other {node.op} nodes{of_type}, but not this one"
        other_types = any(op == node.op for op, _ in taken)
        return f"{name} supports {node.op}, but not{of_type}" if other_types else f"{name} lacks {node.op}{of_type}"

    counts = Counter(short_name(n.provider) for n in nodes)
    misfits = [Misfit(n.op, n.name, reason(n)) for n in nodes if n.provider != wanted]
    if not taken and misfits:
        started = wanted in providers
        misfits = [Misfit("", "", f"{name} supports no node" if started else f"onnxruntime could not start {name}")]
    told = (shorten(strip_source_locations(text), MAX_REMARK, placeholder=" ...") for text in remarks)
    shown = [*told][:MAX_REMARKS] if misfits else []
    return ProviderAssignment(dict(counts.most_common()), TargetFit(name, misfits), shown)


def _input_types(op: Any) -> str:
    """The distinct known element types of an op's operands."""
    known = [v.known_dtype for v in op.inputs if v is not None and v.known_dtype]
    return ", ".join(dict.fromkeys(map(element_type, known)))


def main() -> None:
    """Serve the parent until it ends."""
    serve(AssignmentWorker())
