"""The contexts in which the compiled slots of primitives run, and analyses of these slots."""
