"""The functions of `scipy.special`, one family a file; SciPy is imported when one is first used."""
