"""What of a graph lives in memory, and how each element is made."""
