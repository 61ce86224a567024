"""Speed beside JAX: ``python -m tests.benchmarks``."""
