"""Pools of Dask workers: replies, crashes, shortages, versions and clusters that are not there, on real processes."""

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from commands import invoke
from dask_cluster import DaskCluster, kill
from passwright.app.models import dask_pool
from passwright.app.models.dask_pool import DaskPool
from passwright.app.models.dask_worker import installed_versions
from passwright.core.errors import PassesError, UsageError
from passwright.core.processes.worker_process import RequestFailed, WorkerExit
from process_faults import are_gone, wait_until
from process_server import ProcessServer
from rewriting import cases

from passwright import optimize

# A process that sleeps, crashes always, once or late, lacks a disk on one machine, or fails.
PROCESS = """
import os, pathlib, signal, time
from passwright.core.processes.worker_process import serve
class Worker:
    def reply_to(self, request):
        kind, folder = request["do"], pathlib.Path(request["folder"])
        def clean_up(*_):
            (folder / f"{os.getpid()}.cleaned").touch()
            os._exit(0)
        signal.signal(signal.SIGTERM, clean_up)
        (folder / f"{os.getpid()}.{request['number']}.busy").touch()
        time.sleep(request.get("sleep", 0))
        reply = {"number": request["number"], "machine": os.getppid()}
        if kind == "crash" or (kind == "crash once" and not (folder / kind).exists()):
            (folder / kind).touch()
            os.abort()
        while kind == "meet" and len([*folder.glob("*.busy")]) < 2:
            time.sleep(0.05)
        if kind == "full" and os.getppid() in request["machines"]:
            (folder / "tried").touch()
            reply["shortage"] = "No space left on device"
        if kind == "fail":
            raise ValueError("no")
        return reply
serve(Worker())
"""
GOLDEN = Path(__file__).parent.parent / "golden_models"
COMMAND = ("/not/here/python", "-c", PROCESS)


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    parts = ["distributed.cli.dask_scheduler", "distributed.cli.dask_worker"]
    server = ProcessServer(parts) if request.config.getoption("markexpr") and hasattr(os, "fork") else None
    with DaskCluster(tmp_path_factory.mktemp("cluster"), 2, server=server) as cluster:
        wait_until(lambda: count_workers(cluster) == 2)
        yield cluster
    if server is not None:
        server.end()


def count_workers(cluster: DaskCluster) -> int:
    from distributed import Client

    with Client(cluster.address, set_as_default=False) as client:
        return len(client.scheduler_info()["workers"])


def requests(folder: Path, *jobs: dict[str, Any] | str) -> list[dict[str, Any]]:
    given = [job if isinstance(job, dict) else {"do": job} for job in jobs]
    return [{"number": number, "folder": str(folder), **job} for number, job in enumerate(given)]


def replies(cluster: DaskCluster, folder: Path, *jobs: dict[str, Any] | str) -> dict[int, Any]:
    return dict(DaskPool(COMMAND, cluster.address).replies(requests(folder, *jobs)))


def busy(folder: Path) -> set[int]:
    return {int(p.name.partition(".")[0]) for p in folder.glob("*.busy")}


def test_requests_are_served_by_processes_of_the_workers(cluster: DaskCluster, tmp_path: Path) -> None:
    """A crash costs one repetition by Dask, and no other request; the scheduler lacks the package."""
    pool, started = DaskPool(COMMAND, cluster.address), set[int]()
    pool.on_start = lambda: started.update(pool.running)
    kinds = ["meet", "meet", "crash once", "fail", "crash", "sleep"]
    found: dict[int, Any] = dict(pool.replies(requests(tmp_path, *kinds)))
    assert sorted(found) == sorted(started) == list(range(6))
    assert pool.running == set()
    assert isinstance(found[4], WorkerExit)
    assert found[4].code == -signal.SIGABRT
    assert found[2]["repeated"] == "the process crashed (SIGABRT)"
    assert isinstance(found[3], RequestFailed)
    assert [found[n]["number"] for n in (0, 1, 2, 5)] == [0, 1, 2, 5]
    assert {found[n]["machine"] for n in (0, 1)} == {worker.pid for worker in cluster.workers}
    wait_until(lambda: are_gone(busy(tmp_path)))


def test_a_request_goes_to_another_machine_where_one_lacks_something(cluster: DaskCluster, tmp_path: Path) -> None:
    full, other = (worker.pid for worker in cluster.workers)
    found = replies(cluster, tmp_path, *[{"do": "full", "machines": [full]}] * 6)
    assert (tmp_path / "tried").exists()
    assert {reply["machine"] for reply in found.values()} == {other}
    assert not any("shortage" in reply for reply in found.values())
    lacking = replies(cluster, tmp_path, {"do": "full", "machines": [full, other]})[0]
    assert lacking["shortage"] == "No space left on device"


def test_requests_that_were_placed_on_a_lost_machine(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that lacked something is asked again, as Dask alone would wait for the lost one for ever."""
    lost: dict[str, Any] = {"tcp://127.0.0.1:1": {"resources": {}}}
    known = iter([lost, lost])  # at the start, and when the only worker has replied
    monkeypatch.setattr(dask_pool, "_workers", lambda _: next(known, {}))
    machines = [worker.pid for worker in cluster.workers]
    pool, started = DaskPool(COMMAND, cluster.address), list[set[int]]()
    pool.on_start = lambda: started.append(pool.running.copy())
    found = dict(pool.replies(requests(tmp_path, {"do": "full", "machines": machines})))
    assert [*found] == [0]
    assert isinstance(found[0], dict)
    assert found[0]["shortage"] == "No space left on device"
    assert started == [{0}, {0}]


def test_a_late_process_is_ended(cluster: DaskCluster, tmp_path: Path) -> None:
    found = replies(cluster, tmp_path, {"do": "sleep", "sleep": 60, "seconds": 0.2}, "sleep")
    assert isinstance(found[0], WorkerExit)
    assert found[0].describe("it") == "it did not end within 0.2 s"
    assert found[1]["number"] == 1


def test_processes_end_with_the_consumer(cluster: DaskCluster, tmp_path: Path) -> None:
    jobs = requests(tmp_path, "sleep", *[{"do": "sleep", "sleep": 60}] * 8)
    with closing(DaskPool(COMMAND, cluster.address).replies(jobs)) as found:
        assert next(found)[0] == 0
        wait_until(lambda: len([*tmp_path.glob("*.busy")]) == 3)
        start = time.monotonic()
    assert time.monotonic() - start < 30
    wait_until(lambda: are_gone(busy(tmp_path)))
    assert {int(p.stem) for p in tmp_path.glob("*.cleaned")} >= {n for n in busy(tmp_path) if n}
    assert len([*tmp_path.glob("*.busy")]) == 3  # those that waited were not started


def test_requests_go_where_their_memory_is_declared(cluster: DaskCluster, tmp_path: Path) -> None:
    """Without a worker that declares memory, requests that need some are served as others; with one, there."""
    assert replies(cluster, tmp_path, {"do": "sleep", "memory": 1 << 40})[0]["number"] == 0
    large = cluster.start_worker("--resources", "memory=1e9")
    wait_until(lambda: count_workers(cluster) == 3)
    found = replies(cluster, tmp_path, *[{"do": "sleep", "memory": 6e8}] * 3, {"do": "sleep", "memory": 1 << 40})
    assert {reply["machine"] for reply in found.values()} == {large.pid}
    kill(large)
    wait_until(lambda: count_workers(cluster) == 2)


def test_golden_models_are_those_of_single_runs(cluster: DaskCluster, tmp_path: Path) -> None:
    """All of them, verified, are compared where clusters have faults."""
    names = ("functions", "mixer_external")
    models = [str(GOLDEN / f"{name}.onnx") for name in names]
    options = ["--output-dir", str(tmp_path / "out"), "--no-verify", "--on", cluster.address]
    result = invoke("batch", *models, *options)
    assert "2 models: " in result.output
    for name, model in zip(names, models, strict=True):
        optimize(model, output=tmp_path / f"{name}.onnx", verify=False)
        written = {p.name: p.read_bytes() for p in tmp_path.glob(f"{name}.onnx*")}
        assert {p.name: p.read_bytes() for p in (tmp_path / "out").glob(f"{name}.onnx*")} == written


def test_versions_are_compared(cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = installed_versions()
    monkeypatch.setattr(dask_pool, "installed_versions", lambda: {**versions, "onnxruntime": "1.0"})
    with pytest.raises(PassesError) as refused:
        replies(cluster, tmp_path, "sleep")
    message = f"has onnxruntime {versions['onnxruntime']}, not 1.0, and 1 other worker"
    assert message in str(refused.value)
    assert "tcp://127.0.0.1:" in str(refused.value)
    assert busy(tmp_path) == set()


@cases(
    ("address", "kind", "message"),
    {
        "none": ("tcp://127.0.0.1:{port}", PassesError, "no Dask scheduler answers at tcp://127.0.0.1"),
        "scheme": ("bogus://127.0.0.1:1", UsageError, " is not the address of a Dask scheduler: unknown"),
        "no port": ("tcp://127.0.0.1", UsageError, " is not the address of a Dask scheduler: missing port"),
        "no certificates": ("tls://127.0.0.1:{port}", UsageError, "TLS"),
    },
)
def test_clusters_that_are_not_there(
    monkeypatch: pytest.MonkeyPatch, address: str, kind: type[PassesError], message: str, capfd: Any
) -> None:
    monkeypatch.setattr(dask_pool, "CONNECT_SECONDS", 0.3)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(kind, match=message) as refused:
            list(DaskPool(COMMAND, address.format(port=port)).replies([{}]))
    assert "\n" not in str(refused.value)
    assert capfd.readouterr() == ("", "")


def test_server_that_is_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers with what Dask takes for a message of 2^56 bytes."""
    monkeypatch.setattr(dask_pool, "CONNECT_SECONDS", 5.0)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"\1" * 1000)
                connection.recv(1)

        Thread(target=answer, daemon=True).start()
        port = server.getsockname()[1]
        with pytest.raises(PassesError, match=f"at tcp://127.0.0.1:{port}: the answer is not from Dask"):
            list(DaskPool(COMMAND, f"tcp://127.0.0.1:{port}").replies([{}]))


def test_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(PassesError, match=r"--on needs distributed: pip install 'passwright\[cluster\]'"):
        list(DaskPool(COMMAND, "tcp://127.0.0.1:1").replies([{}]))
