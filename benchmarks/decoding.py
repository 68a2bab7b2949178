"""Times of decoders with a cache: `python benchmarks/decoding.py FIRST.onnx OTHER.onnx ...`, on one thread.

Prints for each model its bytes, and its time divided by that of the first for one token behind 128, 1024 and 4000
others and for 64 tokens at once: the median of the ratios of rounds in which each model runs in turn. With it, the
signal to noise of its logits in dB against those of the first, behind no cache.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter, thread_time
from typing import Any

import numpy as np
import onnx
import onnxruntime

CASES = {"behind 128": (1, 128), "behind 1024": (1, 1024), "behind 4000": (1, 4000), "prefill 64": (64, 0)}
"""Tokens, and tokens before them."""


def data_files(path: Path) -> set[Path]:
    """The files with the weights of a model."""
    library: Any = onnx  # its argument has no types
    weights: list[onnx.TensorProto] = library.load(path, load_external_data=False).graph.initializer
    names = (e.value for t in weights for e in t.external_data if e.key == "location")
    return {path.parent / name for name in names}


def loaded(path: Path, threads: int) -> Any:
    ort: Any = onnxruntime  # has no types
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def feeds(session: Any, tokens: int, past: int, vocabulary: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    made: dict[str, Any] = {}
    for value in session.get_inputs():
        if value.type == "tensor(int64)":
            made[value.name] = rng.integers(0, vocabulary, (1, tokens))
        else:
            _, heads, _, width = value.shape
            numbers = rng.standard_normal((1, heads, past, width), np.float32)
            made[value.name] = numbers if value.type == "tensor(float)" else (numbers * 32).astype(np.int8)
    return made


def raced(sessions: list[Any], given: list[dict[str, Any]], rounds: int, threads: int) -> list[float]:
    """The median time of each model divided by the time of the first in the same round; of one thread, its CPU time."""
    now = thread_time if threads == 1 else perf_counter
    times = np.empty((rounds, len(sessions)))
    for row in times:
        for i, session in enumerate(sessions):
            start = now()
            session.run(None, given[i])
            row[i] = now() - start
    ratios: list[float] = np.median(times / times[:, :1], axis=0).tolist()
    return ratios


def decibels(wanted: Any, got: Any) -> float:
    return float(10 * np.log10(np.square(wanted).sum() / max(np.square(wanted - got).sum(), 1e-30)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    sessions = [loaded(path, options.threads) for path in options.models]
    vocabulary = sessions[0].get_outputs()[0].shape[-1]
    print(f"{'':24}{'MB':>8}{''.join(f'{name:>14}' for name in CASES)}{'dB':>8}")
    columns, results = list[list[float]](), list[Any]()
    for tokens, past in CASES.values():
        given = [feeds(session, tokens, past, vocabulary) for session in sessions]
        results = [session.run(["logits"], f)[0] for session, f in zip(sessions, given, strict=True)]
        columns.append(raced(sessions, given, options.rounds, options.threads))
    noises = [decibels(results[0], got) for got in results]
    for path, noise, *ratios in zip(options.models, noises, *columns, strict=True):
        size = path.stat().st_size + sum(file.stat().st_size for file in data_files(path))
        print(f"{path.stem:24}{size / 1e6:8.1f}{''.join(f'{r:14.3f}' for r in ratios)}{noise:8.1f}")


if __name__ == "__main__":
    main()
