"""Which maker makes which operator. What is not named here gets inputs that are all alike."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from . import contrib_ops, conv_pool, data_movement, elementwise, indexing, matrix_products, reductions
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
    (conv_pool.conv, "Conv ConvInteger QLinearConv"),
    (conv_pool.conv_transpose, "ConvTranspose"),
    (conv_pool.pool, "AveragePool MaxPool LpPool"),
    (conv_pool.global_pool, "GlobalAveragePool GlobalMaxPool GlobalLpPool"),
    (matrix_products.matmul, "MatMul MatMulInteger"),
    (matrix_products.gemm, "Gemm"),
    (matrix_products.einsum, "Einsum"),
    (matrix_products.attention, "Attention"),
    (data_movement.transpose, "Transpose"),
    (data_movement.reshape, "Reshape"),
    (data_movement.flatten, "Flatten"),
    (data_movement.squeeze, "Squeeze"),
    (data_movement.unsqueeze, "Unsqueeze"),
    (data_movement.expand, "Expand"),
    (data_movement.tile, "Tile"),
    (data_movement.pad, "Pad"),
    (data_movement.depth_and_space, "DepthToSpace SpaceToDepth"),
    (data_movement.triangle, "Trilu"),
    (data_movement.resize, "Resize Upsample"),
    (data_movement.center, "CenterCropPad"),
    (indexing.concat, "Concat"),
    (indexing.split, "Split"),
    (indexing.slices, "Slice"),
    (indexing.gather, "Gather"),
    (indexing.elements, "GatherElements ScatterElements Scatter"),
    (indexing.gather_nd, "GatherND ScatterND"),
    (indexing.compress, "Compress"),
    (indexing.one_hot, "OneHot"),
    (indexing.shape_of, "Shape"),
    (indexing.extent, "Range"),
    (indexing.constant_of_shape, "ConstantOfShape"),
    (indexing.drawn, "RandomNormal RandomUniform"),
    (indexing.sequence_at, "SequenceAt SequenceErase SequenceInsert"),
    (indexing.sequence_of, "SequenceConstruct"),
    (indexing.concat_from_sequence, "ConcatFromSequence"),
    (indexing.split_to_sequence, "SplitToSequence"),
    (indexing.empty_sequence, "SequenceEmpty"),
    (indexing.optional, "Optional"),
    (contrib_ops.fused_matmul, "FusedMatMul"),
    (contrib_ops.fused_conv, "FusedConv"),
    (contrib_ops.fused_gemm, "FusedGemm"),
    (contrib_ops.biased, "BiasGelu FastGelu"),
    (contrib_ops.skip_norm, "SkipLayerNormalization SkipSimplifiedLayerNormalization"),
)
MAKERS: Mapping[str, Maker] = MappingProxyType({t: make for make, types in BY_MAKER for t in types.split()})
