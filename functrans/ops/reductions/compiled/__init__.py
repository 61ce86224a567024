"""The compiled form of running sums."""
