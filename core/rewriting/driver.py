"""Application of rules until none fires, using an index of rules and a worklist of ops, in O(nodes)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, cast

import numpy as np

from ..errors import GraphError, MatchFailure, MissingOperator, ModelError, NoFixpoint, RuleError, require
from ..inference import schema_violation
from ..ir.graph import FRESH_NAME_MARK, Graph, attribute_graphs, enclosing_op
from ..ir.op import Op, inherit_name, made_from, set_origin
from ..ir.tensor import element_type
from ..ir.values import BUILDER, Value
from ..processes.watchdog import require_time
from ..support.author_errors import describe_failed_call
from ..support.context_values import set_within_block
from .builder import RewriteBuilder
from .change_log import ChangeLog
from .pattern import OpPattern, Var
from .rules import Match, Rule


class Worklist:
    """The ops still to be visited, each once, in FIFO order.

    A dict would be slow, because finding its first entry skips all removed ones.
    """

    def __init__(self) -> None:
        self._queue: deque[Op] = deque()
        self._waiting: set[Op] = set()

    def add(self, ops: Iterable[Op]) -> None:
        """Append those `ops` that are not in the list."""
        for op in ops:
            if op not in self._waiting:
                self._waiting.add(op)
                self._queue.append(op)

    def __bool__(self) -> bool:
        return bool(self._queue)

    def __iter__(self) -> Iterator[Op]:
        """Remove and yield the first op until none is left; more may be added meanwhile."""
        while self._queue:
            op = self._queue.popleft()
            self._waiting.remove(op)
            yield op


InputSignature = tuple[str, bool]
"""An input of an op: the type of its producer in the same graph, and whether it is constant."""
InputSignatures = tuple[InputSignature, ...] | frozenset[InputSignature]
MAX_ORDERED_INPUTS = 4  # inputs whose order matters; with more, only the set of signatures is used


class RuleIndex:
    """Rules by root operator and producers of its inputs.

    Ops with equal signatures share one list, so that rules that do not match take almost no time.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.by_root_type: dict[str, list[Rule]] = {}
        for r in rules:
            for op_type in r.root_types:
                self.by_root_type.setdefault(op_type, []).append(r)
        self._by_inputs = {  # the operators for which inputs are relevant
            op_type for op_type, found in self.by_root_type.items()
            if not all(any(_may_match(p, op_type, ()) for p in r.patterns) for r in found)
        }  # fmt: skip
        self._cache: dict[tuple[str, InputSignatures], list[Rule]] = {}

    def candidates_at(self, op: Op) -> list[Rule]:
        """The rules that may match at `op`, in order."""
        if op.type not in self._by_inputs:
            return self.by_root_type.get(op.type, [])
        home = op.graph
        kinds: list[InputSignature] = []
        for v in op.inputs:
            if v is not None:
                maker = v.producer
                made_by = maker.type if maker is not None and maker.graph is home else ""
                kinds.append((made_by, v.tensor is not None))
        key = (op.type, tuple(kinds) if len(kinds) <= MAX_ORDERED_INPUTS else frozenset(kinds))
        found = self._cache.get(key)
        if found is None:
            found = self._cache[key] = [
                r for r in self.by_root_type[op.type] if any(_may_match(p, *key) for p in r.patterns)
            ]
        return found


def _may_match(pattern: OpPattern, root_type: str, kinds: InputSignatures) -> bool:
    """Whether the pattern's root has that operator, and the inputs can match those that it constrains."""
    if root_type not in pattern.types:
        return False
    makers = [part for part in pattern.parts if not part.may_be_outside]
    if not all(any(made_by in want.types for made_by, _ in kinds) for want in makers):
        return False
    if isinstance(kinds, tuple):
        types = {t for want in makers for t in want.types}
        if sum(made_by in types for made_by, _ in kinds) < len(makers):
            return False
    needs_constant = any(
        isinstance(want, int | float) or (isinstance(want, Var) and want.constant and not want.optional)
        for want in pattern.inputs
    )
    return not needs_constant or any(is_constant for _, is_constant in kinds)


@np.errstate(all="ignore")  # rules examine the numbers that they write
def rewrite(
    graph: Graph, rules: Iterable[Rule] | RuleIndex, change_log: ChangeLog, *, budget: int | None = None
) -> Counter[str]:
    """Apply `rules` in `graph` and all its subgraphs until none fires; return how often each fired.

    Raises NoFixpoint after `budget` rewrites (by default, 100 plus ten per op).
    """
    candidates = rules if isinstance(rules, RuleIndex) else RuleIndex(rules)
    work, fired = Worklist(), Counter[str]()
    size = 0
    for g in graph.with_subgraphs():
        size += len(g)
        if not g.op_types.isdisjoint(candidates.by_root_type):
            work.add(sorted(g.ops(*candidates.by_root_type), key=attrgetter("order_key")))
    budget = 100 + 10 * size if budget is None else budget
    apply = apply_rule if change_log.rule_hooks is None else _apply_watched
    for op in work:
        rules_at_op = candidates.candidates_at(op)
        if not rules_at_op or op not in op.graph or not is_live(op):
            continue
        if change_log.stopped:
            break
        require_time()
        for r in rules_at_op:
            touched = apply(r, op, change_log)
            if touched is not None:
                fired[r.name] += 1
                if fired.total() > budget:
                    busiest = fired.most_common(3)
                    counted = ", ".join(f"{name} {n} times" for name, n in busiest)
                    raise NoFixpoint(f"still changing after {budget} rewrites: {counted}", [n for n, _ in busiest])
                work.add(t for t in touched if t.type in candidates.by_root_type)
                break
    return fired


def is_live(op: Op) -> bool:
    """Whether an output of the op is used. Dead ops are not rewritten."""
    return any(v.consumers or op.graph.is_output(v) for v in op.outputs)


def apply_rule(r: Rule, root: Op, change_log: ChangeLog) -> list[Op] | None:
    """Try one rule at one op. Return the ops to visit again, or None if nothing changed."""
    try:
        for match in r.matches(root):
            touched = _apply_match(r, match, change_log)
            if touched is not None:
                return touched
    except MatchFailure as why:  # raised while matching
        _record_decline(r, root, why, change_log)
    return None


def _apply_watched(r: Rule, root: Op, change_log: ChangeLog) -> list[Op] | None:
    """Like `apply_rule`, with hooks."""
    hooks, context = change_log.rule_hooks, root.graph.context
    assert hooks is not None
    hooks.call("before_rule", context, r, root)
    touched = apply_rule(r, root, change_log)
    hooks.call("after_rule", context, r, root, is_changed=touched is not None)
    return touched


def _record_decline(r: Rule, root: Op, why: object, change_log: ChangeLog) -> None:
    """Report to the hooks, if rules are watched, why a rule declined; the graph is unchanged."""
    if (hooks := change_log.rule_hooks) is not None:
        hooks.call("declined", root.graph.context, r, root, str(why))


def _apply_match(r: Rule, match: Match, change_log: ChangeLog) -> list[Op] | None:
    """Rewrite one match, unless the rule declines."""
    root, place = match.ops[0], _match_location(match)
    exact = r.is_exact_at(root)
    if not change_log.may_change(r.name, place, exact=exact):
        _record_decline(r, root, change_log.refusal(r.name, place, exact=exact), change_log)
        return None
    g, context = RewriteBuilder(root.graph, root, of_rule=True), root.graph.context
    before = context.mutation_count
    declined: MatchFailure | None = None
    try:
        new = _build_replacement(r, g, match, place)
        change_log.require_change(r.name, place, match.ops, exact=exact)
        if change_log.type_changes is not None:
            change_log.type_changes[change_log.change_count - 1] = _type_change(match, new)
        touched = _replace_root_outputs(r.name, match, new, g.added_ops)
    except MatchFailure as why:
        root.graph.discard(g.added_ops[::-1])
        touched = None
        if isinstance(why, MissingOperator):
            change_log.missing_operators.setdefault((why.op_type, why.since), set()).add(place)
        declined = why
    except GraphError as e:
        raise RuleError(f"the values that {r.name} returned cannot replace {root.label}: {e}", r.name, place) from e
    for v in g.constants:
        root.graph.drop_initializer(v)
    if touched is None:
        context.mutation_count = before  # the graph is unchanged
        _record_decline(r, root, declined, change_log)
    return touched


@contextmanager
def tentative_build(r: Rule, match: Match) -> Generator[list[Op]]:
    """The ops that a rule adds for a match, which are in the graph within the context, without dead ones.

    Raises MatchFailure or RuleError like `apply_rule`.
    """
    root = match.ops[0]
    g, mutations = RewriteBuilder(root.graph, root, of_rule=True), root.graph.context.mutation_count
    try:
        with np.errstate(all="ignore"):
            new = _build_replacement(r, g, match, _match_location(match))
        used, left = set[Op](), [v.producer for v in new if v is not None and v not in match.outputs]
        own = set(g.added_ops)
        while left:
            if (op := left.pop()) in own and op not in used:
                used.add(op)
                left += [v.producer for v in (*op.inputs, *op.captures) if v is not None]
        yield [op for op in g.added_ops if op in used]
    finally:
        root.graph.discard(g.added_ops[::-1])
        for v in g.constants:
            root.graph.drop_initializer(v)
        root.graph.context.mutation_count = mutations


def try_build(r: Rule, match: Match) -> None:
    """Build the replacement of a match, and remove it again. Raises MatchFailure or RuleError like `apply_rule`."""
    with tentative_build(r, match):
        pass


def _match_location(match: Match) -> str:
    """The name of the first used output of the first root."""
    root = match.roots[0]
    return next((v.name for v in root.outputs if v.consumers or root.graph.is_output(v)), root.outputs[0].name)


def _build_replacement(r: Rule, g: RewriteBuilder, match: Match, place: str) -> tuple[Value | None, ...]:
    """The replacement of each output of each root, built and checked, but not connected yet.

    Raises RuleError for an exception of the rule, a changed graph, and an invalid result.
    """
    root, context = match.ops[0], g.graph.context
    is_allowed = not r.contract.is_lossy or context.quantization is not None
    require(is_allowed, "its contract is lossy, and the pipeline does not quantize")
    if len(match.roots) > 1:
        _require_independent(match.roots)
    mutations = context.mutation_count
    try:
        with set_within_block(BUILDER, g):
            built: Any = r.replacement(g, match)
    except (ModelError, NoFixpoint, KeyboardInterrupt):
        raise
    except MatchFailure as e:
        built = e
    except BaseException as e:
        for op in match.ops if isinstance(e, Exception) else ():
            require(not (why := schema_violation(op)), f"{op.label} is invalid: {why}")
        what = describe_failed_call(e, r.build.__code__)
        raise RuleError(f"rule {r.name} failed at {root.label}: {what}", r.name, place) from e
    if context.mutation_count - mutations != len(g.added_ops) + len(g.constants):
        what = f"rule {r.name} changed the graph at {root.label}; it may only add ops with its builder"
        raise RuleError(what, r.name, place)
    if isinstance(built, MatchFailure):
        raise _in_words_of_author(built, match, g.added_ops)
    parts = _parts_for_roots(r, match, built, place)
    new = tuple(v for op, part in zip(match.roots, parts, strict=True) for v in _values_for_outputs(r, op, part, place))
    pairs = [(old, v) for old, v in zip(match.outputs, new, strict=True) if v is not None and v is not old]
    require(pairs, "the rule returned the matched value itself")
    for old, v in pairs if root.type == "Identity" else ():  # others are replaced by an Identity between two names
        root.graph.require_replaceable(old, v)
    if why := _problem_of_bodies(match, new, g.added_ops):
        raise RuleError(f"{r.name} {why}", r.name, place)
    return new


def _in_words_of_author(why: MatchFailure, match: Match, added: list[Op]) -> MatchFailure:
    """Replace generated names in a decline, which authors do not know."""
    if FRESH_NAME_MARK in str(why):
        why.args = (match.in_words_of_author(str(why), added, FRESH_NAME_MARK),)
    return why


def _type_change(match: Match, new: tuple[Value | None, ...]) -> str:
    """Describe the first output that is replaced by a value of another type or rank; "" if there is none."""
    for old, v in zip(match.outputs, new, strict=True):
        if v is None or v.known_dtype == 0 or old.known_dtype == 0:
            continue
        before, after = old.known_shape, v.known_shape
        is_other_rank = before is not None and after is not None and len(before) != len(after)
        if v.known_dtype != old.known_dtype or is_other_rank:
            what = "rank" if is_other_rank else "type"
            return f"it replaced {old.name} ({_type_text(old)}) by a value of another {what} ({_type_text(v)})"
    return ""


def _type_text(value: Value) -> str:
    """Element type, shape and rank as text, such as float[N,4], rank 2."""
    kind, shape = element_type(value.known_dtype), value.known_shape
    return kind if shape is None else f"{kind}[{','.join(map(str, shape))}], rank {len(shape)}"


MAX_SEARCHED_OPS = 1000


def _require_independent(roots: tuple[Op, ...]) -> None:
    """Decline if one of several roots depends on another, because their replacements may read any root's inputs.

    Only a limited number of ops, up to the last root in file order, is searched.
    """
    last = max(op.order_key for op in roots)
    for root in roots:
        stack, seen = [root], {root}
        while stack:
            for user in (user for v in stack.pop().outputs for user in v.consumers):
                op = enclosing_op(root.graph, user)
                require(op not in roots, f"{root.label} is computed for {op.label if op is not None else ''}")
                if op is not None and op not in seen and op.order_key <= last:
                    seen.add(op)
                    stack.append(op)
            require(len(seen) < MAX_SEARCHED_OPS, f"too many ops use {root.label} before the other roots")


def _parts_for_roots(r: Rule, match: Match, built: Any, place: str) -> tuple[Any, ...]:
    """The parts of a replacement, one per root: everything for a single root, the elements of a tuple for several."""
    if len(match.roots) == 1:
        return (built,)
    parts = cast("tuple[Any, ...]", built if isinstance(built, tuple) else ())
    if len(parts) != len(match.roots):
        wanted = f"a tuple with a value, or a tuple of values, for each of its {len(match.roots)} roots"
        raise RuleError(f"{r.name} returned {built!r} instead of {wanted}", r.name, place)
    return parts


def _values_for_outputs(r: Rule, root: Op, built: Any, place: str) -> tuple[Value | None, ...]:
    """The value that a rule `built` for each output of the root; None for unused ones."""
    if built is None:
        raise RuleError(f"{r.name} returned nothing; return the replacement, or decline with require", r.name, place)
    new = cast("tuple[Any, ...]", built if isinstance(built, tuple) else (built,))
    if not all(v is None or isinstance(v, Value) for v in new):
        raise RuleError(f"{r.name} returned {built!r} instead of values", r.name, place)
    if any(v is not None for v in new[len(root.outputs) :]):
        raise RuleError(f"{r.name} returned more values than {root.label} has outputs", r.name, place)
    new = (*new, *[None] * len(root.outputs))[: len(root.outputs)]
    for old, v in zip(root.outputs, new, strict=True):
        if v is None and (old.consumers or root.graph.is_output(old)):
            raise MatchFailure(f"the rule returned no value for {old.name}, which is used")
    return new


def _problem_of_bodies(match: Match, new: tuple[Value | None, ...], added: list[Op]) -> str:
    """Why new ops cannot have the bodies in their attributes; "" if each body stays with its op or is moved once."""
    taken: dict[Graph, Op] = {}
    kept = [v for v in match.outputs if v in new]
    for op in added:
        for body in attribute_graphs(op):
            owner = body.owner
            if owner is None or owner not in match.ops:
                return f"gave {op.type} a body of an op that it does not match"
            if body in taken:
                return f"gave two ops the body of {owner.label}"
            others = [user for v in owner.outputs for user in v.consumers if user not in match.ops]
            is_output = any(map(owner.graph.is_output, owner.outputs))
            if kept if owner in match.roots else others or is_output:
                return f"gave {op.type} the body of {owner.label}, which is still used"
            taken[body] = op
    return ""


def _replace_root_outputs(by: str, match: Match, new: tuple[Value | None, ...], added: list[Op]) -> list[Op]:
    """Replace the outputs of the roots by the new values; return the ops to visit again.

    The matched ops are recorded as origin of the added ones. If these read an output of a root, they are inserted after
    it. Otherwise, the last of them inherits the root's name, doc string and metadata in the file.
    """
    root = match.ops[0]
    graph = root.graph
    set_origin(added, by, match.ops)
    inputs = (v for op in match.roots for v in op.inputs)
    near = {p: None for v in inputs if v is not None and (p := graph.producer(v)) is not None}
    consumers = [user for old in match.outputs for user in old.consumers]
    replacements: dict[Value, Value] = {}  # the value that replaced each new value
    for old, v in zip(match.outputs, new, strict=True):
        if v is None or v is old:
            continue
        maker = graph.producer(v)
        if v not in replacements and maker is not None and maker in added:
            if any(op in added for op in old.consumers):
                graph.insert_behind(old, v, added)
            else:
                graph.take_over(v, old)
            replacements[v] = old
        elif (identity := graph.replace_value(old, replacements.setdefault(v, v))) is not None:
            made_from(identity, by, match.ops)
    for op in added:
        graph.take_bodies(op)
    graph.discard(match.ops)
    if added and not added[-1].name and root not in graph:
        inherit_name(added[-1], root)
    touched = [*(p for p in near if p in p.graph), *(op for op in added if op in op.graph)]
    return [*touched, *consumers]
