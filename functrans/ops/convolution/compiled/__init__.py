"""The compiled form of convolutions."""
