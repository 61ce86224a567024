"""Primitives that work number by number."""
