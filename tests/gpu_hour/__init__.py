"""Checks and measurements for the first hour with a real GPU: ``python -m tests.gpu_hour``."""
