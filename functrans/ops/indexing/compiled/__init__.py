"""The compiled form of scatters."""
