"""What the README shows is what happens."""

from __future__ import annotations

from pathlib import Path

import pytest
from documents import ROOT, blocks, run_document, write_file
from passwright.core.pass_manager.pipeline import leaves
from passwright.core.plugins.pass_registry import all_rules
from passwright.passes.pipelines import PIPELINES
from rewriting import load, op_types

from passwright import optimize

README = ROOT / "README.md"


@pytest.fixture
def plugins(tmp_path: Path) -> dict[str, Path]:
    return {block.file: write_file(block, tmp_path) for block in blocks(README) if block.file}


def test_what_it_shows_is_what_happens(tmp_path: Path) -> None:
    assert run_document(README, tmp_path, executed_files={"model.py"}) >= 6
    assert not (tmp_path / "strict.onnx").exists()


def test_its_numbers_are_true() -> None:
    passes = leaves(PIPELINES["basic"])
    counted = f"{len(passes)} passes with {sum(len(all_rules(p)) for p in passes)} rules"
    planted = (ROOT / "tests" / "planted" / "README.md").read_text(encoding="utf-8").split()[3]
    readme, verification = (p.read_text(encoding="utf-8") for p in (README, ROOT / "docs" / "verification.md"))
    assert counted in readme
    assert f"{planted} mistakes" in readme
    assert f"{planted} mistakes" in verification


def test_the_rule_runs(plugins: dict[str, Path]) -> None:
    model = load("g (float[N] x) => (float[N] y) { a = Sin(x) b = Cos(x) y = Div(a, b) }")
    assert op_types(optimize(model, plugins=[plugins["my_rules.py"]]).model) == ["Tan"]


def test_the_change_that_is_right_is_named_in_the_model(plugins: dict[str, Path]) -> None:
    model = load("""pools (float[N,1,4,4] x, uint8[N,1,4,4] u) => (float[N,1,5,5] y, uint8[N,1,5,5] z)
        <int64[8] pads = {0,0,1,1,0,0,1,1}> {
        [pad] p = Pad(x, pads) [pool] y = MaxPool <kernel_shape = [2,2]> (p)
        [image_pad] q = Pad(u, pads) [image_pool] z = MaxPool <kernel_shape = [2,2]> (q) }""")
    result = optimize(model, plugins=[plugins["pad_pool.py"]], only=["pad-pool"]).model
    nodes = {n.name: {p.key: p.value for p in n.metadata_props} for n in result.graph.node}
    assert nodes["image_pool"] == {
        "passwright.rule": "pad_into_max_pool",
        "passwright.from": '["image_pool", "image_pad"]',
    }
    assert nodes["pool"] == {}
