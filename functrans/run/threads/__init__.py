"""The thread pool that shares the loops of programs."""
