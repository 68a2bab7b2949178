"""Changes of a model at the user's request, as functions: sizes, batches, parts, opsets.

`specialize` writes sizes into declarations (`--dim`, `--shape`), `extract` reduces a model to a part, `batch`
changes the number of rows that it computes (`--batch`) by the operator rules in `batch_rules`, and `opset_conversion`
plans another opset using `opset_lowering` and ONNX's converter (`node_conversion`). The passes that call them are in
the folder `passes`, and the protocol of model transforms is in `core.run.transforms`.
"""
