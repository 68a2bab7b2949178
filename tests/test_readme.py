"""The README: its length, numbers and rule. tests/test_docs.py runs its blocks."""

from pathlib import Path
from statistics import geometric_mean

import pytest
from executable_documents import ROOT, blocks, write_file
from passwright.core.plugins.pass_registry import all_rules
from passwright.core.run.pipeline import leaves
from passwright.passes.pipelines import PIPELINES
from rewriting import load, op_types

from passwright import optimize

pytestmark = pytest.mark.usefixtures("_verifies_in_process")
README, DOCS = ROOT / "README.md", ROOT / "docs"
MAX_LINES = 150
VERDICTS = ("wrong", "invalid", "fails")
LATENCIES = ("passwright", "onnxsim", "onnxslim", "onnxoptimizer", "onnxscript", "ORT basic")  # in the README's order


def file_of(document: Path, name: str, folder: Path) -> Path:
    """The file of a document, written to a folder."""
    (block,) = (b for b in blocks(document) if b.file == name)
    return write_file(block, folder)


def table_cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|\n").split("|")]


def test_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= MAX_LINES


def test_numbers_are_current() -> None:
    passes = leaves(PIPELINES["basic"])
    counted = f"{len(passes)} passes with {sum(len(all_rules(p)) for p in passes)} rules"
    planted = (ROOT / "tests" / "planted" / "README.md").read_text(encoding="utf-8").split()[3]
    assert counted in README.read_text(encoding="utf-8")
    assert f"{planted} mistakes" in (DOCS / "wrong-changes.md").read_text(encoding="utf-8")


def test_verdicts_are_those_of_the_table_of_results() -> None:
    page = (DOCS / "results.md").read_text(encoding="utf-8")
    header, _, *rows = page[page.index("| model | nodes | passwright") :].partition("\n\n")[0].splitlines()
    columns = list(zip(*map(table_cells, rows), strict=True))
    found = [[sum(v in cell for cell in column) for v in VERDICTS] for column in columns[2:]]
    assert len(rows) == 68
    assert len(found) == len(table_cells(header)) - 2
    for document in (README.read_text(encoding="utf-8"), page):
        summary = document[document.index(f"| {' | '.join(VERDICTS)} |") :].partition("\n\n")[0].splitlines()[2:]
        assert [[int(cell) for cell in table_cells(line)[1:4]] for line in summary] == found


def test_latencies_are_means_over_the_models_that_all_get_right() -> None:
    page = (DOCS / "results.md").read_text(encoding="utf-8")
    header, _, *rows = page[page.index("| model | original, ms |") :].partition("\n\n")[0].splitlines()
    tools = [i for i, name in enumerate(table_cells(header)) if name in LATENCIES]
    measured = [[table_cells(row)[i] for i in tools] for row in rows]
    common = [row for row in measured if not set(row) & {*VERDICTS}]
    assert f"over the {len(common)} models" in " ".join(README.read_text(encoding="utf-8").split())
    shown = README.read_text(encoding="utf-8").partition("| latency | faster | slower |")[2].partition("\n\n")[0]
    by_name = dict(zip((table_cells(header)[i] for i in tools), zip(*common, strict=True), strict=True))
    for name, line in zip(LATENCIES, shown.splitlines()[2:], strict=True):
        ratios = [float(cell.strip("*").partition(" ")[0]) for cell in by_name[name]]
        surely = [ratio for ratio, cell in zip(ratios, by_name[name], strict=True) if cell.startswith("**")]
        counts = [str(sum(r < 1 for r in surely)), str(sum(r > 1 for r in surely))]
        assert table_cells(line)[4:] == [f"{geometric_mean(ratios):.2f}", *counts], name


def test_rule_of_the_readme_runs(tmp_path: Path) -> None:
    model = load("g (float[N] x) => (float[N] y) { a = Sin(x) b = Cos(x) y = Div(a, b) }")
    plugin = file_of(README, "my_rules.py", tmp_path)
    assert op_types(optimize(model, plugin=[plugin]).model) == ["Tan"]


def test_correct_change_is_recorded_in_the_model(tmp_path: Path) -> None:
    model = load("""pools (float[N,1,4,4] x, uint8[N,1,4,4] u) => (float[N,1,5,5] y, uint8[N,1,5,5] z)
        <int64[8] pads = {0,0,1,1,0,0,1,1}> {
        [pad] p = Pad(x, pads) [pool] y = MaxPool <kernel_shape = [2,2]> (p)
        [image_pad] q = Pad(u, pads) [image_pool] z = MaxPool <kernel_shape = [2,2]> (q) }""")
    result = optimize(
        model, plugin=[file_of(DOCS / "wrong-changes.md", "pad_pool.py", tmp_path)], only=["pad-pool"]
    ).model
    nodes = {n.name: {p.key: p.value for p in n.metadata_props} for n in result.graph.node}
    assert nodes["image_pool"] == {
        "passwright.rule": "pad_into_max_pool",
        "passwright.from": '["image_pool", "image_pad"]',
    }
    assert nodes["pool"] == {}
