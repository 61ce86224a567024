"""Primitives that combine the elements along axes."""
