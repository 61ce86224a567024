"""Compiled forms of collectives."""
