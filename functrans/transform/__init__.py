"""Transforms from Graph to Graph: derivatives, transposition, batching."""
