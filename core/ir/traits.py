"""Traits of the operators of the standard domain, declared once for each operator."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
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
    """Draws random numbers for any inputs and attributes."""
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

    APPROXIMATED = auto()
    """onnxruntime approximates it, or functions in it, with an absolute error, which is large beside tiny results."""
    STEPWISE = auto()
    """Computes in steps, each from the result of the one before, over which rounding accumulates."""
    JUMPS = auto()
    """Results may jump where elements of the inputs move by an ulp, unless their types allow no such move."""

    UNARY = ELEMENTWISE | TOTAL | SAME_SHAPE | SAME_DTYPE | EMPTY_SAFE
    BINARY = BROADCASTING | TOTAL | SAME_DTYPE | EMPTY_SAFE | LAYOUT_INVARIANT
    COMPARES = BROADCASTING | TOTAL | EMPTY_SAFE | LAYOUT_INVARIANT | COMPARISON | QUERIES | JUMPS
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
ROWS: Sequence[tuple[str, Traits]] = (
    ("Abs Neg Relu", Traits(T.UNARY | T.LAYOUT_INVARIANT | T.SELECTS | T.KEEPS_FINITE)),
    ("Acos Asin Atan Cos HardSigmoid Sin Softsign", Traits(T.UNARY | T.BOUNDED)),
    ("Acosh Asinh Atanh Celu Cosh Exp Log Reciprocal Sinh Tan", Traits(T.UNARY)),
    ("Add Mean Mul Sum", Traits(T.BINARY | T.COMMUTATIVE | T.KEEPS_FINITE)),
    ("AffineGrid", Traits(T.SAME_DTYPE, roles={1: "extent"})),
    ("And Or Xor", Traits(T.BINARY | T.COMMUTATIVE | T.SELECTS)),
    ("ArgMax ArgMin", Traits(T.QUERIES | T.DATA_DEPENDENT | T.EMPTY_SAFE | T.HAS_AXIS | T.JUMPS)),
    (("Attention CausalConvWithState DeformConv Det Einsum GlobalLpPool GridSample LinearAttention LpPool "
      "MaxRoiPool RoiAlign StringConcat"), Traits(T.SAME_DTYPE)),
    ("AveragePool Gemm GlobalAveragePool MatMul", Traits(T.SAME_DTYPE | T.EMPTY_SAFE)),
    ("BatchNormalization", Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE)),
    ("Bernoulli", Traits(T.SAME_SHAPE | T.RANDOM, roles={0: "share"})),
    ("BitCast", Traits(T.ELEMENTWISE | T.LAYOUT_INVARIANT | T.SAME_SHAPE)),
    ("BitShift", Traits(T.BROADCASTING | T.LAYOUT_INVARIANT | T.SAME_DTYPE | T.EMPTY_SAFE, roles={1: "shift"})),
    ("BitwiseAnd BitwiseOr BitwiseXor", Traits(T.BINARY | T.COMMUTATIVE)),
    ("BitwiseNot Sqrt", Traits(T.UNARY | T.LAYOUT_INVARIANT)),
    ("BlackmanWindow HammingWindow HannWindow", Traits(roles={0: "extent"})),
    ("Cast CastLike", Traits(T.ELEMENTWISE | T.LAYOUT_INVARIANT | T.SAME_SHAPE | T.EMPTY_SAFE | T.JUMPS, data=(0,))),
    ("Ceil Floor Round ThresholdedRelu",
     Traits(T.UNARY | T.LAYOUT_INVARIANT | T.SELECTS | T.KEEPS_FINITE | T.JUMPS)),
    ("CenterCropPad", Traits(T.SAME_DTYPE, data=(0,), roles={1: "extent"})),
    ("Clip", Traits(T.UNARY | T.LAYOUT_INVARIANT, data=(0,))),
    ("Col2Im", Traits(T.SAME_DTYPE, roles={1: "extent", 2: "extent"})),
    ("Compress", Traits(T.MOVES | T.DATA_DEPENDENT | T.EMPTY_SAFE | T.HAS_AXIS | T.JUMPS, data=(0,))),
    ("Concat", Traits(T.SAME_DTYPE | T.EMPTY_SAFE | T.HAS_AXIS | T.KEEPS_FINITE, data=ALL_INPUTS)),
    ("ConcatFromSequence Optional OptionalGetElement", Traits(data=(0,))),
    ("Constant MatMulInteger", Traits(T.EMPTY_SAFE)),
    ("ConstantOfShape", Traits(T.EMPTY_SAFE, roles={0: "extent"})),
    ("Conv", Traits(T.SAME_DTYPE | T.EMPTY_SAFE | T.CONVOLUTION)),
    ("ConvInteger", Traits(T.EMPTY_SAFE | T.CONVOLUTION)),
    ("ConvTranspose", Traits(T.SAME_DTYPE | T.CONVOLUTION)),
    ("CumProd", Traits(T.SAME_SHAPE | T.SAME_DTYPE, roles={1: "axes"})),
    ("CumSum", Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE, roles={1: "axes"})),
    ("DFT", Traits(T.SAME_DTYPE, roles={1: "extent", 2: "axes"})),
    ("DepthToSpace SpaceToDepth Transpose", Traits(T.MOVES | T.EMPTY_SAFE, data=(0,))),
    ("DequantizeLinear", Traits(T.SAME_SHAPE | T.EMPTY_SAFE | T.HAS_AXIS)),
    ("Div", Traits(T.BROADCASTING | T.LAYOUT_INVARIANT | T.SAME_DTYPE | T.EMPTY_SAFE, roles={1: "divisor"})),
    ("Dropout", Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE | T.KEEPS_FINITE, data=(0,), roles={1: "share"})),
    ("DynamicQuantizeLinear", Traits(T.SAME_SHAPE | T.EMPTY_SAFE | T.JUMPS)),
    ("Elu Gelu HardSwish Mish Selu Softplus Swish", Traits(T.UNARY | T.KEEPS_FINITE)),
    ("Equal", Traits(T.COMPARES | T.COMMUTATIVE)),
    ("Erf Sigmoid Tanh", Traits(T.UNARY | T.BOUNDED | T.APPROXIMATED)),
    ("Expand", Traits(T.MOVES | T.EMPTY_SAFE, data=(0,), roles={1: "stretch"})),
    ("EyeLike", Traits(T.SAME_SHAPE | T.READS_SHAPE)),
    ("Flatten", Traits(T.MOVES | T.EMPTY_SAFE | T.HAS_AXIS, data=(0,))),
    ("GRU LSTM RNN", Traits(T.SAME_DTYPE | T.STEPWISE | T.APPROXIMATED, roles={4: "count"})),
    ("Gather GatherElements", Traits(T.MOVES | T.EMPTY_SAFE | T.HAS_AXIS, data=(0,), roles={1: "index"})),
    ("GatherND", Traits(T.MOVES | T.EMPTY_SAFE, data=(0,), roles={1: "index"})),
    ("GlobalMaxPool MaxPool", Traits(T.SAME_DTYPE | T.SELECTS | T.EMPTY_SAFE)),
    ("Greater GreaterOrEqual Less LessOrEqual", Traits(T.COMPARES)),
    ("GroupNormalization", Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.NORMALIZATION)),
    ("Hardmax", Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.QUERIES | T.EMPTY_SAFE | T.HAS_AXIS | T.BOUNDED | T.JUMPS)),
    ("Identity", Traits(T.UNARY | T.LAYOUT_INVARIANT | T.MOVES_DATA | T.KEEPS_FINITE, data=(0,))),
    ("If", Traits(T.SELECTS | T.HAS_SUBGRAPHS | T.EMPTY_SAFE, roles={0: "truth"})),
    ("ImageDecoder", Traits(T.DATA_DEPENDENT | T.JUMPS)),
    ("InstanceNormalization", Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE | T.NORMALIZATION)),
    ("IsInf IsNaN", Traits(T.ELEMENTWISE | T.TOTAL | T.LAYOUT_INVARIANT | T.SAME_SHAPE | T.QUERIES | T.EMPTY_SAFE)),
    ("LRN MeanVarianceNormalization SwiGLU", Traits(T.SAME_SHAPE | T.SAME_DTYPE)),
    ("LayerNormalization", Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE | T.NORMALIZATION | T.HAS_AXIS)),
    ("LeakyRelu", Traits(T.UNARY | T.LAYOUT_INVARIANT | T.KEEPS_FINITE)),
    ("LogSoftmax LpNormalization", Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE | T.HAS_AXIS)),
    ("Loop",
     Traits(T.SELECTS | T.HAS_SUBGRAPHS | T.EMPTY_SAFE | T.STEPWISE,
            roles={0: "trips", 1: "truth", LOOP_CONDITION: "truth"})),
    ("Max Min", Traits(T.BINARY | T.COMMUTATIVE | T.KEEPS_FINITE, data=ALL_INPUTS)),
    ("MaxUnpool", Traits(T.SAME_DTYPE | T.SELECTS, roles={2: "extent"})),
    ("MelWeightMatrix", Traits(roles={0: "extent", 1: "extent"})),
    ("Mod",
     Traits(T.BROADCASTING | T.LAYOUT_INVARIANT | T.SAME_DTYPE | T.EMPTY_SAFE | T.JUMPS, roles={1: "divisor"})),
    ("Multinomial RandomNormal RandomUniform", Traits(T.RANDOM)),
    ("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", Traits(T.SAME_DTYPE, roles={1: "index"})),
    ("NonMaxSuppression", Traits(T.DATA_DEPENDENT | T.JUMPS, roles={2: "extent", 3: "share"})),
    ("NonZero", Traits(T.QUERIES | T.DATA_DEPENDENT | T.EMPTY_SAFE | T.JUMPS)),
    ("Not", Traits(T.UNARY | T.LAYOUT_INVARIANT | T.SELECTS)),
    ("OneHot", Traits(T.SELECTS | T.EMPTY_SAFE, roles={0: "index", 1: "extent"})),
    ("OptionalHasElement SequenceLength", Traits(T.QUERIES | T.JUMPS)),
    ("PRelu", Traits(T.LAYOUT_INVARIANT | T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE | T.KEEPS_FINITE)),
    ("Pad", Traits(T.SAME_DTYPE | T.EMPTY_SAFE, data=(0,), roles={1: "pads", 3: "axes"})),
    ("Pow", Traits(T.BROADCASTING | T.SAME_DTYPE | T.EMPTY_SAFE)),
    ("QLinearConv", Traits(T.EMPTY_SAFE | T.CONVOLUTION | T.JUMPS)),
    ("QLinearMatMul", Traits(T.EMPTY_SAFE | T.JUMPS)),
    ("QuantizeLinear", Traits(T.SAME_SHAPE | T.EMPTY_SAFE | T.HAS_AXIS | T.JUMPS)),
    ("RMSNormalization", Traits(T.SAME_SHAPE | T.EMPTY_SAFE | T.NORMALIZATION | T.HAS_AXIS)),
    ("RandomNormalLike RandomUniformLike", Traits(T.SAME_SHAPE | T.READS_SHAPE | T.RANDOM)),
    ("Range", Traits(T.SAME_DTYPE | T.EMPTY_SAFE, roles={0: "start", 1: "limit", 2: "step"})),
    ("ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceProd ReduceSum ReduceSumSquare",
     Traits(T.REDUCES, roles={1: "axes"})),
    ("ReduceMax ReduceMin", Traits(T.REDUCES | T.SELECTS, roles={1: "axes"})),
    ("ReduceMean", Traits(T.REDUCES | T.KEEPS_FINITE, roles={1: "axes"})),
    ("RegexFullMatch", Traits(T.SAME_SHAPE)),
    ("Reshape", Traits(T.MOVES | T.EMPTY_SAFE, data=(0,), roles={1: "factors"})),
    ("Resize", Traits(T.SAME_DTYPE | T.EMPTY_SAFE, roles={2: "scales", 3: "extent"})),
    ("ReverseSequence", Traits(T.MOVES | T.SAME_SHAPE, data=(0,), roles={1: "count"})),
    ("RotaryEmbedding", Traits(T.SAME_SHAPE | T.SAME_DTYPE, roles={3: "index"})),
    ("STFT", Traits(T.SAME_DTYPE, roles={1: "extent", 3: "extent"})),
    ("Scan", Traits(T.SELECTS | T.HAS_SUBGRAPHS | T.STEPWISE)),
    ("Scatter", Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.HAS_AXIS, data=(0, 2), roles={1: "index"})),
    ("ScatterElements",
     Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE | T.HAS_AXIS, data=(0, 2), roles={1: "index"})),
    ("ScatterND", Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE, data=(0, 2), roles={1: "index"})),
    ("SequenceAt SequenceErase", Traits(data=(0,), roles={1: "position"})),
    ("SequenceConstruct", Traits(data=ALL_INPUTS)),
    ("SequenceEmpty TfIdfVectorizer", Traits()),
    ("SequenceInsert", Traits(data=(0, 1), roles={2: "position"})),
    ("SequenceMap", Traits(T.HAS_SUBGRAPHS)),
    ("Shape Size", Traits(T.TOTAL | T.QUERIES | T.READS_SHAPE | T.EMPTY_SAFE)),
    ("Shrink", Traits(T.UNARY | T.JUMPS)),
    ("Sign", Traits(T.UNARY | T.LAYOUT_INVARIANT | T.QUERIES | T.BOUNDED | T.JUMPS)),
    ("Slice", Traits(T.MOVES | T.EMPTY_SAFE, data=(0,), roles={1: "start", 2: "end", 3: "axes", 4: "step"})),
    ("Softmax", Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE | T.HAS_AXIS | T.BOUNDED)),
    ("Split", Traits(T.MOVES | T.EMPTY_SAFE | T.HAS_AXIS, data=(0,), roles={1: "parts"})),
    ("SplitToSequence", Traits(T.HAS_AXIS, data=(0,), roles={1: "parts"})),
    ("Squeeze", Traits(T.MOVES | T.EMPTY_SAFE, data=(0,), roles={1: "unit axes"})),
    ("StringNormalizer StringSplit", Traits(T.SAME_DTYPE | T.DATA_DEPENDENT | T.JUMPS)),
    ("Sub", Traits(T.BINARY | T.KEEPS_FINITE)),
    ("TensorScatter", Traits(T.SAME_SHAPE | T.SAME_DTYPE, data=(0, 1))),
    ("Tile", Traits(T.MOVES | T.EMPTY_SAFE, data=(0,), roles={1: "extent"})),
    ("TopK",
     Traits(T.SAME_DTYPE | T.SELECTS | T.DATA_DEPENDENT | T.EMPTY_SAFE | T.HAS_AXIS | T.JUMPS, roles={1: "count"})),
    ("Trilu", Traits(T.SAME_SHAPE | T.SAME_DTYPE | T.EMPTY_SAFE | T.KEEPS_FINITE, data=(0,))),
    ("Unique", Traits(T.SAME_DTYPE | T.SELECTS | T.DATA_DEPENDENT | T.HAS_AXIS | T.JUMPS)),
    ("Unsqueeze", Traits(T.MOVES | T.EMPTY_SAFE, data=(0,), roles={1: "new axes"})),
    ("Upsample", Traits(T.SAME_DTYPE, roles={1: "scales"})),
    ("Where", Traits(T.BROADCASTING | T.TOTAL | T.LAYOUT_INVARIANT | T.EMPTY_SAFE | T.KEEPS_FINITE, data=(1, 2))),
)  # fmt: skip
"""The facts of operators by their names; operators with the same facts share a row."""
TRAITS: Mapping[str, Traits] = MappingProxyType({op_type: row for names, row in ROWS for op_type in names.split()})
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
