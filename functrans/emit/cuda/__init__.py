"""Kernels of the loop language as Numba-CUDA source."""
