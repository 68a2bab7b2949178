"""The names that a shell completes: `python docs/catalogue/names.py` writes them into the package.

To collect them takes longer than a shell may take for a word, as it imports all rules.
"""

from __future__ import annotations

import json

from passwright.app.cli.completion import FILE
from passwright.app.optimize.model_dumps import ALL, CHANGED
from passwright.app.options import DUMPS, EFFORTS, ENGINES, LEVELS, OPERATORS, PASSES, PIPELINES, RULES, TARGETS, TOOLS
from passwright.app.registry.adapter_names import PACKAGES
from passwright.app.registry.pass_sources import caller_registry
from passwright.core.ort import sessions
from passwright.core.ort.engines import BUILT_IN, EngineChoice, find_engine
from passwright.core.rewriting.rules import Rule
from passwright.core.run.pipeline import rules_in
from passwright.core.verify import effort
from passwright.passes.targets import TARGET_NAMES


def names_text() -> str:
    """The file: a line for each kind of names, without the names of plugins."""
    registry = caller_registry(())
    rules = [r for entry in registry.passes.values() for p in entry.passes for r in rules_in(p)]
    operators = {op for r in rules if isinstance(r, Rule) for pattern in r.patterns for op in pattern.operators()}
    names = {
        PASSES: sorted(registry.passes),
        RULES: sorted({r.name for r in rules}),
        PIPELINES: sorted(registry.pipelines),
        OPERATORS: sorted(operators),
        EFFORTS: list(effort.EFFORTS),
        LEVELS: list(sessions.LEVELS),
        TOOLS: list(PACKAGES),
        DUMPS: [ALL, CHANGED],
        TARGETS: [*TARGET_NAMES],
        ENGINES: [str(EngineChoice(name, p)) for name in BUILT_IN for p in find_engine(name).precisions],
    }
    return "{\n" + ",\n".join(f"{json.dumps(kind)}: {json.dumps(found)}" for kind, found in names.items()) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(names_text(), encoding="utf-8")
