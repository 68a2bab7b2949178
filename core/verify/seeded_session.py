"""Reproducible sessions: random ops get seeds, and each run of a model with random ops gets a new session.

onnxruntime and onnx.reference give the same numbers in every new session if an op has a seed, at any position. The
seed is derived from the name of the op's first output, which rewriting keeps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from types import MappingProxyType
from typing import Any, Protocol
from zlib import crc32

import onnx
from msgspec import Struct, structs
from onnx import helper

from ..errors import EvaluationError, ModelLoadError, UnverifiableError
from ..io.files import split_model
from ..io.split_models import Loadable, SplitModel
from ..ir import op_schemas
from ..ir.graph import FRESH_NAME_MARK, Graph, enclosing_op
from ..ir.op_schemas import canonical_domain
from ..ir.values import Value
from ..operators.effects import is_nondeterministic, is_random
from ..ort.backends import Arrays, LoadedModel, OnnxReference
from ..ort.sessions import SessionConfig
from ..serialization.proto_queries import all_nodes, opset_versions
from .noise import perturb_weights


def random_outputs(graph: Graph) -> frozenset[str]:
    """The names of the outputs downstream of a random op, also through subgraphs. O(V + E)."""
    reached: dict[Value, None] = {}
    queue = [v for op in graph.ops() if is_random(op) for v in op.outputs]
    while queue:
        value = queue.pop()
        if value in reached:
            continue
        reached[value] = None
        for user in value.consumers:
            op = enclosing_op(graph, user)
            queue += op.outputs if op is not None else ()
    return frozenset(v.name for v in reached if graph.is_output(v))


SEED = "seed"
COPY_SUFFIX = re.compile(r"__\d+$")
FunctionTable = Mapping[tuple[str, str, str], onnx.FunctionProto]


class SeededModel(Struct, frozen=True):
    """A model whose random ops have seeds; `seeds` has them by output name, None for a seed in the file.

    `unseeded_outputs` depend on a random op that takes no seed.
    """

    model: SplitModel
    seeds: dict[str, int | None]
    unseeded_outputs: frozenset[str]


def add_seeds(model: Loadable, known_seeds: Mapping[str, int | None] | None = None) -> SeededModel:
    """Set a seed in each random op of `model`, from `known_seeds` if it has one."""
    split = split_model(model)
    proto = deepcopy(split.message)
    versions = opset_versions(proto)
    functions = {(f.domain, f.name, f.overload): f for f in proto.functions}
    everything = list(all_nodes((*proto.graph.node, *(n for f in proto.functions for n in f.node))))
    seeds: dict[str, int | None] = {}
    loose: set[str] = set()
    for node in everything:
        is_random_node, has_seed = _randomness(node, versions)
        if not is_random_node:
            continue
        own = next((a for a in node.attribute if a.name == SEED), None)
        name = next(filter(None, node.output), "")
        if known_seeds is None:
            seed = crc32(name.encode("utf-8", "surrogateescape")) % 1_000_003 + 1
        else:  # `onnx.inliner` numbers copies r__1, rewrites r_pw1
            original = COPY_SUFFIX.sub("", name.partition(FRESH_NAME_MARK)[0])
            seed = known_seeds.get(name, known_seeds.get(original))
        if own is not None and not own.ref_attr_name:
            seeds[name] = None
        elif own is None and seed is not None and has_seed:
            seeds[name] = seed
            node.attribute.append(helper.make_attribute(SEED, seed if node.op_type == "Dropout" else float(seed)))
        else:
            loose.update(filter(None, node.output))
    _add_aliases(everything, seeds)
    unseeded_outputs = _downstream_outputs(proto.graph, functions, loose) if loose else frozenset[str]()
    return SeededModel(structs.replace(split, message=proto), seeds, unseeded_outputs)


def _add_aliases(nodes: list[onnx.NodeProto], seeds: dict[str, int | None]) -> None:
    """Add seeds for the names behind Identity and If: once these ops are removed, the random op has such a name."""
    for node in nodes:
        if node.op_type == "If" and not canonical_domain(node.domain):
            for branch in (a.g for a in node.attribute):
                for name, inner in zip(node.output, branch.output, strict=False):
                    if inner.name in seeds:
                        seeds.setdefault(name, seeds[inner.name])
        if node.op_type == "Identity" and not canonical_domain(node.domain) and node.input[0] in seeds:
            seeds.setdefault(node.output[0], seeds[node.input[0]])


def _randomness(node: onnx.NodeProto, versions: Mapping[str, int]) -> tuple[bool, bool]:
    """Whether a node is random, and whether its operator has a seed."""
    domain = canonical_domain(node.domain)
    version = versions.get(domain, 0)
    schema = op_schemas.schema(node.op_type, domain, version)
    has_seed = schema is not None and SEED in schema.attributes
    if node.op_type != "Dropout" or domain:
        return is_nondeterministic(node.op_type, domain, version), has_seed
    if version < 7:
        return not any(a.name == "is_test" and a.i for a in node.attribute), has_seed
    return len(node.input) > 2 and bool(node.input[2]), has_seed


def _downstream_outputs(graph: onnx.GraphProto, functions: FunctionTable, unseeded: set[str]) -> frozenset[str]:
    """The outputs downstream of `unseeded` values, also in subgraphs and functions."""
    found = set(unseeded)
    for node in graph.node:  # in topological order, as ONNX requires
        inside = list(_with_calls(node, functions))
        if any(name in found for n in inside for name in (*n.input, *n.output)):
            found.update(node.output)
    return frozenset(o.name for o in graph.output if o.name in found)


def _with_calls(node: onnx.NodeProto, functions: FunctionTable) -> Iterator[onnx.NodeProto]:
    work, called = [node], set[tuple[str, str, str]]()
    while work:
        for inner in all_nodes((work.pop(),)):
            yield inner
            key = (inner.domain, inner.op_type, inner.overload)
            if key in functions and key not in called:
                called.add(key)
                work += functions[key].node


FIRST_RUN_TIMEOUT = 600.0  # seconds for the first run
FIRST_RUN_TIMEOUTS = MappingProxyType({"quick": 60.0, "default": FIRST_RUN_TIMEOUT, "thorough": 3600.0})  # by effort
MIN_RUN_TIMEOUT, TIMEOUT_FACTOR = 20.0, 50.0  # for other runs: the minimum in seconds, and the ratio to the first run


class Session(Protocol):
    """A model loaded by a backend, which has a name."""

    @property
    def name(self) -> str: ...  # noqa: D102 - described above

    def run(self, outputs: Sequence[str], feeds: Arrays, timeout: float | None = None) -> list[Any]:
        """Run once, for at most `timeout` seconds. Raises EvaluationError."""
        ...


Backend = Callable[..., Session]
"""Loads a model, split or not. Raises ModelLoadError."""
BACKENDS: tuple[Backend, ...] = (LoadedModel, OnnxReference)
SINGLE_THREADED: Backend = partial(LoadedModel, config=SessionConfig(intra_op_threads=1))
"""For many small models, which more threads would slow down."""


@dataclass(slots=True)
class SeededSession:
    """A reproducible session. `make_session` is set if each run needs a new session, because generators keep state.

    `refusals` are the reasons of the backends that did not load the model before; they are named if the first run
    fails.
    """

    session: Session
    backend: Backend
    make_session: Callable[[], Session] | None = None
    seeds: Mapping[str, int | None] | None = None
    unseeded_outputs: frozenset[str] = frozenset()
    timeout: float = FIRST_RUN_TIMEOUT
    refusals: tuple[str, ...] = ()
    _is_used: bool = False

    def run(self, outputs: Sequence[str], feeds: Arrays, timeout: float | None = None) -> list[Any]:
        """Run once, with a timeout derived from the first run, or a shorter one. Raises EvaluationError."""
        if self._is_used and self.make_session is not None:
            self.session = self.make_session()
        start = perf_counter()
        try:
            results = self.session.run(outputs, feeds, min(self.timeout, timeout or self.timeout))
        except EvaluationError as e:
            if self.refusals and not self._is_used and type(e) is EvaluationError:
                raise EvaluationError("; ".join((*self.refusals, str(e)))) from e
            raise
        if not self._is_used:
            self.timeout = max(MIN_RUN_TIMEOUT, TIMEOUT_FACTOR * (perf_counter() - start))
        self._is_used = True
        return results


def open_session(
    model: Loadable,
    backend: Backend,
    *,
    random: bool,
    seeds: Mapping[str, int | None] | None = None,
    fresh_sessions: bool = False,
) -> SeededSession:
    """Load `model` in a backend, with seeds if it is `random`, from `seeds` if given. Raises ModelLoadError.

    `fresh_sessions`: each run always gets a session of its own.
    """
    if not random:
        return SeededSession(backend(model), backend, partial(backend, model) if fresh_sessions else None)
    found = add_seeds(model, seeds)
    make_session = partial(backend, found.model)
    return SeededSession(make_session(), backend, make_session, found.seeds, found.unseeded_outputs)


def open_original_session(
    model: Loadable, *, random: bool, fresh_sessions: bool, backends: Sequence[Backend]
) -> SeededSession:
    """Load `model` in the first backend that accepts it. Raises UnverifiableError."""
    reasons: list[str] = []
    for backend in backends:
        try:
            session = open_session(model, backend, random=random, fresh_sessions=fresh_sessions)
            return replace(session, refusals=tuple(reasons))
        except ModelLoadError as e:
            reasons.append(str(e))
    raise UnverifiableError(f"the original cannot be run: {'; '.join(dict.fromkeys(reasons))}")


def with_prepacked_weights(model: Loadable, like: SeededSession) -> SeededSession:
    """Load `model` like `like`, but with weights prepacked for onnxruntime's kernels. Raises ModelLoadError."""
    if not isinstance(like.session, LoadedModel) or not like.session.config.is_onnxruntime:
        raise ModelLoadError("only onnxruntime packs weights")
    backend = partial(LoadedModel, config=structs.replace(like.session.config, prepack_weights=True))
    return replace(open_session(model, backend, random=like.seeds is not None), timeout=like.timeout)


def with_perturbed_weights(model: Loadable, like: SeededSession, seed: int, ulps: int = 1) -> SeededSession:
    """Load `model` like `like`, with perturbed float weights. Raises ModelLoadError, also without weights."""
    perturbed = perturb_weights(split_model(model) if like.seeds is None else add_seeds(model).model, seed, ulps)
    if perturbed is None:
        raise ModelLoadError("there are no weights to perturb, or too many")
    make_session = partial(like.backend, perturbed)
    renewed = make_session if like.make_session is not None else None
    return SeededSession(make_session(), like.backend, renewed, timeout=like.timeout)
