"""Samples for calibration, from files and from Python."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import numpy_helper
from passwright.app.measure.accuracy import LabelledSet
from passwright.app.measure.criterion import Budget, LabelledPart
from passwright.app.quantize.samples import (
    CalibrationData,
    draw_calibration_data,
    read_calibration_data,
    read_samples,
    split_samples,
)
from passwright.core import from_onnx
from passwright.core.errors import ModelError, PassesError
from passwright.core.io.model_source import model_source
from passwright.core.verify import given_inputs
from passwright.core.verify.input_specs import InputSpec, input_specs
from rewriting import cases, each, load

Array = np.ndarray[Any, Any]
ROWS = np.arange(20, dtype=np.float32).reshape(10, 2)
READER = """
import numpy as np
def reader():
    print("reading")
    for i in range(4):
        yield {"x": np.full((1, 2), i, np.float32)}
def arrays():
    return {"x": np.zeros((3, 2), np.float32)}
def broken():
    yield {"x": np.zeros((1, 2), np.float32)}
    raise ValueError("no more files")
def nothing():
    return 5
class Broken(dict):
    def __iter__(self):
        return 3
    def items(self):
        raise RuntimeError("no items")
    def __array__(self, *_, **__):
        raise KeyError("no array")
class BrokenIterable:
    __iter__ = Broken.__iter__
class BrokenArray:
    __array__ = Broken.__array__
def table():
    return Broken(x=1)
def mappings():
    return [Broken(x=1)]
def streamed():
    yield Broken(x=1)
def iterable():
    return BrokenIterable()
def array():
    return [{"x": [BrokenArray()]}]
def get_next():
    class Reader:
        @property
        def get_next(self):
            raise SystemExit(0)
    return Reader()
"""


def specs(inputs: str, body: str = "y = Identity(x)") -> list[InputSpec]:
    return input_specs(from_onnx(load(f"g ({inputs}) => (float[A,B] y) {{ {body} }}")))


BATCHED = specs("float[N,2] x")


class DataReader:
    """As `onnxruntime.quantization.CalibrationDataReader`: samples, then None."""

    def __init__(self, count: int) -> None:
        self.left = count

    def get_next(self) -> dict[str, Array] | None:
        self.left -= 1
        return {"x": np.full((1, 2), self.left, np.float32)} if self.left >= 0 else None


def firsts(data: CalibrationData) -> list[float]:
    """The first number of each sample, which has one row."""
    return [sample["x"][0, 0].item() for sample in data if sample["x"].shape == (1, 2)]


def once(count: int) -> Iterator[dict[str, Array]]:
    return ({"x": ROWS[i : i + 1]} for i in range(count))


@each(
    ("data", "expected"),
    {
        "arrays": ({"x": ROWS}, [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]),
        "labels": ({"x": ROWS, "labels": np.arange(10)}, list(range(0, 20, 2))),
        "list": ([{"x": ROWS[:1]}, {"x": ROWS[3:4]}], [0, 6]),
        "numbers": ([{"x": [[7.0, 1.0]]}], [7]),
        "generator": (once(3), [0, 2, 4]),
        "CalibrationDataReader": (DataReader(3), [2, 1, 0]),
    },
)
def test_python_data(data: Any, expected: list[float]) -> None:
    found = read_calibration_data(data, BATCHED)
    assert firsts(found) == expected
    assert firsts(found) == expected  # a second time
    assert str(found).startswith(f"{len(expected)} sample")
    assert firsts(found[1:]) == expected[1:]
    assert not found.drawn


@pytest.fixture(name="folder")
def make_folder(tmp_path: Path) -> Path:
    np.savez(tmp_path / "a.npz", x=ROWS)
    np.savez(tmp_path / "b.npz", x=ROWS[:2] + 100)
    (tmp_path / "data.py").write_text(READER)
    for i in range(3):
        (folder := tmp_path / "cases" / f"test_data_set_{i}").mkdir(parents=True)
        (folder / "input_0.pb").write_bytes(numpy_helper.from_array(ROWS[i : i + 1]).SerializeToString())
    return tmp_path


@cases(
    ("names", "expected"),
    {
        ".npz": ("a.npz", list(range(0, 20, 2))),
        "several .npz": (["a.npz", "b.npz"], [*range(0, 20, 2), 100, 102]),
        "folder of test data": ("cases", [0, 2, 4]),
        "one set of test data": ("cases/test_data_set_1", [2]),
        "all kinds": (["b.npz", "cases", "data.py"], [100, 102, 0, 2, 4, 0, 1, 2, 3]),
        "file.py": ("data.py", [0, 1, 2, 3]),
        "file.py:function": ("data.py:reader", [0, 1, 2, 3]),
        "function with arrays": ("data.py:arrays", [0, 0, 0]),
    },
)
def test_files(folder: Path, names: str | list[str], expected: list[float]) -> None:
    data = folder / names if isinstance(names, str) else [str(folder / name) for name in names]
    assert firsts(read_calibration_data(data, BATCHED)) == expected


def test_rows_are_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    archive = given_inputs.open_arrays
    monkeypatch.setattr(given_inputs, "open_arrays", lambda path: read.append(path.name) or archive(path))
    found = read_calibration_data([folder / "a.npz", folder / "b.npz"], BATCHED)
    assert len(list(found)) == 12
    assert read == ["a.npz", "b.npz"] * 2  # for the names, and for the rows


@each(
    ("inputs", "arrays", "shapes"),
    {
        "fixed batch of 2": ("float[2,2] x", {"x": ROWS[:7]}, [(2, 2)] * 3),
        "fixed batch of 1": ("float[1,2] x", {"x": ROWS}, [(1, 2)] * 10),
        "batch on another axis": ("float[T,batch] x", {"x": ROWS}, [(10, 1)] * 2),
        "shared input": ("float[N,2] x, float[3] z", {"x": ROWS, "z": ROWS[0, [0, 0, 0]]}, [(1, 2)] * 10),
        "no batch": ("float x, float[3] z", {"x": np.float32(1), "z": np.zeros(3, np.float32)}, [()]),
    },
)
def test_samples_of_arrays(inputs: str, arrays: dict[str, Array], shapes: list[tuple[int, ...]]) -> None:
    found = read_calibration_data(arrays, specs(inputs))
    assert [sample["x"].shape for sample in found] == shapes
    assert all(sample.keys() == arrays.keys() for sample in found)


@cases(
    ("data", "message"),
    {
        "no file": ("none.npz", "none.npz does not exist"),
        "not an .npz": ("data.py", "is not an .npz file of arrays: File is not a zip file"),
        "empty list": ([], "the data: there are no samples"),
        "empty reader": (DataReader(0), "the data: there are no samples"),
        "no rows": ({"x": ROWS[:0]}, "the data: x has no rows"),
        "name": ({"y": ROWS}, "the given (the data) inputs name y, which is not an input of the model (x)"),
        "missing input": ([{}], "the given (the data: sample 1) inputs lack x"),
        "type": ({"x": ROWS.astype(int)}, "x of the given (the data) inputs is int64; the model needs float32"),
        "shape": (
            {"x": np.zeros((4, 3), np.float32)},
            "x of the given (the data: row 0) inputs has shape [1,3]; the model needs [N,2]",
        ),
        "rank": ([{"x": ROWS[0]}], "x of the given (the data: sample 1) inputs has shape [2]; the model needs [N,2]"),
        "arrays without names": ([ROWS], "the data: sample 1: it is of type ndarray, not arrays by name"),
        "number": (5, "the data: int is not a source of samples; give files, or an iterable"),
    },
)
def test_errors(tmp_path: Path, data: Any, message: str) -> None:
    if isinstance(data, str):
        (tmp_path / "data.npz").write_text("no archive")
        data = tmp_path / data.replace(".py", ".npz")
    with pytest.raises(PassesError) as e:
        read_calibration_data(data, BATCHED)
    assert str(e.value).endswith(message)
    assert "\n" not in str(e.value)


@cases(
    ("text", "message"),
    {
        "no function": ("data.py:other", "data.py has no function other"),
        "raises": ("data.py:broken", "data.py:broken: ValueError: no more files"),
        "raises as a table": ("data.py:table", "data.py:table: RuntimeError: no items"),
        "raises in a list": ("data.py:mappings", "data.py:mappings: RuntimeError: no items"),
        "raises in a stream": ("data.py:streamed", "data.py:streamed: RuntimeError: no items"),
        "no iterator": ("data.py:iterable", "data.py:iterable: TypeError: iter() returned non-iterator of type 'int'"),
        "raises as an array": ("data.py:array", "data.py:array: KeyError: 'no array'"),
        "raises as a reader": ("data.py:get_next", "data.py:get_next: SystemExit: 0"),
        "5": ("data.py:nothing", "data.py:nothing: int is not a source of samples; give files, or an iterable"),
        "no name": ("data.py:a b", "data.py:a b: not of the form file.py:function"),
        "no file": ("other.py", "other.py does not exist"),
    },
)
def test_errors_of_functions(folder: Path, text: str, message: str) -> None:
    with pytest.raises(PassesError) as e:
        read_calibration_data(str(folder / text), BATCHED)
    assert str(e.value).endswith(message)


def test_rows_of_inputs_have_to_agree() -> None:
    inputs = specs("float[N,2] x, float[N,2] z", "y = Add(x, z)")
    with pytest.raises(ModelError, match=r"^the data: 10 rows of x and 9 rows of z do not agree$"):
        read_calibration_data({"x": ROWS, "z": ROWS[:9]}, inputs)


def test_limit() -> None:
    chosen = firsts(read_calibration_data({"x": ROWS}, BATCHED, limit=4))
    assert len(chosen) == 4
    assert chosen == sorted(chosen) == firsts(read_calibration_data({"x": ROWS}, BATCHED, limit=4))
    assert chosen != firsts(read_calibration_data({"x": ROWS}, BATCHED, limit=4, seed=1)) != [0, 2, 4, 6]
    reader = DataReader(1000)
    assert firsts(read_calibration_data(reader, BATCHED, limit=4)) == [999, 998, 997, 996]
    assert reader.left == 996  # no more were read


def test_kept_samples_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_inputs, "KEPT_BYTES", 0)
    data = read_calibration_data(once(2), BATCHED)
    (kept,) = {folder.path for folder in data.folders}
    part = split_samples(data)[0][1]
    del data
    assert firsts(part) == [0, 2]
    del part
    assert not kept.exists()


@each(("count", "sizes"), [(3, (1, 1, 1)), (4, (2, 1, 1)), (10, (5, 3, 2)), (400, (128, 136, 136))])
def test_parts_are_disjoint(count: int, sizes: tuple[int, ...]) -> None:
    data = read_calibration_data({"x": np.arange(2 * count, dtype=np.float32).reshape(count, 2)}, BATCHED)
    parts, note = split_samples(data)
    found = list(map(firsts, parts))
    assert tuple(map(len, found)) == sizes
    assert sorted(x for part in found for x in part) == firsts(data)
    assert note == (
        f"{count} samples of the data: {sizes[0]} for calibration, {sizes[1]} for the search, {sizes[2]} for the report"
    )
    assert list(map(firsts, split_samples(data)[0])) == found


def test_few_samples_are_shared() -> None:
    parts, note = split_samples(read_calibration_data({"x": ROWS[:1]}, BATCHED))
    assert list(map(firsts, parts)) == [[0]] * 3
    assert note == "calibration, search and report use the same 1 sample of the data; give 3 or more to separate them"


def test_drawn_samples() -> None:
    source = model_source(
        load("g (float[N,3] x, int64[N,1] i) => (float[N,1] y) { y = GatherElements<axis=1>(x, i) }"), inline=True
    )
    found = draw_calibration_data(source, 4)
    assert (len(found), found.drawn, str(found)) == (4, True, "4 samples drawn at random")
    assert len({sample["x"].tobytes() for sample in found}) == 4
    assert all(sample["x"].shape == (1, 3) for sample in found)
    again = draw_calibration_data(source, 4)
    assert all(np.array_equal(a["x"], b["x"]) for a, b in zip(found, again, strict=True))


def test_data_beside_labels_are_for_calibration_alone(tmp_path: Path) -> None:
    np.savez(tmp_path / "labelled.npz", x=ROWS, labels=np.arange(10) % 2)
    source = model_source(load("g (float[N,2] x) => (float[N,2] y) { y = Neg(x) }"), inline=True)
    many = {"x": np.zeros((300, 2), np.float32)}
    with_labels = read_samples(source, many, tmp_path / "labelled.npz", "", 0)
    assert with_labels.counts == {"calibration": 128, "search": 5, "report": 5}
    assert read_samples(source, many, None, "", 0).counts == {"calibration": 128, "search": 86, "report": 86}


def test_time_of_scores_is_that_of_single_rows(tmp_path: Path) -> None:
    """Of a model that runs no others, as one that has the memory for one row."""
    text = "g (float[N,2] x) => (float[N,2] y) <int64[2] s = {1,2}> { n = Neg(x) y = Reshape(n, s) }"
    source = model_source(load(text), inline=True)
    np.savez(tmp_path / "labelled.npz", x=ROWS, labels=np.arange(10) % 2)
    samples = read_samples(source, None, tmp_path / "labelled.npz", "", 0)
    assert samples.affordable(source.loadable(), ["y"], 1000.0) > 1000


@pytest.mark.parametrize("labelled", [False, True])
def test_as_many_samples_are_scored_as_the_time_allows(tmp_path: Path, labelled: bool) -> None:
    source = model_source(load("g (float[N,2] x) => (float[N,2] y) { y = Neg(x) }"), inline=True)
    rows = np.arange(400, dtype=np.float32).reshape(200, 2)
    np.savez(tmp_path / "labelled.npz", x=rows, labels=np.arange(200) % 2)
    whole = read_samples(source, {"x": rows}, tmp_path / "labelled.npz" if labelled else None, "", 0)
    model = source.loadable()
    assert whole.limited(whole.affordable(model, ["y"], 1000.0)) is whole
    assert whole.affordable(model, ["z"], 1000.0) == 0  # it does not run, which the criteria report
    assert whole.limited(0) is whole
    few = whole.limited(whole.affordable(model, ["y"], 0.0))
    assert (few.counts["search"], few.counts["report"]) == (32, 32)
    note = f"candidates are scored on 32 of {len(whole.search)} samples, as more would take too much of --time"
    assert few.notes[-1] == note
    assert few.digest() != whole.digest()
    criteria = few.criteria(source.load(), Budget.parse("1%"), model)
    assert criteria.excess(model)[1] == ""
    if isinstance(few.search, LabelledPart):
        chosen = [x // 2 for x in few.search.examples.arrays["x"][:, 0].tolist()]
        assert (chosen[0], chosen[-1], len(chosen)) == (0, 198, 32)  # of the whole set
        assert few.search.examples.arrays["labels"].tolist() == [x % 2 for x in chosen]


def test_all_labelled_rows_together_have_the_outputs_of_their_parts(tmp_path: Path) -> None:
    """A figure that is no mean, of outputs with rows, and of one without, on a fixed batch and on a free one."""
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(21, 3)).astype(np.float32), rng.normal(size=21).astype(np.float32)
    np.savez(tmp_path / "labelled.npz", x=x, labels=labels)
    (tmp_path / "code.py").write_text(
        "import numpy as np\ndef metric(outputs, labels):\n"
        "    rows = np.concatenate([np.reshape(a, (-1, 3)) for a in outputs['y']])[: len(labels)]\n"
        "    assert len(rows) == len(labels)\n"
        "    return float(np.median(rows.sum(1) * labels) * (1 + len(outputs['y'])))\n"
    )
    for x_dims, y_dims, body in (("N,3", "N,3", "Relu(x)"), ("1,3", "1,3", "Relu(x)"), ("1,3", "3", "Squeeze(x)")):
        source = model_source(load(f"g (float[{x_dims}] x) => (float[{y_dims}] y) {{ y = {body} }}"), inline=True)
        model, inputs = source.loadable(), input_specs(source.load())
        metric = f"{tmp_path / 'code.py'}:metric"
        found = read_samples(source, None, tmp_path / "labelled.npz", metric, 0)
        joint = found.criteria(source.load(), Budget.parse("1%"), model).all_rows
        whole = LabelledPart(LabelledSet.read(tmp_path / "labelled.npz"), inputs, metric)
        assert joint is not None
        assert joint.reference == pytest.approx(whole.criterion(["y"], Budget.parse("1%"), model).reference)
        assert joint.score(model).loss == 0


def test_labelled_rows_calibrate_in_batches_of_alike_sizes() -> None:
    source = model_source(load("g (float[N,2] x) => (float[N,2] y) { y = Neg(x) }"), inline=True)
    rows = np.arange(30, dtype=np.float32).reshape(15, 2)
    part = LabelledPart(LabelledSet("set", {"x": rows, "labels": rows[:, 0]}), input_specs(source.load()), "")
    found = [feeds["x"] for feeds in part.feeds()]
    assert [len(a) for a in found] == [part.batch, 7] == [8, 7]
    assert np.array_equal(np.concatenate(found), rows)


def test_counts_agree_with_the_note_on_drawn_samples() -> None:
    source = model_source(load("g (float[N,2] x) => (float[N,2] y) { y = Neg(x) }"), inline=True)
    found = read_samples(source, None, None, "", 0)
    of, notes = found.counts, " ".join(found.notes)
    assert of["calibration"] == len(found.drawn)
    assert f"{of['calibration']} for calibration, {of['search']} for the search, {of['report']} for the report" in notes
