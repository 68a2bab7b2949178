"""Model files: lazy loading, round trips and atomic writing."""

from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from commands import invoke
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import _get_all_tensors, set_external_data
from passwright.core import EXACT, Model, RewriteBuilder, Value, rule
from passwright.core.errors import ModelError
from passwright.core.io import files, publishing, writer
from passwright.core.io.files import ModelFile, load
from passwright.core.io.model import serialize
from passwright.core.io.output_paths import OutputFile
from passwright.core.io.publishing import Publication
from passwright.core.ir import tensor as tensor_module
from passwright.core.ir.tensor import RAW_DATA, MappedField, MappedFile, Tensor, join_chunks
from passwright.core.ort.backends import LoadedModel
from passwright.core.support import gc_pause
from rewriting import cases
from rewriting import load as text_model
from tiers import slow_unless

from passwright import optimize

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.usefixtures("_few_combined_inputs", "_verifies_in_process")

GOLDEN = sorted((Path(__file__).parent.parent / "golden_models").glob("*.onnx"))
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
PACKAGED = sorted(p for kind in ("light", "simple", "pytorch-*") for p in DATA.glob(f"{kind}/**/*.onnx"))
KEPT = "g (float[N,64] x) => (float[N,64] y) { a = Identity(x) y = MatMul(a, w) }"


RNG = np.random.default_rng(0)
SQUARE = RNG.standard_normal((64, 64)).astype(np.float32)
EMBEDDED_OR_EXTERNAL = cases("external", {"embedded": False, "external": True})


def read(path: Path) -> Model:
    return load(ModelFile(path), inline=False)


def save(model: Model, path: Path, *, external: bool = False) -> Path:
    with Publication(OutputFile.at(path)) as publication:
        publication.add_model(model, external=external)
        publication.publish()
    return path


def data_of(path: Path) -> Path:
    """The file of the external data of a model that was written."""
    (found,) = path.parent.glob(f"{path.name}.*.data")
    return found


def arrays(model: onnx.ModelProto) -> dict[str, Any]:
    return {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all tensors that a test reads from disk."""
    names: list[str] = []
    decode, proto = Tensor._decode, Tensor.to_proto

    def recording_decode(self: Tensor) -> Any:
        names.append(self.name)
        return decode(self)

    def recording_proto(self: Tensor, name: str) -> Any:
        if self.mapped is not None:
            names.append(name)
        return proto(self, name)

    monkeypatch.setattr(Tensor, "_decode", recording_decode)
    monkeypatch.setattr(Tensor, "to_proto", recording_proto)
    return names


def large(folder: Path, *, external: bool) -> Path:
    model = text_model(KEPT, weights={"w": SQUARE, "small": np.ones(3, np.float32)})
    onnx.save(model, folder / "m.onnx", save_as_external_data=external, location="w.bin", size_threshold=0)
    return folder / "m.onnx"


@EMBEDDED_OR_EXTERNAL
def test_loading_does_not_read_weights(tmp_path: Path, decoded: list[str], external: bool) -> None:
    model = read(large(tmp_path, external=external))
    found = {v.name: t for v, t in model.written_initializers()}
    assert found["w"].mapped is not None
    assert found["w"].dims == (64, 64)
    assert found["w"].nbytes == 64 * 64 * 4
    assert decoded == []


@EMBEDDED_OR_EXTERNAL
def test_run_does_not_read_unneeded_weights(tmp_path: Path, decoded: list[str], external: bool) -> None:
    result = optimize(large(tmp_path, external=external), verify=False, output=tmp_path / "out.onnx")
    assert result.report.after.ops == {"MatMul": 1}
    assert "w" not in decoded


def test_external_files_are_opened_lazily(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    view = MappedFile.view

    def recording_view(self: MappedFile, begin: int = 0, end: int | None = None) -> memoryview:
        opened.append(self.path.name)
        return view(self, begin, end)

    monkeypatch.setattr(MappedFile, "view", recording_view)
    model = read(large(tmp_path, external=True))
    assert "w.bin" not in opened
    _, tensor = model.written_initializers()[0]
    np.testing.assert_array_equal(tensor.array, SQUARE)
    assert "w.bin" in opened


@EMBEDDED_OR_EXTERNAL
@pytest.mark.parametrize("by_kernel", [False, True])
def test_untouched_weights_are_copied_from_file_to_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, external: bool, by_kernel: bool
) -> None:
    if not by_kernel:
        monkeypatch.setattr(os, "copy_file_range", refuse)
    model = read(large(tmp_path, external=external))
    w = next(tensor for _, tensor in model.written_initializers() if tensor.dims == (64, 64))
    assert w.mapped is not None
    reads: list[tuple[int, int]] = []
    view = MappedFile.view

    def recording_view(self: MappedFile, begin: int = 0, end: int | None = None) -> memoryview:
        reads.append((begin, -1 if end is None else end))
        return view(self, begin, end)

    monkeypatch.setattr(MappedFile, "view", recording_view)
    (tmp_path / "out").mkdir()
    written = save(model, tmp_path / "out" / "m.onnx", external=external)
    assert (w.mapped.begin, w.mapped.end) not in reads
    assert {n: a.tolist() for n, a in arrays(onnx.load(written)).items()} == {"w": SQUARE.tolist(), "small": [1, 1, 1]}


def refuse(*_: object) -> int:
    raise OSError(errno.EXDEV, "not between file systems")


@pytest.mark.parametrize("tail", [0, 100])
def test_holes_stay_holes(tmp_path: Path, tail: int) -> None:
    source, size = tmp_path / "w.bin", 1 << 22
    with source.open("wb") as f:
        f.write(b"a" * 5000)
        f.seek(size - 100)
        f.write(b"b" * tail)
        f.truncate(size)
    span = MappedField(RAW_DATA, MappedFile(source), 17, size)
    with (tmp_path / "copy").open("wb") as f:
        f.write(b"before")
        writer.write_chunk(f, span)
        f.write(b"after")
    assert (tmp_path / "copy").read_bytes() == b"before" + source.read_bytes()[17:] + b"after"
    assert (tmp_path / "copy").stat().st_blocks * 512 < 1 << 16


def test_shortened_file_of_weights_is_one_line(tmp_path: Path) -> None:
    model = read(large(tmp_path, external=True))
    os.truncate(tmp_path / "w.bin", 100)
    with pytest.raises(
        ModelError, match=r"^cannot write .*out\.onnx: w.bin became shorter; the model was not written$"
    ):
        save(model, tmp_path / "out.onnx", external=True)
    assert not (tmp_path / "out.onnx").exists()


def test_replaced_file_is_read_as_it_was_loaded(tmp_path: Path) -> None:
    model = read(large(tmp_path, external=False))
    (tmp_path / "other").write_bytes(b"\0" * (tmp_path / "m.onnx").stat().st_size)
    (tmp_path / "other").replace(tmp_path / "m.onnx")
    np.testing.assert_array_equal(arrays(onnx.load(save(model, tmp_path / "out.onnx")))["w"], SQUARE)


def test_parts_of_large_files_are_mapped_while_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_module, "MAX_MAPPED_BYTES", 4096)
    monkeypatch.setattr(tensor_module, "MAX_READ_BYTES", 0)
    content = RNG.bytes(100_000)
    (tmp_path / "w.bin").write_bytes(content)
    file = MappedFile(tmp_path / "w.bin")
    views = [file.view(begin, end) for begin, end in ((0, 10), (5000, 90_000), (99_999, 100_000), (7, 7))]
    assert [bytes(v) for v in views] == [content[:10], content[5000:90_000], content[-1:], b""]
    assert len(file._parts) == 3
    file.release_pages()
    assert bytes(views[1]) == content[5000:90_000]
    views.clear()
    assert len(file._parts) == 0
    assert file._map is None


def test_elements_are_read_only(tmp_path: Path) -> None:
    for external in (False, True):
        (tmp_path / str(external)).mkdir()
        for _, tensor in read(large(tmp_path / str(external), external=external)).written_initializers():
            with pytest.raises(ValueError, match="read-only"):
                tensor.array[...] = 0


@pytest.fixture
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable waiting for the disk."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def test_packaged_models_round_trip(tmp_path: Path, no_fsync: None) -> None:
    assert len(PACKAGED) > 100
    changed = [p for p in PACKAGED if onnx.load(save(read(p), tmp_path / "m.onnx")) != onnx.load(p)]
    assert changed == []


@pytest.mark.parametrize("path", slow_unless(GOLDEN[::4], GOLDEN), ids=[p.stem for p in GOLDEN])
@EMBEDDED_OR_EXTERNAL
def test_golden_models_round_trip(tmp_path: Path, no_fsync: None, path: Path, external: bool) -> None:
    out = save(read(path), tmp_path / "m.onnx", external=external)
    want, got = onnx.load(path), onnx.load(out)
    for proto in (want, got):
        as_raw(proto)
    assert got == want


def as_raw(model: onnx.ModelProto) -> None:
    """Convert all tensors to raw data, the only form of external data."""
    for t in _get_all_tensors(model):
        if t.data_type != TensorProto.STRING and not t.HasField("raw_data"):
            raw = numpy_helper.from_array(numpy_helper.to_array(t), t.name)
            for field in ("float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
                t.ClearField(field)
            t.MergeFrom(onnx.TensorProto(raw_data=raw.raw_data))
        t.ClearField("data_location")


def test_external_data_is_written_beside_output(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    path = large(tmp_path / "in", external=True)
    optimize(path, output=tmp_path / "out.onnx")
    assert sorted(tmp_path.iterdir()) == [tmp_path / "in", tmp_path / "out.onnx", data_of(tmp_path / "out.onnx")]
    raw = onnx.load(tmp_path / "out.onnx", load_external_data=False)
    (w,) = (t for t in raw.graph.initializer if t.name == "w")
    entries = {e.key: e.value for e in w.external_data}
    assert entries["location"] == data_of(tmp_path / "out.onnx").name
    assert int(entries["offset"]) % 4096 == 0
    np.testing.assert_array_equal(arrays(onnx.load(tmp_path / "out.onnx"))["w"], SQUARE)
    onnx.checker.check_model(tmp_path / "out.onnx")


def test_embedded_weights_stay_embedded(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    optimize(large(tmp_path / "in", external=False), output=tmp_path / "out.onnx")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "out.onnx"]


@EMBEDDED_OR_EXTERNAL
def test_external_data_on_request(tmp_path: Path, external: bool) -> None:
    """Weights go where the option says, from one file or two, and the model stays the same."""
    folder = tmp_path / "in"
    folder.mkdir()
    source, out = folder / "m.onnx", tmp_path / "out.onnx"
    text = "g (float[N,64] x) => (float[N,64] y) { a = MatMul(x, w) y = Add(a, small) }"
    model = text_model(text, weights={"w": SQUARE, "small": np.ones(64, np.float32)})
    onnx.save(model, source, save_as_external_data=external, location="w.bin", size_threshold=0)
    for choice, names in {"always": {"w"}, "never": set[str](), "1": {"w", "small"}, "1MB": set[str]()}.items():
        invoke("run", source, "-o", out, "--external-data", choice, "--no-verify")
        raw = onnx.load(out, load_external_data=False)
        assert {t.name for t in raw.graph.initializer if t.external_data} == names
        assert len(list(tmp_path.glob("*.data"))) == bool(names)
        np.testing.assert_array_equal(arrays(onnx.load(out))["w"], SQUARE)
    for wrong in ("sometimes", "-1", "0"):
        refused = invoke("run", source, "--external-data", wrong, code=2)
        assert "choose from auto, always, never, or give a size such as 1MB" in refused.stderr
    optimize(source, verify=False, output=out, external_data="always").save(tmp_path / "saved.onnx")
    assert data_of(tmp_path / "saved.onnx").stat().st_size >= SQUARE.nbytes


def test_run_on_its_own_output(tmp_path: Path) -> None:
    optimize(large(tmp_path, external=True), output=tmp_path / "one.onnx")
    optimize(tmp_path / "one.onnx", output=tmp_path / "two.onnx")
    one, two = (data_of(tmp_path / name) for name in ("one.onnx", "two.onnx"))
    assert two.read_bytes() == one.read_bytes()
    assert two.name == one.name.replace("one", "two")


def external_tensor(array: np.ndarray[Any, Any], name: str, folder: Path) -> TensorProto:
    """A tensor with its elements in a file of the folder, at offset 16."""
    folder.mkdir(parents=True, exist_ok=True)
    proto = numpy_helper.from_array(array, name)
    (folder / f"{name}.bin").write_bytes(b"\xee" * 16 + proto.raw_data)
    set_external_data(proto, f"{name}.bin", 16, len(proto.raw_data))
    proto.ClearField("raw_data")
    return proto


@pytest.mark.parametrize("pipeline", ["none", "basic"])
@pytest.mark.parametrize("size", [4, 1000], ids=["small", "large"])
@pytest.mark.parametrize("place", ["initializer", "constant", "in a branch", "constant in a branch"])
def test_external_tensors_in_any_place(tmp_path: Path, place: str, size: int, pipeline: str) -> None:
    w, kind = np.arange(size, dtype=np.float32), f"float[{size}]"
    tensor = external_tensor(w, "w", tmp_path / "in")
    add = "w = Constant() y = Add(x, w)" if "constant" in place else "y = Add(x, w)"
    if "branch" in place:
        branches = f"then_branch = t () => ({kind} y) {{ {add} }}, else_branch = e () => ({kind} y) {{ y = Neg(x) }}"
        add = f"s = ReduceSum<keepdims=0>(x) c = Cast<to=9>(s) y = If(c) <{branches}>"
    model = text_model(f"g ({kind} x) => ({kind} y) {{ {add} }}")
    graph = model.graph.node[-1].attribute[0].g if "branch" in place else model.graph
    if "constant" in place:
        graph.node[0].attribute.add(name="value", type=onnx.AttributeProto.TENSOR).t.CopyFrom(tensor)
    else:
        graph.initializer.append(tensor)
    (tmp_path / "in" / "m.onnx").write_bytes(model.SerializeToString())
    optimize(tmp_path / "in" / "m.onnx", pipeline, output=tmp_path / "m.onnx")
    x = np.ones(size, np.float32)
    for path in (tmp_path / "in" / "m.onnx", tmp_path / "m.onnx"):
        np.testing.assert_array_equal(LoadedModel(path).run(["y"], {"x": x})[0], x + w)


@EMBEDDED_OR_EXTERNAL
@pytest.mark.parametrize("point", ["fsync of the first file", "fsync of the last file", "the staged model", "the move"])
@cases(
    ("error", "raised"),
    {
        "disk full": (OSError(28, "No space left on device"), Exception),
        "interrupted": (KeyboardInterrupt(), KeyboardInterrupt),
        "out of memory": (MemoryError(), MemoryError),
    },
)
def test_failure_leaves_files_unchanged(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    raised: type[BaseException],
    point: str,
    external: bool,
) -> None:
    (tmp_path / "in").mkdir()
    path = large(tmp_path / "in", external=external)
    out = tmp_path / "out.onnx"
    out.write_text("old")
    Path(f"{out}.data").write_text("old data")
    calls: list[object] = []

    def fail(*arguments: object, **options: object) -> None:
        calls.append(arguments)
        if point != "fsync of the last file" or len(calls) == 1 + external:
            raise error

    replace = Path.replace

    def move(path: Path, target: Path) -> Path:
        if target.parent == tmp_path:
            fail(target)
        return replace(path, target)

    if point == "the move":
        monkeypatch.setattr(Path, "replace", move)
    elif point == "the staged model":
        monkeypatch.setattr(Publication, "publish", fail)
    else:
        monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(raised):
        optimize(path, output=out, verify=point == "the move")
    assert calls
    assert out.read_text() == "old"
    assert Path(f"{out}.data").read_text() == "old data"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in", "out.onnx", "out.onnx.data"]


BIG = 3000


def typed(dtype: int, size: int = BIG, **fields: Any) -> TensorProto:
    return TensorProto(name="w", data_type=dtype, dims=[size], **fields)


LONG = b"long " * 500
KINDS_OF_TENSORS = {
    "float_data": typed(TensorProto.FLOAT, float_data=np.arange(BIG)),
    "double_data": typed(TensorProto.DOUBLE, double_data=np.arange(BIG)),
    "int64_data": typed(TensorProto.INT64, int64_data=np.arange(BIG) - 5),
    "uint64_data": typed(TensorProto.UINT64, uint64_data=np.arange(BIG)),
    "int8 in int32_data": typed(TensorProto.INT8, int32_data=np.arange(BIG) % 100 - 50),
    "bool in int32_data": typed(TensorProto.BOOL, int32_data=np.arange(BIG) % 2),
    "float16 in int32_data": typed(TensorProto.FLOAT16, int32_data=np.arange(BIG) % 1000),
    "bfloat16 in int32_data": typed(TensorProto.BFLOAT16, int32_data=np.arange(BIG) % 1000),
    "complex64 in float_data": typed(TensorProto.COMPLEX64, float_data=np.arange(2 * BIG)),
    "strings": typed(TensorProto.STRING, string_data=[b"%d" % i for i in range(BIG)]),
    "a long string between short ones": typed(TensorProto.STRING, 3, string_data=[b"a", LONG, b"z"]),
    "long strings": typed(TensorProto.STRING, 2, string_data=[LONG, LONG * 2]),
    "no elements": typed(TensorProto.FLOAT, 0),
    "no elements, raw": typed(TensorProto.FLOAT, 0, raw_data=b""),
} | {
    f"raw {np.dtype(kind).name}": numpy_helper.from_array((np.arange(BIG) % 7).astype(kind), "w")
    for kind in (
        np.float32, np.float64, np.float16, np.int8, np.uint16, np.bool_, np.complex128, ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.float4_e2m1fn,
    )
}  # fmt: skip


def constant_model(tensor: TensorProto) -> onnx.ModelProto:
    described = TensorProto()
    described.CopyFrom(tensor)
    described.doc_string = "what it is"
    described.metadata_props.add(key="k", value="v")
    out = helper.make_tensor_value_info("y", tensor.data_type, list(tensor.dims))
    graph = helper.make_graph([helper.make_node("Identity", ["w"], ["y"])], "g", [], [out], [described])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)


@cases("tensor", KINDS_OF_TENSORS)
def test_tensors_round_trip(tmp_path: Path, no_fsync: None, tensor: TensorProto) -> None:
    """In the file as before and in one of external data, with the elements that onnx reads, at the announced size."""
    model, want = constant_model(tensor), numpy_helper.to_array(tensor)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    loaded = read(tmp_path / "m.onnx")
    exported = serialize(loaded)
    assert exported.to_proto() == model
    assert exported.size == len(join_chunks(exported.chunks())) == (tmp_path / "m.onnx").stat().st_size
    assert onnx.load(save(loaded, tmp_path / "out.onnx")) == model
    ((_, found),) = read(tmp_path / "m.onnx").written_initializers()
    assert found.array.dtype == want.dtype
    np.testing.assert_array_equal(found.array, want)
    once = save(read(tmp_path / "m.onnx"), tmp_path / "one.onnx", external=True)
    twice = save(read(once), tmp_path / "two.onnx", external=True)
    for path in (once, twice):
        (w,) = onnx.load(path).graph.initializer
        np.testing.assert_array_equal(numpy_helper.to_array(w), want)
        assert (w.doc_string, w.name, w.metadata_props[0].value) == ("what it is", "w", "v")


PIECE, PIECES = 640 << 20, 4  # bytes; 2.5 GB in total, in a sparse file

HUGE = f"""
import resource, sys
from pathlib import Path
import onnx
from passwright import optimize
folder = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))  # of its own, mapped files not counted
result = optimize(folder / "m.onnx", verify=False)
assert result.report.before.ops == {{"Identity": 1, "Gather": {PIECES}, "Sum": 1}}, result.report.before.ops
assert result.report.after.ops == {{"Gather": {PIECES}, "Sum": 1}}, result.report.after.ops
assert result.report.after.bytes > {PIECE * PIECES}, result.report.after.bytes
# Linux lets ru_maxrss of a child start at its parent's; VmHWM starts anew with each program.
status = Path("/proc/self/status")
lines = status.read_text().splitlines() if status.exists() else []
peak = next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), None)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss if peak is None else peak)
"""


def save_tables(folder: Path, piece: int = PIECE) -> Path:
    """Save a model that gathers rows of tables of `piece` bytes; the first row of each table holds its number."""
    rows = piece // 4 // 1024
    gathered = " ".join(f"r{n} = Gather(w{n}, j)" for n in range(PIECES))
    total = f"y = Sum({', '.join(f'r{n}' for n in range(PIECES))})"
    model = text_model(f"g (int64[1] i) => (float[1,1024] y) {{ j = Identity(i) {gathered} {total} }}")
    for n in range(PIECES):
        w = TensorProto(name=f"w{n}", data_type=TensorProto.FLOAT, dims=[rows, 1024], raw_data=b"")
        set_external_data(w, "w.bin", n * piece, piece)
        w.ClearField("raw_data")
        model.graph.initializer.append(w)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    with (folder / "w.bin").open("wb") as f:
        for n in range(PIECES):
            f.seek(n * piece)
            f.write(np.full(1024, n + 1, np.float32).tobytes())
        f.truncate(piece * PIECES)
    return folder


def test_model_over_2_gb_takes_little_memory(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HUGE, save_tables(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 300 << 10, f"{int(done.stdout) >> 10} MB"


@pytest.mark.parametrize("piece", slow_unless({4 << 20}, (4 << 20, PIECE)))
def test_model_over_2_gb_is_written_with_external_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(writer, "MAX_MESSAGE_BYTES", min(writer.MAX_MESSAGE_BYTES, piece * PIECES - 1))
    out = tmp_path / "out.onnx"
    model = load(ModelFile(save_tables(tmp_path, piece) / "m.onnx"))
    try:
        save(model, out)
        assert out.stat().st_size < 1 << 20
        assert data_of(out).stat().st_size >= piece * PIECES
        assert data_of(out).stat().st_blocks * 512 < 1 << 20  # the copy keeps the holes of the sparse source
        raw = onnx.load(out, load_external_data=False)
        for n, w in enumerate(raw.graph.initializer):
            entries = {e.key: e.value for e in w.external_data}
            assert int(entries["length"]) == piece
            with data_of(out).open("rb") as f:
                f.seek(int(entries["offset"]))
                assert np.frombuffer(f.read(4096), np.float32).tolist() == [n + 1] * 1024
    finally:
        data_of(out).unlink()


def test_replays_write_no_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_JOINED_BYTES", 0)
    written: list[Path] = []
    write = writer.write_model

    def recording_write(model: Any, path: Path, **options: Any) -> Any:
        written.append(path)
        return write(model, path, **options)

    for module in (writer, publishing):
        monkeypatch.setattr(module, "write_model", recording_write)
    text = "g (float[N,64] x) => (float[N,64] y) { a = MatMul(x, w) b = Neg(a) c = Neg(b) d = Abs(c) y = Neg(d) }"
    model = text_model(text, weights={"w": SQUARE})
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    report = optimize(tmp_path / "m.onnx", plugin=[drop_abs], output=tmp_path / "out.onnx").report
    assert [q.by for q in report.rejected] == ["drop_abs"]
    assert report.replays > 0
    assert report.after.ops == {"Abs": 1, "MatMul": 1, "Neg": 1}
    assert [p.name for p in written] == ["out.onnx"] * 2  # the wrong candidate and the right one
    run = LoadedModel(tmp_path / "out.onnx").run(["y"], {"x": np.ones((2, 64), np.float32)})[0]
    np.testing.assert_allclose(run, -abs(np.ones((2, 64), np.float32) @ SQUARE), rtol=1e-4, atol=1e-4)


@rule(lambda g, x: g.Abs(x), contract=EXACT)
def drop_abs(g: RewriteBuilder, x: Value) -> Value:
    """Abs(x) => x, which is wrong"""
    return x


@pytest.mark.parametrize(("folder", "external"), [(b"plain", True), (b"\xff", False)])
def test_sessions_load_files_whose_names_are_not_utf8(tmp_path: Path, folder: bytes, external: bool) -> None:
    model = text_model("g (float[512] x) => (float[512] y) { y = Add(x, w) }", weights={"w": np.ones(512, np.float32)})
    path = tmp_path / os.fsdecode(folder) / os.fsdecode(b"m\xff.onnx")
    path.parent.mkdir()
    onnx.save(model, path, save_as_external_data=external, location="w.bin", size_threshold=0)
    (found,) = LoadedModel(path).run(["y"], {"x": np.zeros(512, np.float32)})
    assert np.array_equal(found, np.ones(512))


@pytest.mark.skipif(sys.platform != "linux", reason="no list of open files")
@pytest.mark.parametrize("limit", ["GRAPH_BYTES", "MAX_UNCOLLECTED_BYTES"])
def test_models_that_are_not_used_any_more_are_freed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """Python's collector would not notice them for long: each is a cycle of few objects, with a file and weights."""
    weights = {"w": np.ones((256, 4), np.float32)}
    monkeypatch.setattr(gc_pause, "GRAPH_BYTES", 1000 if limit == "GRAPH_BYTES" else 0)
    monkeypatch.setattr(gc_pause, "MAX_UNCOLLECTED_BYTES", 8 * (weights["w"].nbytes + gc_pause.GRAPH_BYTES))
    path = tmp_path / "m.onnx"
    onnx.save(text_model("g (float[256,4] x) => (float[256,4] y) { y = Mul(x, w) }", weights=weights), path)
    gc.collect()
    before = len(list(Path("/proc/self/fd").iterdir()))
    gc.disable()
    try:
        for _ in range(40):
            load(ModelFile(path))
        assert len(list(Path("/proc/self/fd").iterdir())) - before <= 12
    finally:
        gc.enable()
