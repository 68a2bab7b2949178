"""`optimize`: a model goes in, a verified smaller model comes out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import onnx

from ..core.collector import no_collection
from ..core.exported import ONE_MESSAGE, Exported, export
from ..core.files import publish, staged, weight_bytes
from ..core.ir.effects import uses_half
from ..core.manager import Manager
from ..core.model import Model
from ..core.pipeline import Pass
from ..core.places import Places
from ..core.report import Report, Stats, pass_records, write_report
from ..core.source import Source, source_of
from ..core.verify.dims import Sizes
from ..core.verify.draws import Draw
from ..core.verify.given import checked, ranked_by, read_inputs, sizes_from_shapes
from ..core.verify.oracle import Oracle, Verdict
from ..core.verify.randomness import random_outputs
from ..core.verify.signature import Input, signature
from .catalogue import Plugin, pipeline_of

Inputs = Mapping[str, Any] | str | Path
IN_MEMORY = 256 << 20  # bytes of weights up to which a model is verified without being written to disk first


@dataclass
class Result:
    """An optimized model and what was done to it."""

    report: Report
    _model: Model = field(repr=False)
    _source: Source = field(repr=False)
    _exported: Exported = field(repr=False)

    @cached_property
    def model(self) -> onnx.ModelProto:
        """The optimized model, with all its weights."""
        return self._exported.to_proto()

    def save(self, path: str | Path) -> None:
        """Write the model to `path`, whole or not at all; with external data if it came with some.

        Raises ModelError if `path` cannot be written or is what the model is read from.
        """
        destination = Path(path)
        Places(destination).require(self._source.files)
        with self._staged(destination) as stage:
            publish(stage, destination)

    def checked(self, oracle: Oracle, destination: Path | None, *, bits: bool) -> Verdict:
        """Hold what would be written to the original, bit for bit if asked; then write it, if anywhere.

        Raises VerificationError if it differs; then nothing is written.
        """
        if destination is not None:
            with self._staged(destination) as stage:
                verdict = oracle.check(stage, exact=bits)
                publish(stage, destination)
                return verdict
        if weight_bytes(self._model) <= IN_MEMORY:
            return oracle.check(b"".join(self._exported.chunks()), exact=bits)
        with TemporaryDirectory() as folder, self._staged(Path(folder) / "model.onnx") as stage:
            return oracle.check(stage, exact=bits)

    def _staged(self, destination: Path) -> AbstractContextManager[Path]:
        external = self._source.is_external or weight_bytes(self._model) > ONE_MESSAGE
        return staged(self._model if external else self._exported, destination, external=external)


def optimize(
    model: onnx.ModelProto | str | Path,
    pipeline: str | Pass = "basic",
    plugins: Sequence[Plugin] = (),
    verify: bool = True,
    inputs: Inputs | None = None,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    only: Collection[str] = (),
    skip: Collection[str] = (),
    enable: Collection[str] = (),
    exact: bool = False,
    keep_functions: bool = False,
    seed: int = 0,
    output: str | Path | None = None,
    report_to: str | Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Result:
    """Rewrite a model and prove against onnxruntime that it still computes the same.

    `pipeline`: a name (`none`, `basic`) or a Pass. `plugins`: Python files, passes or rules to add to it.
    `inputs`: arrays by input name, an .npz, or a folder of ONNX test data; without them inputs are drawn,
    from `seed`, at sizes that agree with `shapes` (by input name). `only`, `skip`, `enable`: passes and rules
    by name. `exact` runs only rules that keep every bit. `output`: where to write the verified model;
    `report_to`: where to write the report, as JSON.

    Raises ModelError for a model or input that is unusable, UnknownName for a name that is, PluginError,
    VerificationError if the result is wrong (nothing is written), Unverifiable if that could not be found out.
    """
    watch = Stopwatch(progress)
    source = source_of(model, inline=not keep_functions)
    places = Places(*(Path(p) if p is not None else None for p in (output, report_to)))
    others = [Path(p) for p in (inputs, *plugins) if isinstance(p, str | Path)]
    places.require((*source.files, *others))
    chosen = pipeline_of(pipeline, plugins, only, skip, enable)
    with no_collection(), watch.phase("loading"):
        original = source.load()
        before = Stats.of(original, source.size)
        asked = verify or inputs is not None or shapes
        question = _Question.of(original, inputs, shapes or {}) if asked else None
    places.require((*source.files, *others))
    with no_collection(), watch.phase("rewriting"):
        rewritten, ledger = Manager(source.load, chosen, exact).run(original)
    with no_collection(), watch.phase("exporting"):
        exported = export(rewritten)
        after = Stats.of(rewritten, exported.size)
    records = pass_records(chosen, ledger)
    report = Report(source.label, chosen.name, before, after, records, None, watch.seconds, versions())
    result = Result(report, rewritten, source, exported)
    if verify and question is not None:
        with watch.phase("asking the original"):
            oracle = question.put_to(source, seed)
        with watch.phase("comparing" if places.model is None else "comparing and writing"):
            bits = exact or (ledger.is_exact and not question.half)
            report.verification = result.checked(oracle, places.model, bits=bits)
    elif places.model is not None:
        with watch.phase("writing"):
            result.save(places.model)
    if places.report is not None:
        write_report(report, places.report)
    return result


@dataclass(frozen=True, slots=True)
class _Question:
    """What the original is to be asked, made out before it is rewritten."""

    inputs: list[Input]
    outputs: list[str]
    random: Collection[str]
    half: bool
    given: list[Draw]
    fixed: Sizes

    @classmethod
    def of(cls, model: Model, given: Inputs | None, shapes: Mapping[str, Sequence[int]]) -> _Question:
        """Raises ModelError for given inputs and shapes that are not those of the model."""
        inputs = ranked_by(shapes, signature(model))
        return cls(
            inputs,
            [v.name for v in model.graph.outputs],
            random_outputs(model.graph),
            uses_half(model.graph),
            _draws(given, inputs),
            sizes_from_shapes(shapes, inputs),
        )

    def put_to(self, source: Source, seed: int) -> Oracle:
        """The answers of the original. Raises Unverifiable, and ModelError for given inputs that do not run."""
        return Oracle(
            source.loadable(),
            self.inputs,
            self.outputs,
            given=self.given,
            fixed=self.fixed,
            seed=seed,
            random=self.random,
        )


def _draws(given: Inputs | None, inputs: Sequence[Input]) -> list[Draw]:
    if isinstance(given, Mapping):
        return [checked(Draw("given", {}, dict(given)), inputs)]
    return read_inputs(Path(given), inputs) if given is not None else []


def versions() -> dict[str, str]:
    """The versions that a report is to be read with."""
    return {"passwright": version("passwright"), "onnx": onnx.__version__, "onnxruntime": version("onnxruntime")}


@dataclass(slots=True)
class Stopwatch:
    """Seconds by phase; tells `progress` what is going on."""

    progress: Callable[[str], None]
    seconds: dict[str, float] = field(default_factory=dict[str, float])

    @contextmanager
    def phase(self, name: str) -> Generator[None]:
        """Time one phase."""
        self.progress(name)
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = round(perf_counter() - start, 6)
