"""The rule catalogue: every rule stands in it, and its example shows it."""

from __future__ import annotations

import pytest
from facts import FAMILIES, opsets, passes_by_family
from pages import pages
from passwright.core import Pass, Rule, RulePass, from_onnx
from passwright.passes.pipelines import BUILT_IN, OPTIONAL_PASSES
from record import load_examples
from rewriting import apply_passes, require_equivalent, to_onnx
from shown import before_and_after, pictures

EXAMPLES = load_examples()
EVERYTHING: dict[str, Rule | Pass] = {
    r.name: r for p in (*BUILT_IN, *OPTIONAL_PASSES) for r in (p.rules if isinstance(p, RulePass) else (p,))
}
CHECKED = {r.name for p in BUILT_IN if isinstance(p, RulePass) for r in p.rules}  # by tests/test_check_built_in.py
WITHOUT = {"debloat"}  # it is for constants of many kilobytes


def test_every_rule_and_pass_has_an_example() -> None:
    assert EXAMPLES.keys() == EVERYTHING.keys() - WITHOUT, "python docs/catalogue/harvest.py records them anew"


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_shows_its_rule(name: str) -> None:
    model = EXAMPLES[name].model()
    what = EVERYTHING[name]
    result, ledger = apply_passes(model, what)
    assert ledger.changes
    assert not isinstance(what, Rule) or {change.by for change in ledger.changes} == {name}
    if name not in CHECKED:
        require_equivalent(model, to_onnx(result), exact=ledger.is_exact)


def test_every_pass_stands_in_one_family() -> None:
    found = [p.name for passes in passes_by_family().values() for p in passes]
    assert sorted(found) == sorted(p.name for p in (*BUILT_IN, *OPTIONAL_PASSES))
    assert all(passes_by_family().values())


def test_pages_tell_of_every_rule() -> None:
    found = pages()
    assert found.keys() == {
        "catalogue/index.md",
        "catalogue/operators.md",
        *(f"catalogue/{name}.md" for name in FAMILIES),
    }
    text = "\n".join(found.values())
    for p in (*BUILT_IN, *OPTIONAL_PASSES):
        assert f"\n## {p.name}\n" in text
    for name, what in EVERYTHING.items():
        assert f'data-pictures="{name}"' in text or name in WITHOUT
        assert not isinstance(what, Rule) or (f"\n### {name}\n" in text and f"\n{what.equation}\n" in text)


def test_rules_are_indexed_by_operator() -> None:
    rows = [line for line in pages()["catalogue/operators.md"].splitlines() if line.startswith("| Conv |")]
    assert len(rows) == 1
    assert "[merge_conv_with_pointwise](linear.md#merge_conv_with_pointwise)" in rows[0]
    assert "merge_transposes" not in rows[0]


@pytest.mark.parametrize(
    ("name", "first"),
    [
        pytest.param("fuse_gelu", 20, id="what it writes"),
        pytest.param("drop_no_op_trilu", 14, id="what it looks for"),
        pytest.param("merge_transposes", 1, id="always there"),
    ],
)
def test_opsets(name: str, first: int) -> None:
    rule = EVERYTHING[name]
    assert isinstance(rule, Rule)
    assert opsets(rule, EXAMPLES[name])[0] == first


def test_what_goes_and_what_comes_is_marked() -> None:
    before, after = before_and_after(EVERYTHING["merge_transposes"], EXAMPLES["merge_transposes"])
    assert [box.lines[0] for box in before.boxes if box.marked] == ["Transpose", "Transpose"]
    assert len([box for box in after.boxes if box.marked]) <= 1


def test_a_change_in_a_body_is_shown_in_the_body() -> None:
    for name, example in EXAMPLES.items():
        if not from_onnx(example.model()).graph.with_subgraphs():
            continue
        before, _ = before_and_after(EVERYTHING[name], example)
        assert before.boxes


def test_pictures_are_left_out_of_the_search() -> None:
    html = pictures(EVERYTHING["merge_transposes"], EXAMPLES["merge_transposes"])
    assert html.startswith('<div class="pictures" data-search-exclude>')
    assert html.count("<svg") == 3
