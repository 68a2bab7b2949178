"""The built-in passes by family, in the order in which they run, and the built-in pipelines."""

from __future__ import annotations

from ..core import Fixpoint, Pass, Pipeline, Target, rule_pass
from ..core.plugins.plugin import PipelineStage
from ..core.run.pipeline import fallback_of
from ..core.run.transforms import ModelTransform
from . import decomposition
from .arithmetic import clamp_rules, constant_chains, logic, negations, no_op_arithmetic, powers, variadic
from .cleanup import casts, constants, merge_duplicates, no_ops, quantization
from .folding import fold_constants
from .fusion import activations, attention, norms, reductions, rotary, softmaxes
from .linear import (
    affine_into_conv,
    conv_merging,
    conv_padding,
    conv_products,
    conv_resizing,
    einsum,
    gemm,
    grouped_heads,
    matmul_merging,
    weight_scale,
)
from .movement import concats, expands, gathers, pads, reduced_axes, reshapes, slices
from .movement.layout_propagation import move_transposes
from .shapes import fold_shapes, range_indices
from .structure import conditionals, drop_outputs, loops, opset, peak_memory, sequences
from .targets import ORT
from .transforms import interface, texts

CONVOLUTION: tuple[Pass, ...] = (
    rule_pass(affine_into_conv, "fold-batchnorm"),
    rule_pass(affine_into_conv, "fold-affine-into-conv"),
    rule_pass(affine_into_conv, "hoist-affine"),
    rule_pass(affine_into_conv, "fold-affine-before-conv"),
    rule_pass(conv_padding, "fold-pad-into-conv"),
    rule_pass(conv_padding, "fold-pad-into-pool"),
    rule_pass(conv_merging, "merge-parallel-convs"),
    rule_pass(conv_merging, "merge-consecutive-convs"),
    rule_pass(conv_resizing, "sink-resizes"),
    rule_pass(conv_products, "convolve-products"),
)
"""Folding of linear ops into Conv and ConvTranspose."""

SHAPES: tuple[Pass, ...] = (
    fold_shapes.FoldShapes(),
    fold_shapes.MergeShapes(),
    rule_pass(fold_shapes, "fold-shape-operands"),
    fold_shapes.FoldDynamicShapeOperands(),
    rule_pass(fold_shapes, "simplify-shape-reads"),
    rule_pass(range_indices, "drop-range-gathers"),
)
"""Folding of shape computations."""

STRUCTURE: tuple[Pass, ...] = (
    conditionals.InlineIf(),
    conditionals.MergeBranches(),
    loops.InlineLoop(),
    loops.HoistInvariants(),
    constants.SinkWeights(),
    rule_pass(sequences, "resolve-sequences"),
)
"""Inlining of subgraphs, and removal of sequences."""

NO_OPS: tuple[Pass, ...] = (
    rule_pass(casts, "merge-casts"),
    rule_pass(sequences, "drop-optionals"),
    rule_pass(no_ops, "drop-no-op-where"),
    rule_pass(no_ops, "drop-no-op-split-concat"),
    rule_pass(no_ops, "drop-no-op-indexing"),
    rule_pass(no_ops, "drop-no-op-pool-resize"),
    rule_pass(no_ops, "drop-no-op-reductions"),
    rule_pass(no_ops, "drop-no-op-movement"),
    rule_pass(quantization, "simplify-quantization"),
)
"""Ops without effect."""

FUSION: tuple[Pass, ...] = (
    rule_pass(activations, "fuse-gelu"),
    rule_pass(activations, "fuse-activations"),
    rule_pass(activations, "fuse-hard-activations"),
    rule_pass(activations, "fuse-rectifiers"),
    rule_pass(reductions, "fuse-reduce-mean"),
    rule_pass(norms, "fuse-norm"),
    rule_pass(norms, "fuse-keras-layer-norm"),
    rule_pass(norms, "fuse-norm-weights"),
    rule_pass(softmaxes, "fuse-softmax"),
    rule_pass(reductions, "fuse-reductions"),
    rule_pass(norms, "fuse-lp-norm"),
    rule_pass(attention, "fuse-attention"),
    rule_pass(attention, "fuse-into-attention"),
    attention.FUSE_CACHE_INTO_ATTENTION,
    rule_pass(rotary, "fuse-rotary"),
)
"""Fusion of several ops into one ONNX operator."""

ARITHMETIC: tuple[Pass, ...] = (
    rule_pass(no_op_arithmetic, "drop-neutral-operands"),
    rule_pass(logic, "merge-logic"),
    rule_pass(no_op_arithmetic, "drop-idempotent"),
    rule_pass(variadic, "merge-variadic"),
    rule_pass(clamp_rules, "merge-clamps"),
    rule_pass(clamp_rules, "drop-unbounded-clips"),
    rule_pass(constant_chains, "merge-constant-operands"),
    rule_pass(constant_chains, "merge-affine-chains"),
    rule_pass(negations, "canonicalize-negations"),
    rule_pass(negations, "merge-negations"),
    rule_pass(powers, "merge-powers"),
)
"""Elementwise algebra."""

MOVEMENT: tuple[Pass, ...] = (
    # A Transpose that passes a Gather of one index moves it away from the Unsqueeze of that axis.
    rule_pass(gathers, "reshape-indices"),
    rule_pass(move_transposes, "merge-transposes"),
    move_transposes.MoveTransposes(),
    rule_pass(reshapes, "transpose-without-reshapes"),
    rule_pass(reshapes, "transpose-to-reshape"),
    rule_pass(reshapes, "merge-reshapes"),
    rule_pass(reshapes, "sink-reshapes"),
    rule_pass(reshapes, "multiply-without-reshapes"),
    rule_pass(reduced_axes, "merge-reductions"),
    rule_pass(expands, "drop-expand-before-broadcast"),
    rule_pass(expands, "merge-expands"),
    rule_pass(slices, "merge-slices"),
    rule_pass(gathers, "merge-gathers"),
    rule_pass(pads, "merge-pads"),
    rule_pass(concats, "merge-concats"),
    rule_pass(concats, "cancel-concats"),
    rule_pass(concats, "bypass-concats"),
    rule_pass(slices, "cancel-depth-and-space"),
    slices.SlicesToSplit(),
)
"""Ops that only move elements."""

MATRIX_PRODUCTS: tuple[Pass, ...] = (
    rule_pass(einsum, "simplify-einsum"),
    rule_pass(weight_scale, "fold-batchnorm-into-gemm"),
    rule_pass(weight_scale, "fold-scale-into-weights"),
    rule_pass(matmul_merging, "merge-matmuls"),
    rule_pass(gemm, "fuse-gemm"),
    rule_pass(gemm, "fold-bias"),
    rule_pass(gemm, "fold-transpose-into-gemm"),
    rule_pass(gemm, "fold-scale-into-gemm"),
    weight_scale.FOLD_SCALE,
    rule_pass(weight_scale, "move-scales"),
    matmul_merging.MERGE_PARALLEL_MATMULS,
    rule_pass(grouped_heads, "group-heads"),
)
"""Linear ops around MatMul, Gemm and Einsum become part of them."""


BUILT_IN: tuple[Pass, ...] = (
    no_ops.RemoveUnused(),
    drop_outputs.DropOutputs(),
    rule_pass(no_ops, "drop-dropout"),
    rule_pass(no_ops, "drop-identity"),
    constants.LiftConstants(),
    constants.MergeConstants(),
    *CONVOLUTION,  # before equal ops are merged: a shared Conv has to stay as it is
    merge_duplicates.MergeDuplicates(),
    fold_constants.FoldConstants(),
    no_ops.DropZeroStates(),
    *SHAPES,
    *STRUCTURE,
    *NO_OPS,
    *FUSION,  # before chains of constants are merged, which are parts of named operators
    *ARITHMETIC,
    *MOVEMENT,
    *MATRIX_PRODUCTS,
)
DECOMPOSITION: tuple[Pass, ...] = (
    rule_pass(decomposition, "split-gemm"),
    rule_pass(decomposition, "split-activations"),
    rule_pass(decomposition, "split-norms"),
)
"""Enabled by name, they run after the loop, whose fusions would undo them."""

OPTIONAL_PASSES: tuple[Pass, ...] = (
    opset.ConvertOpset(),
    opset.RaiseOpset(),
    *ORT.last,
    constants.Debloat(),
    rule_pass(activations, "fuse-swish"),
    *DECOMPOSITION,
    peak_memory.ReducePeakMemory(),
)
"""Not in `basic`: they run in pipelines of targets, or where they are enabled by name."""

TRANSFORMS: tuple[ModelTransform, ...] = (
    texts.UniqueNodeNames(),
    interface.FreezeInitializers(),
    interface.ExposeInitializers(),
    interface.CutInputs(),
    interface.KeepOutputs(),
    interface.DropUnusedInputs(),
    interface.Int32Inputs(),
    interface.ConvertFloats(),
    texts.ShortNames(),
    texts.ClearDocs(),
    texts.ClearMetadata(),
)
"""Made where they are enabled by name or by an option of their own, before anything runs."""

BASIC = Fixpoint("basic", BUILT_IN)


def pipeline_for(target: Target, p: Pass = BASIC) -> Pipeline:
    """The pipeline of the target's name: raise the opset, run the passes of `basic`, then those that come last.

    With a list of operators, ops that are not on the target are replaced before and after. Instead of `basic`, `p` may
    be run, without the passes that come last, and under its own name.
    """
    legalization = legalization_for(target) if target.forms else ()
    own = (opset.RaiseOpset(target.opset), *legalization, p, *target.last) if p == BASIC else (*legalization, p)
    name, fallback = (target.name, target.fallback) if p == BASIC else (p.name, fallback_of(p))
    obstacle = target.obstacle if target.forms else None
    return Pipeline(name, (*own, *legalization), target.may_add, target.costs, fallback, obstacle=obstacle)


def legalization_for(target: Target) -> tuple[Pass, ...]:
    """Replacement of the ops that a target lacks, and folding of constants in the replacements."""
    from .legalization import Legalize  # noqa: PLC0415 - its decompositions serve targets with lists alone

    folding = (no_ops.RemoveUnused(), fold_constants.FoldConstants(), *SHAPES)
    # Twice, as folding makes inputs constants. No Fixpoint, so that passes of plugins come into the loop of `basic`.
    return (Pipeline("legalization", (Legalize(target), *folding) * 2),)


PIPELINES: dict[str, Pass] = {p.name: p for p in (Pipeline("none", ()), BASIC, pipeline_for(ORT))}

PASS_STAGES: dict[str, PipelineStage] = {
    **{p.name: "cleanup" for p in BUILT_IN},
    **{p.name: "fold" for p in (*CONVOLUTION, fold_constants.FoldConstants(), *SHAPES, *ARITHMETIC, *MATRIX_PRODUCTS)},
    **{p.name: "fuse" for p in FUSION},
    **{p.name: "layout" for p in MOVEMENT},
    **{p.name: "final" for p in (*DECOMPOSITION, peak_memory.ReducePeakMemory())},
}
"""The stage of each pass of `basic` and after it; plugins can be placed after the last pass of a stage.

MATRIX_PRODUCTS fold linear ops, as CONVOLUTION does. So the last pass of stage fuse is the last of FUSION, and a pass
after it sees fused operators before ARITHMETIC takes them apart.
"""
