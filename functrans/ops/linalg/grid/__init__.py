"""Linear algebra that only a grid of threads has as operations of its own."""
