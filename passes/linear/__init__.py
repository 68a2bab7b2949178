"""Conv, ConvTranspose, Gemm and MatMul, and the ops that fold into their weights."""
