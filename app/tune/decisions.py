"""Decisions of a search: the choices for models and sessions, and the configurations that they make."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ...core.errors import UsageError
from ...core.ort.engines import CHOICE, ONNXRUNTIME, SINGLE, EngineChoice, engine_names, find_engine, parse_engine
from ...core.ort.sessions import ALL_LEVELS, CPU, SessionConfig, short_name
from ...core.run.report import Report
from ...passes.targets import TARGET_NAMES
from ...passes.trades import OPTIONAL, TRADING
from ..measure.execution_provider import ExecutionProvider, available_providers
from ..measure.tuned_settings import DEFAULT_SESSION, ORIGINAL, SWITCHES, Configuration, Recipe

OPSETS_WITH_FUSIONS = (13, 17, 20, 23)
"""Opsets with new operators or forms for which rules and onnxruntime's optimizers differ."""
BLOCK_BASES = (2, 4, 8)
WITHOUT_KERNELS = frozenset({"AzureExecutionProvider"})  # it calls services
PROVIDER_OPTIONS: Mapping[str, Sequence[Mapping[str, str]]] = MappingProxyType({
    "CUDAExecutionProvider": ({"cudnn_conv_algo_search": "HEURISTIC"}, {"cudnn_conv_use_max_workspace": "0"},
                              {"enable_cuda_graph": "1"}, {"arena_extend_strategy": "kSameAsRequested"}),
    "DnnlExecutionProvider": ({"enable_cpu_mem_arena": "0"},),
    "OpenVINOExecutionProvider": ({"device_type": "CPU"}, {"device_type": "CPU", "num_streams": "2"}),
    "XnnpackExecutionProvider": ({"intra_op_num_threads": "1"}, {"intra_op_num_threads": "2"}),
})  # fmt: skip
"""Options of execution providers that keep the precision, in addition to the defaults."""
OF_ENGINES = ("engine", "precision", "provider_options", "intra_op_threads", "streams")
"""The settings that other engines than onnxruntime have, too."""
ENGINE, PIPELINE = "engine", "pipeline"  # the decisions
BROWSERS = frozenset({"web", "webgpu"})  # engines in which no program of this machine runs: they are tried if named


class Choice(Struct, frozen=True):
    """One option of a decision: the fields of the recipe, session or configuration that it sets.

    `skip` and `enable` are added to the names of other choices.
    """

    decision: str
    label: str
    recipe: Mapping[str, Any] = field(default_factory=dict[str, Any])
    session: Mapping[str, Any] = field(default_factory=dict[str, Any])
    skip: tuple[str, ...] = ()
    enable: tuple[str, ...] = ()
    callers: int = 0

    def __str__(self) -> str:
        return f"{self.decision}: {self.label}"

    @property
    def is_of_model(self) -> bool:
        """Whether it decides about the model rather than its session."""
        return bool(self.recipe or self.skip or self.enable)

    def applied(self, to: Configuration) -> Configuration:
        """A configuration with this choice applied."""
        recipe = replace(
            to.recipe,
            **self.recipe,
            skip=_united(to.recipe.skip, self.skip),
            enable=_united(to.recipe.enable, self.enable),
        )
        session = replace(to.session, **self.session)
        if "disabled_optimizers" in self.session:
            disabled = _united(to.session.disabled_optimizers, self.session["disabled_optimizers"])
            session = replace(session, disabled_optimizers=disabled)
        return replace(to, recipe=recipe, session=session, callers=self.callers or to.callers)


def configured(choices: Iterable[Choice], start: Configuration) -> Configuration:
    """Apply several choices in order.

    Passes are chosen only for a pipeline. Schemes do not combine with settings that change values, because their loss
    was measured without these. Settings that an engine or the session's threads do not have are taken from `start`. An
    engine with a pipeline of its own uses that.
    """
    found = start
    for choice in sorted(choices, key=lambda c: c.decision == ENGINE):  # its options are no options of a provider
        found = choice.applied(found)
    if found.session.is_onnxruntime:
        found = replace(found, session=replace(found.session, streams=start.session.streams))
    else:
        of_engine = {name: getattr(found.session, name) for name in OF_ENGINES}
        found = replace(found, session=replace(start.session, **of_engine))
    if found.session.intra_op_threads == 1 and not found.session.parallel:
        of_threads = {name: getattr(start.session, name) for name in ("allow_spinning", "dynamic_block_base")}
        found = replace(found, session=replace(found.session, **of_threads))
    own = engine_pipeline(found.session)
    if own and found.recipe.pipeline not in {ORIGINAL, own} and not found.recipe.scheme:
        found = replace(found, recipe=Recipe(own, found.recipe.skip, found.recipe.enable))
    if found.recipe.scheme:
        session = replace(found.session, denormals_as_zero=start.session.denormals_as_zero)
        return replace(found, recipe=Recipe(scheme=found.recipe.scheme), session=session)
    if found.recipe.pipeline == ORIGINAL:
        return replace(found, recipe=Recipe(opset=found.recipe.opset))
    return found


def engine_pipeline(session: SessionConfig) -> str:
    """The pipeline of the target that belongs to an engine other than onnxruntime; "" if there is none."""
    return session.engine if not session.is_onnxruntime and session.engine in TARGET_NAMES else ""


def with_engine_pipeline(choices: Mapping[str, Choice]) -> dict[str, Choice]:
    """The choices, with the pipeline replaced by the pipeline of the chosen engine, if it has one."""
    found = dict(choices)
    own = engine_pipeline(configured(found.values(), Configuration()).session)
    if own and (pipeline := found.get(PIPELINE)) is not None and pipeline.recipe.get("pipeline"):
        (found[PIPELINE],) = pipeline_choices([own], [])
    return found


def _united(first: Iterable[str], second: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def pipeline_choices(pipelines: Sequence[str], schemes: Sequence[str]) -> list[Choice]:
    """Choices of pipelines, and of schemes of `passes quantize`."""
    made = [Choice(PIPELINE, name, {"pipeline": name, "scheme": ""}) for name in pipelines]
    return [*made, *(Choice(PIPELINE, f"quantize {name}", {"scheme": name}) for name in schemes)]


def engine_choices(engines: Iterable[EngineChoice], now: SessionConfig) -> list[Choice]:
    """Engines and precisions other than the session's, with quantized models if they need them."""
    made: list[Choice] = []
    for e in engines:
        session: dict[str, Any] = {"engine": e.name, "precision": e.precision}
        session |= {} if e.name == ONNXRUNTIME else {"provider_options": e.options}
        if any(getattr(now, name) != value for name, value in session.items()):
            recipe = {"scheme": e.precision} if needs_quantized_weights(e) else {}
            made.append(Choice(ENGINE, f"{e}{_option_text(e)}", recipe, session))
    return made


def needs_quantized_weights(engine: EngineChoice) -> bool:
    """Whether a precision is only for models with quantized weights."""
    return engine.precision in find_engine(engine.name).weight_schemes


def engine_session_choices(cores: int, *, is_concurrent: bool) -> list[Choice]:
    """Settings of engines other than onnxruntime."""
    choices = [_intra_op_threads(n) for n in _counts(cores)]
    streams = [n for n in _counts(cores) if n > 1] if is_concurrent else []
    return [*choices, *(Choice("callers", f"{n} with streams", session={"streams": n}, callers=n) for n in streams)]


def opset_choices(own: int, made: int, highest: int) -> list[Choice]:
    """Opsets from the original's upwards, except the current opset `made`."""
    wanted = sorted({own, highest, *(n for n in OPSETS_WITH_FUSIONS if own < n < highest)})
    return [Choice("opset", str(n), {"opset": n}) for n in wanted if n != made and n >= own]


def rule_choices(report: Report) -> list[Choice]:
    """Groups of rules with trade-offs: off, if they changed something in a run; on, if the run did not have them."""
    changed = {p.name for p in report.passes if p.changes}
    off = [(name, tuple(p for p in passes if p in changed)) for name, passes in TRADING.items()]
    on = [Choice(f"rules: {name}", "on", enable=passes) for name, passes in OPTIONAL.items()]
    return [*(Choice(f"rules: {name}", "off", skip=passes) for name, passes in off if passes), *on]


def optimizer_choices(names: Collection[str]) -> list[Choice]:
    """Optimizers of onnxruntime to disable."""
    return [Choice(f"optimizer {name}", "off", session={"disabled_optimizers": (name,)}) for name in names]


def session_choices(cores: int, providers: Sequence[ExecutionProvider], *, is_concurrent: bool) -> list[Choice]:
    """Settings of onnxruntime; `is_concurrent`: several threads may call a session."""
    choices = [
        Choice("level", level, session={"optimization_level": own})
        for level, own in ALL_LEVELS.items()
        if own != DEFAULT_SESSION.optimization_level
    ]
    choices += _thread_choices(cores)
    if is_concurrent:
        counts = sorted({2, cores} - {1})
        choices += [Choice("callers", f"{n} of all threads", callers=n) for n in counts]
        choices += [Choice("callers", f"{n} of 1 thread", session={"intra_op_threads": 1}, callers=n) for n in counts]
    for name, words in SWITCHES.items():
        if name != "parallel":
            value = not getattr(DEFAULT_SESSION, name)
            choices.append(Choice(name.replace("_", " "), words[value], session={name: value}))
    named = [(p, f"{short_name(p.name)}{_option_text(p)}") for p in providers]
    choices += [
        Choice("provider", text, session={"provider": p.name, "provider_options": p.options}) for p, text in named
    ]
    return choices


def _intra_op_threads(count: int) -> Choice:
    return Choice("intra-op threads", str(count), session={"intra_op_threads": count})


ONE_THREAD = _intra_op_threads(1)


def _counts(cores: int) -> list[int]:
    """The numbers of threads to try."""
    return sorted({1, cores, *(1 << k for k in range(cores.bit_length()) if 1 << k <= cores)})


def _thread_choices(cores: int) -> Iterator[Choice]:
    counts = _counts(cores)
    yield from map(_intra_op_threads, counts)
    for n in counts[1:]:
        chosen = {"parallel": True, "inter_op_threads": n}
        yield Choice("execution", f"parallel, {n} inter-op threads", session=chosen)
        if cores > n:
            yield Choice(
                "execution",
                f"parallel, {n} inter-op threads of {cores // n}",
                session={**chosen, "intra_op_threads": cores // n},
            )
    if cores > 1:
        for base in BLOCK_BASES:
            yield Choice("block size", f"dynamic, {base}", session={"dynamic_block_base": base})


def installed_providers() -> list[ExecutionProvider]:
    """The other execution providers of this onnxruntime, with their defaults and with options."""
    names = [n for n in available_providers() if n != CPU and n not in WITHOUT_KERNELS]
    found: list[ExecutionProvider] = []
    for name in names:
        found.append(ExecutionProvider(name))
        found += [ExecutionProvider(name, tuple(options.items())) for options in PROVIDER_OPTIONS.get(name, ())]
    return found


def engines_to_try(named: Sequence[str] | None, *, is_lossy: bool) -> list[EngineChoice]:
    """onnxruntime, and the engines of these texts, or all that are installed but browsers.

    An engine without a precision stands for f32, and with `is_lossy` for all its precisions. Raises UsageError for an
    engine that is not installed, and for a lossy precision without `is_lossy`.
    """
    found = [EngineChoice()]
    for text in [name for name in engine_names() if name not in BROWSERS] if named is None else named:
        try:
            chosen = parse_engine(text)
        except UsageError:
            if named is not None:
                raise
            continue
        form = CHOICE.fullmatch(text)
        own = [chosen.precision] if form is not None and form["precision"] else find_engine(chosen.name).precisions
        precisions = [p for p in own if is_lossy or p == SINGLE]
        if not precisions:
            raise UsageError(f"--engine {text}: {chosen.precision} is lossy: set the allowed loss with --budget")
        found += [EngineChoice(chosen.name, p, chosen.options) for p in precisions]
    return list(dict.fromkeys(found))


def _option_text(provider: ExecutionProvider | EngineChoice) -> str:
    options = ",".join(f"{name}={text}" for name, text in provider.options)
    return f"{{{options}}}" if options else ""
