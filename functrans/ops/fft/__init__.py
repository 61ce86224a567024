"""Fourier transforms, and transforms by cosines and sines."""
