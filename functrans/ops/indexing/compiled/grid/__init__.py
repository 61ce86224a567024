"""On a grid of threads: scatters by many threads at once."""
