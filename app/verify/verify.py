"""`verify`: two models, whatever made them, and whether they compute the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import onnx

from ...core.io.model import Model
from ...core.io.model_source import Source, source_of
from ...core.io.output_paths import Places
from ...core.pass_manager.phase_timer import Stopwatch
from ...core.pass_manager.report import write_json
from ...core.support.gc_pause import no_collection
from ...core.verify.input_specs import signature
from ...core.verify.verdict import Verdict
from ...core.verify.verification_spec import Inputs, Question
from ..environment import versions


@dataclass(slots=True)
class Comparison:
    """What holding one model to the answers of another came to. `interface` says where their interfaces differ.

    `verdict` is None where they differ so much that the other cannot be asked the same. `seconds` are by phase.
    """

    original: str
    other: str
    interface: list[str]
    verdict: Verdict | None
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    versions: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def agree(self) -> bool:
        """Whether the other model does what the original does."""
        return not self.interface and self.verdict is not None and self.verdict.failure is None

    def to_json(self) -> str:
        """The comparison as JSON text."""
        told = asdict(replace(self, verdict=None))
        told["agree"] = self.agree
        told["verdict"] = None if self.verdict is None else self.verdict.to_data()
        return json.dumps(told, indent=1, allow_nan=False)


def verify(
    original: onnx.ModelProto | str | Path,
    other: onnx.ModelProto | str | Path,
    inputs: Inputs | None = None,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    seed: int = 0,
    exact: bool = False,
    report_to: str | Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Hold `other` to the answers of `original` in onnxruntime, both with every optimization off.

    `inputs` and `shapes` as for `optimize`; `exact` demands the same bits. Raises ModelError for a model or
    input that is unusable, Unverifiable if no inputs can be made up for the original.
    """
    watch = Stopwatch(progress)
    first, second = (source_of(m, inline=False) for m in (original, other))
    places = Places(report=Path(report_to) if report_to is not None else None)
    places.require((*first.files, *second.files, *([Path(inputs)] if isinstance(inputs, str | Path) else [])))
    with no_collection(), watch.phase("loading"):
        model = first.load()
        question = Question.of(model, inputs, shapes or {})
        differences = interface_differences(model, second.load())
    verdict = None if differences else _judged(question, first, second, watch, seed, exact=exact)
    found = Comparison(first.label, second.label, differences, verdict, watch.seconds, versions())
    if places.report is not None:
        write_json(found.to_json(), places.report)
    return found


def _judged(question: Question, first: Source, second: Source, watch: Stopwatch, seed: int, *, exact: bool) -> Verdict:
    with watch.phase("asking the original"):
        oracle = question.put_to(first, seed)
    with watch.phase("comparing"):
        return oracle.judge(second.loadable(), exact=exact)


def interface_differences(original: Model, other: Model) -> list[str]:
    """Why the other cannot be used in the original's place: inputs and outputs by name and type."""
    wanted, given = ({i.name: i for i in signature(m)} for m in (original, other))
    said = [f"input {name} is missing" for name in wanted.keys() - given.keys()]
    said += [f"input {n} is new" for n, i in given.items() if n not in wanted and i.default is None]
    for name in wanted.keys() & given.keys():
        a, b = wanted[name], given[name]
        if (a.form, a.dtype) != (b.form, b.dtype):
            said.append(f"input {name} is a {b.form} of {_type(b.dtype)}, not a {a.form} of {_type(a.dtype)}")
        elif a.default is None and b.default is not None:
            continue  # it may be left out: that takes nothing away
        elif a.default is not None and b.default is None:
            said.append(f"input {name} may not be left out any more")
    outputs = [[v.name for v in m.graph.outputs] for m in (original, other)]
    said += [f"output {name} is missing" for name in outputs[0] if name not in outputs[1]]
    if not said:
        inputs = [[n for n, i in ends.items() if i.default is None] for ends in (wanted, given)]
        said += _order("inputs", *inputs) + _order("outputs", *outputs)
    return sorted(said)


def _order(what: str, wanted: list[str], given: list[str]) -> list[str]:
    """Whether a caller who counts gets something else; more may follow at the end."""
    if given[: len(wanted)] == wanted:
        return []
    return [f"the {what} come in another order: {', '.join(given)}"]


def _type(dtype: int) -> str:
    return onnx.TensorProto.DataType.Name(dtype).lower()
