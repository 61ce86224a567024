"""Random bits as functions of keys and counters, and conversions of bits to numbers."""
