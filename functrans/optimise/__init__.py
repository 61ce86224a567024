"""Graph rewriting: passes from Graph to Graph, some for any machine, some for a particular one."""

from functrans.optimise.passes import legalised, optimise, passes_for, rewritten

__all__ = ["legalised", "optimise", "passes_for", "rewritten"]
