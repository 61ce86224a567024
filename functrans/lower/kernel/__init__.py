"""From nests to kernels: work sharing, buffer donation, symbolic sizes, memory planning."""
