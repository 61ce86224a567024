"""Compiling and calling kernels, threads, memory, and what others call."""
