"""Printers: kernels of the loop language as code. They refer to no primitive."""
