"""Sums by the distributive law: over joined arrays, over scatters, over products."""
