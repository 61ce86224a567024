"""Non-standard interpretation of SciPy's Python source: copies of functions with other globals."""
