"""The rule catalogue: completeness, examples, indexes and pictures."""

from facts import FAMILIES, opsets, passes_by_family
from pages import pages
from passwright.core import Pass, Rule, RulePass, from_onnx
from passwright.passes.pipelines import BUILT_IN, OPTIONAL_PASSES
from record import load_examples
from rewriting import apply_passes, cases, require_equivalent, to_onnx
from shown import before_and_after, pictures

EXAMPLES = load_examples()
EVERYTHING: dict[str, Rule | Pass] = {
    r.name: r for p in (*BUILT_IN, *OPTIONAL_PASSES) for r in (p.rules if isinstance(p, RulePass) else (p,))
}
CHECKED = {r.name for p in BUILT_IN if isinstance(p, RulePass) for r in p.rules}  # by tests/test_check_built_in.py
WITHOUT_EXAMPLE = {"debloat"}  # its examples need constants of many kilobytes


def test_every_rule_and_pass_has_an_example() -> None:
    assert EXAMPLES.keys() == EVERYTHING.keys() - WITHOUT_EXAMPLE, "python docs/catalogue/harvest.py records them anew"


def test_examples_apply_their_rules() -> None:
    idle: list[str] = []
    for name, example in EXAMPLES.items():
        model, item = example.model(), EVERYTHING[name]
        result, change_log = apply_passes(model, item)
        by = {change.by for change in change_log.changes}
        idle += [name] if not by or (isinstance(item, Rule) and by != {name}) else []
        if name not in CHECKED:
            require_equivalent(model, to_onnx(result), exact=change_log.is_exact)
    assert idle == []


def test_every_pass_is_in_one_family() -> None:
    found = [p.name for passes in passes_by_family().values() for p in passes]
    assert sorted(found) == sorted(p.name for p in (*BUILT_IN, *OPTIONAL_PASSES))
    assert all(passes_by_family().values())


def test_pages_cover_every_rule() -> None:
    found = pages()
    assert found.keys() == {
        "catalogue/index.md",
        "catalogue/operators.md",
        *(f"catalogue/{name}.md" for name in FAMILIES),
    }
    text = "\n".join(found.values())
    for p in (*BUILT_IN, *OPTIONAL_PASSES):
        assert f"\n## {p.name}\n" in text
    for name, item in EVERYTHING.items():
        assert f'data-pictures="{name}"' in text or name in WITHOUT_EXAMPLE
        assert not isinstance(item, Rule) or (f"\n### {name}\n" in text and f"\n{item.equation}\n" in text)


def test_rules_are_indexed_by_operator() -> None:
    rows = [line for line in pages()["catalogue/operators.md"].splitlines() if line.startswith("| Conv |")]
    assert len(rows) == 1
    assert "[merge_conv_with_pointwise](linear.md#merge_conv_with_pointwise)" in rows[0]
    assert "merge_transposes" not in rows[0]


@cases(
    ("name", "first"),
    {"replacement": ("fuse_gelu", 20), "pattern": ("drop_no_op_trilu", 14), "every opset": ("merge_transposes", 1)},
)
def test_first_opset(name: str, first: int) -> None:
    rule = EVERYTHING[name]
    assert isinstance(rule, Rule)
    assert opsets(rule, EXAMPLES[name])[0] == first


def test_removed_and_added_nodes_are_marked() -> None:
    before, after = before_and_after(EVERYTHING["merge_transposes"], EXAMPLES["merge_transposes"])
    assert [box.lines[0] for box in before.boxes if box.marked] == ["Transpose", "Transpose"]
    assert len([box for box in after.boxes if box.marked]) <= 1


def test_change_in_subgraph_is_drawn() -> None:
    for name, example in EXAMPLES.items():
        if not from_onnx(example.model()).graph.with_subgraphs():
            continue
        before, _ = before_and_after(EVERYTHING[name], example)
        assert before.boxes


def test_pictures_are_excluded_from_search() -> None:
    html = pictures(EVERYTHING["merge_transposes"], EXAMPLES["merge_transposes"])
    assert html.startswith('<div class="pictures" data-search-exclude>')
    assert html.count("<svg") == 3
