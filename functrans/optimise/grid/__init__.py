"""Graph passes that only a grid of threads has a use for."""
