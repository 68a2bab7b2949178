"""An oracle in a worker process, so that a crash, a hang or a lack of memory of onnxruntime affects nothing else."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import count
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Self, TypeVar, TypeVarTuple

from msgspec import Struct
from msgspec.structs import replace

from ..errors import MORE_MEMORY, MemoryExhausted, ModelError, UnverifiableError
from ..io.split_models import Loadable, SplitFile, file_of
from ..ort.sessions import SessionConfig
from ..processes.custom_operators import runtime_name
from ..processes.watchdog import call_every, time_limit_end, wanted_end
from ..processes.worker_process import WorkerExit, WorkerProcess, worker_pool
from ..support.scratch_folder import ScratchFolder
from .comparison_options import USUAL, ComparisonOptions
from .input_sets import InputSet, ReferenceRun
from .kept_values import LazyValues
from .oracle_protocol import CHANGED_REGION, REWRITTEN, OracleArguments, OracleExchange, OracleFacts, Packed
from .oracle_start import ORACLE_WORKER
from .verdict import Mismatch, Verdict
from .verification_spec import VerificationSpec

if TYPE_CHECKING:
    from .oracle_worker import OracleWorker  # only the worker process needs it

R = TypeVar("R")
Ts = TypeVarTuple("Ts")
MAX_FIRST_CRASHES = 3  # of the original, on the inputs that are tried first
MAX_OPS_TOGETHER = 16  # ops that another engine loads at once
MAX_CRASHES = 8  # of the original, on all inputs
CALL_TICK = 0.1  # seconds between checks of the current call, which is ended at the second check after its limit
EXIT_CODES = frozenset({0, 1})  # exit codes of a Python process that ends normally, or with a traceback


class WrongOp(Struct, frozen=True):
    """An op that is wrong in an engine, by the first wrong value that it computes, the reason, and the input set."""

    place: str
    reason: str
    input_set: str


class WrongOps(Struct, frozen=True):
    """The ops that are wrong in an engine, and notes on those that were not compared."""

    found: list[WrongOp]
    notes: list[str]


class OracleProcess:
    """An `Oracle` in a worker process; if the process ends, a new one continues in the same state.

    `label` names the original in errors. `report` is called for each run of a model, with a function that describes it.
    Use it as a context manager. The process runs the original while the caller does other things; `wait`, and
    everything that needs its runs, waits for them; `is_open` says whether it has.
    """

    def __init__(
        self,
        original: Loadable,
        spec: VerificationSpec,
        seed: int = 0,
        boundaries: Collection[float] = (),
        *,
        label: str = "the original",
        report: Callable[[Callable[[], str]], object] = lambda _: None,
    ) -> None:
        self.spec, self.label, self._report = spec, label, report
        self._scratch = ScratchFolder()
        self._folder = self._scratch.path
        self._exchange = OracleExchange(self._folder)
        self._numbers = count()
        self._worker: WorkerProcess[OracleWorker] = worker_pool().take(ORACLE_WORKER)
        self._is_fresh = self._worker.is_unused
        try:
            arguments = OracleArguments(self._file(original), spec, seed, tuple(boundaries))
            self._begin_to_open(replace(arguments, deadline=time_limit_end(), wanted_end=wanted_end()))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove all files, and return the process to the pool."""
        worker_pool().give_back(self._worker, self._remote.close)
        self._scratch.remove()

    def wait(self) -> Self:
        """Wait until the original has run; on a failure, close this.

        Raises UnverifiableError and ModelError like an Oracle, and UnverifiableError if the original crashes or does
        not end.
        """
        try:
            self._wait()
        except BaseException:
            self.close()
            raise
        return self

    @property
    def backend(self) -> str:
        """The name of the backend that runs the original."""
        return self._state().backend

    @property
    def output_names(self) -> list[str]:
        """The outputs that are compared."""
        return self._state().output_names

    @property
    def notes(self) -> list[str]:
        """Notes about the inputs."""
        return self._state().notes

    @property
    def runs(self) -> list[ReferenceRun]:
        """The runs of the original; the outputs are fetched when they are read."""
        return [ReferenceRun(s, LazyValues(cache(partial(self._outputs, s)))) for s in self._state().input_sets]

    def compare(
        self, model: Loadable, options: ComparisonOptions = USUAL, *, config: SessionConfig | None = None
    ) -> Verdict:
        """Compare `model` with the original like an `Oracle`; in a session with another `config` if given.

        A crash of the rewritten model is a mismatch. Input sets on which the original crashes are skipped afterwards.
        Changed regions are not compared if one of them crashes when run alone, because the whole model may run.
        """
        self.wait()
        sets = options.input_sets
        with self._file_of(model) as file:
            options, note = replace(options, input_sets=None if sets is None else list(sets)), ""
            while True:
                mismatch, is_decisive = None, self._is_fresh
                try:
                    verdict, self._facts = self._request(self._remote.compare, file, options, config)
                except WorkerExit as e:
                    if _call(e).get("model") == CHANGED_REGION:
                        options = replace(options, compare_regions=False, explain_by_regions=False, finds_limits=False)
                        name = runtime_name() if config is None else runtime_name(config.engine_name)
                        note = f"changed regions were not compared: {e.describe(name)} on one of them"
                        self._restore()
                    else:
                        mismatch = self._mismatch(e, config)
                except MemoryExhausted as e:
                    if is_decisive:
                        raise UnverifiableError(f"{self.label}: {e}; {MORE_MEMORY}") from e
                    self._restore()
                else:
                    if is_decisive or verdict.failure is None or not verdict.failure.lacks_memory:
                        self._is_fresh = False
                        notes = (*verdict.notes, note) if note else verdict.notes
                        return _with_feeds(replace(verdict, notes=notes))
                    self._restore()
                if mismatch is not None:
                    labels = () if mismatch.input_set is None else (str(mismatch.input_set),)
                    return _with_feeds(
                        Verdict(self.backend, options.exact, labels, {}, (), tuple(self.notes), mismatch)
                    )

    def wrong_ops(self, config: SessionConfig, input_sets: Sequence[InputSet], most: int) -> WrongOps:
        """Up to `most` ops of the original that are wrong, or crash, when run alone in the engine of a `config`.

        They get the values of the original on input sets. Raises UnverifiableError.
        """
        self.wait()
        found, notes, after, together = list[WrongOp](), dict[str, None](), "", MAX_OPS_TOGETHER
        while len(found) < most:
            try:
                arguments = config, list(input_sets), after, together
                wrong, more = self._request(self._remote.first_wrong_op, *arguments)
            except WorkerExit as e:
                reason, points = e.describe(runtime_name(config.engine_name)), _call(e).get("cut_points", ())
                self._restore()
                if not points:
                    raise UnverifiableError(f"{self.label}: {reason} as its ops are compared") from e
                if len(points) > 1:  # one of these ops ends the process
                    together = 1
                    continue
                found.append(WrongOp(points[0], reason, ""))
                after = points[0]
                continue
            notes |= dict.fromkeys(more)
            if wrong is None:
                break
            found.append(WrongOp(wrong.cut_point, wrong.difference.reason, str(wrong.input_set)))
            after = wrong.cut_point
        return WrongOps(found, list(notes))

    def _mismatch(self, end: WorkerExit, config: SessionConfig | None) -> Mismatch | None:
        """The mismatch implied by the end of the process in a comparison; None if that must be repeated."""
        call, counts = _call(end), self._is_fresh
        is_of_engine = config is not None and call.get("model") == REWRITTEN
        reason = end.describe(runtime_name(config.engine_name) if is_of_engine and config else runtime_name())
        input_set = self._exchange.input_set(call["input_set"]) if "input_set" in call else None
        self._restore()
        if not counts:  # an earlier model may have damaged the process
            return None
        if call.get("model") == REWRITTEN:
            return Mismatch("", reason if input_set is not None else f"{reason} as it loads it", input_set, None)
        if input_set is None:
            raise UnverifiableError(f"{self.label}: {reason} as it is compared")
        self._facts = self._request(self._remote.leave_out, input_set, reason)
        return None

    def _restore(self) -> None:
        """Bring a new process into the state of the last one."""
        self._worker.terminate()
        self._begin_to_open(replace(self._arguments, state=self._facts.state))
        self._wait()
        self._is_fresh = True

    def _state(self) -> OracleFacts:
        self.wait()
        return self._facts

    def _begin_to_open(self, arguments: OracleArguments) -> None:
        self._arguments = arguments
        self.is_open = False
        self._begin(self._remote.open, arguments)

    def _wait(self) -> None:
        """Wait until the oracle is open; reopen it without the inputs on which the original crashes."""
        crashed: list[tuple[InputSet, str]] = []
        while not self.is_open:
            self.is_open = True
            try:
                self._facts: OracleFacts = self._end()
            except WorkerExit as e:
                counts, self._is_fresh = self._is_fresh, True
                if counts:
                    self._record_crash(e, crashed)
                self._begin_to_open(replace(self._arguments, crashed=crashed))
            except MemoryExhausted as e:
                if self._is_fresh:
                    raise UnverifiableError(f"{self.label}: {e}; {MORE_MEMORY}") from e
                self._worker.terminate()  # it holds memory of other models
                self._is_fresh = True
                self._begin_to_open(replace(self._arguments, crashed=crashed))
            except (ModelError, UnverifiableError) as e:
                if crashed:
                    raise UnverifiableError(f"{self.label}: {e}") from e
                raise

    def _record_crash(self, end: WorkerExit, crashed: list[tuple[InputSet, str]]) -> None:
        """Add the run in which the process ended; for a crash between runs, the last run, which may be the reason.

        Raises UnverifiableError if there was none, or after too many crashes.
        """
        reason, call = end.describe(runtime_name()), _call(end)
        run = call if "runs_before" in call else end.progress.get("after") if end.code is not None else None
        if not run:
            raise UnverifiableError(f"{self.label}: {reason} as it loads the original") from end
        crashed.append((self._exchange.input_set(run["input_set"]), reason))
        tried_enough = end.code is None or len(crashed) == MAX_FIRST_CRASHES
        never_ran = tried_enough and run is call and run["runs_before"] == 0
        if never_ran or len(crashed) == MAX_CRASHES:
            some = "all" if never_ran else f"{len(crashed)} of the"
            tried = f"{some} inputs that were tried, {crashed[0][0]} first"
            raise UnverifiableError(f"{self.label}: {reason} on {tried}") from end

    def _outputs(self, input_set: InputSet) -> Mapping[str, Any]:
        try:
            return self._request(self._remote.outputs, input_set)
        except WorkerExit as e:
            raise UnverifiableError(f"{self.label}: {e.describe(runtime_name())} on {input_set}") from e

    @property
    def _remote(self) -> OracleWorker:
        return self._worker.call()

    def _request(self, method: Callable[[Path, Packed[tuple[*Ts]]], Packed[R]], *arguments: *Ts) -> R:
        """Call a method of the worker. Raises WorkerExit, and what the method raises."""
        self._begin(method, *arguments)
        return self._end()

    def _begin(self, method: Callable[[Path, Packed[tuple[*Ts]]], Packed[R]], *arguments: *Ts) -> None:
        """Start a method of the worker."""
        self._exchange.calls.create()
        self._worker.begin(method, self._folder, self._exchange.pack(arguments))

    def _end(self) -> Any:
        """The result of the method that was started."""
        late = Event()

        def watch_call() -> None:
            facts, is_overdue = self._exchange.calls.look()
            if is_overdue:
                late.set()
                self._worker.kill()
            elif facts:
                self._report(partial(_call_text, facts))

        try:
            with call_every(CALL_TICK, watch_call):
                result: Packed[Any] = self._worker.reply()
        except WorkerExit as e:
            call = self._exchange.calls.read()
            if not call.get("facts") and e.code in EXIT_CODES:
                raise UnverifiableError(f"{self.label}: {e.describe('the process for verification')}") from e
            end = (None, call["limit"]) if late.is_set() else (e.code, e.timeout)
            raise WorkerExit(*end, e.last_line, dict(call)) from e
        return self._exchange.unpack(result)

    def _file(self, model: Loadable) -> Path | SplitFile:
        """The file of a model; a model in memory is written to one."""
        return file_of(model, self._folder / f"model-{next(self._numbers)}.onnx")

    @contextmanager
    def _file_of(self, model: Loadable) -> Generator[Path | SplitFile]:
        """The file of a model; if the model was in memory, the file is removed at the end."""
        file = self._file(model)
        try:
            yield file
        finally:
            if not isinstance(model, Path):
                self._remove(file)

    def _remove(self, file: Path | SplitFile) -> None:
        path = file.path if isinstance(file, SplitFile) else file
        path.unlink(missing_ok=True)
        Path(f"{path}.data").unlink(missing_ok=True)


def _call(end: WorkerExit) -> Mapping[str, Any]:
    """Facts about the backend call during which the process ended; empty if there was none."""
    return end.progress.get("facts") or {}


def _call_text(call: Mapping[str, Any]) -> str:
    """The position of a call among others."""
    if call.get("model") == CHANGED_REGION:
        return "changed regions"
    if "place" in call:
        number, count = call["place"]
        return f"input set {number} of {count}"
    return f"input set {call['runs_before'] + 1}" if "runs_before" in call else "loading the model"


def _with_feeds(verdict: Verdict) -> Verdict:
    """The verdict, with the inputs of its failure read from their file."""
    if verdict.failure is not None and verdict.failure.input_set is not None:
        iter(verdict.failure.input_set.feeds)
    return verdict
