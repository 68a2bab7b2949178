"""Times of models in onnxruntime here and in a browser, and on WebGPU what runs where.

    python benchmarks/web.py model.onnx model.ort

On a busy machine a median says how often a page waits; so loads and calls of all models alternate in random order, and
the shortest of each is shown, on one thread. See docs/web.md.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import perf_counter

from passwright.app.measure.feeds import make_feeds
from passwright.core import EngineSession, EngineSettings, find_engine
from passwright.core.io.model_source import model_source

SINGLE = EngineSettings(threads=1)


def timer(session: EngineSession, call: Callable[[], object]) -> Callable[[], float]:
    """A function for the seconds of a call, as the page measures them or as they pass here."""

    def seconds() -> float:
        start = perf_counter()
        own = call()
        return float(own) if session.load_seconds and isinstance(own, float) else perf_counter() - start

    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--calls", type=int, default=300)
    parser.add_argument("--loads", type=int, default=10)
    parser.add_argument("--engines", default="onnxruntime,web")
    options = parser.parse_args()
    feeds = make_feeds(model_source(options.models[0], inline=False), None, (1,)).by_batch[1]
    rows = [(e, m) for e in options.engines.split(",") for m in options.models]
    loads, timers, precisions = dict[object, float](), dict[object, Callable[[], float]](), dict[object, str]()
    order = Random(0)  # what comes first after a wait is seldom interrupted
    for row in [row for _ in range(options.loads) for row in order.sample(rows, len(rows))]:
        engine, model = row
        start = perf_counter()
        session = find_engine(engine).load(model, SINGLE)
        taken = session.load_seconds or perf_counter() - start
        loads[row] = min(loads.get(row, taken), taken)
        timers[row], precisions[row] = timer(session, session.bind(feeds)), session.precision
    least = {row: min(seconds() for _ in range(5)) for row, seconds in timers.items()}
    for _ in range(options.calls):
        for row, seconds in order.sample(list(timers.items()), len(timers)):
            least[row] = min(least[row], seconds())
    for engine, model in rows:
        row = (engine, model)
        times = f"load {1e3 * loads[row]:.3g} ms, call {1e3 * least[row]:.3g} ms"
        print(f"{engine:12} {model.name:32} {model.stat().st_size / 1e3:.0f} kB, {times}, {precisions[row]}")


if __name__ == "__main__":
    main()
