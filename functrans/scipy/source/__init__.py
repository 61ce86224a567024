"""SciPy's own source with traced values: copies of functions, with other globals."""
