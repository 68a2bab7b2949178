"""Proofs by z3, in a process with limits of time and memory, because z3 does not always keep its own limits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Self

from onnx import TensorProto

from ..ir.dtypes import FLOATS
from ..processes.worker_process import RequestFailed, WorkerExit, WorkerProcess, module_command
from ..verify.proof_guarantees import Guarantee
from .obligation import LARGE_SIZE, Fragment, NotApplicable, Obligation, beside_limits, promises_bits, size_sets
from .replay import format_inputs, replay
from .smt_answer import Answer, AnswerKind, Question
from .verdict import ProofVerdict, Technique, unknown

if TYPE_CHECKING:
    from .smt_worker import SmtWorker  # it needs z3

MEMORY = 2 << 30
ELEMENT_SECONDS = 5.0
SECONDS = 30.0
REALS_NOTE = "a float constant is the simplest fraction that rounds to it"
EXACT_NOTE = "a kernel gives equal bits for equal bits at one place of a tensor"


@dataclass(slots=True)
class SmtProver:
    """Asks z3 about obligations, at most `seconds` for each and `element_seconds` for an element. A context manager.

    `formulas`: what is not shown over the reals is tried again with the formulas of operators that are unknown
    functions at first, such as normalizations, for as many seconds again.
    """

    seconds: float = SECONDS
    element_seconds: float = ELEMENT_SECONDS
    memory: int = MEMORY
    formulas: bool = True
    _process: WorkerProcess[SmtWorker] = field(init=False)

    def __post_init__(self) -> None:
        self._process = WorkerProcess(module_command(f"{__name__}_worker"), self.seconds, memory=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()

    def prove(self, obligation: Obligation) -> list[ProofVerdict]:
        """The verdict on an obligation: exact if its contract is and z3 shows it, or else over the reals.

        Raises NotApplicable if z3 is not installed.
        """
        if not is_available():
            raise NotApplicable("z3 is not installed: pip install 'passwright[prove]'")
        verdicts: list[ProofVerdict] = []
        # Bit for bit comes first if the contract is exact.
        for over_reals in (False, True) if promises_bits(obligation.contract) else (True,):
            verdict = self._judge(obligation, over_reals=over_reals)
            if verdict.guarantee is not Guarantee.UNKNOWN:
                return [verdict]
            verdicts.append(verdict)
        if self.formulas:
            answer = self.ask(obligation, over_reals=True, by_formula=True)
            if answer.outcome is AnswerKind.PROVED:
                return [_proved(obligation, answer, over_reals=True)]
        return verdicts[:1]

    def ask(self, obligation: Obligation, *, over_reals: bool, by_formula: bool = False) -> Answer:
        """The answer of z3; unknown if it did not end in time or lacked memory."""
        sizes = (*beside_limits(obligation), *(s for s in size_sets(obligation) if LARGE_SIZE not in s.values()))
        before, after = (Fragment(f.model, f.exact) for f in obligation.fragments)  # without what z3 does not read
        lean = replace(obligation, before=before, after=after, retyped=None, has_time=None)
        question = Question(lean, sizes, over_reals, self.element_seconds, self.memory, by_formula)
        try:
            return self._process.call().answer(question)
        except WorkerExit as e:
            return Answer(AnswerKind.UNKNOWN, e.describe("z3"))
        except RequestFailed as e:
            if "MemoryError" in e.traceback or "out of memory" in e.traceback:
                self._process.terminate()
                return Answer(AnswerKind.UNKNOWN, "z3 lacks memory")
            raise

    def _judge(self, obligation: Obligation, *, over_reals: bool) -> ProofVerdict:
        answer = self.ask(obligation, over_reals=over_reals)
        if answer.outcome is AnswerKind.PROVED:
            return _proved(obligation, answer, over_reals=over_reals)
        shown = replay(obligation, answer.inputs) if answer.inputs is not None else ""
        if shown:
            return ProofVerdict(Guarantee.REFUTED, Technique.SMT, reason=shown, counterexample=answer.inputs)
        if answer.outcome is AnswerKind.FEWER_INPUTS:
            return ProofVerdict(Guarantee.FEWER_INPUTS, Technique.SMT, reason=_at(answer))
        reason = answer.reason
        if answer.outcome is AnswerKind.DIFFERS:
            reason = f"{answer.reason} for z3, but not in onnxruntime on its inputs"
        return unknown(reason, Technique.SMT)


def is_available() -> bool:
    """Whether z3 is installed."""
    return find_spec("z3") is not None


def _proved(obligation: Obligation, answer: Answer, *, over_reals: bool) -> ProofVerdict:
    types = sorted({i.dtype for i in obligation.inputs})
    sizes = frozenset(n for s in answer.sizes for n in s.values())
    # A real has no bits; a value of unknown type may be a float.
    if over_reals and any(not (FLOATS | {0}).isdisjoint(f.element_types.values()) for f in obligation.fragments):
        return ProofVerdict(Guarantee.REALS, Technique.SMT, notes=(REALS_NOTE,), sizes=sizes)
    domain = tuple(map(_all_of, types)) or ("its constants",)
    return ProofVerdict(Guarantee.EXACT, Technique.SMT, domain, notes=(EXACT_NOTE,), sizes=sizes)


def _all_of(dtype: int) -> str:
    """The domain of a proof for one element type."""
    name = TensorProto.DataType.Name(dtype).lower()
    name = {"float": "float32", "double": "float64"}.get(name, name)
    return f"every {name} with overflow" if "int" in name else f"every {name}"


def _at(answer: Answer) -> str:
    """The inputs at which an element is no longer defined."""
    return f"not at {format_inputs(answer.inputs)}" if answer.inputs else answer.reason
