"""Rewriting graphs into smaller ones that compute the same."""

from functrans.optimise.passes import PASSES, optimise

__all__ = ["PASSES", "optimise"]
