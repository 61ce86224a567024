"""Prefix sums, sorts and searches on a grid of threads."""
