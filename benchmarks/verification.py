"""The cost of verification: `python benchmarks/verification.py`, over the golden models and a CNN of 102 MB.

For each model, medians of interleaved runs: `passes run` as a function without and with verification, both writing
the model, and two onnxruntime sessions with optimizations off, of the original and the result: made only, and made
and run once on every input that verification drew. Then, for wrong changes among many, how many replays it takes to
find them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import onnx
from onnx import parser as text
from passwright.core import EXACT, Build, Value, rule
from passwright.core.io.model_source import model_source
from passwright.core.ort.backends import OnnxRuntime
from passwright.core.verify.oracle import Oracle
from passwright.core.verify.verification_spec import VerificationSpec
from residual import residual_network

from passwright import optimize

GOLDEN = sorted((Path(__file__).parent.parent / "golden_models").glob("*.onnx"))
CHANGE_COUNTS = (50, 500, 2000)


@dataclass(frozen=True)
class Cost:
    """Seconds, medians: without and with verification, and of two sessions, made and with their runs."""

    unverified: float
    verified: float
    session_creation: float
    session_runs: float

    @property
    def ratio(self) -> float:
        """Of twice the unverified run and two sessions with their runs."""
        return self.verified / (2 * self.unverified + self.session_runs)

    @property
    def strict_ratio(self) -> float:
        """Of twice the unverified run and two sessions that are only made."""
        return self.verified / (2 * self.unverified + self.session_creation)


def time_call(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def run_all(session: OnnxRuntime, drawn: tuple[list[dict[str, Any]], list[str]]) -> None:
    feeds, names = drawn
    for f in feeds:
        session.run(names, f)


def measure_cost(path: Path, out: Path, repeats: int) -> Cost:
    rows: list[tuple[float, float, float, float]] = []
    source = model_source(path, inline=True)
    oracle = Oracle(source.loadable(), VerificationSpec.of(source.load()))
    drawn = [answer.input_set.feeds for answer in oracle.answers], oracle.output_names
    for _ in range(repeats):
        plain = time_call(lambda: optimize(path, verify=False, output=out))
        verified = time_call(lambda: optimize(path, output=out))
        created = time_call(lambda: [OnnxRuntime(path), OnnxRuntime(out)])
        used = time_call(lambda: [run_all(OnnxRuntime(p), drawn) for p in (path, out)])
        rows.append((plain, verified, created, used))
    return Cost(*(median(column) for column in zip(*rows, strict=True)))


@rule(lambda g, x: g.Relu(x), contract=EXACT)
def drop_relu(g: Build, x: Value) -> Value:
    """Relu(x) => x, right behind Abs only"""
    return x


def chain(steps: int, wrong: int) -> onnx.ModelProto:
    lines, last, aside = [], "x", "x"
    for i in range(steps):
        if i == wrong:
            lines.append(f"n = Neg({last}) aside = Relu(n)")
            aside = "aside"
        else:
            lines.append(f"p{i} = Abs({last}) r{i} = Relu(p{i})")
            last = f"r{i}"
    head = '<ir_version: 10, opset_import: ["": 17]> g (float[N,3] x) => (float[N,3] y)'
    return text.parse_model(f"{head} {{ {' '.join(lines)} y = Add({last}, {aside}) }}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--repeats", type=int, default=5)
    repeats = options.parse_args().repeats
    with TemporaryDirectory() as folder:
        out = Path(folder) / "out.onnx"
        large = Path(folder) / "residual.onnx"
        onnx.save(residual_network(), large)
        optimize(GOLDEN[0])  # imports
        costs = {path.stem: measure_cost(path, out, repeats) for path in (*GOLDEN, large)}
    print(
        f"{'model':28} {'plain':>9} {'verified':>9} {'sessions':>9} {'with runs':>9}  verified / (2 plain + with runs)"
    )
    for name, c in sorted(costs.items(), key=lambda item: item[1].ratio):
        seconds = " ".join(f"{s * 1e3:6.1f} ms" for s in (c.unverified, c.verified, c.session_creation, c.session_runs))
        print(f"{name:28} {seconds}  {c.ratio:.2f}  ({c.strict_ratio:.2f} of 2 plain + sessions)")
    shares = [(c.ratio, c.strict_ratio) for c in costs.values()]
    for what, column in zip(("with their runs", "only made"), zip(*shares, strict=True), strict=True):
        print(f"sessions {what}: median {median(column):.2f}, {sum(s <= 1 for s in column)} of {len(column)} within 1")
    for steps in CHANGE_COUNTS:
        places = (0, steps // 3, steps - 1)
        replays = [optimize(chain(steps, at), plugins=[drop_relu]).report.replays for at in places]
        print(f"one wrong among {steps} changes: {max(replays)} replays at most")


if __name__ == "__main__":
    main()
