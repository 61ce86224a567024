"""Primitives that move, repeat, add up or convert elements."""
