"""Roots become nests of loops: fusion, and what is done to a single loop."""
