"""Rewriting graphs for the machine that they will run on: still Graph to Graph."""
