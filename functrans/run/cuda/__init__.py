"""Programs on NVIDIA GPUs: the driver, memory, arrays that live there, compiling and calling."""
