"""Conv, ConvTranspose, Gemm and MatMul, and what folds into their weights."""
