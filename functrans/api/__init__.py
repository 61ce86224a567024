"""The transforms that a user calls: arguments, pytrees and error messages around the rewriting."""
