"""Contexts that the compiled slots of primitives are given, and how they are probed."""
