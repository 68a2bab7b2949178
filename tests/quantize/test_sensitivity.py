"""Errors of single ops, and the order in which ops are left in float."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from passwright.app.quantize.schemes import Calibration, chosen_schemes
from passwright.app.quantize.search import BuiltCandidate, Trial
from passwright.app.quantize.sensitivity import losses_alone, orders_to_leave, value_errors
from passwright.core.io.model_source import model_source
from passwright.core.ort import remote_backend
from passwright.passes.targets import QUANTIZATION_TARGETS
from rewriting import load, run

pytestmark = pytest.mark.usefixtures("_verifies_in_process")
SPEC = QUANTIZATION_TARGETS["x86-vnni"].spec({})
WIDTH = 192
LAYERS = 12
RNG = np.random.default_rng(0)
FEEDS = [{"x": RNG.normal(size=(4, WIDTH)).astype(np.float32)} for _ in range(3)]


def chain(bad: tuple[int, ...] = (), bias: str = "") -> onnx.ModelProto:
    """Products and Tanhs; the bad ones have a weight for an input that is always 0, beside which others round to 0."""
    rng = np.random.default_rng(1)
    weights: dict[str, Any] = {}
    text = ""
    for i in range(LAYERS):
        w = rng.normal(0, 1.2 * WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32)
        w[:, 7] = 0  # the input 7 of the next product
        if i in bad:
            w[7] = 300
        weights[f"w{i}"] = w
        text += f"m{i} = MatMul({f't{i - 1}' if i else 'z'}, w{i}) t{i} = Tanh(m{i}) "
    zeros = np.where(np.arange(WIDTH) == 7, 0, 1).astype(np.float32)
    text = f"z = Mul(x, zeros) {text} y = Identity(t{LAYERS - 1})"
    return load(f"g (float[N,{WIDTH}] x) => (float[N,{WIDTH}] y) {{ {text} }}", 21, {"zeros": zeros, **weights})


def candidate(model: onnx.ModelProto, scheme: str, path: Path, variant: str = "") -> BuiltCandidate:
    source = model_source(model, inline=True)
    variants: Mapping[str, Any] = dict(chosen_schemes(scheme, source, Calibration(source, FEEDS), SPEC)[scheme])
    builder = variants[variant](None)
    found = builder.build()
    found.write(path)
    return BuiltCandidate(builder, found, path, {}, Trial(scheme, "", 0, 0, 0))


@pytest.mark.parametrize(
    ("scheme", "variant"), [("dynamic", ""), ("weights4", "clipped"), ("static", "minmax")], ids=lambda v: v
)
def test_bad_ops_behind_bad_ops_come_first(scheme: str, variant: str, tmp_path: Path) -> None:
    """All is noise behind the first bad op, which hid the second one."""
    built = candidate(chain(bad=(3, 8)), scheme, tmp_path / "made.onnx", variant)
    first, _ = orders_to_leave(built, FEEDS)
    assert [place for _, place in first[:2]] in (["m3", "m8"], ["m8", "m3"])


def test_values_after_the_time_are_left_out(tmp_path: Path) -> None:
    built = candidate(chain(), "weights4", tmp_path / "made.onnx", "clipped")
    errors = value_errors(built, FEEDS, until=0.0)
    assert (errors.whole, errors.own, losses_alone(built, FEEDS, ["y"], until=0.0)) == ({}, {}, {})
    first, last = orders_to_leave(built, FEEDS, until=0.0)
    assert {*first} == {*last} == built.candidate.keys


def test_values_that_do_not_fit_together_are_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = candidate(chain(), "weights4", tmp_path / "made.onnx", "clipped")
    wanted = losses_alone(built, FEEDS, ["y"]), value_errors(built, FEEDS)
    monkeypatch.setattr(remote_backend, "OUTPUTS_SHARE", 150_000)  # of 1 GB: two values of 3 kB
    assert (losses_alone(built, FEEDS, ["y"]), value_errors(built, FEEDS)) == wanted


def test_values_that_do_not_fit_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = candidate(chain(), "weights4", tmp_path / "made.onnx", "clipped")
    monkeypatch.setattr(remote_backend, "OUTPUTS_SHARE", 1_000_000)  # of 1 GB: less than a value of 3 kB
    errors = value_errors(built, FEEDS)
    assert (errors.whole, errors.own, losses_alone(built, FEEDS, ["y"])) == ({}, {}, {})
    first, last = orders_to_leave(built, FEEDS)
    assert {*first} == {*last} == built.candidate.keys


def test_an_op_alone_is_one_that_is_quantized_in_a_model_of_floats(tmp_path: Path) -> None:
    model = chain()
    built = candidate(model, "weights4", tmp_path / "made.onnx", "clipped")
    losses, own = losses_alone(built, FEEDS, ["y"]), value_errors(built, FEEDS).own
    assert losses.keys() == own.keys() == {f"m{i}" for i in range(LAYERS)}
    for place in ("m0", "m6"):
        others = {key: "" for key in built.candidate.keys if key[1] != place}
        alone = built.builder.build(others)
        alone.write(tmp_path / "alone.onnx")
        noise = signal = 0.0
        for feeds in FEEDS[:2]:
            wanted, found = run(model, feeds)[0], run(onnx.load(tmp_path / "alone.onnx"), feeds)[0]
            noise, signal = noise + np.square(wanted - found).sum(), signal + np.square(wanted).sum()
        assert losses[place] == pytest.approx(noise / signal, rel=0.02)
    assert max(own.values()) < 2 * min(own.values())  # all of them are rounded alike
