"""Settings and fixtures for all tests."""

from __future__ import annotations

import gc
import json
import os
import subprocess
from collections.abc import Generator, Iterator, Sequence
from contextlib import nullcontext
from functools import cache, partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from passwright.app.cli import entry
from passwright.core.processes.process_limits import let_idle_threads_sleep
from passwright.core.support import gc_pause

if TYPE_CHECKING:
    from passwright.core.ort.remote_backend import RemoteBackend
    from passwright.testing.model_comparison import ComparisonProcess

let_idle_threads_sleep()  # of all processes that tests start
entry.load_command = cache(entry.load_command)  # of typer, which takes a fifth of a small run
gc_pause.collect_seldom()  # as processes of this project do
settings.register_profile("default", deadline=None, max_examples=6, derandomize=True)
settings.register_profile("slow", deadline=None, max_examples=40, derandomize=True)  # of `make test-all`
settings.load_profile("default")


def pytest_configure(config: pytest.Config) -> None:
    """Compare all pairs of models with the slow tests, also those that were equal before."""
    if not config.getoption("markexpr"):
        from equivalent_models import recorded

        recorded().clear()


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None, None, None]:
    """Make no items of rows that are slow in the first tier, which would leave them out: they are two fifths of all."""
    yield
    if metafunc.config.getoption("markexpr") == "not slow":
        is_slow = metafunc.definition.get_closest_marker("slow") is not None
        chosen = [c for c in metafunc._calls if not is_slow and not any(m.name == "slow" for m in c.marks)]
        metafunc._calls = chosen or metafunc._calls[:1]


def pytest_collection_finish() -> None:
    """Keep the garbage collector from traversing all tests each time."""
    gc_pause.freeze_once()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Keep the garbage collector from traversing what a module of tests imported or cached; small graphs are garbage.

    It traversed a heap that grows with each module every hundred graphs.
    """
    result = yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
    return result


@pytest.fixture(scope="session", autouse=True)
def _worker_processes_are_forked(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fork worker processes from one that imported what they need, in the first tier."""
    if not (request.config.getoption("markexpr") and hasattr(os, "fork")):
        yield
        return
    from process_server import ProcessServer

    server = ProcessServer()
    with pytest.MonkeyPatch.context() as patch:
        replaced = SimpleNamespace(**vars(subprocess) | {"Popen": server.popen})
        patch.setattr("passwright.core.processes.worker_process.subprocess", replaced)
        yield
    server.end()


@pytest.fixture(scope="module")
def _worker_processes_are_new() -> Iterator[None]:
    """Start worker processes as the tool does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("passwright.core.processes.worker_process.subprocess", subprocess)
        yield


@pytest.fixture(scope="module")
def _few_combined_inputs(request: pytest.FixtureRequest) -> Iterator[None]:
    """Verify on one in 12 of the combined input sets in the first tier: they take half of the time of small models.

    For tests of other things than what these inputs find.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.config.getoption("markexpr"):
            patch.setattr("passwright.core.verify.verification_spec.COMBINED_PART", (0, 12))
        yield


@pytest.fixture(scope="session")
def shared_remote() -> Iterator[RemoteBackend]:
    """onnxruntime in a process that all tests share: starting one takes much longer than a small model."""
    from passwright.core.ort.remote_backend import RemoteBackend

    with RemoteBackend() as remote:
        yield remote


@pytest.fixture(scope="session")
def comparison_process() -> Iterator[ComparisonProcess]:
    """A process for checks of rules that all tests share, with half a minute for a model."""
    from passwright.testing.model_comparison import ComparisonProcess

    with ComparisonProcess(30.0) as process:
        yield process


@pytest.fixture(scope="module")
def _checks_share_process(comparison_process: ComparisonProcess) -> Iterator[None]:
    """Let `passwright check` compare in the shared process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("passwright.app.check.rule_check.ComparisonProcess", lambda: nullcontext(comparison_process))
        yield


@pytest.fixture(scope="module")
def _verifies_in_process() -> Iterator[None]:
    """Run the models of verification in the process of the tests: starting another takes longer than a small model."""
    from rewriting import LocalOracle

    with pytest.MonkeyPatch.context() as patch:
        for module in ("optimize.run_setup", "optimize.repro", "verify.verify", "tune.outcome", "compare.compare"):
            patch.setattr(f"passwright.app.{module}.OracleProcess", LocalOracle)
        for module in ("core.verify.oracle_start", "app.optimize.optimize", "app.verify.verify", "app.tune.tune"):
            patch.setattr(f"passwright.{module}.start_oracle_worker", lambda: None)
        yield


@pytest.fixture(scope="module")
def _commands_measure_briefly() -> Iterator[None]:
    """Let commands measure in two sets of processes, the least that has an interval, in place of five."""
    from passwright.app.measure import benchmark

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(benchmark, "BenchmarkConfig", partial(benchmark.BenchmarkConfig, process_sets=2))
        yield


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Jobs of many models without worker processes; the names of those for which something was done."""
    from passwright.app.commands.actions import ACTIONS
    from passwright.app.models import conditions, pool, worker
    from passwright.app.models.exchange import REQUEST, unpacked

    done = list[str]()
    real = worker.perform

    def perform(action: Any, job: Any, request: Any) -> Any:
        done.append(job.model.name)
        return real(action, job, request)

    def replies(_: object, requests: Sequence[dict[str, Any]]) -> Iterator[tuple[int, Any]]:
        conditions._packed_digest.cache_clear()  # as in a new worker
        for number, request in enumerate(json.loads(json.dumps(requests))):
            yield number, json.loads(json.dumps(worker.reply_to(unpacked(request[REQUEST]), ACTIONS)))

    monkeypatch.setattr(worker, "perform", perform)
    monkeypatch.setattr(pool.ProcessPool, "replies", replies)
    return done
