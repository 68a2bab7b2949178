"""Tables of a quantization on the terminal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from passwright.app.quantize.criterion import Score
from passwright.app.quantize.document import trial_table
from passwright.app.quantize.search import Trial
from passwright.app.report.document import Document
from passwright.app.report.terminal import Terminal
from passwright.core.support.confidence_intervals import RatioInterval

EQUAL, FASTER = RatioInterval(0.987, 0.951, 1.043), RatioInterval(0.512, 0.498, 0.534)
TRIALS = [
    Trial("static", "percentile, Softmax in float", 131, 67, 12_345_678, Score(31.2, 0.1), EQUAL, "another is faster"),
    Trial("static", "GPTQ, int8-weights", 198, 0, 123_456_789, Score(0.98765, 0.5), FASTER, "over the budget"),
    Trial("weights4", "HQQ", 12, 186, 987_654, None, None, f"invalid: node {'long_name' * 4}"),
    Trial("half-weights", "", 1198, 10, 0, None, RatioInterval(1.4, 1.3, 1.5), "slower and larger than another"),
]


def shown(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> str:
    monkeypatch.setenv("COLUMNS", str(width))
    report: Any = SimpleNamespace(figure="SQNR (dB)", trials=TRIALS)
    Terminal().show(Document("", "", "", evidence=[trial_table(report)]))
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [80, 100, 200])
def test_trials_fit_into_80_columns(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(width, monkeypatch, capsys)
    assert text.startswith("┏")
    assert max(map(len, text.splitlines())) <= width
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    for cell in ("131/198", "1198/1208", "123.5 MB", "31.2", "no", "(0.95-1.04)", "0.51", "(0.50-0.53)", "1.40"):
        assert cell in text, cell
    parts = [[part.strip() for part in line.split("│")[1:-1]] for line in text.splitlines() if line.startswith("│")]
    assert "long_name" * 4 in "".join(row[-1] for row in parts)


def test_trials_in_less_than_80_columns_are_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(60, monkeypatch, capsys)
    assert "  time: no difference (0.95-1.04)\n" in text
    assert f"  outcome: invalid: node {'long_name' * 4}\n" in text
