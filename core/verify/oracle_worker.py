"""Worker of an oracle.

A request names a method, a file with its arguments and one for its result, see `OracleProcess`.
"""

from __future__ import annotations

import gc
import importlib
import os
import shutil
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from errno import ENOMEM
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import OUT_OF_MEMORY, MemoryExhausted, ModelError, PassesError
from ..io.split_models import SplitModel
from ..ort.backends import OnnxRuntime
from ..ort.call_monitor import Facts, monitored_by
from ..ort.evaluation_worker import EVALUATE, EvaluationWorker
from ..ort.process_limits import limit_memory, prepare_to_crash
from ..ort.worker_process import Message, serve
from .input_sets import InputSet
from .oracle import Oracle
from .oracle_exchange import PRELOAD, Comparison, OracleArguments, OracleExchange, OracleFacts, SplitFile
from .preloading import PreloadedOriginal
from .verdict import Verdict

IDLE_SECONDS = 60.0  # without an oracle
MAX_IDLE_BYTES = 512 << 20  # of memory without an oracle; a process that has more ends


@dataclass(slots=True)
class OracleWorker:
    """The oracle of this process, if there is one, and the files in which its parent gives and gets values."""

    exchange: OracleExchange | None = None
    oracle: Oracle | None = None
    _state: str = ""
    _written: tuple[int, ...] = ()
    _last_run: dict[str, Any] | None = None
    _preloaded: PreloadedOriginal | None = None
    _evaluation: EvaluationWorker = field(default_factory=EvaluationWorker)

    def reply(self, request: Message) -> Iterable[Message]:
        """Call the method that a request names, and write its result, or the exception that it raised."""
        if request["do"] == "close":
            self._close()
            return ()
        if request["do"] == PRELOAD:
            self._preloaded = PreloadedOriginal.begin(Path(request["model"]))
            return ()
        if request["do"] == EVALUATE:
            return self._evaluation.reply(request)
        if self.exchange is None or str(self.exchange.folder) != request["folder"]:
            self.exchange = OracleExchange(Path(request["folder"]))
        arguments = self.exchange.read(request["arguments"])
        self.exchange.calls.attach()
        with monitored_by(self._monitor):
            try:
                result = getattr(self, request["do"])(arguments)
            except PassesError as e:
                result = e
            except (MemoryError, OSError) as e:
                result = _system_error(e)
        self.exchange.write(result, request["result"])
        return ()

    def open(self, arguments: OracleArguments) -> OracleFacts:
        """Make the oracle, or restore it."""
        assert self.exchange is not None
        limit_memory(arguments.spec.memory)
        self._last_run = None
        preloaded, self._preloaded = self._preloaded, None
        if arguments.state:
            self.oracle = self.exchange.read(arguments.state)
        else:
            self.oracle = Oracle(
                _loaded(arguments.original),
                arguments.spec,
                arguments.seed,
                arguments.boundaries,
                crashed_runs=arguments.crashed_runs,
                deadline=arguments.deadline,
                preloaded=preloaded if preloaded is not None and preloaded.path == arguments.original else None,
            )
        return self._facts()

    def compare(self, comparison: Comparison) -> tuple[Verdict, OracleFacts]:
        """The verdict on a model."""
        assert self.oracle is not None
        backend = None if comparison.config is None else partial(OnnxRuntime, config=comparison.config)
        options = replace(comparison.options, conditions=[_loaded(c) for c in comparison.conditions])
        verdict = self.oracle.compare(_loaded(comparison.model), options, backend=backend)
        return verdict, self._facts()

    def leave_out(self, arguments: tuple[InputSet, str]) -> OracleFacts:
        """Use an input set no more, for a reason."""
        assert self.oracle is not None
        self.oracle.leave_out(*arguments)
        return self._facts()

    def outputs(self, input_set: InputSet) -> dict[str, Any]:
        """The outputs of the original."""
        assert self.oracle is not None
        return dict(next(a.outputs for a in self.oracle.answers if a.input_set is input_set))

    def _facts(self) -> OracleFacts:
        assert self.oracle is not None
        assert self.exchange is not None
        o = self.oracle
        input_sets = [a.input_set for a in o.answers]
        content = (len(input_sets), len(o.notes), self.exchange.count)
        if not self._state or self._written != content:
            self._state = self.exchange.write(o, f"state-{'-'.join(map(str, content))}")
            self._written = content
        return OracleFacts(o.backend, o.output_names, o.notes, input_sets, self._state)

    def _monitor(self, facts: Facts | None, limit: float | None) -> None:
        assert self.exchange is not None
        if facts is None:
            self.exchange.calls.end(self._last_run)
            return
        number = self.exchange.number
        call = {name: number(fact) if isinstance(fact, InputSet) else fact for name, fact in facts.items()}
        if "run" in call:
            self._last_run = call
        self.exchange.calls.begin(call, limit, self._last_run)

    def _close(self) -> None:
        """Free the memory of the oracle, or end if that is not enough."""
        self.oracle, self.exchange, self._state, self._preloaded = None, None, "", None
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
        """Remove the files, in place of a parent that was killed."""
        self._evaluation.remove_folder()
        if self.exchange is not None:
            shutil.rmtree(self.exchange.folder, ignore_errors=True)


def _system_error(error: MemoryError | OSError) -> PassesError:
    """The error for a lack of memory, or for a file that cannot be used, as one that was removed."""
    if isinstance(error, MemoryError) or error.errno == ENOMEM:
        return MemoryExhausted(f"verification {OUT_OF_MEMORY}")
    return ModelError(f"verification cannot use {error.filename or 'a file'}: {error.strerror}")


def _loaded(model: Path | SplitFile) -> Path | SplitModel:
    return model.load() if isinstance(model, SplitFile) else model


def main() -> None:
    """Reply to requests until the input ends."""
    prepare_to_crash()
    importlib.import_module("onnxruntime")
    worker = OracleWorker()
    serve(
        worker.reply,
        describe=lambda e: "".join(traceback.format_exception(e)),
        idle_limit=lambda: IDLE_SECONDS if worker.oracle is None else None,
        clean_up=worker.remove_folder,
    )
