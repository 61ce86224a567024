"""The public transforms: their arguments, pytrees and error messages."""
