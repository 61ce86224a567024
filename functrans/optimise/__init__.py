"""Rewriting graphs into ones that compute the same, for any machine and for one."""

from functrans.optimise.passes import legalised, optimise, passes_for, rewritten

__all__ = ["legalised", "optimise", "passes_for", "rewritten"]
