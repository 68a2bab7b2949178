# Written by tests/operator_stub.py from the schemas of operators: do not edit.
"""The operators of each domain as methods, for builders and for patterns."""

from collections.abc import Sequence
from typing import Any, Literal, overload

import onnx

from ..ir.graph import Graph
from ..ir.tensor import Tensor
from ..ir.values import Value
from .builder import Operand
from .pattern import NamedInput, OpPattern, PatternInput, Predicate, Var

class CustomOperators:
    """The operators of a domain whose schemas are not known."""
    def __getattr__(self, op_type: str) -> CustomOperator: ...

class CustomOperator:
    """An operator whose schema is not known: any inputs and attributes."""
    @overload
    def __call__(  # pyright: ignore[reportOverlappingOverload]
        self, *inputs: Operand | None, outputs: int, **attributes: Any
    ) -> tuple[Value, ...]: ...
    @overload
    def __call__(self, *inputs: Operand | None, **attributes: Any) -> Value: ...

class CustomOperatorPatterns:
    """Patterns of operators of a domain whose schemas are not known."""
    def __getattr__(self, op_type: str) -> CustomOperatorPattern: ...

class CustomOperatorPattern:
    """A pattern of an operator whose schema is not known: any inputs and attributes."""
    def __call__(self, *inputs: PatternInput, **attributes: NamedInput) -> OpPattern: ...


class Operators:
    """The operators of the standard domain."""
    @overload
    def domain(self, name: Literal[""], /) -> Operators:  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
        """The operators of another domain: `g.domain("com.microsoft").Gelu(x)`."""
    @overload
    def domain(self, name: Literal["ai.onnx.ml"], /) -> MlOperators:  # type: ignore[overload-overlap]
        """The operators of another domain: `g.domain("com.microsoft").Gelu(x)`."""
    @overload
    def domain(self, name: Literal["ai.onnx.preview"], /) -> PreviewOperators:  # type: ignore[overload-overlap]
        """The operators of another domain: `g.domain("com.microsoft").Gelu(x)`."""
    @overload
    def domain(self, name: Literal["ai.onnx.preview.training"], /) -> TrainingOperators:  # type: ignore[overload-overlap]
        """The operators of another domain: `g.domain("com.microsoft").Gelu(x)`."""
    @overload
    def domain(self, name: Literal["com.microsoft"], /) -> ContribOperators:  # type: ignore[overload-overlap]
        """The operators of another domain: `g.domain("com.microsoft").Gelu(x)`."""
    @overload
    def domain(self, name: str, /) -> CustomOperators:
        """The operators of another domain: `g.domain("com.microsoft").Gelu(x)`."""
    def Abs(self, X: Operand) -> Value:
        """Abs(X): Absolute takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where absolute ..."""
    def Acos(self, input: Operand) -> Value:
        """Acos(input): Calculates the arccosine (inverse of cosine) of the given input tensor, element-wise."""
    def Acosh(self, input: Operand) -> Value:
        """Acosh(input): Calculates the hyperbolic arccosine of the given input tensor element-wise."""
    def Add(self, A: Operand, B: Operand) -> Value:
        """Add(A, B): Performs element-wise binary addition (with Numpy-style broadcasting support)."""
    def AffineGrid(self, theta: Operand, size: Operand, *, align_corners: int | None = 0) -> Value:
        """AffineGrid(theta, size): Generates a 2D or 3D flow field (sampling grid), given a batch of affine matrices theta ( An affine ..."""
    def And(self, A: Operand, B: Operand) -> Value:
        """And(A, B): Returns the tensor resulted from performing the and logical operation elementwise on the input ..."""
    def ArgMax(self, data: Operand, *, axis: int | None = 0, keepdims: int | None = 1, select_last_index: int | None = 0) -> Value:
        """ArgMax(data): Computes the indices of the max elements of the input tensor's element along the provided axis."""
    def ArgMin(self, data: Operand, *, axis: int | None = 0, keepdims: int | None = 1, select_last_index: int | None = 0) -> Value:
        """ArgMin(data): Computes the indices of the min elements of the input tensor's element along the provided axis."""
    def Asin(self, input: Operand) -> Value:
        """Asin(input): Calculates the arcsine (inverse of sine) of the given input tensor, element-wise."""
    def Asinh(self, input: Operand) -> Value:
        """Asinh(input): Calculates the hyperbolic arcsine of the given input tensor element-wise."""
    def Atan(self, input: Operand) -> Value:
        """Atan(input): Calculates the arctangent (inverse of tangent) of the given input tensor, element-wise."""
    def Atanh(self, input: Operand) -> Value:
        """Atanh(input): Calculates the hyperbolic arctangent of the given input tensor element-wise."""
    @overload
    def Attention(self, Q: Operand, K: Operand, V: Operand, attn_mask: Operand | None = None, past_key: Operand | None = None, past_value: Operand | None = None, nonpad_kv_seqlen: Operand | None = None, *, is_causal: int | None = 0, kv_num_heads: int | None = None, left_window_size: int | None = -1, q_num_heads: int | None = None, qk_matmul_output_mode: int | None = 0, right_window_size: int | None = -1, scale: float | None = None, softcap: float | None = 0.0, softmax_precision: int | None = None) -> Value:
        """Attention(Q, K, V, [attn_mask], [past_key], [past_value], [nonpad_kv_seqlen]): Computes scaled dot product attention on query, key and value tensors, using an optional attention ..."""
    @overload
    def Attention(self, Q: Operand, K: Operand, V: Operand, attn_mask: Operand | None = None, past_key: Operand | None = None, past_value: Operand | None = None, nonpad_kv_seqlen: Operand | None = None, *, outputs: int, is_causal: int | None = 0, kv_num_heads: int | None = None, left_window_size: int | None = -1, q_num_heads: int | None = None, qk_matmul_output_mode: int | None = 0, right_window_size: int | None = -1, scale: float | None = None, softcap: float | None = 0.0, softmax_precision: int | None = None) -> tuple[Value, ...]:
        """Attention(Q, K, V, [attn_mask], [past_key], [past_value], [nonpad_kv_seqlen]): Computes scaled dot product attention on query, key and value tensors, using an optional attention ..."""
    def AveragePool(self, X: Operand, *, kernel_shape: Sequence[int], auto_pad: str | None = 'NOTSET', ceil_mode: int | None = 0, count_include_pad: int | None = 0, dilations: Sequence[int] | None = None, pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Value:
        """AveragePool(X): AveragePool consumes an input tensor X and applies average pooling across the tensor according to ..."""
    @overload
    def BatchNormalization(self, X: Operand, scale: Operand, B: Operand, input_mean: Operand, input_var: Operand, *, epsilon: float | None = 1e-05, momentum: float | None = 0.9, training_mode: int | None = 0) -> Value:
        """BatchNormalization(X, scale, B, input_mean, input_var): Carries out batch normalization as described in the paper  Depending on the mode it is being run ..."""
    @overload
    def BatchNormalization(self, X: Operand, scale: Operand, B: Operand, input_mean: Operand, input_var: Operand, *, outputs: int, epsilon: float | None = 1e-05, momentum: float | None = 0.9, training_mode: int | None = 0) -> tuple[Value, ...]:
        """BatchNormalization(X, scale, B, input_mean, input_var): Carries out batch normalization as described in the paper  Depending on the mode it is being run ..."""
    def Bernoulli(self, input: Operand, *, dtype: int | None = None, seed: float | None = None) -> Value:
        """Bernoulli(input): Draws binary random numbers (0 or 1) from a Bernoulli distribution."""
    def BitCast(self, input: Operand, *, to: int) -> Value:
        """BitCast(input): Reinterprets the binary representation of a tensor as a different data type, specified by the 'to' ..."""
    def BitShift(self, X: Operand, Y: Operand, *, direction: str) -> Value:
        """BitShift(X, Y): Bitwise shift operator performs element-wise operation."""
    def BitwiseAnd(self, A: Operand, B: Operand) -> Value:
        """BitwiseAnd(A, B): Returns the tensor resulting from performing the bitwise and operation elementwise on the input ..."""
    def BitwiseNot(self, X: Operand) -> Value:
        """BitwiseNot(X): Returns the bitwise not of the input tensor element-wise."""
    def BitwiseOr(self, A: Operand, B: Operand) -> Value:
        """BitwiseOr(A, B): Returns the tensor resulting from performing the bitwise or operation elementwise on the input ..."""
    def BitwiseXor(self, A: Operand, B: Operand) -> Value:
        """BitwiseXor(A, B): Returns the tensor resulting from performing the bitwise xor operation elementwise on the input ..."""
    def BlackmanWindow(self, size: Operand, *, output_datatype: int | None = 1, periodic: int | None = 1) -> Value:
        """BlackmanWindow(size): Generates a Blackman window as described in the paper."""
    def Cast(self, input: Operand, *, to: int, round_mode: str | None = 'up', saturate: int | None = 1) -> Value:
        """Cast(input): The operator casts the elements of a given input tensor to a data type specified by the 'to' ..."""
    def CastLike(self, input: Operand, target_type: Operand, *, round_mode: str | None = 'up', saturate: int | None = 1) -> Value:
        """CastLike(input, target_type): The operator casts the elements of a given input tensor (the first input) to the same data type as ..."""
    def CausalConvWithState(self, input: Operand, weight: Operand, bias: Operand | None = None, past_state: Operand | None = None, *, activation: str | None = 'none') -> tuple[Value, Value]:
        """CausalConvWithState(input, weight, [bias], [past_state]): Stateful causal 1D depthwise convolution."""
    def Ceil(self, X: Operand) -> Value:
        """Ceil(X): Ceil takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the ceil is, y ..."""
    def Celu(self, X: Operand, *, alpha: float | None = 1.0) -> Value:
        """Celu(X): Continuously Differentiable Exponential Linear Units."""
    def CenterCropPad(self, input_data: Operand, shape: Operand, *, axes: Sequence[int] | None = None) -> Value:
        """CenterCropPad(input_data, shape): Center crop or pad an input to given dimensions."""
    def Clip(self, input: Operand, min: Operand | None = None, max: Operand | None = None) -> Value:
        """Clip(input, [min], [max]): Clip operator limits the given input within an interval."""
    def Col2Im(self, input: Operand, image_shape: Operand, block_shape: Operand, *, dilations: Sequence[int] | None = None, pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Value:
        """Col2Im(input, image_shape, block_shape): The operator rearranges column blocks back into a multidimensional image Col2Im behaves similarly ..."""
    def Compress(self, input: Operand, condition: Operand, *, axis: int | None = None) -> Value:
        """Compress(input, condition): Selects slices from an input tensor along a given axis where condition evaluates to True for each ..."""
    def Concat(self, *inputs: Operand | None, axis: int) -> Value:
        """Concat(inputs): Concatenate a list of tensors into a single tensor."""
    def ConcatFromSequence(self, input_sequence: Operand, *, axis: int, new_axis: int | None = 0) -> Value:
        """ConcatFromSequence(input_sequence): Concatenate a sequence of tensors into a single tensor."""
    def Constant(self, *, sparse_value: onnx.SparseTensorProto | None = None, value: Tensor | onnx.TensorProto | None = None, value_float: float | None = None, value_floats: Sequence[float] | None = None, value_int: int | None = None, value_ints: Sequence[int] | None = None, value_string: str | None = None, value_strings: Sequence[str] | None = None) -> Value:
        """Constant(): This operator produces a constant tensor."""
    def ConstantOfShape(self, input: Operand, *, value: Tensor | onnx.TensorProto | None = None) -> Value:
        """ConstantOfShape(input): Generate a tensor with given value and shape."""
    def Conv(self, X: Operand, W: Operand, B: Operand | None = None, *, auto_pad: str | None = 'NOTSET', dilations: Sequence[int] | None = None, group: int | None = 1, kernel_shape: Sequence[int] | None = None, pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Value:
        """Conv(X, W, [B]): The convolution operator consumes an input tensor and a filter, and computes the output."""
    def ConvInteger(self, x: Operand, w: Operand, x_zero_point: Operand | None = None, w_zero_point: Operand | None = None, *, auto_pad: str | None = 'NOTSET', dilations: Sequence[int] | None = None, group: int | None = 1, kernel_shape: Sequence[int] | None = None, pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Value:
        """ConvInteger(x, w, [x_zero_point], [w_zero_point]): The integer convolution operator consumes an input tensor, its zero-point, a filter, and its ..."""
    def ConvTranspose(self, X: Operand, W: Operand, B: Operand | None = None, *, auto_pad: str | None = 'NOTSET', dilations: Sequence[int] | None = None, group: int | None = 1, kernel_shape: Sequence[int] | None = None, output_padding: Sequence[int] | None = None, output_shape: Sequence[int] | None = None, pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Value:
        """ConvTranspose(X, W, [B]): The convolution transpose operator consumes an input tensor and a filter, and computes the output."""
    def Cos(self, input: Operand) -> Value:
        """Cos(input): Calculates the cosine of the given input tensor, element-wise."""
    def Cosh(self, input: Operand) -> Value:
        """Cosh(input): Calculates the hyperbolic cosine of the given input tensor element-wise."""
    def CumProd(self, x: Operand, axis: Operand, *, exclusive: int | None = 0, reverse: int | None = 0) -> Value:
        """CumProd(x, axis): Performs cumulative product of the input elements along the given axis."""
    def CumSum(self, x: Operand, axis: Operand, *, exclusive: int | None = 0, reverse: int | None = 0) -> Value:
        """CumSum(x, axis): Performs cumulative sum of the input elements along the given axis."""
    def DFT(self, input: Operand, dft_length: Operand | None = None, axis: Operand | None = None, *, inverse: int | None = 0, onesided: int | None = 0) -> Value:
        """DFT(input, [dft_length], [axis]): Computes the discrete Fourier Transform (DFT) of the input."""
    def DeformConv(self, X: Operand, W: Operand, offset: Operand, B: Operand | None = None, mask: Operand | None = None, *, dilations: Sequence[int] | None = None, group: int | None = 1, kernel_shape: Sequence[int] | None = None, offset_group: int | None = 1, pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Value:
        """DeformConv(X, W, offset, [B], [mask]): Performs deformable convolution as described in  and  This operator specification supports the ..."""
    def DepthToSpace(self, input: Operand, *, blocksize: int, mode: str | None = 'DCR') -> Value:
        """DepthToSpace(input): DepthToSpace rearranges (permutes) data from depth into blocks of spatial data."""
    def DequantizeLinear(self, x: Operand, x_scale: Operand, x_zero_point: Operand | None = None, *, axis: int | None = 1, block_size: int | None = 0, output_dtype: int | None = 0) -> Value:
        """DequantizeLinear(x, x_scale, [x_zero_point]): The linear dequantization operator."""
    def Det(self, X: Operand) -> Value:
        """Det(X): Det calculates determinant of a square matrix or batches of square matrices."""
    def Div(self, A: Operand, B: Operand) -> Value:
        """Div(A, B): Performs element-wise binary division (with Numpy-style broadcasting support)."""
    @overload
    def Dropout(self, data: Operand, ratio: Operand | None = None, training_mode: Operand | None = None, *, seed: int | None = None) -> Value:
        """Dropout(data, [ratio], [training_mode]): Dropout takes an input floating-point tensor, an optional input ratio (floating-point scalar) and ..."""
    @overload
    def Dropout(self, data: Operand, ratio: Operand | None = None, training_mode: Operand | None = None, *, outputs: int, seed: int | None = None) -> tuple[Value, ...]:
        """Dropout(data, [ratio], [training_mode]): Dropout takes an input floating-point tensor, an optional input ratio (floating-point scalar) and ..."""
    def DynamicQuantizeLinear(self, x: Operand) -> tuple[Value, Value, Value]:
        """DynamicQuantizeLinear(x): A Function to fuse calculation for Scale, Zero Point and FP32->8Bit conversion of FP32 Input data."""
    def Einsum(self, *Inputs: Operand | None, equation: str) -> Value:
        """Einsum(Inputs): An einsum of the form term1, term2 -> output-term produces an output tensor using the following ..."""
    def Elu(self, X: Operand, *, alpha: float | None = 1.0) -> Value:
        """Elu(X): Elu takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the function ..."""
    def Equal(self, A: Operand, B: Operand) -> Value:
        """Equal(A, B): Returns the tensor resulted from performing the equal logical operation elementwise on the input ..."""
    def Erf(self, input: Operand) -> Value:
        """Erf(input): Computes the error function of the given input tensor element-wise."""
    def Exp(self, input: Operand) -> Value:
        """Exp(input): Calculates the exponential of the given input tensor, element-wise."""
    def Expand(self, input: Operand, shape: Operand) -> Value:
        """Expand(input, shape): Broadcast the input tensor following the given shape and the broadcast rule."""
    def EyeLike(self, input: Operand, *, dtype: int | None = None, k: int | None = 0) -> Value:
        """EyeLike(input): Generate a 2D tensor (matrix) with ones on the diagonal and zeros everywhere else."""
    def Flatten(self, input: Operand, *, axis: int | None = 1) -> Value:
        """Flatten(input): Flattens the input tensor into a 2D matrix."""
    def Floor(self, X: Operand) -> Value:
        """Floor(X): Floor takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the floor is ..."""
    @overload
    def GRU(self, X: Operand, W: Operand, R: Operand, B: Operand | None = None, sequence_lens: Operand | None = None, initial_h: Operand | None = None, *, activation_alpha: Sequence[float] | None = None, activation_beta: Sequence[float] | None = None, activations: Sequence[str] | None = None, clip: float | None = None, direction: str | None = 'forward', hidden_size: int | None = None, layout: int | None = 0, linear_before_reset: int | None = 0) -> Value:
        """GRU(X, W, R, [B], [sequence_lens], [initial_h]): Computes an one-layer GRU."""
    @overload
    def GRU(self, X: Operand, W: Operand, R: Operand, B: Operand | None = None, sequence_lens: Operand | None = None, initial_h: Operand | None = None, *, outputs: int, activation_alpha: Sequence[float] | None = None, activation_beta: Sequence[float] | None = None, activations: Sequence[str] | None = None, clip: float | None = None, direction: str | None = 'forward', hidden_size: int | None = None, layout: int | None = 0, linear_before_reset: int | None = 0) -> tuple[Value, ...]:
        """GRU(X, W, R, [B], [sequence_lens], [initial_h]): Computes an one-layer GRU."""
    def Gather(self, data: Operand, indices: Operand, *, axis: int | None = 0) -> Value:
        """Gather(data, indices): Given data tensor of rank r >= 1, and indices tensor of rank q, gather entries of the axis ..."""
    def GatherElements(self, data: Operand, indices: Operand, *, axis: int | None = 0) -> Value:
        """GatherElements(data, indices): GatherElements takes two inputs data and indices of the same rank r >= 1 and an optional attribute ..."""
    def GatherND(self, data: Operand, indices: Operand, *, batch_dims: int | None = 0) -> Value:
        """GatherND(data, indices): Given data tensor of rank r >= 1, indices tensor of rank q >= 1, and batch_dims integer b, this ..."""
    def Gelu(self, X: Operand, *, approximate: str | None = 'none') -> Value:
        """Gelu(X): Gelu takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the gaussian ..."""
    def Gemm(self, A: Operand, B: Operand, C: Operand | None = None, *, alpha: float | None = 1.0, beta: float | None = 1.0, transA: int | None = 0, transB: int | None = 0) -> Value:
        """Gemm(A, B, [C]): General Matrix multiplication:   A' = transpose(A) if transA else A * B' = transpose(B) if transB ..."""
    def GlobalAveragePool(self, X: Operand) -> Value:
        """GlobalAveragePool(X): GlobalAveragePool consumes an input tensor X and applies average pooling across the values in the ..."""
    def GlobalLpPool(self, X: Operand, *, p: int | None = 2) -> Value:
        """GlobalLpPool(X): GlobalLpPool consumes an input tensor X and applies lp pool pooling across the values in the same ..."""
    def GlobalMaxPool(self, X: Operand) -> Value:
        """GlobalMaxPool(X): GlobalMaxPool consumes an input tensor X and applies max pooling across the values in the same ..."""
    def Greater(self, A: Operand, B: Operand) -> Value:
        """Greater(A, B): Returns the tensor resulted from performing the greater logical operation elementwise on the input ..."""
    def GreaterOrEqual(self, A: Operand, B: Operand) -> Value:
        """GreaterOrEqual(A, B): Returns the tensor resulted from performing the greater_equal logical operation elementwise on the ..."""
    def GridSample(self, X: Operand, grid: Operand, *, align_corners: int | None = 0, mode: str | None = 'linear', padding_mode: str | None = 'zeros') -> Value:
        """GridSample(X, grid): Given an input X and a flow-field grid, computes the output Y using X values and pixel locations ..."""
    def GroupNormalization(self, X: Operand, scale: Operand, bias: Operand, *, num_groups: int, epsilon: float | None = 1e-05, stash_type: int | None = 1) -> Value:
        """GroupNormalization(X, scale, bias): A GroupNormalization function."""
    def HammingWindow(self, size: Operand, *, output_datatype: int | None = 1, periodic: int | None = 1) -> Value:
        """HammingWindow(size): Generates a Hamming window as described in the paper."""
    def HannWindow(self, size: Operand, *, output_datatype: int | None = 1, periodic: int | None = 1) -> Value:
        """HannWindow(size): Generates a Hann window as described in the paper."""
    def HardSigmoid(self, X: Operand, *, alpha: float | None = 0.2, beta: float | None = 0.5) -> Value:
        """HardSigmoid(X): HardSigmoid takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the ..."""
    def HardSwish(self, X: Operand) -> Value:
        """HardSwish(X): HardSwish takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the ..."""
    def Hardmax(self, input: Operand, *, axis: int | None = -1) -> Value:
        """Hardmax(input): The operator computes the hardmax values for the given input."""
    def Identity(self, input: Operand) -> Value:
        """Identity(input): Identity operator."""
    @overload
    def If(self, cond: Operand, *, else_branch: Graph, then_branch: Graph) -> Value:
        """If(cond): If conditional."""
    @overload
    def If(self, cond: Operand, *, outputs: int, else_branch: Graph, then_branch: Graph) -> tuple[Value, ...]:
        """If(cond): If conditional."""
    def ImageDecoder(self, encoded_stream: Operand, *, pixel_format: str | None = 'RGB') -> Value:
        """ImageDecoder(encoded_stream): Loads and decodes and image from a file."""
    def InstanceNormalization(self, input: Operand, scale: Operand, B: Operand, *, epsilon: float | None = 1e-05) -> Value:
        """InstanceNormalization(input, scale, B): Carries out instance normalization as described in the paper  y = scale * (x - mean) / ..."""
    def IsInf(self, X: Operand, *, detect_negative: int | None = 1, detect_positive: int | None = 1) -> Value:
        """IsInf(X): Map infinity to true and other values to false."""
    def IsNaN(self, X: Operand) -> Value:
        """IsNaN(X): Returns which elements of the input are NaN."""
    def LRN(self, X: Operand, *, size: int, alpha: float | None = 0.0001, beta: float | None = 0.75, bias: float | None = 1.0) -> Value:
        """LRN(X): Local Response Normalization proposed in the AlexNet paper."""
    @overload
    def LSTM(self, X: Operand, W: Operand, R: Operand, B: Operand | None = None, sequence_lens: Operand | None = None, initial_h: Operand | None = None, initial_c: Operand | None = None, P: Operand | None = None, *, activation_alpha: Sequence[float] | None = None, activation_beta: Sequence[float] | None = None, activations: Sequence[str] | None = None, clip: float | None = None, direction: str | None = 'forward', hidden_size: int | None = None, input_forget: int | None = 0, layout: int | None = 0) -> Value:
        """LSTM(X, W, R, [B], [sequence_lens], [initial_h], [initial_c], [P]): Computes an one-layer LSTM."""
    @overload
    def LSTM(self, X: Operand, W: Operand, R: Operand, B: Operand | None = None, sequence_lens: Operand | None = None, initial_h: Operand | None = None, initial_c: Operand | None = None, P: Operand | None = None, *, outputs: int, activation_alpha: Sequence[float] | None = None, activation_beta: Sequence[float] | None = None, activations: Sequence[str] | None = None, clip: float | None = None, direction: str | None = 'forward', hidden_size: int | None = None, input_forget: int | None = 0, layout: int | None = 0) -> tuple[Value, ...]:
        """LSTM(X, W, R, [B], [sequence_lens], [initial_h], [initial_c], [P]): Computes an one-layer LSTM."""
    @overload
    def LayerNormalization(self, X: Operand, Scale: Operand, B: Operand | None = None, *, axis: int | None = -1, epsilon: float | None = 1e-05, stash_type: int | None = 1) -> Value:
        """LayerNormalization(X, Scale, [B]): This is layer normalization defined in ONNX as function."""
    @overload
    def LayerNormalization(self, X: Operand, Scale: Operand, B: Operand | None = None, *, outputs: int, axis: int | None = -1, epsilon: float | None = 1e-05, stash_type: int | None = 1) -> tuple[Value, ...]:
        """LayerNormalization(X, Scale, [B]): This is layer normalization defined in ONNX as function."""
    def LeakyRelu(self, X: Operand, *, alpha: float | None = 0.01) -> Value:
        """LeakyRelu(X): LeakyRelu takes input data (Tensor<T>) and an argument alpha, and produces one output data ..."""
    def Less(self, A: Operand, B: Operand) -> Value:
        """Less(A, B): Returns the tensor resulted from performing the less logical operation elementwise on the input ..."""
    def LessOrEqual(self, A: Operand, B: Operand) -> Value:
        """LessOrEqual(A, B): Returns the tensor resulted from performing the less_equal logical operation elementwise on the ..."""
    def LinearAttention(self, query: Operand, key: Operand, value: Operand, past_state: Operand | None = None, decay: Operand | None = None, beta: Operand | None = None, *, kv_num_heads: int, q_num_heads: int, chunk_size: int | None = 64, scale: float | None = 0.0, update_rule: str | None = 'gated_delta') -> tuple[Value, Value]:
        """LinearAttention(query, key, value, [past_state], [decay], [beta]): Unified linear attention operator for autoregressive decoding (T=1) and prefill (T>1)."""
    def Log(self, input: Operand) -> Value:
        """Log(input): Calculates the natural log of the given input tensor, element-wise."""
    def LogSoftmax(self, input: Operand, *, axis: int | None = -1) -> Value:
        """LogSoftmax(input): The operator computes the log of softmax values for the given input."""
    @overload
    def Loop(self, M: Operand | None = None, cond: Operand | None = None, *v_initial: Operand | None, body: Graph) -> Value:
        """Loop([M], [cond], v_initial): Generic Looping construct."""
    @overload
    def Loop(self, M: Operand | None = None, cond: Operand | None = None, *v_initial: Operand | None, outputs: int, body: Graph) -> tuple[Value, ...]:
        """Loop([M], [cond], v_initial): Generic Looping construct."""
    def LpNormalization(self, input: Operand, *, axis: int | None = -1, p: int | None = 2) -> Value:
        """LpNormalization(input): Given a matrix, apply Lp-normalization along the provided axis."""
    def LpPool(self, X: Operand, *, kernel_shape: Sequence[int], auto_pad: str | None = 'NOTSET', ceil_mode: int | None = 0, dilations: Sequence[int] | None = None, p: int | None = 2, pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Value:
        """LpPool(X): LpPool consumes an input tensor X and applies Lp pooling across the tensor according to kernel ..."""
    def MatMul(self, A: Operand, B: Operand) -> Value:
        """MatMul(A, B): Matrix product that behaves like numpy.matmul."""
    def MatMulInteger(self, A: Operand, B: Operand, a_zero_point: Operand | None = None, b_zero_point: Operand | None = None) -> Value:
        """MatMulInteger(A, B, [a_zero_point], [b_zero_point]): Matrix product that behaves like numpy.matmul."""
    def Max(self, *data_0: Operand | None) -> Value:
        """Max(data_0): Element-wise max of each of the input tensors (with Numpy-style broadcasting support)."""
    @overload
    def MaxPool(self, X: Operand, *, kernel_shape: Sequence[int], auto_pad: str | None = 'NOTSET', ceil_mode: int | None = 0, dilations: Sequence[int] | None = None, pads: Sequence[int] | None = None, storage_order: int | None = 0, strides: Sequence[int] | None = None) -> Value:
        """MaxPool(X): MaxPool consumes an input tensor X and applies max pooling across the tensor according to kernel ..."""
    @overload
    def MaxPool(self, X: Operand, *, outputs: int, kernel_shape: Sequence[int], auto_pad: str | None = 'NOTSET', ceil_mode: int | None = 0, dilations: Sequence[int] | None = None, pads: Sequence[int] | None = None, storage_order: int | None = 0, strides: Sequence[int] | None = None) -> tuple[Value, ...]:
        """MaxPool(X): MaxPool consumes an input tensor X and applies max pooling across the tensor according to kernel ..."""
    def MaxRoiPool(self, X: Operand, rois: Operand, *, pooled_shape: Sequence[int], spatial_scale: float | None = 1.0) -> Value:
        """MaxRoiPool(X, rois): ROI max pool consumes an input tensor X and region of interests (RoIs) to apply max pooling across ..."""
    def MaxUnpool(self, X: Operand, I: Operand, output_shape: Operand | None = None, *, kernel_shape: Sequence[int], pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Value:
        """MaxUnpool(X, I, [output_shape]): MaxUnpool essentially computes the partial inverse of the MaxPool op."""
    def Mean(self, *data_0: Operand | None) -> Value:
        """Mean(data_0): Element-wise mean of each of the input tensors (with Numpy-style broadcasting support)."""
    def MeanVarianceNormalization(self, X: Operand, *, axes: Sequence[int] | None = (0, 2, 3)) -> Value:
        """MeanVarianceNormalization(X): A MeanVarianceNormalization Function."""
    def MelWeightMatrix(self, num_mel_bins: Operand, dft_length: Operand, sample_rate: Operand, lower_edge_hertz: Operand, upper_edge_hertz: Operand, *, output_datatype: int | None = 1) -> Value:
        """MelWeightMatrix(num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz): Generate a MelWeightMatrix that can be used to re-weight a Tensor containing a linearly sampled ..."""
    def Min(self, *data_0: Operand | None) -> Value:
        """Min(data_0): Element-wise min of each of the input tensors (with Numpy-style broadcasting support)."""
    def Mish(self, X: Operand) -> Value:
        """Mish(X): Mish."""
    def Mod(self, A: Operand, B: Operand, *, fmod: int | None = 0) -> Value:
        """Mod(A, B): Performs an element-wise binary modulo operation."""
    def Mul(self, A: Operand, B: Operand) -> Value:
        """Mul(A, B): Performs element-wise binary multiplication (with Numpy-style broadcasting support)."""
    def Multinomial(self, input: Operand, *, dtype: int | None = 6, sample_size: int | None = 1, seed: float | None = None) -> Value:
        """Multinomial(input): Generate a tensor of samples from a multinomial distribution according to the probabilities of each ..."""
    def Neg(self, X: Operand) -> Value:
        """Neg(X): Neg takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where each element ..."""
    def NegativeLogLikelihoodLoss(self, input: Operand, target: Operand, weight: Operand | None = None, *, ignore_index: int | None = None, reduction: str | None = 'mean') -> Value:
        """NegativeLogLikelihoodLoss(input, target, [weight]): A NegativeLogLikelihoodLoss operator computes (weighted) negative log likelihood loss."""
    def NonMaxSuppression(self, boxes: Operand, scores: Operand, max_output_boxes_per_class: Operand | None = None, iou_threshold: Operand | None = None, score_threshold: Operand | None = None, *, center_point_box: int | None = 0) -> Value:
        """NonMaxSuppression(boxes, scores, [max_output_boxes_per_class], [iou_threshold], [score_threshold]): Filter out boxes that have high intersection-over-union (IOU) overlap with previously selected boxes."""
    def NonZero(self, X: Operand) -> Value:
        """NonZero(X): Returns the indices of the elements that are non-zero (in row-major order - by dimension)."""
    def Not(self, X: Operand) -> Value:
        """Not(X): Returns the negation of the input tensor element-wise."""
    def OneHot(self, indices: Operand, depth: Operand, values: Operand, *, axis: int | None = -1) -> Value:
        """OneHot(indices, depth, values): Produces a one-hot tensor based on inputs."""
    def Optional(self, input: Operand | None = None, *, type: onnx.TypeProto | None = None) -> Value:
        """Optional([input]): Constructs an optional-type value containing either an empty optional of a certain type specified ..."""
    def OptionalGetElement(self, input: Operand) -> Value:
        """OptionalGetElement(input): If the input is a tensor or sequence type, it returns the input."""
    def OptionalHasElement(self, input: Operand | None = None) -> Value:
        """OptionalHasElement([input]): Returns true if (1) the input is an optional-type and contains an element, or, (2) the input is a ..."""
    def Or(self, A: Operand, B: Operand) -> Value:
        """Or(A, B): Returns the tensor resulted from performing the or logical operation elementwise on the input ..."""
    def PRelu(self, X: Operand, slope: Operand) -> Value:
        """PRelu(X, slope): PRelu takes input data (Tensor<T>) and slope tensor as input, and produces one output data ..."""
    def Pad(self, data: Operand, pads: Operand, constant_value: Operand | None = None, axes: Operand | None = None, *, mode: str | None = 'constant') -> Value:
        """Pad(data, pads, [constant_value], [axes]): Given a tensor containing the data to be padded (data), a tensor containing the number of start and ..."""
    def Pow(self, X: Operand, Y: Operand) -> Value:
        """Pow(X, Y): Pow takes input data (Tensor<T>) and exponent Tensor, and produces one output data (Tensor<T>) ..."""
    def QLinearConv(self, x: Operand, x_scale: Operand, x_zero_point: Operand, w: Operand, w_scale: Operand, w_zero_point: Operand, y_scale: Operand, y_zero_point: Operand, B: Operand | None = None, *, auto_pad: str | None = 'NOTSET', dilations: Sequence[int] | None = None, group: int | None = 1, kernel_shape: Sequence[int] | None = None, pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Value:
        """QLinearConv(x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, [B]): The convolution operator consumes a quantized input tensor, its scale and zero point, a quantized ..."""
    def QLinearMatMul(self, a: Operand, a_scale: Operand, a_zero_point: Operand, b: Operand, b_scale: Operand, b_zero_point: Operand, y_scale: Operand, y_zero_point: Operand) -> Value:
        """QLinearMatMul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point): Matrix product that behaves like numpy.matmul."""
    def QuantizeLinear(self, x: Operand, y_scale: Operand, y_zero_point: Operand | None = None, *, axis: int | None = 1, block_size: int | None = 0, output_dtype: int | None = 0, precision: int | None = 0, saturate: int | None = 1) -> Value:
        """QuantizeLinear(x, y_scale, [y_zero_point]): The linear quantization operator consumes a high-precision tensor, a scale, and a zero point to ..."""
    def RMSNormalization(self, X: Operand, scale: Operand, *, axis: int | None = -1, epsilon: float | None = 1e-05, stash_type: int | None = 1) -> Value:
        """RMSNormalization(X, scale): This is RMS normalization defined in ONNX as function as described in the paper  The overall ..."""
    @overload
    def RNN(self, X: Operand, W: Operand, R: Operand, B: Operand | None = None, sequence_lens: Operand | None = None, initial_h: Operand | None = None, *, activation_alpha: Sequence[float] | None = None, activation_beta: Sequence[float] | None = None, activations: Sequence[str] | None = ('Tanh', 'Tanh'), clip: float | None = None, direction: str | None = 'forward', hidden_size: int | None = None, layout: int | None = 0) -> Value:
        """RNN(X, W, R, [B], [sequence_lens], [initial_h]): Computes an one-layer simple RNN."""
    @overload
    def RNN(self, X: Operand, W: Operand, R: Operand, B: Operand | None = None, sequence_lens: Operand | None = None, initial_h: Operand | None = None, *, outputs: int, activation_alpha: Sequence[float] | None = None, activation_beta: Sequence[float] | None = None, activations: Sequence[str] | None = ('Tanh', 'Tanh'), clip: float | None = None, direction: str | None = 'forward', hidden_size: int | None = None, layout: int | None = 0) -> tuple[Value, ...]:
        """RNN(X, W, R, [B], [sequence_lens], [initial_h]): Computes an one-layer simple RNN."""
    def RandomNormal(self, *, shape: Sequence[int], dtype: int | None = 1, mean: float | None = 0.0, scale: float | None = 1.0, seed: float | None = None) -> Value:
        """RandomNormal(): Generate a tensor with random values drawn from a normal distribution."""
    def RandomNormalLike(self, input: Operand, *, dtype: int | None = None, mean: float | None = 0.0, scale: float | None = 1.0, seed: float | None = None) -> Value:
        """RandomNormalLike(input): Generate a tensor with random values drawn from a normal distribution."""
    def RandomUniform(self, *, shape: Sequence[int], dtype: int | None = 1, high: float | None = 1.0, low: float | None = 0.0, seed: float | None = None) -> Value:
        """RandomUniform(): Generate a tensor with random values drawn from a uniform distribution."""
    def RandomUniformLike(self, input: Operand, *, dtype: int | None = None, high: float | None = 1.0, low: float | None = 0.0, seed: float | None = None) -> Value:
        """RandomUniformLike(input): Generate a tensor with random values drawn from a uniform distribution."""
    def Range(self, start: Operand, limit: Operand, delta: Operand, *, stash_type: int | None = 1) -> Value:
        """Range(start, limit, delta): Generate a tensor containing a sequence of numbers that begin at start and extends by increments of ..."""
    def Reciprocal(self, X: Operand) -> Value:
        """Reciprocal(X): Reciprocal takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the ..."""
    def ReduceL1(self, data: Operand, axes: Operand | None = None, *, keepdims: int | None = 1, noop_with_empty_axes: int | None = 0) -> Value:
        """ReduceL1(data, [axes]): Computes the L1 norm of the input tensor's elements along the provided axes."""
    def ReduceL2(self, data: Operand, axes: Operand | None = None, *, keepdims: int | None = 1, noop_with_empty_axes: int | None = 0) -> Value:
        """ReduceL2(data, [axes]): Computes the L2 norm of the input tensor's elements along the provided axes."""
    def ReduceLogSum(self, data: Operand, axes: Operand | None = None, *, keepdims: int | None = 1, noop_with_empty_axes: int | None = 0) -> Value:
        """ReduceLogSum(data, [axes]): Computes the log sum of the input tensor's elements along the provided axes."""
    def ReduceLogSumExp(self, data: Operand, axes: Operand | None = None, *, keepdims: int | None = 1, noop_with_empty_axes: int | None = 0) -> Value:
        """ReduceLogSumExp(data, [axes]): Computes the log sum exponent of the input tensor's elements along the provided axes."""
    def ReduceMax(self, data: Operand, axes: Operand | None = None, *, keepdims: int | None = 1, noop_with_empty_axes: int | None = 0) -> Value:
        """ReduceMax(data, [axes]): Computes the max of the input tensor's elements along the provided axes."""
    def ReduceMean(self, data: Operand, axes: Operand | None = None, *, keepdims: int | None = 1, noop_with_empty_axes: int | None = 0) -> Value:
        """ReduceMean(data, [axes]): Computes the mean of the input tensor's elements along the provided axes."""
    def ReduceMin(self, data: Operand, axes: Operand | None = None, *, keepdims: int | None = 1, noop_with_empty_axes: int | None = 0) -> Value:
        """ReduceMin(data, [axes]): Computes the min of the input tensor's elements along the provided axes."""
    def ReduceProd(self, data: Operand, axes: Operand | None = None, *, keepdims: int | None = 1, noop_with_empty_axes: int | None = 0) -> Value:
        """ReduceProd(data, [axes]): Computes the product of the input tensor's elements along the provided axes."""
    def ReduceSum(self, data: Operand, axes: Operand | None = None, *, keepdims: int | None = 1, noop_with_empty_axes: int | None = 0) -> Value:
        """ReduceSum(data, [axes]): Computes the sum of the input tensor's elements along the provided axes."""
    def ReduceSumSquare(self, data: Operand, axes: Operand | None = None, *, keepdims: int | None = 1, noop_with_empty_axes: int | None = 0) -> Value:
        """ReduceSumSquare(data, [axes]): Computes the sum square of the input tensor's elements along the provided axes."""
    def RegexFullMatch(self, X: Operand, *, pattern: str | None = None) -> Value:
        """RegexFullMatch(X): RegexFullMatch performs a full regex match on each element of the input tensor."""
    def Relu(self, X: Operand) -> Value:
        """Relu(X): Relu takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the rectified ..."""
    def Reshape(self, data: Operand, shape: Operand, *, allowzero: int | None = 0) -> Value:
        """Reshape(data, shape): Reshape the input tensor similar to numpy.reshape."""
    def Resize(self, X: Operand, roi: Operand | None = None, scales: Operand | None = None, sizes: Operand | None = None, *, antialias: int | None = 0, axes: Sequence[int] | None = None, coordinate_transformation_mode: str | None = 'half_pixel', cubic_coeff_a: float | None = -0.75, exclude_outside: int | None = 0, extrapolation_value: float | None = 0.0, keep_aspect_ratio_policy: str | None = 'stretch', mode: str | None = 'nearest', nearest_mode: str | None = 'round_prefer_floor') -> Value:
        """Resize(X, [roi], [scales], [sizes]): Resize the input tensor."""
    def ReverseSequence(self, input: Operand, sequence_lens: Operand, *, batch_axis: int | None = 1, time_axis: int | None = 0) -> Value:
        """ReverseSequence(input, sequence_lens): Reverse batch of sequences having different lengths specified by sequence_lens."""
    def RoiAlign(self, X: Operand, rois: Operand, batch_indices: Operand, *, coordinate_transformation_mode: str | None = 'half_pixel', mode: str | None = 'avg', output_height: int | None = 1, output_width: int | None = 1, sampling_ratio: int | None = 0, spatial_scale: float | None = 1.0) -> Value:
        """RoiAlign(X, rois, batch_indices): Region of Interest (RoI) align operation described in the Mask R-CNN paper."""
    def RotaryEmbedding(self, X: Operand, cos_cache: Operand, sin_cache: Operand, position_ids: Operand | None = None, *, interleaved: int | None = 0, num_heads: int | None = None, rotary_embedding_dim: int | None = 0) -> Value:
        """RotaryEmbedding(X, cos_cache, sin_cache, [position_ids]): RotaryEmbedding is the implementation of rotary positional embeddings (RoPE) based on the paper  ..."""
    def Round(self, X: Operand) -> Value:
        """Round(X): Round takes one input Tensor and rounds the values, element-wise, meaning it finds the nearest ..."""
    def STFT(self, signal: Operand, frame_step: Operand, window: Operand | None = None, frame_length: Operand | None = None, *, onesided: int | None = 1) -> Value:
        """STFT(signal, frame_step, [window], [frame_length]): Computes the Short-time Fourier Transform of the signal."""
    @overload
    def Scan(self, *initial_state_and_scan_inputs: Operand | None, body: Graph, num_scan_inputs: int, scan_input_axes: Sequence[int] | None = None, scan_input_directions: Sequence[int] | None = None, scan_output_axes: Sequence[int] | None = None, scan_output_directions: Sequence[int] | None = None) -> Value:
        """Scan(initial_state_and_scan_inputs): Scan can be used to iterate over one or more scaninput tensors, constructing zero or more ..."""
    @overload
    def Scan(self, *initial_state_and_scan_inputs: Operand | None, outputs: int, body: Graph, num_scan_inputs: int, scan_input_axes: Sequence[int] | None = None, scan_input_directions: Sequence[int] | None = None, scan_output_axes: Sequence[int] | None = None, scan_output_directions: Sequence[int] | None = None) -> tuple[Value, ...]:
        """Scan(initial_state_and_scan_inputs): Scan can be used to iterate over one or more scaninput tensors, constructing zero or more ..."""
    def ScatterElements(self, data: Operand, indices: Operand, updates: Operand, *, axis: int | None = 0, reduction: str | None = 'none') -> Value:
        """ScatterElements(data, indices, updates): ScatterElements takes three inputs data, updates, and indices of the same rank r >= 1 and an ..."""
    def ScatterND(self, data: Operand, indices: Operand, updates: Operand, *, reduction: str | None = 'none') -> Value:
        """ScatterND(data, indices, updates): ScatterND takes three inputs data tensor of rank r >= 1, indices tensor of rank q >= 1, and updates ..."""
    def Selu(self, X: Operand, *, alpha: float | None = 1.673263, gamma: float | None = 1.050701) -> Value:
        """Selu(X): Selu takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the scaled ..."""
    def SequenceAt(self, input_sequence: Operand, position: Operand) -> Value:
        """SequenceAt(input_sequence, position): Outputs a tensor copy from the tensor at 'position' in 'inputsequence'."""
    def SequenceConstruct(self, *inputs: Operand | None) -> Value:
        """SequenceConstruct(inputs): Construct a tensor sequence containing 'inputs' tensors."""
    def SequenceEmpty(self, *, dtype: int | None = None) -> Value:
        """SequenceEmpty(): Construct an empty tensor sequence, with given data type."""
    def SequenceErase(self, input_sequence: Operand, position: Operand | None = None) -> Value:
        """SequenceErase(input_sequence, [position]): Outputs a tensor sequence that removes the tensor at 'position' from 'inputsequence'."""
    def SequenceInsert(self, input_sequence: Operand, tensor: Operand, position: Operand | None = None) -> Value:
        """SequenceInsert(input_sequence, tensor, [position]): Outputs a tensor sequence that inserts 'tensor' into 'inputsequence' at 'position'. 'tensor' must ..."""
    def SequenceLength(self, input_sequence: Operand) -> Value:
        """SequenceLength(input_sequence): Produces a scalar(tensor of empty shape) containing the number of tensors in 'input_sequence'."""
    @overload
    def SequenceMap(self, input_sequence: Operand, *additional_inputs: Operand | None, body: Graph) -> Value:
        """SequenceMap(input_sequence, additional_inputs): Applies a sub-graph to each sample in the input sequence(s)."""
    @overload
    def SequenceMap(self, input_sequence: Operand, *additional_inputs: Operand | None, outputs: int, body: Graph) -> tuple[Value, ...]:
        """SequenceMap(input_sequence, additional_inputs): Applies a sub-graph to each sample in the input sequence(s)."""
    def Shape(self, data: Operand, *, end: int | None = None, start: int | None = 0) -> Value:
        """Shape(data): Takes a tensor as input and outputs an 1D int64 tensor containing the shape of the input tensor."""
    def Shrink(self, input: Operand, *, bias: float | None = 0.0, lambd: float | None = 0.5) -> Value:
        """Shrink(input): Shrink takes one input data (Tensor<numeric>) and produces one Tensor output, having same datatype ..."""
    def Sigmoid(self, X: Operand) -> Value:
        """Sigmoid(X): Sigmoid takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the sigmoid ..."""
    def Sign(self, input: Operand) -> Value:
        """Sign(input): Calculate the sign of the given input tensor element-wise."""
    def Sin(self, input: Operand) -> Value:
        """Sin(input): Calculates the sine of the given input tensor, element-wise."""
    def Sinh(self, input: Operand) -> Value:
        """Sinh(input): Calculates the hyperbolic sine of the given input tensor element-wise."""
    def Size(self, data: Operand) -> Value:
        """Size(data): Takes a tensor as input and outputs a int64 scalar that equals to the total number of elements of ..."""
    def Slice(self, data: Operand, starts: Operand, ends: Operand, axes: Operand | None = None, steps: Operand | None = None) -> Value:
        """Slice(data, starts, ends, [axes], [steps]): Produces a slice of the input tensor along multiple axes."""
    def Softmax(self, input: Operand, *, axis: int | None = -1) -> Value:
        """Softmax(input): The operator computes the normalized exponential values for the given input."""
    @overload
    def SoftmaxCrossEntropyLoss(self, scores: Operand, labels: Operand, weights: Operand | None = None, *, ignore_index: int | None = None, reduction: str | None = 'mean') -> Value:
        """SoftmaxCrossEntropyLoss(scores, labels, [weights]): Loss function that measures the softmax cross entropy between 'scores' and 'labels'."""
    @overload
    def SoftmaxCrossEntropyLoss(self, scores: Operand, labels: Operand, weights: Operand | None = None, *, outputs: int, ignore_index: int | None = None, reduction: str | None = 'mean') -> tuple[Value, ...]:
        """SoftmaxCrossEntropyLoss(scores, labels, [weights]): Loss function that measures the softmax cross entropy between 'scores' and 'labels'."""
    def Softplus(self, X: Operand) -> Value:
        """Softplus(X): Softplus takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the ..."""
    def Softsign(self, input: Operand) -> Value:
        """Softsign(input): Calculates the softsign (x/(1+|x|)) of the given input tensor element-wise."""
    def SpaceToDepth(self, input: Operand, *, blocksize: int, mode: str | None = 'DCR') -> Value:
        """SpaceToDepth(input): SpaceToDepth rearranges blocks of spatial data into depth."""
    @overload
    def Split(self, input: Operand, split: Operand | None = None, *, axis: int | None = 0, num_outputs: int | None = None) -> Value:
        """Split(input, [split]): Split a tensor into a list of tensors, along the specified 'axis'."""
    @overload
    def Split(self, input: Operand, split: Operand | None = None, *, outputs: int, axis: int | None = 0, num_outputs: int | None = None) -> tuple[Value, ...]:
        """Split(input, [split]): Split a tensor into a list of tensors, along the specified 'axis'."""
    def SplitToSequence(self, input: Operand, split: Operand | None = None, *, axis: int | None = 0, keepdims: int | None = 1) -> Value:
        """SplitToSequence(input, [split]): Split a tensor into a sequence of tensors, along the specified 'axis'."""
    def Sqrt(self, X: Operand) -> Value:
        """Sqrt(X): Square root takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the ..."""
    def Squeeze(self, data: Operand, axes: Operand | None = None) -> Value:
        """Squeeze(data, [axes]): Remove single-dimensional entries from the shape of a tensor."""
    def StringConcat(self, X: Operand, Y: Operand) -> Value:
        """StringConcat(X, Y): StringConcat concatenates string tensors elementwise (with NumPy-style broadcasting support)."""
    def StringNormalizer(self, X: Operand, *, case_change_action: str | None = 'NONE', is_case_sensitive: int | None = 0, locale: str | None = None, stopwords: Sequence[str] | None = None) -> Value:
        """StringNormalizer(X): StringNormalization performs string operations for basic cleaning."""
    def StringSplit(self, X: Operand, *, delimiter: str | None = None, maxsplit: int | None = None) -> tuple[Value, Value]:
        """StringSplit(X): StringSplit splits a string tensor's elements into substrings based on a delimiter attribute and a ..."""
    def Sub(self, A: Operand, B: Operand) -> Value:
        """Sub(A, B): Performs element-wise binary subtraction (with Numpy-style broadcasting support)."""
    def Sum(self, *data_0: Operand | None) -> Value:
        """Sum(data_0): Element-wise sum of each of the input tensors (with Numpy-style broadcasting support)."""
    def SwiGLU(self, A: Operand, B: Operand, *, alpha: float | None = 1.0) -> Value:
        """SwiGLU(A, B): SwiGLU is a gated activation that takes two inputs, a gate A and a linear (value) input B, and ..."""
    def Swish(self, X: Operand, *, alpha: float | None = 1.0) -> Value:
        """Swish(X): Swish function takes one input data (Tensor<T>) and produces one output data (Tensor<T>) of the ..."""
    def Tan(self, input: Operand) -> Value:
        """Tan(input): Calculates the tangent of the given input tensor, element-wise."""
    def Tanh(self, input: Operand) -> Value:
        """Tanh(input): Calculates the hyperbolic tangent of the given input tensor element-wise."""
    def TensorScatter(self, past_cache: Operand, update: Operand, write_indices: Operand | None = None, *, axis: int | None = -2, mode: str | None = 'linear') -> Value:
        """TensorScatter(past_cache, update, [write_indices]): TensorScatter is a generic tensor update operation, motivated by the requirements for KV cache ..."""
    def TfIdfVectorizer(self, X: Operand, *, max_gram_length: int, max_skip_count: int, min_gram_length: int, mode: str, ngram_counts: Sequence[int], ngram_indexes: Sequence[int], pool_int64s: Sequence[int] | None = None, pool_strings: Sequence[str] | None = None, weights: Sequence[float] | None = None) -> Value:
        """TfIdfVectorizer(X): This transform extracts n-grams from the input sequence and save them as a vector."""
    def ThresholdedRelu(self, X: Operand, *, alpha: float | None = 1.0) -> Value:
        """ThresholdedRelu(X): ThresholdedRelu takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the ..."""
    def Tile(self, input: Operand, repeats: Operand) -> Value:
        """Tile(input, repeats): Constructs a tensor by tiling a given tensor."""
    def TopK(self, X: Operand, K: Operand, *, axis: int | None = -1, largest: int | None = 1, sorted: int | None = 1) -> tuple[Value, Value]:
        """TopK(X, K): Retrieve the top-K largest or smallest elements along a specified axis."""
    def Transpose(self, data: Operand, *, perm: Sequence[int] | None = None) -> Value:
        """Transpose(data): Returns a transpose of the input tensor."""
    def Trilu(self, input: Operand, k: Operand | None = None, *, upper: int | None = 1) -> Value:
        """Trilu(input, [k]): Given a 2-D matrix or batches of 2-D matrices, returns the upper or lower triangular part of the ..."""
    @overload
    def Unique(self, X: Operand, *, axis: int | None = None, sorted: int | None = 1) -> Value:
        """Unique(X): Find the unique elements of a tensor."""
    @overload
    def Unique(self, X: Operand, *, outputs: int, axis: int | None = None, sorted: int | None = 1) -> tuple[Value, ...]:
        """Unique(X): Find the unique elements of a tensor."""
    def Unsqueeze(self, data: Operand, axes: Operand) -> Value:
        """Unsqueeze(data, axes): Insert single-dimensional entries to the shape of an input tensor (data)."""
    def Where(self, condition: Operand, X: Operand, Y: Operand) -> Value:
        """Where(condition, X, Y): Return elements, either from X or Y, depending on condition."""
    def Xor(self, A: Operand, B: Operand) -> Value:
        """Xor(A, B): Returns the tensor resulted from performing the xor logical operation elementwise on the input ..."""

class OperatorPatterns:
    """Patterns of the operators of the standard domain."""
    @overload
    def domain(self, name: Literal[""], /) -> OperatorPatterns:  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]
        """The operators of another domain: `g.domain("com.microsoft").Gelu(x)`."""
    @overload
    def domain(self, name: Literal["ai.onnx.ml"], /) -> MlOperatorPatterns:  # type: ignore[overload-overlap]
        """The operators of another domain: `g.domain("com.microsoft").Gelu(x)`."""
    @overload
    def domain(self, name: Literal["ai.onnx.preview"], /) -> PreviewOperatorPatterns:  # type: ignore[overload-overlap]
        """The operators of another domain: `g.domain("com.microsoft").Gelu(x)`."""
    @overload
    def domain(self, name: Literal["ai.onnx.preview.training"], /) -> TrainingOperatorPatterns:  # type: ignore[overload-overlap]
        """The operators of another domain: `g.domain("com.microsoft").Gelu(x)`."""
    @overload
    def domain(self, name: Literal["com.microsoft"], /) -> ContribOperatorPatterns:  # type: ignore[overload-overlap]
        """The operators of another domain: `g.domain("com.microsoft").Gelu(x)`."""
    @overload
    def domain(self, name: str, /) -> CustomOperatorPatterns:
        """The operators of another domain: `g.domain("com.microsoft").Gelu(x)`."""
    def Abs(self, *inputs: PatternInput, X: NamedInput = ...) -> OpPattern:
        """Abs(X): Absolute takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where absolute ..."""
    def Acos(self, *inputs: PatternInput, input: NamedInput = ...) -> OpPattern:
        """Acos(input): Calculates the arccosine (inverse of cosine) of the given input tensor, element-wise."""
    def Acosh(self, *inputs: PatternInput, input: NamedInput = ...) -> OpPattern:
        """Acosh(input): Calculates the hyperbolic arccosine of the given input tensor element-wise."""
    def Add(self, *inputs: PatternInput, A: NamedInput = ..., B: NamedInput = ...) -> OpPattern:
        """Add(A, B): Performs element-wise binary addition (with Numpy-style broadcasting support)."""
    def AffineGrid(self, *inputs: PatternInput, align_corners: int | Var | Predicate = ..., size: NamedInput = ..., theta: NamedInput = ...) -> OpPattern:
        """AffineGrid(theta, size): Generates a 2D or 3D flow field (sampling grid), given a batch of affine matrices theta ( An affine ..."""
    def And(self, *inputs: PatternInput, A: NamedInput = ..., B: NamedInput = ...) -> OpPattern:
        """And(A, B): Returns the tensor resulted from performing the and logical operation elementwise on the input ..."""
    def ArgMax(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., data: NamedInput = ..., keepdims: int | Var | Predicate = ..., select_last_index: int | Var | Predicate = ...) -> OpPattern:
        """ArgMax(data): Computes the indices of the max elements of the input tensor's element along the provided axis."""
    def ArgMin(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., data: NamedInput = ..., keepdims: int | Var | Predicate = ..., select_last_index: int | Var | Predicate = ...) -> OpPattern:
        """ArgMin(data): Computes the indices of the min elements of the input tensor's element along the provided axis."""
    def Asin(self, *inputs: PatternInput, input: NamedInput = ...) -> OpPattern:
        """Asin(input): Calculates the arcsine (inverse of sine) of the given input tensor, element-wise."""
    def Asinh(self, *inputs: PatternInput, input: NamedInput = ...) -> OpPattern:
        """Asinh(input): Calculates the hyperbolic arcsine of the given input tensor element-wise."""
    def Atan(self, *inputs: PatternInput, input: NamedInput = ...) -> OpPattern:
        """Atan(input): Calculates the arctangent (inverse of tangent) of the given input tensor, element-wise."""
    def Atanh(self, *inputs: PatternInput, input: NamedInput = ...) -> OpPattern:
        """Atanh(input): Calculates the hyperbolic arctangent of the given input tensor element-wise."""
    def Attention(self, *inputs: PatternInput, K: NamedInput = ..., Q: NamedInput = ..., V: NamedInput = ..., attn_mask: NamedInput = ..., is_causal: int | Var | Predicate = ..., kv_num_heads: int | Var | Predicate = ..., left_window_size: int | Var | Predicate = ..., nonpad_kv_seqlen: NamedInput = ..., past_key: NamedInput = ..., past_value: NamedInput = ..., q_num_heads: int | Var | Predicate = ..., qk_matmul_output_mode: int | Var | Predicate = ..., right_window_size: int | Var | Predicate = ..., scale: float | Var | Predicate = ..., softcap: float | Var | Predicate = ..., softmax_precision: int | Var | Predicate = ...) -> OpPattern:
        """Attention(Q, K, V, [attn_mask], [past_key], [past_value], [nonpad_kv_seqlen]): Computes scaled dot product attention on query, key and value tensors, using an optional attention ..."""
    def AveragePool(self, *inputs: PatternInput, X: NamedInput = ..., auto_pad: str | Var | Predicate = ..., ceil_mode: int | Var | Predicate = ..., count_include_pad: int | Var | Predicate = ..., dilations: Sequence[int] | Var | Predicate = ..., kernel_shape: Sequence[int] | Var | Predicate = ..., pads: Sequence[int] | Var | Predicate = ..., strides: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """AveragePool(X): AveragePool consumes an input tensor X and applies average pooling across the tensor according to ..."""
    def BatchNormalization(self, *inputs: PatternInput, B: NamedInput = ..., X: NamedInput = ..., epsilon: float | Var | Predicate = ..., input_mean: NamedInput = ..., input_var: NamedInput = ..., momentum: float | Var | Predicate = ..., scale: NamedInput = ..., training_mode: int | Var | Predicate = ...) -> OpPattern:
        """BatchNormalization(X, scale, B, input_mean, input_var): Carries out batch normalization as described in the paper  Depending on the mode it is being run ..."""
    def Bernoulli(self, *inputs: PatternInput, dtype: int | Var | Predicate = ..., input: NamedInput = ..., seed: float | Var | Predicate = ...) -> OpPattern:
        """Bernoulli(input): Draws binary random numbers (0 or 1) from a Bernoulli distribution."""
    def BitCast(self, *inputs: PatternInput, input: NamedInput = ..., to: int | Var | Predicate = ...) -> OpPattern:
        """BitCast(input): Reinterprets the binary representation of a tensor as a different data type, specified by the 'to' ..."""
    def BitShift(self, *inputs: PatternInput, X: NamedInput = ..., Y: NamedInput = ..., direction: str | Var | Predicate = ...) -> OpPattern:
        """BitShift(X, Y): Bitwise shift operator performs element-wise operation."""
    def BitwiseAnd(self, *inputs: PatternInput, A: NamedInput = ..., B: NamedInput = ...) -> OpPattern:
        """BitwiseAnd(A, B): Returns the tensor resulting from performing the bitwise and operation elementwise on the input ..."""
    def BitwiseNot(self, *inputs: PatternInput, X: NamedInput = ...) -> OpPattern:
        """BitwiseNot(X): Returns the bitwise not of the input tensor element-wise."""
    def BitwiseOr(self, *inputs: PatternInput, A: NamedInput = ..., B: NamedInput = ...) -> OpPattern:
        """BitwiseOr(A, B): Returns the tensor resulting from performing the bitwise or operation elementwise on the input ..."""
    def BitwiseXor(self, *inputs: PatternInput, A: NamedInput = ..., B: NamedInput = ...) -> OpPattern:
        """BitwiseXor(A, B): Returns the tensor resulting from performing the bitwise xor operation elementwise on the input ..."""
    def BlackmanWindow(self, *inputs: PatternInput, output_datatype: int | Var | Predicate = ..., periodic: int | Var | Predicate = ..., size: NamedInput = ...) -> OpPattern:
        """BlackmanWindow(size): Generates a Blackman window as described in the paper."""
    def Cast(self, *inputs: PatternInput, input: NamedInput = ..., round_mode: str | Var | Predicate = ..., saturate: int | Var | Predicate = ..., to: int | Var | Predicate = ...) -> OpPattern:
        """Cast(input): The operator casts the elements of a given input tensor to a data type specified by the 'to' ..."""
    def CastLike(self, *inputs: PatternInput, input: NamedInput = ..., round_mode: str | Var | Predicate = ..., saturate: int | Var | Predicate = ..., target_type: NamedInput = ...) -> OpPattern:
        """CastLike(input, target_type): The operator casts the elements of a given input tensor (the first input) to the same data type as ..."""
    def CausalConvWithState(self, *inputs: PatternInput, activation: str | Var | Predicate = ..., bias: NamedInput = ..., input: NamedInput = ..., past_state: NamedInput = ..., weight: NamedInput = ...) -> OpPattern:
        """CausalConvWithState(input, weight, [bias], [past_state]): Stateful causal 1D depthwise convolution."""
    def Ceil(self, *inputs: PatternInput, X: NamedInput = ...) -> OpPattern:
        """Ceil(X): Ceil takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the ceil is, y ..."""
    def Celu(self, *inputs: PatternInput, X: NamedInput = ..., alpha: float | Var | Predicate = ...) -> OpPattern:
        """Celu(X): Continuously Differentiable Exponential Linear Units."""
    def CenterCropPad(self, *inputs: PatternInput, axes: Sequence[int] | Var | Predicate = ..., input_data: NamedInput = ..., shape: NamedInput = ...) -> OpPattern:
        """CenterCropPad(input_data, shape): Center crop or pad an input to given dimensions."""
    def Clip(self, *inputs: PatternInput, input: NamedInput = ..., max: NamedInput = ..., min: NamedInput = ...) -> OpPattern:
        """Clip(input, [min], [max]): Clip operator limits the given input within an interval."""
    def Col2Im(self, *inputs: PatternInput, block_shape: NamedInput = ..., dilations: Sequence[int] | Var | Predicate = ..., image_shape: NamedInput = ..., input: NamedInput = ..., pads: Sequence[int] | Var | Predicate = ..., strides: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """Col2Im(input, image_shape, block_shape): The operator rearranges column blocks back into a multidimensional image Col2Im behaves similarly ..."""
    def Compress(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., condition: NamedInput = ..., input: NamedInput = ...) -> OpPattern:
        """Compress(input, condition): Selects slices from an input tensor along a given axis where condition evaluates to True for each ..."""
    def Concat(self, *inputs: PatternInput, axis: int | Var | Predicate = ...) -> OpPattern:
        """Concat(inputs): Concatenate a list of tensors into a single tensor."""
    def ConcatFromSequence(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., input_sequence: NamedInput = ..., new_axis: int | Var | Predicate = ...) -> OpPattern:
        """ConcatFromSequence(input_sequence): Concatenate a sequence of tensors into a single tensor."""
    def Constant(self, *inputs: PatternInput, sparse_value: onnx.SparseTensorProto | Var | Predicate = ..., value: Tensor | onnx.TensorProto | Var | Predicate = ..., value_float: float | Var | Predicate = ..., value_floats: Sequence[float] | Var | Predicate = ..., value_int: int | Var | Predicate = ..., value_ints: Sequence[int] | Var | Predicate = ..., value_string: str | Var | Predicate = ..., value_strings: Sequence[str] | Var | Predicate = ...) -> OpPattern:
        """Constant(): This operator produces a constant tensor."""
    def ConstantOfShape(self, *inputs: PatternInput, input: NamedInput = ..., value: Tensor | onnx.TensorProto | Var | Predicate = ...) -> OpPattern:
        """ConstantOfShape(input): Generate a tensor with given value and shape."""
    def Conv(self, *inputs: PatternInput, B: NamedInput = ..., W: NamedInput = ..., X: NamedInput = ..., auto_pad: str | Var | Predicate = ..., dilations: Sequence[int] | Var | Predicate = ..., group: int | Var | Predicate = ..., kernel_shape: Sequence[int] | Var | Predicate = ..., pads: Sequence[int] | Var | Predicate = ..., strides: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """Conv(X, W, [B]): The convolution operator consumes an input tensor and a filter, and computes the output."""
    def ConvInteger(self, *inputs: PatternInput, auto_pad: str | Var | Predicate = ..., dilations: Sequence[int] | Var | Predicate = ..., group: int | Var | Predicate = ..., kernel_shape: Sequence[int] | Var | Predicate = ..., pads: Sequence[int] | Var | Predicate = ..., strides: Sequence[int] | Var | Predicate = ..., w: NamedInput = ..., w_zero_point: NamedInput = ..., x: NamedInput = ..., x_zero_point: NamedInput = ...) -> OpPattern:
        """ConvInteger(x, w, [x_zero_point], [w_zero_point]): The integer convolution operator consumes an input tensor, its zero-point, a filter, and its ..."""
    def ConvTranspose(self, *inputs: PatternInput, B: NamedInput = ..., W: NamedInput = ..., X: NamedInput = ..., auto_pad: str | Var | Predicate = ..., dilations: Sequence[int] | Var | Predicate = ..., group: int | Var | Predicate = ..., kernel_shape: Sequence[int] | Var | Predicate = ..., output_padding: Sequence[int] | Var | Predicate = ..., output_shape: Sequence[int] | Var | Predicate = ..., pads: Sequence[int] | Var | Predicate = ..., strides: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """ConvTranspose(X, W, [B]): The convolution transpose operator consumes an input tensor and a filter, and computes the output."""
    def Cos(self, *inputs: PatternInput, input: NamedInput = ...) -> OpPattern:
        """Cos(input): Calculates the cosine of the given input tensor, element-wise."""
    def Cosh(self, *inputs: PatternInput, input: NamedInput = ...) -> OpPattern:
        """Cosh(input): Calculates the hyperbolic cosine of the given input tensor element-wise."""
    def CumProd(self, *inputs: PatternInput, axis: NamedInput = ..., exclusive: int | Var | Predicate = ..., reverse: int | Var | Predicate = ..., x: NamedInput = ...) -> OpPattern:
        """CumProd(x, axis): Performs cumulative product of the input elements along the given axis."""
    def CumSum(self, *inputs: PatternInput, axis: NamedInput = ..., exclusive: int | Var | Predicate = ..., reverse: int | Var | Predicate = ..., x: NamedInput = ...) -> OpPattern:
        """CumSum(x, axis): Performs cumulative sum of the input elements along the given axis."""
    def DFT(self, *inputs: PatternInput, axis: NamedInput = ..., dft_length: NamedInput = ..., input: NamedInput = ..., inverse: int | Var | Predicate = ..., onesided: int | Var | Predicate = ...) -> OpPattern:
        """DFT(input, [dft_length], [axis]): Computes the discrete Fourier Transform (DFT) of the input."""
    def DeformConv(self, *inputs: PatternInput, B: NamedInput = ..., W: NamedInput = ..., X: NamedInput = ..., dilations: Sequence[int] | Var | Predicate = ..., group: int | Var | Predicate = ..., kernel_shape: Sequence[int] | Var | Predicate = ..., mask: NamedInput = ..., offset: NamedInput = ..., offset_group: int | Var | Predicate = ..., pads: Sequence[int] | Var | Predicate = ..., strides: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """DeformConv(X, W, offset, [B], [mask]): Performs deformable convolution as described in  and  This operator specification supports the ..."""
    def DepthToSpace(self, *inputs: PatternInput, blocksize: int | Var | Predicate = ..., input: NamedInput = ..., mode: str | Var | Predicate = ...) -> OpPattern:
        """DepthToSpace(input): DepthToSpace rearranges (permutes) data from depth into blocks of spatial data."""
    def DequantizeLinear(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., block_size: int | Var | Predicate = ..., output_dtype: int | Var | Predicate = ..., x: NamedInput = ..., x_scale: NamedInput = ..., x_zero_point: NamedInput = ...) -> OpPattern:
        """DequantizeLinear(x, x_scale, [x_zero_point]): The linear dequantization operator."""
    def Det(self, *inputs: PatternInput, X: NamedInput = ...) -> OpPattern:
        """Det(X): Det calculates determinant of a square matrix or batches of square matrices."""
    def Div(self, *inputs: PatternInput, A: NamedInput = ..., B: NamedInput = ...) -> OpPattern:
        """Div(A, B): Performs element-wise binary division (with Numpy-style broadcasting support)."""
    def Dropout(self, *inputs: PatternInput, data: NamedInput = ..., ratio: NamedInput = ..., seed: int | Var | Predicate = ..., training_mode: NamedInput = ...) -> OpPattern:
        """Dropout(data, [ratio], [training_mode]): Dropout takes an input floating-point tensor, an optional input ratio (floating-point scalar) and ..."""
    def DynamicQuantizeLinear(self, *inputs: PatternInput, x: NamedInput = ...) -> OpPattern:
        """DynamicQuantizeLinear(x): A Function to fuse calculation for Scale, Zero Point and FP32->8Bit conversion of FP32 Input data."""
    def Einsum(self, *inputs: PatternInput, equation: str | Var | Predicate = ...) -> OpPattern:
        """Einsum(Inputs): An einsum of the form term1, term2 -> output-term produces an output tensor using the following ..."""
    def Elu(self, *inputs: PatternInput, X: NamedInput = ..., alpha: float | Var | Predicate = ...) -> OpPattern:
        """Elu(X): Elu takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the function ..."""
    def Equal(self, *inputs: PatternInput, A: NamedInput = ..., B: NamedInput = ...) -> OpPattern:
        """Equal(A, B): Returns the tensor resulted from performing the equal logical operation elementwise on the input ..."""
    def Erf(self, *inputs: PatternInput, input: NamedInput = ...) -> OpPattern:
        """Erf(input): Computes the error function of the given input tensor element-wise."""
    def Exp(self, *inputs: PatternInput, input: NamedInput = ...) -> OpPattern:
        """Exp(input): Calculates the exponential of the given input tensor, element-wise."""
    def Expand(self, *inputs: PatternInput, input: NamedInput = ..., shape: NamedInput = ...) -> OpPattern:
        """Expand(input, shape): Broadcast the input tensor following the given shape and the broadcast rule."""
    def EyeLike(self, *inputs: PatternInput, dtype: int | Var | Predicate = ..., input: NamedInput = ..., k: int | Var | Predicate = ...) -> OpPattern:
        """EyeLike(input): Generate a 2D tensor (matrix) with ones on the diagonal and zeros everywhere else."""
    def Flatten(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., input: NamedInput = ...) -> OpPattern:
        """Flatten(input): Flattens the input tensor into a 2D matrix."""
    def Floor(self, *inputs: PatternInput, X: NamedInput = ...) -> OpPattern:
        """Floor(X): Floor takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the floor is ..."""
    def GRU(self, *inputs: PatternInput, B: NamedInput = ..., R: NamedInput = ..., W: NamedInput = ..., X: NamedInput = ..., activation_alpha: Sequence[float] | Var | Predicate = ..., activation_beta: Sequence[float] | Var | Predicate = ..., activations: Sequence[str] | Var | Predicate = ..., clip: float | Var | Predicate = ..., direction: str | Var | Predicate = ..., hidden_size: int | Var | Predicate = ..., initial_h: NamedInput = ..., layout: int | Var | Predicate = ..., linear_before_reset: int | Var | Predicate = ..., sequence_lens: NamedInput = ...) -> OpPattern:
        """GRU(X, W, R, [B], [sequence_lens], [initial_h]): Computes an one-layer GRU."""
    def Gather(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., data: NamedInput = ..., indices: NamedInput = ...) -> OpPattern:
        """Gather(data, indices): Given data tensor of rank r >= 1, and indices tensor of rank q, gather entries of the axis ..."""
    def GatherElements(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., data: NamedInput = ..., indices: NamedInput = ...) -> OpPattern:
        """GatherElements(data, indices): GatherElements takes two inputs data and indices of the same rank r >= 1 and an optional attribute ..."""
    def GatherND(self, *inputs: PatternInput, batch_dims: int | Var | Predicate = ..., data: NamedInput = ..., indices: NamedInput = ...) -> OpPattern:
        """GatherND(data, indices): Given data tensor of rank r >= 1, indices tensor of rank q >= 1, and batch_dims integer b, this ..."""
    def Gelu(self, *inputs: PatternInput, X: NamedInput = ..., approximate: str | Var | Predicate = ...) -> OpPattern:
        """Gelu(X): Gelu takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the gaussian ..."""
    def Gemm(self, *inputs: PatternInput, A: NamedInput = ..., B: NamedInput = ..., C: NamedInput = ..., alpha: float | Var | Predicate = ..., beta: float | Var | Predicate = ..., transA: int | Var | Predicate = ..., transB: int | Var | Predicate = ...) -> OpPattern:
        """Gemm(A, B, [C]): General Matrix multiplication:   A' = transpose(A) if transA else A * B' = transpose(B) if transB ..."""
    def GlobalAveragePool(self, *inputs: PatternInput, X: NamedInput = ...) -> OpPattern:
        """GlobalAveragePool(X): GlobalAveragePool consumes an input tensor X and applies average pooling across the values in the ..."""
    def GlobalLpPool(self, *inputs: PatternInput, X: NamedInput = ..., p: int | Var | Predicate = ...) -> OpPattern:
        """GlobalLpPool(X): GlobalLpPool consumes an input tensor X and applies lp pool pooling across the values in the same ..."""
    def GlobalMaxPool(self, *inputs: PatternInput, X: NamedInput = ...) -> OpPattern:
        """GlobalMaxPool(X): GlobalMaxPool consumes an input tensor X and applies max pooling across the values in the same ..."""
    def Greater(self, *inputs: PatternInput, A: NamedInput = ..., B: NamedInput = ...) -> OpPattern:
        """Greater(A, B): Returns the tensor resulted from performing the greater logical operation elementwise on the input ..."""
    def GreaterOrEqual(self, *inputs: PatternInput, A: NamedInput = ..., B: NamedInput = ...) -> OpPattern:
        """GreaterOrEqual(A, B): Returns the tensor resulted from performing the greater_equal logical operation elementwise on the ..."""
    def GridSample(self, *inputs: PatternInput, X: NamedInput = ..., align_corners: int | Var | Predicate = ..., grid: NamedInput = ..., mode: str | Var | Predicate = ..., padding_mode: str | Var | Predicate = ...) -> OpPattern:
        """GridSample(X, grid): Given an input X and a flow-field grid, computes the output Y using X values and pixel locations ..."""
    def GroupNormalization(self, *inputs: PatternInput, X: NamedInput = ..., bias: NamedInput = ..., epsilon: float | Var | Predicate = ..., num_groups: int | Var | Predicate = ..., scale: NamedInput = ..., stash_type: int | Var | Predicate = ...) -> OpPattern:
        """GroupNormalization(X, scale, bias): A GroupNormalization function."""
    def HammingWindow(self, *inputs: PatternInput, output_datatype: int | Var | Predicate = ..., periodic: int | Var | Predicate = ..., size: NamedInput = ...) -> OpPattern:
        """HammingWindow(size): Generates a Hamming window as described in the paper."""
    def HannWindow(self, *inputs: PatternInput, output_datatype: int | Var | Predicate = ..., periodic: int | Var | Predicate = ..., size: NamedInput = ...) -> OpPattern:
        """HannWindow(size): Generates a Hann window as described in the paper."""
    def HardSigmoid(self, *inputs: PatternInput, X: NamedInput = ..., alpha: float | Var | Predicate = ..., beta: float | Var | Predicate = ...) -> OpPattern:
        """HardSigmoid(X): HardSigmoid takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the ..."""
    def HardSwish(self, *inputs: PatternInput, X: NamedInput = ...) -> OpPattern:
        """HardSwish(X): HardSwish takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the ..."""
    def Hardmax(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., input: NamedInput = ...) -> OpPattern:
        """Hardmax(input): The operator computes the hardmax values for the given input."""
    def Identity(self, *inputs: PatternInput, input: NamedInput = ...) -> OpPattern:
        """Identity(input): Identity operator."""
    def If(self, *inputs: PatternInput, cond: NamedInput = ..., else_branch: Graph | Var | Predicate = ..., then_branch: Graph | Var | Predicate = ...) -> OpPattern:
        """If(cond): If conditional."""
    def ImageDecoder(self, *inputs: PatternInput, encoded_stream: NamedInput = ..., pixel_format: str | Var | Predicate = ...) -> OpPattern:
        """ImageDecoder(encoded_stream): Loads and decodes and image from a file."""
    def InstanceNormalization(self, *inputs: PatternInput, B: NamedInput = ..., epsilon: float | Var | Predicate = ..., input: NamedInput = ..., scale: NamedInput = ...) -> OpPattern:
        """InstanceNormalization(input, scale, B): Carries out instance normalization as described in the paper  y = scale * (x - mean) / ..."""
    def IsInf(self, *inputs: PatternInput, X: NamedInput = ..., detect_negative: int | Var | Predicate = ..., detect_positive: int | Var | Predicate = ...) -> OpPattern:
        """IsInf(X): Map infinity to true and other values to false."""
    def IsNaN(self, *inputs: PatternInput, X: NamedInput = ...) -> OpPattern:
        """IsNaN(X): Returns which elements of the input are NaN."""
    def LRN(self, *inputs: PatternInput, X: NamedInput = ..., alpha: float | Var | Predicate = ..., beta: float | Var | Predicate = ..., bias: float | Var | Predicate = ..., size: int | Var | Predicate = ...) -> OpPattern:
        """LRN(X): Local Response Normalization proposed in the AlexNet paper."""
    def LSTM(self, *inputs: PatternInput, B: NamedInput = ..., P: NamedInput = ..., R: NamedInput = ..., W: NamedInput = ..., X: NamedInput = ..., activation_alpha: Sequence[float] | Var | Predicate = ..., activation_beta: Sequence[float] | Var | Predicate = ..., activations: Sequence[str] | Var | Predicate = ..., clip: float | Var | Predicate = ..., direction: str | Var | Predicate = ..., hidden_size: int | Var | Predicate = ..., initial_c: NamedInput = ..., initial_h: NamedInput = ..., input_forget: int | Var | Predicate = ..., layout: int | Var | Predicate = ..., sequence_lens: NamedInput = ...) -> OpPattern:
        """LSTM(X, W, R, [B], [sequence_lens], [initial_h], [initial_c], [P]): Computes an one-layer LSTM."""
    def LayerNormalization(self, *inputs: PatternInput, B: NamedInput = ..., Scale: NamedInput = ..., X: NamedInput = ..., axis: int | Var | Predicate = ..., epsilon: float | Var | Predicate = ..., stash_type: int | Var | Predicate = ...) -> OpPattern:
        """LayerNormalization(X, Scale, [B]): This is layer normalization defined in ONNX as function."""
    def LeakyRelu(self, *inputs: PatternInput, X: NamedInput = ..., alpha: float | Var | Predicate = ...) -> OpPattern:
        """LeakyRelu(X): LeakyRelu takes input data (Tensor<T>) and an argument alpha, and produces one output data ..."""
    def Less(self, *inputs: PatternInput, A: NamedInput = ..., B: NamedInput = ...) -> OpPattern:
        """Less(A, B): Returns the tensor resulted from performing the less logical operation elementwise on the input ..."""
    def LessOrEqual(self, *inputs: PatternInput, A: NamedInput = ..., B: NamedInput = ...) -> OpPattern:
        """LessOrEqual(A, B): Returns the tensor resulted from performing the less_equal logical operation elementwise on the ..."""
    def LinearAttention(self, *inputs: PatternInput, beta: NamedInput = ..., chunk_size: int | Var | Predicate = ..., decay: NamedInput = ..., key: NamedInput = ..., kv_num_heads: int | Var | Predicate = ..., past_state: NamedInput = ..., q_num_heads: int | Var | Predicate = ..., query: NamedInput = ..., scale: float | Var | Predicate = ..., update_rule: str | Var | Predicate = ..., value: NamedInput = ...) -> OpPattern:
        """LinearAttention(query, key, value, [past_state], [decay], [beta]): Unified linear attention operator for autoregressive decoding (T=1) and prefill (T>1)."""
    def Log(self, *inputs: PatternInput, input: NamedInput = ...) -> OpPattern:
        """Log(input): Calculates the natural log of the given input tensor, element-wise."""
    def LogSoftmax(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., input: NamedInput = ...) -> OpPattern:
        """LogSoftmax(input): The operator computes the log of softmax values for the given input."""
    def Loop(self, *inputs: PatternInput, M: NamedInput = ..., body: Graph | Var | Predicate = ..., cond: NamedInput = ...) -> OpPattern:
        """Loop([M], [cond], v_initial): Generic Looping construct."""
    def LpNormalization(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., input: NamedInput = ..., p: int | Var | Predicate = ...) -> OpPattern:
        """LpNormalization(input): Given a matrix, apply Lp-normalization along the provided axis."""
    def LpPool(self, *inputs: PatternInput, X: NamedInput = ..., auto_pad: str | Var | Predicate = ..., ceil_mode: int | Var | Predicate = ..., dilations: Sequence[int] | Var | Predicate = ..., kernel_shape: Sequence[int] | Var | Predicate = ..., p: int | Var | Predicate = ..., pads: Sequence[int] | Var | Predicate = ..., strides: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """LpPool(X): LpPool consumes an input tensor X and applies Lp pooling across the tensor according to kernel ..."""
    def MatMul(self, *inputs: PatternInput, A: NamedInput = ..., B: NamedInput = ...) -> OpPattern:
        """MatMul(A, B): Matrix product that behaves like numpy.matmul."""
    def MatMulInteger(self, *inputs: PatternInput, A: NamedInput = ..., B: NamedInput = ..., a_zero_point: NamedInput = ..., b_zero_point: NamedInput = ...) -> OpPattern:
        """MatMulInteger(A, B, [a_zero_point], [b_zero_point]): Matrix product that behaves like numpy.matmul."""
    def Max(self, *inputs: PatternInput) -> OpPattern:
        """Max(data_0): Element-wise max of each of the input tensors (with Numpy-style broadcasting support)."""
    def MaxPool(self, *inputs: PatternInput, X: NamedInput = ..., auto_pad: str | Var | Predicate = ..., ceil_mode: int | Var | Predicate = ..., dilations: Sequence[int] | Var | Predicate = ..., kernel_shape: Sequence[int] | Var | Predicate = ..., pads: Sequence[int] | Var | Predicate = ..., storage_order: int | Var | Predicate = ..., strides: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """MaxPool(X): MaxPool consumes an input tensor X and applies max pooling across the tensor according to kernel ..."""
    def MaxRoiPool(self, *inputs: PatternInput, X: NamedInput = ..., pooled_shape: Sequence[int] | Var | Predicate = ..., rois: NamedInput = ..., spatial_scale: float | Var | Predicate = ...) -> OpPattern:
        """MaxRoiPool(X, rois): ROI max pool consumes an input tensor X and region of interests (RoIs) to apply max pooling across ..."""
    def MaxUnpool(self, *inputs: PatternInput, I: NamedInput = ..., X: NamedInput = ..., kernel_shape: Sequence[int] | Var | Predicate = ..., output_shape: NamedInput = ..., pads: Sequence[int] | Var | Predicate = ..., strides: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """MaxUnpool(X, I, [output_shape]): MaxUnpool essentially computes the partial inverse of the MaxPool op."""
    def Mean(self, *inputs: PatternInput) -> OpPattern:
        """Mean(data_0): Element-wise mean of each of the input tensors (with Numpy-style broadcasting support)."""
    def MeanVarianceNormalization(self, *inputs: PatternInput, X: NamedInput = ..., axes: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """MeanVarianceNormalization(X): A MeanVarianceNormalization Function."""
    def MelWeightMatrix(self, *inputs: PatternInput, dft_length: NamedInput = ..., lower_edge_hertz: NamedInput = ..., num_mel_bins: NamedInput = ..., output_datatype: int | Var | Predicate = ..., sample_rate: NamedInput = ..., upper_edge_hertz: NamedInput = ...) -> OpPattern:
        """MelWeightMatrix(num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz): Generate a MelWeightMatrix that can be used to re-weight a Tensor containing a linearly sampled ..."""
    def Min(self, *inputs: PatternInput) -> OpPattern:
        """Min(data_0): Element-wise min of each of the input tensors (with Numpy-style broadcasting support)."""
    def Mish(self, *inputs: PatternInput, X: NamedInput = ...) -> OpPattern:
        """Mish(X): Mish."""
    def Mod(self, *inputs: PatternInput, A: NamedInput = ..., B: NamedInput = ..., fmod: int | Var | Predicate = ...) -> OpPattern:
        """Mod(A, B): Performs an element-wise binary modulo operation."""
    def Mul(self, *inputs: PatternInput, A: NamedInput = ..., B: NamedInput = ...) -> OpPattern:
        """Mul(A, B): Performs element-wise binary multiplication (with Numpy-style broadcasting support)."""
    def Multinomial(self, *inputs: PatternInput, dtype: int | Var | Predicate = ..., input: NamedInput = ..., sample_size: int | Var | Predicate = ..., seed: float | Var | Predicate = ...) -> OpPattern:
        """Multinomial(input): Generate a tensor of samples from a multinomial distribution according to the probabilities of each ..."""
    def Neg(self, *inputs: PatternInput, X: NamedInput = ...) -> OpPattern:
        """Neg(X): Neg takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where each element ..."""
    def NegativeLogLikelihoodLoss(self, *inputs: PatternInput, ignore_index: int | Var | Predicate = ..., input: NamedInput = ..., reduction: str | Var | Predicate = ..., target: NamedInput = ..., weight: NamedInput = ...) -> OpPattern:
        """NegativeLogLikelihoodLoss(input, target, [weight]): A NegativeLogLikelihoodLoss operator computes (weighted) negative log likelihood loss."""
    def NonMaxSuppression(self, *inputs: PatternInput, boxes: NamedInput = ..., center_point_box: int | Var | Predicate = ..., iou_threshold: NamedInput = ..., max_output_boxes_per_class: NamedInput = ..., score_threshold: NamedInput = ..., scores: NamedInput = ...) -> OpPattern:
        """NonMaxSuppression(boxes, scores, [max_output_boxes_per_class], [iou_threshold], [score_threshold]): Filter out boxes that have high intersection-over-union (IOU) overlap with previously selected boxes."""
    def NonZero(self, *inputs: PatternInput, X: NamedInput = ...) -> OpPattern:
        """NonZero(X): Returns the indices of the elements that are non-zero (in row-major order - by dimension)."""
    def Not(self, *inputs: PatternInput, X: NamedInput = ...) -> OpPattern:
        """Not(X): Returns the negation of the input tensor element-wise."""
    def OneHot(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., depth: NamedInput = ..., indices: NamedInput = ..., values: NamedInput = ...) -> OpPattern:
        """OneHot(indices, depth, values): Produces a one-hot tensor based on inputs."""
    def Optional(self, *inputs: PatternInput, input: NamedInput = ..., type: onnx.TypeProto | Var | Predicate = ...) -> OpPattern:
        """Optional([input]): Constructs an optional-type value containing either an empty optional of a certain type specified ..."""
    def OptionalGetElement(self, *inputs: PatternInput, input: NamedInput = ...) -> OpPattern:
        """OptionalGetElement(input): If the input is a tensor or sequence type, it returns the input."""
    def OptionalHasElement(self, *inputs: PatternInput, input: NamedInput = ...) -> OpPattern:
        """OptionalHasElement([input]): Returns true if (1) the input is an optional-type and contains an element, or, (2) the input is a ..."""
    def Or(self, *inputs: PatternInput, A: NamedInput = ..., B: NamedInput = ...) -> OpPattern:
        """Or(A, B): Returns the tensor resulted from performing the or logical operation elementwise on the input ..."""
    def PRelu(self, *inputs: PatternInput, X: NamedInput = ..., slope: NamedInput = ...) -> OpPattern:
        """PRelu(X, slope): PRelu takes input data (Tensor<T>) and slope tensor as input, and produces one output data ..."""
    def Pad(self, *inputs: PatternInput, axes: NamedInput = ..., constant_value: NamedInput = ..., data: NamedInput = ..., mode: str | Var | Predicate = ..., pads: NamedInput = ...) -> OpPattern:
        """Pad(data, pads, [constant_value], [axes]): Given a tensor containing the data to be padded (data), a tensor containing the number of start and ..."""
    def Pow(self, *inputs: PatternInput, X: NamedInput = ..., Y: NamedInput = ...) -> OpPattern:
        """Pow(X, Y): Pow takes input data (Tensor<T>) and exponent Tensor, and produces one output data (Tensor<T>) ..."""
    def QLinearConv(self, *inputs: PatternInput, B: NamedInput = ..., auto_pad: str | Var | Predicate = ..., dilations: Sequence[int] | Var | Predicate = ..., group: int | Var | Predicate = ..., kernel_shape: Sequence[int] | Var | Predicate = ..., pads: Sequence[int] | Var | Predicate = ..., strides: Sequence[int] | Var | Predicate = ..., w: NamedInput = ..., w_scale: NamedInput = ..., w_zero_point: NamedInput = ..., x: NamedInput = ..., x_scale: NamedInput = ..., x_zero_point: NamedInput = ..., y_scale: NamedInput = ..., y_zero_point: NamedInput = ...) -> OpPattern:
        """QLinearConv(x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, [B]): The convolution operator consumes a quantized input tensor, its scale and zero point, a quantized ..."""
    def QLinearMatMul(self, *inputs: PatternInput, a: NamedInput = ..., a_scale: NamedInput = ..., a_zero_point: NamedInput = ..., b: NamedInput = ..., b_scale: NamedInput = ..., b_zero_point: NamedInput = ..., y_scale: NamedInput = ..., y_zero_point: NamedInput = ...) -> OpPattern:
        """QLinearMatMul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point): Matrix product that behaves like numpy.matmul."""
    def QuantizeLinear(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., block_size: int | Var | Predicate = ..., output_dtype: int | Var | Predicate = ..., precision: int | Var | Predicate = ..., saturate: int | Var | Predicate = ..., x: NamedInput = ..., y_scale: NamedInput = ..., y_zero_point: NamedInput = ...) -> OpPattern:
        """QuantizeLinear(x, y_scale, [y_zero_point]): The linear quantization operator consumes a high-precision tensor, a scale, and a zero point to ..."""
    def RMSNormalization(self, *inputs: PatternInput, X: NamedInput = ..., axis: int | Var | Predicate = ..., epsilon: float | Var | Predicate = ..., scale: NamedInput = ..., stash_type: int | Var | Predicate = ...) -> OpPattern:
        """RMSNormalization(X, scale): This is RMS normalization defined in ONNX as function as described in the paper  The overall ..."""
    def RNN(self, *inputs: PatternInput, B: NamedInput = ..., R: NamedInput = ..., W: NamedInput = ..., X: NamedInput = ..., activation_alpha: Sequence[float] | Var | Predicate = ..., activation_beta: Sequence[float] | Var | Predicate = ..., activations: Sequence[str] | Var | Predicate = ..., clip: float | Var | Predicate = ..., direction: str | Var | Predicate = ..., hidden_size: int | Var | Predicate = ..., initial_h: NamedInput = ..., layout: int | Var | Predicate = ..., sequence_lens: NamedInput = ...) -> OpPattern:
        """RNN(X, W, R, [B], [sequence_lens], [initial_h]): Computes an one-layer simple RNN."""
    def RandomNormal(self, *inputs: PatternInput, dtype: int | Var | Predicate = ..., mean: float | Var | Predicate = ..., scale: float | Var | Predicate = ..., seed: float | Var | Predicate = ..., shape: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """RandomNormal(): Generate a tensor with random values drawn from a normal distribution."""
    def RandomNormalLike(self, *inputs: PatternInput, dtype: int | Var | Predicate = ..., input: NamedInput = ..., mean: float | Var | Predicate = ..., scale: float | Var | Predicate = ..., seed: float | Var | Predicate = ...) -> OpPattern:
        """RandomNormalLike(input): Generate a tensor with random values drawn from a normal distribution."""
    def RandomUniform(self, *inputs: PatternInput, dtype: int | Var | Predicate = ..., high: float | Var | Predicate = ..., low: float | Var | Predicate = ..., seed: float | Var | Predicate = ..., shape: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """RandomUniform(): Generate a tensor with random values drawn from a uniform distribution."""
    def RandomUniformLike(self, *inputs: PatternInput, dtype: int | Var | Predicate = ..., high: float | Var | Predicate = ..., input: NamedInput = ..., low: float | Var | Predicate = ..., seed: float | Var | Predicate = ...) -> OpPattern:
        """RandomUniformLike(input): Generate a tensor with random values drawn from a uniform distribution."""
    def Range(self, *inputs: PatternInput, delta: NamedInput = ..., limit: NamedInput = ..., start: NamedInput = ..., stash_type: int | Var | Predicate = ...) -> OpPattern:
        """Range(start, limit, delta): Generate a tensor containing a sequence of numbers that begin at start and extends by increments of ..."""
    def Reciprocal(self, *inputs: PatternInput, X: NamedInput = ...) -> OpPattern:
        """Reciprocal(X): Reciprocal takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the ..."""
    def ReduceL1(self, *inputs: PatternInput, axes: NamedInput = ..., data: NamedInput = ..., keepdims: int | Var | Predicate = ..., noop_with_empty_axes: int | Var | Predicate = ...) -> OpPattern:
        """ReduceL1(data, [axes]): Computes the L1 norm of the input tensor's elements along the provided axes."""
    def ReduceL2(self, *inputs: PatternInput, axes: NamedInput = ..., data: NamedInput = ..., keepdims: int | Var | Predicate = ..., noop_with_empty_axes: int | Var | Predicate = ...) -> OpPattern:
        """ReduceL2(data, [axes]): Computes the L2 norm of the input tensor's elements along the provided axes."""
    def ReduceLogSum(self, *inputs: PatternInput, axes: NamedInput = ..., data: NamedInput = ..., keepdims: int | Var | Predicate = ..., noop_with_empty_axes: int | Var | Predicate = ...) -> OpPattern:
        """ReduceLogSum(data, [axes]): Computes the log sum of the input tensor's elements along the provided axes."""
    def ReduceLogSumExp(self, *inputs: PatternInput, axes: NamedInput = ..., data: NamedInput = ..., keepdims: int | Var | Predicate = ..., noop_with_empty_axes: int | Var | Predicate = ...) -> OpPattern:
        """ReduceLogSumExp(data, [axes]): Computes the log sum exponent of the input tensor's elements along the provided axes."""
    def ReduceMax(self, *inputs: PatternInput, axes: NamedInput = ..., data: NamedInput = ..., keepdims: int | Var | Predicate = ..., noop_with_empty_axes: int | Var | Predicate = ...) -> OpPattern:
        """ReduceMax(data, [axes]): Computes the max of the input tensor's elements along the provided axes."""
    def ReduceMean(self, *inputs: PatternInput, axes: NamedInput = ..., data: NamedInput = ..., keepdims: int | Var | Predicate = ..., noop_with_empty_axes: int | Var | Predicate = ...) -> OpPattern:
        """ReduceMean(data, [axes]): Computes the mean of the input tensor's elements along the provided axes."""
    def ReduceMin(self, *inputs: PatternInput, axes: NamedInput = ..., data: NamedInput = ..., keepdims: int | Var | Predicate = ..., noop_with_empty_axes: int | Var | Predicate = ...) -> OpPattern:
        """ReduceMin(data, [axes]): Computes the min of the input tensor's elements along the provided axes."""
    def ReduceProd(self, *inputs: PatternInput, axes: NamedInput = ..., data: NamedInput = ..., keepdims: int | Var | Predicate = ..., noop_with_empty_axes: int | Var | Predicate = ...) -> OpPattern:
        """ReduceProd(data, [axes]): Computes the product of the input tensor's elements along the provided axes."""
    def ReduceSum(self, *inputs: PatternInput, axes: NamedInput = ..., data: NamedInput = ..., keepdims: int | Var | Predicate = ..., noop_with_empty_axes: int | Var | Predicate = ...) -> OpPattern:
        """ReduceSum(data, [axes]): Computes the sum of the input tensor's elements along the provided axes."""
    def ReduceSumSquare(self, *inputs: PatternInput, axes: NamedInput = ..., data: NamedInput = ..., keepdims: int | Var | Predicate = ..., noop_with_empty_axes: int | Var | Predicate = ...) -> OpPattern:
        """ReduceSumSquare(data, [axes]): Computes the sum square of the input tensor's elements along the provided axes."""
    def RegexFullMatch(self, *inputs: PatternInput, X: NamedInput = ..., pattern: str | Var | Predicate = ...) -> OpPattern:
        """RegexFullMatch(X): RegexFullMatch performs a full regex match on each element of the input tensor."""
    def Relu(self, *inputs: PatternInput, X: NamedInput = ...) -> OpPattern:
        """Relu(X): Relu takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the rectified ..."""
    def Reshape(self, *inputs: PatternInput, allowzero: int | Var | Predicate = ..., data: NamedInput = ..., shape: NamedInput = ...) -> OpPattern:
        """Reshape(data, shape): Reshape the input tensor similar to numpy.reshape."""
    def Resize(self, *inputs: PatternInput, X: NamedInput = ..., antialias: int | Var | Predicate = ..., axes: Sequence[int] | Var | Predicate = ..., coordinate_transformation_mode: str | Var | Predicate = ..., cubic_coeff_a: float | Var | Predicate = ..., exclude_outside: int | Var | Predicate = ..., extrapolation_value: float | Var | Predicate = ..., keep_aspect_ratio_policy: str | Var | Predicate = ..., mode: str | Var | Predicate = ..., nearest_mode: str | Var | Predicate = ..., roi: NamedInput = ..., scales: NamedInput = ..., sizes: NamedInput = ...) -> OpPattern:
        """Resize(X, [roi], [scales], [sizes]): Resize the input tensor."""
    def ReverseSequence(self, *inputs: PatternInput, batch_axis: int | Var | Predicate = ..., input: NamedInput = ..., sequence_lens: NamedInput = ..., time_axis: int | Var | Predicate = ...) -> OpPattern:
        """ReverseSequence(input, sequence_lens): Reverse batch of sequences having different lengths specified by sequence_lens."""
    def RoiAlign(self, *inputs: PatternInput, X: NamedInput = ..., batch_indices: NamedInput = ..., coordinate_transformation_mode: str | Var | Predicate = ..., mode: str | Var | Predicate = ..., output_height: int | Var | Predicate = ..., output_width: int | Var | Predicate = ..., rois: NamedInput = ..., sampling_ratio: int | Var | Predicate = ..., spatial_scale: float | Var | Predicate = ...) -> OpPattern:
        """RoiAlign(X, rois, batch_indices): Region of Interest (RoI) align operation described in the Mask R-CNN paper."""
    def RotaryEmbedding(self, *inputs: PatternInput, X: NamedInput = ..., cos_cache: NamedInput = ..., interleaved: int | Var | Predicate = ..., num_heads: int | Var | Predicate = ..., position_ids: NamedInput = ..., rotary_embedding_dim: int | Var | Predicate = ..., sin_cache: NamedInput = ...) -> OpPattern:
        """RotaryEmbedding(X, cos_cache, sin_cache, [position_ids]): RotaryEmbedding is the implementation of rotary positional embeddings (RoPE) based on the paper  ..."""
    def Round(self, *inputs: PatternInput, X: NamedInput = ...) -> OpPattern:
        """Round(X): Round takes one input Tensor and rounds the values, element-wise, meaning it finds the nearest ..."""
    def STFT(self, *inputs: PatternInput, frame_length: NamedInput = ..., frame_step: NamedInput = ..., onesided: int | Var | Predicate = ..., signal: NamedInput = ..., window: NamedInput = ...) -> OpPattern:
        """STFT(signal, frame_step, [window], [frame_length]): Computes the Short-time Fourier Transform of the signal."""
    def Scan(self, *inputs: PatternInput, body: Graph | Var | Predicate = ..., num_scan_inputs: int | Var | Predicate = ..., scan_input_axes: Sequence[int] | Var | Predicate = ..., scan_input_directions: Sequence[int] | Var | Predicate = ..., scan_output_axes: Sequence[int] | Var | Predicate = ..., scan_output_directions: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """Scan(initial_state_and_scan_inputs): Scan can be used to iterate over one or more scaninput tensors, constructing zero or more ..."""
    def ScatterElements(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., data: NamedInput = ..., indices: NamedInput = ..., reduction: str | Var | Predicate = ..., updates: NamedInput = ...) -> OpPattern:
        """ScatterElements(data, indices, updates): ScatterElements takes three inputs data, updates, and indices of the same rank r >= 1 and an ..."""
    def ScatterND(self, *inputs: PatternInput, data: NamedInput = ..., indices: NamedInput = ..., reduction: str | Var | Predicate = ..., updates: NamedInput = ...) -> OpPattern:
        """ScatterND(data, indices, updates): ScatterND takes three inputs data tensor of rank r >= 1, indices tensor of rank q >= 1, and updates ..."""
    def Selu(self, *inputs: PatternInput, X: NamedInput = ..., alpha: float | Var | Predicate = ..., gamma: float | Var | Predicate = ...) -> OpPattern:
        """Selu(X): Selu takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the scaled ..."""
    def SequenceAt(self, *inputs: PatternInput, input_sequence: NamedInput = ..., position: NamedInput = ...) -> OpPattern:
        """SequenceAt(input_sequence, position): Outputs a tensor copy from the tensor at 'position' in 'inputsequence'."""
    def SequenceConstruct(self, *inputs: PatternInput) -> OpPattern:
        """SequenceConstruct(inputs): Construct a tensor sequence containing 'inputs' tensors."""
    def SequenceEmpty(self, *inputs: PatternInput, dtype: int | Var | Predicate = ...) -> OpPattern:
        """SequenceEmpty(): Construct an empty tensor sequence, with given data type."""
    def SequenceErase(self, *inputs: PatternInput, input_sequence: NamedInput = ..., position: NamedInput = ...) -> OpPattern:
        """SequenceErase(input_sequence, [position]): Outputs a tensor sequence that removes the tensor at 'position' from 'inputsequence'."""
    def SequenceInsert(self, *inputs: PatternInput, input_sequence: NamedInput = ..., position: NamedInput = ..., tensor: NamedInput = ...) -> OpPattern:
        """SequenceInsert(input_sequence, tensor, [position]): Outputs a tensor sequence that inserts 'tensor' into 'inputsequence' at 'position'. 'tensor' must ..."""
    def SequenceLength(self, *inputs: PatternInput, input_sequence: NamedInput = ...) -> OpPattern:
        """SequenceLength(input_sequence): Produces a scalar(tensor of empty shape) containing the number of tensors in 'input_sequence'."""
    def SequenceMap(self, *inputs: PatternInput, body: Graph | Var | Predicate = ..., input_sequence: NamedInput = ...) -> OpPattern:
        """SequenceMap(input_sequence, additional_inputs): Applies a sub-graph to each sample in the input sequence(s)."""
    def Shape(self, *inputs: PatternInput, data: NamedInput = ..., end: int | Var | Predicate = ..., start: int | Var | Predicate = ...) -> OpPattern:
        """Shape(data): Takes a tensor as input and outputs an 1D int64 tensor containing the shape of the input tensor."""
    def Shrink(self, *inputs: PatternInput, bias: float | Var | Predicate = ..., input: NamedInput = ..., lambd: float | Var | Predicate = ...) -> OpPattern:
        """Shrink(input): Shrink takes one input data (Tensor<numeric>) and produces one Tensor output, having same datatype ..."""
    def Sigmoid(self, *inputs: PatternInput, X: NamedInput = ...) -> OpPattern:
        """Sigmoid(X): Sigmoid takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the sigmoid ..."""
    def Sign(self, *inputs: PatternInput, input: NamedInput = ...) -> OpPattern:
        """Sign(input): Calculate the sign of the given input tensor element-wise."""
    def Sin(self, *inputs: PatternInput, input: NamedInput = ...) -> OpPattern:
        """Sin(input): Calculates the sine of the given input tensor, element-wise."""
    def Sinh(self, *inputs: PatternInput, input: NamedInput = ...) -> OpPattern:
        """Sinh(input): Calculates the hyperbolic sine of the given input tensor element-wise."""
    def Size(self, *inputs: PatternInput, data: NamedInput = ...) -> OpPattern:
        """Size(data): Takes a tensor as input and outputs a int64 scalar that equals to the total number of elements of ..."""
    def Slice(self, *inputs: PatternInput, axes: NamedInput = ..., data: NamedInput = ..., ends: NamedInput = ..., starts: NamedInput = ..., steps: NamedInput = ...) -> OpPattern:
        """Slice(data, starts, ends, [axes], [steps]): Produces a slice of the input tensor along multiple axes."""
    def Softmax(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., input: NamedInput = ...) -> OpPattern:
        """Softmax(input): The operator computes the normalized exponential values for the given input."""
    def SoftmaxCrossEntropyLoss(self, *inputs: PatternInput, ignore_index: int | Var | Predicate = ..., labels: NamedInput = ..., reduction: str | Var | Predicate = ..., scores: NamedInput = ..., weights: NamedInput = ...) -> OpPattern:
        """SoftmaxCrossEntropyLoss(scores, labels, [weights]): Loss function that measures the softmax cross entropy between 'scores' and 'labels'."""
    def Softplus(self, *inputs: PatternInput, X: NamedInput = ...) -> OpPattern:
        """Softplus(X): Softplus takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the ..."""
    def Softsign(self, *inputs: PatternInput, input: NamedInput = ...) -> OpPattern:
        """Softsign(input): Calculates the softsign (x/(1+|x|)) of the given input tensor element-wise."""
    def SpaceToDepth(self, *inputs: PatternInput, blocksize: int | Var | Predicate = ..., input: NamedInput = ..., mode: str | Var | Predicate = ...) -> OpPattern:
        """SpaceToDepth(input): SpaceToDepth rearranges blocks of spatial data into depth."""
    def Split(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., input: NamedInput = ..., num_outputs: int | Var | Predicate = ..., split: NamedInput = ...) -> OpPattern:
        """Split(input, [split]): Split a tensor into a list of tensors, along the specified 'axis'."""
    def SplitToSequence(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., input: NamedInput = ..., keepdims: int | Var | Predicate = ..., split: NamedInput = ...) -> OpPattern:
        """SplitToSequence(input, [split]): Split a tensor into a sequence of tensors, along the specified 'axis'."""
    def Sqrt(self, *inputs: PatternInput, X: NamedInput = ...) -> OpPattern:
        """Sqrt(X): Square root takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the ..."""
    def Squeeze(self, *inputs: PatternInput, axes: NamedInput = ..., data: NamedInput = ...) -> OpPattern:
        """Squeeze(data, [axes]): Remove single-dimensional entries from the shape of a tensor."""
    def StringConcat(self, *inputs: PatternInput, X: NamedInput = ..., Y: NamedInput = ...) -> OpPattern:
        """StringConcat(X, Y): StringConcat concatenates string tensors elementwise (with NumPy-style broadcasting support)."""
    def StringNormalizer(self, *inputs: PatternInput, X: NamedInput = ..., case_change_action: str | Var | Predicate = ..., is_case_sensitive: int | Var | Predicate = ..., locale: str | Var | Predicate = ..., stopwords: Sequence[str] | Var | Predicate = ...) -> OpPattern:
        """StringNormalizer(X): StringNormalization performs string operations for basic cleaning."""
    def StringSplit(self, *inputs: PatternInput, X: NamedInput = ..., delimiter: str | Var | Predicate = ..., maxsplit: int | Var | Predicate = ...) -> OpPattern:
        """StringSplit(X): StringSplit splits a string tensor's elements into substrings based on a delimiter attribute and a ..."""
    def Sub(self, *inputs: PatternInput, A: NamedInput = ..., B: NamedInput = ...) -> OpPattern:
        """Sub(A, B): Performs element-wise binary subtraction (with Numpy-style broadcasting support)."""
    def Sum(self, *inputs: PatternInput) -> OpPattern:
        """Sum(data_0): Element-wise sum of each of the input tensors (with Numpy-style broadcasting support)."""
    def SwiGLU(self, *inputs: PatternInput, A: NamedInput = ..., B: NamedInput = ..., alpha: float | Var | Predicate = ...) -> OpPattern:
        """SwiGLU(A, B): SwiGLU is a gated activation that takes two inputs, a gate A and a linear (value) input B, and ..."""
    def Swish(self, *inputs: PatternInput, X: NamedInput = ..., alpha: float | Var | Predicate = ...) -> OpPattern:
        """Swish(X): Swish function takes one input data (Tensor<T>) and produces one output data (Tensor<T>) of the ..."""
    def Tan(self, *inputs: PatternInput, input: NamedInput = ...) -> OpPattern:
        """Tan(input): Calculates the tangent of the given input tensor, element-wise."""
    def Tanh(self, *inputs: PatternInput, input: NamedInput = ...) -> OpPattern:
        """Tanh(input): Calculates the hyperbolic tangent of the given input tensor element-wise."""
    def TensorScatter(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., mode: str | Var | Predicate = ..., past_cache: NamedInput = ..., update: NamedInput = ..., write_indices: NamedInput = ...) -> OpPattern:
        """TensorScatter(past_cache, update, [write_indices]): TensorScatter is a generic tensor update operation, motivated by the requirements for KV cache ..."""
    def TfIdfVectorizer(self, *inputs: PatternInput, X: NamedInput = ..., max_gram_length: int | Var | Predicate = ..., max_skip_count: int | Var | Predicate = ..., min_gram_length: int | Var | Predicate = ..., mode: str | Var | Predicate = ..., ngram_counts: Sequence[int] | Var | Predicate = ..., ngram_indexes: Sequence[int] | Var | Predicate = ..., pool_int64s: Sequence[int] | Var | Predicate = ..., pool_strings: Sequence[str] | Var | Predicate = ..., weights: Sequence[float] | Var | Predicate = ...) -> OpPattern:
        """TfIdfVectorizer(X): This transform extracts n-grams from the input sequence and save them as a vector."""
    def ThresholdedRelu(self, *inputs: PatternInput, X: NamedInput = ..., alpha: float | Var | Predicate = ...) -> OpPattern:
        """ThresholdedRelu(X): ThresholdedRelu takes one input data (Tensor<T>) and produces one output data (Tensor<T>) where the ..."""
    def Tile(self, *inputs: PatternInput, input: NamedInput = ..., repeats: NamedInput = ...) -> OpPattern:
        """Tile(input, repeats): Constructs a tensor by tiling a given tensor."""
    def TopK(self, *inputs: PatternInput, K: NamedInput = ..., X: NamedInput = ..., axis: int | Var | Predicate = ..., largest: int | Var | Predicate = ..., sorted: int | Var | Predicate = ...) -> OpPattern:
        """TopK(X, K): Retrieve the top-K largest or smallest elements along a specified axis."""
    def Transpose(self, *inputs: PatternInput, data: NamedInput = ..., perm: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """Transpose(data): Returns a transpose of the input tensor."""
    def Trilu(self, *inputs: PatternInput, input: NamedInput = ..., k: NamedInput = ..., upper: int | Var | Predicate = ...) -> OpPattern:
        """Trilu(input, [k]): Given a 2-D matrix or batches of 2-D matrices, returns the upper or lower triangular part of the ..."""
    def Unique(self, *inputs: PatternInput, X: NamedInput = ..., axis: int | Var | Predicate = ..., sorted: int | Var | Predicate = ...) -> OpPattern:
        """Unique(X): Find the unique elements of a tensor."""
    def Unsqueeze(self, *inputs: PatternInput, axes: NamedInput = ..., data: NamedInput = ...) -> OpPattern:
        """Unsqueeze(data, axes): Insert single-dimensional entries to the shape of an input tensor (data)."""
    def Where(self, *inputs: PatternInput, X: NamedInput = ..., Y: NamedInput = ..., condition: NamedInput = ...) -> OpPattern:
        """Where(condition, X, Y): Return elements, either from X or Y, depending on condition."""
    def Xor(self, *inputs: PatternInput, A: NamedInput = ..., B: NamedInput = ...) -> OpPattern:
        """Xor(A, B): Returns the tensor resulted from performing the xor logical operation elementwise on the input ..."""

class MlOperators:
    """The operators of ai.onnx.ml."""
    def ArrayFeatureExtractor(self, X: Operand, Y: Operand) -> Value:
        """ArrayFeatureExtractor(X, Y): Select elements of the input tensor based on the indices passed."""
    def Binarizer(self, X: Operand, *, threshold: float | None = 0.0) -> Value:
        """Binarizer(X): Maps the values of the input tensor to either 0 or 1, element-wise, based on the outcome of a ..."""
    def CastMap(self, X: Operand, *, cast_to: str | None = 'TO_FLOAT', map_form: str | None = 'DENSE', max_map: int | None = 1) -> Value:
        """CastMap(X): Converts a map to a tensor."""
    def CategoryMapper(self, X: Operand, *, cats_int64s: Sequence[int] | None = None, cats_strings: Sequence[str] | None = None, default_int64: int | None = -1, default_string: str | None = '_Unused') -> Value:
        """CategoryMapper(X): Converts strings to integers and vice versa."""
    def DictVectorizer(self, X: Operand, *, int64_vocabulary: Sequence[int] | None = None, string_vocabulary: Sequence[str] | None = None) -> Value:
        """DictVectorizer(X): Uses an index mapping to convert a dictionary to an array."""
    def FeatureVectorizer(self, *X: Operand | None, inputdimensions: Sequence[int] | None = None) -> Value:
        """FeatureVectorizer(X): Concatenates input tensors into one continuous output."""
    def Imputer(self, X: Operand, *, imputed_value_floats: Sequence[float] | None = None, imputed_value_int64s: Sequence[int] | None = None, replaced_value_float: float | None = 0.0, replaced_value_int64: int | None = 0) -> Value:
        """Imputer(X): Replaces inputs that equal one value with another, leaving all other elements alone."""
    def LabelEncoder(self, X: Operand, *, default_float: float | None = -0.0, default_int64: int | None = -1, default_string: str | None = '_Unused', default_tensor: Tensor | onnx.TensorProto | None = None, keys_floats: Sequence[float] | None = None, keys_int64s: Sequence[int] | None = None, keys_strings: Sequence[str] | None = None, keys_tensor: Tensor | onnx.TensorProto | None = None, values_floats: Sequence[float] | None = None, values_int64s: Sequence[int] | None = None, values_strings: Sequence[str] | None = None, values_tensor: Tensor | onnx.TensorProto | None = None) -> Value:
        """LabelEncoder(X): Maps each element in the input tensor to another value."""
    def LinearClassifier(self, X: Operand, *, coefficients: Sequence[float], classlabels_ints: Sequence[int] | None = None, classlabels_strings: Sequence[str] | None = None, intercepts: Sequence[float] | None = None, multi_class: int | None = 0, post_transform: str | None = 'NONE') -> tuple[Value, Value]:
        """LinearClassifier(X): Linear classifier."""
    def LinearRegressor(self, X: Operand, *, coefficients: Sequence[float] | None = None, intercepts: Sequence[float] | None = None, post_transform: str | None = 'NONE', targets: int | None = 1) -> Value:
        """LinearRegressor(X): Generalized linear regression evaluation."""
    def Normalizer(self, X: Operand, *, norm: str | None = 'MAX') -> Value:
        """Normalizer(X): Normalize the input."""
    def OneHotEncoder(self, X: Operand, *, cats_int64s: Sequence[int] | None = None, cats_strings: Sequence[str] | None = None, zeros: int | None = 1) -> Value:
        """OneHotEncoder(X): Replace each input element with an array of ones and zeros, where a single one is placed at the ..."""
    def SVMClassifier(self, X: Operand, *, classlabels_ints: Sequence[int] | None = None, classlabels_strings: Sequence[str] | None = None, coefficients: Sequence[float] | None = None, kernel_params: Sequence[float] | None = None, kernel_type: str | None = 'LINEAR', post_transform: str | None = 'NONE', prob_a: Sequence[float] | None = None, prob_b: Sequence[float] | None = None, rho: Sequence[float] | None = None, support_vectors: Sequence[float] | None = None, vectors_per_class: Sequence[int] | None = None) -> tuple[Value, Value]:
        """SVMClassifier(X): Support Vector Machine classifier."""
    def SVMRegressor(self, X: Operand, *, coefficients: Sequence[float] | None = None, kernel_params: Sequence[float] | None = None, kernel_type: str | None = 'LINEAR', n_supports: int | None = 0, one_class: int | None = 0, post_transform: str | None = 'NONE', rho: Sequence[float] | None = None, support_vectors: Sequence[float] | None = None) -> Value:
        """SVMRegressor(X): Support Vector Machine regression prediction and one-class SVM anomaly detection."""
    def Scaler(self, X: Operand, *, offset: Sequence[float] | None = None, scale: Sequence[float] | None = None) -> Value:
        """Scaler(X): Rescale input data, for example to standardize features by removing the mean and scaling to unit ..."""
    def TreeEnsemble(self, X: Operand, *, leaf_targetids: Sequence[int], leaf_weights: Tensor | onnx.TensorProto, nodes_falseleafs: Sequence[int], nodes_falsenodeids: Sequence[int], nodes_featureids: Sequence[int], nodes_modes: Tensor | onnx.TensorProto, nodes_splits: Tensor | onnx.TensorProto, nodes_trueleafs: Sequence[int], nodes_truenodeids: Sequence[int], tree_roots: Sequence[int], aggregate_function: int | None = 1, membership_values: Tensor | onnx.TensorProto | None = None, n_targets: int | None = None, nodes_hitrates: Tensor | onnx.TensorProto | None = None, nodes_missing_value_tracks_true: Sequence[int] | None = None, post_transform: int | None = 0) -> Value:
        """TreeEnsemble(X): Tree Ensemble operator."""
    def ZipMap(self, X: Operand, *, classlabels_int64s: Sequence[int] | None = None, classlabels_strings: Sequence[str] | None = None) -> Value:
        """ZipMap(X): Creates a map from the input and the attributes."""

class MlOperatorPatterns:
    """Patterns of the operators of ai.onnx.ml."""
    def ArrayFeatureExtractor(self, *inputs: PatternInput, X: NamedInput = ..., Y: NamedInput = ...) -> OpPattern:
        """ArrayFeatureExtractor(X, Y): Select elements of the input tensor based on the indices passed."""
    def Binarizer(self, *inputs: PatternInput, X: NamedInput = ..., threshold: float | Var | Predicate = ...) -> OpPattern:
        """Binarizer(X): Maps the values of the input tensor to either 0 or 1, element-wise, based on the outcome of a ..."""
    def CastMap(self, *inputs: PatternInput, X: NamedInput = ..., cast_to: str | Var | Predicate = ..., map_form: str | Var | Predicate = ..., max_map: int | Var | Predicate = ...) -> OpPattern:
        """CastMap(X): Converts a map to a tensor."""
    def CategoryMapper(self, *inputs: PatternInput, X: NamedInput = ..., cats_int64s: Sequence[int] | Var | Predicate = ..., cats_strings: Sequence[str] | Var | Predicate = ..., default_int64: int | Var | Predicate = ..., default_string: str | Var | Predicate = ...) -> OpPattern:
        """CategoryMapper(X): Converts strings to integers and vice versa."""
    def DictVectorizer(self, *inputs: PatternInput, X: NamedInput = ..., int64_vocabulary: Sequence[int] | Var | Predicate = ..., string_vocabulary: Sequence[str] | Var | Predicate = ...) -> OpPattern:
        """DictVectorizer(X): Uses an index mapping to convert a dictionary to an array."""
    def FeatureVectorizer(self, *inputs: PatternInput, inputdimensions: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """FeatureVectorizer(X): Concatenates input tensors into one continuous output."""
    def Imputer(self, *inputs: PatternInput, X: NamedInput = ..., imputed_value_floats: Sequence[float] | Var | Predicate = ..., imputed_value_int64s: Sequence[int] | Var | Predicate = ..., replaced_value_float: float | Var | Predicate = ..., replaced_value_int64: int | Var | Predicate = ...) -> OpPattern:
        """Imputer(X): Replaces inputs that equal one value with another, leaving all other elements alone."""
    def LabelEncoder(self, *inputs: PatternInput, X: NamedInput = ..., default_float: float | Var | Predicate = ..., default_int64: int | Var | Predicate = ..., default_string: str | Var | Predicate = ..., default_tensor: Tensor | onnx.TensorProto | Var | Predicate = ..., keys_floats: Sequence[float] | Var | Predicate = ..., keys_int64s: Sequence[int] | Var | Predicate = ..., keys_strings: Sequence[str] | Var | Predicate = ..., keys_tensor: Tensor | onnx.TensorProto | Var | Predicate = ..., values_floats: Sequence[float] | Var | Predicate = ..., values_int64s: Sequence[int] | Var | Predicate = ..., values_strings: Sequence[str] | Var | Predicate = ..., values_tensor: Tensor | onnx.TensorProto | Var | Predicate = ...) -> OpPattern:
        """LabelEncoder(X): Maps each element in the input tensor to another value."""
    def LinearClassifier(self, *inputs: PatternInput, X: NamedInput = ..., classlabels_ints: Sequence[int] | Var | Predicate = ..., classlabels_strings: Sequence[str] | Var | Predicate = ..., coefficients: Sequence[float] | Var | Predicate = ..., intercepts: Sequence[float] | Var | Predicate = ..., multi_class: int | Var | Predicate = ..., post_transform: str | Var | Predicate = ...) -> OpPattern:
        """LinearClassifier(X): Linear classifier."""
    def LinearRegressor(self, *inputs: PatternInput, X: NamedInput = ..., coefficients: Sequence[float] | Var | Predicate = ..., intercepts: Sequence[float] | Var | Predicate = ..., post_transform: str | Var | Predicate = ..., targets: int | Var | Predicate = ...) -> OpPattern:
        """LinearRegressor(X): Generalized linear regression evaluation."""
    def Normalizer(self, *inputs: PatternInput, X: NamedInput = ..., norm: str | Var | Predicate = ...) -> OpPattern:
        """Normalizer(X): Normalize the input."""
    def OneHotEncoder(self, *inputs: PatternInput, X: NamedInput = ..., cats_int64s: Sequence[int] | Var | Predicate = ..., cats_strings: Sequence[str] | Var | Predicate = ..., zeros: int | Var | Predicate = ...) -> OpPattern:
        """OneHotEncoder(X): Replace each input element with an array of ones and zeros, where a single one is placed at the ..."""
    def SVMClassifier(self, *inputs: PatternInput, X: NamedInput = ..., classlabels_ints: Sequence[int] | Var | Predicate = ..., classlabels_strings: Sequence[str] | Var | Predicate = ..., coefficients: Sequence[float] | Var | Predicate = ..., kernel_params: Sequence[float] | Var | Predicate = ..., kernel_type: str | Var | Predicate = ..., post_transform: str | Var | Predicate = ..., prob_a: Sequence[float] | Var | Predicate = ..., prob_b: Sequence[float] | Var | Predicate = ..., rho: Sequence[float] | Var | Predicate = ..., support_vectors: Sequence[float] | Var | Predicate = ..., vectors_per_class: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """SVMClassifier(X): Support Vector Machine classifier."""
    def SVMRegressor(self, *inputs: PatternInput, X: NamedInput = ..., coefficients: Sequence[float] | Var | Predicate = ..., kernel_params: Sequence[float] | Var | Predicate = ..., kernel_type: str | Var | Predicate = ..., n_supports: int | Var | Predicate = ..., one_class: int | Var | Predicate = ..., post_transform: str | Var | Predicate = ..., rho: Sequence[float] | Var | Predicate = ..., support_vectors: Sequence[float] | Var | Predicate = ...) -> OpPattern:
        """SVMRegressor(X): Support Vector Machine regression prediction and one-class SVM anomaly detection."""
    def Scaler(self, *inputs: PatternInput, X: NamedInput = ..., offset: Sequence[float] | Var | Predicate = ..., scale: Sequence[float] | Var | Predicate = ...) -> OpPattern:
        """Scaler(X): Rescale input data, for example to standardize features by removing the mean and scaling to unit ..."""
    def TreeEnsemble(self, *inputs: PatternInput, X: NamedInput = ..., aggregate_function: int | Var | Predicate = ..., leaf_targetids: Sequence[int] | Var | Predicate = ..., leaf_weights: Tensor | onnx.TensorProto | Var | Predicate = ..., membership_values: Tensor | onnx.TensorProto | Var | Predicate = ..., n_targets: int | Var | Predicate = ..., nodes_falseleafs: Sequence[int] | Var | Predicate = ..., nodes_falsenodeids: Sequence[int] | Var | Predicate = ..., nodes_featureids: Sequence[int] | Var | Predicate = ..., nodes_hitrates: Tensor | onnx.TensorProto | Var | Predicate = ..., nodes_missing_value_tracks_true: Sequence[int] | Var | Predicate = ..., nodes_modes: Tensor | onnx.TensorProto | Var | Predicate = ..., nodes_splits: Tensor | onnx.TensorProto | Var | Predicate = ..., nodes_trueleafs: Sequence[int] | Var | Predicate = ..., nodes_truenodeids: Sequence[int] | Var | Predicate = ..., post_transform: int | Var | Predicate = ..., tree_roots: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """TreeEnsemble(X): Tree Ensemble operator."""
    def ZipMap(self, *inputs: PatternInput, X: NamedInput = ..., classlabels_int64s: Sequence[int] | Var | Predicate = ..., classlabels_strings: Sequence[str] | Var | Predicate = ...) -> OpPattern:
        """ZipMap(X): Creates a map from the input and the attributes."""

class PreviewOperators:
    """The operators of ai.onnx.preview."""
    def FlexAttention(self, Q: Operand, K: Operand, V: Operand, *, prob_mod: Graph | None = None, scale: float | None = None, score_mod: Graph | None = None, softmax_precision: int | None = None) -> Value:
        """FlexAttention(Q, K, V): Computes scaled dot-product attention over rank-4 (batched, multi-head) inputs, with optional ..."""

class PreviewOperatorPatterns:
    """Patterns of the operators of ai.onnx.preview."""
    def FlexAttention(self, *inputs: PatternInput, K: NamedInput = ..., Q: NamedInput = ..., V: NamedInput = ..., prob_mod: Graph | Var | Predicate = ..., scale: float | Var | Predicate = ..., score_mod: Graph | Var | Predicate = ..., softmax_precision: int | Var | Predicate = ...) -> OpPattern:
        """FlexAttention(Q, K, V): Computes scaled dot-product attention over rank-4 (batched, multi-head) inputs, with optional ..."""

class TrainingOperators:
    """The operators of ai.onnx.preview.training."""
    @overload
    def Adagrad(self, R: Operand, T: Operand, *inputs: Operand | None, decay_factor: float | None = 0.0, epsilon: float | None = 1e-06, norm_coefficient: float | None = 0.0) -> Value:
        """Adagrad(R, T, inputs): Compute one iteration of ADAGRAD, a stochastic gradient based optimization algorithm."""
    @overload
    def Adagrad(self, R: Operand, T: Operand, *inputs: Operand | None, outputs: int, decay_factor: float | None = 0.0, epsilon: float | None = 1e-06, norm_coefficient: float | None = 0.0) -> tuple[Value, ...]:
        """Adagrad(R, T, inputs): Compute one iteration of ADAGRAD, a stochastic gradient based optimization algorithm."""
    @overload
    def Adam(self, R: Operand, T: Operand, *inputs: Operand | None, alpha: float | None = 0.9, beta: float | None = 0.999, epsilon: float | None = 1e-06, norm_coefficient: float | None = 0.0, norm_coefficient_post: float | None = 0.0) -> Value:
        """Adam(R, T, inputs): Compute one iteration of Adam, a stochastic gradient based optimization algorithm."""
    @overload
    def Adam(self, R: Operand, T: Operand, *inputs: Operand | None, outputs: int, alpha: float | None = 0.9, beta: float | None = 0.999, epsilon: float | None = 1e-06, norm_coefficient: float | None = 0.0, norm_coefficient_post: float | None = 0.0) -> tuple[Value, ...]:
        """Adam(R, T, inputs): Compute one iteration of Adam, a stochastic gradient based optimization algorithm."""
    @overload
    def Gradient(self, *Inputs: Operand | None, xs: Sequence[str], y: str, zs: Sequence[str] | None = None) -> Value:
        """Gradient(Inputs): Gradient operator computes the partial derivatives of a specific tensor w.r.t. some other tensors."""
    @overload
    def Gradient(self, *Inputs: Operand | None, outputs: int, xs: Sequence[str], y: str, zs: Sequence[str] | None = None) -> tuple[Value, ...]:
        """Gradient(Inputs): Gradient operator computes the partial derivatives of a specific tensor w.r.t. some other tensors."""
    @overload
    def Momentum(self, R: Operand, T: Operand, *inputs: Operand | None, alpha: float, beta: float, mode: str, norm_coefficient: float) -> Value:
        """Momentum(R, T, inputs): Compute one iteration of stochastic gradient update with momentum."""
    @overload
    def Momentum(self, R: Operand, T: Operand, *inputs: Operand | None, outputs: int, alpha: float, beta: float, mode: str, norm_coefficient: float) -> tuple[Value, ...]:
        """Momentum(R, T, inputs): Compute one iteration of stochastic gradient update with momentum."""

class TrainingOperatorPatterns:
    """Patterns of the operators of ai.onnx.preview.training."""
    def Adagrad(self, *inputs: PatternInput, R: NamedInput = ..., T: NamedInput = ..., decay_factor: float | Var | Predicate = ..., epsilon: float | Var | Predicate = ..., norm_coefficient: float | Var | Predicate = ...) -> OpPattern:
        """Adagrad(R, T, inputs): Compute one iteration of ADAGRAD, a stochastic gradient based optimization algorithm."""
    def Adam(self, *inputs: PatternInput, R: NamedInput = ..., T: NamedInput = ..., alpha: float | Var | Predicate = ..., beta: float | Var | Predicate = ..., epsilon: float | Var | Predicate = ..., norm_coefficient: float | Var | Predicate = ..., norm_coefficient_post: float | Var | Predicate = ...) -> OpPattern:
        """Adam(R, T, inputs): Compute one iteration of Adam, a stochastic gradient based optimization algorithm."""
    def Gradient(self, *inputs: PatternInput, xs: Sequence[str] | Var | Predicate = ..., y: str | Var | Predicate = ..., zs: Sequence[str] | Var | Predicate = ...) -> OpPattern:
        """Gradient(Inputs): Gradient operator computes the partial derivatives of a specific tensor w.r.t. some other tensors."""
    def Momentum(self, *inputs: PatternInput, R: NamedInput = ..., T: NamedInput = ..., alpha: float | Var | Predicate = ..., beta: float | Var | Predicate = ..., mode: str | Var | Predicate = ..., norm_coefficient: float | Var | Predicate = ...) -> OpPattern:
        """Momentum(R, T, inputs): Compute one iteration of stochastic gradient update with momentum."""

class ContribOperators:
    """The operators of com.microsoft."""
    @overload
    def Attention(self, input: Operand, weights: Operand, bias: Operand | None = None, mask_index: Operand | None = None, past: Operand | None = None, attention_bias: Operand | None = None, past_sequence_length: Operand | None = None, /, *, num_heads: int, do_rotary: int | None = None, mask_filter_value: float | None = None, past_present_share_buffer: int | None = None, qkv_hidden_sizes: Sequence[int] | None = None, rotary_embedding_dim: int | None = None, scale: float | None = None, unidirectional: int | None = None) -> Value:
        """Attention(input, weights, [bias], [mask_index], [past], [attention_bias], [past_sequence_length]): Multi-Head Attention that can be either unidirectional (like GPT-2) or bidirectional (like BERT)."""
    @overload
    def Attention(self, input: Operand, weights: Operand, bias: Operand | None = None, mask_index: Operand | None = None, past: Operand | None = None, attention_bias: Operand | None = None, past_sequence_length: Operand | None = None, /, *, outputs: int, num_heads: int, do_rotary: int | None = None, mask_filter_value: float | None = None, past_present_share_buffer: int | None = None, qkv_hidden_sizes: Sequence[int] | None = None, rotary_embedding_dim: int | None = None, scale: float | None = None, unidirectional: int | None = None) -> tuple[Value, ...]:
        """Attention(input, weights, [bias], [mask_index], [past], [attention_bias], [past_sequence_length]): Multi-Head Attention that can be either unidirectional (like GPT-2) or bidirectional (like BERT)."""
    @overload
    def AttnLSTM(self, X: Operand, W: Operand, R: Operand, B: Operand | None = None, sequence_lens: Operand | None = None, initial_h: Operand | None = None, initial_c: Operand | None = None, P: Operand | None = None, QW: Operand | None = None, MW: Operand | None = None, V: Operand | None = None, M: Operand | None = None, memory_seq_lens: Operand | None = None, AW: Operand | None = None, /, *, activation_alpha: Sequence[float] | None = None, activation_beta: Sequence[float] | None = None, activations: Sequence[str] | None = None, clip: float | None = None, direction: str | None = None, hidden_size: int | None = None, input_forget: int | None = None) -> Value:
        """AttnLSTM(X, W, R, [B], [sequence_lens], [initial_h], [initial_c], [P], [QW], [MW], [V], [M], [memory_seq_lens], [AW]): Computes an one-layer RNN where its RNN Cell is an AttentionWrapper wrapped a LSTM Cell."""
    @overload
    def AttnLSTM(self, X: Operand, W: Operand, R: Operand, B: Operand | None = None, sequence_lens: Operand | None = None, initial_h: Operand | None = None, initial_c: Operand | None = None, P: Operand | None = None, QW: Operand | None = None, MW: Operand | None = None, V: Operand | None = None, M: Operand | None = None, memory_seq_lens: Operand | None = None, AW: Operand | None = None, /, *, outputs: int, activation_alpha: Sequence[float] | None = None, activation_beta: Sequence[float] | None = None, activations: Sequence[str] | None = None, clip: float | None = None, direction: str | None = None, hidden_size: int | None = None, input_forget: int | None = None) -> tuple[Value, ...]:
        """AttnLSTM(X, W, R, [B], [sequence_lens], [initial_h], [initial_c], [P], [QW], [MW], [V], [M], [memory_seq_lens], [AW]): Computes an one-layer RNN where its RNN Cell is an AttentionWrapper wrapped a LSTM Cell."""
    @overload
    def BeamSearch(self, input_ids: Operand, max_length: Operand, min_length: Operand | None, num_beams: Operand, num_return_sequences: Operand, length_penalty: Operand | None = None, repetition_penalty: Operand | None = None, vocab_mask: Operand | None = None, prefix_vocab_mask: Operand | None = None, attention_mask: Operand | None = None, decoder_input_ids: Operand | None = None, logits_processor: Operand | None = None, /, *, decoder: Graph, eos_token_id: int, pad_token_id: int, decoder_start_token_id: int | None = None, early_stopping: int | None = None, encoder: Graph | None = None, init_decoder: Graph | None = None, model_type: int | None = None, no_repeat_ngram_size: int | None = None, vocab_size: int | None = None) -> Value:
        """BeamSearch(input_ids, max_length, [min_length], num_beams, num_return_sequences, [length_penalty], [repetition_penalty], [vocab_mask], [prefix_vocab_mask], [attention_mask], [decoder_input_ids], [logits_processor]): Beam Search for text generation."""
    @overload
    def BeamSearch(self, input_ids: Operand, max_length: Operand, min_length: Operand | None, num_beams: Operand, num_return_sequences: Operand, length_penalty: Operand | None = None, repetition_penalty: Operand | None = None, vocab_mask: Operand | None = None, prefix_vocab_mask: Operand | None = None, attention_mask: Operand | None = None, decoder_input_ids: Operand | None = None, logits_processor: Operand | None = None, /, *, outputs: int, decoder: Graph, eos_token_id: int, pad_token_id: int, decoder_start_token_id: int | None = None, early_stopping: int | None = None, encoder: Graph | None = None, init_decoder: Graph | None = None, model_type: int | None = None, no_repeat_ngram_size: int | None = None, vocab_size: int | None = None) -> tuple[Value, ...]:
        """BeamSearch(input_ids, max_length, [min_length], num_beams, num_return_sequences, [length_penalty], [repetition_penalty], [vocab_mask], [prefix_vocab_mask], [attention_mask], [decoder_input_ids], [logits_processor]): Beam Search for text generation."""
    def BiasAdd(self, X: Operand, bias: Operand, skip: Operand, /) -> Value:
        """BiasAdd(X, bias, skip): Add input with bias, then add residual inputs."""
    @overload
    def BiasDropout(self, data: Operand, bias: Operand, residual: Operand | None = None, ratio: Operand | None = None, training_mode: Operand | None = None, /, *, seed: int | None = None) -> Value:
        """BiasDropout(data, bias, [residual], [ratio], [training_mode]): output, dropout_mask = Dropout(data + bias, ratio) + residual, Intended to specialize the dropout ..."""
    @overload
    def BiasDropout(self, data: Operand, bias: Operand, residual: Operand | None = None, ratio: Operand | None = None, training_mode: Operand | None = None, /, *, outputs: int, seed: int | None = None) -> tuple[Value, ...]:
        """BiasDropout(data, bias, [residual], [ratio], [training_mode]): output, dropout_mask = Dropout(data + bias, ratio) + residual, Intended to specialize the dropout ..."""
    def BiasGelu(self, A: Operand, B: Operand, /) -> Value:
        """BiasGelu(A, B): Bias Gelu."""
    def BiasSoftmax(self, data: Operand, bias: Operand, /, *, is_inner_broadcast: int, axis: int | None = None) -> Value:
        """BiasSoftmax(data, bias): Y = softmax(scores + bias)) with simple broadcast on bias."""
    def BiasSplitGelu(self, X: Operand, bias: Operand, /) -> Value:
        """BiasSplitGelu(X, bias): A fusion used in diffusion model that after adding bias, hidden state is sliced into two tensors of ..."""
    @overload
    def BifurcationDetector(self, src_tokens: Operand, cur_tokens: Operand, prev_suffix_match_idx: Operand, pred_tokens: Operand | None = None, /, *, max_ngram_size: int | None = None, min_ngram_size: int | None = None) -> Value:
        """BifurcationDetector(src_tokens, cur_tokens, prev_suffix_match_idx, [pred_tokens]): Component for aggressive decoding."""
    @overload
    def BifurcationDetector(self, src_tokens: Operand, cur_tokens: Operand, prev_suffix_match_idx: Operand, pred_tokens: Operand | None = None, /, *, outputs: int, max_ngram_size: int | None = None, min_ngram_size: int | None = None) -> tuple[Value, ...]:
        """BifurcationDetector(src_tokens, cur_tokens, prev_suffix_match_idx, [pred_tokens]): Component for aggressive decoding."""
    @overload
    def BitmaskBiasDropout(self, data: Operand, bias: Operand, residual: Operand | None = None, ratio: Operand | None = None, training_mode: Operand | None = None, /, *, seed: int | None = None) -> Value:
        """BitmaskBiasDropout(data, bias, [residual], [ratio], [training_mode]): output, dropout_bitmask = Dropout(data + bias, ratio) + residual, Intended to specialize the ..."""
    @overload
    def BitmaskBiasDropout(self, data: Operand, bias: Operand, residual: Operand | None = None, ratio: Operand | None = None, training_mode: Operand | None = None, /, *, outputs: int, seed: int | None = None) -> tuple[Value, ...]:
        """BitmaskBiasDropout(data, bias, [residual], [ratio], [training_mode]): output, dropout_bitmask = Dropout(data + bias, ratio) + residual, Intended to specialize the ..."""
    @overload
    def BitmaskDropout(self, data: Operand, ratio: Operand | None = None, training_mode: Operand | None = None, /, *, seed: int | None = None) -> Value:
        """BitmaskDropout(data, [ratio], [training_mode]): BitmaskDropout takes an input floating-point tensor, an optional input ratio (floating-point ..."""
    @overload
    def BitmaskDropout(self, data: Operand, ratio: Operand | None = None, training_mode: Operand | None = None, /, *, outputs: int, seed: int | None = None) -> tuple[Value, ...]:
        """BitmaskDropout(data, [ratio], [training_mode]): BitmaskDropout takes an input floating-point tensor, an optional input ratio (floating-point ..."""
    def BranchwiseRMSNorm(self, X: Operand, scale: Operand | None = None, /, *, epsilon: float | None = None, num_branches: int | None = None) -> Value:
        """BranchwiseRMSNorm(X, [scale]): Applies RMS normalization independently to each branch."""
    def CDist(self, A: Operand, B: Operand, /, *, metric: str | None = None) -> Value:
        """CDist(A, B)."""
    @overload
    def CausalConvWithState(self, input: Operand, weight: Operand, bias: Operand | None = None, past_state: Operand | None = None, /, *, activation: str | None = None, channels_last: int | None = None, dilation: int | None = None, ndim: int | None = None, state_window: int | None = None) -> Value:
        """CausalConvWithState(input, weight, [bias], [past_state]): Stateful causal depthwise convolution, generalized to N spatial dimensions."""
    @overload
    def CausalConvWithState(self, input: Operand, weight: Operand, bias: Operand | None = None, past_state: Operand | None = None, /, *, outputs: int, activation: str | None = None, channels_last: int | None = None, dilation: int | None = None, ndim: int | None = None, state_window: int | None = None) -> tuple[Value, ...]:
        """CausalConvWithState(input, weight, [bias], [past_state]): Stateful causal depthwise convolution, generalized to N spatial dimensions."""
    def ComplexMul(self, A: Operand, B: Operand, /) -> Value:
        """ComplexMul(A, B)."""
    def ComplexMulConj(self, A: Operand, B: Operand, /) -> Value:
        """ComplexMulConj(A, B)."""
    def ConvTransposeWithDynamicPads(self, X: Operand, W: Operand, Pads: Operand | None = None, B: Operand | None = None, /, *, auto_pad: str | None = None, dilations: Sequence[int] | None = None, group: int | None = None, kernel_shape: Sequence[int] | None = None, output_padding: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Value:
        """ConvTransposeWithDynamicPads(X, W, [Pads], [B])."""
    def CropAndResize(self, X: Operand, rois: Operand, batch_indices: Operand, crop_size: Operand, /, *, extrapolation_value: float | None = None, mode: str | None = None) -> Value:
        """CropAndResize(X, rois, batch_indices, crop_size): Extracts crops from the input image tensor and resizes them using bilinear sampling or nearest ..."""
    @overload
    def DecoderAttention(self, query: Operand, key: Operand, q_weight: Operand, kv_weight: Operand, bias: Operand, key_padding_mask: Operand | None, key_cache: Operand | None, value_cache: Operand | None, static_kv: Operand, use_past: Operand, has_layer_state: Operand, has_key_padding_mask: Operand, /, *, num_heads: int, mask_filter_value: float | None = None) -> Value:
        """DecoderAttention(query, key, q_weight, kv_weight, bias, [key_padding_mask], [key_cache], [value_cache], static_kv, use_past, has_layer_state, has_key_padding_mask): This DecoderAttention supports self attention and cross attention, key and value cache, and ..."""
    @overload
    def DecoderAttention(self, query: Operand, key: Operand, q_weight: Operand, kv_weight: Operand, bias: Operand, key_padding_mask: Operand | None, key_cache: Operand | None, value_cache: Operand | None, static_kv: Operand, use_past: Operand, has_layer_state: Operand, has_key_padding_mask: Operand, /, *, outputs: int, num_heads: int, mask_filter_value: float | None = None) -> tuple[Value, ...]:
        """DecoderAttention(query, key, q_weight, kv_weight, bias, [key_padding_mask], [key_cache], [value_cache], static_kv, use_past, has_layer_state, has_key_padding_mask): This DecoderAttention supports self attention and cross attention, key and value cache, and ..."""
    @overload
    def DecoderMaskedMultiHeadAttention(self, query: Operand, key: Operand | None = None, value: Operand | None = None, mask_index: Operand | None = None, attention_bias: Operand | None = None, past_key: Operand | None = None, past_value: Operand | None = None, past_sequence_length: Operand | None = None, beam_width: Operand | None = None, cache_indirection: Operand | None = None, bias: Operand | None = None, /, *, num_heads: int, mask_filter_value: float | None = None, output_qk: int | None = None, past_present_share_buffer: int | None = None, scale: float | None = None) -> Value:
        """DecoderMaskedMultiHeadAttention(query, [key], [value], [mask_index], [attention_bias], [past_key], [past_value], [past_sequence_length], [beam_width], [cache_indirection], [bias]): Multihead attention that supports input sequence length of 1."""
    @overload
    def DecoderMaskedMultiHeadAttention(self, query: Operand, key: Operand | None = None, value: Operand | None = None, mask_index: Operand | None = None, attention_bias: Operand | None = None, past_key: Operand | None = None, past_value: Operand | None = None, past_sequence_length: Operand | None = None, beam_width: Operand | None = None, cache_indirection: Operand | None = None, bias: Operand | None = None, /, *, outputs: int, num_heads: int, mask_filter_value: float | None = None, output_qk: int | None = None, past_present_share_buffer: int | None = None, scale: float | None = None) -> tuple[Value, ...]:
        """DecoderMaskedMultiHeadAttention(query, [key], [value], [mask_index], [attention_bias], [past_key], [past_value], [past_sequence_length], [beam_width], [cache_indirection], [bias]): Multihead attention that supports input sequence length of 1."""
    @overload
    def DecoderMaskedSelfAttention(self, input: Operand, weights: Operand, bias: Operand, mask_index: Operand | None, past: Operand, attention_bias: Operand | None, past_sequence_length: Operand, beam_width: Operand | None = None, cache_indirection: Operand | None = None, /, *, num_heads: int, do_rotary: int | None = None, mask_filter_value: float | None = None, past_present_share_buffer: int | None = None, scale: float | None = None) -> Value:
        """DecoderMaskedSelfAttention(input, weights, bias, [mask_index], past, [attention_bias], past_sequence_length, [beam_width], [cache_indirection]): Self attention that supports input sequence length of 1."""
    @overload
    def DecoderMaskedSelfAttention(self, input: Operand, weights: Operand, bias: Operand, mask_index: Operand | None, past: Operand, attention_bias: Operand | None, past_sequence_length: Operand, beam_width: Operand | None = None, cache_indirection: Operand | None = None, /, *, outputs: int, num_heads: int, do_rotary: int | None = None, mask_filter_value: float | None = None, past_present_share_buffer: int | None = None, scale: float | None = None) -> tuple[Value, ...]:
        """DecoderMaskedSelfAttention(input, weights, bias, [mask_index], past, [attention_bias], past_sequence_length, [beam_width], [cache_indirection]): Self attention that supports input sequence length of 1."""
    def DequantizeBFP(self, x: Operand, shape: Operand, strides: Operand, /, *, bfp_type: int, block_dim: int | None = None, dtype: int | None = None) -> Value:
        """DequantizeBFP(x, shape, strides): The BFP dequantization operator."""
    def DequantizeLinear(self, x: Operand, x_scale: Operand, x_zero_point: Operand | None = None, /, *, axis: int | None = None) -> Value:
        """DequantizeLinear(x, x_scale, [x_zero_point]): The linear dequantization operator."""
    def DequantizeWithOrder(self, input: Operand, scale_input: Operand, /, *, order_input: int, order_output: int, to: int) -> Value:
        """DequantizeWithOrder(input, scale_input): Dequantize input matrix to specific layout used in cublaslt. attr to specify output type, float16 ..."""
    @overload
    def DynamicQuantizeLSTM(self, X: Operand, W: Operand, R: Operand, B: Operand | None, sequence_lens: Operand | None, initial_h: Operand | None, initial_c: Operand | None, P: Operand | None, W_scale: Operand, W_zero_point: Operand, R_scale: Operand, R_zero_point: Operand, /, *, activation_alpha: Sequence[float] | None = None, activation_beta: Sequence[float] | None = None, activations: Sequence[str] | None = None, clip: float | None = None, direction: str | None = None, hidden_size: int | None = None, input_forget: int | None = None) -> Value:
        """DynamicQuantizeLSTM(X, W, R, [B], [sequence_lens], [initial_h], [initial_c], [P], W_scale, W_zero_point, R_scale, R_zero_point)."""
    @overload
    def DynamicQuantizeLSTM(self, X: Operand, W: Operand, R: Operand, B: Operand | None, sequence_lens: Operand | None, initial_h: Operand | None, initial_c: Operand | None, P: Operand | None, W_scale: Operand, W_zero_point: Operand, R_scale: Operand, R_zero_point: Operand, /, *, outputs: int, activation_alpha: Sequence[float] | None = None, activation_beta: Sequence[float] | None = None, activations: Sequence[str] | None = None, clip: float | None = None, direction: str | None = None, hidden_size: int | None = None, input_forget: int | None = None) -> tuple[Value, ...]:
        """DynamicQuantizeLSTM(X, W, R, [B], [sequence_lens], [initial_h], [initial_c], [P], W_scale, W_zero_point, R_scale, R_zero_point)."""
    def DynamicQuantizeMatMul(self, A: Operand, B: Operand, b_scale: Operand, b_zero_point: Operand | None = None, bias: Operand | None = None, /) -> Value:
        """DynamicQuantizeMatMul(A, B, b_scale, [b_zero_point], [bias])."""
    @overload
    def DynamicSparseAttention(self, query: Operand, key: Operand | None, value: Operand | None, past_key: Operand | None, past_value: Operand | None, auxiliary_key: Operand | None, auxiliary_value: Operand | None, selected_indices: Operand, selected_counts: Operand, seqlens_k: Operand, total_sequence_length: Operand, cos_cache: Operand | None = None, sin_cache: Operand | None = None, position_ids: Operand | None = None, q_norm_weight: Operand | None = None, k_norm_weight: Operand | None = None, head_sink: Operand | None = None, /, *, kv_num_heads: int, num_heads: int, attention_mode: str | None = None, auxiliary_kv_shared: int | None = None, do_rotary: int | None = None, is_causal: int | None = None, local_window_size: int | None = None, qk_norm_epsilon: float | None = None, rotary_interleaved: int | None = None, rotary_offset: int | None = None, scale: float | None = None, selected_kv_source: str | None = None, smooth_softmax: int | None = None) -> Value:
        """DynamicSparseAttention(query, [key], [value], [past_key], [past_value], [auxiliary_key], [auxiliary_value], selected_indices, selected_counts, seqlens_k, total_sequence_length, [cos_cache], [sin_cache], [position_ids], [q_norm_weight], [k_norm_weight], [head_sink]): Model-neutral sparse grouped-query attention with a contiguous main KV cache. selected_indices and ..."""
    @overload
    def DynamicSparseAttention(self, query: Operand, key: Operand | None, value: Operand | None, past_key: Operand | None, past_value: Operand | None, auxiliary_key: Operand | None, auxiliary_value: Operand | None, selected_indices: Operand, selected_counts: Operand, seqlens_k: Operand, total_sequence_length: Operand, cos_cache: Operand | None = None, sin_cache: Operand | None = None, position_ids: Operand | None = None, q_norm_weight: Operand | None = None, k_norm_weight: Operand | None = None, head_sink: Operand | None = None, /, *, outputs: int, kv_num_heads: int, num_heads: int, attention_mode: str | None = None, auxiliary_kv_shared: int | None = None, do_rotary: int | None = None, is_causal: int | None = None, local_window_size: int | None = None, qk_norm_epsilon: float | None = None, rotary_interleaved: int | None = None, rotary_offset: int | None = None, scale: float | None = None, selected_kv_source: str | None = None, smooth_softmax: int | None = None) -> tuple[Value, ...]:
        """DynamicSparseAttention(query, [key], [value], [past_key], [past_value], [auxiliary_key], [auxiliary_value], selected_indices, selected_counts, seqlens_k, total_sequence_length, [cos_cache], [sin_cache], [position_ids], [q_norm_weight], [k_norm_weight], [head_sink]): Model-neutral sparse grouped-query attention with a contiguous main KV cache. selected_indices and ..."""
    def DynamicTimeWarping(self, input: Operand, /) -> Value:
        """DynamicTimeWarping(input): Input is cost matrix where each value in input[r][c] is the cost for pass the point (r, c)."""
    @overload
    def EPContext(self, *inputs: Operand | None, embed_mode: int | None = None, ep_cache_context: str | None = None, ep_sdk_version: str | None = None, hardware_architecture: str | None = None, main_context: int | None = None, max_size: int | None = None, notes: str | None = None, onnx_model_filename: str | None = None, partition_name: str | None = None, source: str | None = None) -> Value:
        """EPContext(inputs): Onnx node container for EP context."""
    @overload
    def EPContext(self, *inputs: Operand | None, outputs: int, embed_mode: int | None = None, ep_cache_context: str | None = None, ep_sdk_version: str | None = None, hardware_architecture: str | None = None, main_context: int | None = None, max_size: int | None = None, notes: str | None = None, onnx_model_filename: str | None = None, partition_name: str | None = None, source: str | None = None) -> tuple[Value, ...]:
        """EPContext(inputs): Onnx node container for EP context."""
    @overload
    def EmbedLayerNormalization(self, input_ids: Operand, segment_ids: Operand | None, word_embedding: Operand, position_embedding: Operand, segment_embedding: Operand | None, gamma: Operand, beta: Operand, mask: Operand | None = None, position_ids: Operand | None = None, /, *, epsilon: float | None = None, mask_index_type: int | None = None) -> Value:
        """EmbedLayerNormalization(input_ids, [segment_ids], word_embedding, position_embedding, [segment_embedding], gamma, beta, [mask], [position_ids]): EmbedLayerNormalization is the fusion of embedding layer in BERT model, with optional mask ..."""
    @overload
    def EmbedLayerNormalization(self, input_ids: Operand, segment_ids: Operand | None, word_embedding: Operand, position_embedding: Operand, segment_embedding: Operand | None, gamma: Operand, beta: Operand, mask: Operand | None = None, position_ids: Operand | None = None, /, *, outputs: int, epsilon: float | None = None, mask_index_type: int | None = None) -> tuple[Value, ...]:
        """EmbedLayerNormalization(input_ids, [segment_ids], word_embedding, position_embedding, [segment_embedding], gamma, beta, [mask], [position_ids]): EmbedLayerNormalization is the fusion of embedding layer in BERT model, with optional mask ..."""
    @overload
    def EngramGate(self, key: Operand, query: Operand, value: Operand, key_norm_scale: Operand, query_norm_scale: Operand, conv_norm_scale: Operand | None = None, /, *, epsilon: float | None = None) -> Value:
        """EngramGate(key, query, value, key_norm_scale, query_norm_scale, [conv_norm_scale]): Fuses the Engram gate."""
    @overload
    def EngramGate(self, key: Operand, query: Operand, value: Operand, key_norm_scale: Operand, query_norm_scale: Operand, conv_norm_scale: Operand | None = None, /, *, outputs: int, epsilon: float | None = None) -> tuple[Value, ...]:
        """EngramGate(key, query, value, key_norm_scale, query_norm_scale, [conv_norm_scale]): Fuses the Engram gate."""
    def ExpandDims(self, X: Operand, axis: Operand, /) -> Value:
        """ExpandDims(X, axis): ExpandDims echo operator."""
    def FastGelu(self, X: Operand, bias: Operand | None = None, /) -> Value:
        """FastGelu(X, [bias]): GELU (Gaussian Error Linear Unit) approximation."""
    def FusedConv(self, X: Operand, W: Operand, B: Operand | None = None, Z: Operand | None = None, /, *, activation: str | None = None, activation_params: Sequence[float] | None = None, auto_pad: str | None = None, dilations: Sequence[int] | None = None, group: int | None = None, kernel_shape: Sequence[int] | None = None, pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Value:
        """FusedConv(X, W, [B], [Z]): The fused convolution operator schema is the same as Conv besides it includes an attribute ..."""
    def FusedGemm(self, A: Operand, B: Operand, C: Operand | None = None, /, *, activation: str | None = None, activation_alpha: float | None = None, activation_beta: float | None = None, activation_gamma: float | None = None, alpha: float | None = None, beta: float | None = None, transA: int | None = None, transB: int | None = None) -> Value:
        """FusedGemm(A, B, [C]): The FusedGemm operator schema is the same as Gemm besides it includes attributes activation and ..."""
    def FusedMatMul(self, A: Operand, B: Operand, /, *, alpha: float | None = None, transA: int | None = None, transB: int | None = None, transBatchA: int | None = None, transBatchB: int | None = None) -> Value:
        """FusedMatMul(A, B): Matrix product that behaves like numpy.matmul."""
    def FusedMatMulActivation(self, A: Operand, B: Operand, /, *, activation: str, activation_alpha: float | None = None, activation_axis: int | None = None, activation_beta: float | None = None, activation_gamma: float | None = None, alpha: float | None = None, transA: int | None = None, transB: int | None = None, transBatchA: int | None = None, transBatchB: int | None = None) -> Value:
        """FusedMatMulActivation(A, B): Executes the same operation as FusedMatMul, but also has an activation function fused to its output."""
    def GatedAdd(self, X: Operand, Y: Operand, gate: Operand, /) -> Value:
        """GatedAdd(X, Y, gate): Adds one tensor to another tensor scaled by a per-row gate: output = X + roundto_T(Y  gate) X and Y ..."""
    @overload
    def GatedDeltaNet(self, query: Operand, key: Operand | None = None, value: Operand | None = None, cu_seqlens: Operand | None = None, decay: Operand | None = None, beta: Operand | None = None, initial_state: Operand | None = None, a_log: Operand | None = None, dt_bias: Operand | None = None, capture_count: Operand | None = None, state_update_active: Operand | None = None, /, *, beta_activation: str | None = None, chunk_size: int | None = None, gate_activation: str | None = None, qk_l2_norm: int | None = None, scale: float | None = None, state_update_capacity: int | None = None, update_rule: str | None = None) -> Value:
        """GatedDeltaNet(query, [key], [value], [cu_seqlens], [decay], [beta], [initial_state], [a_log], [dt_bias], [capture_count], [state_update_active]): Packed (token-major) gated delta network / linear attention with an explicit recurrent state."""
    @overload
    def GatedDeltaNet(self, query: Operand, key: Operand | None = None, value: Operand | None = None, cu_seqlens: Operand | None = None, decay: Operand | None = None, beta: Operand | None = None, initial_state: Operand | None = None, a_log: Operand | None = None, dt_bias: Operand | None = None, capture_count: Operand | None = None, state_update_active: Operand | None = None, /, *, outputs: int, beta_activation: str | None = None, chunk_size: int | None = None, gate_activation: str | None = None, qk_l2_norm: int | None = None, scale: float | None = None, state_update_capacity: int | None = None, update_rule: str | None = None) -> tuple[Value, ...]:
        """GatedDeltaNet(query, [key], [value], [cu_seqlens], [decay], [beta], [initial_state], [a_log], [dt_bias], [capture_count], [state_update_active]): Packed (token-major) gated delta network / linear attention with an explicit recurrent state."""
    def GatedRMSNorm(self, X: Operand, scale: Operand, gate: Operand, /, *, activation: str | None = None, epsilon: float | None = None) -> Value:
        """GatedRMSNorm(X, scale, gate): Gated RMS normalization as used by Mamba2 / gated DeltaNet attention outputs."""
    def GatedRelativePositionBias(self, query_layer: Operand, query_bias: Operand, rel_pos: Operand, weight: Operand, bias: Operand, eco_a: Operand, token_offset: Operand | None = None, /, *, num_heads: int) -> Value:
        """GatedRelativePositionBias(query_layer, query_bias, rel_pos, weight, bias, eco_a, [token_offset]): querylayer = (query_layer + query_bias).reshape(batch_size, seq_len, num_heads ..."""
    def GatherBlockQuantized(self, data: Operand, indices: Operand, scales: Operand, zero_points: Operand | None = None, /, *, bits: int | None = None, block_size: int | None = None, gather_axis: int | None = None, quantize_axis: int | None = None) -> Value:
        """GatherBlockQuantized(data, indices, scales, [zero_points]): GatherBlockQuantized is a Gather with data quantized."""
    def GatherND(self, data: Operand, indices: Operand, /) -> Value:
        """GatherND(data, indices): Given data tensor of rank r >= 1, and indices tensor of rank q >= 1, gather slices of data into an ..."""
    def Gelu(self, X: Operand, /) -> Value:
        """Gelu(X): Gaussian Error Linear Unit."""
    def GemmFastGelu(self, X: Operand, W: Operand, bias: Operand | None = None, /) -> Value:
        """GemmFastGelu(X, W, [bias]): It's a fusion of MatMul and FastGelu."""
    def GemmFloat8(self, A: Operand, B: Operand, C: Operand | None = None, scaleA: Operand | None = None, scaleB: Operand | None = None, scaleY: Operand | None = None, /, *, activation: str | None = None, alpha: float | None = None, beta: float | None = None, dtype: int | None = None, transA: int | None = None, transB: int | None = None) -> Value:
        """GemmFloat8(A, B, [C], [scaleA], [scaleB], [scaleY]): Generic Gemm for float and float 8."""
    @overload
    def GemmaRotaryEmbedding(self, emb: Operand, q: Operand, q_rot: Operand, k: Operand, k_rot: Operand, /) -> Value:
        """GemmaRotaryEmbedding(emb, q, q_rot, k, k_rot): GemmaRotaryEmbedding is the implementation of below part of rotary positional embeddings (RoPE)."""
    @overload
    def GemmaRotaryEmbedding(self, emb: Operand, q: Operand, q_rot: Operand, k: Operand, k_rot: Operand, /, *, outputs: int) -> tuple[Value, ...]:
        """GemmaRotaryEmbedding(emb, q, q_rot, k, k_rot): GemmaRotaryEmbedding is the implementation of below part of rotary positional embeddings (RoPE)."""
    def GreedySearch(self, input_ids: Operand, max_length: Operand, min_length: Operand | None = None, repetition_penalty: Operand | None = None, vocab_mask: Operand | None = None, prefix_vocab_mask: Operand | None = None, attention_mask: Operand | None = None, /, *, decoder: Graph, eos_token_id: int, pad_token_id: int, decoder_start_token_id: int | None = None, encoder: Graph | None = None, init_decoder: Graph | None = None, model_type: int | None = None, no_repeat_ngram_size: int | None = None, vocab_size: int | None = None) -> Value:
        """GreedySearch(input_ids, max_length, [min_length], [repetition_penalty], [vocab_mask], [prefix_vocab_mask], [attention_mask]): Greedy Search for text generation."""
    def GridSample(self, X: Operand, Grid: Operand, /, *, align_corners: int | None = None, mode: str | None = None, padding_mode: str | None = None) -> Value:
        """GridSample(X, Grid): Given an input and a flow-field grid, computes the output using input values and pixel locations ..."""
    def GroupNorm(self, X: Operand, gamma: Operand, beta: Operand, /, *, activation: int, groups: int, channels_last: int | None = None, epsilon: float | None = None) -> Value:
        """GroupNorm(X, gamma, beta): Applies Group Normalization over a mini-batch of inputs as described in the paper Group ..."""
    @overload
    def GroupQueryAttention(self, query: Operand, key: Operand | None, value: Operand | None, past_key: Operand | None, past_value: Operand | None, seqlens_k: Operand, total_sequence_length: Operand, cos_cache: Operand | None = None, sin_cache: Operand | None = None, position_ids: Operand | None = None, attention_bias: Operand | None = None, head_sink: Operand | None = None, k_scale: Operand | None = None, v_scale: Operand | None = None, q_norm_weight: Operand | None = None, k_norm_weight: Operand | None = None, /, *, kv_num_heads: int, num_heads: int, causal: int | None = None, do_rotary: int | None = None, k_quant_type: str | None = None, kv_cache_bit_width: int | None = None, local_window_size: int | None = None, qk_norm_epsilon: float | None = None, qk_output: int | None = None, rotary_interleaved: int | None = None, scale: float | None = None, sliding_window_cache: int | None = None, smooth_softmax: int | None = None, softcap: float | None = None, v_quant_type: str | None = None) -> Value:
        """GroupQueryAttention(query, [key], [value], [past_key], [past_value], seqlens_k, total_sequence_length, [cos_cache], [sin_cache], [position_ids], [attention_bias], [head_sink], [k_scale], [v_scale], [q_norm_weight], [k_norm_weight]): Group Query Self/Cross Attention with KV Cache Quantization Support."""
    @overload
    def GroupQueryAttention(self, query: Operand, key: Operand | None, value: Operand | None, past_key: Operand | None, past_value: Operand | None, seqlens_k: Operand, total_sequence_length: Operand, cos_cache: Operand | None = None, sin_cache: Operand | None = None, position_ids: Operand | None = None, attention_bias: Operand | None = None, head_sink: Operand | None = None, k_scale: Operand | None = None, v_scale: Operand | None = None, q_norm_weight: Operand | None = None, k_norm_weight: Operand | None = None, /, *, outputs: int, kv_num_heads: int, num_heads: int, causal: int | None = None, do_rotary: int | None = None, k_quant_type: str | None = None, kv_cache_bit_width: int | None = None, local_window_size: int | None = None, qk_norm_epsilon: float | None = None, qk_output: int | None = None, rotary_interleaved: int | None = None, scale: float | None = None, sliding_window_cache: int | None = None, smooth_softmax: int | None = None, softcap: float | None = None, v_quant_type: str | None = None) -> tuple[Value, ...]:
        """GroupQueryAttention(query, [key], [value], [past_key], [past_value], seqlens_k, total_sequence_length, [cos_cache], [sin_cache], [position_ids], [attention_bias], [head_sink], [k_scale], [v_scale], [q_norm_weight], [k_norm_weight]): Group Query Self/Cross Attention with KV Cache Quantization Support."""
    def HyperConnectionPostMix(self, streams: Operand, block_output: Operand, post_mix: Operand, stream_mix: Operand | None = None, /, *, num_branches: int | None = None) -> Value:
        """HyperConnectionPostMix(streams, block_output, post_mix, [stream_mix]): Mixes existing streams and injects one branch output."""
    def HyperConnectionPreMix(self, streams: Operand, pre_mix: Operand, /, *, num_branches: int | None = None, reduction_scale: float | None = None) -> Value:
        """HyperConnectionPreMix(streams, pre_mix): Reduces C streams to one feature tensor without applying an activation."""
    def Inverse(self, X: Operand, /) -> Value:
        """Inverse(X)."""
    def Irfft(self, X: Operand, /, *, signal_ndim: int, normalized: int | None = None, onesided: int | None = None) -> Value:
        """Irfft(X): This function computes the inverse of the one-dimensional n-point RFFT computed in ..."""
    def IsAllFinite(self, *input: Operand | None, isinf_only: int | None = None, isnan_only: int | None = None) -> Value:
        """IsAllFinite(input): IsAllFinite."""
    @overload
    def LinearAttention(self, query: Operand, key: Operand, value: Operand, past_state: Operand | None = None, decay: Operand | None = None, beta: Operand | None = None, /, *, kv_num_heads: int, q_num_heads: int, chunk_size: int | None = None, scale: float | None = None, state_window: int | None = None, update_rule: str | None = None) -> Value:
        """LinearAttention(query, key, value, [past_state], [decay], [beta]): Unified linear attention operator for autoregressive decoding (T=1) and prefill (T>1)."""
    @overload
    def LinearAttention(self, query: Operand, key: Operand, value: Operand, past_state: Operand | None = None, decay: Operand | None = None, beta: Operand | None = None, /, *, outputs: int, kv_num_heads: int, q_num_heads: int, chunk_size: int | None = None, scale: float | None = None, state_window: int | None = None, update_rule: str | None = None) -> tuple[Value, ...]:
        """LinearAttention(query, key, value, [past_state], [decay], [beta]): Unified linear attention operator for autoregressive decoding (T=1) and prefill (T>1)."""
    @overload
    def LinearAttentionGate(self, a: Operand, dt_bias: Operand, decay_scale: Operand, b: Operand | None = None, /) -> Value:
        """LinearAttentionGate(a, dt_bias, decay_scale, [b]): Fuses the gate projections that feed LinearAttention's gated-delta recurrence: decay = decayscale  ..."""
    @overload
    def LinearAttentionGate(self, a: Operand, dt_bias: Operand, decay_scale: Operand, b: Operand | None = None, /, *, outputs: int) -> tuple[Value, ...]:
        """LinearAttentionGate(a, dt_bias, decay_scale, [b]): Fuses the gate projections that feed LinearAttention's gated-delta recurrence: decay = decayscale  ..."""
    def LongformerAttention(self, input: Operand, weight: Operand, bias: Operand, mask: Operand, global_weight: Operand, global_bias: Operand, global_: Operand, /, *, num_heads: int, window: int) -> Value:
        """LongformerAttention(input, weight, bias, mask, global_weight, global_bias, global): Longformer Self Attention with a local context and a global context."""
    def MRotaryEmbedding(self, input: Operand, position_ids: Operand, cos_cache: Operand, sin_cache: Operand, /, *, mrope_section: Sequence[int], interleaved: int | None = None, is_packed_batching: int | None = None, mrope_layout: int | None = None, num_heads: int | None = None, rotary_embedding_dim: int | None = None, scale: float | None = None) -> Value:
        """MRotaryEmbedding(input, position_ids, cos_cache, sin_cache): MRotaryEmbedding is the fused implementation of Multimodal Rotary Positional Embeddings (M-RoPE) ..."""
    def MatMulBlockQuantizedFp4Weight(self, A: Operand, B: Operand, weight_scale: Operand, weight_scale_2: Operand, input_scale: Operand | None = None, bias: Operand | None = None, /, *, block_size: int | None = None) -> Value:
        """MatMulBlockQuantizedFp4Weight(A, B, weight_scale, weight_scale_2, [input_scale], [bias]): Weight-only NVFP4 (E2M1) matrix multiplication."""
    def MatMulBlockQuantizedFp8Weight(self, A: Operand, B: Operand, b_scale: Operand, a_scale: Operand | None = None, bias: Operand | None = None, /, *, block_size: int | None = None) -> Value:
        """MatMulBlockQuantizedFp8Weight(A, B, b_scale, [a_scale], [bias]): Block-scaled FP8 (E4M3) matrix multiplication with optional FP8 activation quantization."""
    def MatMulBnb4(self, A: Operand, B: Operand, absmax: Operand, /, *, K: int, N: int, block_size: int, quant_type: int, training_mode: int | None = None, transB: int | None = None) -> Value:
        """MatMulBnb4(A, B, absmax): MatMulBnb4 is a MatMul with weight quantized with 4 bits using either FP4 or NF4 data type ( It ..."""
    def MatMulFpQ4(self, A: Operand, B: Operand, B_shape: Operand, /, *, blk_quant_type: int | None = None) -> Value:
        """MatMulFpQ4(A, B, B_shape): Matrix product with right hand matrix being pre-packed and quantized int4 data blob."""
    def MatMulInteger16(self, A: Operand, B: Operand, /) -> Value:
        """MatMulInteger16(A, B): Matrix product that behaves like numpy.matmul:  The production MUST never overflow."""
    def MatMulIntegerToFloat(self, A: Operand, B: Operand, a_scale: Operand, b_scale: Operand, a_zero_point: Operand | None = None, b_zero_point: Operand | None = None, bias: Operand | None = None, /) -> Value:
        """MatMulIntegerToFloat(A, B, a_scale, b_scale, [a_zero_point], [b_zero_point], [bias])."""
    def MatMulNBits(self, A: Operand, B: Operand, scales: Operand, zero_points: Operand | None = None, g_idx: Operand | None = None, bias: Operand | None = None, /, *, K: int, N: int, block_size: int, accuracy_level: int | None = None, bits: int | None = None, weight_prepacked: int | None = None) -> Value:
        """MatMulNBits(A, B, scales, [zero_points], [g_idx], [bias]): MatMulNBits performs a matrix multiplication where the right-hand-side matrix (weights) is ..."""
    @overload
    def MatMulNBitsMlp(self, A: Operand, skip: Operand | None, norm_scale: Operand | None, gate_B: Operand, gate_scales: Operand, gate_bias: Operand | None, up_B: Operand, up_scales: Operand, up_bias: Operand | None = None, /, *, K: int, N: int, activation: str, block_size: int, accuracy_level: int | None = None, bits: int | None = None, epsilon: float | None = None) -> Value:
        """MatMulNBitsMlp(A, [skip], [norm_scale], gate_B, gate_scales, [gate_bias], up_B, up_scales, [up_bias]): MatMulNBitsMlp fuses two MatMulNBits projections that share the same input and computes gate = ..."""
    @overload
    def MatMulNBitsMlp(self, A: Operand, skip: Operand | None, norm_scale: Operand | None, gate_B: Operand, gate_scales: Operand, gate_bias: Operand | None, up_B: Operand, up_scales: Operand, up_bias: Operand | None = None, /, *, outputs: int, K: int, N: int, activation: str, block_size: int, accuracy_level: int | None = None, bits: int | None = None, epsilon: float | None = None) -> tuple[Value, ...]:
        """MatMulNBitsMlp(A, [skip], [norm_scale], gate_B, gate_scales, [gate_bias], up_B, up_scales, [up_bias]): MatMulNBitsMlp fuses two MatMulNBits projections that share the same input and computes gate = ..."""
    @overload
    def MatMulNBitsQkv(self, A: Operand, skip: Operand | None, norm_scale: Operand, q_B: Operand, q_scales: Operand, q_bias: Operand | None, k_B: Operand, k_scales: Operand, k_bias: Operand | None, v_B: Operand, v_scales: Operand, v_bias: Operand | None = None, /, *, K: int, Nkv: int, Nq: int, block_size: int, accuracy_level: int | None = None, bits: int | None = None, epsilon: float | None = None) -> Value:
        """MatMulNBitsQkv(A, [skip], norm_scale, q_B, q_scales, [q_bias], k_B, k_scales, [k_bias], v_B, v_scales, [v_bias]): MatMulNBitsQkv fuses either SimplifiedLayerNormalization (RMSNorm) or ..."""
    @overload
    def MatMulNBitsQkv(self, A: Operand, skip: Operand | None, norm_scale: Operand, q_B: Operand, q_scales: Operand, q_bias: Operand | None, k_B: Operand, k_scales: Operand, k_bias: Operand | None, v_B: Operand, v_scales: Operand, v_bias: Operand | None = None, /, *, outputs: int, K: int, Nkv: int, Nq: int, block_size: int, accuracy_level: int | None = None, bits: int | None = None, epsilon: float | None = None) -> tuple[Value, ...]:
        """MatMulNBitsQkv(A, [skip], norm_scale, q_B, q_scales, [q_bias], k_B, k_scales, [k_bias], v_B, v_scales, [v_bias]): MatMulNBitsQkv fuses either SimplifiedLayerNormalization (RMSNorm) or ..."""
    def MaxpoolWithMask(self, X: Operand, M: Operand, /, *, auto_pad: str | None = None, kernel_shape: Sequence[int] | None = None, pads: Sequence[int] | None = None, storage_order: int | None = None, strides: Sequence[int] | None = None) -> Value:
        """MaxpoolWithMask(X, M): For internal use."""
    def MoE(self, input: Operand, router_probs: Operand, fc1_experts_weights: Operand, fc1_experts_bias: Operand | None, fc2_experts_weights: Operand, fc2_experts_bias: Operand | None = None, fc3_experts_weights: Operand | None = None, fc3_experts_bias: Operand | None = None, /, *, activation_alpha: float | None = None, activation_beta: float | None = None, activation_type: str | None = None, k: int | None = None, normalize_routing_weights: int | None = None, swiglu_fusion: int | None = None, swiglu_limit: float | None = None, use_sparse_mixer: int | None = None) -> Value:
        """MoE(input, router_probs, fc1_experts_weights, [fc1_experts_bias], fc2_experts_weights, [fc2_experts_bias], [fc3_experts_weights], [fc3_experts_bias]): Mixture of experts."""
    def MulInteger(self, A: Operand, A_zero_point: Operand | None, B: Operand, B_zero_point: Operand | None = None, /) -> Value:
        """MulInteger(A, [A_zero_point], B, [B_zero_point]): Performs element-wise binary quantized multiplication (with Numpy-style broadcasting support). ..."""
    @overload
    def MultiHeadAttention(self, query: Operand, key: Operand | None = None, value: Operand | None = None, bias: Operand | None = None, key_padding_mask: Operand | None = None, attention_bias: Operand | None = None, past_key: Operand | None = None, past_value: Operand | None = None, past_sequence_length: Operand | None = None, cache_indirection: Operand | None = None, /, *, num_heads: int, mask_filter_value: float | None = None, scale: float | None = None, unidirectional: int | None = None) -> Value:
        """MultiHeadAttention(query, [key], [value], [bias], [key_padding_mask], [attention_bias], [past_key], [past_value], [past_sequence_length], [cache_indirection]): Multi-Head Self/Cross Attention."""
    @overload
    def MultiHeadAttention(self, query: Operand, key: Operand | None = None, value: Operand | None = None, bias: Operand | None = None, key_padding_mask: Operand | None = None, attention_bias: Operand | None = None, past_key: Operand | None = None, past_value: Operand | None = None, past_sequence_length: Operand | None = None, cache_indirection: Operand | None = None, /, *, outputs: int, num_heads: int, mask_filter_value: float | None = None, scale: float | None = None, unidirectional: int | None = None) -> tuple[Value, ...]:
        """MultiHeadAttention(query, [key], [value], [bias], [key_padding_mask], [attention_bias], [past_key], [past_value], [past_sequence_length], [cache_indirection]): Multi-Head Self/Cross Attention."""
    def MurmurHash3(self, X: Operand, /, *, positive: int | None = None, seed: int | None = None) -> Value:
        """MurmurHash3(X): The underlying implementation is MurmurHash3_x86_32 generating low latency 32bits hash suitable for ..."""
    @overload
    def NGramHashMapping(self, input_ids: Operand, multipliers: Operand, vocab_sizes: Operand, past_ids: Operand | None = None, head_offsets: Operand | None = None, eos_token_id: Operand | None = None, segment_ids: Operand | None = None, /, *, max_ngram_size: int, n_head_per_ngram: int, pad_id: int, reset_on_eos: int | None = None) -> Value:
        """NGramHashMapping(input_ids, multipliers, vocab_sizes, [past_ids], [head_offsets], [eos_token_id], [segment_ids]): Computes Engram n-gram hash ids from pre-compressed tokenizer ids."""
    @overload
    def NGramHashMapping(self, input_ids: Operand, multipliers: Operand, vocab_sizes: Operand, past_ids: Operand | None = None, head_offsets: Operand | None = None, eos_token_id: Operand | None = None, segment_ids: Operand | None = None, /, *, outputs: int, max_ngram_size: int, n_head_per_ngram: int, pad_id: int, reset_on_eos: int | None = None) -> tuple[Value, ...]:
        """NGramHashMapping(input_ids, multipliers, vocab_sizes, [past_ids], [head_offsets], [eos_token_id], [segment_ids]): Computes Engram n-gram hash ids from pre-compressed tokenizer ids."""
    def NGramRepeatBlock(self, input_ids: Operand, scores: Operand, /, *, ngram_size: int) -> Value:
        """NGramRepeatBlock(input_ids, scores): Enforce no repetition of n-grams."""
    def NhwcConv(self, X: Operand, W: Operand, B: Operand | None = None, /, *, auto_pad: str | None = None, dilations: Sequence[int] | None = None, group: int | None = None, kernel_shape: Sequence[int] | None = None, pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Value:
        """NhwcConv(X, W, [B])."""
    def NhwcFusedConv(self, X: Operand, W: Operand, B: Operand | None = None, Z: Operand | None = None, /, *, activation: str | None = None, activation_params: Sequence[float] | None = None, auto_pad: str | None = None, dilations: Sequence[int] | None = None, group: int | None = None, kernel_shape: Sequence[int] | None = None, pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Value:
        """NhwcFusedConv(X, W, [B], [Z]): NhwcFusedConv is a Conv operator with optional activation and add operators fused in."""
    def NhwcMaxPool(self, x: Operand, /, *, kernel_shape: Sequence[int], auto_pad: str | None = None, ceil_mode: int | None = None, dilations: Sequence[int] | None = None, pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Value:
        """NhwcMaxPool(x)."""
    def PackedAttention(self, input: Operand, weights: Operand, bias: Operand, token_offset: Operand, cumulative_sequence_length: Operand, attention_bias: Operand | None = None, /, *, num_heads: int, qkv_hidden_sizes: Sequence[int] | None = None, scale: float | None = None) -> Value:
        """PackedAttention(input, weights, bias, token_offset, cumulative_sequence_length, [attention_bias]): This is the packed version of Attention."""
    def PackedMultiHeadAttention(self, query: Operand, key: Operand | None, value: Operand | None, bias: Operand | None, token_offset: Operand, cumulative_sequence_length: Operand, attention_bias: Operand | None = None, /, *, num_heads: int, mask_filter_value: float | None = None, scale: float | None = None) -> Value:
        """PackedMultiHeadAttention(query, [key], [value], [bias], token_offset, cumulative_sequence_length, [attention_bias]): This is the packed version of MultiHeadAttention."""
    @overload
    def PackedSparseAttentionIndexer(self, query: Operand, key: Operand | None, query_norm_weight: Operand, key_norm_weight: Operand, cos_cache: Operand, sin_cache: Operand, cumulative_sequence_lengths: Operand, past_sequence_lengths: Operand, gate: Operand | None, position_bias: Operand | None, head_weights: Operand | None, position_ids: Operand | None, past_key_state: Operand, past_kv_buffer: Operand, past_gate_buffer: Operand | None, past_state_lengths: Operand, state_update_capture_count: Operand | None = None, state_update_active: Operand | None = None, /, *, compress_ratio: int, policy_mode: str, state_capacity: int, epsilon: float | None = None, head_weight_scale: float | None = None, index_topk: int | None = None, scale: float | None = None, state_update_capacity: int | None = None, token_budget: int | None = None) -> Value:
        """PackedSparseAttentionIndexer(query, [key], query_norm_weight, key_norm_weight, cos_cache, sin_cache, cumulative_sequence_lengths, past_sequence_lengths, [gate], [position_bias], [head_weights], [position_ids], past_key_state, past_kv_buffer, [past_gate_buffer], past_state_lengths, [state_update_capture_count], [state_update_active]): Packed/variable-length counterpart of SparseAttentionIndexer, for continuous-batching engines (such ..."""
    @overload
    def PackedSparseAttentionIndexer(self, query: Operand, key: Operand | None, query_norm_weight: Operand, key_norm_weight: Operand, cos_cache: Operand, sin_cache: Operand, cumulative_sequence_lengths: Operand, past_sequence_lengths: Operand, gate: Operand | None, position_bias: Operand | None, head_weights: Operand | None, position_ids: Operand | None, past_key_state: Operand, past_kv_buffer: Operand, past_gate_buffer: Operand | None, past_state_lengths: Operand, state_update_capture_count: Operand | None = None, state_update_active: Operand | None = None, /, *, outputs: int, compress_ratio: int, policy_mode: str, state_capacity: int, epsilon: float | None = None, head_weight_scale: float | None = None, index_topk: int | None = None, scale: float | None = None, state_update_capacity: int | None = None, token_budget: int | None = None) -> tuple[Value, ...]:
        """PackedSparseAttentionIndexer(query, [key], query_norm_weight, key_norm_weight, cos_cache, sin_cache, cumulative_sequence_lengths, past_sequence_lengths, [gate], [position_bias], [head_weights], [position_ids], past_key_state, past_kv_buffer, [past_gate_buffer], past_state_lengths, [state_update_capture_count], [state_update_active]): Packed/variable-length counterpart of SparseAttentionIndexer, for continuous-batching engines (such ..."""
    def Pad(self, data: Operand, pads: Operand, value: Operand | None = None, /, *, mode: str | None = None) -> Value:
        """Pad(data, pads, [value]): Given data tensor, pads, mode, and value."""
    @overload
    def PagedAttention(self, query: Operand, key: Operand | None, value: Operand | None, key_cache: Operand, value_cache: Operand | None, cumulative_sequence_length: Operand, past_seqlens: Operand, block_table: Operand, cos_cache: Operand | None = None, sin_cache: Operand | None = None, slot_mapping: Operand | None = None, head_sink: Operand | None = None, q_norm_weight: Operand | None = None, k_norm_weight: Operand | None = None, k_scale: Operand | None = None, v_scale: Operand | None = None, attention_metadata: Operand | None = None, /, *, kv_num_heads: int, num_heads: int, do_rotary: int | None = None, is_causal: int | None = None, k_cache_dtype: str | None = None, k_quant_type: str | None = None, kv_cache_layout: str | None = None, local_window_size: int | None = None, qk_norm_epsilon: float | None = None, rotary_interleaved: int | None = None, rotary_offset: int | None = None, scale: float | None = None, softcap: float | None = None, v_cache_dtype: str | None = None, v_head_size: int | None = None, v_quant_type: str | None = None) -> Value:
        """PagedAttention(query, [key], [value], key_cache, [value_cache], cumulative_sequence_length, past_seqlens, block_table, [cos_cache], [sin_cache], [slot_mapping], [head_sink], [q_norm_weight], [k_norm_weight], [k_scale], [v_scale], [attention_metadata]): Paged Attention."""
    @overload
    def PagedAttention(self, query: Operand, key: Operand | None, value: Operand | None, key_cache: Operand, value_cache: Operand | None, cumulative_sequence_length: Operand, past_seqlens: Operand, block_table: Operand, cos_cache: Operand | None = None, sin_cache: Operand | None = None, slot_mapping: Operand | None = None, head_sink: Operand | None = None, q_norm_weight: Operand | None = None, k_norm_weight: Operand | None = None, k_scale: Operand | None = None, v_scale: Operand | None = None, attention_metadata: Operand | None = None, /, *, outputs: int, kv_num_heads: int, num_heads: int, do_rotary: int | None = None, is_causal: int | None = None, k_cache_dtype: str | None = None, k_quant_type: str | None = None, kv_cache_layout: str | None = None, local_window_size: int | None = None, qk_norm_epsilon: float | None = None, rotary_interleaved: int | None = None, rotary_offset: int | None = None, scale: float | None = None, softcap: float | None = None, v_cache_dtype: str | None = None, v_head_size: int | None = None, v_quant_type: str | None = None) -> tuple[Value, ...]:
        """PagedAttention(query, [key], [value], key_cache, [value_cache], cumulative_sequence_length, past_seqlens, block_table, [cos_cache], [sin_cache], [slot_mapping], [head_sink], [q_norm_weight], [k_norm_weight], [k_scale], [v_scale], [attention_metadata]): Paged Attention."""
    @overload
    def QAttention(self, input: Operand, weight: Operand, bias: Operand, input_scale: Operand, weight_scale: Operand, mask_index: Operand | None = None, input_zero_point: Operand | None = None, weight_zero_point: Operand | None = None, past: Operand | None = None, /, *, num_heads: int, do_rotary: int | None = None, mask_filter_value: float | None = None, past_present_share_buffer: int | None = None, scale: float | None = None, unidirectional: int | None = None) -> Value:
        """QAttention(input, weight, bias, input_scale, weight_scale, [mask_index], [input_zero_point], [weight_zero_point], [past]): Quantization of Multi-Head Self Attention."""
    @overload
    def QAttention(self, input: Operand, weight: Operand, bias: Operand, input_scale: Operand, weight_scale: Operand, mask_index: Operand | None = None, input_zero_point: Operand | None = None, weight_zero_point: Operand | None = None, past: Operand | None = None, /, *, outputs: int, num_heads: int, do_rotary: int | None = None, mask_filter_value: float | None = None, past_present_share_buffer: int | None = None, scale: float | None = None, unidirectional: int | None = None) -> tuple[Value, ...]:
        """QAttention(input, weight, bias, input_scale, weight_scale, [mask_index], [input_zero_point], [weight_zero_point], [past]): Quantization of Multi-Head Self Attention."""
    @overload
    def QEmbedLayerNormalization(self, input_ids: Operand, segment_ids: Operand | None, word_embedding_quant: Operand, position_embedding_quant: Operand, segment_embedding: Operand | None, gamma_quant: Operand, beta_quant: Operand, mask: Operand | None, word_embedding_scale: Operand, position_embedding_scale: Operand, segment_embedding_scale: Operand | None, gamma_scale: Operand, beta_scale: Operand, word_embedding_zero_point: Operand, position_embedding_zero_point: Operand, segment_embedding_zero_point: Operand | None, gamma_zero_point: Operand, beta_zero_point: Operand, /, *, epsilon: float | None = None) -> Value:
        """QEmbedLayerNormalization(input_ids, [segment_ids], word_embedding_quant, position_embedding_quant, [segment_embedding], gamma_quant, beta_quant, [mask], word_embedding_scale, position_embedding_scale, [segment_embedding_scale], gamma_scale, beta_scale, word_embedding_zero_point, position_embedding_zero_point, [segment_embedding_zero_point], gamma_zero_point, beta_zero_point): QEmbedLayerNormalization is the quantized fusion of embedding layer in BERT model, with optional ..."""
    @overload
    def QEmbedLayerNormalization(self, input_ids: Operand, segment_ids: Operand | None, word_embedding_quant: Operand, position_embedding_quant: Operand, segment_embedding: Operand | None, gamma_quant: Operand, beta_quant: Operand, mask: Operand | None, word_embedding_scale: Operand, position_embedding_scale: Operand, segment_embedding_scale: Operand | None, gamma_scale: Operand, beta_scale: Operand, word_embedding_zero_point: Operand, position_embedding_zero_point: Operand, segment_embedding_zero_point: Operand | None, gamma_zero_point: Operand, beta_zero_point: Operand, /, *, outputs: int, epsilon: float | None = None) -> tuple[Value, ...]:
        """QEmbedLayerNormalization(input_ids, [segment_ids], word_embedding_quant, position_embedding_quant, [segment_embedding], gamma_quant, beta_quant, [mask], word_embedding_scale, position_embedding_scale, [segment_embedding_scale], gamma_scale, beta_scale, word_embedding_zero_point, position_embedding_zero_point, [segment_embedding_zero_point], gamma_zero_point, beta_zero_point): QEmbedLayerNormalization is the quantized fusion of embedding layer in BERT model, with optional ..."""
    def QGemm(self, A: Operand, a_scale: Operand, a_zero_point: Operand, B: Operand, b_scale: Operand, b_zero_point: Operand, C: Operand | None = None, y_scale: Operand | None = None, y_zero_point: Operand | None = None, /, *, alpha: float | None = None, transA: int | None = None, transB: int | None = None) -> Value:
        """QGemm(A, a_scale, a_zero_point, B, b_scale, b_zero_point, [C], [y_scale], [y_zero_point]): Quantized Gemm."""
    def QLinearAdd(self, A: Operand, A_scale: Operand, A_zero_point: Operand | None, B: Operand, B_scale: Operand, B_zero_point: Operand | None, C_scale: Operand, C_zero_point: Operand | None = None, /) -> Value:
        """QLinearAdd(A, A_scale, [A_zero_point], B, B_scale, [B_zero_point], C_scale, [C_zero_point]): Performs element-wise binary addition on 8 bit data types (with Numpy-style broadcasting support)."""
    def QLinearAveragePool(self, X: Operand, x_scale: Operand, x_zero_point: Operand | None, y_scale: Operand, y_zero_point: Operand | None = None, /, *, kernel_shape: Sequence[int], auto_pad: str | None = None, ceil_mode: int | None = None, channels_last: int | None = None, count_include_pad: int | None = None, pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Value:
        """QLinearAveragePool(X, x_scale, [x_zero_point], y_scale, [y_zero_point]): QLinearAveragePool consumes an input tensor X and applies average pooling across the tensor ..."""
    def QLinearConcat(self, Y_scale: Operand, Y_zero_point: Operand, *inputs: Operand | None, axis: int) -> Value:
        """QLinearConcat(Y_scale, Y_zero_point, inputs): Concatenate a list of tensors into a single tensor.All input tensors must have the same shape ..."""
    def QLinearConv(self, x: Operand, x_scale: Operand, x_zero_point: Operand, w: Operand, w_scale: Operand, w_zero_point: Operand, y_scale: Operand, y_zero_point: Operand, B: Operand | None = None, /, *, auto_pad: str | None = None, channels_last: int | None = None, dilations: Sequence[int] | None = None, group: int | None = None, kernel_shape: Sequence[int] | None = None, pads: Sequence[int] | None = None, strides: Sequence[int] | None = None) -> Value:
        """QLinearConv(x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, [B])."""
    def QLinearGlobalAveragePool(self, X: Operand, x_scale: Operand, x_zero_point: Operand, y_scale: Operand, y_zero_point: Operand, /, *, channels_last: int | None = None) -> Value:
        """QLinearGlobalAveragePool(X, x_scale, x_zero_point, y_scale, y_zero_point): QLinearGlobalAveragePool consumes an input tensor X and applies Average pooling across the values ..."""
    def QLinearLeakyRelu(self, X: Operand, X_scale: Operand, X_zero_point: Operand | None, Y_scale: Operand, Y_zero_point: Operand | None = None, /, *, alpha: float | None = None) -> Value:
        """QLinearLeakyRelu(X, X_scale, [X_zero_point], Y_scale, [Y_zero_point]): QLinearLeakyRelu takes quantized input data (Tensor), an argument alpha, and quantize parameter for ..."""
    def QLinearMul(self, A: Operand, A_scale: Operand, A_zero_point: Operand | None, B: Operand, B_scale: Operand, B_zero_point: Operand | None, C_scale: Operand, C_zero_point: Operand | None = None, /) -> Value:
        """QLinearMul(A, A_scale, [A_zero_point], B, B_scale, [B_zero_point], C_scale, [C_zero_point]): Performs element-wise binary multiplication on 8 bit data types (with Numpy-style broadcasting ..."""
    def QLinearReduceMean(self, data: Operand, data_scale: Operand, data_zero_point: Operand | None, reduced_scale: Operand, reduced_zero_point: Operand | None = None, /, *, axes: Sequence[int], keepdims: int) -> Value:
        """QLinearReduceMean(data, data_scale, [data_zero_point], reduced_scale, [reduced_zero_point]): Computes the mean of the low-precision input tensor's element along the provided axes."""
    def QLinearSigmoid(self, X: Operand, X_scale: Operand, X_zero_point: Operand | None, Y_scale: Operand, Y_zero_point: Operand | None = None, /) -> Value:
        """QLinearSigmoid(X, X_scale, [X_zero_point], Y_scale, [Y_zero_point]): QLinearSigmoid takes quantized input data (Tensor), and quantize parameter for output, and produces ..."""
    def QLinearSoftmax(self, X: Operand, X_scale: Operand, x_zero_point: Operand | None, y_scale: Operand, y_zero_point: Operand, /, *, opset: int, axis: int | None = None) -> Value:
        """QLinearSoftmax(X, X_scale, [x_zero_point], y_scale, y_zero_point): QLinearSoftmax computes the normalized exponential values for the given input."""
    def QLinearWhere(self, condition: Operand, X: Operand, x_scale: Operand, x_zero_point: Operand, Y: Operand, y_scale: Operand, y_zero_point: Operand, z_scale: Operand, z_zero_point: Operand, /) -> Value:
        """QLinearWhere(condition, X, x_scale, x_zero_point, Y, y_scale, y_zero_point, z_scale, z_zero_point): Return elements, either from X or Y, depending on condition."""
    def QMoE(self, input: Operand, router_probs: Operand, fc1_experts_weights: Operand, fc1_scales: Operand | None, fc1_experts_bias: Operand | None, fc2_experts_weights: Operand, fc2_scales: Operand | None = None, fc2_experts_bias: Operand | None = None, fc3_experts_weights: Operand | None = None, fc3_scales: Operand | None = None, fc3_experts_bias: Operand | None = None, fc1_zero_points: Operand | None = None, fc2_zero_points: Operand | None = None, fc3_zero_points: Operand | None = None, router_weights: Operand | None = None, fc1_global_scale: Operand | None = None, fc2_global_scale: Operand | None = None, fc1_act_scale: Operand | None = None, fc2_act_scale: Operand | None = None, fc1_act_block_scale: Operand | None = None, fc2_act_block_scale: Operand | None = None, /, *, accuracy_level: int | None = None, activation_alpha: float | None = None, activation_beta: float | None = None, activation_type: str | None = None, block_size: int | None = None, expert_weight_bits: int | None = None, fc1_expert_weight_bits: int | None = None, fc2_expert_weight_bits: int | None = None, fc3_expert_weight_bits: int | None = None, k: int | None = None, normalize_routing_weights: int | None = None, quant_type: str | None = None, swiglu_fusion: int | None = None, swiglu_limit: float | None = None, use_sparse_mixer: int | None = None, weights_prepacked: int | None = None) -> Value:
        """QMoE(input, router_probs, fc1_experts_weights, [fc1_scales], [fc1_experts_bias], fc2_experts_weights, [fc2_scales], [fc2_experts_bias], [fc3_experts_weights], [fc3_scales], [fc3_experts_bias], [fc1_zero_points], [fc2_zero_points], [fc3_zero_points], [router_weights], [fc1_global_scale], [fc2_global_scale], [fc1_act_scale], [fc2_act_scale], [fc1_act_block_scale], [fc2_act_block_scale]): Quantized mixture of experts (MoE)."""
    def QOrderedAttention(self, input: Operand, scale_input: Operand, scale_Q_gemm: Operand, scale_K_gemm: Operand, scale_V_gemm: Operand, Q_weight: Operand, K_weight: Operand, V_weight: Operand, scale_Q_weight: Operand, scale_K_weight: Operand, scale_V_weight: Operand, Q_bias: Operand, K_bias: Operand, V_bias: Operand, scale_QKT_gemm: Operand | None, scale_QKT_softmax: Operand | None, scale_values_gemm: Operand, mask_index: Operand | None = None, past: Operand | None = None, attention_bias: Operand | None = None, /, *, num_heads: int, order_input: int, order_output: int, order_weight: int, qkv_hidden_sizes: Sequence[int] | None = None, unidirectional: int | None = None) -> Value:
        """QOrderedAttention(input, scale_input, scale_Q_gemm, scale_K_gemm, scale_V_gemm, Q_weight, K_weight, V_weight, scale_Q_weight, scale_K_weight, scale_V_weight, Q_bias, K_bias, V_bias, [scale_QKT_gemm], [scale_QKT_softmax], scale_values_gemm, [mask_index], [past], [attention_bias]): Quantized version of simplified Multi-Head Self Attention(using int8 with specific matrix Layout)."""
    def QOrderedGelu(self, X: Operand, scale_X: Operand, scale_Y: Operand, /, *, order_X: int | None = None, order_Y: int | None = None) -> Value:
        """QOrderedGelu(X, scale_X, scale_Y): Ordered Quantize Gelu."""
    def QOrderedLayerNormalization(self, X: Operand, scale_X: Operand, scale: Operand, B: Operand | None, scale_Y: Operand, /, *, axis: int | None = None, epsilon: float | None = None, order_X: int | None = None, order_Y: int | None = None) -> Value:
        """QOrderedLayerNormalization(X, scale_X, scale, [B], scale_Y): QOrderedLayerNormalization."""
    def QOrderedLongformerAttention(self, input: Operand, scale_input: Operand, weight: Operand, scale_weight: Operand, bias: Operand, scale_bias: Operand, scale_qkv_gemm: Operand, mask: Operand, global_weight: Operand, scale_global_weight: Operand, global_bias: Operand, scale_global_gemm: Operand, global_: Operand, scale_output: Operand, /, *, num_heads: int, order_global_weight: int, order_input: int, order_output: int, order_weight: int, window: int) -> Value:
        """QOrderedLongformerAttention(input, scale_input, weight, scale_weight, bias, scale_bias, scale_qkv_gemm, mask, global_weight, scale_global_weight, global_bias, scale_global_gemm, global, scale_output): Quantized version of Longformer Self Attention (using int8 with specific matrix Layout)."""
    def QOrderedMatMul(self, A: Operand, scale_A: Operand, B: Operand, scale_B: Operand, scale_Y: Operand, bias: Operand | None = None, C: Operand | None = None, scale_C: Operand | None = None, /, *, order_A: int, order_B: int, order_Y: int) -> Value:
        """QOrderedMatMul(A, scale_A, B, scale_B, scale_Y, [bias], [C], [scale_C]): Quantize (Int8) MatMul with order."""
    @overload
    def QuantizeBFP(self, x: Operand, /, *, bfp_type: int, block_dim: int | None = None) -> Value:
        """QuantizeBFP(x): The BFP quantization operator."""
    @overload
    def QuantizeBFP(self, x: Operand, /, *, outputs: int, bfp_type: int, block_dim: int | None = None) -> tuple[Value, ...]:
        """QuantizeBFP(x): The BFP quantization operator."""
    def QuantizeLinear(self, x: Operand, y_scale: Operand, y_zero_point: Operand | None = None, /, *, axis: int | None = None) -> Value:
        """QuantizeLinear(x, y_scale, [y_zero_point]): The linear quantization operator."""
    def QuantizeWithOrder(self, input: Operand, scale_input: Operand, /, *, order_input: int, order_output: int) -> Value:
        """QuantizeWithOrder(input, scale_input): Quantize input matrix to specific layout used in cublaslt."""
    def QuickGelu(self, X: Operand, /, *, alpha: float | None = None) -> Value:
        """QuickGelu(X): Compute x * Sigmoid(alpha * x)."""
    def Range(self, start: Operand, limit: Operand, delta: Operand | None = None, /) -> Value:
        """Range(start, limit, [delta]): Creates a sequence of numbers that begins at start and extends by increments of delta up to but not ..."""
    def ReduceSumInteger(self, data: Operand, /, *, axes: Sequence[int], keepdims: int) -> Value:
        """ReduceSumInteger(data): Computes the sum of the low-precision input tensor's element along the provided axes."""
    def RelativePositionBias(self, bias_table: Operand, query_length: Operand, key_length: Operand, /, *, max_distance: int, is_bidirectional: int | None = None) -> Value:
        """RelativePositionBias(bias_table, query_length, key_length): Compute binned relative position bias for T5 model. ref."""
    @overload
    def RemovePadding(self, input: Operand, sequence_token_count: Operand, /) -> Value:
        """RemovePadding(input, sequence_token_count): Compress transformer input by removing paddings."""
    @overload
    def RemovePadding(self, input: Operand, sequence_token_count: Operand, /, *, outputs: int) -> tuple[Value, ...]:
        """RemovePadding(input, sequence_token_count): Compress transformer input by removing paddings."""
    def RestorePadding(self, input: Operand, token_offset: Operand, /) -> Value:
        """RestorePadding(input, token_offset): Restore paddings and fill padding with zeros."""
    def Rfft(self, X: Operand, /, *, normalized: int | None = None, onesided: int | None = None, signal_ndim: int | None = None) -> Value:
        """Rfft(X): This function computes the n-point one dimensional Fourier transform for a real-valued input where ..."""
    def RotaryEmbedding(self, input: Operand, position_ids: Operand, cos_cache: Operand, sin_cache: Operand, /, *, interleaved: int | None = None, is_packed_batching: int | None = None, num_heads: int | None = None, rotary_embedding_dim: int | None = None, scale: float | None = None) -> Value:
        """RotaryEmbedding(input, position_ids, cos_cache, sin_cache): RotaryEmbedding is the implementation of rotary positional embeddings (RoPE)."""
    def SampleOp(self, X: Operand, /) -> Value:
        """SampleOp(X): Sample echo operator."""
    @overload
    def Sampling(self, input_ids: Operand, max_length: Operand, min_length: Operand | None = None, repetition_penalty: Operand | None = None, vocab_mask: Operand | None = None, prefix_vocab_mask: Operand | None = None, attention_mask: Operand | None = None, presence_mask: Operand | None = None, seed: Operand | None = None, /, *, decoder: Graph, eos_token_id: int, pad_token_id: int, custom: int | None = None, decoder_start_token_id: int | None = None, encoder: Graph | None = None, filter_value: float | None = None, init_decoder: Graph | None = None, min_tokens_to_keep: int | None = None, model_type: int | None = None, no_repeat_ngram_size: int | None = None, presence_penalty: float | None = None, temperature: float | None = None, top_p: float | None = None, vocab_size: int | None = None) -> Value:
        """Sampling(input_ids, max_length, [min_length], [repetition_penalty], [vocab_mask], [prefix_vocab_mask], [attention_mask], [presence_mask], [seed]): Greedy Sampling for text generation."""
    @overload
    def Sampling(self, input_ids: Operand, max_length: Operand, min_length: Operand | None = None, repetition_penalty: Operand | None = None, vocab_mask: Operand | None = None, prefix_vocab_mask: Operand | None = None, attention_mask: Operand | None = None, presence_mask: Operand | None = None, seed: Operand | None = None, /, *, outputs: int, decoder: Graph, eos_token_id: int, pad_token_id: int, custom: int | None = None, decoder_start_token_id: int | None = None, encoder: Graph | None = None, filter_value: float | None = None, init_decoder: Graph | None = None, min_tokens_to_keep: int | None = None, model_type: int | None = None, no_repeat_ngram_size: int | None = None, presence_penalty: float | None = None, temperature: float | None = None, top_p: float | None = None, vocab_size: int | None = None) -> tuple[Value, ...]:
        """Sampling(input_ids, max_length, [min_length], [repetition_penalty], [vocab_mask], [prefix_vocab_mask], [attention_mask], [presence_mask], [seed]): Greedy Sampling for text generation."""
    def ScaledSiLU(self, X: Operand, scale: Operand | None = None, /, *, alpha: float | None = None) -> Value:
        """ScaledSiLU(X, [scale]): Computes SiLU after scaling, with explicit T rounding."""
    @overload
    def SkipGroupNorm(self, X: Operand, gamma: Operand, beta: Operand, skip: Operand, bias: Operand | None = None, /, *, activation: int, groups: int, channels_last: int | None = None, epsilon: float | None = None) -> Value:
        """SkipGroupNorm(X, gamma, beta, skip, [bias]): This operator element-wise adds x, skip and bias, then apply group normalization and optional ..."""
    @overload
    def SkipGroupNorm(self, X: Operand, gamma: Operand, beta: Operand, skip: Operand, bias: Operand | None = None, /, *, outputs: int, activation: int, groups: int, channels_last: int | None = None, epsilon: float | None = None) -> tuple[Value, ...]:
        """SkipGroupNorm(X, gamma, beta, skip, [bias]): This operator element-wise adds x, skip and bias, then apply group normalization and optional ..."""
    @overload
    def SkipLayerNormalization(self, input: Operand, skip: Operand, gamma: Operand, beta: Operand | None = None, bias: Operand | None = None, /, *, epsilon: float | None = None) -> Value:
        """SkipLayerNormalization(input, skip, gamma, [beta], [bias]): Skip and Layer Normalization Fusion."""
    @overload
    def SkipLayerNormalization(self, input: Operand, skip: Operand, gamma: Operand, beta: Operand | None = None, bias: Operand | None = None, /, *, outputs: int, epsilon: float | None = None) -> tuple[Value, ...]:
        """SkipLayerNormalization(input, skip, gamma, [beta], [bias]): Skip and Layer Normalization Fusion."""
    @overload
    def SkipSimplifiedLayerNormalization(self, input: Operand, skip: Operand, gamma: Operand, bias: Operand | None = None, /, *, epsilon: float | None = None) -> Value:
        """SkipSimplifiedLayerNormalization(input, skip, gamma, [bias]): Skip and Root Mean Square Layer Normalization."""
    @overload
    def SkipSimplifiedLayerNormalization(self, input: Operand, skip: Operand, gamma: Operand, bias: Operand | None = None, /, *, outputs: int, epsilon: float | None = None) -> tuple[Value, ...]:
        """SkipSimplifiedLayerNormalization(input, skip, gamma, [bias]): Skip and Root Mean Square Layer Normalization."""
    @overload
    def Snpe(self, *inputs: Operand | None, DLC: str, notes: str | None = None, snpe_version: str | None = None, target_device: str | None = None) -> Value:
        """Snpe(inputs): Onnx node for SNPE."""
    @overload
    def Snpe(self, *inputs: Operand | None, outputs: int, DLC: str, notes: str | None = None, snpe_version: str | None = None, target_device: str | None = None) -> tuple[Value, ...]:
        """Snpe(inputs): Onnx node for SNPE."""
    @overload
    def SparseAttention(self, query: Operand, key: Operand | None, value: Operand | None, past_key: Operand, past_value: Operand, block_row_indices: Operand, block_col_indices: Operand, total_sequence_length: Operand, key_total_sequence_lengths: Operand, cos_cache: Operand | None = None, sin_cache: Operand | None = None, /, *, kv_num_heads: int, num_heads: int, sparse_block_size: int, do_rotary: int | None = None, rotary_interleaved: int | None = None, scale: float | None = None) -> Value:
        """SparseAttention(query, [key], [value], past_key, past_value, block_row_indices, block_col_indices, total_sequence_length, key_total_sequence_lengths, [cos_cache], [sin_cache]): Block Sparse Attention used in Phi-3-small ( It is inspired by Sparse Transformers ( and BigBird  ..."""
    @overload
    def SparseAttention(self, query: Operand, key: Operand | None, value: Operand | None, past_key: Operand, past_value: Operand, block_row_indices: Operand, block_col_indices: Operand, total_sequence_length: Operand, key_total_sequence_lengths: Operand, cos_cache: Operand | None = None, sin_cache: Operand | None = None, /, *, outputs: int, kv_num_heads: int, num_heads: int, sparse_block_size: int, do_rotary: int | None = None, rotary_interleaved: int | None = None, scale: float | None = None) -> tuple[Value, ...]:
        """SparseAttention(query, [key], [value], past_key, past_value, block_row_indices, block_col_indices, total_sequence_length, key_total_sequence_lengths, [cos_cache], [sin_cache]): Block Sparse Attention used in Phi-3-small ( It is inspired by Sparse Transformers ( and BigBird  ..."""
    @overload
    def SparseAttentionIndexer(self, query: Operand, key: Operand | None, query_norm_weight: Operand, key_norm_weight: Operand, cos_cache: Operand, sin_cache: Operand, mask: Operand | None, past_key: Operand, gate: Operand | None = None, position_bias: Operand | None = None, head_weights: Operand | None = None, position_ids: Operand | None = None, past_sequence_length: Operand | None = None, past_proj_buffer: Operand | None = None, /, *, compress_ratio: int, policy_mode: str, epsilon: float | None = None, head_weight_scale: float | None = None, index_topk: int | None = None, scale: float | None = None, token_budget: int | None = None) -> Value:
        """SparseAttentionIndexer(query, [key], query_norm_weight, key_norm_weight, cos_cache, sin_cache, [mask], past_key, [gate], [position_bias], [head_weights], [position_ids], [past_sequence_length], [past_proj_buffer]): Selects, for every query token, the sparse-attention candidates that the following attention ..."""
    @overload
    def SparseAttentionIndexer(self, query: Operand, key: Operand | None, query_norm_weight: Operand, key_norm_weight: Operand, cos_cache: Operand, sin_cache: Operand, mask: Operand | None, past_key: Operand, gate: Operand | None = None, position_bias: Operand | None = None, head_weights: Operand | None = None, position_ids: Operand | None = None, past_sequence_length: Operand | None = None, past_proj_buffer: Operand | None = None, /, *, outputs: int, compress_ratio: int, policy_mode: str, epsilon: float | None = None, head_weight_scale: float | None = None, index_topk: int | None = None, scale: float | None = None, token_budget: int | None = None) -> tuple[Value, ...]:
        """SparseAttentionIndexer(query, [key], query_norm_weight, key_norm_weight, cos_cache, sin_cache, [mask], past_key, [gate], [position_bias], [head_weights], [position_ids], [past_sequence_length], [past_proj_buffer]): Selects, for every query token, the sparse-attention candidates that the following attention ..."""
    @overload
    def SparsePagedAttention(self, query: Operand, key: Operand | None, value: Operand | None, key_cache: Operand, value_cache: Operand, cumulative_sequence_length: Operand, past_seqlens: Operand, block_table: Operand, slot_mapping: Operand | None, selected_indices: Operand, selected_counts: Operand, auxiliary_key: Operand | None = None, auxiliary_value: Operand | None = None, auxiliary_lengths: Operand | None = None, cos_cache: Operand | None = None, sin_cache: Operand | None = None, head_sink: Operand | None = None, q_norm_weight: Operand | None = None, k_norm_weight: Operand | None = None, k_scale: Operand | None = None, v_scale: Operand | None = None, attention_metadata: Operand | None = None, /, *, kv_num_heads: int, num_heads: int, attention_mode: str | None = None, auxiliary_cache_layout: str | None = None, auxiliary_kv_shared: int | None = None, do_rotary: int | None = None, is_causal: int | None = None, k_quant_type: str | None = None, local_window_size: int | None = None, qk_norm_epsilon: float | None = None, rotary_interleaved: int | None = None, rotary_offset: int | None = None, scale: float | None = None, selected_kv_source: str | None = None, softcap: float | None = None, v_quant_type: str | None = None) -> Value:
        """SparsePagedAttention(query, [key], [value], key_cache, value_cache, cumulative_sequence_length, past_seqlens, block_table, [slot_mapping], selected_indices, selected_counts, [auxiliary_key], [auxiliary_value], [auxiliary_lengths], [cos_cache], [sin_cache], [head_sink], [q_norm_weight], [k_norm_weight], [k_scale], [v_scale], [attention_metadata]): Selected-index attention over the PagedAttention main K/V cache."""
    @overload
    def SparsePagedAttention(self, query: Operand, key: Operand | None, value: Operand | None, key_cache: Operand, value_cache: Operand, cumulative_sequence_length: Operand, past_seqlens: Operand, block_table: Operand, slot_mapping: Operand | None, selected_indices: Operand, selected_counts: Operand, auxiliary_key: Operand | None = None, auxiliary_value: Operand | None = None, auxiliary_lengths: Operand | None = None, cos_cache: Operand | None = None, sin_cache: Operand | None = None, head_sink: Operand | None = None, q_norm_weight: Operand | None = None, k_norm_weight: Operand | None = None, k_scale: Operand | None = None, v_scale: Operand | None = None, attention_metadata: Operand | None = None, /, *, outputs: int, kv_num_heads: int, num_heads: int, attention_mode: str | None = None, auxiliary_cache_layout: str | None = None, auxiliary_kv_shared: int | None = None, do_rotary: int | None = None, is_causal: int | None = None, k_quant_type: str | None = None, local_window_size: int | None = None, qk_norm_epsilon: float | None = None, rotary_interleaved: int | None = None, rotary_offset: int | None = None, scale: float | None = None, selected_kv_source: str | None = None, softcap: float | None = None, v_quant_type: str | None = None) -> tuple[Value, ...]:
        """SparsePagedAttention(query, [key], [value], key_cache, value_cache, cumulative_sequence_length, past_seqlens, block_table, [slot_mapping], selected_indices, selected_counts, [auxiliary_key], [auxiliary_value], [auxiliary_lengths], [cos_cache], [sin_cache], [head_sink], [q_norm_weight], [k_norm_weight], [k_scale], [v_scale], [attention_metadata]): Selected-index attention over the PagedAttention main K/V cache."""
    def SparseToDenseMatMul(self, A: Operand, B: Operand, /, *, alpha: float | None = None, transA: int | None = None, transB: int | None = None) -> Value:
        """SparseToDenseMatMul(A, B)."""
    def Tokenizer(self, X: Operand, /, *, mark: int, mincharnum: int, pad_value: str, separators: Sequence[str] | None = None, tokenexp: str | None = None) -> Value:
        """Tokenizer(X): Tokenizer divides each string in X into a vector of strings along the last axis."""
    def TorchEmbedding(self, weight: Operand, indices: Operand, padding_idx: Operand | None = None, scale_grad_by_freq: Operand | None = None, /) -> Value:
        """TorchEmbedding(weight, indices, [padding_idx], [scale_grad_by_freq]): Based on Torch operator Embedding, creates a lookup table of embedding vectors of fixed size, for a ..."""
    def TransposeMatMul(self, A: Operand, B: Operand, /, *, alpha: float | None = None, transA: int | None = None, transB: int | None = None) -> Value:
        """TransposeMatMul(A, B): Duplicate of FusedMatMul."""
    def Trilu(self, X: Operand, k: Operand | None = None, /, *, upper: int | None = None) -> Value:
        """Trilu(X, [k]): Returns the upper or lower triangular part of a 2-D matrix, or batches of 2-D matrices."""
    def UnfoldTensor(self, input: Operand, /, *, size: int, dim: int | None = None, step: int | None = None) -> Value:
        """UnfoldTensor(input): Returns a tensor which contains all slices of size size from input tensor in the dimension dim."""
    @overload
    def Unique(self, x: Operand, /) -> Value:
        """Unique(x): Finds all the unique values (deduped list) present in the given input tensor."""
    @overload
    def Unique(self, x: Operand, /, *, outputs: int) -> tuple[Value, ...]:
        """Unique(x): Finds all the unique values (deduped list) present in the given input tensor."""
    @overload
    def VarlenCausalConvWithState(self, input: Operand, weight: Operand, cumulative_sequence_length: Operand, bias: Operand | None, initial_state: Operand, capture_count: Operand | None = None, /, *, activation: str | None = None, dilation: int | None = None, state_update_capacity: int | None = None) -> Value:
        """VarlenCausalConvWithState(input, weight, cumulative_sequence_length, [bias], initial_state, [capture_count]): Stateful causal depthwise convolution over a packed, token-major batch of variable-length sequences ..."""
    @overload
    def VarlenCausalConvWithState(self, input: Operand, weight: Operand, cumulative_sequence_length: Operand, bias: Operand | None, initial_state: Operand, capture_count: Operand | None = None, /, *, outputs: int, activation: str | None = None, dilation: int | None = None, state_update_capacity: int | None = None) -> tuple[Value, ...]:
        """VarlenCausalConvWithState(input, weight, cumulative_sequence_length, [bias], initial_state, [capture_count]): Stateful causal depthwise convolution over a packed, token-major batch of variable-length sequences ..."""
    @overload
    def VarlenNGramHashMapping(self, input_ids: Operand, multipliers: Operand, vocab_sizes: Operand, cumulative_sequence_length: Operand, past_ids: Operand | None = None, head_offsets: Operand | None = None, eos_token_id: Operand | None = None, segment_ids: Operand | None = None, past_segment_ids: Operand | None = None, capture_count: Operand | None = None, /, *, max_ngram_size: int, n_head_per_ngram: int, pad_id: int, reset_on_eos: int | None = None, state_update_capacity: int | None = None) -> Value:
        """VarlenNGramHashMapping(input_ids, multipliers, vocab_sizes, cumulative_sequence_length, [past_ids], [head_offsets], [eos_token_id], [segment_ids], [past_segment_ids], [capture_count]): Computes Engram n-gram hash ids from pre-compressed tokenizer ids over a packed, token-major batch ..."""
    @overload
    def VarlenNGramHashMapping(self, input_ids: Operand, multipliers: Operand, vocab_sizes: Operand, cumulative_sequence_length: Operand, past_ids: Operand | None = None, head_offsets: Operand | None = None, eos_token_id: Operand | None = None, segment_ids: Operand | None = None, past_segment_ids: Operand | None = None, capture_count: Operand | None = None, /, *, outputs: int, max_ngram_size: int, n_head_per_ngram: int, pad_id: int, reset_on_eos: int | None = None, state_update_capacity: int | None = None) -> tuple[Value, ...]:
        """VarlenNGramHashMapping(input_ids, multipliers, vocab_sizes, cumulative_sequence_length, [past_ids], [head_offsets], [eos_token_id], [segment_ids], [past_segment_ids], [capture_count]): Computes Engram n-gram hash ids from pre-compressed tokenizer ids over a packed, token-major batch ..."""
    @overload
    def WhisperBeamSearch(self, input_ids: Operand, max_length: Operand, min_length: Operand | None, num_beams: Operand, num_return_sequences: Operand, length_penalty: Operand | None = None, repetition_penalty: Operand | None = None, vocab_mask: Operand | None = None, prefix_vocab_mask: Operand | None = None, attention_mask: Operand | None = None, decoder_input_ids: Operand | None = None, logits_processor: Operand | None = None, cross_qk_layer_head: Operand | None = None, extra_decoding_ids: Operand | None = None, temperature: Operand | None = None, /, *, decoder: Graph, eos_token_id: int, pad_token_id: int, beginning_timestamp_token_id: int | None = None, decoder_output_cross_qk: int | None = None, decoder_start_token_id: int | None = None, early_stopping: int | None = None, encoder: Graph | None = None, init_decoder: Graph | None = None, model_type: int | None = None, no_repeat_ngram_size: int | None = None, no_speech_token_id: int | None = None, no_timestamps_token_id: int | None = None, start_of_lm_token_id: int | None = None, transcribe_token_id: int | None = None, translate_token_id: int | None = None, vocab_size: int | None = None) -> Value:
        """WhisperBeamSearch(input_ids, max_length, [min_length], num_beams, num_return_sequences, [length_penalty], [repetition_penalty], [vocab_mask], [prefix_vocab_mask], [attention_mask], [decoder_input_ids], [logits_processor], [cross_qk_layer_head], [extra_decoding_ids], [temperature]): Beam Search for whisper model, especially with cross_qk features etc."""
    @overload
    def WhisperBeamSearch(self, input_ids: Operand, max_length: Operand, min_length: Operand | None, num_beams: Operand, num_return_sequences: Operand, length_penalty: Operand | None = None, repetition_penalty: Operand | None = None, vocab_mask: Operand | None = None, prefix_vocab_mask: Operand | None = None, attention_mask: Operand | None = None, decoder_input_ids: Operand | None = None, logits_processor: Operand | None = None, cross_qk_layer_head: Operand | None = None, extra_decoding_ids: Operand | None = None, temperature: Operand | None = None, /, *, outputs: int, decoder: Graph, eos_token_id: int, pad_token_id: int, beginning_timestamp_token_id: int | None = None, decoder_output_cross_qk: int | None = None, decoder_start_token_id: int | None = None, early_stopping: int | None = None, encoder: Graph | None = None, init_decoder: Graph | None = None, model_type: int | None = None, no_repeat_ngram_size: int | None = None, no_speech_token_id: int | None = None, no_timestamps_token_id: int | None = None, start_of_lm_token_id: int | None = None, transcribe_token_id: int | None = None, translate_token_id: int | None = None, vocab_size: int | None = None) -> tuple[Value, ...]:
        """WhisperBeamSearch(input_ids, max_length, [min_length], num_beams, num_return_sequences, [length_penalty], [repetition_penalty], [vocab_mask], [prefix_vocab_mask], [attention_mask], [decoder_input_ids], [logits_processor], [cross_qk_layer_head], [extra_decoding_ids], [temperature]): Beam Search for whisper model, especially with cross_qk features etc."""
    def WordConvEmbedding(self, Sequence: Operand, W: Operand, B: Operand, C: Operand, /, *, char_embedding_size: int | None = None, conv_window_size: int | None = None, embedding_size: int | None = None) -> Value:
        """WordConvEmbedding(Sequence, W, B, C): The WordConvEmbedding takes in a batch of sequence words and embed each word to a vector."""

class ContribOperatorPatterns:
    """Patterns of the operators of com.microsoft."""
    def Attention(self, *inputs: PatternInput, do_rotary: int | Var | Predicate = ..., mask_filter_value: float | Var | Predicate = ..., num_heads: int | Var | Predicate = ..., past_present_share_buffer: int | Var | Predicate = ..., qkv_hidden_sizes: Sequence[int] | Var | Predicate = ..., rotary_embedding_dim: int | Var | Predicate = ..., scale: float | Var | Predicate = ..., unidirectional: int | Var | Predicate = ...) -> OpPattern:
        """Attention(input, weights, [bias], [mask_index], [past], [attention_bias], [past_sequence_length]): Multi-Head Attention that can be either unidirectional (like GPT-2) or bidirectional (like BERT)."""
    def AttnLSTM(self, *inputs: PatternInput, activation_alpha: Sequence[float] | Var | Predicate = ..., activation_beta: Sequence[float] | Var | Predicate = ..., activations: Sequence[str] | Var | Predicate = ..., clip: float | Var | Predicate = ..., direction: str | Var | Predicate = ..., hidden_size: int | Var | Predicate = ..., input_forget: int | Var | Predicate = ...) -> OpPattern:
        """AttnLSTM(X, W, R, [B], [sequence_lens], [initial_h], [initial_c], [P], [QW], [MW], [V], [M], [memory_seq_lens], [AW]): Computes an one-layer RNN where its RNN Cell is an AttentionWrapper wrapped a LSTM Cell."""
    def BeamSearch(self, *inputs: PatternInput, decoder: Graph | Var | Predicate = ..., decoder_start_token_id: int | Var | Predicate = ..., early_stopping: int | Var | Predicate = ..., encoder: Graph | Var | Predicate = ..., eos_token_id: int | Var | Predicate = ..., init_decoder: Graph | Var | Predicate = ..., model_type: int | Var | Predicate = ..., no_repeat_ngram_size: int | Var | Predicate = ..., pad_token_id: int | Var | Predicate = ..., vocab_size: int | Var | Predicate = ...) -> OpPattern:
        """BeamSearch(input_ids, max_length, [min_length], num_beams, num_return_sequences, [length_penalty], [repetition_penalty], [vocab_mask], [prefix_vocab_mask], [attention_mask], [decoder_input_ids], [logits_processor]): Beam Search for text generation."""
    def BiasAdd(self, *inputs: PatternInput) -> OpPattern:
        """BiasAdd(X, bias, skip): Add input with bias, then add residual inputs."""
    def BiasDropout(self, *inputs: PatternInput, seed: int | Var | Predicate = ...) -> OpPattern:
        """BiasDropout(data, bias, [residual], [ratio], [training_mode]): output, dropout_mask = Dropout(data + bias, ratio) + residual, Intended to specialize the dropout ..."""
    def BiasGelu(self, *inputs: PatternInput) -> OpPattern:
        """BiasGelu(A, B): Bias Gelu."""
    def BiasSoftmax(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., is_inner_broadcast: int | Var | Predicate = ...) -> OpPattern:
        """BiasSoftmax(data, bias): Y = softmax(scores + bias)) with simple broadcast on bias."""
    def BiasSplitGelu(self, *inputs: PatternInput) -> OpPattern:
        """BiasSplitGelu(X, bias): A fusion used in diffusion model that after adding bias, hidden state is sliced into two tensors of ..."""
    def BifurcationDetector(self, *inputs: PatternInput, max_ngram_size: int | Var | Predicate = ..., min_ngram_size: int | Var | Predicate = ...) -> OpPattern:
        """BifurcationDetector(src_tokens, cur_tokens, prev_suffix_match_idx, [pred_tokens]): Component for aggressive decoding."""
    def BitmaskBiasDropout(self, *inputs: PatternInput, seed: int | Var | Predicate = ...) -> OpPattern:
        """BitmaskBiasDropout(data, bias, [residual], [ratio], [training_mode]): output, dropout_bitmask = Dropout(data + bias, ratio) + residual, Intended to specialize the ..."""
    def BitmaskDropout(self, *inputs: PatternInput, seed: int | Var | Predicate = ...) -> OpPattern:
        """BitmaskDropout(data, [ratio], [training_mode]): BitmaskDropout takes an input floating-point tensor, an optional input ratio (floating-point ..."""
    def BranchwiseRMSNorm(self, *inputs: PatternInput, epsilon: float | Var | Predicate = ..., num_branches: int | Var | Predicate = ...) -> OpPattern:
        """BranchwiseRMSNorm(X, [scale]): Applies RMS normalization independently to each branch."""
    def CDist(self, *inputs: PatternInput, metric: str | Var | Predicate = ...) -> OpPattern:
        """CDist(A, B)."""
    def CausalConvWithState(self, *inputs: PatternInput, activation: str | Var | Predicate = ..., channels_last: int | Var | Predicate = ..., dilation: int | Var | Predicate = ..., ndim: int | Var | Predicate = ..., state_window: int | Var | Predicate = ...) -> OpPattern:
        """CausalConvWithState(input, weight, [bias], [past_state]): Stateful causal depthwise convolution, generalized to N spatial dimensions."""
    def ComplexMul(self, *inputs: PatternInput) -> OpPattern:
        """ComplexMul(A, B)."""
    def ComplexMulConj(self, *inputs: PatternInput) -> OpPattern:
        """ComplexMulConj(A, B)."""
    def ConvTransposeWithDynamicPads(self, *inputs: PatternInput, auto_pad: str | Var | Predicate = ..., dilations: Sequence[int] | Var | Predicate = ..., group: int | Var | Predicate = ..., kernel_shape: Sequence[int] | Var | Predicate = ..., output_padding: Sequence[int] | Var | Predicate = ..., strides: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """ConvTransposeWithDynamicPads(X, W, [Pads], [B])."""
    def CropAndResize(self, *inputs: PatternInput, extrapolation_value: float | Var | Predicate = ..., mode: str | Var | Predicate = ...) -> OpPattern:
        """CropAndResize(X, rois, batch_indices, crop_size): Extracts crops from the input image tensor and resizes them using bilinear sampling or nearest ..."""
    def DecoderAttention(self, *inputs: PatternInput, mask_filter_value: float | Var | Predicate = ..., num_heads: int | Var | Predicate = ...) -> OpPattern:
        """DecoderAttention(query, key, q_weight, kv_weight, bias, [key_padding_mask], [key_cache], [value_cache], static_kv, use_past, has_layer_state, has_key_padding_mask): This DecoderAttention supports self attention and cross attention, key and value cache, and ..."""
    def DecoderMaskedMultiHeadAttention(self, *inputs: PatternInput, mask_filter_value: float | Var | Predicate = ..., num_heads: int | Var | Predicate = ..., output_qk: int | Var | Predicate = ..., past_present_share_buffer: int | Var | Predicate = ..., scale: float | Var | Predicate = ...) -> OpPattern:
        """DecoderMaskedMultiHeadAttention(query, [key], [value], [mask_index], [attention_bias], [past_key], [past_value], [past_sequence_length], [beam_width], [cache_indirection], [bias]): Multihead attention that supports input sequence length of 1."""
    def DecoderMaskedSelfAttention(self, *inputs: PatternInput, do_rotary: int | Var | Predicate = ..., mask_filter_value: float | Var | Predicate = ..., num_heads: int | Var | Predicate = ..., past_present_share_buffer: int | Var | Predicate = ..., scale: float | Var | Predicate = ...) -> OpPattern:
        """DecoderMaskedSelfAttention(input, weights, bias, [mask_index], past, [attention_bias], past_sequence_length, [beam_width], [cache_indirection]): Self attention that supports input sequence length of 1."""
    def DequantizeBFP(self, *inputs: PatternInput, bfp_type: int | Var | Predicate = ..., block_dim: int | Var | Predicate = ..., dtype: int | Var | Predicate = ...) -> OpPattern:
        """DequantizeBFP(x, shape, strides): The BFP dequantization operator."""
    def DequantizeLinear(self, *inputs: PatternInput, axis: int | Var | Predicate = ...) -> OpPattern:
        """DequantizeLinear(x, x_scale, [x_zero_point]): The linear dequantization operator."""
    def DequantizeWithOrder(self, *inputs: PatternInput, order_input: int | Var | Predicate = ..., order_output: int | Var | Predicate = ..., to: int | Var | Predicate = ...) -> OpPattern:
        """DequantizeWithOrder(input, scale_input): Dequantize input matrix to specific layout used in cublaslt. attr to specify output type, float16 ..."""
    def DynamicQuantizeLSTM(self, *inputs: PatternInput, activation_alpha: Sequence[float] | Var | Predicate = ..., activation_beta: Sequence[float] | Var | Predicate = ..., activations: Sequence[str] | Var | Predicate = ..., clip: float | Var | Predicate = ..., direction: str | Var | Predicate = ..., hidden_size: int | Var | Predicate = ..., input_forget: int | Var | Predicate = ...) -> OpPattern:
        """DynamicQuantizeLSTM(X, W, R, [B], [sequence_lens], [initial_h], [initial_c], [P], W_scale, W_zero_point, R_scale, R_zero_point)."""
    def DynamicQuantizeMatMul(self, *inputs: PatternInput) -> OpPattern:
        """DynamicQuantizeMatMul(A, B, b_scale, [b_zero_point], [bias])."""
    def DynamicSparseAttention(self, *inputs: PatternInput, attention_mode: str | Var | Predicate = ..., auxiliary_kv_shared: int | Var | Predicate = ..., do_rotary: int | Var | Predicate = ..., is_causal: int | Var | Predicate = ..., kv_num_heads: int | Var | Predicate = ..., local_window_size: int | Var | Predicate = ..., num_heads: int | Var | Predicate = ..., qk_norm_epsilon: float | Var | Predicate = ..., rotary_interleaved: int | Var | Predicate = ..., rotary_offset: int | Var | Predicate = ..., scale: float | Var | Predicate = ..., selected_kv_source: str | Var | Predicate = ..., smooth_softmax: int | Var | Predicate = ...) -> OpPattern:
        """DynamicSparseAttention(query, [key], [value], [past_key], [past_value], [auxiliary_key], [auxiliary_value], selected_indices, selected_counts, seqlens_k, total_sequence_length, [cos_cache], [sin_cache], [position_ids], [q_norm_weight], [k_norm_weight], [head_sink]): Model-neutral sparse grouped-query attention with a contiguous main KV cache. selected_indices and ..."""
    def DynamicTimeWarping(self, *inputs: PatternInput) -> OpPattern:
        """DynamicTimeWarping(input): Input is cost matrix where each value in input[r][c] is the cost for pass the point (r, c)."""
    def EPContext(self, *inputs: PatternInput, embed_mode: int | Var | Predicate = ..., ep_cache_context: str | Var | Predicate = ..., ep_sdk_version: str | Var | Predicate = ..., hardware_architecture: str | Var | Predicate = ..., main_context: int | Var | Predicate = ..., max_size: int | Var | Predicate = ..., notes: str | Var | Predicate = ..., onnx_model_filename: str | Var | Predicate = ..., partition_name: str | Var | Predicate = ..., source: str | Var | Predicate = ...) -> OpPattern:
        """EPContext(inputs): Onnx node container for EP context."""
    def EmbedLayerNormalization(self, *inputs: PatternInput, epsilon: float | Var | Predicate = ..., mask_index_type: int | Var | Predicate = ...) -> OpPattern:
        """EmbedLayerNormalization(input_ids, [segment_ids], word_embedding, position_embedding, [segment_embedding], gamma, beta, [mask], [position_ids]): EmbedLayerNormalization is the fusion of embedding layer in BERT model, with optional mask ..."""
    def EngramGate(self, *inputs: PatternInput, epsilon: float | Var | Predicate = ...) -> OpPattern:
        """EngramGate(key, query, value, key_norm_scale, query_norm_scale, [conv_norm_scale]): Fuses the Engram gate."""
    def ExpandDims(self, *inputs: PatternInput) -> OpPattern:
        """ExpandDims(X, axis): ExpandDims echo operator."""
    def FastGelu(self, *inputs: PatternInput) -> OpPattern:
        """FastGelu(X, [bias]): GELU (Gaussian Error Linear Unit) approximation."""
    def FusedConv(self, *inputs: PatternInput, activation: str | Var | Predicate = ..., activation_params: Sequence[float] | Var | Predicate = ..., auto_pad: str | Var | Predicate = ..., dilations: Sequence[int] | Var | Predicate = ..., group: int | Var | Predicate = ..., kernel_shape: Sequence[int] | Var | Predicate = ..., pads: Sequence[int] | Var | Predicate = ..., strides: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """FusedConv(X, W, [B], [Z]): The fused convolution operator schema is the same as Conv besides it includes an attribute ..."""
    def FusedGemm(self, *inputs: PatternInput, activation: str | Var | Predicate = ..., activation_alpha: float | Var | Predicate = ..., activation_beta: float | Var | Predicate = ..., activation_gamma: float | Var | Predicate = ..., alpha: float | Var | Predicate = ..., beta: float | Var | Predicate = ..., transA: int | Var | Predicate = ..., transB: int | Var | Predicate = ...) -> OpPattern:
        """FusedGemm(A, B, [C]): The FusedGemm operator schema is the same as Gemm besides it includes attributes activation and ..."""
    def FusedMatMul(self, *inputs: PatternInput, alpha: float | Var | Predicate = ..., transA: int | Var | Predicate = ..., transB: int | Var | Predicate = ..., transBatchA: int | Var | Predicate = ..., transBatchB: int | Var | Predicate = ...) -> OpPattern:
        """FusedMatMul(A, B): Matrix product that behaves like numpy.matmul."""
    def FusedMatMulActivation(self, *inputs: PatternInput, activation: str | Var | Predicate = ..., activation_alpha: float | Var | Predicate = ..., activation_axis: int | Var | Predicate = ..., activation_beta: float | Var | Predicate = ..., activation_gamma: float | Var | Predicate = ..., alpha: float | Var | Predicate = ..., transA: int | Var | Predicate = ..., transB: int | Var | Predicate = ..., transBatchA: int | Var | Predicate = ..., transBatchB: int | Var | Predicate = ...) -> OpPattern:
        """FusedMatMulActivation(A, B): Executes the same operation as FusedMatMul, but also has an activation function fused to its output."""
    def GatedAdd(self, *inputs: PatternInput) -> OpPattern:
        """GatedAdd(X, Y, gate): Adds one tensor to another tensor scaled by a per-row gate: output = X + roundto_T(Y  gate) X and Y ..."""
    def GatedDeltaNet(self, *inputs: PatternInput, beta_activation: str | Var | Predicate = ..., chunk_size: int | Var | Predicate = ..., gate_activation: str | Var | Predicate = ..., qk_l2_norm: int | Var | Predicate = ..., scale: float | Var | Predicate = ..., state_update_capacity: int | Var | Predicate = ..., update_rule: str | Var | Predicate = ...) -> OpPattern:
        """GatedDeltaNet(query, [key], [value], [cu_seqlens], [decay], [beta], [initial_state], [a_log], [dt_bias], [capture_count], [state_update_active]): Packed (token-major) gated delta network / linear attention with an explicit recurrent state."""
    def GatedRMSNorm(self, *inputs: PatternInput, activation: str | Var | Predicate = ..., epsilon: float | Var | Predicate = ...) -> OpPattern:
        """GatedRMSNorm(X, scale, gate): Gated RMS normalization as used by Mamba2 / gated DeltaNet attention outputs."""
    def GatedRelativePositionBias(self, *inputs: PatternInput, num_heads: int | Var | Predicate = ...) -> OpPattern:
        """GatedRelativePositionBias(query_layer, query_bias, rel_pos, weight, bias, eco_a, [token_offset]): querylayer = (query_layer + query_bias).reshape(batch_size, seq_len, num_heads ..."""
    def GatherBlockQuantized(self, *inputs: PatternInput, bits: int | Var | Predicate = ..., block_size: int | Var | Predicate = ..., gather_axis: int | Var | Predicate = ..., quantize_axis: int | Var | Predicate = ...) -> OpPattern:
        """GatherBlockQuantized(data, indices, scales, [zero_points]): GatherBlockQuantized is a Gather with data quantized."""
    def GatherND(self, *inputs: PatternInput) -> OpPattern:
        """GatherND(data, indices): Given data tensor of rank r >= 1, and indices tensor of rank q >= 1, gather slices of data into an ..."""
    def Gelu(self, *inputs: PatternInput) -> OpPattern:
        """Gelu(X): Gaussian Error Linear Unit."""
    def GemmFastGelu(self, *inputs: PatternInput) -> OpPattern:
        """GemmFastGelu(X, W, [bias]): It's a fusion of MatMul and FastGelu."""
    def GemmFloat8(self, *inputs: PatternInput, activation: str | Var | Predicate = ..., alpha: float | Var | Predicate = ..., beta: float | Var | Predicate = ..., dtype: int | Var | Predicate = ..., transA: int | Var | Predicate = ..., transB: int | Var | Predicate = ...) -> OpPattern:
        """GemmFloat8(A, B, [C], [scaleA], [scaleB], [scaleY]): Generic Gemm for float and float 8."""
    def GemmaRotaryEmbedding(self, *inputs: PatternInput) -> OpPattern:
        """GemmaRotaryEmbedding(emb, q, q_rot, k, k_rot): GemmaRotaryEmbedding is the implementation of below part of rotary positional embeddings (RoPE)."""
    def GreedySearch(self, *inputs: PatternInput, decoder: Graph | Var | Predicate = ..., decoder_start_token_id: int | Var | Predicate = ..., encoder: Graph | Var | Predicate = ..., eos_token_id: int | Var | Predicate = ..., init_decoder: Graph | Var | Predicate = ..., model_type: int | Var | Predicate = ..., no_repeat_ngram_size: int | Var | Predicate = ..., pad_token_id: int | Var | Predicate = ..., vocab_size: int | Var | Predicate = ...) -> OpPattern:
        """GreedySearch(input_ids, max_length, [min_length], [repetition_penalty], [vocab_mask], [prefix_vocab_mask], [attention_mask]): Greedy Search for text generation."""
    def GridSample(self, *inputs: PatternInput, align_corners: int | Var | Predicate = ..., mode: str | Var | Predicate = ..., padding_mode: str | Var | Predicate = ...) -> OpPattern:
        """GridSample(X, Grid): Given an input and a flow-field grid, computes the output using input values and pixel locations ..."""
    def GroupNorm(self, *inputs: PatternInput, activation: int | Var | Predicate = ..., channels_last: int | Var | Predicate = ..., epsilon: float | Var | Predicate = ..., groups: int | Var | Predicate = ...) -> OpPattern:
        """GroupNorm(X, gamma, beta): Applies Group Normalization over a mini-batch of inputs as described in the paper Group ..."""
    def GroupQueryAttention(self, *inputs: PatternInput, causal: int | Var | Predicate = ..., do_rotary: int | Var | Predicate = ..., k_quant_type: str | Var | Predicate = ..., kv_cache_bit_width: int | Var | Predicate = ..., kv_num_heads: int | Var | Predicate = ..., local_window_size: int | Var | Predicate = ..., num_heads: int | Var | Predicate = ..., qk_norm_epsilon: float | Var | Predicate = ..., qk_output: int | Var | Predicate = ..., rotary_interleaved: int | Var | Predicate = ..., scale: float | Var | Predicate = ..., sliding_window_cache: int | Var | Predicate = ..., smooth_softmax: int | Var | Predicate = ..., softcap: float | Var | Predicate = ..., v_quant_type: str | Var | Predicate = ...) -> OpPattern:
        """GroupQueryAttention(query, [key], [value], [past_key], [past_value], seqlens_k, total_sequence_length, [cos_cache], [sin_cache], [position_ids], [attention_bias], [head_sink], [k_scale], [v_scale], [q_norm_weight], [k_norm_weight]): Group Query Self/Cross Attention with KV Cache Quantization Support."""
    def HyperConnectionPostMix(self, *inputs: PatternInput, num_branches: int | Var | Predicate = ...) -> OpPattern:
        """HyperConnectionPostMix(streams, block_output, post_mix, [stream_mix]): Mixes existing streams and injects one branch output."""
    def HyperConnectionPreMix(self, *inputs: PatternInput, num_branches: int | Var | Predicate = ..., reduction_scale: float | Var | Predicate = ...) -> OpPattern:
        """HyperConnectionPreMix(streams, pre_mix): Reduces C streams to one feature tensor without applying an activation."""
    def Inverse(self, *inputs: PatternInput) -> OpPattern:
        """Inverse(X)."""
    def Irfft(self, *inputs: PatternInput, normalized: int | Var | Predicate = ..., onesided: int | Var | Predicate = ..., signal_ndim: int | Var | Predicate = ...) -> OpPattern:
        """Irfft(X): This function computes the inverse of the one-dimensional n-point RFFT computed in ..."""
    def IsAllFinite(self, *inputs: PatternInput, isinf_only: int | Var | Predicate = ..., isnan_only: int | Var | Predicate = ...) -> OpPattern:
        """IsAllFinite(input): IsAllFinite."""
    def LinearAttention(self, *inputs: PatternInput, chunk_size: int | Var | Predicate = ..., kv_num_heads: int | Var | Predicate = ..., q_num_heads: int | Var | Predicate = ..., scale: float | Var | Predicate = ..., state_window: int | Var | Predicate = ..., update_rule: str | Var | Predicate = ...) -> OpPattern:
        """LinearAttention(query, key, value, [past_state], [decay], [beta]): Unified linear attention operator for autoregressive decoding (T=1) and prefill (T>1)."""
    def LinearAttentionGate(self, *inputs: PatternInput) -> OpPattern:
        """LinearAttentionGate(a, dt_bias, decay_scale, [b]): Fuses the gate projections that feed LinearAttention's gated-delta recurrence: decay = decayscale  ..."""
    def LongformerAttention(self, *inputs: PatternInput, num_heads: int | Var | Predicate = ..., window: int | Var | Predicate = ...) -> OpPattern:
        """LongformerAttention(input, weight, bias, mask, global_weight, global_bias, global): Longformer Self Attention with a local context and a global context."""
    def MRotaryEmbedding(self, *inputs: PatternInput, interleaved: int | Var | Predicate = ..., is_packed_batching: int | Var | Predicate = ..., mrope_layout: int | Var | Predicate = ..., mrope_section: Sequence[int] | Var | Predicate = ..., num_heads: int | Var | Predicate = ..., rotary_embedding_dim: int | Var | Predicate = ..., scale: float | Var | Predicate = ...) -> OpPattern:
        """MRotaryEmbedding(input, position_ids, cos_cache, sin_cache): MRotaryEmbedding is the fused implementation of Multimodal Rotary Positional Embeddings (M-RoPE) ..."""
    def MatMulBlockQuantizedFp4Weight(self, *inputs: PatternInput, block_size: int | Var | Predicate = ...) -> OpPattern:
        """MatMulBlockQuantizedFp4Weight(A, B, weight_scale, weight_scale_2, [input_scale], [bias]): Weight-only NVFP4 (E2M1) matrix multiplication."""
    def MatMulBlockQuantizedFp8Weight(self, *inputs: PatternInput, block_size: int | Var | Predicate = ...) -> OpPattern:
        """MatMulBlockQuantizedFp8Weight(A, B, b_scale, [a_scale], [bias]): Block-scaled FP8 (E4M3) matrix multiplication with optional FP8 activation quantization."""
    def MatMulBnb4(self, *inputs: PatternInput, K: int | Var | Predicate = ..., N: int | Var | Predicate = ..., block_size: int | Var | Predicate = ..., quant_type: int | Var | Predicate = ..., training_mode: int | Var | Predicate = ..., transB: int | Var | Predicate = ...) -> OpPattern:
        """MatMulBnb4(A, B, absmax): MatMulBnb4 is a MatMul with weight quantized with 4 bits using either FP4 or NF4 data type ( It ..."""
    def MatMulFpQ4(self, *inputs: PatternInput, blk_quant_type: int | Var | Predicate = ...) -> OpPattern:
        """MatMulFpQ4(A, B, B_shape): Matrix product with right hand matrix being pre-packed and quantized int4 data blob."""
    def MatMulInteger16(self, *inputs: PatternInput) -> OpPattern:
        """MatMulInteger16(A, B): Matrix product that behaves like numpy.matmul:  The production MUST never overflow."""
    def MatMulIntegerToFloat(self, *inputs: PatternInput) -> OpPattern:
        """MatMulIntegerToFloat(A, B, a_scale, b_scale, [a_zero_point], [b_zero_point], [bias])."""
    def MatMulNBits(self, *inputs: PatternInput, K: int | Var | Predicate = ..., N: int | Var | Predicate = ..., accuracy_level: int | Var | Predicate = ..., bits: int | Var | Predicate = ..., block_size: int | Var | Predicate = ..., weight_prepacked: int | Var | Predicate = ...) -> OpPattern:
        """MatMulNBits(A, B, scales, [zero_points], [g_idx], [bias]): MatMulNBits performs a matrix multiplication where the right-hand-side matrix (weights) is ..."""
    def MatMulNBitsMlp(self, *inputs: PatternInput, K: int | Var | Predicate = ..., N: int | Var | Predicate = ..., accuracy_level: int | Var | Predicate = ..., activation: str | Var | Predicate = ..., bits: int | Var | Predicate = ..., block_size: int | Var | Predicate = ..., epsilon: float | Var | Predicate = ...) -> OpPattern:
        """MatMulNBitsMlp(A, [skip], [norm_scale], gate_B, gate_scales, [gate_bias], up_B, up_scales, [up_bias]): MatMulNBitsMlp fuses two MatMulNBits projections that share the same input and computes gate = ..."""
    def MatMulNBitsQkv(self, *inputs: PatternInput, K: int | Var | Predicate = ..., Nkv: int | Var | Predicate = ..., Nq: int | Var | Predicate = ..., accuracy_level: int | Var | Predicate = ..., bits: int | Var | Predicate = ..., block_size: int | Var | Predicate = ..., epsilon: float | Var | Predicate = ...) -> OpPattern:
        """MatMulNBitsQkv(A, [skip], norm_scale, q_B, q_scales, [q_bias], k_B, k_scales, [k_bias], v_B, v_scales, [v_bias]): MatMulNBitsQkv fuses either SimplifiedLayerNormalization (RMSNorm) or ..."""
    def MaxpoolWithMask(self, *inputs: PatternInput, auto_pad: str | Var | Predicate = ..., kernel_shape: Sequence[int] | Var | Predicate = ..., pads: Sequence[int] | Var | Predicate = ..., storage_order: int | Var | Predicate = ..., strides: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """MaxpoolWithMask(X, M): For internal use."""
    def MoE(self, *inputs: PatternInput, activation_alpha: float | Var | Predicate = ..., activation_beta: float | Var | Predicate = ..., activation_type: str | Var | Predicate = ..., k: int | Var | Predicate = ..., normalize_routing_weights: int | Var | Predicate = ..., swiglu_fusion: int | Var | Predicate = ..., swiglu_limit: float | Var | Predicate = ..., use_sparse_mixer: int | Var | Predicate = ...) -> OpPattern:
        """MoE(input, router_probs, fc1_experts_weights, [fc1_experts_bias], fc2_experts_weights, [fc2_experts_bias], [fc3_experts_weights], [fc3_experts_bias]): Mixture of experts."""
    def MulInteger(self, *inputs: PatternInput) -> OpPattern:
        """MulInteger(A, [A_zero_point], B, [B_zero_point]): Performs element-wise binary quantized multiplication (with Numpy-style broadcasting support). ..."""
    def MultiHeadAttention(self, *inputs: PatternInput, mask_filter_value: float | Var | Predicate = ..., num_heads: int | Var | Predicate = ..., scale: float | Var | Predicate = ..., unidirectional: int | Var | Predicate = ...) -> OpPattern:
        """MultiHeadAttention(query, [key], [value], [bias], [key_padding_mask], [attention_bias], [past_key], [past_value], [past_sequence_length], [cache_indirection]): Multi-Head Self/Cross Attention."""
    def MurmurHash3(self, *inputs: PatternInput, positive: int | Var | Predicate = ..., seed: int | Var | Predicate = ...) -> OpPattern:
        """MurmurHash3(X): The underlying implementation is MurmurHash3_x86_32 generating low latency 32bits hash suitable for ..."""
    def NGramHashMapping(self, *inputs: PatternInput, max_ngram_size: int | Var | Predicate = ..., n_head_per_ngram: int | Var | Predicate = ..., pad_id: int | Var | Predicate = ..., reset_on_eos: int | Var | Predicate = ...) -> OpPattern:
        """NGramHashMapping(input_ids, multipliers, vocab_sizes, [past_ids], [head_offsets], [eos_token_id], [segment_ids]): Computes Engram n-gram hash ids from pre-compressed tokenizer ids."""
    def NGramRepeatBlock(self, *inputs: PatternInput, ngram_size: int | Var | Predicate = ...) -> OpPattern:
        """NGramRepeatBlock(input_ids, scores): Enforce no repetition of n-grams."""
    def NhwcConv(self, *inputs: PatternInput, auto_pad: str | Var | Predicate = ..., dilations: Sequence[int] | Var | Predicate = ..., group: int | Var | Predicate = ..., kernel_shape: Sequence[int] | Var | Predicate = ..., pads: Sequence[int] | Var | Predicate = ..., strides: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """NhwcConv(X, W, [B])."""
    def NhwcFusedConv(self, *inputs: PatternInput, activation: str | Var | Predicate = ..., activation_params: Sequence[float] | Var | Predicate = ..., auto_pad: str | Var | Predicate = ..., dilations: Sequence[int] | Var | Predicate = ..., group: int | Var | Predicate = ..., kernel_shape: Sequence[int] | Var | Predicate = ..., pads: Sequence[int] | Var | Predicate = ..., strides: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """NhwcFusedConv(X, W, [B], [Z]): NhwcFusedConv is a Conv operator with optional activation and add operators fused in."""
    def NhwcMaxPool(self, *inputs: PatternInput, auto_pad: str | Var | Predicate = ..., ceil_mode: int | Var | Predicate = ..., dilations: Sequence[int] | Var | Predicate = ..., kernel_shape: Sequence[int] | Var | Predicate = ..., pads: Sequence[int] | Var | Predicate = ..., strides: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """NhwcMaxPool(x)."""
    def PackedAttention(self, *inputs: PatternInput, num_heads: int | Var | Predicate = ..., qkv_hidden_sizes: Sequence[int] | Var | Predicate = ..., scale: float | Var | Predicate = ...) -> OpPattern:
        """PackedAttention(input, weights, bias, token_offset, cumulative_sequence_length, [attention_bias]): This is the packed version of Attention."""
    def PackedMultiHeadAttention(self, *inputs: PatternInput, mask_filter_value: float | Var | Predicate = ..., num_heads: int | Var | Predicate = ..., scale: float | Var | Predicate = ...) -> OpPattern:
        """PackedMultiHeadAttention(query, [key], [value], [bias], token_offset, cumulative_sequence_length, [attention_bias]): This is the packed version of MultiHeadAttention."""
    def PackedSparseAttentionIndexer(self, *inputs: PatternInput, compress_ratio: int | Var | Predicate = ..., epsilon: float | Var | Predicate = ..., head_weight_scale: float | Var | Predicate = ..., index_topk: int | Var | Predicate = ..., policy_mode: str | Var | Predicate = ..., scale: float | Var | Predicate = ..., state_capacity: int | Var | Predicate = ..., state_update_capacity: int | Var | Predicate = ..., token_budget: int | Var | Predicate = ...) -> OpPattern:
        """PackedSparseAttentionIndexer(query, [key], query_norm_weight, key_norm_weight, cos_cache, sin_cache, cumulative_sequence_lengths, past_sequence_lengths, [gate], [position_bias], [head_weights], [position_ids], past_key_state, past_kv_buffer, [past_gate_buffer], past_state_lengths, [state_update_capture_count], [state_update_active]): Packed/variable-length counterpart of SparseAttentionIndexer, for continuous-batching engines (such ..."""
    def Pad(self, *inputs: PatternInput, mode: str | Var | Predicate = ...) -> OpPattern:
        """Pad(data, pads, [value]): Given data tensor, pads, mode, and value."""
    def PagedAttention(self, *inputs: PatternInput, do_rotary: int | Var | Predicate = ..., is_causal: int | Var | Predicate = ..., k_cache_dtype: str | Var | Predicate = ..., k_quant_type: str | Var | Predicate = ..., kv_cache_layout: str | Var | Predicate = ..., kv_num_heads: int | Var | Predicate = ..., local_window_size: int | Var | Predicate = ..., num_heads: int | Var | Predicate = ..., qk_norm_epsilon: float | Var | Predicate = ..., rotary_interleaved: int | Var | Predicate = ..., rotary_offset: int | Var | Predicate = ..., scale: float | Var | Predicate = ..., softcap: float | Var | Predicate = ..., v_cache_dtype: str | Var | Predicate = ..., v_head_size: int | Var | Predicate = ..., v_quant_type: str | Var | Predicate = ...) -> OpPattern:
        """PagedAttention(query, [key], [value], key_cache, [value_cache], cumulative_sequence_length, past_seqlens, block_table, [cos_cache], [sin_cache], [slot_mapping], [head_sink], [q_norm_weight], [k_norm_weight], [k_scale], [v_scale], [attention_metadata]): Paged Attention."""
    def QAttention(self, *inputs: PatternInput, do_rotary: int | Var | Predicate = ..., mask_filter_value: float | Var | Predicate = ..., num_heads: int | Var | Predicate = ..., past_present_share_buffer: int | Var | Predicate = ..., scale: float | Var | Predicate = ..., unidirectional: int | Var | Predicate = ...) -> OpPattern:
        """QAttention(input, weight, bias, input_scale, weight_scale, [mask_index], [input_zero_point], [weight_zero_point], [past]): Quantization of Multi-Head Self Attention."""
    def QEmbedLayerNormalization(self, *inputs: PatternInput, epsilon: float | Var | Predicate = ...) -> OpPattern:
        """QEmbedLayerNormalization(input_ids, [segment_ids], word_embedding_quant, position_embedding_quant, [segment_embedding], gamma_quant, beta_quant, [mask], word_embedding_scale, position_embedding_scale, [segment_embedding_scale], gamma_scale, beta_scale, word_embedding_zero_point, position_embedding_zero_point, [segment_embedding_zero_point], gamma_zero_point, beta_zero_point): QEmbedLayerNormalization is the quantized fusion of embedding layer in BERT model, with optional ..."""
    def QGemm(self, *inputs: PatternInput, alpha: float | Var | Predicate = ..., transA: int | Var | Predicate = ..., transB: int | Var | Predicate = ...) -> OpPattern:
        """QGemm(A, a_scale, a_zero_point, B, b_scale, b_zero_point, [C], [y_scale], [y_zero_point]): Quantized Gemm."""
    def QLinearAdd(self, *inputs: PatternInput) -> OpPattern:
        """QLinearAdd(A, A_scale, [A_zero_point], B, B_scale, [B_zero_point], C_scale, [C_zero_point]): Performs element-wise binary addition on 8 bit data types (with Numpy-style broadcasting support)."""
    def QLinearAveragePool(self, *inputs: PatternInput, auto_pad: str | Var | Predicate = ..., ceil_mode: int | Var | Predicate = ..., channels_last: int | Var | Predicate = ..., count_include_pad: int | Var | Predicate = ..., kernel_shape: Sequence[int] | Var | Predicate = ..., pads: Sequence[int] | Var | Predicate = ..., strides: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """QLinearAveragePool(X, x_scale, [x_zero_point], y_scale, [y_zero_point]): QLinearAveragePool consumes an input tensor X and applies average pooling across the tensor ..."""
    def QLinearConcat(self, *inputs: PatternInput, axis: int | Var | Predicate = ...) -> OpPattern:
        """QLinearConcat(Y_scale, Y_zero_point, inputs): Concatenate a list of tensors into a single tensor.All input tensors must have the same shape ..."""
    def QLinearConv(self, *inputs: PatternInput, auto_pad: str | Var | Predicate = ..., channels_last: int | Var | Predicate = ..., dilations: Sequence[int] | Var | Predicate = ..., group: int | Var | Predicate = ..., kernel_shape: Sequence[int] | Var | Predicate = ..., pads: Sequence[int] | Var | Predicate = ..., strides: Sequence[int] | Var | Predicate = ...) -> OpPattern:
        """QLinearConv(x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, [B])."""
    def QLinearGlobalAveragePool(self, *inputs: PatternInput, channels_last: int | Var | Predicate = ...) -> OpPattern:
        """QLinearGlobalAveragePool(X, x_scale, x_zero_point, y_scale, y_zero_point): QLinearGlobalAveragePool consumes an input tensor X and applies Average pooling across the values ..."""
    def QLinearLeakyRelu(self, *inputs: PatternInput, alpha: float | Var | Predicate = ...) -> OpPattern:
        """QLinearLeakyRelu(X, X_scale, [X_zero_point], Y_scale, [Y_zero_point]): QLinearLeakyRelu takes quantized input data (Tensor), an argument alpha, and quantize parameter for ..."""
    def QLinearMul(self, *inputs: PatternInput) -> OpPattern:
        """QLinearMul(A, A_scale, [A_zero_point], B, B_scale, [B_zero_point], C_scale, [C_zero_point]): Performs element-wise binary multiplication on 8 bit data types (with Numpy-style broadcasting ..."""
    def QLinearReduceMean(self, *inputs: PatternInput, axes: Sequence[int] | Var | Predicate = ..., keepdims: int | Var | Predicate = ...) -> OpPattern:
        """QLinearReduceMean(data, data_scale, [data_zero_point], reduced_scale, [reduced_zero_point]): Computes the mean of the low-precision input tensor's element along the provided axes."""
    def QLinearSigmoid(self, *inputs: PatternInput) -> OpPattern:
        """QLinearSigmoid(X, X_scale, [X_zero_point], Y_scale, [Y_zero_point]): QLinearSigmoid takes quantized input data (Tensor), and quantize parameter for output, and produces ..."""
    def QLinearSoftmax(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., opset: int | Var | Predicate = ...) -> OpPattern:
        """QLinearSoftmax(X, X_scale, [x_zero_point], y_scale, y_zero_point): QLinearSoftmax computes the normalized exponential values for the given input."""
    def QLinearWhere(self, *inputs: PatternInput) -> OpPattern:
        """QLinearWhere(condition, X, x_scale, x_zero_point, Y, y_scale, y_zero_point, z_scale, z_zero_point): Return elements, either from X or Y, depending on condition."""
    def QMoE(self, *inputs: PatternInput, accuracy_level: int | Var | Predicate = ..., activation_alpha: float | Var | Predicate = ..., activation_beta: float | Var | Predicate = ..., activation_type: str | Var | Predicate = ..., block_size: int | Var | Predicate = ..., expert_weight_bits: int | Var | Predicate = ..., fc1_expert_weight_bits: int | Var | Predicate = ..., fc2_expert_weight_bits: int | Var | Predicate = ..., fc3_expert_weight_bits: int | Var | Predicate = ..., k: int | Var | Predicate = ..., normalize_routing_weights: int | Var | Predicate = ..., quant_type: str | Var | Predicate = ..., swiglu_fusion: int | Var | Predicate = ..., swiglu_limit: float | Var | Predicate = ..., use_sparse_mixer: int | Var | Predicate = ..., weights_prepacked: int | Var | Predicate = ...) -> OpPattern:
        """QMoE(input, router_probs, fc1_experts_weights, [fc1_scales], [fc1_experts_bias], fc2_experts_weights, [fc2_scales], [fc2_experts_bias], [fc3_experts_weights], [fc3_scales], [fc3_experts_bias], [fc1_zero_points], [fc2_zero_points], [fc3_zero_points], [router_weights], [fc1_global_scale], [fc2_global_scale], [fc1_act_scale], [fc2_act_scale], [fc1_act_block_scale], [fc2_act_block_scale]): Quantized mixture of experts (MoE)."""
    def QOrderedAttention(self, *inputs: PatternInput, num_heads: int | Var | Predicate = ..., order_input: int | Var | Predicate = ..., order_output: int | Var | Predicate = ..., order_weight: int | Var | Predicate = ..., qkv_hidden_sizes: Sequence[int] | Var | Predicate = ..., unidirectional: int | Var | Predicate = ...) -> OpPattern:
        """QOrderedAttention(input, scale_input, scale_Q_gemm, scale_K_gemm, scale_V_gemm, Q_weight, K_weight, V_weight, scale_Q_weight, scale_K_weight, scale_V_weight, Q_bias, K_bias, V_bias, [scale_QKT_gemm], [scale_QKT_softmax], scale_values_gemm, [mask_index], [past], [attention_bias]): Quantized version of simplified Multi-Head Self Attention(using int8 with specific matrix Layout)."""
    def QOrderedGelu(self, *inputs: PatternInput, order_X: int | Var | Predicate = ..., order_Y: int | Var | Predicate = ...) -> OpPattern:
        """QOrderedGelu(X, scale_X, scale_Y): Ordered Quantize Gelu."""
    def QOrderedLayerNormalization(self, *inputs: PatternInput, axis: int | Var | Predicate = ..., epsilon: float | Var | Predicate = ..., order_X: int | Var | Predicate = ..., order_Y: int | Var | Predicate = ...) -> OpPattern:
        """QOrderedLayerNormalization(X, scale_X, scale, [B], scale_Y): QOrderedLayerNormalization."""
    def QOrderedLongformerAttention(self, *inputs: PatternInput, num_heads: int | Var | Predicate = ..., order_global_weight: int | Var | Predicate = ..., order_input: int | Var | Predicate = ..., order_output: int | Var | Predicate = ..., order_weight: int | Var | Predicate = ..., window: int | Var | Predicate = ...) -> OpPattern:
        """QOrderedLongformerAttention(input, scale_input, weight, scale_weight, bias, scale_bias, scale_qkv_gemm, mask, global_weight, scale_global_weight, global_bias, scale_global_gemm, global, scale_output): Quantized version of Longformer Self Attention (using int8 with specific matrix Layout)."""
    def QOrderedMatMul(self, *inputs: PatternInput, order_A: int | Var | Predicate = ..., order_B: int | Var | Predicate = ..., order_Y: int | Var | Predicate = ...) -> OpPattern:
        """QOrderedMatMul(A, scale_A, B, scale_B, scale_Y, [bias], [C], [scale_C]): Quantize (Int8) MatMul with order."""
    def QuantizeBFP(self, *inputs: PatternInput, bfp_type: int | Var | Predicate = ..., block_dim: int | Var | Predicate = ...) -> OpPattern:
        """QuantizeBFP(x): The BFP quantization operator."""
    def QuantizeLinear(self, *inputs: PatternInput, axis: int | Var | Predicate = ...) -> OpPattern:
        """QuantizeLinear(x, y_scale, [y_zero_point]): The linear quantization operator."""
    def QuantizeWithOrder(self, *inputs: PatternInput, order_input: int | Var | Predicate = ..., order_output: int | Var | Predicate = ...) -> OpPattern:
        """QuantizeWithOrder(input, scale_input): Quantize input matrix to specific layout used in cublaslt."""
    def QuickGelu(self, *inputs: PatternInput, alpha: float | Var | Predicate = ...) -> OpPattern:
        """QuickGelu(X): Compute x * Sigmoid(alpha * x)."""
    def Range(self, *inputs: PatternInput) -> OpPattern:
        """Range(start, limit, [delta]): Creates a sequence of numbers that begins at start and extends by increments of delta up to but not ..."""
    def ReduceSumInteger(self, *inputs: PatternInput, axes: Sequence[int] | Var | Predicate = ..., keepdims: int | Var | Predicate = ...) -> OpPattern:
        """ReduceSumInteger(data): Computes the sum of the low-precision input tensor's element along the provided axes."""
    def RelativePositionBias(self, *inputs: PatternInput, is_bidirectional: int | Var | Predicate = ..., max_distance: int | Var | Predicate = ...) -> OpPattern:
        """RelativePositionBias(bias_table, query_length, key_length): Compute binned relative position bias for T5 model. ref."""
    def RemovePadding(self, *inputs: PatternInput) -> OpPattern:
        """RemovePadding(input, sequence_token_count): Compress transformer input by removing paddings."""
    def RestorePadding(self, *inputs: PatternInput) -> OpPattern:
        """RestorePadding(input, token_offset): Restore paddings and fill padding with zeros."""
    def Rfft(self, *inputs: PatternInput, normalized: int | Var | Predicate = ..., onesided: int | Var | Predicate = ..., signal_ndim: int | Var | Predicate = ...) -> OpPattern:
        """Rfft(X): This function computes the n-point one dimensional Fourier transform for a real-valued input where ..."""
    def RotaryEmbedding(self, *inputs: PatternInput, interleaved: int | Var | Predicate = ..., is_packed_batching: int | Var | Predicate = ..., num_heads: int | Var | Predicate = ..., rotary_embedding_dim: int | Var | Predicate = ..., scale: float | Var | Predicate = ...) -> OpPattern:
        """RotaryEmbedding(input, position_ids, cos_cache, sin_cache): RotaryEmbedding is the implementation of rotary positional embeddings (RoPE)."""
    def SampleOp(self, *inputs: PatternInput) -> OpPattern:
        """SampleOp(X): Sample echo operator."""
    def Sampling(self, *inputs: PatternInput, custom: int | Var | Predicate = ..., decoder: Graph | Var | Predicate = ..., decoder_start_token_id: int | Var | Predicate = ..., encoder: Graph | Var | Predicate = ..., eos_token_id: int | Var | Predicate = ..., filter_value: float | Var | Predicate = ..., init_decoder: Graph | Var | Predicate = ..., min_tokens_to_keep: int | Var | Predicate = ..., model_type: int | Var | Predicate = ..., no_repeat_ngram_size: int | Var | Predicate = ..., pad_token_id: int | Var | Predicate = ..., presence_penalty: float | Var | Predicate = ..., temperature: float | Var | Predicate = ..., top_p: float | Var | Predicate = ..., vocab_size: int | Var | Predicate = ...) -> OpPattern:
        """Sampling(input_ids, max_length, [min_length], [repetition_penalty], [vocab_mask], [prefix_vocab_mask], [attention_mask], [presence_mask], [seed]): Greedy Sampling for text generation."""
    def ScaledSiLU(self, *inputs: PatternInput, alpha: float | Var | Predicate = ...) -> OpPattern:
        """ScaledSiLU(X, [scale]): Computes SiLU after scaling, with explicit T rounding."""
    def SkipGroupNorm(self, *inputs: PatternInput, activation: int | Var | Predicate = ..., channels_last: int | Var | Predicate = ..., epsilon: float | Var | Predicate = ..., groups: int | Var | Predicate = ...) -> OpPattern:
        """SkipGroupNorm(X, gamma, beta, skip, [bias]): This operator element-wise adds x, skip and bias, then apply group normalization and optional ..."""
    def SkipLayerNormalization(self, *inputs: PatternInput, epsilon: float | Var | Predicate = ...) -> OpPattern:
        """SkipLayerNormalization(input, skip, gamma, [beta], [bias]): Skip and Layer Normalization Fusion."""
    def SkipSimplifiedLayerNormalization(self, *inputs: PatternInput, epsilon: float | Var | Predicate = ...) -> OpPattern:
        """SkipSimplifiedLayerNormalization(input, skip, gamma, [bias]): Skip and Root Mean Square Layer Normalization."""
    def Snpe(self, *inputs: PatternInput, DLC: str | Var | Predicate = ..., notes: str | Var | Predicate = ..., snpe_version: str | Var | Predicate = ..., target_device: str | Var | Predicate = ...) -> OpPattern:
        """Snpe(inputs): Onnx node for SNPE."""
    def SparseAttention(self, *inputs: PatternInput, do_rotary: int | Var | Predicate = ..., kv_num_heads: int | Var | Predicate = ..., num_heads: int | Var | Predicate = ..., rotary_interleaved: int | Var | Predicate = ..., scale: float | Var | Predicate = ..., sparse_block_size: int | Var | Predicate = ...) -> OpPattern:
        """SparseAttention(query, [key], [value], past_key, past_value, block_row_indices, block_col_indices, total_sequence_length, key_total_sequence_lengths, [cos_cache], [sin_cache]): Block Sparse Attention used in Phi-3-small ( It is inspired by Sparse Transformers ( and BigBird  ..."""
    def SparseAttentionIndexer(self, *inputs: PatternInput, compress_ratio: int | Var | Predicate = ..., epsilon: float | Var | Predicate = ..., head_weight_scale: float | Var | Predicate = ..., index_topk: int | Var | Predicate = ..., policy_mode: str | Var | Predicate = ..., scale: float | Var | Predicate = ..., token_budget: int | Var | Predicate = ...) -> OpPattern:
        """SparseAttentionIndexer(query, [key], query_norm_weight, key_norm_weight, cos_cache, sin_cache, [mask], past_key, [gate], [position_bias], [head_weights], [position_ids], [past_sequence_length], [past_proj_buffer]): Selects, for every query token, the sparse-attention candidates that the following attention ..."""
    def SparsePagedAttention(self, *inputs: PatternInput, attention_mode: str | Var | Predicate = ..., auxiliary_cache_layout: str | Var | Predicate = ..., auxiliary_kv_shared: int | Var | Predicate = ..., do_rotary: int | Var | Predicate = ..., is_causal: int | Var | Predicate = ..., k_quant_type: str | Var | Predicate = ..., kv_num_heads: int | Var | Predicate = ..., local_window_size: int | Var | Predicate = ..., num_heads: int | Var | Predicate = ..., qk_norm_epsilon: float | Var | Predicate = ..., rotary_interleaved: int | Var | Predicate = ..., rotary_offset: int | Var | Predicate = ..., scale: float | Var | Predicate = ..., selected_kv_source: str | Var | Predicate = ..., softcap: float | Var | Predicate = ..., v_quant_type: str | Var | Predicate = ...) -> OpPattern:
        """SparsePagedAttention(query, [key], [value], key_cache, value_cache, cumulative_sequence_length, past_seqlens, block_table, [slot_mapping], selected_indices, selected_counts, [auxiliary_key], [auxiliary_value], [auxiliary_lengths], [cos_cache], [sin_cache], [head_sink], [q_norm_weight], [k_norm_weight], [k_scale], [v_scale], [attention_metadata]): Selected-index attention over the PagedAttention main K/V cache."""
    def SparseToDenseMatMul(self, *inputs: PatternInput, alpha: float | Var | Predicate = ..., transA: int | Var | Predicate = ..., transB: int | Var | Predicate = ...) -> OpPattern:
        """SparseToDenseMatMul(A, B)."""
    def Tokenizer(self, *inputs: PatternInput, mark: int | Var | Predicate = ..., mincharnum: int | Var | Predicate = ..., pad_value: str | Var | Predicate = ..., separators: Sequence[str] | Var | Predicate = ..., tokenexp: str | Var | Predicate = ...) -> OpPattern:
        """Tokenizer(X): Tokenizer divides each string in X into a vector of strings along the last axis."""
    def TorchEmbedding(self, *inputs: PatternInput) -> OpPattern:
        """TorchEmbedding(weight, indices, [padding_idx], [scale_grad_by_freq]): Based on Torch operator Embedding, creates a lookup table of embedding vectors of fixed size, for a ..."""
    def TransposeMatMul(self, *inputs: PatternInput, alpha: float | Var | Predicate = ..., transA: int | Var | Predicate = ..., transB: int | Var | Predicate = ...) -> OpPattern:
        """TransposeMatMul(A, B): Duplicate of FusedMatMul."""
    def Trilu(self, *inputs: PatternInput, upper: int | Var | Predicate = ...) -> OpPattern:
        """Trilu(X, [k]): Returns the upper or lower triangular part of a 2-D matrix, or batches of 2-D matrices."""
    def UnfoldTensor(self, *inputs: PatternInput, dim: int | Var | Predicate = ..., size: int | Var | Predicate = ..., step: int | Var | Predicate = ...) -> OpPattern:
        """UnfoldTensor(input): Returns a tensor which contains all slices of size size from input tensor in the dimension dim."""
    def Unique(self, *inputs: PatternInput) -> OpPattern:
        """Unique(x): Finds all the unique values (deduped list) present in the given input tensor."""
    def VarlenCausalConvWithState(self, *inputs: PatternInput, activation: str | Var | Predicate = ..., dilation: int | Var | Predicate = ..., state_update_capacity: int | Var | Predicate = ...) -> OpPattern:
        """VarlenCausalConvWithState(input, weight, cumulative_sequence_length, [bias], initial_state, [capture_count]): Stateful causal depthwise convolution over a packed, token-major batch of variable-length sequences ..."""
    def VarlenNGramHashMapping(self, *inputs: PatternInput, max_ngram_size: int | Var | Predicate = ..., n_head_per_ngram: int | Var | Predicate = ..., pad_id: int | Var | Predicate = ..., reset_on_eos: int | Var | Predicate = ..., state_update_capacity: int | Var | Predicate = ...) -> OpPattern:
        """VarlenNGramHashMapping(input_ids, multipliers, vocab_sizes, cumulative_sequence_length, [past_ids], [head_offsets], [eos_token_id], [segment_ids], [past_segment_ids], [capture_count]): Computes Engram n-gram hash ids from pre-compressed tokenizer ids over a packed, token-major batch ..."""
    def WhisperBeamSearch(self, *inputs: PatternInput, beginning_timestamp_token_id: int | Var | Predicate = ..., decoder: Graph | Var | Predicate = ..., decoder_output_cross_qk: int | Var | Predicate = ..., decoder_start_token_id: int | Var | Predicate = ..., early_stopping: int | Var | Predicate = ..., encoder: Graph | Var | Predicate = ..., eos_token_id: int | Var | Predicate = ..., init_decoder: Graph | Var | Predicate = ..., model_type: int | Var | Predicate = ..., no_repeat_ngram_size: int | Var | Predicate = ..., no_speech_token_id: int | Var | Predicate = ..., no_timestamps_token_id: int | Var | Predicate = ..., pad_token_id: int | Var | Predicate = ..., start_of_lm_token_id: int | Var | Predicate = ..., transcribe_token_id: int | Var | Predicate = ..., translate_token_id: int | Var | Predicate = ..., vocab_size: int | Var | Predicate = ...) -> OpPattern:
        """WhisperBeamSearch(input_ids, max_length, [min_length], num_beams, num_return_sequences, [length_penalty], [repetition_penalty], [vocab_mask], [prefix_vocab_mask], [attention_mask], [decoder_input_ids], [logits_processor], [cross_qk_layer_head], [extra_decoding_ids], [temperature]): Beam Search for whisper model, especially with cross_qk features etc."""
    def WordConvEmbedding(self, *inputs: PatternInput, char_embedding_size: int | Var | Predicate = ..., conv_window_size: int | Var | Predicate = ..., embedding_size: int | Var | Predicate = ...) -> OpPattern:
        """WordConvEmbedding(Sequence, W, B, C): The WordConvEmbedding takes in a batch of sequence words and embed each word to a vector."""
