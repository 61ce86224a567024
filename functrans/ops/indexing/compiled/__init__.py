"""The compiled form of what writes elements at indices."""
