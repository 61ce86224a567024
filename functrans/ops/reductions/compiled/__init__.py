"""The compiled forms of running sums, sorts and products of complex numbers."""
