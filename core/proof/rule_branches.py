"""Branches of a rule's code: all, and the branches that it takes when it returns a replacement.

The code is the function of the rule, and functions in the same folder that it calls. A branch is one side of a
decision: of an `if`, a conditional expression or a case, of a loop, or of a comparison whose result is a number. A side
that always declines is no branch. What a rule requires determines whether it fires. Quotients, extremes and entries of
tables also decide (`number_decisions`): their outcomes count once they are evaluated.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, cast

import msgspec
import numpy as np
from msgspec import Struct

from ..rewriting.rules import Rule
from .number_decisions import (
    NOTHING,
    NUMBER,
    THREE,
    TWO,
    UNKNOWN,
    NumberDecision,
    Outcomes,
    changes_state,
    decisions_of,
    is_repeatable,
    names_in,
    narrowed,
    outcomes_of,
    repeated,
    unknown,
    unlisted,
)

Position = tuple[int, int]
Range = tuple[Position, Position]
Function = ast.FunctionDef | ast.Lambda
NOWHERE: Range = (0, 0), (0, 0)


class Branch(Struct, frozen=True):
    """One side of a decision of a function: the places of its test, its code and the other side.

    Without code it is taken if the test continues anywhere but at the other side; with an `outcome`, if the test has
    this result, as text. Places are lines and columns of the file.
    """

    function: str
    first_line: int
    test: Range
    code: Range = NOWHERE
    other: Range = NOWHERE
    outcome: str | None = None

    @property
    def line(self) -> int:
        """The line of its code, or of its test, relative to the first line of the function."""
        return (self.test if self.code == NOWHERE else self.code)[0][0] - self.first_line


class RuleCode(Struct, frozen=True):
    """The branches of a rule's function that may return a replacement, and the lines at which it returns.

    Both are empty if its source is not available.
    """

    branches: frozenset[Branch] = frozenset()
    sites: frozenset[int] = frozenset()

    @classmethod
    def of(cls, rule: Rule) -> RuleCode:
        """Read the source of a rule."""
        code = rule.build.__code__
        returns = [n for f in _functions_of(code) for n in _own_nodes(f) if isinstance(n, ast.Return)]
        return cls(branches_of(code), frozenset(n.lineno - code.co_firstlineno for n in returns))


@cache
def branches_of(code: CodeType) -> frozenset[Branch]:
    """The branches of a function and of those that it defines; empty if its caller tests everything that it returns."""
    return frozenset(
        branch
        for function in _functions_of(code)
        if not _is_predicate(function)
        for branch in _Reader(code, function).branches()
    )


def _is_predicate(function: Function) -> bool:
    """Whether a function returns bools, according to its annotation or each of its results."""
    if isinstance(function, ast.Lambda):
        return _is_truth(function.body)
    results = [n.value for n in _own_nodes(function) if isinstance(n, ast.Return)]
    is_annotated = isinstance(function.returns, ast.Name) and function.returns.id == "bool"
    return is_annotated or (bool(results) and all(map(_is_truth, results)))


def _functions_of(code: CodeType) -> Sequence[Function]:
    """The syntax of a function; several functions for lambdas on one line."""
    return _functions_in(code.co_filename).get((code.co_firstlineno, code.co_name), [])


@cache
def _functions_in(filename: str) -> Mapping[tuple[int, str], list[Function]]:
    """The functions of a file by the line at which their code starts, and by name."""
    found: dict[tuple[int, str], list[Function]] = {}
    with suppress(SyntaxError):
        for node in ast.walk(ast.parse("".join(linecache.getlines(filename)))):
            if isinstance(node, ast.FunctionDef):
                first = min(n.lineno for n in (node, *node.decorator_list))
                found.setdefault((first, node.name), []).append(node)
            elif isinstance(node, ast.Lambda):
                found.setdefault((node.lineno, "<lambda>"), []).append(node)
    return found


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without the nodes of functions that it defines."""
    for inner in ast.iter_child_nodes(node):
        if not isinstance(inner, Function):
            yield inner
            yield from _own_nodes(inner)


@dataclass(slots=True)
class _Reader:
    """Reads the branches of one function."""

    code: CodeType
    function: Function
    tested: set[int] = field(default_factory=set[int])
    """Nodes of tests, each result of which is a branch or declines, and of values of names that only tests read."""

    def __post_init__(self) -> None:
        nodes = [*self._nodes()]
        for node in nodes:
            self._add_tests(_tests_of(node))
        read = [n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
        others = {n.id for n in read if id(n) not in self.tested}
        for node in nodes:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)]) | ast.NamedExpr(target=ast.Name(id=name)):
                    self._add_tests([node.value] if name not in others else [])
                case _:
                    pass

    def _add_tests(self, tests: Sequence[ast.AST]) -> None:
        self.tested.update(id(inner) for test in tests for inner in ast.walk(test))

    def _nodes(self) -> Iterator[ast.AST]:
        body = self.function.body if isinstance(self.function, ast.FunctionDef) else [self.function.body]
        return (node for part in body for node in ast.walk(part))

    def branches(self) -> Iterator[Branch]:
        """Yield the branches of decisions that do not always decline."""
        for node in self._nodes():
            if isinstance(node, ast.IfExp):
                yield from (self._branch(node.test, [side]) for side in (node.body, node.orelse))
            elif isinstance(node, ast.If | ast.While):
                yield from self._sides(node)
            elif isinstance(node, ast.For):
                yield self._branch(node.iter, node.body)
            elif isinstance(node, ast.Match):
                yield from self._cases(node)
            elif isinstance(node, ast.Try):
                yield from (self._branch(node.body[0], h.body) for h in node.handlers if not declines(h.body))
            elif isinstance(node, ast.Lambda):
                yield self._branch(node, [node.body])
            elif id(node) not in self.tested:
                yield from self._of_values(node)

    def loop_tests(self) -> Iterator[Range]:
        """Yield the places of the tests of loops."""
        for node in self._nodes():
            if isinstance(node, ast.For | ast.While):
                yield _range([node.iter if isinstance(node, ast.For) else node.test])

    def _branch(self, test: ast.AST, code: Sequence[ast.AST] = (), other: Range = NOWHERE) -> Branch:
        places = _range([test]), _range(code) if code else NOWHERE, other
        return Branch(self.code.co_name, self.code.co_firstlineno, *places)

    def _sides(self, node: ast.If | ast.While) -> Iterator[Branch]:
        if not declines(node.body):
            yield self._branch(node.test, node.body)
        if not node.orelse:
            yield self._branch(node.test, other=_range(node.body))
        elif not declines(node.orelse):
            yield self._branch(node.test, node.orelse)

    def _cases(self, node: ast.Match) -> Iterator[Branch]:
        yield from (self._branch(node.subject, case.body) for case in node.cases if not declines(case.body))
        last = node.cases[-1]
        if last.guard is not None or not (isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None):
            yield self._branch(node.subject, other=_range([node.cases[0].pattern, last.body[-1]]))

    def _of_values(self, node: ast.AST) -> Iterator[Branch]:
        """Yield the outcomes of a comparison, the operands that `and` and `or` may skip, and filtered elements."""
        if isinstance(node, ast.Compare) and is_repeatable(node, self._builder):
            made = self._branch(node)
            yield from (Branch(made.function, made.first_line, made.test, outcome=str(side)) for side in (False, True))
        elif isinstance(node, ast.BoolOp):
            yield from (self._branch(node.values[0], [value]) for value in node.values[1:])
        elif isinstance(node, ast.ListComp | ast.SetComp | ast.GeneratorExp):
            yield from (self._branch(test, [node.elt]) for part in node.generators for test in part.ifs)

    def untested_calls(self) -> Iterator[Range]:
        """Yield the places of calls whose results are not tested."""
        return (_range([n]) for n in self._nodes() if isinstance(n, ast.Call) and id(n) not in self.tested)

    def decisions(self) -> Iterator[tuple[Range, NumberDecision]]:
        """Yield the decisions that are evaluated again, by their place."""
        comparisons = (n for n in self._nodes() if isinstance(n, ast.Compare) and id(n) not in self.tested)
        of_truth = ((n, NumberDecision(ast.Tuple([n], ast.Load()), truth)) for n in comparisons)
        for node, decision in (*of_truth, *decisions_of(self.function, self.tested)):
            decides_nothing = isinstance(node, ast.Call) and (_tests_of(node) or self._builder in names_in(node.func))
            if decides_nothing:
                continue
            if is_repeatable(decision.operands, self._builder):
                yield _range([node]), decision
            elif changes_state(decision.operands) and decision.outcomes not in (narrowed, unlisted):
                yield _range([node]), NumberDecision(ast.Tuple([], ast.Load()), unknown)

    @property
    def _builder(self) -> str:
        """The name of the first parameter, which adds ops when it is read again."""
        return next((a.arg for a in self.function.args.args), "")


def _tests_of(node: ast.AST) -> Sequence[ast.AST]:
    """The parts of a node that are tests: of decisions, of requirements, and of a result that the caller tests."""
    match node:
        case ast.If() | ast.IfExp() | ast.While() | ast.Assert():
            return [node.test]
        case ast.comprehension():
            return node.ifs
        case ast.match_case(guard=ast.expr() as guard):
            return [guard]
        case ast.Call(func=ast.Name(id=name)) if name.startswith("require"):
            return node.args
        case ast.Return() if _is_truth(node.value):
            return [node.value] if node.value is not None else []
        case _:
            return []


def _is_truth(node: ast.AST | None) -> bool:
    """Whether an expression must be true or false, judging by its form."""
    match node:
        case ast.Compare() | ast.UnaryOp(op=ast.Not()) | ast.Call(func=ast.Name(id="all" | "any" | "bool")):
            return True
        case ast.Constant(value=bool()):
            return True
        case ast.BoolOp():
            return all(map(_is_truth, node.values))
        case _:
            return False


def truth(value: Any) -> Outcomes:
    """Whether a value is true, or which elements of an array are."""
    return [str(side) for side in np.unique(np.asarray(value, bool)).tolist()], ()


def with_counts(taken: Iterable[Branch]) -> frozenset[Branch]:
    """The branches that are taken, with those that two or three numbers at one place take together."""
    known = frozenset(taken)
    numbers = Counter(msgspec.structs.replace(b, outcome=None) for b in known if (b.outcome or "").startswith(NUMBER))
    counts = ((place, word) for place, n in numbers.items() for word, least in ((TWO, 2), (THREE, 3)) if n >= least)
    return known.union(msgspec.structs.replace(place, outcome=word) for place, word in counts)


def declines(body: Sequence[ast.stmt]) -> bool:
    """Whether statements always end without a replacement."""
    last = body[-1]
    is_none = isinstance(last, ast.Return) and (last.value is None or is_constant_none(last.value))
    return is_none or isinstance(last, ast.Raise)


def is_constant_none(node: ast.expr) -> bool:
    """Whether an expression is None."""
    return isinstance(node, ast.Constant) and node.value is None


def _range(nodes: Sequence[Any]) -> Range:
    first, last = nodes[0], nodes[-1]
    return (first.lineno, first.col_offset), (last.end_lineno, last.end_col_offset)


class _Instruction(Struct, frozen=True):
    """The branches that one instruction enters, those whose test contains it, and the outcomes of what it decides.

    `loops` are the branches that are bodies of loops containing it.
    """

    place: Range
    entered: Sequence[Branch] = ()
    tested: Sequence[Branch] = ()
    loops: Sequence[Branch] = ()
    decided: Branch | None = None
    operands: CodeType | None = None
    outcomes: Callable[..., Outcomes] = truth

    def evaluated(self, frame: FrameType) -> Outcomes:
        """The outcomes of its decision in a frame, as the instruction evaluates it."""
        if self.operands is None:
            return NOTHING
        names = {**frame.f_globals, **frame.f_locals}
        read = (names.get(name) for code in code_objects(self.operands) for name in code.co_names)
        if any(map(_can_be_read_once, read)):
            return UNKNOWN
        return outcomes_of(self.outcomes, eval(self.operands, names))  # noqa: S307 - code of the rule, which runs anyway


def _can_be_read_once(value: Any) -> bool:
    """Whether a value is an iterator, or a collection that contains one."""
    if isinstance(value, list | tuple | set | frozenset | dict):
        held = cast("Iterable[Any]", value.values() if isinstance(value, dict) else value)
        return any(isinstance(v, Iterator) for v in held)
    return isinstance(value, Iterator)


@cache
def _instructions(code: CodeType, owner: CodeType) -> Sequence[_Instruction | None]:
    """The instructions of code in a function by number; None for an instruction without a place."""
    found: list[_Instruction | None] = []
    branches = branches_of(owner)
    readers = [_Reader(owner, f) for f in _functions_of(owner) if not _is_predicate(f)]
    loop_tests = {test for reader in readers for test in reader.loop_tests()}
    decisions = {place: d for reader in readers for place, d in reader.decisions()}
    for first, last, begin, end in code.co_positions():
        if first is None or last is None or begin is None or end is None:
            found.append(None)
            continue
        place = (first, begin), (last, end)
        entered = [b for b in branches if b.code != NOWHERE and _contains(b.code, place)]
        tested = [b for b in branches if b.code == NOWHERE and b.outcome is None and _contains(b.test, place)]
        loops = [b for b in entered if b.test in loop_tests]
        at = _Instruction(place, entered, tested, loops)
        if (decision := decisions.get(place)) is not None:
            decided = Branch(owner.co_name, owner.co_firstlineno, place)
            tree = ast.fix_missing_locations(ast.Expression(decision.operands))
            operands = compile(tree, code.co_filename, "eval")
            at = _Instruction(place, entered, tested, loops, decided, operands, decision.outcomes)
        found.append(at)
    return found


@cache
def _untested_calls(owner: CodeType) -> frozenset[Range]:
    """The places of calls in a function whose results are not tested; empty for a function that returns bools."""
    functions = [f for f in _functions_of(owner) if not _is_predicate(f)]
    return frozenset(place for f in functions for place in _Reader(owner, f).untested_calls())


def _leaves(branch: Branch, place: Range) -> bool:
    return not _contains(branch.test, place) and not _contains(branch.other, place)


def _contains(outer: Range, inner: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


@dataclass(slots=True)
class BranchRecorder:
    """For each call that returns a replacement, records the line, the branches taken and all branches."""

    rule: Rule
    calls: list[tuple[int, frozenset[Branch], frozenset[Branch]]] = field(
        default_factory=list[tuple[int, frozenset[Branch], frozenset[Branch]]]
    )
    _owners: dict[CodeType, CodeType] = field(default_factory=dict[CodeType, CodeType])
    _taken: set[Branch] = field(default_factory=set[Branch])
    _known: set[Branch] = field(default_factory=set[Branch])
    """Outcomes of decisions that were evaluated."""
    _is_called: bool = False

    @contextmanager
    def recording(self) -> Generator[None]:
        """Record calls in this thread."""
        code = self.rule.build.__code__
        folder = Path(code.co_filename).parent
        former = sys.gettrace()

        def trace(frame: FrameType, event: str, _: Any) -> Any:
            called = frame.f_code
            if called is code:
                self._owners, self._taken, self._known, self._is_called = {}, set(), set(), True
            elif event != "call" or not self._is_called or Path(called.co_filename).parent != folder:
                return None
            if called not in self._owners:
                self._owners |= dict.fromkeys(code_objects(called), called)
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return self._tracer(_instructions(called, self._owners[called]), is_main=called is code)

        sys.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(former)

    def _tracer(self, instructions: Sequence[_Instruction | None], *, is_main: bool) -> Any:
        last: _Instruction | None = None
        trips = Counter[Branch]()

        def trace(frame: FrameType, event: str, result: Any) -> Any:
            nonlocal last
            at = instructions[frame.f_lasti // 2] if event == "opcode" else None
            if at is not None and at is not last:
                self._taken.update(at.entered)
                trips.update(b for b in at.loops if last is None or not _contains(b.code, last.place))
                if last is not None:
                    self._taken.update(b for b in last.tested if _leaves(b, at.place))
                if at.decided is not None and (last is None or last.place != at.place):
                    self._add_outcomes(at.decided, at.evaluated(frame))
                last = at
            if event == "return":
                for branch, count in trips.items():
                    self._add_outcomes(branch, repeated(count))
            if event == "return" and isinstance(result, bool) and not is_main:
                self._add_result(frame, result)
            if event == "return" and is_main:
                self._is_called = False
                if result is not None:
                    found = frozenset(b for code in {*self._owners.values()} for b in branches_of(code))
                    site = frame.f_lineno - frame.f_code.co_firstlineno
                    self.calls.append((site, frozenset(self._taken), found | self._known))
            return trace

        return trace

    def _add_outcomes(self, decided: Branch, outcomes: Outcomes) -> None:
        """Add the outcomes of a decision, and all outcomes that count."""
        of = partial(msgspec.structs.replace, decided)
        self._taken.update(of(outcome=o) for o in outcomes[0])
        self._known.update(of(outcome=o) for o in outcomes[1])

    def _add_result(self, frame: FrameType, result: bool) -> None:
        """Add the result of a function as an outcome of its call if that is not tested."""
        caller = frame.f_back
        if caller is None or caller.f_code not in self._owners or frame.f_code.co_name.endswith(("comp>", "expr>")):
            return
        owner = self._owners[caller.f_code]
        at = _instructions(caller.f_code, owner)[caller.f_lasti // 2]
        if at is not None and at.place in _untested_calls(owner):
            made = [Branch(owner.co_name, owner.co_firstlineno, at.place, outcome=str(side)) for side in (False, True)]
            self._known.update(made)
            self._taken.add(made[result])


def code_objects(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function, and of all functions that it defines."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from code_objects(const)
