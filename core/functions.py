"""Local functions are inlined before anything is rewritten, by `onnx.inliner`, on a model without weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import onnx
from onnx import inliner

from .errors import ModelError
from .tensor import Tensor, one_line


def inline_functions(
    header: onnx.ModelProto, info: onnx.GraphProto, nodes: Iterable[onnx.NodeProto], initializers: Sequence[Tensor]
) -> tuple[onnx.ModelProto, Iterator[onnx.NodeProto]]:
    """The header and the nodes with every call replaced by the body; what cannot be inlined stays a call."""
    skeleton = onnx.ModelProto()
    skeleton.CopyFrom(header)
    skeleton.graph.CopyFrom(info)
    skeleton.graph.node.extend(nodes)
    skeleton.graph.initializer.extend(t.detached(t.name) for t in initializers)
    try:
        flat = inliner.inline_local_functions(skeleton)
    except Exception as e:
        raise ModelError(f"its local functions cannot be inlined: {one_line(e)}") from e
    kept = onnx.ModelProto()
    kept.CopyFrom(header)
    del kept.functions[:], kept.opset_import[:]
    kept.functions.extend(flat.functions)
    kept.opset_import.extend(flat.opset_import)
    return kept, iter(flat.graph.node)
