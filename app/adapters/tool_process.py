"""Asking a tool in a process of its own what it makes of a model."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ...core.errors import Why
from ...core.io.serialized_model import ONE_MESSAGE, Exported
from ...core.ort.worker_process import Process

LIMIT = 240.0  # seconds for an answer; before the manager takes the pass for stuck
WORKER = f"{__package__}.tool_worker"
REMEMBERED = 256 << 20  # bytes of answers


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool made of a model, serialized, or why it made nothing of it."""

    model: bytes = b""
    why: Why | None = None
    message: str = ""


@dataclass(slots=True)
class Servant:
    """`call` names a function of a model and an option, as `module:function`. The same question has the same answer.

    So a replay costs no second run of the tool, and a tool that does not do the same twice cannot mislead the search
    for what is wrong.
    """

    call: str
    limit: float = LIMIT
    _process: Process = field(init=False, repr=False)
    _answers: dict[bytes, Answer] = field(default_factory=dict[bytes, Answer], init=False, repr=False)

    def __post_init__(self) -> None:
        self._process = Process((sys.executable, "-P", "-m", WORKER), self.limit)

    def answer(self, model: Exported, option: str) -> Answer:
        """What the tool makes of `model`."""
        if model.size > ONE_MESSAGE:
            return Answer(why=Why.RAISED, message="it cannot be given a model over 2 GB")
        key = blake2b(option.encode())
        with TemporaryDirectory() as folder:
            sent = Path(folder) / "sent.onnx"
            with sent.open("wb") as f:
                for chunk in model.chunks():
                    f.write(chunk)
                    key.update(chunk)
            known = self._answers.get(key.digest())
            if known is not None:
                return known
            found = self._asked({"call": self.call, "option": option, "sent": str(sent), "back": f"{folder}/back.onnx"})
        return self._remember(key.digest(), found)

    def _asked(self, question: dict[str, Any]) -> Answer:
        """A process that has served before may have been damaged by that; if it crashes, a new one is asked."""
        is_fresh = self._process.is_fresh
        end, said = self._process.answer(question)
        if end is not None and end.code is not None and not is_fresh:
            end, said = self._process.answer(question)
        if end is not None:
            late = f"it did not end within {self.limit:g} s"
            return Answer(why=Why.ENDLESS, message=late) if end.code is None else Answer(b"", Why.RAISED, str(end))
        if said["error"]:
            self._process.end()  # an assertion of C++ that became an exception leaves anything behind
            return Answer(why=Why.RAISED, message=said["error"])
        return Answer(Path(question["back"]).read_bytes())

    def _remember(self, key: bytes, answer: Answer) -> Answer:
        self._answers[key] = answer
        while len(self._answers) > 1 and sum(len(a.model) for a in self._answers.values()) > REMEMBERED:
            del self._answers[next(iter(self._answers))]
        return answer
