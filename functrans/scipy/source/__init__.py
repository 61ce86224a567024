"""SciPy's own source on traced values: copies of functions, with other globals."""
