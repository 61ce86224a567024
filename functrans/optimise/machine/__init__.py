"""Rewriting graphs for a machine: each rewrite takes a graph and a target, and gives a graph."""
