"""On a grid of threads: scans, sorts and searches by many threads."""
