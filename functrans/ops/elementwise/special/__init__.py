"""The functions of `scipy.special`, one family in each file; SciPy is imported on first use."""
