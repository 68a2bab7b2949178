"""`verify`: two models, whatever made them, and whether they compute the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import onnx

from ...core.io.model import Model
from ...core.io.model_source import ModelSource, model_source
from ...core.io.output_paths import OutputPaths
from ...core.pass_manager.phase_timer import PhaseTimer
from ...core.pass_manager.report import write_json
from ...core.support.gc_pause import gc_paused
from ...core.verify.input_specs import input_specs
from ...core.verify.verdict import Verdict
from ...core.verify.verification_spec import Inputs, VerificationSpec
from ..environment import versions


@dataclass(slots=True)
class VerificationReport:
    """What holding one model to the answers of another came to.

    `interface_differences` says where their interfaces differ. `verdict` is None where they differ so much that the
    other cannot be asked the same. `seconds` are by phase.
    """

    original: str
    other: str
    interface_differences: list[str]
    verdict: Verdict | None
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    versions: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def agrees(self) -> bool:
        """Whether the other model does what the original does."""
        return not self.interface_differences and self.verdict is not None and self.verdict.failure is None

    def to_json(self) -> str:
        """The comparison as JSON text."""
        told = asdict(replace(self, verdict=None))
        told["agrees"] = self.agrees
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
) -> VerificationReport:
    """Hold `other` to the answers of `original` in onnxruntime, both with every optimization off.

    `inputs` and `shapes` as for `optimize`; `exact` demands the same bits. Raises ModelError for a model or
    input that is unusable, UnverifiableError if no inputs can be made up for the original.
    """
    watch = PhaseTimer(progress)
    first, second = (model_source(m, inline=False) for m in (original, other))
    places = OutputPaths(report=Path(report_to) if report_to is not None else None)
    places.require_writable((*first.files, *second.files, *([Path(inputs)] if isinstance(inputs, str | Path) else [])))
    with gc_paused(), watch.phase("loading"):
        model = first.load()
        question = VerificationSpec.of(model, inputs, shapes or {})
        differences = interface_differences(model, second.load())
    verdict = None if differences else _verdict(question, first, second, watch, seed, exact=exact)
    found = VerificationReport(first.label, second.label, differences, verdict, watch.seconds, versions())
    if places.report is not None:
        write_json(found.to_json(), places.report)
    return found


def _verdict(
    verification_spec: VerificationSpec,
    first: ModelSource,
    second: ModelSource,
    timer: PhaseTimer,
    seed: int,
    *,
    exact: bool,
) -> Verdict:
    with timer.phase("asking the original"):
        oracle = verification_spec.build_oracle(first, seed)
    with timer.phase("comparing"):
        return oracle.compare(second.loadable(), exact=exact)


def interface_differences(original: Model, other: Model) -> list[str]:
    """Why the other cannot be used in the original's place: inputs and outputs by name and type."""
    wanted, given = ({i.name: i for i in input_specs(m)} for m in (original, other))
    said = [f"input {name} is missing" for name in wanted.keys() - given.keys()]
    said += [f"input {n} is new" for n, i in given.items() if n not in wanted and i.default is None]
    for name in wanted.keys() & given.keys():
        a, b = wanted[name], given[name]
        if (a.type_kind, a.dtype) != (b.type_kind, b.dtype):
            said.append(
                f"input {name} is a {b.type_kind} of {_dtype_name(b.dtype)}, "
                f"not a {a.type_kind} of {_dtype_name(a.dtype)}"
            )
        elif a.default is None and b.default is not None:
            continue  # it may be left out: that takes nothing away
        elif a.default is not None and b.default is None:
            said.append(f"input {name} may not be left out any more")
    outputs = [[v.name for v in m.graph.outputs] for m in (original, other)]
    said += [f"output {name} is missing" for name in outputs[0] if name not in outputs[1]]
    if not said:
        inputs = [[n for n, i in ends.items() if i.default is None] for ends in (wanted, given)]
        said += _order_differences("inputs", *inputs) + _order_differences("outputs", *outputs)
    return sorted(said)


def _order_differences(kind: str, wanted: list[str], given: list[str]) -> list[str]:
    """Whether a caller who counts gets something else; more may follow at the end."""
    if given[: len(wanted)] == wanted:
        return []
    return [f"the {kind} come in another order: {', '.join(given)}"]


def _dtype_name(dtype: int) -> str:
    return onnx.TensorProto.DataType.Name(dtype).lower()
