"""Random bits as functions of keys and counters, and what makes numbers of them."""
