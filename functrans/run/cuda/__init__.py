"""Programs on NVIDIA GPUs: compiling kernels, and running them."""
