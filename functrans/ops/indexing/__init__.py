"""Primitives that read and write elements at indices."""
