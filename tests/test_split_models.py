"""Models split into a message and large initializers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from passwright.core.io.files import ModelFile, load, split_model
from passwright.core.io.model import split
from passwright.core.io.split_models import SplitFile, SplitModel
from passwright.core.ir.tensor import Tensor
from passwright.core.ort.backends import LoadedModel
from passwright.core.ort.session_source import NO_FILE, session_source
from rewriting import each

if TYPE_CHECKING:
    from pathlib import Path

LARGE = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
X = np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)


def model() -> onnx.ModelProto:
    proto = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[N,64] x) => (float[M,K] y) { a = MatMul(x, w) b = Add(a, v) y = Reshape(b, shape) }""")
    tensors = {"w": LARGE, "v": LARGE[0], "shape": np.array([-1, 32])}
    proto.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in tensors.items())
    return proto


def saved(folder: Path, *, external: bool) -> Path:
    path = folder / "m.onnx"
    onnx.save(model(), path, save_as_external_data=external, location="w.bin", size_threshold=2000)
    return path


def run(source: SplitModel) -> Any:
    return LoadedModel(source).run(["y"], {"x": X})[0]


@pytest.mark.parametrize("kind", ["bytes", "file", "external", "rewritten"])
def test_session_computes_the_same(tmp_path: Path, kind: str) -> None:
    if kind == "bytes":
        parts = split_model(model().SerializeToString())
    elif kind == "rewritten":
        parts = split(load(ModelFile(saved(tmp_path, external=True))))
    else:
        parts = split_model(saved(tmp_path, external=kind == "external"))
    assert set(parts.tensors) == {"w"}
    assert parts.message.ByteSize() < 1000
    assert np.array_equal(run(parts), LoadedModel(model().SerializeToString()).run(["y"], {"x": X})[0])
    whole = {t.name: numpy_helper.to_array(t) for t in parts.whole_message().graph.initializer}
    assert {n: a.tobytes() for n, a in whole.items()} == {
        t.name: numpy_helper.to_array(t).tobytes() for t in model().graph.initializer
    }


def test_aligned_elements_stay_in_their_file(tmp_path: Path) -> None:
    source = session_source(split_model(saved(tmp_path, external=True)))
    assert (source.folder, source.values) == (tmp_path, {})


def test_elements_off_alignment_are_given_as_values(tmp_path: Path) -> None:
    path = saved(tmp_path, external=True)
    (tmp_path / "w.bin").write_bytes(b"abc" + LARGE.tobytes())
    proto = onnx.load(path, load_external_data=False)
    for entry in proto.graph.initializer[0].external_data:
        entry.value = "3" if entry.key == "offset" else entry.value
    path.write_bytes(proto.SerializeToString())
    parts = split_model(path)
    source = session_source(parts)
    assert (source.folder, list(source.values)) == (None, ["w"])
    assert NO_FILE.encode() in source.data
    assert np.array_equal(run(parts), LoadedModel(model().SerializeToString()).run(["y"], {"x": X})[0])


@pytest.mark.parametrize("kind", ["bytes", "file", "external", "rewritten"])
def test_saved_model_refers_to_files(tmp_path: Path, kind: str) -> None:
    if kind == "bytes":
        parts = split_model(model().SerializeToString())
    elif kind == "rewritten":
        parts = SplitModel.of(
            model_without_weights(),
            {
                "w": Tensor.from_array(LARGE),
                "v": Tensor.from_array(LARGE[0]),
                "shape": Tensor.from_array(np.array([-1, 32])),
            }.items(),
        )
    else:
        parts = split_model(saved(tmp_path, external=kind == "external"))
    (tmp_path / "elsewhere").mkdir()
    file = SplitFile(tmp_path / "elsewhere" / "split")
    file.write(parts)
    is_stored = kind in {"file", "external"}
    assert (tmp_path / "elsewhere" / "split.data").stat().st_size == (0 if is_stored else LARGE.nbytes)
    found = file.load()
    assert found.message == parts.message
    assert {n: t.array.tolist() for n, t in found.tensors.items()} == {"w": LARGE.tolist()}
    assert np.array_equal(run(found), run(parts))
    if is_stored:
        assert found.tensors["w"].mapped == parts.tensors["w"].mapped


def model_without_weights() -> onnx.ModelProto:
    proto = model()
    del proto.graph.initializer[:]
    return proto


@each("dtype", [ml_dtypes.bfloat16, ml_dtypes.int4, np.float16, np.uint8, np.bool_, np.complex64])
def test_every_element_type(dtype: Any) -> None:
    weights = (np.arange(4096) % 7).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    name = onnx.TensorProto.DataType.Name(kind).lower()
    proto = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["" : 21]> g ({name}[N] x) => ({name}[N] y) {{ y = Identity(w) }}'
    )
    proto.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    parts = split_model(proto.SerializeToString())
    assert set(parts.tensors) == {"w"}
    assert parts.whole_message() == proto
    if dtype not in {np.complex64, ml_dtypes.int4}:  # onnxruntime has no kernel
        found = LoadedModel(parts).run(["y"], {"x": weights[:2]})[0]
        assert found.astype(np.float32).tolist() == weights.astype(np.float32).tolist()
