"""Tests of caches of int8."""

from typing import Any

import numpy as np
import onnx
from hypothesis import given
from hypothesis import strategies as st
from loaded_by_ort import decibels, loaded
from passwright.core import Pipeline, QuantizationSpec, from_onnx, rule_pass
from passwright.passes.quantization import cache
from passwright.passes.quantization.cache import cached_operands, expose_integer_caches
from rewriting import apply_passes, cases, load, op_types, to_onnx

QUANTIZE_CACHE = rule_pass(cache, "quantize-cache")
HEADS, KV_HEADS, WIDTH = 4, 2, 8
INPUTS = "float[b,n,32] q, float[b,n,16] k, float[b,n,16] v"
CACHE = "float[b,2,p,8] pk, float[b,2,p,8] pv"
OUTPUTS = "float[b,n,32] y, float[b,2,t,8] key, float[b,2,t,8] value"
ATTENTION = "Attention<q_num_heads = 4, kv_num_heads = 2>"
PLAIN = f"g ({INPUTS}, float[b,1,n,t] m, {CACHE}) => ({OUTPUTS}) {{ y, key, value = {ATTENTION}(q, k, v, m, pk, pv) }}"
CHANNELS = {"k": np.full(16, 4.0), "v": np.full(16, 4.0)}
SPEC = QuantizationSpec(channels=CHANNELS)


def quantized(text: str, spec: QuantizationSpec | None = SPEC, opset: int = 23) -> onnx.ModelProto:
    return to_onnx(apply_passes(load(text, opset), Pipeline("cache", (QUANTIZE_CACHE,), quantization=spec))[0])


def exposed(model: onnx.ModelProto) -> tuple[onnx.ModelProto, tuple[list[str], list[str]]]:
    made = from_onnx(model)
    names = expose_integer_caches(made.graph)
    return to_onnx(made), names


def ran(model: onnx.ModelProto, feeds: dict[str, Any]) -> list[Any]:
    names = {v.name for v in model.graph.input}
    return loaded(model, {name: v for name, v in feeds.items() if name in names})[1]


@st.composite
def samples(draw: st.DrawFn) -> dict[str, Any]:
    """Inputs whose past is integers times the scale, and of which some scores are masked."""
    batch, past = draw(st.sampled_from([1, 3])), draw(st.sampled_from([0, 1, 9]))
    new = draw(st.sampled_from([1, 5])) if batch == 1 or past == 0 else 1
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    made = {name: rng.standard_normal((batch, new, n), np.float32) for name, n in (("q", 32), ("k", 16), ("v", 16))}
    for name in ("pk", "pv"):
        made[name] = rng.integers(-128, 128, (batch, 2, past, 8)).astype(np.float32) * np.float32(4 / 127)
    masked = rng.random((batch, 1, new, past + new)) < 0.4
    masked[..., 0] = False
    made["m"] = np.where(masked, np.float32(-3e38), np.float32(0))
    return made


@given(samples())
def test_results_are_those_of_a_rounded_cache(feeds: dict[str, Any]) -> None:
    """So are the figures of the model whose inputs and outputs are the integers themselves."""
    model = quantized(PLAIN)
    wanted, found = ran(load(PLAIN, 23), feeds), ran(model, feeds)
    made, names = exposed(model)
    assert names == (["pk", "pv"], ["key", "value"])
    assert not {"Round", "Clip", "Div"} & {*op_types(made)}
    types = {v.name: v.type.tensor_type.elem_type for v in (*made.graph.input, *made.graph.output)}
    assert [types[name] for name in ("pk", "pv", "key", "value", "y")] == [3, 3, 3, 3, 1]
    integers = {n: np.rint(feeds[n] * (127 / 4)).astype(np.int8) for n in ("pk", "pv")}
    stored = ran(made, {**feeds, **integers})
    np.testing.assert_allclose(stored[0], found[0], rtol=1e-5, atol=1e-6)
    assert decibels(wanted[0], found[0]) > 25
    past = feeds["pk"].shape[2]
    for i, (old, new) in enumerate((("pk", "k"), ("pv", "v")), 1):
        np.testing.assert_array_equal(stored[i][:, :, :past], integers[old])
        heads = feeds[new].reshape(*feeds[new].shape[:2], KV_HEADS, WIDTH).swapaxes(1, 2)
        assert np.abs(stored[i][:, :, past:] * (4 / 127) - heads).max() < 0.501 * 4 / 127
        np.testing.assert_allclose(stored[i] * np.float32(4 / 127), found[i], atol=1e-5)


def test_each_channel_has_a_scale_of_its_own() -> None:
    channels = {"k": np.geomspace(1e-3, 1e3, 16), "v": np.geomspace(1e3, 1e-3, 16)}
    rng = np.random.default_rng(0)
    feeds = {"q": rng.standard_normal((1, 5, 32), np.float32), "m": np.zeros((1, 1, 5, 5), np.float32)}
    feeds |= {n: (rng.uniform(-1, 1, (1, 5, 16)) * channels[n]).astype(np.float32) for n in "kv"}
    feeds |= {n: np.zeros((1, 2, 0, 8), np.int8) for n in ("pk", "pv")}
    made, _ = exposed(quantized(PLAIN, QuantizationSpec(channels=channels)))
    _, key, _ = ran(made, feeds)
    wanted = feeds["k"].reshape(1, 5, 2, 8).swapaxes(1, 2)
    scales = channels["k"].reshape(1, 2, 1, 8) / 127
    assert np.abs(key - wanted / scales).max() < 0.51


@cases(
    "text",
    {
        "no mask": PLAIN.replace("q, k, v, m, pk", "q, k, v, , pk"),
        "a mask of two dims": PLAIN.replace("float[b,1,n,t] m", "float[n,t] m"),
        "a mask of bools": PLAIN.replace("float[b,1,n,t] m", "bool[b,1,n,t] m"),
        "a scale and a softcap": PLAIN.replace("kv_num_heads = 2", "kv_num_heads = 2, scale = 0.3, softcap = 2.0"),
        "extents are read": PLAIN.replace("value)", "value, int64[4] a, int64[4] b2)").replace(
            "pk, pv) }", "pk, pv) a = Shape(pk) b2 = Shape(key) }"
        ),
    },
)
def test_forms(text: str) -> None:
    rng = np.random.default_rng(0)
    widths = {"q": 32, "k": 16, "v": 16}
    feeds: dict[str, Any] = {n: rng.standard_normal((1, 3, width), np.float32) for n, width in widths.items()}
    feeds |= {n: np.zeros((1, 2, 0, 8), np.float32) for n in ("pk", "pv")}
    allowed = np.tril(np.ones((1, 1, 3, 3), np.bool_))
    allowed = allowed[0, 0] if "float[n,t] m" in text else allowed
    feeds["m"] = allowed if "bool" in text else np.where(allowed, np.float32(0), np.float32(-3e38))
    made, names = exposed(quantized(text))
    assert names == (["pk", "pv"], ["key", "value"])
    assert "GroupQueryAttention" in op_types(made)
    wanted = ran(load(text, 23), feeds)
    found = ran(made, {**feeds, **{n: feeds[n].astype(np.int8) for n in ("pk", "pv")}})
    assert decibels(wanted[0], found[0]) > 30
    for a, b in zip(wanted[3:], found[3:], strict=True):
        np.testing.assert_array_equal(a, b)


@cases(
    "text",
    {
        "no cache": PLAIN.replace("m, pk, pv)", "m)").replace("y, key, value =", "y =").replace(
            " }", " key = Identity(pk) value = Identity(pv) }"
        ),
        "four dims": "g (float[b,4,n,8] q, float[b,2,n,8] k, float[b,2,n,8] v, float[b,1,n,t] m, "
        f"{CACHE}) => ({OUTPUTS.replace('[b,n,32]', '[b,4,n,8]')}) {{ y, key, value = Attention(q, k, v, m, pk, pv) }}",
        "causal": PLAIN.replace("kv_num_heads = 2", "kv_num_heads = 2, is_causal = 1"),
        "half precision": PLAIN.replace("float[", "float16["),
        "a past that is computed": PLAIN.replace("{ y", "{ r = Relu(pk) y").replace("m, pk", "m, r"),
        "a past that is read": PLAIN.replace("value)", "value, float[b,2,p,8] r)").replace("{ y", "{ r = Relu(pk) y"),
        "a present that is read": PLAIN.replace("value)", "value, float[b,2,t,8] r)").replace(" }", " r = Relu(key) }"),
        "a present that is no output": PLAIN.replace("float[b,2,t,8] key, ", ""),
        "a mask for all keys": PLAIN.replace("float[b,1,n,t] m", "float[b,1,n,1] m"),
        "a mask for all queries": PLAIN.replace("float[b,1,n,t] m", "float[b,1,1,t] m"),
        "heads of 4": PLAIN.replace("32]", "16]").replace(",16] k", ",8] k").replace(",16] v", ",8] v").replace(
            "p,8]", "p,4]").replace("t,8]", "t,4]"),
        "other channels": PLAIN.replace(" k,", " other,").replace("(q, k,", "(q, other,"),
    },
)  # fmt: skip
def test_unchanged(text: str) -> None:
    assert "GroupQueryAttention" not in op_types(quantized(text))


def test_without_a_spec_nothing_changes() -> None:
    assert op_types(quantized(PLAIN, None)) == ["Attention"]


def test_operands_whose_channels_count() -> None:
    assert cached_operands(from_onnx(load(PLAIN, 23)).graph) == {"k": 2, "v": 2}
    assert cached_operands(from_onnx(load(PLAIN.replace("m, pk, pv)", "m)").replace("y, key, value =", "y =").replace(
        " }", " key = Identity(pk) value = Identity(pv) }"), 23)).graph) == {}  # fmt: skip


def test_the_type_of_a_result_stays_known_to_the_next_layer() -> None:
    text = f"""g ({INPUTS}, float[b,1,n,t] m, {CACHE}, float[b,2,p,8] pk2, float[b,2,p,8] pv2)
        => ({OUTPUTS}, float[b,2,t,8] key2, float[b,2,t,8] value2) {{
        x, key, value = {ATTENTION}(q, k, v, m, pk, pv) r = Relu(x)
        y, key2, value2 = {ATTENTION}(r, k, v, m, pk2, pv2) }}"""
    assert op_types(quantized(text)).count("GroupQueryAttention") == 2
