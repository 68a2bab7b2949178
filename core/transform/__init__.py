"""Changes of a model at the user's request, as functions: sizes, parts, opsets.

`specialize` writes sizes into declarations (`--dim`, `--shape`), `extract` reduces a model to a part of it, and
`opset_conversion` plans another opset with `opset_lowering` and the converter of onnx (`node_conversion`). The passes
that call them are in the folder `passes`, and the protocol of model transforms is in `core.run.transforms`.
"""
