"""Fourier transforms as calls of a library for GPUs."""
