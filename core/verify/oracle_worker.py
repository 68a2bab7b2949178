"""Worker of an oracle."""

from __future__ import annotations

import gc
import importlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from errno import ENOMEM
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

from ..errors import OUT_OF_MEMORY, MemoryExhausted, ModelError, PassesError
from ..io.split_models import SplitFile, load_file
from ..ort.backends import LoadedModel
from ..ort.call_monitor import Facts, monitored_by
from ..ort.evaluation_worker import EvaluationWorker
from ..ort.sessions import SessionConfig
from ..processes.onnx_calls import call_directly
from ..processes.process_limits import allocated_memory, limit_memory, prepare_to_crash
from ..processes.worker_process import Parent
from .comparison_options import ComparisonOptions
from .input_sets import InputSet
from .oracle import Oracle
from .oracle_protocol import OracleArguments, OracleExchange, OracleFacts, Packed
from .regions.shared_values import RegionDifference
from .verdict import Verdict

IDLE_SECONDS = 60.0  # without an oracle
MAX_IDLE_BYTES = 512 << 20  # of memory without an oracle; a process that holds more ends


R = TypeVar("R")
Ts = TypeVarTuple("Ts")


def exchanged(
    method: Callable[[OracleWorker, *Ts], R],
) -> Callable[[OracleWorker, Path, Packed[tuple[*Ts]]], Packed[R]]:
    """Let a method take its arguments from the parent, whose folder for input sets is given, and return its result."""

    @wraps(method)
    def exchange(worker: OracleWorker, folder: Path, packed: Packed[tuple[*Ts]]) -> Packed[R]:
        if worker.exchange is None or worker.exchange.folder != folder:
            worker.exchange = OracleExchange(folder)
        arguments = worker.exchange.unpack(packed)
        worker.exchange.calls.attach()
        with monitored_by(worker.monitor):
            try:
                result = method(worker, *arguments)
            except (MemoryError, OSError) as e:
                raise _system_error(e) from e
        return worker.exchange.pack(result)

    return exchange


@dataclass(slots=True)
class OracleWorker(EvaluationWorker):
    """The oracle of this process, if there is one, and the files in which its parent stores input sets.

    Without an oracle, the process evaluates constants.
    """

    exchange: OracleExchange | None = None
    oracle: Oracle | None = None
    _state: str = ""
    _written: tuple[int, ...] = ()
    _last_run: dict[str, Any] | None = None
    _first: int = 0  # bytes that were allocated before the first oracle

    @exchanged
    def open(self, arguments: OracleArguments) -> OracleFacts:
        """Create the oracle, or restore it."""
        assert self.exchange is not None
        self._first = self._first or allocated_memory()
        held = allocated_memory() - self._first  # memory of earlier models that was not returned to the system
        limit_memory(None if arguments.spec.memory is None else arguments.spec.memory + max(0, held))
        self._last_run = None
        if arguments.state:
            self.oracle = self.exchange.read(arguments.state)
        else:
            self.oracle = Oracle(
                load_file(arguments.original),
                arguments.spec,
                arguments.seed,
                arguments.boundaries,
                crashed=arguments.crashed,
                deadline=arguments.deadline,
                wanted_end=arguments.wanted_end,
            )
        return self._facts()

    @exchanged
    def compare(
        self, model: Path | SplitFile, options: ComparisonOptions, config: SessionConfig | None
    ) -> tuple[Verdict, OracleFacts]:
        """The verdict on a model; `config` is the onnxruntime configuration for it, None for the original's."""
        assert self.oracle is not None
        backend = None if config is None else partial(LoadedModel, config=config)
        verdict = self.oracle.compare(load_file(model), options, backend=backend)
        return verdict, self._facts()

    @exchanged
    def first_wrong_op(
        self, config: SessionConfig, input_sets: list[InputSet], after: str, most: int
    ) -> tuple[RegionDifference | None, list[str]]:
        """Find an op that is wrong in the engine of a `config`, see `Oracle.first_wrong_op`."""
        assert self.oracle is not None
        return self.oracle.first_wrong_op(partial(LoadedModel, config=config), input_sets, after, most)

    @exchanged
    def leave_out(self, input_set: InputSet, reason: str) -> OracleFacts:
        """Skip an input set from now on, for a reason."""
        assert self.oracle is not None
        self.oracle.leave_out(input_set, reason)
        return self._facts()

    @exchanged
    def outputs(self, input_set: InputSet) -> dict[str, Any]:
        """The outputs of the original."""
        assert self.oracle is not None
        return dict(next(r.outputs for r in self.oracle.runs if r.input_set is input_set))

    def _facts(self) -> OracleFacts:
        assert self.oracle is not None
        assert self.exchange is not None
        o = self.oracle
        input_sets = [r.input_set for r in o.runs]
        content = (len(input_sets), len(o.notes), self.exchange.count)
        if not self._state or self._written != content:
            self._state = self.exchange.write(o, f"state-{'-'.join(map(str, content))}")
            self._written = content
        return OracleFacts(o.backend, o.output_names, o.notes, input_sets, self._state)

    def monitor(self, facts: Facts | None, limit: float | None) -> None:
        """Record a backend call, or with None its end, for the parent."""
        assert self.exchange is not None
        if facts is None:
            self.exchange.calls.end(self._last_run)
            return
        number = self.exchange.number
        call = {name: number(fact) if isinstance(fact, InputSet) else fact for name, fact in facts.items()}
        if "runs_before" in call:
            self._last_run = call
        self.exchange.calls.begin(call, limit, self._last_run)

    def close(self) -> None:
        """Free the memory of the oracle, or end the process if that is not enough."""
        self.oracle, self.exchange, self._state = None, None, ""
        limit_memory(None)
        if self._has_much_memory():
            gc.collect()
            if self._has_much_memory():
                os._exit(0)

    @staticmethod
    def _has_much_memory() -> bool:
        psutil: Any = importlib.import_module("psutil")
        return psutil.Process().memory_info().rss > MAX_IDLE_BYTES

    def remove_folder(self) -> None:
        """Remove the files if the parent was killed."""
        if self.exchange is not None:
            shutil.rmtree(self.exchange.folder, ignore_errors=True)


def _system_error(error: MemoryError | OSError) -> PassesError:
    """The error for a lack of memory, or for a file that cannot be used, such as a removed one."""
    if isinstance(error, MemoryError) or error.errno == ENOMEM:
        return MemoryExhausted(f"verification {OUT_OF_MEMORY}")
    return ModelError(f"verification cannot use {error.filename or 'a file'}: {error.strerror}")


def main() -> None:
    """Serve the parent until it ends."""
    prepare_to_crash()
    importlib.import_module("onnxruntime")
    call_directly()
    parent = Parent()
    worker = OracleWorker(parent)
    parent.serve(worker, lambda: IDLE_SECONDS if worker.oracle is None else None, worker.remove_folder)
