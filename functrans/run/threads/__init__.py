"""Threads that programs share their loops with."""
