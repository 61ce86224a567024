"""Fourier transforms, and discrete cosine and sine transforms."""
