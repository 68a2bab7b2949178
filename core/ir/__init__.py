"""The IR: graphs, values, ops, tensors and operator schemas, independent of rules and files."""
