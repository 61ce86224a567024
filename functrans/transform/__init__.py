"""Derivatives, transposes, batches: each Graph to Graph."""
