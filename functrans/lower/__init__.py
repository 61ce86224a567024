"""Lowering: from graphs of arrays to kernels of the loop IR."""
