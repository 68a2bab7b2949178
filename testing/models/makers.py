"""Which maker makes which operator. What is not named here gets inputs that are all alike."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from . import added, elementwise, layout, pieces, products, reductions, windows
from .generator import Maker

BY_MAKER: tuple[tuple[Maker, str], ...] = (
    (
        elementwise.broadcast,
        (
            "Add Sub Mul Div Pow Max Min Sum Mean Where And Or Xor Equal Less Greater LessOrEqual GreaterOrEqual "
            "BitwiseAnd BitwiseOr BitwiseXor"
        ),
    ),
    (elementwise.shift, "BitShift"),
    (elementwise.remainder, "Mod"),
    (elementwise.cast, "Cast BitCast"),
    (elementwise.clip, "Clip"),
    (elementwise.dropout, "Dropout"),
    (elementwise.prelu, "PRelu"),
    (elementwise.quantize, "QuantizeLinear DequantizeLinear"),
    (elementwise.numbered, "HardSigmoid LeakyRelu Elu Celu ThresholdedRelu Selu"),
    (
        reductions.reduce,
        (
            "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum "
            "ReduceSumSquare"
        ),
    ),
    (reductions.arg, "ArgMax ArgMin"),
    (reductions.along, "Softmax LogSoftmax Hardmax"),
    (reductions.running, "CumSum CumProd"),
    (reductions.top, "TopK"),
    (reductions.batch_norm, "BatchNormalization"),
    (reductions.layer_norm, "LayerNormalization RMSNormalization"),
    (reductions.channel_norm, "InstanceNormalization GroupNormalization"),
    (reductions.lp_norm, "LpNormalization"),
    (reductions.reverse, "ReverseSequence"),
    (windows.conv, "Conv ConvInteger QLinearConv"),
    (windows.conv_transpose, "ConvTranspose"),
    (windows.pool, "AveragePool MaxPool LpPool"),
    (windows.global_pool, "GlobalAveragePool GlobalMaxPool GlobalLpPool"),
    (products.matmul, "MatMul MatMulInteger"),
    (products.gemm, "Gemm"),
    (products.einsum, "Einsum"),
    (products.attention, "Attention"),
    (layout.transpose, "Transpose"),
    (layout.reshape, "Reshape"),
    (layout.flatten, "Flatten"),
    (layout.squeeze, "Squeeze"),
    (layout.unsqueeze, "Unsqueeze"),
    (layout.expand, "Expand"),
    (layout.tile, "Tile"),
    (layout.pad, "Pad"),
    (layout.depth_and_space, "DepthToSpace SpaceToDepth"),
    (layout.triangle, "Trilu"),
    (layout.resize, "Resize Upsample"),
    (layout.center, "CenterCropPad"),
    (pieces.concat, "Concat"),
    (pieces.split, "Split"),
    (pieces.slices, "Slice"),
    (pieces.gather, "Gather"),
    (pieces.elements, "GatherElements ScatterElements Scatter"),
    (pieces.gather_nd, "GatherND ScatterND"),
    (pieces.compress, "Compress"),
    (pieces.one_hot, "OneHot"),
    (pieces.shape_of, "Shape"),
    (pieces.extent, "Range"),
    (pieces.constant_of_shape, "ConstantOfShape"),
    (pieces.drawn, "RandomNormal RandomUniform"),
    (pieces.sequence_at, "SequenceAt SequenceErase SequenceInsert"),
    (pieces.sequence_of, "SequenceConstruct"),
    (pieces.concat_from_sequence, "ConcatFromSequence"),
    (pieces.split_to_sequence, "SplitToSequence"),
    (pieces.empty_sequence, "SequenceEmpty"),
    (pieces.optional, "Optional"),
    (added.fused_matmul, "FusedMatMul"),
    (added.fused_conv, "FusedConv"),
    (added.fused_gemm, "FusedGemm"),
    (added.biased, "BiasGelu FastGelu"),
    (added.skip_norm, "SkipLayerNormalization SkipSimplifiedLayerNormalization"),
)
MAKERS: Mapping[str, Maker] = MappingProxyType({t: make for make, types in BY_MAKER for t in types.split()})
