"""`passes diff` of two reports: what is better, worse, or not decided."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import onnx
import pytest
from commands import invoke
from page_parser import ParsedPage
from passwright.app.diff.diff_options import DiffOptions
from passwright.app.diff.report_diff import Figure, FigureChange, compare_reports, describe_reports
from passwright.core.errors import PassesError
from rewriting import cases, load

import passwright

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")
TEXT = "g (float[N,4] x) => (float[N,4] y) { a = Identity(x) b = Identity(a) y = Relu(b) }"


def ratio(low: float, high: float, why: str = "") -> Figure:
    return Figure("ratio", (low * high) ** 0.5, low, high, why)


@cases(
    ("before", "after", "outcome"),
    {
        "more nodes": (Figure("count", 9), Figure("count", 10), "worse"),
        "fewer nodes": (Figure("count", 9), Figure("count", 8), "better"),
        "a few bytes": (Figure("bytes", 1000), Figure("bytes", 1009), "same"),
        "many bytes": (Figure("bytes", 1000), Figure("bytes", 1020), "worse"),
        "overlapping": (ratio(0.8, 0.9), ratio(0.85, 1.1), "same"),
        "slower": (ratio(0.8, 0.9), ratio(0.95, 1.1), "worse"),
        "faster": (ratio(0.8, 0.9), ratio(0.5, 0.7), "better"),
        "busy": (ratio(0.8, 0.9), ratio(0.95, 1.1, "the machine is busy"), "inconclusive"),
        "wrong": (Figure("verdict", "verified"), Figure("verdict", "wrong"), "worse"),
        "unverified": (Figure("verdict", "verified"), Figure("verdict", "not verified"), "worse"),
        "right again": (Figure("verdict", "fails: no"), Figure("verdict", "verified"), "better"),
        "accuracy": (Figure("accuracy", 0.9), Figure("accuracy", 0.8), "changed"),
        "gone": (Figure("count", 9), None, "missing"),
    },
)
def test_outcomes(before: Figure, after: Figure | None, outcome: str) -> None:
    assert FigureChange("m", "figure", before, after).outcome == outcome


def written(folder: Path, name: str, **options: Any) -> Path:
    passwright.optimize(load(TEXT), json=folder / name, **options)
    return folder / name


def test_two_runs(tmp_path: Path) -> None:
    base, new = written(tmp_path, "a.json"), written(tmp_path, "b.json", skip=["drop_identity"])
    result = invoke("diff", base, new, "--html", tmp_path / "d.html", "--json", tmp_path / "d.json", code=3)
    assert "nodes" in result.stdout
    assert "1 figure worse" in result.stdout or "2 figures worse" in result.stdout
    found = json.loads((tmp_path / "d.json").read_text())
    assert found["is_worse"]
    assert {c["name"]: c["outcome"] for c in found["changes"]}["nodes"] == "worse"
    page = ParsedPage((tmp_path / "d.html").read_text())
    assert "worse" in page.text
    assert "nothing is worse" in invoke("diff", new, base).stdout
    assert "::error" not in invoke("diff", base, base, "--format", "github").stdout
    assert "::error" in invoke("diff", base, new, "--format", "github", code=3).stdout


def test_reports_of_other_conditions_have_no_times(tmp_path: Path) -> None:
    def bench(name: str, median: float, threads: int) -> Path:
        x = {"median": median, "median_low": median, "median_high": median, "is_disturbed": False}
        model = {"model": "m.onnx", "engine": "onnxruntime", "bytes": 9, "accuracy": None, "ratios": {}}
        model["measured"] = {"failure": "", "latencies": {"1": x}}
        (tmp_path / name).write_text(json.dumps({"models": [model], "threads": threads}))
        return tmp_path / name

    base = bench("a.json", 1e-3, 1)
    assert "worse" in invoke("diff", base, bench("b.json", 2e-3, 1), code=3).stdout
    shown = invoke("diff", base, bench("c.json", 2e-3, 2)).stdout
    assert "inconclusive" in shown
    assert "times are not compared, as conditions differ: threads: 1 and 2" in shown


def bench_of(sizes: dict[str, int], failing: str = "") -> dict[str, Any]:
    common = {"engine": "onnxruntime", "accuracy": None, "ratios": {}}
    measured = {m: {"failure": "it crashed" if m == failing else "", "latencies": {}} for m in sizes}
    return {"models": [{"model": m, "bytes": n, "measured": measured[m], **common} for m, n in sizes.items()]}


QUANTIZED = {"trials": [], "source": "m.onnx", "figure": "top1", "result": {"bytes": 1}}


@cases(
    ("before", "after", "worse"),
    {
        "a model that fails now in bench": (bench_of({"m": 1}), bench_of({"m": 1}, "m"), ["verdict"]),
        "a model that fails now in a batch": (
            {"outcomes": {}, "models": [{"model": "m.onnx", "error": "", "report": QUANTIZED}]},
            {"outcomes": {}, "models": [{"model": "m.onnx", "error": "it crashed", "report": None}]},
            ["verdict"],
        ),
        "models of one name": (bench_of({"a/m": 100, "b/m": 100}), bench_of({"a/m": 200, "b/m": 100}), ["bytes"]),
    },
)
def test_no_difference_is_missed(
    tmp_path: Path, before: dict[str, Any], after: dict[str, Any], worse: list[str]
) -> None:
    base, new = tmp_path / "base.json", tmp_path / "new.json"
    base.write_text(json.dumps(before))
    new.write_text(json.dumps(after))
    assert [c.name for c in compare_reports(base, new, DiffOptions()).worse] == worse
    assert not compare_reports(new, base, DiffOptions()).worse


@cases(
    ("text", "message"),
    {
        "no JSON": ("{", "not a report in JSON"),
        "nested": ("[" * 100_000, "not a report in JSON"),
        "a list": ("[]", "not a report of passes"),
        "another object": ("{}", "not a report of run, batch, verify"),
    },
)
def test_other_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.json").write_text(text)
    assert message in invoke("diff", tmp_path / "a.json", written(tmp_path, "b.json"), code=2).stderr


HOSTILE = (
    None, True, -1, "", "x\n\x1b[2J", "9" * 5000, [], {}, [1], [[]], {"": ""}, 10**400, float("inf"), float("nan"),
)  # fmt: skip


def places(data: Any) -> Iterator[tuple[Any, Any]]:
    """The containers of a report in JSON, with the key of each value in them."""
    for key, value in [*(data.items() if isinstance(data, dict) else enumerate(data))]:
        yield data, key
        if isinstance(value, dict | list):
            yield from places(value)


def test_damaged_reports_are_compared_or_refused_in_a_line(tmp_path: Path) -> None:
    ratio = {"ratio": 1, "low": 1, "high": 1, "inconclusive": ""}
    x = {"median": 1e-3, "median_low": 1e-3, "median_high": 1e-3, "is_disturbed": False}
    measured = {"failure": "", "latencies": {"1": x}}
    model = {"model": "m", "engine": "web", "bytes": 9, "accuracy": 1, "ratios": {"1": ratio}, "measured": measured}
    stats = {"nodes": 1, "bytes": 1}
    row = {"stats": stats, "verdict": {"wrong": ""}, "failure": "", "label": "a", "ratios": {"1": ratio}}
    run = {"source": "m", "after": {"nodes": 3, "bytes": 9}, "verification": {}, "rejected": [], "passes": [],
           "speed": {"races": [{"ratio": ratio}]}}  # fmt: skip
    reports = [
        run,
        {"models": [model], "threads": 1}, {"rows": [row]}, {"other": "a", "agrees": True},
        {"outcomes": {}, "models": [{"model": "m", "error": "", "report": run}]},
        {"trials": [], "source": "m", "figure": "top1", "result": {"bytes": 1, "ratio": ratio, "score": {"figure": 1}}},
    ]  # fmt: skip
    base, other = tmp_path / "base.json", tmp_path / "other.json"
    for report in reports:
        base.write_text(json.dumps(report))
        for holder, key in places(report):
            right = holder[key]
            for wrong in HOSTILE:
                holder[key] = wrong
                other.write_text(json.dumps(report))
                for pair in ((base, other), (other, base)):
                    with suppress(PassesError):
                        describe_reports(compare_reports(*pair, DiffOptions()))
            holder[key] = right


def test_page_of_two_models(tmp_path: Path) -> None:
    onnx.save(load(TEXT), tmp_path / "a.onnx")
    passwright.optimize(tmp_path / "a.onnx", output=tmp_path / "b.onnx")
    invoke("diff", tmp_path / "a.onnx", tmp_path / "b.onnx", "--html", tmp_path / "d.html", code=1)
    page = ParsedPage((tmp_path / "d.html").read_text())
    assert "2 ops removed" in page.text
    assert "- Identity" in page.text
