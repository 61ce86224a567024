"""Tracing, from functions to graphs: the tracer, and the operations that it supports."""
