"""Graph passes that are useful only for a grid of threads."""
