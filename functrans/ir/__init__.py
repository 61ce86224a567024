"""The two languages: graphs of arrays, and scalar expressions."""
