"""Kernels for a grid: who does which iterations, and where they wait for each other."""
