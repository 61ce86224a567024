"""Nests become kernels: partitioned batches, donated inputs, symbolic sizes, memory."""
