"""Attention and its gradients, as kernels of tiles that keep no scores in memory."""
