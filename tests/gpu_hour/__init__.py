"""All that is asked of a GPU in the first hour that there is one: ``python -m tests.gpu_hour``."""
