"""Programs, and how they are called."""
