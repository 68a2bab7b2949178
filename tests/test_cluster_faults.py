"""Batches on a Dask cluster of real processes, of which some are killed: nothing is lost, and nothing is done twice."""

import csv
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx
import pytest
from dask_cluster import DaskCluster, kill
from passwright.app.models.journal import FILE
from process_faults import are_gone, wait_until
from rewriting import load
from tiers import GOLDEN_SAMPLE

pytestmark = pytest.mark.slow
COMMAND = str(Path(sys.executable).with_name("passes"))
GOLDEN = Path(__file__).parent.parent / "golden_models"
COUNT = 12
PATIENCE = 3000  # seconds for a batch, used up by failures only
# A rule that takes its time, and leaves a line for each model.
SLOW_RULE = '''
import os, pathlib, time
from passwright.core import EXACT, rule

@rule(lambda g, x: g.Relu(g.Relu(x)), contract=EXACT)
def slow_rule(g, x):
    """Relu(Relu(x)) => Relu(x)"""
    with open(pathlib.Path(__file__).with_name("told"), "a") as told:
        told.write(f"{os.getpid()}\\n")
    time.sleep(0.5)
    return g.Relu(x)
'''
RUN_OPTIONS = ("--plugin", "slow_rule.py", "--only", "slow-rule", "--no-verify")
OPTIONS = (*RUN_OPTIONS, "--output-dir", "out")
Batch = subprocess.Popen[str]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with models of 100 kB and the rule."""
    (tmp_path / "zoo").mkdir()
    (tmp_path / "slow_rule.py").write_text(SLOW_RULE)
    text = "g (float[N,25000] x) => (float[N,25000] y) { a = Relu(x) b = Relu(a) y = Mul(b, w) }"
    for number in range(COUNT):
        weights = {"w": np.full(25000, number + 0.5, np.float32)}
        onnx.save(load(text, weights=weights), tmp_path / f"zoo/m{number:02}.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[DaskCluster]:
    with DaskCluster(tmp_path_factory.mktemp("cluster"), 3) as cluster:
        yield cluster


def begin(*arguments: str) -> Batch:
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "80"}
    command = [COMMAND, "batch", *arguments]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(batch: Batch, code: int = 0) -> tuple[str, str]:
    out, errors = batch.communicate(timeout=PATIENCE)
    assert batch.returncode == code, out + errors
    return out, errors


def outcomes(out: str) -> dict[str, int]:
    """The numbers of models in the last line of a batch, by outcome."""
    counts = re.fullmatch(rf"{COUNT} models: (.*); written to out", out.splitlines()[-1])
    assert counts is not None, out
    return {name: int(count) for count, name in (part.split(" ", 1) for part in counts[1].split(", "))}


def lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def wait_for_results(count: int, folder: Path) -> None:
    wait_until(lambda: len(lines(folder / "out" / FILE)) >= count)


def expected(folder: Path) -> dict[str, bytes]:
    """The results of single runs."""
    subprocess.run([COMMAND, "run", "zoo", *RUN_OPTIONS, "--output-dir", "single"], check=True, capture_output=True)
    return {p.name: p.read_bytes() for p in (folder / "single").glob("*.onnx")}


def assert_complete(folder: Path) -> None:
    """A result and a row for each model, no more and no less, and the results are those of single runs."""
    assert {p.name: p.read_bytes() for p in (folder / "out").glob("*.onnx")} == expected(folder)
    with (folder / "out/results.csv").open(newline="") as table:
        rows = [(Path(row["model"]).name, row["outcome"]) for row in csv.DictReader(table)]
    assert sorted(rows) == [(f"m{n:02}.onnx", "not verified") for n in range(COUNT)]
    assert {p.name for p in (folder / "out").iterdir()} == {*expected_names(), FILE, "results.csv", "results.html"}


def expected_names() -> set[str]:
    return {f"m{n:02}.onnx" for n in range(COUNT)}


def test_worker_killed_in_the_middle(cluster: DaskCluster, folder: Path) -> None:
    batch = begin("zoo", *OPTIONS, "--on", cluster.address)
    wait_for_results(2, folder)
    kill(cluster.workers[0])
    out, errors = end(batch)
    assert errors == ""
    assert outcomes(out) == {"not verified": COUNT}
    assert COUNT <= len(lines(folder / "told")) <= COUNT + 3  # again what was lost with the worker
    assert_complete(folder)


def test_scheduler_restarted(cluster: DaskCluster, folder: Path) -> None:
    batch = begin("zoo", *OPTIONS, "--on", cluster.address)
    wait_for_results(3, folder)
    port = int(cluster.address.rpartition(":")[2])
    kill(cluster.scheduler)
    _, errors = end(batch, code=1)
    done = len(lines(folder / "out" / FILE))
    assert errors == (
        f"error: lost the Dask scheduler at {cluster.address}: {done} of {COUNT} models are done, "
        "and their results are kept; --resume runs the others\n"
    )
    before = {p.name: p.stat().st_mtime_ns for p in (folder / "out").glob("*.onnx")}
    recorded = [line.partition('["')[2].partition('"')[0] for line in lines(folder / "out" / FILE)]
    wait_until(lambda: all(worker.poll() is not None for worker in cluster.workers))  # as Dask has them do
    cluster.start_scheduler(port)
    cluster.workers = [cluster.start_worker() for _ in range(3)]
    told = len(lines(folder / "told"))
    out, errors = end(begin("zoo", *OPTIONS, "--on", cluster.address, "--resume"))
    assert errors == ""
    assert outcomes(out) == {"done before": done, "not verified": COUNT - done}
    assert len(lines(folder / "told")) - told == COUNT - done
    after = {p.name: p.stat().st_mtime_ns for p in (folder / "out").glob("*.onnx")}
    assert {name: after[name] for name in recorded} == {name: before[name] for name in recorded}
    assert_complete(folder)


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of other processes are those of Linux")
def test_full_disk_on_one_worker(cluster: DaskCluster, folder: Path) -> None:
    """One worker cannot write more than a few kB: the others do what it cannot."""
    full = cluster.workers[0].pid
    resource.prlimit(full, resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    out, errors = end(begin("zoo", *OPTIONS, "--on", cluster.address))
    assert errors == ""
    assert outcomes(out) == {"not verified": COUNT}
    assert len(lines(folder / "told")) > COUNT  # the full one tried
    assert_complete(folder)


def test_full_disk_on_all_workers(cluster: DaskCluster, folder: Path) -> None:
    """No worker is asked for ever: each model fails with one line, and a later batch does it."""
    for worker in cluster.workers:
        resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    _, errors = end(begin("zoo", *OPTIONS, "--on", cluster.address), code=1)
    assert Counter(line.partition(":")[0] for line in errors.splitlines()) == {"error": COUNT}
    assert "m00.onnx: File too large" in errors
    assert list((folder / "out").glob("*.onnx")) == []
    cluster.workers += [cluster.start_worker() for _ in range(2)]
    for worker in cluster.workers[:3]:
        kill(worker)
    out, _ = end(begin("zoo", *OPTIONS, "--on", cluster.address, "--resume"))
    assert outcomes(out) == {"not verified": COUNT}
    assert_complete(folder)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_command_ended(cluster: DaskCluster, folder: Path, how: signal.Signals) -> None:
    """Ctrl-C ends what runs on the workers; after a kill these finish it, and begin nothing else."""
    batch = begin("zoo", *OPTIONS, "--on", cluster.address)
    wait_for_results(2, folder)
    batch.send_signal(how)
    _, errors = batch.communicate(timeout=60)
    assert batch.returncode in {128 + how, -how}
    done = len(lines(folder / "out" / FILE))
    if how != signal.SIGKILL:
        assert errors == (
            f"interrupted: {done} of {COUNT} models are done, and their results are kept; --resume runs the others\n"
        )
    told = len(lines(folder / "told"))
    processes = {int(line) for line in lines(folder / "told")}
    if how != signal.SIGKILL:
        wait_until(lambda: are_gone(processes))
    out, errors = end(begin("zoo", *OPTIONS, "--on", cluster.address, "--resume"))
    assert errors == ""
    assert outcomes(out) == {"done before": done, "not verified": COUNT - done}
    assert len(lines(folder / "told")) - told <= COUNT - done + 3
    assert_complete(folder)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes the certificate")
def test_encrypted_cluster(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With certificates of Dask's configuration the batch is done; without them, one line says so."""
    place = tmp_path_factory.mktemp("cluster")
    key, certificate = str(place / "key.pem"), str(place / "cert.pem")
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=dask"]
    subprocess.run([*request, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    prefix = "DASK_DISTRIBUTED__COMM__TLS__"
    with monkeypatch.context() as patch:
        patch.setenv(f"{prefix}CA_FILE", certificate)
        for role in ("SCHEDULER", "WORKER", "CLIENT"):
            patch.setenv(f"{prefix}{role}__CERT", certificate)
            patch.setenv(f"{prefix}{role}__KEY", key)
        cluster = DaskCluster(place, 2, "--protocol", "tls")
        batch = begin("zoo", *OPTIONS, "--on", cluster.address)
    with cluster:
        assert cluster.address.startswith("tls://")
        out, errors = end(batch)
        assert errors == ""
        assert outcomes(out) == {"not verified": COUNT}
        _, errors = end(begin("zoo", *OPTIONS, "--on", cluster.address), code=2)
        assert errors.startswith(f"error: {cluster.address} is not the address of a Dask scheduler: TLS expects")
        assert errors.count("\n") == 1
        _, errors = end(begin("zoo", *OPTIONS, "--on", cluster.address.replace("tls", "tcp")), code=1)
        assert errors.startswith("error: no Dask scheduler answers at tcp://")


def test_golden_models_are_those_of_single_runs(cluster: DaskCluster, folder: Path) -> None:
    shutil.rmtree(folder / "zoo")
    options = ("--verify", "quick", "-q")
    subprocess.run([COMMAND, "batch", str(GOLDEN / "*.onnx"), "--output-dir", "pool", *options], check=True)
    end(begin(str(GOLDEN / "*.onnx"), "--output-dir", "out", "--on", cluster.address, *options))
    names = {p.name for p in GOLDEN.glob("*.onnx")}
    made = models_and_data(folder / "out")
    assert len(names) >= 24
    assert names <= made.keys()
    assert made == models_and_data(folder / "pool")
    (folder / "single").mkdir()
    for name in GOLDEN_SAMPLE:  # under the same names, which those of external data follow
        subprocess.run([COMMAND, "run", GOLDEN / f"{name}.onnx", "-o", f"single/{name}.onnx", *options], check=True)
    single = models_and_data(folder / "single")
    assert {f"{name}.onnx" for name in GOLDEN_SAMPLE} < single.keys()
    assert {name: digest for name, digest in made.items() if name in single} == single


def models_and_data(folder: Path) -> dict[str, str]:
    """A digest of each model in a folder, and of each file of external data."""
    files = (p for p in folder.iterdir() if p.suffix in {".onnx", ".data"})
    return {p.name: sha256(p.read_bytes()).hexdigest() for p in files}
