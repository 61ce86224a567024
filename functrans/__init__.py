"""Composable function transforms for NumPy and Numba."""
