"""Which outputs of a model depend on chance.

Random operators with seeds of their own, so that what they give can be compared.

onnxruntime and onnx.reference give the same numbers in every new session where an op has a seed, wherever it
stands. A seed comes from the name of the op's first output, which rewriting keeps.

Models that give the same numbers on every run: those with random ops get seeds and a new session for each run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol
from zlib import crc32

import onnx
from onnx import helper

from ..errors import CannotLoad, Unverifiable
from ..ir import op_schemas
from ..ir.context import MARK
from ..ir.effects import is_random
from ..ir.graph import Graph
from ..ir.subgraphs import holder
from ..ir.values import Value
from ..ort.backends import Arrays, OnnxRuntime, Reference
from ..ort.sessions import Loadable, Setting
from .noise import move_weights


def random_outputs(graph: Graph) -> frozenset[str]:
    """The names of the outputs downstream of a random op, through subgraphs too. O(V + E)."""
    reached: dict[Value, None] = {}
    queue = [v for op in graph.ops() if is_random(op) for v in op.outputs]
    while queue:
        value = queue.pop()
        if value in reached:
            continue
        reached[value] = None
        for user in value.uses:
            op = holder(graph, user)
            queue += op.outputs if op is not None else ()
    return frozenset(v.name for v in reached if graph.is_output(v))


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
        return op_schemas.is_random(node.op_type, node.domain, version)
    if version < 7:
        return not any(a.name == "is_test" and a.i for a in node.attribute)
    return len(node.input) > 2 and bool(node.input[2])


def _takes_seed(node: onnx.NodeProto, versions: Mapping[str, int]) -> bool:
    found = op_schemas.schema(node.op_type, node.domain, versions.get(node.domain, 0))
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


FIRST_LIMIT = 600.0  # seconds that the first run may take
LEAST_LIMIT, SLOWER = 20.0, 50.0  # what all others may take at least, and how much longer than the first


class Session(Protocol):
    """A model that a backend has loaded."""

    name: str

    def run(self, outputs: Sequence[str], feeds: Arrays, limit: float | None = None) -> list[Any]:
        """Run once, for at most `limit` seconds. Raises EvaluationError."""
        ...


Backend = Callable[..., Session]
"""Makes a session of a model, and of the `folder` where weights of one given as bytes are. Raises CannotLoad."""
BACKENDS: tuple[Backend, ...] = (OnnxRuntime, Reference)
ONE_THREAD: tuple[Backend, ...] = (partial(OnnxRuntime, setting=Setting(threads=1)),)
"""For many small models, to which more threads cost more than they bring; what onnxruntime refuses is refused."""


@dataclass(slots=True)
class Performer:
    """A model that runs. `make` is set where each run needs a new session: generators go on where they were."""

    session: Session
    backend: Backend
    make: Callable[[], Session] | None = None
    seeds: Mapping[str, int | None] | None = None
    loose: frozenset[str] = frozenset()
    limit: float = FIRST_LIMIT
    _is_used: bool = False

    def run(self, outputs: Sequence[str], feeds: Arrays) -> list[Any]:
        """Run once, for at most `limit` seconds, which the first run decides on. Raises EvaluationError."""
        if self._is_used and self.make is not None:
            self.session = self.make()
        start = perf_counter()
        results = self.session.run(outputs, feeds, self.limit)
        if not self._is_used:
            self.limit = max(LEAST_LIMIT, SLOWER * (perf_counter() - start))
        self._is_used = True
        return results


def performer(
    model: Loadable,
    backend: Backend,
    *,
    random: bool,
    like: Mapping[str, int | None] | None = None,
    fresh: bool = False,
) -> Performer:
    """`model` in a backend; where it is `random`, with seeds, those of `like` if given. Raises CannotLoad.

    `fresh`: each run gets a session of its own all the same.
    """
    if not random:
        return Performer(backend(model), backend, partial(backend, model) if fresh else None)
    found = seeded(model, like)
    data, folder = found.model.SerializeToString(), found.folder

    def make() -> Session:
        return backend(data, folder=folder)

    return Performer(make(), backend, make, found.seeds, found.loose)


def original_performer(
    model: Loadable, *, random: bool, fresh: bool = False, backends: Sequence[Backend] = BACKENDS
) -> Performer:
    """`model` in the first backend that loads it. Raises Unverifiable."""
    reasons: list[str] = []
    for backend in backends:
        try:
            return performer(model, backend, random=random, fresh=fresh)
        except CannotLoad as e:
            reasons.append(str(e))
    raise Unverifiable(f"the original cannot be run: {'; '.join(reasons)}")


def repacked(model: Loadable, like: Performer) -> Performer:
    """`model` as `like` runs it, but with its weights packed for onnxruntime's kernels. Raises CannotLoad."""
    if not isinstance(like.session, OnnxRuntime):
        raise CannotLoad("only onnxruntime packs weights")
    proto, folder = _message(model, random=True) if like.seeds is not None else (None, None)
    data = model if proto is None else proto.SerializeToString()
    backend = partial(OnnxRuntime, setting=replace(like.session.setting, repacks=True))
    return Performer(backend(data, folder=folder), backend, limit=like.limit)


def with_moved_weights(model: Loadable, like: Performer, seed: int, far: int = 1) -> Performer | None:
    """`model` with its float weights moved by `far` ulps, as `like` runs it; None where they are too many."""
    backend = like.backend
    proto, folder = _message(model, random=like.seeds is not None)
    if not move_weights(proto, folder, seed, far):
        return None
    data = proto.SerializeToString()

    def make() -> Session:
        return backend(data, folder=folder)

    return Performer(make(), backend, make if like.make is not None else None, limit=like.limit)


def _message(model: Loadable, *, random: bool) -> tuple[onnx.ModelProto, Path | None]:
    if not random:
        return read(model)
    found = seeded(model)
    return found.model, found.folder
