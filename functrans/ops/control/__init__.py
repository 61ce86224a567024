"""Loops and branches: primitives whose parameters are graphs."""
