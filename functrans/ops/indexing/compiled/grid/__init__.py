"""Scatters on a grid of threads, by atomic operations."""
