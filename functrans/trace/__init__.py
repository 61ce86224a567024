"""From functions to graphs: the tracer, and what it answers."""
