"""Groups of passes that trade one cost for another, so that some models run faster without them, or with them."""

from __future__ import annotations

from collections.abc import Mapping

TRADING: Mapping[str, tuple[str, ...]] = {
    "attention": ("fuse-attention", "fuse-into-attention", "fuse-cache-into-attention"),
    "rotary embeddings": ("fuse-rotary",),
    "normalizations": ("fuse-norm", "fuse-keras-layer-norm", "fuse-norm-weights", "fuse-lp-norm"),
    "norms apart": ("keep-norms-apart",),
    "activations": ("fuse-gelu", "fuse-activations", "fuse-hard-activations", "fuse-rectifiers"),
    "softmaxes": ("fuse-softmax",),
    "reductions": ("fuse-reductions", "fuse-reduce-mean"),
    "layouts": ("move-transposes", "transpose-without-reshapes"),
    "reshapes": ("sink-reshapes", "multiply-without-reshapes"),
    "parallel products": ("merge-parallel-matmuls", "merge-parallel-convs"),
    "consecutive products": ("merge-matmuls", "merge-consecutive-convs"),
    "groups of heads": ("group-heads",),
    "scales": ("fold-scale-into-weights", "fold-scale", "move-scales"),
    "Gemm": ("fuse-gemm", "fold-bias", "fold-transpose-into-gemm", "fold-scale-into-gemm"),
    "affine ops": ("hoist-affine", "fold-affine-into-conv", "fold-affine-before-conv"),
    "convolutions of one axis": ("lift-convs",),
    "products of images": ("convolve-products",),
    "resizes": ("sink-resizes",),
    "slices": ("slices-to-split", "bypass-concats"),
}
"""Names of passes of pipelines, by the name of the group: their results cost something, as kernels, copies or bytes."""
OPTIONAL: Mapping[str, tuple[str, ...]] = {
    "Swish": ("fuse-swish",),
    "split Gemm": ("split-gemm",),
    "split activations": ("split-activations",),
    "split norms": ("split-norms",),
    "computed constants": ("debloat",),
}
"""Names of passes that are in no pipeline, as most models are slower or larger with them."""
