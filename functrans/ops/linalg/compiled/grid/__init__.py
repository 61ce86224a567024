"""Linear algebra on a grid of threads: each team of threads computes one matrix."""
