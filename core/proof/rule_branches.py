"""Branches of a rule's function: those that it has, and those that it takes where it returns a replacement.

A branch is one side of an `if`, of a conditional expression or a case. One that ends by declining is none. What a rule
requires decides whether it fires.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from textwrap import dedent
from types import CodeType, FrameType
from typing import Any

from msgspec import Struct

from ..rewriting.rules import Rule

Position = tuple[int, int]
Range = tuple[Position, Position]
NOWHERE: Range = (0, 0), (0, 0)


class Branch(Struct, frozen=True):
    """One side of a decision: the places of its test and code, and those of the other side where it has no code.

    Places are lines, counted from the first one of the rule, and columns.
    """

    test: Range
    code: Range = NOWHERE
    other: Range = NOWHERE

    @property
    def line(self) -> int:
        """The line of its code, or of its test."""
        return (self.test if self.code == NOWHERE else self.code)[0][0]


class RuleCode(Struct, frozen=True):
    """The branches of a rule's function that may return a replacement, and the lines at which it returns.

    Both are empty if its source is not there.
    """

    branches: frozenset[Branch] = frozenset()
    sites: frozenset[int] = frozenset()

    @classmethod
    def of(cls, rule: Rule) -> RuleCode:
        """Read the source of a rule."""
        try:
            lines, _ = inspect.getsourcelines(rule.build)
            tree = ast.parse(dedent("".join(lines)))
        except (OSError, TypeError, SyntaxError):
            return cls()
        function = next((n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)), None)
        if function is None:
            return cls()
        functions = [n for n in ast.walk(function) if isinstance(n, ast.FunctionDef) and n is not function]
        inner = {id(n) for other in functions for n in ast.walk(other)}
        returns = (n for n in ast.walk(function) if isinstance(n, ast.Return) and id(n) not in inner)
        branches = (b for n in ast.walk(function) for b in branches_of(n))
        return cls(frozenset(branches), frozenset(n.lineno - 1 for n in returns))


def branches_of(node: ast.AST) -> Iterator[Branch]:
    """The branches of a decision that do not end by declining; none of other nodes."""
    if isinstance(node, ast.IfExp):
        yield from (Branch(_range([node.test]), _range([side])) for side in (node.body, node.orelse))
    elif isinstance(node, ast.If):
        test, body = _range([node.test]), _range(node.body)
        if not declines(node.body):
            yield Branch(test, body)
        if not node.orelse:
            yield Branch(test, other=body)
        elif not declines(node.orelse):
            yield Branch(test, _range(node.orelse))
    elif isinstance(node, ast.Match):
        subject = _range([node.subject])
        yield from (Branch(subject, _range(case.body)) for case in node.cases if not declines(case.body))


def declines(body: Sequence[ast.stmt]) -> bool:
    """Whether statements end without a replacement."""
    last = body[-1]
    is_none = isinstance(last, ast.Return) and (last.value is None or is_constant_none(last.value))
    return is_none or isinstance(last, ast.Raise)


def is_constant_none(node: ast.expr) -> bool:
    """Whether an expression is None."""
    return isinstance(node, ast.Constant) and node.value is None


def _range(nodes: Sequence[ast.expr] | Sequence[ast.stmt]) -> Range:
    first, last = nodes[0], nodes[-1]
    end = last.end_lineno or last.lineno, last.end_col_offset or 0
    return (first.lineno - 1, first.col_offset), (end[0] - 1, end[1])


@dataclass(slots=True)
class BranchRecorder:
    """Records the line and the branches of each call of a rule's function that returns a replacement."""

    rule: Rule
    calls: list[tuple[int, frozenset[Branch]]] = field(default_factory=list[tuple[int, frozenset[Branch]]])
    _taken: set[Branch] = field(default_factory=set[Branch])

    @contextmanager
    def recording(self) -> Generator[None]:
        """Record calls in this thread."""
        code = self.rule.build.__code__
        places = {c: _places(c, code.co_firstlineno, _indent(self.rule)) for c in code_objects(code)}
        branches = RuleCode.of(self.rule).branches
        former = sys.gettrace()

        def trace(frame: Any, event: str, _: Any) -> Any:
            if event != "call" or frame.f_code not in places:
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return self._tracer(branches, places[frame.f_code], is_main=frame.f_code is code)

        sys.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(former)

    def _tracer(self, branches: frozenset[Branch], places: Sequence[Position | None], *, is_main: bool) -> Any:
        last: Position | None = None
        if is_main:
            self._taken.clear()

        def trace(frame: FrameType, event: str, result: Any) -> Any:
            nonlocal last
            at = places[frame.f_lasti // 2] if event == "opcode" else None
            if at is not None:
                self._taken.update(b for b in branches if _enters(b, last, at))
                last = at
            if event == "return" and is_main and result is not None:
                self.calls.append((frame.f_lineno - frame.f_code.co_firstlineno, frozenset(self._taken)))
            return trace

        return trace


def _enters(branch: Branch, last: Position | None, at: Position) -> bool:
    """Whether a step to a place enters a branch: its code, or from its test to anything but the other side."""
    if branch.code != NOWHERE:
        return branch.code[0] <= at < branch.code[1]
    was_tested = last is not None and branch.test[0] <= last < branch.test[1]
    return was_tested and not any(begin <= at < end for begin, end in (branch.test, branch.other))


def code_objects(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of all that it defines."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from code_objects(const)


def _places(code: CodeType, first_line: int, indent: int) -> list[Position | None]:
    """The places of instructions in the source."""
    return [
        None if line is None or column is None else (line - first_line, column - indent)
        for line, _, column, _ in code.co_positions()
    ]


def _indent(rule: Rule) -> int:
    try:
        lines, _ = inspect.getsourcelines(rule.build)
    except (OSError, TypeError):
        return 0
    return len(lines[0]) - len(lines[0].lstrip())
