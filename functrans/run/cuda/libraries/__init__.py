"""NVIDIA's libraries on device memory: cuBLAS, cuSOLVER and cuFFT for the calls of a plan."""
