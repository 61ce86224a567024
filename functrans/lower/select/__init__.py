"""Instruction selection: which values are materialised, and how their elements are computed."""
