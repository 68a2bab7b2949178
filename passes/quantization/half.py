"""Conversion of single precision to half, op by op, and of weights alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
from msgspec import Struct
from onnx import TensorProto

from ...core import ChangeLog, Graph, Op, Range, Tensor, Value, made_from, require
from ...core.errors import MatchFailure, UsageError
from ...core.ir.graph import Runs, all_constants, enclosing_op
from ...core.ir.op import inherit_name
from ...core.ir.op_schemas import ONNX_DOMAIN
from ...core.operators.declaration import Trait
from ...core.operators.table import ops_with, roles
from ...core.ort.kernels import runs_on_cpu
from ..cleanup.quantization import BYTES
from ..support.operand_queries import Array, known

SINGLE, HALF = TensorProto.FLOAT, TensorProto.FLOAT16
HALF_TEXT = "tensor(float16)"
LARGEST = 65504.0
HEADROOM = 2.0  # by which other inputs may exceed the calibrated ones
SMALLEST = 2.0**-14  # of full precision
EPSILON = 2.0**-10
MAX_EXACT_INTEGER = 2048
EXACT_TYPES = frozenset({TensorProto.BOOL, TensorProto.INT8, TensorProto.UINT8})
BOUNDED_BY_CONSTANTS = frozenset({"Clip", "Max", "Min"})  # where a large constant makes no large result

CALIBRATED_OPS = frozenset({"Cast", "Div", "ReduceMean", "ReduceSum"})
"""Operators that give large numbers for some operands, and so are half only where that is known not to happen."""

STEEP = "its result may overflow or lose its digits where the operand is moderate"
GEOMETRY = "its operands are coordinates, which need more digits"
SPECTRUM = "its sums are of numbers of many magnitudes"
DRAWN = "it draws other numbers in half precision"
# Attention of halves took 2 times as long as that of floats with its casts, Clip, Max and Min 19 to 24, Round 25.
SLOW = "onnxruntime's kernel of halves takes much longer, or is less exact"
# Steep are those that PyTorch's autocast leaves in single precision ("CUDA Ops that can autocast to float32"), and such
# as square or add up many numbers.
WIDE_OPS: Mapping[str, str] = {
    **dict.fromkeys(
        ("Acos", "Acosh", "Asin", "Atanh", "Cosh", "CumProd", "CumSum", "Det", "Exp", "GlobalLpPool", "LRN", "Log",
         "LpNormalization", "LpPool", "MeanVarianceNormalization", "NegativeLogLikelihoodLoss", "Pow", "Reciprocal",
         "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceProd", "ReduceSumSquare", "Sinh",
         "SoftmaxCrossEntropyLoss", "Softplus", "Tan"),
        STEEP,
    ),
    **dict.fromkeys(("AffineGrid", "DeformConv", "GridSample", "MaxRoiPool", "RoiAlign"), GEOMETRY),
    **dict.fromkeys(("BlackmanWindow", "DFT", "HammingWindow", "HannWindow", "MelWeightMatrix", "STFT"), SPECTRUM),
    **dict.fromkeys(sorted(ops_with(Trait.RANDOM)), DRAWN),
    **dict.fromkeys(("Attention", "Clip", "Max", "Min", "Round", "Shrink"), SLOW),
}  # fmt: skip
"""Operators that stay in single precision whatever their operands are, each with the reason."""

CAST_OPSET = 6
COMPUTED_AT_LOADING = "onnxruntime computes it from constants when it loads the model, but not in halves"
FOLDED_AS_HALF = frozenset({"Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
FREE_RESULTS = frozenset({"Cast", "ConstantOfShape"})  # operators with an attribute for the type of the result
QUANTIZING_OPS = frozenset({"DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"})
PRODUCTS = frozenset({"Conv", "ConvTranspose", "Einsum", "GRU", "Gemm", "LSTM", "MatMul", "RNN"})


def to_half(wide: Array, name: str) -> Array:
    """Numbers in half precision; declines an overflow, or digits lost of the largest. Infinities stay."""
    finite = np.where(np.isfinite(wide), wide, 0)
    most = np.abs(finite).max(initial=0)
    require(most <= LARGEST, f"{name} has elements beyond {LARGEST:.0f}, the largest half")
    narrow = finite.astype(np.float16)
    lost = np.abs(narrow.astype(np.float32) - finite).max(initial=0)
    require(bool(lost <= EPSILON * most), f"{name} is as small as {most:.2g}, where halves lose digits")
    return np.where(np.isfinite(wide), narrow, wide).astype(np.float16)


def home_of(v: Value, near: Graph) -> Graph:
    """The graph that defines `v`, which is read in `near`."""
    if v.producer is not None:
        return v.producer.graph
    homes = (g for g in near.with_enclosing() if v in g.initializers or v in g.inputs or v in g.sparse_initializers)
    return known(next(homes, None), f"{v.name} is not defined")


def is_half_as_single(v: Value) -> bool:
    """Whether a value is Cast from half to single precision."""
    op = v.producer
    if op is None or op.type != "Cast" or op.domain or op.attr("to") != SINGLE:
        return False
    half = op.input(0)
    return half is not None and half.known_dtype == HALF


class Halves(Struct, frozen=True):
    """The inputs and outputs of an op that become half, by position."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def halves_of(op: Op) -> Halves | None:
    """The inputs and outputs of single precision that become half together; None where no result would.

    Declines an op for which its schema, or something that is not a tensor, forbids that.
    """
    spec = op.schema
    results = [i for i, v in enumerate(op.outputs) if v.name and v.known_dtype == SINGLE]
    if not results or op.subgraphs:
        return None
    if spec is None:
        raise MatchFailure(f"ONNX defines no {op.domain or op.type}")
    if any(v is not None and v.type is not None for v in (*op.inputs, *op.outputs)):
        raise MatchFailure("it reads or makes a sequence or an optional value")
    require(all(v is None or v.known_dtype for v in op.inputs), "the type of an operand is unknown")
    allows = {c.type_param_str for c in spec.type_constraints if HALF_TEXT in c.allowed_type_strs}
    formals = [spec.inputs[min(i, len(spec.inputs) - 1)].type_str for i in range(len(op.inputs))] if spec.inputs else []
    singles = [i for i, v in enumerate(op.inputs) if v is not None and v.known_dtype == SINGLE]
    for i in singles:
        if roles(op.type).get(i) in {"extent", "index"}:
            allows.discard(formals[i])
    inputs = [i for i in singles if formals[i] in allows]
    tied = {formals[i] for i in inputs} | (allows if op.type in FREE_RESULTS else frozenset[str]())
    made = [spec.outputs[min(i, len(spec.outputs) - 1)].type_str for i in range(len(op.outputs))]
    outputs = [i for i in results if made[i] in tied]
    require(outputs, f"{op.type} has no form of half precision at opset {op.version}")
    return Halves(tuple(inputs), tuple(outputs))


def require_convertible(op: Op, halves: Halves, runs: Runs) -> None:
    """Decline an op that is to stay in single precision."""
    require(op.type not in WIDE_OPS, WIDE_OPS.get(op.type, ""))
    require(op.type not in QUANTIZING_OPS and not is_in_quantized_group(op), "it belongs to a quantized group")
    dtypes = [0 if v is None else HALF if i in halves.inputs else v.known_dtype for i, v in enumerate(op.inputs)]
    require(runs(op.type, op.domain, op.version, dtypes), f"the target runs no {op.type} of halves")
    for v in (op.inputs[i] for i in halves.inputs):
        if v is not None and v.is_const:
            to_half(v.const, v.name)
    require(not crashes_onnxruntime(op), "onnxruntime may crash where a MatMul follows it")
    free_type_attributes(op)
    ranges = calibrated_ranges(op)
    for v in single_values(op, halves):
        if (found := ranges.get(v.name)) is not None:
            most = max(abs(found.low), abs(found.high))
            require(most * HEADROOM <= LARGEST, f"{v.name} reaches {most:.6g}, and halves end at {LARGEST:.0f}")
            require(most == 0 or most >= SMALLEST, f"{v.name} is at most {most:.2g}, where halves lose digits")
    if op.type in CALIBRATED_OPS:
        require_moderate(op, ranges.get(op.outputs[0].name))


def crashes_onnxruntime(op: Op) -> bool:
    """Whether an op is a Transpose whose half form may crash onnxruntime (microsoft/onnxruntime #28392).

    It merges a Transpose that moves the first axis before the last one into a MatMul that reads it.
    """
    if op.type != "Transpose":
        return False
    n = len(op.attr("perm") or ())
    is_merged = n > 2 and list(op.attr("perm")) == [*range(1, n - 1), 0, n - 1]
    return is_merged and any(reader.type == "MatMul" for reader in op.outputs[0].consumers)


def calibrated_ranges(op: Op) -> Mapping[str, Range]:
    """The ranges of values by name, as far as they are calibrated."""
    spec = op.graph.context.quantization
    return {} if spec is None else spec.ranges


def require_moderate(op: Op, found: Range | None) -> None:
    """Decline an op of CALIBRATED_OPS whose result is not known to be moderate."""
    if op.type == "Cast":
        source = known(op.input(0), "it casts nothing").known_dtype
        most = None if found is None else max(map(abs, found))
        is_exact = source in EXACT_TYPES or (most is not None and most <= MAX_EXACT_INTEGER)
        require(is_exact, f"integers may exceed {MAX_EXACT_INTEGER}, up to which halves are exact")
    elif op.type != "Div" or not known(op.input(1), "it divides by nothing").is_const:
        require(found is not None, "its result may exceed the largest half, and its range is not calibrated")


def is_of_constants(op: Op, constants: Collection[Value]) -> bool:
    """Whether all operands of an op are constants, or among `constants`, and its results are always the same."""
    fed = [v for v in op.inputs if v is not None]
    are_known = bool(fed) and all(v.is_const or v in constants for v in fed)
    return are_known and not op.subgraphs and op.type not in ops_with(Trait.RANDOM)


def large_operands(op: Op, large: Collection[Value]) -> list[str]:
    """The names of the operands whose elements may be beyond the largest half: such constants, and those in `large`.

    Values whose calibrated range is moderate are not among them.
    """
    fed = [v for v in op.inputs if v is not None and v.known_dtype == SINGLE]
    if op.type in BOUNDED_BY_CONSTANTS:
        fed = [v for v in fed if not v.is_const]
    ranges = calibrated_ranges(op)
    return [v.name for v in fed if (is_large(v.const) if v.is_const else v in large and v.name not in ranges)]


def passes_large_on(op: Op, large: Collection[Value]) -> bool:
    """Whether the results of an op may be as large as its operands: not if it normalizes, or averages values."""
    if op.type == "Attention":
        return op.input(2) in large
    return op.type not in ops_with(Trait.BOUNDED) | ops_with(Trait.NORMALIZATION)


def is_large(numbers: Array) -> bool:
    """Whether some finite number is beyond the largest half."""
    finite = np.abs(numbers, where=np.isfinite(numbers), out=np.zeros_like(numbers))
    return bool(finite.max(initial=0) > LARGEST)


def is_in_quantized_group(op: Op) -> bool:
    """Whether an op reads dequantized values, or all its readers quantize."""
    makers = (v.producer for v in op.inputs if v is not None)
    if any(p is not None and p.type == "DequantizeLinear" and not p.domain for p in makers):
        return True
    readers = [r for v in op.outputs for r in v.consumers]
    return bool(readers) and all(r.type == "QuantizeLinear" and not r.domain for r in readers)


def single_values(op: Op, halves: Halves) -> Iterator[Value]:
    """The computed values that would be half on both sides, if their other ops were, too."""
    for i in halves.inputs:
        v = op.inputs[i]
        if v is not None and not v.is_const:
            yield v
    yield from (op.outputs[i] for i in halves.outputs)


def is_worthwhile(op: Op, halves: Halves) -> bool:
    """Whether an op holds weights, multiplies matrices, or stands beside halves: others follow these."""
    if op.type in PRODUCTS:
        return True
    fed = [v for v in (op.inputs[i] for i in halves.inputs) if v is not None]
    if any(v.tensor is not None and v.tensor.size > 1 for v in fed) or any(map(is_half_as_single, fed)):
        return True
    return any(r.type == "Cast" and r.attr("to") == HALF for i in halves.outputs for r in op.outputs[i].consumers)


def select_groups(candidates: dict[Op, Halves]) -> list[Op]:
    """The candidates, in order, that are worthwhile or connected to such by values of single precision. O(edges)."""
    touching: dict[Value, list[Op]] = {}
    for op, halves in candidates.items():
        for v in single_values(op, halves):
            touching.setdefault(v, []).append(op)
    chosen = {op for op, halves in candidates.items() if is_worthwhile(op, halves)}
    stack = list(chosen)
    while stack:
        op = stack.pop()
        for v in single_values(op, candidates[op]):
            new = [o for o in touching.pop(v, ()) if o not in chosen]
            chosen.update(new)
            stack += new
    return [op for op in candidates if op in chosen]


@dataclass(slots=True)
class HalfValues:
    """The half forms of values of single precision, each made once, in the graph that defines the value."""

    by: str
    made: dict[Value, Value] = field(default_factory=dict[Value, Value])
    casts: list[Op] = field(default_factory=list[Op])

    def of(self, v: Value, reader: Op) -> Value:
        """The half form of `v`, which `reader` reads; of a constant `to_half`."""
        if v not in self.made:
            self.made[v] = self._make(v, reader)
        return self.made[v]

    def _make(self, v: Value, reader: Op) -> Value:
        if is_half_as_single(v) and v.producer is not None and v.producer.inputs[0] is not None:
            return v.producer.inputs[0]
        home = home_of(v, reader.graph)
        if v.is_const:
            return home.add_constant(Tensor.from_array(to_half(v.const, v.name)), v.name)
        return self.cast(v, HALF, known(enclosing_op(home, reader), f"{v.name} is defined elsewhere"))

    def cast(self, v: Value, to: int, near: Op) -> Value:
        """Cast(v, to), made for the op `near` and in its graph."""
        op = new_op("Cast", {"to": to}, near)
        made_from(near.graph.add_op(op, [v], [Value(near.graph.fresh_name(v.name))]), self.by, (near,))
        self.casts.append(op)
        return op.outputs[0]

    def replace(self, op: Op, attrs: dict[str, object], places: Halves, dtype: int) -> None:
        """Replace `op` by one with these forms at its `places`, whose outputs are cast to `dtype`."""
        graph = op.graph
        inputs = [self.of(v, op) if v is not None and i in places.inputs else v for i, v in enumerate(op.inputs)]
        new = new_op(op.type, attrs, op)
        made = [Value(graph.fresh_name(v.name) if v.name else "") for v in op.outputs]
        made_from(graph.add_op(new, inputs, made), self.by, (op,))
        inherit_name(new, op)
        for i, old in enumerate(op.outputs):
            if old.consumers or graph.is_output(old) or old in graph.pinned:
                graph.take_over(self.cast(made[i], dtype, new) if i in places.outputs else made[i], old)
        graph.discard([op])


def new_op(op_type: str, attrs: dict[str, object], near: Op) -> Op:
    """An op of the standard domain for the place of `near`."""
    op = Op(op_type, "", "", attrs, None)
    op.order_key = near.order_key
    return op


def bypass(cast: Op, by: str) -> None:
    """Let casts back to half, and readers of the shape, read the operand of a cast to single precision."""
    half, wide = cast.inputs[0], cast.outputs[0]
    if half is None or cast.attr("to") != SINGLE:
        return
    for reader in [r for r in wide.consumers if not r.domain]:
        if reader.type in {"Shape", "Size"}:
            reader.graph.set_inputs(reader, [half])
        elif reader.type == "Cast" and reader.attr("to") == HALF:
            identity = reader.graph.replace_value(reader.outputs[0], half)
            if identity is not None:
                made_from(identity, by, (reader,))
            reader.graph.discard([reader])


class ConvertToHalf(Struct, frozen=True):
    """f(x, w) => Cast(f(Cast(x, half), w as half), single), for each op that bears it

    Neighbouring casts cancel as they are made, so that values between two half ops are half; inputs and outputs of the
    model and of bodies stay of single precision. The reasons why others stay are the declines of the change log.
    """

    name: str = "convert-to-half"

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Convert each op in a change of its own, named after its first output. O(ops + constants)."""
        if graph.opsets.get(ONNX_DOMAIN, 0) < CAST_OPSET:
            change_log.record_decline(self.name, "", f"before opset {CAST_OPSET}, Cast names its type in text")
            return 0
        runs = graph.context.runs or runs_on_cpu
        candidates: dict[Op, Halves] = {}
        constants: set[Value] = set()
        large: set[Value] = set()
        for g in graph.with_subgraphs():
            for op in g.sorted_ops():
                is_constant = is_of_constants(op, constants)
                constants.update(op.outputs if is_constant else ())
                operands = large_operands(op, large)
                large.update(op.outputs if operands and passes_large_on(op, large) else ())
                try:
                    if op.type != "Constant" and (halves := halves_of(op)) is not None:
                        require(not is_constant or op.type in FOLDED_AS_HALF, COMPUTED_AT_LOADING)
                        require_convertible(op, halves, runs)
                        require(not operands, f"{''.join(operands[:1])} may have elements beyond the largest half")
                        candidates[op] = halves
                except MatchFailure as why:
                    change_log.record_decline(self.name, op.outputs[0].name, str(why))
        chosen = select_groups(candidates)
        for op in candidates.keys() - set(chosen) if change_log.record else ():
            change_log.record_decline(self.name, op.outputs[0].name, "no op with weights or halves is near")
        values = HalfValues(self.name)
        changes = sum(self._convert(op, candidates[op], values, change_log) for op in chosen)
        for cast in values.casts[::-1]:
            bypass(cast, self.name)
            cast.graph.prune([cast])
        return changes

    def _convert(self, op: Op, halves: Halves, values: HalfValues, change_log: ChangeLog) -> bool:
        if not change_log.may_change(self.name, op.outputs[0].name, exact=False):
            return False
        if not change_log.request_change(self.name, op.outputs[0].name, (op,), exact=False):
            return False
        values.replace(op, {**op.attrs, **free_type_attributes(op)}, halves, SINGLE)
        return True


def free_type_attributes(op: Op) -> dict[str, object]:
    """The attributes that make the result half of an op whose operands do not."""
    if op.type == "Cast":
        return {"to": HALF}
    if op.type == "ConstantOfShape":
        fill = op.attr("value")
        wide = np.zeros(1, np.float32) if fill is None else fill.array
        return {"value": Tensor.from_array(to_half(wide, "the fill"))}
    return {}


MIN_STORED_ELEMENTS = 128  # of a weight; a Cast takes about 100 bytes
BRAIN_CAST_OPSET = 13  # of bfloat16


def to_brain(wide: Array, name: str) -> Array:
    """Numbers in bfloat16, of 8 digits and the range of single precision; declines an overflow."""
    narrow = wide.astype(ml_dtypes.bfloat16)
    require(bool((np.isfinite(narrow.astype(np.float32)) == np.isfinite(wide)).all()), f"{name} overflows")
    return narrow


STORED_TYPES = {"float16": (to_half, CAST_OPSET), "bfloat16": (to_brain, BRAIN_CAST_OPSET)}
"""The types of stored weights, each with its conversion and the first opset at which Cast reads it."""


def _reads_quantized(op: Op) -> bool:
    """Whether an op converts from or to integers, or computes with bytes.

    MatMulNBits with `accuracy_level` 4 gives other numbers in onnxruntime 1.31.1 where its scales are not constant, as
    behind a Cast without optimizations.
    """
    return op.type in QUANTIZING_OPS or any(v is not None and v.known_dtype in BYTES for v in op.inputs)


@dataclass(frozen=True, slots=True)
class StoreWeights:
    """w => Cast(w in 16 bits, single), for each weight of single precision: half the size on disk

    onnxruntime computes the Casts when it loads the model, and runs it as before. `to` is float16 or bfloat16. To run
    last: folding of constants would undo it.
    """

    to: str = "float16"
    name: str = "store-half-weights"

    def __post_init__(self) -> None:
        """Raise UsageError for another type."""
        if self.to not in STORED_TYPES:
            raise UsageError(f"to={self.to} is not a type for weights: {' or '.join(STORED_TYPES)}")

    def run(self, graph: Graph, change_log: ChangeLog) -> int:
        """Convert each weight in a change of its own, named after the weight. O(ops + weights)."""
        convert, opset = STORED_TYPES[self.to]
        if graph.opsets.get(ONNX_DOMAIN, 0) < opset:
            change_log.record_decline(self.name, "", f"{self.to} needs opset {opset}")
            return 0
        changes = 0
        for v in list(all_constants(graph)):
            try:
                self._require_stored(v)
                narrow = convert(v.const, v.name)
            except MatchFailure as why:
                change_log.record_decline(self.name, v.name, str(why))
                continue
            if change_log.request_change(self.name, v.name, (v,), exact=False):
                self._store(v, narrow)
                changes += 1
        return changes

    def _require_stored(self, v: Value) -> None:
        """Decline a constant that is small, of another type, or the scale of quantized numbers."""
        require(v.known_dtype == SINGLE, f"{v.name} is not of single precision")
        size = 0 if v.tensor is None else v.tensor.size
        require(size >= MIN_STORED_ELEMENTS and bool(v.consumers), f"{v.name} is small or not read")
        require(not any(map(_reads_quantized, v.consumers)), f"{v.name} belongs to quantized groups")
        home = home_of(v, next(iter(v.consumers)).graph)
        require(not home.is_output(v) and v not in home.pinned, f"{v.name} has a name to keep")

    def _store(self, v: Value, narrow: Array) -> None:
        reader = next(iter(v.consumers))
        home = home_of(v, reader.graph)
        stored = home.add_constant(Tensor.from_array(narrow), v.name)
        cast = new_op("Cast", {"to": SINGLE}, known(enclosing_op(home, reader), f"{v.name} is defined elsewhere"))
        made_from(home.add_op(cast, [stored], [Value(home.fresh_name(v.name))]), self.name, (reader,))
        home.replace_value(v, cast.outputs[0])
        maker = v.producer
        if maker is not None and not v.consumers:
            home.prune([maker])
        else:
            home.drop_initializer(v)
