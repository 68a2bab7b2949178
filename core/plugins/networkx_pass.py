"""Functions of a networkx graph as passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, overload

import onnx

from ..errors import FailureKind, ModelError, PassFailed
from ..io.foreign_models import is_placeholder, plan_merge, proto_without_weights
from ..io.model import Model
from ..io.networkx_conversion import from_networkx, to_networkx
from ..ir.graph import Graph
from ..rewriting.change_log import ChangeLog
from ..serialization.exporter import written_initializers
from ..support.author_errors import require_argument

if TYPE_CHECKING:
    import networkx as nx

NetRewrite = Callable[["nx.MultiDiGraph[Any]"], "nx.MultiDiGraph[Any]"]
"""Rewrites the graph made by `to_networkx`, in place or not, and returns the result."""


@dataclass(frozen=True, slots=True)
class NetworkxPass:
    """A function that rewrites the main graph as a networkx graph; its changes in a run count as one change.

    `is_exact`: results keep every bit; otherwise the change counts as a rounding. `reuses_names`: it may use names of
    inner values with another meaning.

    Examples:
        >>> keep = NetworkxPass("keep", lambda net: net)
        >>> keep.run(graph, ChangeLog())
        0
    """

    name: str
    rewrite: NetRewrite
    is_exact: bool = False
    reuses_names: ClassVar[bool] = True

    def __call__(self, net: nx.MultiDiGraph[Any]) -> nx.MultiDiGraph[Any]:
        """The result of the function."""
        return self.rewrite(net)

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Merge the function's result. Raises PassFailed unless it represents a model with this interface."""
        if not change_log.may_change(self.name, "", exact=self.is_exact):
            return 0
        returned = self.rewrite(to_networkx(graph))
        try:
            message = _returned_message(graph, from_networkx(returned))
        except ModelError as e:
            raise PassFailed(self.name, FailureKind.RAISED, f"{self.name}: {e}") from e
        merge = plan_merge(self.name, graph, message, None)
        order = [merge.matched_ops[i] for i in sorted(merge.matched_ops)]
        if merge.is_no_op and order == graph.sorted_ops():
            return 0
        if not change_log.request_change(self.name, "", merge.removed_ops, exact=self.is_exact):
            return 0
        if merge.is_no_op:
            graph.reorder(order)
        else:
            merge.apply(self.name)
        return 1


def _returned_message(graph: Graph, returned: Model) -> onnx.ModelProto:
    """The model as a message, with placeholders for large weights that the graph has under the same names."""
    message = proto_without_weights(returned.graph)
    sent = {v.name: t for v, t in written_initializers(graph)}
    tensors = {v.name: t for v, t in written_initializers(returned.graph)}
    for proto in message.graph.initializer:
        if is_placeholder(proto) and sent.get(proto.name) is not tensors[proto.name]:
            proto.CopyFrom(tensors[proto.name].to_proto(proto.name))
    return message


@overload
def networkx_pass(rewrite: NetRewrite) -> NetworkxPass: ...
@overload
def networkx_pass(*, name: str = "", exact: bool = False) -> Callable[[NetRewrite], NetworkxPass]: ...
def networkx_pass(
    rewrite: NetRewrite | None = None, *, name: str = "", exact: bool = False
) -> NetworkxPass | Callable[[NetRewrite], NetworkxPass]:
    """Decorate a function `def rewrite(net: nx.MultiDiGraph) -> nx.MultiDiGraph` to make it a pass.

    `name` replaces the function's name in kebab-case. `exact`: its results keep every bit.

    Examples:
        >>> @networkx_pass(exact=True)
        ... def drop_relu(net):
        ...     net.add_edges_from((u, v, k) for u in ["a"] for _, v, k in net.out_edges("r", keys=True))
        ...     net.remove_nodes_from(["Relu r", "r"])
        ...     return net
        >>> [node.op_type for node in optimize(model, plugin=[drop_relu], only=["drop-relu"]).model.graph.node]
        ['Abs', 'Add']
    """

    def decorate(function: NetRewrite) -> NetworkxPass:
        return NetworkxPass(name or getattr(function, "__name__", "").replace("_", "-"), function, exact)

    wanted = "a function, or a name and exact=True as a keyword"
    require_argument(rewrite is None or callable(rewrite), "networkx_pass", wanted, rewrite)
    return decorate if rewrite is None else decorate(rewrite)
