"""The compiled form of loops and branches."""
