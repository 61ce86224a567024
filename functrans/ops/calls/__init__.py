"""Primitives that stand for functions: inner graphs, custom derivatives, calls of the host."""
