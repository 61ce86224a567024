"""Programs and their calls."""
