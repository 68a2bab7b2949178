"""Names that a shell completes; files are left to the shell."""

from __future__ import annotations

from collections.abc import Callable

PASSES, RULES, PIPELINES, OPERATORS, EFFORTS, LEVELS, TOOLS = (
    "passes", "rules", "pipelines", "operators", "efforts", "levels", "tools",
)  # fmt: skip


def complete_names(*kinds: str) -> Callable[[str], list[str]]:
    """The names of these kinds that begin as the word to complete."""

    def complete(incomplete: str) -> list[str]:
        names = built_in_names()
        return [name for kind in kinds for name in names[kind] if name.startswith(incomplete)]

    return complete


def complete_lists(*kinds: str) -> Callable[[str], list[str]]:
    """The names of these kinds that begin as the last one of a comma-separated list, each behind the others."""

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        taken = before.split(",")
        return [f"{before}{comma}{name}" for name in complete_names(*kinds)(last) if name not in taken]

    return complete


def built_in_names() -> dict[str, list[str]]:
    """The built-in names by kind; to collect the names of plugins would run their code."""
    from ...core.ort.sessions import LEVELS as levels_of_ort  # noqa: N811, PLC0415 - imports onnx
    from ...core.rewriting.rules import Rule  # noqa: PLC0415 - as above
    from ...core.run.pipeline import rules_in  # noqa: PLC0415 - as above
    from ...core.verify.verification_spec import EFFORTS as efforts  # noqa: N811, PLC0415 - as above
    from ..registry.adapter_names import PACKAGES  # noqa: PLC0415 - as above
    from ..registry.pass_sources import caller_registry  # noqa: PLC0415 - as above

    registry = caller_registry(())
    rules = [r for entry in registry.passes.values() for p in entry.passes for r in rules_in(p)]
    operators = {op for r in rules if isinstance(r, Rule) for pattern in r.patterns for op in pattern.operators()}
    return {
        PASSES: sorted(registry.passes),
        RULES: sorted({r.name for r in rules}),
        PIPELINES: sorted(registry.pipelines),
        OPERATORS: sorted(operators),
        EFFORTS: list(efforts),
        LEVELS: list(levels_of_ort),
        TOOLS: list(PACKAGES),
    }
