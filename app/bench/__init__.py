"""`passes bench`: latency, throughput, size, memory and accuracy of models."""
