"""A pass ends the process, as a script does that was made a plugin."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from passwright.core import ChangeLog, Graph

MODEL = """g (float[N,4] x) => (float[N,4] y, float[N,4] z) {
    a = Neg(x)
    y = Abs(a)
    b = Identity(x)
    z = Exp(b)
}"""
WRONG = (("exits", ""),)
WHY = "raised"
AFTER = {"Abs": 1, "Exp": 1, "Neg": 1}


@dataclass(frozen=True)
class Exits:
    """Leaves."""

    name: str = "exits"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:  # noqa: ARG002 - it never asks
        sys.exit("nothing to do")


EXITS = Exits()
