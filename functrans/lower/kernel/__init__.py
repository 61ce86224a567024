"""Nests become kernels: work is partitioned, sizes become arguments, results take their places."""
