"""`benchmarks/quantization.py`: outcomes, and the table."""

import json
from pathlib import Path
from typing import Any

import onnx
import pytest

ROOT = Path(__file__).parent.parent
LABEL = "ORT static"


@pytest.fixture
def quantization(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import quantization

    return quantization


def row(**changes: Any) -> dict[str, Any]:
    """A model of half the size that needs half the time and is as accurate."""
    facts = {"bytes": 500_000, "invalid": "", "accuracy": 0.9, "accuracy_failure": "", "seconds": 1e-3,
             "ratio": [0.5, 0.4, 0.6], "is_original": False}  # fmt: skip
    return facts | changes


def result(failure: str = "", **changes: Any) -> dict[str, Any]:
    race = {"machine": "a machine", "versions": {"onnxruntime": "1.31.1"}, "threads": 1, "batch": 1, "min_time": 0.5,
            "sets": 5, "rows": {"float32": row(bytes=1_000_000, ratio=None, seconds=2e-3)}}  # fmt: skip
    if not failure:
        race["rows"][LABEL] = row(**changes)
    return {"made": {LABEL: {"file": "x.onnx", "seconds": 3.0, "failure": failure}}, "race": race}


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        (result(), "faster"),
        (result(ratio=[1.0, 0.9, 1.1]), "as fast"),
        (result(ratio=[1.2, 1.1, 1.3]), "slower"),
        (result(ratio=[1.0, 0.9, 1.1], is_original=True), "original"),
        (result(accuracy=0.8911), "faster"),
        (result(accuracy=0.8909), "outside the budget"),
        (result(accuracy=0.8909, ratio=[1.2, 1.1, 1.3]), "outside the budget"),
        (result(accuracy=None, accuracy_failure="it does not run"), "invalid"),
        (result(accuracy=None, ratio=None, invalid="INVALID_GRAPH"), "invalid"),
        (result(invalid="No Op registered for QuickGelu"), "invalid"),
        (result("fails: ValueError: no"), "error"),
        (result("> 900 s"), "timeout"),
    ],
)
def test_outcome(quantization: Any, facts: dict[str, Any], outcome: str) -> None:
    assert quantization.verdict(LABEL, facts) == outcome


def test_table(quantization: Any) -> None:
    results = {
        "fast": result(),
        "broken": result("fails: ValueError: no"),
        "unusable": {"made": {}, "race": None, "failure": "x"},
    }
    text = "\n".join(quantization.format_results(results))
    assert "| fast | float32 | 1.00 |  | 0.9000 | 2 ms |  |  |" in text
    assert "|  | ORT static | 0.50 | 0.50 | 0.9000 | **0.50 ± 0.10** | faster | 3 |" in text
    assert "|  | ORT static |  |  |  |  | error | 3 |" in text
    assert "- ORT static: 1 error, 1 faster; within the budget in the geometric mean latency 0.50, size 0.50" in text
    assert "- broken, ORT static: fails: ValueError: no" in text
    assert "- unusable: not measured: x" in text
    assert text.count("a machine") == 1


def test_comparison_with_best_recipe(quantization: Any) -> None:
    """Wrong results are no competition; where there are no others, the original is."""

    def with_ours(theirs: dict[str, Any], *ratio: float) -> dict[str, Any]:
        facts = result(**theirs)
        facts["made"][quantization.OURS] = {"failure": ""}
        facts["race"]["rows"][quantization.OURS] = row(ratio=ratio)
        return facts

    raced = {
        "a": with_ours({}, 0.3, 0.2, 0.35),
        "b": with_ours({}, 0.6, 0.55, 0.65),
        "c": with_ours({}, 0.7, 0.65, 0.75),
        "d": with_ours({"accuracy": 0.1}, 0.7, 0.6, 0.8),
        "e": with_ours({"accuracy": 0.1}, 1.2, 1.1, 1.3),
    }
    raced["f"] = with_ours({}, 0.3, 0.2, 0.35)
    raced["f"]["race"]["rows"][quantization.OURS]["accuracy"] = 0.5
    (line,) = quantization.against_best_recipe(raced)
    assert line.endswith(": faster on 2: a, d; as fast on 1: b; slower on 2: c, e; not usable on 1: f")
    raced["g"] = with_ours({"bytes": 480_000, "ratio": [1.2, 1.1, 1.3]}, 0.3, 0.2, 0.35)
    raced["h"] = with_ours({"bytes": 600_000}, 0.3, 0.2, 0.35)
    (line,) = quantization.against_smallest_recipe(raced)
    assert line.endswith(": smaller on 3: d, e, h; as large on 3: a, b, c; larger on 1: g")


@pytest.mark.slow
def test_recipe_of_onnxruntime(quantization: Any, tmp_path: Path) -> None:
    subject = quantization.Subject.read(ROOT / "golden_models" / "trained" / "digits_mlp.json")
    made = {label: quantization.make(label, subject, tmp_path, 1, 120) for label in ("ORT dynamic", "ORT U8S8")}
    copy = tmp_path / "copy.onnx"
    copy.write_bytes(onnx.load(subject.path).SerializeToString())
    made["ORT static"] = {"file": str(copy), "failure": ""}
    assert "ShapeInferenceError" in made["ORT dynamic"]["failure"]
    race = quantization.race(subject, made, 1, 1, 0.05)
    found = race["rows"]["ORT U8S8"]
    assert found["bytes"] < race["rows"]["float32"]["bytes"] / 2
    assert found["accuracy"] > 0.98
    assert not found["invalid"]
    assert [label for label, facts in race["rows"].items() if facts["is_original"]] == ["ORT static"]


def test_summary_is_of_unseen_rows(quantization: Any, tmp_path: Path) -> None:
    """The figures stand in the search's report; the best of the others is within the budget."""
    facts = result(ratio=[0.8, 0.7, 0.9])
    facts["made"][quantization.OURS] = {"file": str(tmp_path / "ours.onnx"), "failure": ""}
    facts["race"]["rows"][quantization.OURS] = row(ratio=[0.3, 0.2, 0.4], bytes=250_000)
    facts["made"]["onnxsim"], facts["race"]["rows"]["onnxsim"] = {"failure": ""}, row(accuracy=0.1, ratio=[0.1] * 3)
    sides = {side: {"score": {"figure": figure}} for side, figure in (("original", 0.91), ("result", 0.905))}
    report = {**sides, "scheme": "static", "variant": "minmax"}
    (tmp_path / "ours.json").write_text(json.dumps(report))
    assert quantization.summary("a", facts) == [
        "a", "1.00", "0.9000 to 0.9000", "0.9100 to 0.9050", "0.25", "**0.30 ± 0.10**", "static, minmax", "faster",
        LABEL, "0.50", "**0.80 ± 0.10**",
    ]  # fmt: skip
    large, wrong = (json.loads(json.dumps(facts)) for _ in range(2))
    large["race"]["rows"][quantization.OURS]["bytes"] = 300_001
    wrong["race"]["rows"][quantization.OURS]["accuracy"] = 0.5
    (line,) = quantization.size_line({"a": facts, "large": large, "wrong": wrong})
    assert line.endswith("at 0.3 of the size or less: 1 of 3; not: large, wrong")


def test_commands_and_other_optimizers_make_models(quantization: Any, tmp_path: Path) -> None:
    """Both pipelines write a model; what fails is told in a line."""
    subject = quantization.Subject.read(ROOT / "golden_models" / "trained" / "digits_mlp.json")
    for label in quantization.RUNS:
        assert not quantization.make(label, subject, tmp_path, 1, 120)["failure"]
    assert len(list(tmp_path.glob("*.onnx"))) == 2
    missing = quantization.Subject(tmp_path / "none.onnx", "")
    assert quantization.make("passes run", missing, tmp_path, 1, 120)["failure"].startswith("fails: ")
