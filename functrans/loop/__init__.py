"""The loop language: scalar expressions, statements over memory, and their algebra."""
