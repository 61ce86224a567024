"""Printers: kernels of the loop language as code. None knows a primitive."""
