"""Models that are replaced by their results: the verified one or nothing, with their external data."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from passwright.core.errors import ModelError, UsageError, VerificationError
from rewriting import load, op_types, run
from small_pipeline import SMALL_PIPELINE as SMALL

from passwright import optimize

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")
SIZE = 512
TEXT = f"g (float[{SIZE}] x) => (float[{SIZE}] y) {{ a = Identity(x) b = Add(a, w) y = Relu(b) }}"
X = np.linspace(-2, 2, SIZE, dtype=np.float32)


def message() -> onnx.ModelProto:
    return load(TEXT, weights={"w": np.arange(SIZE, dtype=np.float32) / SIZE})


def external(folder: Path, name: str = "m.onnx", data: str = "w.bin") -> Path:
    onnx.save(message(), folder / name, save_as_external_data=True, location=data, size_threshold=0)
    return folder / name


def names(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


def results(path: Path) -> np.ndarray:
    (y,) = run(onnx.load(path), {"x": X})
    return y


def test_result_takes_the_place_of_a_model(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(message(), path)
    path.chmod(0o640)
    before = results(path)
    report = optimize(path, SMALL, in_place=True).report
    assert report.written_to == str(path)
    assert op_types(onnx.load(path)) == ["Add", "Relu"]
    np.testing.assert_array_equal(results(path), before)
    assert path.stat().st_mode & 0o777 == 0o640
    assert names(tmp_path) == {"m.onnx"}


def test_model_without_changes_is_left(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(message(), path)
    optimize(path, SMALL, in_place=True)
    content, status = path.read_bytes(), path.stat()
    report = optimize(path, SMALL, in_place=True, json=tmp_path / "r.json").report
    assert (report.written_to, report.has_changes) == (None, False)
    assert path.read_bytes() == content
    assert path.stat().st_mtime_ns == status.st_mtime_ns
    assert '"written_to": null' in (tmp_path / "r.json").read_text()


def test_transformed_model_is_written_without_changes_by_passes(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    onnx.save(load("g (float[N] x) => (float[N] y) { y = Relu(x) }"), path)
    assert optimize(path, "none", dim={"N": 3}, in_place=True).report.written_to == str(path)
    assert onnx.load(path).graph.input[0].type.tensor_type.shape.dim[0].dim_value == 3


@pytest.mark.parametrize("data", ["w.bin", "m.onnx.data"])
def test_external_data_are_replaced_too(tmp_path: Path, data: str) -> None:
    path = external(tmp_path, data=data)
    before = results(path)
    result = optimize(path, SMALL, in_place=True)
    (new,) = names(tmp_path) - {"m.onnx"}
    assert new.startswith("m.onnx.")
    assert new != data
    np.testing.assert_array_equal(results(path), before)
    (w,) = result.model.graph.initializer  # from the old data, which are gone
    np.testing.assert_array_equal(numpy_helper.to_array(w), np.arange(SIZE, dtype=np.float32) / SIZE)
    again = optimize(path, SMALL, in_place=True).report
    assert again.written_to is None
    assert optimize(path, "none", value_info="write", in_place=True).report.written_to
    assert names(tmp_path) == {"m.onnx", new}


def test_data_of_other_models_stay(tmp_path: Path) -> None:
    path = external(tmp_path)
    other = external(tmp_path, "other.onnx")
    before = results(other)
    optimize(path, SMALL, in_place=True)
    np.testing.assert_array_equal(results(other), before)


@pytest.mark.parametrize("linked", ["file", "folder"])
def test_data_elsewhere_stay(tmp_path: Path, linked: str) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    if linked == "folder":
        path = external(tmp_path, data="inner/w.bin")
    else:
        path = external(tmp_path)
        (tmp_path / "w.bin").rename(inner / "w.bin")
        (tmp_path / "w.bin").symlink_to(inner / "w.bin")
    optimize(path, SMALL, in_place=True)
    assert (inner / "w.bin").is_file()


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    path = tmp_path / "real" / "m.onnx"
    onnx.save(message(), path)
    (tmp_path / "link.onnx").symlink_to(path)
    optimize(tmp_path / "link.onnx", SMALL, in_place=True)
    assert (tmp_path / "link.onnx").is_symlink()
    assert op_types(onnx.load(path)) == ["Add", "Relu"]


def test_failure_leaves_everything(tmp_path: Path) -> None:
    path = external(tmp_path)
    rule = tmp_path / "wrong.py"
    rule.write_text(
        "from passwright.core import EXACT, rule\n"
        "@rule(lambda g, x: g.Relu(x), contract=EXACT)\n"
        'def drop(g, x):\n    """Relu(x) => x"""\n    return x\n'
    )
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    with pytest.raises(VerificationError):
        optimize(path, SMALL, [rule], strict=True, in_place=True)
    assert {p: p.read_bytes() for p in tmp_path.iterdir()} == before
    with pytest.raises(ModelError, match="cannot hold both"):
        optimize(path, SMALL, in_place=True, json=path)


@pytest.mark.parametrize("other", [{"output": "o.onnx"}, {}])
def test_places_that_exclude_each_other(other: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="are mutually exclusive" if other else "needs the path"):
        optimize(message(), SMALL, in_place=True, **other)
