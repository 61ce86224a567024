"""On a grid of threads: Fourier transforms by a library."""
