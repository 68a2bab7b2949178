"""Quantization by other tools, as functions of a model, samples of its inputs, and the path of the result.

A loader imports all modules of its tool and returns the function, so that imports and runs can be timed separately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import chdir
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import onnx
from msgspec import Struct

from ...core.support.scratch_folder import ScratchFolder
from .tool_functions import needs_external_data

Feeds = Mapping[str, Any]
Quantize = Callable[[Path, Iterable[Feeds], Path], None]


class Quantizer(Struct, frozen=True):
    """A recipe of a `tool`, with default options except for those in the `description`."""

    tool: str
    description: str
    load: Callable[[], Quantize]


def _load_ort(recipe: Callable[[Any, Path, Iterable[Feeds], Path], None]) -> Quantize:
    for name in ("shape_inference", "quantize"):
        import_module(f"onnxruntime.quantization.{name}")
    return partial(recipe, import_module("onnxruntime.quantization"))


def _ort_dynamic(tool: Any, model: Path, _: Iterable[Feeds], result: Path) -> None:
    tool.quantize_dynamic(model, result, use_external_data_format=needs_external_data(model))


def _ort_static(tool: Any, model: Path, feeds: Iterable[Feeds], result: Path, **options: Any) -> None:
    samples = iter(feeds)

    class Reader(tool.CalibrationDataReader):
        """The samples, as onnxruntime reads them."""

        def get_next(self) -> dict[str, Any] | None:
            sample = next(samples, None)
            return None if sample is None else dict(sample)

    tool.quantize_static(model, result, Reader(), use_external_data_format=needs_external_data(model), **options)


def _ort_static_per_channel(tool: Any, model: Path, feeds: Iterable[Feeds], result: Path) -> None:
    """Quantize a model after onnxruntime's preparation.

    If that fails, it is repeated without symbolic shapes; if that also fails, the unprepared model is quantized.
    """
    model, result = model.resolve(), result.resolve()
    with ScratchFolder() as folder, chdir(folder):  # symbolic shape inference leaves files in the current folder
        prepared = folder / "prepared.onnx"
        for options in ({}, {"skip_symbolic_shape": True}):
            try:
                external = {"save_as_external_data": True} if needs_external_data(model) else {}
                tool.shape_inference.quant_pre_process(model, prepared, **options, **external)
            except Exception:  # noqa: BLE001 - raises anything that its shape inference and the session raise
                prepared.unlink(missing_ok=True)
            else:
                break
        source = prepared if prepared.exists() else model
        types = {"activation_type": tool.QuantType.QUInt8, "weight_type": tool.QuantType.QInt8}
        _ort_static(tool, source, feeds, result, quant_format=tool.QuantFormat.QDQ, per_channel=True, **types)


def _load_ort_float16() -> Quantize:
    convert = import_module("onnxruntime.transformers.float16").convert_float_to_float16
    tool = import_module("onnxruntime.transformers.onnx_model").OnnxModel

    def quantize(model: Path, _: Iterable[Feeds], result: Path) -> None:
        made = tool(convert(onnx.load(str(model)), keep_io_types=True))
        made.topological_sort()  # as it does before it writes a model: new Casts are behind their readers
        _save(made.model, result)

    return quantize


def _load_onnxsim() -> Quantize:
    import_module("onnxruntime")
    tool = import_module("onnxsim")

    def quantize(model: Path, feeds: Iterable[Feeds], result: Path) -> None:
        made = tool.quantize_auto(str(model), calibration_data=[dict(sample) for sample in feeds])
        _save(made, result)

    return quantize


def _load_nncf() -> Quantize:
    import_module("onnxruntime")
    tool = import_module("nncf")

    def quantize(model: Path, feeds: Iterable[Feeds], result: Path) -> None:
        _save(tool.quantize(onnx.load(str(model)), tool.Dataset([dict(sample) for sample in feeds])), result)

    return quantize


def _save(model: onnx.ModelProto, result: Path) -> None:
    onnx.save(model, str(result), save_as_external_data=model.ByteSize() >= 1 << 31, location=f"{result.name}.data")


QUANTIZERS: Mapping[str, Quantizer] = {
    "ORT dynamic": Quantizer("ort", "quantize_dynamic", partial(_load_ort, _ort_dynamic)),
    "ORT static": Quantizer("ort", "quantize_static", partial(_load_ort, _ort_static)),
    "ORT U8S8": Quantizer(
        "ort",
        "quant_pre_process, then quantize_static to QDQ: uint8 activations, int8 weights per channel",
        partial(_load_ort, _ort_static_per_channel),
    ),
    "ORT float16": Quantizer("ort", "convert_float_to_float16, inputs and outputs as they are", _load_ort_float16),
    "onnxsim": Quantizer("onnxsim", "quantize_auto", _load_onnxsim),
    "NNCF": Quantizer("nncf", "nncf.quantize", _load_nncf),
}
"""Recipes by their labels in tables."""
