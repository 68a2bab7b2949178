"""Digests of tensors: independent of storage, distinct for distinct tensors."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from passwright.core.errors import ModelError
from passwright.core.io.model_source import model_source
from passwright.core.ir.tensor import Tensor, digest, tensors_equal
from rewriting import cases

LONG = np.arange(6_000, dtype=np.float32)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read long tensors in several chunks, as otherwise those of megabytes."""
    monkeypatch.setattr("passwright.core.ir.tensor.CHUNK_BYTES", 100)


def tensor(values: object, dtype: object = np.float32) -> Tensor:
    return Tensor.from_array(np.array(values, dtype))


@cases(
    ("a", "b"),
    {
        "as floats": (tensor([1, 2]), Tensor.from_proto(helper.make_tensor("a", 1, [2], [1.0, 2.0]))),
        "raw": (tensor([1, 2]), Tensor.from_proto(numpy_helper.from_array(np.float32([1, 2]), "a"))),
        "strings": (tensor([b"a", b"bc"], object), Tensor.from_proto(helper.make_tensor("a", 8, [2], [b"a", b"bc"]))),
        "packed": (
            Tensor.from_proto(helper.make_tensor("a", onnx.TensorProto.INT4, [3], [1, -2, 3])),
            Tensor.from_proto(helper.make_tensor("b", onnx.TensorProto.INT4, [3], b"\xe1\x03", raw=True)),
        ),
        "doc string": (
            Tensor.from_proto(helper.make_tensor("a", 8, [1], [b"a"])),
            Tensor.from_proto(onnx.TensorProto(data_type=8, dims=[1], string_data=[b"a"], doc_string="said")),
        ),
    },
)
def test_equal_tensors_have_equal_digests(a: Tensor, b: Tensor) -> None:
    assert digest(a) == digest(b)


@cases(
    ("a", "b"),
    {
        "elements": (tensor([1, 2]), tensor([1, 3])),
        "signs of zero": (tensor([0.0]), tensor([-0.0])),
        "dims": (tensor([[1, 2]]), tensor([[1], [2]])),
        "no elements": (tensor([]), tensor([[]])),
        "rank 0": (tensor(1), tensor([1])),
        "types": (tensor([0]), tensor([0], np.int32)),
        "string boundaries": (tensor([b"ab", b"c"], object), tensor([b"a", b"bc"], object)),
        "empty strings": (tensor([b"", b"a"], object), tensor([b"a", b""], object)),
        "last chunk": (Tensor.from_array(LONG), Tensor.from_array(np.append(LONG[:-1], np.float32(0)))),
    },
)
def test_distinct_tensors_have_distinct_digests(a: Tensor, b: Tensor) -> None:
    assert digest(a) != digest(b)


def test_digest_of_mapped_tensor(tmp_path: Path) -> None:
    graph = helper.make_graph([], "g", [], [], [numpy_helper.from_array(LONG, "w")])
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    (value,) = model_source(tmp_path / "m.onnx", inline=False).load().graph.initializers
    assert value.tensor is not None
    assert value.tensor.mapped is not None
    assert digest(value.tensor) == digest(Tensor.from_array(LONG))


def test_external_tensor_is_refused() -> None:
    proto = onnx.TensorProto(name="w", data_type=1, dims=[2], data_location=onnx.TensorProto.EXTERNAL)
    with pytest.raises(ModelError, match="in another file"):
        digest(Tensor.from_proto(proto))


@pytest.mark.parametrize("at", [None, 0, 99, 100, 4095])
def test_equality_is_decided_in_chunks(at: int | None) -> None:
    a, b = np.arange(4096, dtype=np.uint8), np.arange(4096, dtype=np.uint8)
    if at is not None:
        b[at] ^= 1
    assert tensors_equal(Tensor.from_array(a), Tensor.from_array(b)) == (at is None)
    assert not tensors_equal(Tensor.from_array(a), Tensor.from_array(a.reshape(64, 64)))
