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
from ..core.draws import Draw
from ..core.effects import is_pure, uses_half
from ..core.exported import Exported, export
from ..core.files import publish, staged, weight_bytes
from ..core.given import checked, read_inputs, sizes_from_shapes
from ..core.manager import Manager
from ..core.model import Model
from ..core.pipeline import Pass
from ..core.report import Report, Stats, pass_records
from ..core.signature import Input, signature
from ..core.source import Source, source_of
from ..core.verify import Oracle, Verdict
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
        self._source.require_not(destination)
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
        return staged(self._model, destination, external=self._source.is_external)


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
    progress: Callable[[str], None] = lambda _: None,
) -> Result:
    """Rewrite a model and prove against onnxruntime that it still computes the same.

    `pipeline`: a name (`none`, `basic`) or a Pass. `plugins`: Python files, passes or rules to add to it.
    `inputs`: arrays by input name, an .npz, or a folder of ONNX test data; without them inputs are drawn,
    from `seed`, at sizes that agree with `shapes` (by input name). `only`, `skip`, `enable`: passes and rules
    by name. `exact` runs only rules that keep every bit. `output`: where to write the verified model.

    Raises ModelError for a model or input that is unusable, UnknownName for a name that is, PluginError,
    VerificationError if the result is wrong (nothing is written), Unverifiable if that could not be found out.
    """
    watch = Stopwatch(progress)
    source = source_of(model, inline=not keep_functions)
    destination = Path(output) if output is not None else None
    if destination is not None:
        source.require_not(destination)
    chosen = pipeline_of(pipeline, plugins, only, skip, enable)
    with no_collection(), watch.phase("loading"):
        original = source.load()
        facts = _Facts.of(original, source)
    with no_collection(), watch.phase("rewriting"):
        manager = Manager(source.load, chosen, exact)
        rewritten, ledger = manager.run(original)
    with no_collection(), watch.phase("exporting"):
        exported = export(rewritten)
        after = Stats.of(rewritten, exported.size)
    report = Report(
        source.label, chosen.name, facts.stats, after, pass_records(chosen, ledger), None, watch.seconds, versions()
    )
    result = Result(report, rewritten, source, exported)
    if verify:
        with watch.phase("asking the original"):
            oracle = _oracle(source, facts, inputs, shapes or {}, seed)
        with watch.phase("comparing" if destination is None else "comparing and writing"):
            bits = exact or (ledger.is_exact and not facts.half)
            result.report.verification = result.checked(oracle, destination, bits=bits)
    elif destination is not None:
        with watch.phase("writing"):
            result.save(destination)
    return result


@dataclass(frozen=True, slots=True)
class _Facts:
    """What must be known of the original before it is rewritten."""

    stats: Stats
    inputs: list[Input]
    outputs: list[str]
    random: bool
    half: bool

    @classmethod
    def of(cls, model: Model, source: Source) -> _Facts:
        inputs = signature(model)
        random = not all(is_pure(op) for g in model.graph.with_subgraphs() for op in g.ops())
        names = [v.name for v in model.graph.outputs]
        return cls(Stats.of(model, source.size), inputs, names, random, uses_half(model.graph))


def _oracle(
    source: Source, facts: _Facts, inputs: Inputs | None, shapes: Mapping[str, Sequence[int]], seed: int
) -> Oracle:
    given: list[Draw] = []
    if isinstance(inputs, Mapping):
        given = [checked(Draw("given", {}, dict(inputs)), facts.inputs)]
    elif inputs is not None:
        given = read_inputs(Path(inputs), facts.inputs)
    fixed = sizes_from_shapes({name: tuple(dims) for name, dims in shapes.items()}, facts.inputs)
    return Oracle(
        source.loadable(), facts.inputs, facts.outputs, given=given, fixed=fixed, seed=seed, random=facts.random
    )


def versions() -> dict[str, str]:
    """The versions that a report is to be read with."""
    return {name: version(name) for name in ("passwright", "onnx", "onnxruntime")}


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
