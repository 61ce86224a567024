"""Contractions, and linear algebra on the matrices along the last two axes."""
