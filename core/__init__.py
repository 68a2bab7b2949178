"""The framework: IR, rule language, runs and verification. It does not import rewrites or the application.

`io` reads a model, from which `serialization` makes a graph, as defined by `ir`; `inference` computes its types and
shapes from the declarations in `operators`. `rewriting` applies rules, `run` orders passes and rejects wrong changes,
`verify` compares the result with the original in `ort`, and `proof` proves properties for all inputs. `transform`,
`plugins` and `calibration` serve users who change a model deliberately, add passes, or quantize. `tests/test_layout.py`
has the layers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .analyses.dominance import Dominance
    from .analyses.liveness import Liveness
    from .errors import (
        EvaluationError,
        GraphError,
        InstrumentationError,
        MatchFailure,
        ModelError,
        NoFixpoint,
        PassesError,
        PluginError,
        RuleError,
        TargetError,
        TimeLimitError,
        UnknownNameError,
        UnverifiableError,
        UsageError,
        VerificationError,
        require,
    )
    from .io.convert import from_onnx, to_onnx
    from .io.model import Model
    from .io.networkx_conversion import from_networkx, to_networkx
    from .ir.cost_model import CPU, CostModel
    from .ir.dtypes import FLOATS, INTEGERS, DataType
    from .ir.graph import Graph
    from .ir.op import Op, is_known, made_from, may_drop
    from .ir.quantization_spec import QuantizationSpec, Range
    from .ir.tensor import Tensor
    from .ir.values import Value
    from .operators.broadcasting import broadcasts_to, same_extent, same_extent_if_broadcast
    from .operators.effects import is_pure
    from .ort.engines import Engine, EngineSession, EngineSettings, OpTime, Unsupported, ValueFacts, find_engine
    from .ort.evaluation import evaluate
    from .ort.python_kernels import Kernel, kernel
    from .plugins.networkx_pass import NetworkxPass, networkx_pass
    from .plugins.plugin import PassPlacement, Plugin
    from .rewriting.builder import RewriteBuilder
    from .rewriting.change_log import ChangeLog
    from .rewriting.pattern import OpPattern, PatternBuilder, Var
    from .rewriting.rules import EXACT, LOSSY, ROUNDING, Contract, Rule, by_dtype, conditional, lossy, rule
    from .run.instrumentation import Instrumentation
    from .run.pipeline import Fixpoint, Pass, Pipeline, RulePass, leaves, rule_pass, run_pass
    from .run.report import Hint, Report
    from .run.target import NEVER, Misfit, Support, Target, TargetFit
    from .run.transforms import ModelTransform

_MODULES = {
    "analyses.dominance": ("Dominance",),
    "analyses.liveness": ("Liveness",),
    "errors": (
        "EvaluationError",
        "GraphError",
        "InstrumentationError",
        "MatchFailure",
        "ModelError",
        "NoFixpoint",
        "PassesError",
        "PluginError",
        "RuleError",
        "TargetError",
        "TimeLimitError",
        "UnknownNameError",
        "UnverifiableError",
        "UsageError",
        "VerificationError",
        "require",
    ),
    "io.convert": ("from_onnx", "to_onnx"),
    "io.model": ("Model",),
    "ir.cost_model": ("CPU", "CostModel"),
    "ir.dtypes": ("FLOATS", "INTEGERS", "DataType"),
    "io.networkx_conversion": ("from_networkx", "to_networkx"),
    "ir.graph": ("Graph",),
    "ir.op": ("Op", "is_known", "made_from", "may_drop"),
    "ir.quantization_spec": ("QuantizationSpec", "Range"),
    "ir.tensor": ("Tensor",),
    "ir.values": ("Value",),
    "operators.broadcasting": ("broadcasts_to", "same_extent", "same_extent_if_broadcast"),
    "operators.effects": ("is_pure",),
    "ort.engines": ("Engine", "EngineSession", "EngineSettings", "OpTime", "Unsupported", "ValueFacts", "find_engine"),
    "ort.evaluation": ("evaluate",),
    "ort.python_kernels": ("Kernel", "kernel"),
    "plugins.networkx_pass": ("NetworkxPass", "networkx_pass"),
    "plugins.plugin": ("PassPlacement", "Plugin"),
    "run.target": ("NEVER", "Misfit", "Support", "Target", "TargetFit"),
    "rewriting.builder": ("RewriteBuilder",),
    "rewriting.change_log": ("ChangeLog",),
    "rewriting.pattern": ("OpPattern", "PatternBuilder", "Var"),
    "rewriting.rules": ("EXACT", "LOSSY", "ROUNDING", "Contract", "Rule", "by_dtype", "conditional", "lossy", "rule"),
    "run.instrumentation": ("Instrumentation",),
    "run.pipeline": ("Fixpoint", "Pass", "Pipeline", "RulePass", "leaves", "rule_pass", "run_pass"),
    "run.report": ("Hint", "Report"),
    "run.transforms": ("ModelTransform",),
}
__all__ = [
    "CPU",
    "EXACT",
    "FLOATS",
    "INTEGERS",
    "LOSSY",
    "NEVER",
    "ROUNDING",
    "ChangeLog",
    "Contract",
    "CostModel",
    "DataType",
    "Dominance",
    "Engine",
    "EngineSession",
    "EngineSettings",
    "EvaluationError",
    "Fixpoint",
    "Graph",
    "GraphError",
    "Hint",
    "Instrumentation",
    "InstrumentationError",
    "Kernel",
    "Liveness",
    "MatchFailure",
    "Misfit",
    "Model",
    "ModelError",
    "ModelTransform",
    "NetworkxPass",
    "NoFixpoint",
    "Op",
    "OpPattern",
    "OpTime",
    "Pass",
    "PassPlacement",
    "PassesError",
    "PatternBuilder",
    "Pipeline",
    "Plugin",
    "PluginError",
    "QuantizationSpec",
    "Range",
    "Report",
    "RewriteBuilder",
    "Rule",
    "RuleError",
    "RulePass",
    "Support",
    "Target",
    "TargetError",
    "TargetFit",
    "Tensor",
    "TimeLimitError",
    "UnknownNameError",
    "Unsupported",
    "UnverifiableError",
    "UsageError",
    "Value",
    "ValueFacts",
    "Var",
    "VerificationError",
    "broadcasts_to",
    "by_dtype",
    "conditional",
    "evaluate",
    "find_engine",
    "from_networkx",
    "from_onnx",
    "is_known",
    "is_pure",
    "kernel",
    "leaves",
    "lossy",
    "made_from",
    "may_drop",
    "networkx_pass",
    "require",
    "rule",
    "rule_pass",
    "run_pass",
    "same_extent",
    "same_extent_if_broadcast",
    "to_networkx",
    "to_onnx",
]


RENAMED = {
    "Build": "RewriteBuilder",
    "Declined": "MatchFailure",
    "Edit": "Change of rewriting.change_log",
    "Ledger": "ChangeLog",
    "Placed": "PassPlacement",
    "stretches_to": "broadcasts_to",
}
"""Names in earlier versions, and their replacements."""


_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    # Imported on first use, so that a process that needs a part does not import the rest.
    if name in _HOMES:
        found = getattr(import_module(f".{_HOMES[name]}", __name__), name)
        globals()[name] = found
        return found
    if name in RENAMED:
        raise ImportError(f"{__name__} has no {name} any more: it is {RENAMED[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
