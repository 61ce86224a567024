"""Functions of others that programs call, and programs that others call."""
