"""Names of onnxruntime's own optimizers for `disabled_optimizers`.

Graph transformers are in the order of onnxruntime's log (1.23.2, 1.26.0, 1.29.0, 1.31.1), rewrite rules in the order
of their registration in core/optimizer/graph_transformer_utils.cc; some are opt-in or for other hardware. onnxruntime
ignores unknown names, so names from one release do no harm in another. Transformers that are missing here are read
from the log.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ...core.ort.sessions import LEVELS

# Transformers that apply rewrite rules. Disabling one disables all of its rules, including those missing here.
RULE_BASED_TRANSFORMERS = ("Level1_RuleBasedTransformer", "Level2_RuleBasedTransformer")

# These run even with optimization off or when disabled.
NOT_DISABLEABLE = frozenset({"RemoveDuplicateCastTransformer", "CastFloat16Transformer", "MemcpyTransformer"})

BASIC = (
    RULE_BASED_TRANSFORMERS[0],
    "EliminateIdentity", "EliminateSlice", "UnsqueezeElimination", "EliminateDropout", "ExpandElimination",
    "CastElimination", "CastChainElimination", "PreShapeNodeElimination", "NoopElimination", "DivMulFusion",
    "FuseReluClip", "GemmSumFusion", "GemmTransposeFusion", "NotWhereFusion", "ConvAddFusion", "ConvMulFusion",
    "ConvBNFusion", "Pad_Fusion", "MatMul_BatchNormalization_Fusion", "LabelEncoderFusion",
    "DoubleQDQPairsRemover", "ConstantSharing", "CommonSubexpressionElimination", "ConstantFolding", "MatMulAddFusion",
    "ReshapeFusion", "FreeDimensionOverrideTransformer", "SliceConcatToSpaceToDepthFusion", "GeluFusionL1",
    "LayerNormFusionL1", "QDQPropagationTransformer", "WeightBiasQuantization", "EnsureUniqueDQForNodeUnit",
    "WhereDummyDq", "RocmBlasAltImpl", "TransposeOptimizer",
)  # fmt: skip

EXTENDED = (
    RULE_BASED_TRANSFORMERS[1],
    "ClipQuantRewrite", "ReluQuantRewrite",
    "TransposeOptimizer_CPUExecutionProvider", "QDQS8ToU8Transformer", "QDQSelectorActionTransformer",
    "GemmActivationFusion", "MatMulIntegerToFloatFusion", "DynamicQuantizeMatMulFusion", "ConvActivationFusion",
    "GeluFusionL2", "LayerNormFusionL2", "SimplifiedLayerNormFusion", "AttentionFusion", "EmbedLayerNormFusion",
    "GatherSliceToSplitFusion", "GatherToSliceFusion", "MatmulTransposeFusion", "BiasGeluFusion",
    "GroupQueryAttentionFusion", "SkipLayerNormFusion", "BiasSkipLayerNormFusion", "FastGeluFusion", "QuickGeluFusion",
    "GeluApproximation", "BiasSoftmaxFusion", "BiasDropoutFusion", "MatMulScaleFusion", "MatMulActivationFusion",
    "Avx2WeightS8ToU8Transformer", "MatMulNBitsFusion", "DQMatMulNBitsFusion", "MatMulNBitsQkvFusion",
    "MatMulNBitsMlpFusion", "GroupQueryAttentionPreNormFusion", "GqaValueLayoutTransformer",
    "QDQFinalCleanupTransformer",
)  # fmt: skip

LAYOUT = ("NchwcTransformer", "NhwcTransformer", "ConvAddActivationFusion")
ALL = ("FuseFp16InitializerToFp32NodeTransformer",)

LEVEL_OPTIMIZERS = (BASIC, EXTENDED, LAYOUT, ALL)
LOG_LINE = re.compile(r"(?:Applying graph transformer|GraphTransformer) (\S+) (?:on step|modified)")

MODIFIED = re.compile(r"GraphTransformer (\S+) modified: [^0]")


def known_optimizers(level: str) -> list[str]:
    """The optimizers of a level and of lower levels, in execution order."""
    return [name for stage in LEVEL_OPTIMIZERS[: [*LEVELS].index(level) + 1] for name in stage]


def logged_optimizers(lines: Iterable[str], pattern: re.Pattern[str] = LOG_LINE) -> list[str]:
    """The transformers in a log of onnxruntime, in order; with MODIFIED, the transformers that changed the model."""
    found = (m[1] for line in lines if (m := pattern.search(line)))
    return [name for name in dict.fromkeys(found) if name not in NOT_DISABLEABLE]


def merge_in_order(names: Sequence[str], seen: Sequence[str]) -> list[str]:
    """`names`, with each other name of `seen` inserted after its predecessor in `seen`."""
    result = list(names)
    at = 0
    for name in seen:
        if name in result:
            at = result.index(name) + 1
        else:
            result.insert(at, name)
            at += 1
    return result
