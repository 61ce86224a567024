"""Random programs against NumPy: ``python -m tests.fuzz --seconds 600 --seed 1``."""
