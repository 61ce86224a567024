"""Fourier transforms as loops over pairs of real numbers."""
