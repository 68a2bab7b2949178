"""A pass on a networkx graph: equal ops of one value are merged."""

from __future__ import annotations

from typing import Any

import networkx as nx
from passwright.core import networkx_pass


@networkx_pass(exact=True)
def merge_tanhs(net: nx.MultiDiGraph[Any]) -> nx.MultiDiGraph[Any]:
    """Tanh(x), Tanh(x) => one Tanh that both uses read"""
    outputs = {output.name for output in net.graph["graph"].output}
    first: dict[str, str] = {}
    for op in [node for node, data in net.nodes.items() if data.get("op_type") == "Tanh"]:
        (read,), (made,) = net.predecessors(op), net.successors(op)
        kept = first.setdefault(read, made)
        if kept == made or net.nodes[made].get("name", made) in outputs:
            continue
        for _, user, key, data in list(net.out_edges(made, keys=True, data=True)):
            net.add_edge(kept, user, key, **data)
        net.remove_nodes_from([op, made])
    return net


EXAMPLES = {"merge-tanhs": ["g (float[N] x) => (float[N] y) { a = Tanh(x) b = Tanh(x) y = Add(a, b) }"]}
