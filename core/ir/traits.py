"""Traits of the operators of the standard domain, declared once for each operator."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from enum import Flag, auto
from functools import cache
from types import MappingProxyType

ALL_INPUTS = range(1 << 31)  # INT_MAX is how schemas write "any number of inputs"
LOOP_CONDITION = -1  # the "input" of a Loop for the condition that its body computes


class Trait(Flag):
    """A property of an operator in all its versions. "Output" means the first one, "dtype" its element type."""

    ELEMENTWISE = auto()
    """Each element is computed alike from the element of the first input at its place; other inputs hold one number."""
    BROADCASTING = auto()
    """Each element is computed alike from one element of each input, after multidirectional broadcasting."""
    TOTAL = auto()
    """Fails for no numbers in its inputs, if their types are allowed and their shapes broadcast."""
    LAYOUT_INVARIANT = auto()
    """Elementwise, and onnxruntime gives an element the same bits wherever in the tensor it is.

    For others, such as Exp and Tanh, it has vector instructions, and another formula for the last few elements.
    """
    SAME_SHAPE = auto()
    """The output has the shape of the first input."""
    SAME_DTYPE = auto()
    """The output has the dtype of the first input."""
    COMMUTATIVE = auto()
    """Swapped inputs give the same numbers."""
    COMPARISON = auto()
    """Compares two inputs; the outputs are truth values."""
    MOVES_DATA = auto()
    """Every element of every output is an element of the first input, unchanged."""
    SELECTS = auto()
    """Results are numbers that were given or have been rounded to integers, perhaps negated, or constants.

    Nothing is computed that might overflow or round. Not repeated for ops that have data inputs, nor for queries.
    """
    QUERIES = auto()
    """Results are truth values, integers or indices that describe the inputs."""
    READS_SHAPE = auto()
    """The outputs depend on the shape of the input, not on its elements."""
    DATA_DEPENDENT = auto()
    """Extents or indices in the outputs are decided by the elements of the inputs."""
    RANDOM = auto()
    """Makes random numbers, whatever the inputs and attributes."""
    HAS_SUBGRAPHS = auto()
    """Has attributes that are graphs."""
    EMPTY_SAFE = auto()
    """onnxruntime ran it on empty tensors of all sorts, and the process survived.

    It did not for Attention, ConvTranspose, Einsum, GRU, LSTM, STFT and Unique.
    """
    REDUCTION = auto()
    """Reduces the axes that its second input names (an attribute in older versions), or all."""
    CONVOLUTION = auto()
    """Sums products with a filter of shape (outputs, inputs, *kernel), or (inputs, outputs, *kernel)."""
    NORMALIZATION = auto()
    """Normalizes its first input, then multiplies by a scale and adds a bias, if any: the inputs that follow."""
    HAS_AXIS = auto()
    """The attribute `axis` counts axes of the first input, in some version."""
    BOUNDED = auto()
    """Gives NaN or moderate numbers, even for infinities."""
    KEEPS_FINITE = auto()
    """Gives NaN or moderate numbers for moderate numbers. Not repeated for bounded ones and normalizations."""

    UNARY = ELEMENTWISE | TOTAL | SAME_SHAPE | SAME_DTYPE | EMPTY_SAFE
    BINARY = BROADCASTING | TOTAL | SAME_DTYPE | EMPTY_SAFE | LAYOUT_INVARIANT
    COMPARES = BROADCASTING | TOTAL | EMPTY_SAFE | LAYOUT_INVARIANT | COMPARISON | QUERIES
    MOVES = MOVES_DATA | SAME_DTYPE | KEEPS_FINITE
    REDUCES = REDUCTION | SAME_DTYPE | EMPTY_SAFE


NO_TRAITS = Trait(0)


@dataclass(frozen=True, slots=True)
class Traits:
    """The facts of an operator: its traits, its inputs that hold data, and the roles of the others.

    Elements of the inputs in `data` appear among those of the outputs nearly unchanged: cast, clipped or beside others.
    `roles` are those of other inputs that do not take all numbers (`core.verify.input_roles`).
    """

    traits: Trait = NO_TRAITS
    data: Container[int] = ()
    roles: Mapping[int, str] = field(default_factory=dict[int, str])


T = Trait
TRAITS: Mapping[str, Traits] = MappingProxyType({
    "Abs": Traits(T.UNARY | T.LAYOUT_INVARIANT | T.SELECTS | T.KEEPS_FINITE),
    "Acos": Traits(T.UNARY | T.BOUNDED),
    "Acosh": Traits(T.UNARY),
    "Add": Traits(T.BINARY | T.COMMUTATIVE | T.KEEPS_FINITE),
    "AffineGrid": Traits(T.SAME_DTYPE, roles={1: "extent"}),
    "And": Traits(T.BINARY | T.COMMUTATIVE | T.SELECTS),
    "ArgMax": Traits(T.QUERIES | T.DATA_DEPENDENT | T.EMPTY_SAFE | T.HAS_AXIS),
    "ArgMin": Traits(T.QUERIES | T.DATA_DEPENDENT | T.EMPTY_SAFE | T.HAS_AXIS),
    "Asin": Traits(T.UNARY | T.BOUNDED),
    "Asinh": Traits(T.UNARY),
    "Atan": Traits(T.UNARY | T.BOUNDED),
    "Atanh": Traits(T.UNARY),
    "Attention": Traits(T.SAME_DTYPE),
    "AveragePool": Traits(T.SAME_DTYPE | T.EMPTY_SAFE),
    "BatchNormalization": Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE),
    "Bernoulli": Traits(T.SAME_SHAPE | T.RANDOM, roles={0: "share"}),
    "BitCast": Traits(T.ELEMENTWISE | T.LAYOUT_INVARIANT | T.SAME_SHAPE),
    "BitShift": Traits(T.BROADCASTING | T.LAYOUT_INVARIANT | T.SAME_DTYPE | T.EMPTY_SAFE, roles={1: "shift"}),
    "BitwiseAnd": Traits(T.BINARY | T.COMMUTATIVE),
    "BitwiseNot": Traits(T.UNARY | T.LAYOUT_INVARIANT),
    "BitwiseOr": Traits(T.BINARY | T.COMMUTATIVE),
    "BitwiseXor": Traits(T.BINARY | T.COMMUTATIVE),
    "BlackmanWindow": Traits(roles={0: "extent"}),
    "Cast": Traits(T.ELEMENTWISE | T.LAYOUT_INVARIANT | T.SAME_SHAPE | T.EMPTY_SAFE, data=(0,)),
    "CastLike": Traits(T.ELEMENTWISE | T.LAYOUT_INVARIANT | T.SAME_SHAPE | T.EMPTY_SAFE, data=(0,)),
    "CausalConvWithState": Traits(T.SAME_DTYPE),
    "Ceil": Traits(T.UNARY | T.LAYOUT_INVARIANT | T.SELECTS | T.KEEPS_FINITE),
    "Celu": Traits(T.UNARY),
    "CenterCropPad": Traits(T.SAME_DTYPE, data=(0,), roles={1: "extent"}),
    "Clip": Traits(T.UNARY | T.LAYOUT_INVARIANT, data=(0,)),
    "Col2Im": Traits(T.SAME_DTYPE, roles={1: "extent", 2: "extent"}),
    "Compress": Traits(T.MOVES | T.DATA_DEPENDENT | T.EMPTY_SAFE | T.HAS_AXIS, data=(0,)),
    "Concat": Traits(T.SAME_DTYPE | T.EMPTY_SAFE | T.HAS_AXIS | T.KEEPS_FINITE, data=ALL_INPUTS),
    "ConcatFromSequence": Traits(data=(0,)),
    "Constant": Traits(T.EMPTY_SAFE),
    "ConstantOfShape": Traits(T.EMPTY_SAFE, roles={0: "extent"}),
    "Conv": Traits(T.SAME_DTYPE | T.EMPTY_SAFE | T.CONVOLUTION),
    "ConvInteger": Traits(T.EMPTY_SAFE | T.CONVOLUTION),
    "ConvTranspose": Traits(T.SAME_DTYPE | T.CONVOLUTION),
    "Cos": Traits(T.UNARY | T.BOUNDED),
    "Cosh": Traits(T.UNARY),
    "CumProd": Traits(T.SAME_SHAPE | T.SAME_DTYPE, roles={1: "axes"}),
    "CumSum": Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE, roles={1: "axes"}),
    "DFT": Traits(T.SAME_DTYPE, roles={1: "extent", 2: "axes"}),
    "DeformConv": Traits(T.SAME_DTYPE),
    "DepthToSpace": Traits(T.MOVES | T.EMPTY_SAFE, data=(0,)),
    "DequantizeLinear": Traits(T.SAME_SHAPE | T.EMPTY_SAFE | T.HAS_AXIS),
    "Det": Traits(T.SAME_DTYPE),
    "Div": Traits(T.BROADCASTING | T.LAYOUT_INVARIANT | T.SAME_DTYPE | T.EMPTY_SAFE, roles={1: "divisor"}),
    "Dropout": Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE | T.KEEPS_FINITE, data=(0,), roles={1: "share"}),
    "DynamicQuantizeLinear": Traits(T.SAME_SHAPE | T.EMPTY_SAFE),
    "Einsum": Traits(T.SAME_DTYPE),
    "Elu": Traits(T.UNARY | T.KEEPS_FINITE),
    "Equal": Traits(T.COMPARES | T.COMMUTATIVE),
    "Erf": Traits(T.UNARY | T.BOUNDED),
    "Exp": Traits(T.UNARY),
    "Expand": Traits(T.MOVES | T.EMPTY_SAFE, data=(0,), roles={1: "stretch"}),
    "EyeLike": Traits(T.SAME_SHAPE | T.READS_SHAPE),
    "Flatten": Traits(T.MOVES | T.EMPTY_SAFE | T.HAS_AXIS, data=(0,)),
    "Floor": Traits(T.UNARY | T.LAYOUT_INVARIANT | T.SELECTS | T.KEEPS_FINITE),
    "GRU": Traits(T.SAME_DTYPE, roles={4: "count"}),
    "Gather": Traits(T.MOVES | T.EMPTY_SAFE | T.HAS_AXIS, data=(0,), roles={1: "index"}),
    "GatherElements": Traits(T.MOVES | T.EMPTY_SAFE | T.HAS_AXIS, data=(0,), roles={1: "index"}),
    "GatherND": Traits(T.MOVES | T.EMPTY_SAFE, data=(0,), roles={1: "index"}),
    "Gelu": Traits(T.UNARY | T.KEEPS_FINITE),
    "Gemm": Traits(T.SAME_DTYPE | T.EMPTY_SAFE),
    "GlobalAveragePool": Traits(T.SAME_DTYPE | T.EMPTY_SAFE),
    "GlobalLpPool": Traits(T.SAME_DTYPE),
    "GlobalMaxPool": Traits(T.SAME_DTYPE | T.SELECTS | T.EMPTY_SAFE),
    "Greater": Traits(T.COMPARES),
    "GreaterOrEqual": Traits(T.COMPARES),
    "GridSample": Traits(T.SAME_DTYPE),
    "GroupNormalization": Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.NORMALIZATION),
    "HammingWindow": Traits(roles={0: "extent"}),
    "HannWindow": Traits(roles={0: "extent"}),
    "HardSigmoid": Traits(T.UNARY | T.BOUNDED),
    "HardSwish": Traits(T.UNARY | T.KEEPS_FINITE),
    "Hardmax": Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.QUERIES | T.EMPTY_SAFE | T.HAS_AXIS | T.BOUNDED),
    "Identity": Traits(T.UNARY | T.LAYOUT_INVARIANT | T.MOVES_DATA | T.KEEPS_FINITE, data=(0,)),
    "If": Traits(T.SELECTS | T.HAS_SUBGRAPHS | T.EMPTY_SAFE, roles={0: "truth"}),
    "ImageDecoder": Traits(T.DATA_DEPENDENT),
    "InstanceNormalization": Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE | T.NORMALIZATION),
    "IsInf": Traits(T.ELEMENTWISE | T.TOTAL | T.LAYOUT_INVARIANT | T.SAME_SHAPE | T.QUERIES | T.EMPTY_SAFE),
    "IsNaN": Traits(T.ELEMENTWISE | T.TOTAL | T.LAYOUT_INVARIANT | T.SAME_SHAPE | T.QUERIES | T.EMPTY_SAFE),
    "LRN": Traits(T.SAME_SHAPE | T.SAME_DTYPE),
    "LSTM": Traits(T.SAME_DTYPE, roles={4: "count"}),
    "LayerNormalization": Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE | T.NORMALIZATION | T.HAS_AXIS),
    "LeakyRelu": Traits(T.UNARY | T.LAYOUT_INVARIANT | T.KEEPS_FINITE),
    "Less": Traits(T.COMPARES),
    "LessOrEqual": Traits(T.COMPARES),
    "LinearAttention": Traits(T.SAME_DTYPE),
    "Log": Traits(T.UNARY),
    "LogSoftmax": Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE | T.HAS_AXIS),
    "Loop": Traits(T.SELECTS | T.HAS_SUBGRAPHS | T.EMPTY_SAFE, roles={0: "trips", 1: "truth", LOOP_CONDITION: "truth"}),
    "LpNormalization": Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE | T.HAS_AXIS),
    "LpPool": Traits(T.SAME_DTYPE),
    "MatMul": Traits(T.SAME_DTYPE | T.EMPTY_SAFE),
    "MatMulInteger": Traits(T.EMPTY_SAFE),
    "Max": Traits(T.BINARY | T.COMMUTATIVE | T.KEEPS_FINITE, data=ALL_INPUTS),
    "MaxPool": Traits(T.SAME_DTYPE | T.SELECTS | T.EMPTY_SAFE),
    "MaxRoiPool": Traits(T.SAME_DTYPE),
    "MaxUnpool": Traits(T.SAME_DTYPE | T.SELECTS, roles={2: "extent"}),
    "Mean": Traits(T.BINARY | T.COMMUTATIVE | T.KEEPS_FINITE),
    "MeanVarianceNormalization": Traits(T.SAME_SHAPE | T.SAME_DTYPE),
    "MelWeightMatrix": Traits(roles={0: "extent", 1: "extent"}),
    "Min": Traits(T.BINARY | T.COMMUTATIVE | T.KEEPS_FINITE, data=ALL_INPUTS),
    "Mish": Traits(T.UNARY | T.KEEPS_FINITE),
    "Mod": Traits(T.BROADCASTING | T.LAYOUT_INVARIANT | T.SAME_DTYPE | T.EMPTY_SAFE, roles={1: "divisor"}),
    "Mul": Traits(T.BINARY | T.COMMUTATIVE | T.KEEPS_FINITE),
    "Multinomial": Traits(T.RANDOM),
    "Neg": Traits(T.UNARY | T.LAYOUT_INVARIANT | T.SELECTS | T.KEEPS_FINITE),
    "NegativeLogLikelihoodLoss": Traits(T.SAME_DTYPE, roles={1: "index"}),
    "NonMaxSuppression": Traits(T.DATA_DEPENDENT, roles={2: "extent", 3: "share"}),
    "NonZero": Traits(T.QUERIES | T.DATA_DEPENDENT | T.EMPTY_SAFE),
    "Not": Traits(T.UNARY | T.LAYOUT_INVARIANT | T.SELECTS),
    "OneHot": Traits(T.SELECTS | T.EMPTY_SAFE, roles={0: "index", 1: "extent"}),
    "Optional": Traits(data=(0,)),
    "OptionalGetElement": Traits(data=(0,)),
    "OptionalHasElement": Traits(T.QUERIES),
    "Or": Traits(T.BINARY | T.COMMUTATIVE | T.SELECTS),
    "PRelu": Traits(T.LAYOUT_INVARIANT | T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE | T.KEEPS_FINITE),
    "Pad": Traits(T.SAME_DTYPE | T.EMPTY_SAFE, data=(0,), roles={1: "pads", 3: "axes"}),
    "Pow": Traits(T.BROADCASTING | T.SAME_DTYPE | T.EMPTY_SAFE),
    "QLinearConv": Traits(T.EMPTY_SAFE | T.CONVOLUTION),
    "QLinearMatMul": Traits(T.EMPTY_SAFE),
    "QuantizeLinear": Traits(T.SAME_SHAPE | T.EMPTY_SAFE | T.HAS_AXIS),
    "RMSNormalization": Traits(T.SAME_SHAPE | T.EMPTY_SAFE | T.NORMALIZATION | T.HAS_AXIS),
    "RNN": Traits(T.SAME_DTYPE, roles={4: "count"}),
    "RandomNormal": Traits(T.RANDOM),
    "RandomNormalLike": Traits(T.SAME_SHAPE | T.READS_SHAPE | T.RANDOM),
    "RandomUniform": Traits(T.RANDOM),
    "RandomUniformLike": Traits(T.SAME_SHAPE | T.READS_SHAPE | T.RANDOM),
    "Range": Traits(T.SAME_DTYPE | T.EMPTY_SAFE, roles={0: "start", 1: "limit", 2: "step"}),
    "Reciprocal": Traits(T.UNARY),
    "ReduceL1": Traits(T.REDUCES, roles={1: "axes"}),
    "ReduceL2": Traits(T.REDUCES, roles={1: "axes"}),
    "ReduceLogSum": Traits(T.REDUCES, roles={1: "axes"}),
    "ReduceLogSumExp": Traits(T.REDUCES, roles={1: "axes"}),
    "ReduceMax": Traits(T.REDUCES | T.SELECTS, roles={1: "axes"}),
    "ReduceMean": Traits(T.REDUCES | T.KEEPS_FINITE, roles={1: "axes"}),
    "ReduceMin": Traits(T.REDUCES | T.SELECTS, roles={1: "axes"}),
    "ReduceProd": Traits(T.REDUCES, roles={1: "axes"}),
    "ReduceSum": Traits(T.REDUCES, roles={1: "axes"}),
    "ReduceSumSquare": Traits(T.REDUCES, roles={1: "axes"}),
    "RegexFullMatch": Traits(T.SAME_SHAPE),
    "Relu": Traits(T.UNARY | T.LAYOUT_INVARIANT | T.SELECTS | T.KEEPS_FINITE),
    "Reshape": Traits(T.MOVES | T.EMPTY_SAFE, data=(0,), roles={1: "factors"}),
    "Resize": Traits(T.SAME_DTYPE | T.EMPTY_SAFE, roles={2: "scales", 3: "extent"}),
    "ReverseSequence": Traits(T.MOVES | T.SAME_SHAPE, data=(0,), roles={1: "count"}),
    "RoiAlign": Traits(T.SAME_DTYPE),
    "RotaryEmbedding": Traits(T.SAME_SHAPE | T.SAME_DTYPE, roles={3: "index"}),
    "Round": Traits(T.UNARY | T.LAYOUT_INVARIANT | T.SELECTS | T.KEEPS_FINITE),
    "STFT": Traits(T.SAME_DTYPE, roles={1: "extent", 3: "extent"}),
    "Scan": Traits(T.SELECTS | T.HAS_SUBGRAPHS),
    "Scatter": Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.HAS_AXIS, data=(0, 2), roles={1: "index"}),
    "ScatterElements": Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE | T.HAS_AXIS, data=(0, 2), roles={1: "index"}),
    "ScatterND": Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE, data=(0, 2), roles={1: "index"}),
    "Selu": Traits(T.UNARY | T.KEEPS_FINITE),
    "SequenceAt": Traits(data=(0,), roles={1: "start"}),
    "SequenceConstruct": Traits(data=ALL_INPUTS),
    "SequenceEmpty": Traits(),
    "SequenceErase": Traits(data=(0,), roles={1: "start"}),
    "SequenceInsert": Traits(data=(0, 1), roles={2: "start"}),
    "SequenceLength": Traits(T.QUERIES),
    "SequenceMap": Traits(T.HAS_SUBGRAPHS),
    "Shape": Traits(T.TOTAL | T.QUERIES | T.READS_SHAPE | T.EMPTY_SAFE),
    "Shrink": Traits(T.UNARY),
    "Sigmoid": Traits(T.UNARY | T.BOUNDED),
    "Sign": Traits(T.UNARY | T.LAYOUT_INVARIANT | T.QUERIES | T.BOUNDED),
    "Sin": Traits(T.UNARY | T.BOUNDED),
    "Sinh": Traits(T.UNARY),
    "Size": Traits(T.TOTAL | T.QUERIES | T.READS_SHAPE | T.EMPTY_SAFE),
    "Slice": Traits(T.MOVES | T.EMPTY_SAFE, data=(0,), roles={1: "start", 2: "end", 3: "axes", 4: "step"}),
    "Softmax": Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE | T.HAS_AXIS | T.BOUNDED),
    "SoftmaxCrossEntropyLoss": Traits(T.SAME_DTYPE, roles={1: "index"}),
    "Softplus": Traits(T.UNARY | T.KEEPS_FINITE),
    "Softsign": Traits(T.UNARY | T.BOUNDED),
    "SpaceToDepth": Traits(T.MOVES | T.EMPTY_SAFE, data=(0,)),
    "Split": Traits(T.MOVES | T.EMPTY_SAFE | T.HAS_AXIS, data=(0,), roles={1: "parts"}),
    "SplitToSequence": Traits(T.HAS_AXIS, data=(0,), roles={1: "parts"}),
    "Sqrt": Traits(T.UNARY | T.LAYOUT_INVARIANT),
    "Squeeze": Traits(T.MOVES | T.EMPTY_SAFE, data=(0,), roles={1: "unit axes"}),
    "StringConcat": Traits(T.SAME_DTYPE),
    "StringNormalizer": Traits(T.SAME_DTYPE | T.DATA_DEPENDENT),
    "StringSplit": Traits(T.SAME_DTYPE | T.DATA_DEPENDENT),
    "Sub": Traits(T.BINARY | T.KEEPS_FINITE),
    "Sum": Traits(T.BINARY | T.COMMUTATIVE | T.KEEPS_FINITE),
    "SwiGLU": Traits(T.SAME_SHAPE | T.SAME_DTYPE),
    "Swish": Traits(T.UNARY | T.KEEPS_FINITE),
    "Tan": Traits(T.UNARY),
    "Tanh": Traits(T.UNARY | T.BOUNDED),
    "TensorScatter": Traits(T.SAME_SHAPE | T.SAME_DTYPE, data=(0, 1)),
    "TfIdfVectorizer": Traits(),
    "ThresholdedRelu": Traits(T.UNARY | T.LAYOUT_INVARIANT | T.SELECTS | T.KEEPS_FINITE),
    "Tile": Traits(T.MOVES | T.EMPTY_SAFE, data=(0,), roles={1: "extent"}),
    "TopK": Traits(T.SAME_DTYPE | T.SELECTS | T.DATA_DEPENDENT | T.EMPTY_SAFE | T.HAS_AXIS, roles={1: "count"}),
    "Transpose": Traits(T.MOVES | T.EMPTY_SAFE, data=(0,)),
    "Trilu": Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE | T.KEEPS_FINITE, data=(0,)),
    "Unique": Traits(T.SAME_DTYPE | T.SELECTS | T.DATA_DEPENDENT | T.HAS_AXIS),
    "Unsqueeze": Traits(T.MOVES | T.EMPTY_SAFE, data=(0,), roles={1: "new axes"}),
    "Upsample": Traits(T.SAME_DTYPE, roles={1: "scales"}),
    "Where": Traits(T.BROADCASTING | T.TOTAL | T.LAYOUT_INVARIANT | T.EMPTY_SAFE | T.KEEPS_FINITE, data=(1, 2)),
    "Xor": Traits(T.BINARY | T.COMMUTATIVE | T.SELECTS),
})  # fmt: skip
UNKNOWN = Traits()


@cache
def ops_with(traits: Trait) -> frozenset[str]:
    """The operators that have all of `traits`."""
    wanted = traits.value
    return frozenset(op_type for op_type, row in TRAITS.items() if row.traits.value & wanted == wanted)


def data_inputs(op_type: str) -> Container[int]:
    """The inputs of an operator of the standard domain whose elements appear, nearly unchanged, in its outputs."""
    return TRAITS.get(op_type, UNKNOWN).data


def roles(op_type: str) -> Mapping[int, str]:
    """The roles of the inputs of an operator of the standard domain, by index."""
    return TRAITS.get(op_type, UNKNOWN).roles


def ops_with_role(role: str) -> frozenset[str]:
    """The operators of which some input has the role."""
    return frozenset(op_type for op_type, row in TRAITS.items() if role in row.roles.values())
