"""Random operators with seeds of their own, so that what they give can be compared.

onnxruntime and onnx.reference give the same numbers in every new session where an op has a seed, wherever it
stands. A seed comes from the name of the op's first output, which rewriting keeps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import onnx
from onnx import helper

from ..ir import schemas
from ..ir.shared import MARK
from ..sessions import Loadable

SEED = "seed"
COPY = re.compile(r"__\d+$")
Functions = Mapping[tuple[str, str, str], onnx.FunctionProto]


@dataclass(frozen=True, slots=True)
class Seeded:
    """A model whose random ops have seeds; `seeds` has them by output name, None for those that came with one.

    Outputs in `loose` depend on a random op that could not be given a seed.
    """

    model: onnx.ModelProto
    folder: Path | None
    seeds: dict[str, int | None]
    loose: frozenset[str]


def seeded(model: Loadable, like: Mapping[str, int | None] | None = None) -> Seeded:
    """`model`, its weights left where they are, with a seed in each random op: those of `like` where given."""
    proto, folder = read(model)
    versions = {o.domain: o.version for o in proto.opset_import}
    functions = {(f.domain, f.name, f.overload): f for f in proto.functions}
    everything = list(_nested((*proto.graph.node, *(n for f in proto.functions for n in f.node))))
    seeds: dict[str, int | None] = {}
    loose: set[str] = set()
    for node in everything:
        if not _is_random(node, versions):
            continue
        own = next((a for a in node.attribute if a.name == SEED), None)
        name = next(filter(None, node.output), "")
        seed = crc32(name.encode("utf-8", "surrogateescape")) % 1_000_003 + 1 if like is None else _of(like, name)
        if own is not None and not own.ref_attr_name:
            seeds[name] = None
        elif own is None and seed is not None and _takes_seed(node, versions):
            seeds[name] = seed
            node.attribute.append(helper.make_attribute(SEED, seed if node.op_type == "Dropout" else float(seed)))
        else:
            loose.update(filter(None, node.output))
    _add_aliases(everything, seeds)
    return Seeded(proto, folder, seeds, _reached(proto.graph, functions, loose) if loose else frozenset())


def _of(like: Mapping[str, int | None], name: str) -> int | None:
    """The seed for a name. Copies are numbered: r__1 by `onnx.inliner`, r_pw1 by rewrites."""
    return like[name] if name in like else like.get(COPY.sub("", name.partition(MARK)[0]))


def read(model: Loadable) -> tuple[onnx.ModelProto, Path | None]:
    """The message, its external weights left out, and the folder they are in."""
    data = model if isinstance(model, bytes) else model.read_bytes()
    return onnx.ModelProto.FromString(data), None if isinstance(model, bytes) else model.resolve().parent


def _add_aliases(nodes: list[onnx.NodeProto], seeds: dict[str, int | None]) -> None:
    """Identities and branches hand a seed on: without them the random op takes the name of an output."""
    for node in nodes:
        if node.op_type == "If" and not node.domain:
            for branch in (a.g for a in node.attribute):
                for name, inner in zip(node.output, branch.output, strict=False):
                    if inner.name in seeds:
                        seeds.setdefault(name, seeds[inner.name])
        if node.op_type == "Identity" and not node.domain and node.input[0] in seeds:
            seeds.setdefault(node.output[0], seeds[node.input[0]])


def _is_random(node: onnx.NodeProto, versions: Mapping[str, int]) -> bool:
    version = versions.get(node.domain, 0)
    if node.op_type != "Dropout" or node.domain:
        return schemas.is_random(node.op_type, node.domain, version)
    if version < 7:
        return not any(a.name == "is_test" and a.i for a in node.attribute)
    return len(node.input) > 2 and bool(node.input[2])


def _takes_seed(node: onnx.NodeProto, versions: Mapping[str, int]) -> bool:
    found = schemas.schema(node.op_type, node.domain, versions.get(node.domain, 0))
    return found is not None and SEED in found.attributes


def _nested(nodes: tuple[onnx.NodeProto, ...]) -> Iterator[onnx.NodeProto]:
    """Nodes and all in their bodies."""
    work = list(reversed(nodes))
    while work:
        node = work.pop()
        yield node
        for a in node.attribute:
            for graph in (a.g, *a.graphs):
                work.extend(reversed(graph.node))


def _reached(graph: onnx.GraphProto, functions: Functions, loose: set[str]) -> frozenset[str]:
    """The outputs downstream of `loose` values, in bodies and functions too."""
    found = set(loose)
    for node in graph.node:  # in topological order, as ONNX has it
        inside = list(_with_calls(node, functions))
        if any(name in found for n in inside for name in (*n.input, *n.output)):
            found.update(node.output)
    return frozenset(o.name for o in graph.output if o.name in found)


def _with_calls(node: onnx.NodeProto, functions: Functions) -> Iterator[onnx.NodeProto]:
    work, called = [node], set[tuple[str, str, str]]()
    while work:
        for inner in _nested((work.pop(),)):
            yield inner
            key = (inner.domain, inner.op_type, inner.overload)
            if key in functions and key not in called:
                called.add(key)
                work += functions[key].node
