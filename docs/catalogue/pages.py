"""The pages of the rule catalogue: an index, and a page for each family."""

from __future__ import annotations

from collections.abc import Mapping

from facts import family_docstring, opsets, options, pass_docstring, passes_by_family, rule_details, rules_by_operator
from onnx import defs
from passwright.app.registry.guarantees import recorded_proof
from passwright.core import Pass, Rule, RulePass
from passwright.passes.pipelines import OPTIONAL_PASSES
from record import Example, load_examples

INDEX = """# The rule catalogue

This catalogue shows every pass and every rule, with their docstrings. `passes list` prints the same in the terminal,
and the [index by operator](operators.md) lists rules by the operators of their patterns.

A rule is an equation with a contract: `exact` (bit for bit), `rounding` (equal in real arithmetic), or
`conditional` (equal if its condition holds). The *guarantee* says what is [proved](../proofs.md) about the rule.
*Opsets* are those that have every operator in the pattern and in the result of the example; a rule may need a later
one, and then declines. *Critical values* are numbers at which the rule might be wrong; verification uses inputs next to
them. The pictures show the smallest model of the tests in which the rule fires, before and after: removed and added
nodes are filled. A picture may contain an Identity, where a value that is both input and output keeps its two names.

| family | passes | rules | |
|---|---:|---:|---|
"""


OPERATORS = """# Rules by operator

This index lists the rules whose patterns have an operator. `passes list --op Conv` prints those for one operator.

| operator | rules |
|---|---|
"""


def pages() -> dict[str, str]:
    """Markdown by path."""
    examples, found = load_examples(), passes_by_family()
    everything = [p for ps in found.values() for p in ps]
    rows = [index_row(f"[{name}]({name}.md)", ps, family_docstring(name)) for name, ps in found.items()]
    index = "".join([INDEX, *rows, index_row("all", everything, "")])
    return {
        "catalogue/index.md": index,
        "catalogue/operators.md": operator_page(),
        **{f"catalogue/{name}.md": family_page(name, ps, examples) for name, ps in found.items()},
    }


def operator_page() -> str:
    """The index by operator: the rules whose patterns have it."""
    rows = [
        f"| {operator} | {', '.join(f'[{r.name}]({family}.md#{r.name})' for family, r in rules)} |\n"
        for operator, rules in rules_by_operator().items()
    ]
    return "".join([OPERATORS, *rows])


def index_row(name: str, passes: list[Pass], summary: str) -> str:
    """A line of the index."""
    return f"| {name} | {len(passes)} | {len(rules_of(passes))} | {summary} |\n"


def rules_of(passes: list[Pass]) -> list[Rule]:
    """The rules that passes hold."""
    return [r for p in passes if isinstance(p, RulePass) for r in p.rules]


def family_page(name: str, passes: list[Pass], examples: Mapping[str, Example]) -> str:
    """A family: its passes in the order in which they run, and their rules."""
    return (
        "\n\n".join([f"# {name.capitalize()}", family_docstring(name), *(pass_section(p, examples) for p in passes)])
        + "\n"
    )


def pass_section(p: Pass, examples: Mapping[str, Example]) -> str:
    """A pass, and its rules or its example."""
    lines = [f"## {p.name}", pass_docstring(p)]
    if p in OPTIONAL_PASSES:
        lines.append(f"Runs only on request: `--enable {p.name}`.")
    lines += [f"Option `{name}`, by default {default!r}." for name, default in options(p)]
    if isinstance(p, RulePass):
        lines += [rule_section(r, examples[r.name]) for r in p.rules]
    elif p.name in examples:
        lines.append(placeholder(p.name))
    return "\n\n".join(lines)


def rule_section(rule: Rule, example: Example) -> str:
    """Its name, equation, contract, applicability, and the place of its pictures."""
    first, last = opsets(rule, example)
    known = f"{first} and later" if last == defs.onnx_opset_version() else f"{first} to {last}"
    facts = [f"**contract** {rule.contract}", f"**opsets** {known}"]
    if rule.critical_values:
        facts.append(f"**critical values** {', '.join(f'{x:g}' for x in rule.critical_values)}")
    if rule.allow_other_uses:
        facts.append("**allow other uses**: inner values may be used elsewhere")
    proof = recorded_proof(rule)
    lines = [
        f"### {rule.name}",
        f"``` {{.text .equation}}\n{rule.equation}\n```",
        rule_details(rule),
        " · ".join(facts),
        f"**guarantee** {proof.text}" if proof is not None else "",
    ]
    return "\n\n".join(filter(None, [*lines, placeholder(rule.name)]))


def placeholder(name: str) -> str:
    """The element that the pictures replace, once the page is HTML."""
    return f'<div data-pictures="{name}"></div>'
