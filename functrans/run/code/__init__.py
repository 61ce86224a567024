"""Machine code: compiled, loaded, kept on disk."""
