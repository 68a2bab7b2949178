"""The cost of a hundred rules that never match: `python benchmarks/unmatched_rules.py [MODEL.onnx]`.

Half of them are refused by what feeds an op, half only by what feeds that; each is rooted at an operator of the model.
The figure is the processor time of the pass that has them, against the rest of the rewriting by `basic`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import process_time

from measured_runs import make_mixed_models
from msgspec.structs import replace
from passwright.core import ChangeLog, Fixpoint, Graph, RewriteBuilder, Rule, RulePass, Value, rule
from passwright.core.io.model_source import model_source
from passwright.passes.pipelines import BUILT_IN

RULES, ROUNDS, NODES = 100, 7, 20_000
ABSENT = ("Erf", "Acos", "Atan", "Ceil", "Floor", "Round", "Sign", "Softplus", "Cosh", "Sinh")


def unmatched_rule(root: str, feeder: str, absent: str) -> Rule:
    @rule(
        lambda g, x: g.one_of(root)(g.one_of(feeder)(g.one_of(absent)(x), ...), ...) if feeder else
        g.one_of(root)(g.one_of(absent)(x), ...)
    )  # fmt: skip
    def never_matches(g: RewriteBuilder, x: Value) -> Value:
        return x

    return never_matches


def unmatched_rules(kinds: list[tuple[str, str]]) -> RulePass:
    """Rules for ops of those types, with feeders of those types."""
    made = [unmatched_rule(*kinds[i % len(kinds)], ABSENT[i % len(ABSENT)]) for i in range(RULES // 2)]
    made += [unmatched_rule(kinds[i % len(kinds)][0], "", ABSENT[i % len(ABSENT)]) for i in range(RULES // 2)]
    return RulePass("idle-rules", tuple(replace(r, name=f"{r.name}_{n}") for n, r in enumerate(made)))


def producer_pairs(path: Path) -> list[tuple[str, str]]:
    graph = model_source(path, inline=True).load().graph
    pairs = {
        (op.type, v.producer.type) for op in graph.ops() for v in op.inputs if v is not None and v.producer is not None
    }
    return sorted(p for p in pairs if "Constant" not in p)


class TimedPass:
    """A pass whose processor time is counted."""

    def __init__(self, timed: RulePass) -> None:
        self.name, self.rules, self.run_timed, self.seconds = timed.name, timed.rules, timed.run, 0.0

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        start = process_time()
        changes = self.run_timed(graph, change_log)
        self.seconds += process_time() - start
        return changes


def idle_share(path: Path, rules: RulePass) -> float:
    """The time of the rules as a part of the time of `basic` without them."""
    graph, timed = model_source(path, inline=True).load().graph, TimedPass(rules)
    start = process_time()
    Fixpoint("basic", (*BUILT_IN, timed)).run(graph, ChangeLog())
    return timed.seconds / (process_time() - start - timed.seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=Path)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        path = options.model or next(make_mixed_models([NODES], Path(folder)))
        rules = unmatched_rules(producer_pairs(path))
        shares = [100 * idle_share(path, rules) for _ in range(ROUNDS)]
    sys.stdout.write(f"{median(shares):.2f} % more, {min(shares):.2f} to {max(shares):.2f}\n")


if __name__ == "__main__":
    main()
