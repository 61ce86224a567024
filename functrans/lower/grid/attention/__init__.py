"""Attention and its gradients, as tiled kernels that do not store scores in memory."""
