"""Linear algebra primitives that exist only on a grid of threads."""
