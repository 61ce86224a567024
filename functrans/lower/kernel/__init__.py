"""Kernel construction: work sharing, buffer donation, symbolic sizes, memory planning."""
