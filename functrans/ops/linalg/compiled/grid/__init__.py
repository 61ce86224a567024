"""On a grid of threads: linear algebra by teams of threads, each of which has a matrix."""
