"""Matrix products on a CPU: kernels that are blocked for registers and caches."""
