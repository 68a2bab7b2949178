"""Time of onnxruntime's GroupQueryAttention with a cache of integers: `python benchmarks/cache_bits.py`, on one thread.

Eight heads of 64. Prints for each number of tokens, and of tokens before them, the time with a cache of 8 and of 4 bits
divided by that with one of floats, the median of the ratios of rounds, and the signal to noise of the results in dB.
"""

from __future__ import annotations

import argparse
from time import perf_counter
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

HEADS, WIDTH = 8, 64
CASES = ((1, 128), (1, 1024), (1, 4096), (64, 0), (64, 1024))
SCALES = {0: 1.0, 8: 0.03, 4: 0.5}  # of normal numbers, by the bits of the cache; 0: floats
CACHES = {0: TensorProto.FLOAT, 8: TensorProto.INT8, 4: TensorProto.UINT8}
Array = NDArray[Any]


def attention(bits: int) -> bytes:
    """A model of one GroupQueryAttention; its cache has one scale for all numbers."""
    info, packed = helper.make_tensor_value_info, 2 if bits == 4 else 1
    hidden = [info(name, TensorProto.FLOAT, [1, "new", HEADS * WIDTH]) for name in "qkv"]
    cache = [info(f"past_{name}", CACHES[bits], [1, HEADS, "past", WIDTH // packed]) for name in "kv"]
    lengths = [info("last", TensorProto.INT32, [1]), info("total", TensorProto.INT32, [])]
    names = [*"qkv", "past_k", "past_v", "last", "total", *(["", "", "", "", "", "scale", "scale"] if bits else [])]
    kinds: dict[str, Any] = dict.fromkeys(("k_quant_type", "v_quant_type"), "PER_TENSOR") if bits else {}
    kinds |= {"kv_cache_bit_width": bits} if bits else {}
    outputs = ["y", "present_k", "present_v"]
    node = helper.make_node(
        "GroupQueryAttention", names, outputs, domain="com.microsoft", num_heads=HEADS, kv_num_heads=HEADS, **kinds
    )
    types = (TensorProto.FLOAT, CACHES[bits], CACHES[bits])
    results = [info(name, kind, None) for name, kind in zip(outputs, types, strict=True)]
    scales = [numpy_helper.from_array(np.array([SCALES[bits]], np.float32), "scale")] if bits else []
    graph = helper.make_graph([node], "attention", [*hidden, *cache, *lengths], results, scales)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def cached(numbers: Array, bits: int) -> Array:
    """Numbers as the cache holds them."""
    if not bits:
        return numbers
    limit = 1 << (bits - 1)
    integers = np.clip(np.rint(numbers / SCALES[bits]), -limit, limit - 1).astype(np.int8)
    if bits == 8:
        return integers
    halves = (integers + limit).astype(np.uint8)
    return halves[..., ::2] | halves[..., 1::2] << 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    rounds: int = parser.parse_args().rounds
    ort: Any = onnxruntime  # has no types
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    sessions = {bits: ort.InferenceSession(attention(bits), options) for bits in CACHES}
    rng = np.random.default_rng(0)
    for new, past in CASES:
        hidden = {name: rng.standard_normal((1, new, HEADS * WIDTH), np.float32) for name in "qkv"}
        lengths = {"last": np.array([new + past - 1], np.int32), "total": np.array(new + past, np.int32)}
        numbers = {f"past_{name}": rng.standard_normal((1, HEADS, past, WIDTH), np.float32) for name in "kv"}
        feeds = {
            bits: {**hidden, **lengths, **{name: cached(a, bits) for name, a in numbers.items()}} for bits in sessions
        }
        found = {bits: session.run(["y"], feeds[bits])[0] for bits, session in sessions.items()}
        times = np.empty((rounds, len(sessions)))
        for row in times:
            for i, (bits, session) in enumerate(sessions.items()):
                start = perf_counter()
                session.run(None, feeds[bits])
                row[i] = perf_counter() - start
        ratios = dict(zip(sessions, np.median(times / times[:, :1], axis=0).tolist(), strict=True))
        for bits in (8, 4):
            noise = 10 * np.log10(np.square(found[0]).sum() / np.square(found[0] - found[bits]).sum())
            print(f"{new:4} behind {past:4}, {bits} bits: {ratios[bits]:.2f} of the time, {noise:.1f} dB")


if __name__ == "__main__":
    main()
