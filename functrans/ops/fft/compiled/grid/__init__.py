"""Fourier transforms on a grid of threads, by a library."""
