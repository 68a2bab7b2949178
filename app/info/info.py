"""Operators, sizes and interfaces of models, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import onnx
from msgspec import Struct, structs

from ...core.analyses.liveness import Liveness
from ...core.errors import ModelError
from ...core.io.graph_interface import default_values, input_infos, output_infos, type_text
from ...core.io.model_source import ModelLike, ModelSource, model_source, several_models
from ...core.io.ort_format import CONFIG_SUFFIX, WHOLE_FILE_DOMAIN, BuildConfig, OrtFile
from ...core.io.ort_format import required_operators as required_operators_of
from ...core.io.output_paths import OutputPaths
from ...core.io.publishing import Publication
from ...core.ir.graph import Graph
from ...core.ir.op_schemas import qualified_op_type
from ...core.ir.tensor import element_type
from ...core.ort.engines import ONNXRUNTIME
from ...core.ort.sessions import SessionConfig
from ...core.run.report import Stats
from ...core.run.target import Misfit, Target, TargetFit
from ...core.support.gc_pause import gc_paused
from ...core.support.python_files import plugin_errors
from ...core.support.scratch_folder import ScratchFolder
from ...core.transform.specialize import Specialize
from ..measure.execution_provider import session_configs
from ..options import InfoOptions, SessionOptions, require
from ..registry.environment import versions
from ..report.notebook import report_card, report_json, report_line
from ..report.progress import phase_callback, with_keywords
from .provider_assignment import ProviderAssignment, assignment

NO_ANALYSES: Mapping[str, Callable[[Graph], object]] = {}


class Weights(Struct, frozen=True):
    """The initializers of one element type: their number, elements and bytes."""

    tensors: int
    elements: int
    bytes: int


class ModelInfo(Struct, frozen=True):
    """A model, with local functions inlined if possible.

    Attributes:
        ops: the number of ops by type (domain.type for other domains), including bodies, without Constant ops.
        nodes: the sum of `ops`.
        parameters: the number of elements of initializers; `weights` has them by element type.
        bytes: the size on disk, including the `external_bytes` in `external_files`.
        inputs: types such as `float[N,4]`, by name; likewise `outputs`.
        overridable_initializers: the inputs that have default values.
        functions: the number of local functions in the file.
        peak_bytes: the peak memory of computed values if ops run in file order: a number, an expression of symbols, or
            None if unknown; `unsized_values` is the number of values whose size is unknown, which are not included.
        analyses: the results of analyses of plugins as texts, by name.
        target: the ops that the requested target does not support.
        providers: the nodes that the requested execution provider supports.

    Examples:
        >>> (model_info,) = info("model.onnx").models
        >>> model_info.nodes, model_info.inputs, model_info.parameters
        (3, {'x': 'float[N,4]'}, 4)
    """

    model: str
    nodes: int
    ops: dict[str, int]
    parameters: int
    weights: dict[str, Weights]
    bytes: int
    external_bytes: int
    external_files: list[str]
    opsets: dict[str, int]
    ir_version: int
    producer: str
    functions: int
    inputs: dict[str, str]
    outputs: dict[str, str]
    overridable_initializers: list[str]
    metadata: dict[str, str]
    peak_bytes: int | str | None = None
    unsized_values: int = 0
    analyses: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    target: TargetFit | None = None
    providers: ProviderAssignment | None = None

    @classmethod
    def of(
        cls,
        source: ModelSource,
        target: Target | BuildConfig | None = None,
        sizes: Specialize | None = None,
        analyses: Mapping[str, Callable[[Graph], object]] = NO_ANALYSES,
    ) -> ModelInfo:
        """Collect the data of a model, with `sizes`, without reading its weights. O(nodes + values). Raises ModelError.

        For a file in onnxruntime's own format, whose ops are fused, the target is the configuration of a build.
        """
        model, whole = source.load(), None
        if source.is_ort:
            whole = OrtFile.read(source.files[0])
            require(sizes is None, f"{source.label}: sizes cannot be set for an .ort file: give its .onnx file")
        elif isinstance(target, BuildConfig):
            raise ModelError(f"{source.label}: the configuration of a build applies only to .ort files")
        if source.is_ort and isinstance(target, Target):
            raise ModelError(f"{source.label}: this target applies only to .onnx files: give the .config of a build")
        functions = len(model.graph.context.functions)
        with suppress(ModelError):  # otherwise, calls count as ops
            model = replace(source, inline=True).load() if functions else model
        if sizes is not None:
            sizes.transform(model)
        graph, header = model.graph, model.header
        stats = Stats.of(model, source.size)
        weights: dict[str, list[int]] = {}
        tensors = (
            [(t.dtype, t.size, t.nbytes) for _, t in model.written_initializers()] if whole is None else whole.tensors
        )
        for dtype, elements, nbytes in tensors:
            sums = weights.setdefault(element_type(dtype), [0, 0, 0])
            sums[:] = (n + m for n, m in zip(sums, (1, elements, nbytes), strict=True))
        external = source.files[1:]
        defaults = default_values(graph)
        inputs = _types(input_infos(graph))
        liveness = graph.analysis(Liveness)
        peak = liveness.peak if whole is None else None
        found: dict[str, str] = {}
        for name, analysis in analyses.items():
            function: Any = analysis.__init__ if isinstance(analysis, type) else analysis
            what = f"{name} cannot analyse {source.label}"
            with plugin_errors(name, what, getattr(function, "__code__", None)):
                found[name] = str(graph.analysis(analysis))
        return cls(
            source.label,
            stats.nodes if whole is None else whole.ops.total(),
            stats.ops if whole is None else dict(whole.ops.most_common()),
            stats.parameters if whole is None else sum(elements for _, elements, _ in tensors),
            {name: Weights(*sums) for name, sums in sorted(weights.items(), key=lambda item: -item[1][2])},
            stats.bytes,
            sum(p.stat().st_size for p in external),
            [p.name for p in external],
            {domain or "ai.onnx": version for domain, version in graph.opsets.items() if domain != WHOLE_FILE_DOMAIN},
            graph.context.ir_version,
            f"{header.producer_name} {header.producer_version}".strip(),
            functions,
            {name: text for name, text in inputs.items() if name not in defaults},
            _types(output_infos(graph)),
            list(defaults),
            {p.key: p.value for p in header.metadata_props},
            peak if isinstance(peak, int) or peak is None else str(peak),
            len(liveness.unknown) if whole is None else 0,
            found,
            None if target is None else target.fit(graph) if isinstance(target, Target) else _build_fit(target, source),
        )


@dataclass(slots=True)
class InfoReport:
    """The models that could be loaded, in the given order, and the reason for each that could not.

    Examples:
        >>> report = info(["model.onnx", "missing.onnx"])
        >>> len(report.models), list(report.failures)
        (1, ['missing.onnx'])
    """

    models: list[ModelInfo] = field(default_factory=list[ModelInfo])
    failures: dict[str, str] = field(default_factory=dict[str, str])
    versions: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def ops(self) -> dict[str, int]:
        """The operators of all models with their highest number in one model, in descending order."""
        most = Counter[str]()
        for m in self.models:
            most |= Counter(m.ops)
        return dict(sorted(most.items(), key=lambda item: (-item[1], item[0])))

    to_json, __repr__, _repr_html_ = report_json, report_line, report_card


def read_models(models: ModelLike | Sequence[ModelLike], options: InfoOptions) -> InfoReport:
    """Describe operators, sizes and interfaces of `models`, without reading their weights.

    A model that cannot be loaded is in `failures` of the report; the others are described.

    Options:
        models: a model, or several.
        dim: sizes of symbolic dims; `shape`: shapes of inputs, as for `optimize`.
        target: an engine, by name or as a Target; `target` of each model has the ops that it does not support.
        plugin: files with targets or analyses; `analysis`: names of analyses in installed packages.
        ep: an execution provider of onnxruntime, which may be in an `ep_library`. Each model is loaded with it, and
            `providers` of each model has the nodes that it supports.
        required_operators: a file for the configuration of an onnxruntime build that can run these .ort files.
        json: a file for the report as JSON; `progress` is called with the name of each model.

    Examples:
        >>> info("model.onnx").models[0].ops
        {'Abs': 1, 'Add': 1, 'Relu': 1}
    """
    goal: Target | BuildConfig | None = None
    analyses = NO_ANALYSES
    if isinstance(options.target, str) and options.target.endswith(CONFIG_SUFFIX):
        goal = BuildConfig.read(Path(options.target))
    elif options.target or options.plugin or options.analysis:
        from ..registry.name_resolver import NameResolver  # noqa: PLC0415 - imports all passes

        names = NameResolver(options.plugin)
        goal = names.target_named(options.target) if options.target else None
        named = {name: names.analysis_named(name) for name in options.analysis}
        own = names.registry.analyses
        analyses = named if not own.keys().isdisjoint(named) else {**own, **named}
    sizes = Specialize(options.shape or {}, options.dim or {}) if options.shape or options.dim else None
    session = None
    if options.ep is not None or options.ep_library is not None:
        chosen = SessionOptions(threads=1, ep=options.ep or "cpu", ep_library=options.ep_library)
        session = session_configs(chosen, [ONNXRUNTIME], "all")[0]
    sources = [model_source(m, inline=False, takes_ort=True) for m in several_models(models)]
    paths = OutputPaths.of(report=options.json, required_operators=options.required_operators)
    if paths.required_operators is not None:
        other = next((s.label for s in sources if not s.is_ort), "")
        require(not other, f"--required-operators: {other} is not an .ort file; `passes run -o model.ort` makes one")
    paths.require_distinct([p for s in sources for p in s.files])
    report = InfoReport(versions=versions())
    show = phase_callback(options.progress)
    for source in sources:
        show(source.label)
        try:
            with gc_paused():
                found = ModelInfo.of(source, goal, sizes, analyses)
            if session is not None:
                found = structs.replace(found, providers=_assignment(source, sizes, session))
            report.models.append(found)
        except ModelError as e:
            report.failures[source.label] = str(e)
    paths.require_distinct([p for s in sources for p in s.files])
    if paths.required_operators is not None and report.failures:
        raise ModelError(next(iter(report.failures.values())))
    with Publication() as publication, ScratchFolder() as folder:
        files = [file for s in sources for file in s.files[:1]]
        publication.add_text(paths.required_operators, lambda: required_operators_of(files, folder).rstrip())
        publication.add_text(paths.report, report.to_json)
        publication.publish()
    return report


info = with_keywords(InfoOptions, "info")(read_models)


def _assignment(source: ModelSource, sizes: Specialize | None, session: SessionConfig) -> ProviderAssignment:
    """The nodes of a model that the provider of a session supports. Raises ModelError."""
    if source.is_ort:
        raise ModelError(f"{source.label}: the nodes of an .ort file are already assigned: give the .onnx file")
    model = source.load()
    if sizes is not None:
        sizes.transform(model)
    try:
        return assignment(model, session, is_external=source.is_external)
    except ModelError as e:
        reason = str(e).partition(": give a library")[0]  # there is no option for custom operators
        raise ModelError(f"{source.label}: {reason}") from e


def _build_fit(build: BuildConfig, source: ModelSource) -> TargetFit:
    """The ops and types of an .ort file that a build of onnxruntime lacks."""
    with ScratchFolder() as folder:
        needed = BuildConfig.parse(required_operators_of(source.files[:1], folder))
    lacks = build.lacks(needed)
    return TargetFit(build.name, [Misfit("", "", f"{qualified_op_type(*key)} {why}") for key, why in lacks.items()])


def _types(infos: Sequence[bytes]) -> dict[str, str]:
    protos = map(onnx.ValueInfoProto.FromString, infos)
    return {p.name: type_text(p.type) for p in protos}
