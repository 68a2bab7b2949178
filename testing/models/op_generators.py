"""The generator of each operator; operators without one get equal inputs."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ...core.ir.traits import Trait, ops_with
from . import contrib_ops, conv_pool, data_movement, elementwise, indexing, matrix_products, reductions
from .generator import OpGenerator

OPS_BY_GENERATOR: tuple[tuple[OpGenerator, str], ...] = (
    (elementwise.broadcast, " ".join(sorted(ops_with(Trait.BROADCASTING)))),
    (elementwise.bit_shift, "BitShift"),
    (elementwise.mod, "Mod"),
    (elementwise.cast, "Cast BitCast"),
    (elementwise.clip, "Clip"),
    (elementwise.dropout, "Dropout"),
    (elementwise.prelu, "PRelu"),
    (elementwise.quantize, "QuantizeLinear DequantizeLinear"),
    (elementwise.number_attributes, "HardSigmoid LeakyRelu Elu Celu ThresholdedRelu Selu"),
    (reductions.reduce, " ".join(sorted(ops_with(Trait.REDUCTION)))),
    (reductions.arg_reduce, "ArgMax ArgMin"),
    (reductions.softmax, "Softmax LogSoftmax Hardmax"),
    (reductions.cumulative, "CumSum CumProd"),
    (reductions.top_k, "TopK"),
    (reductions.batch_norm, "BatchNormalization"),
    (reductions.layer_norm, "LayerNormalization RMSNormalization"),
    (reductions.channel_norm, "InstanceNormalization GroupNormalization"),
    (reductions.lp_norm, "LpNormalization"),
    (reductions.reverse_sequence, "ReverseSequence"),
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
    (data_movement.trilu, "Trilu"),
    (data_movement.resize, "Resize Upsample"),
    (data_movement.center_crop_pad, "CenterCropPad"),
    (indexing.concat, "Concat"),
    (indexing.split, "Split"),
    (indexing.slice_tensor, "Slice"),
    (indexing.gather, "Gather"),
    (indexing.gather_elements, "GatherElements ScatterElements Scatter"),
    (indexing.gather_nd, "GatherND ScatterND"),
    (indexing.compress, "Compress"),
    (indexing.one_hot, "OneHot"),
    (indexing.shape_of, "Shape"),
    (indexing.make_range, "Range"),
    (indexing.constant_of_shape, "ConstantOfShape"),
    (indexing.random_tensor, "RandomNormal RandomUniform"),
    (indexing.sequence_access, "SequenceAt SequenceErase SequenceInsert"),
    (indexing.sequence_construct, "SequenceConstruct"),
    (indexing.concat_from_sequence, "ConcatFromSequence"),
    (indexing.split_to_sequence, "SplitToSequence"),
    (indexing.sequence_empty, "SequenceEmpty"),
    (indexing.optional, "Optional"),
    (contrib_ops.fused_matmul, "FusedMatMul"),
    (contrib_ops.fused_conv, "FusedConv"),
    (contrib_ops.fused_gemm, "FusedGemm"),
    (contrib_ops.bias_gelu, "BiasGelu FastGelu"),
    (contrib_ops.skip_norm, "SkipLayerNormalization SkipSimplifiedLayerNormalization"),
)
OP_GENERATORS: Mapping[str, OpGenerator] = MappingProxyType(
    {t: make for make, types in OPS_BY_GENERATOR for t in types.split()}
)
