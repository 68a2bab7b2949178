"""Options of `bisect_ort` and `bisect_engine`."""

from __future__ import annotations

from dataclasses import dataclass

from ..options import (
    DimOptions,
    EffortOptions,
    InputOptions,
    KernelPluginOptions,
    LimitOptions,
    ReportOptions,
    SeedOptions,
    option,
)


@dataclass(frozen=True)
class OptimizerOptions:
    """The level of onnxruntime's optimization."""

    ort: str = option("all")


@dataclass(frozen=True)
class EngineNameOptions:
    """The engine whose ops are compared."""

    engine: str = option("openvino")


@dataclass(frozen=True, kw_only=True)
class EngineBisectOptions(
    EffortOptions, LimitOptions, SeedOptions, DimOptions, InputOptions, EngineNameOptions, ReportOptions
):
    """The parameters of `bisect_engine` except the model, as documented there."""


@dataclass(frozen=True, kw_only=True)
class OrtBisectOptions(
    EffortOptions,
    LimitOptions,
    KernelPluginOptions,
    SeedOptions,
    DimOptions,
    InputOptions,
    OptimizerOptions,
    ReportOptions,
):
    """The parameters of `bisect_ort` except the model, as documented there."""
