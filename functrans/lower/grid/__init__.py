"""Kernels for a grid: assignment of iterations to threads, and barriers."""
