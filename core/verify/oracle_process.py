"""An oracle in a worker process, where a crash, a hang or a lack of memory of onnxruntime ends nothing else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..errors import EvaluationError, MemoryExhausted, ModelError, PassesError, UnverifiableError
from ..ort.backends import OUT_OF_MEMORY
from ..ort.sessions import Loadable, SessionConfig
from ..ort.split_models import SplitModel, save_split
from ..ort.worker_folder import private_folder
from ..ort.worker_pool import worker_pool
from ..ort.worker_process import WorkerExit
from ..support.watchdog import time_limit_end
from .input_generation import InputSet
from .input_search import Answer
from .kept_values import LazyValues
from .oracle_exchange import (
    CHANGED_REGION,
    REWRITTEN,
    Comparison,
    OracleArguments,
    OracleExchange,
    OracleFacts,
    SplitFile,
)
from .oracle_start import ORACLE_WORKER
from .verdict import Mismatch, MismatchError, Verdict
from .verification_spec import VerificationSpec

MAX_FIRST_CRASHES = 3  # of the original, on the inputs that are tried first
MAX_CRASHES = 8  # of the original, on all inputs
EXIT_CODES = frozenset({0, 1})  # of a Python process that ends by itself, or with a traceback


class OracleProcess:
    """An `Oracle` in a worker process, which is replaced by one in the same state if it ends.

    `label` names the original in errors. Use it as a context manager. Raises UnverifiableError and ModelError as an
    Oracle does, and UnverifiableError if the original crashes or does not end.
    """

    def __init__(
        self,
        original: Loadable | SplitModel,
        spec: VerificationSpec,
        seed: int = 0,
        boundaries: Collection[float] = (),
        *,
        label: str = "the original",
    ) -> None:
        self.spec, self.label = spec, label
        self._scratch = private_folder()
        self._folder = self._scratch.path
        self._exchange = OracleExchange(self._folder)
        self._numbers = count()
        self._worker = worker_pool().take(ORACLE_WORKER)
        self._is_fresh = self._worker.is_unused
        try:
            arguments = OracleArguments(self._file(original), spec, seed, tuple(boundaries), {})
            self._open(replace(arguments, deadline=time_limit_end()))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Remove all files, and give back the process."""
        if self._worker.is_alive and not self._worker.is_busy:
            self._worker.begin({"do": "close"})
            worker_pool().give_back(self._worker)
        else:
            self._worker.terminate()
        self._scratch.remove()

    @property
    def backend(self) -> str:
        """The name of the backend that runs the original."""
        return self._facts.backend

    @property
    def output_names(self) -> list[str]:
        """The outputs that are compared."""
        return self._facts.output_names

    @property
    def notes(self) -> list[str]:
        """Notes about the inputs."""
        return self._facts.notes

    @property
    def answers(self) -> list[Answer]:
        """The answers of the original; the outputs are fetched when they are read."""
        return [Answer(s, LazyValues(cache(partial(self._outputs, s)))) for s in self._facts.input_sets]

    def check(self, model: Loadable | SplitModel, *, exact: bool = False) -> Verdict:
        """Compare `model` with the original, bit for bit if `exact`. Raises VerificationError."""
        verdict = self.compare(model, exact=exact)
        if verdict.failure is not None:
            raise MismatchError(verdict.failure)
        return verdict

    def compare(
        self,
        model: Loadable | SplitModel,
        *,
        exact: bool = False,
        input_sets: Collection[InputSet] | None = None,
        config: SessionConfig | None = None,
        compare_regions: bool = False,
        finite_only: bool = False,
        may_round: bool = True,
    ) -> Verdict:
        """Compare `model` with the original, as an `Oracle` does; in a session of another `config` if given.

        A crash of the rewritten model is a mismatch. Input sets on which the original crashes are left out afterwards;
        changed regions are not compared if one of them crashes alone, which the whole model need not do.
        """
        sets = None if input_sets is None else list(input_sets)
        options = {
            "exact": exact, "input_sets": sets, "compare_regions": compare_regions, "finite_only": finite_only,
            "may_round": may_round,
        }  # fmt: skip
        file, note = self._file(model), ""
        try:
            while True:
                mismatch, was_fresh = None, self._is_fresh
                try:
                    verdict, self._facts = self._request("compare", Comparison(file, options, config))
                except WorkerExit as e:
                    if _call(e).get("model") == CHANGED_REGION:
                        options["compare_regions"] = False
                        note = f"changed regions were not compared: {e.describe('onnxruntime')} on one of them"
                        self._restore()
                    else:
                        mismatch = self._mismatch(e)
                except MemoryExhausted as e:
                    if was_fresh:
                        raise UnverifiableError(f"{self.label}: {e}") from e
                    self._restore()
                else:
                    if was_fresh or not _lacks_memory(verdict):
                        self._is_fresh = False
                        notes = (*verdict.notes, note) if note else verdict.notes
                        return _with_feeds(replace(verdict, notes=notes))
                    self._restore()
                if mismatch is not None:
                    labels = () if mismatch.input_set is None else (str(mismatch.input_set),)
                    return _with_feeds(Verdict(self.backend, exact, labels, {}, (), tuple(self.notes), mismatch))
        finally:
            if not isinstance(model, Path):
                self._remove(file)

    def _mismatch(self, end: WorkerExit) -> Mismatch | None:
        """The mismatch that the end of the process in a comparison is; None if that has to be made again."""
        reason, call, counts = end.describe("onnxruntime"), _call(end), self._is_fresh
        input_set = self._exchange.input_set(call["input_set"]) if "input_set" in call else None
        self._restore()
        if not counts:  # an earlier model may have damaged the process
            return None
        if call.get("model") == REWRITTEN:
            return Mismatch("", reason if input_set is not None else f"{reason} as it loads it", input_set, None)
        if input_set is None:
            raise UnverifiableError(f"{self.label}: {reason} as it is compared")
        self._facts = self._request("leave_out", (input_set, reason))
        return None

    def _restore(self) -> None:
        """Bring a new process into the state of the last one."""
        self._worker.terminate()
        self._open(replace(self._arguments, state=self._facts.state))
        self._is_fresh = True

    def _open(self, arguments: OracleArguments) -> None:
        """Open the oracle, again without the inputs on which the original crashes."""
        self._arguments = arguments
        crashed: dict[tuple[str, int], str] = {}
        while True:
            try:
                self._facts: OracleFacts = self._request("open", replace(arguments, crashed_runs=crashed))
            except WorkerExit as e:
                reason, run = e.describe("onnxruntime"), _call(e).get("run")
                counts, self._is_fresh = self._is_fresh, True
                if not counts:
                    continue
                if run is None:
                    raise UnverifiableError(f"{self.label}: {reason} as it loads the original") from e
                crashed[run[0], run[1]] = reason
                tried_enough = e.code is None or len(crashed) == MAX_FIRST_CRASHES
                never_ran = tried_enough and _call(e)["runs_before"] == len(crashed) - 1
                if never_ran or len(crashed) == MAX_CRASHES:
                    some = "all" if never_ran else f"{len(crashed)} of the"
                    tried = f"{some} inputs that were tried, {next(iter(crashed))[0]} first"
                    raise UnverifiableError(f"{self.label}: {reason} on {tried}") from e
            except MemoryExhausted as e:
                raise UnverifiableError(f"{self.label}: {e}") from e
            except (ModelError, UnverifiableError) as e:
                if crashed:
                    raise UnverifiableError(f"{self.label}: {e}") from e
                raise
            else:
                return

    def _outputs(self, input_set: InputSet) -> Mapping[str, Any]:
        try:
            return self._request("outputs", input_set)
        except WorkerExit as e:
            raise UnverifiableError(f"{self.label}: {e.describe('onnxruntime')} on {input_set}") from e

    def _request(self, method: str, arguments: object) -> Any:
        """The result of a method of the worker. Raises WorkerExit, and what the method raises."""
        number = next(self._numbers)
        request = {
            "do": method,
            "folder": str(self._folder),
            "arguments": self._exchange.write(arguments, f"arguments-{number}"),
            "result": f"result-{number}",
        }
        try:
            self._worker.request(request)
            result = self._exchange.read(request["result"])
        except WorkerExit as e:
            if not _call(e) and e.code in EXIT_CODES:
                raise EvaluationError(e.describe("the process for verification")) from e
            raise
        finally:
            for name in (request["arguments"], request["result"]):
                (self._folder / name).unlink(missing_ok=True)
        if isinstance(result, PassesError):
            raise result
        return result

    def _file(self, model: Loadable | SplitModel) -> Path | SplitFile:
        """The file of a model; one in memory is written."""
        if isinstance(model, Path):
            return model.absolute()
        path = self._folder / f"model-{next(self._numbers)}.onnx"
        if isinstance(model, bytes):
            path.write_bytes(model)
            return path
        save_split(model, path)
        return SplitFile(path)

    def _remove(self, file: Path | SplitFile) -> None:
        path = file.path if isinstance(file, SplitFile) else file
        path.unlink(missing_ok=True)
        Path(f"{path}.data").unlink(missing_ok=True)


def _call(end: WorkerExit) -> Mapping[str, Any]:
    """The facts about the call of a backend in which the process ended; empty if there was none."""
    return end.parts.get("call") or {}


def _lacks_memory(verdict: Verdict) -> bool:
    return verdict.failure is not None and verdict.failure.reason.endswith(OUT_OF_MEMORY)


def _with_feeds(verdict: Verdict) -> Verdict:
    """The verdict, with the inputs of its failure read from their file."""
    if verdict.failure is not None and verdict.failure.input_set is not None:
        iter(verdict.failure.input_set.feeds)
    return verdict
