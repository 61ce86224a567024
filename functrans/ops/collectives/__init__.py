"""Collectives: what the lanes of a named axis give each other."""
