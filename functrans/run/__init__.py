"""Running programs: compiling and calling kernels, threads, memory, and interfaces for others."""
