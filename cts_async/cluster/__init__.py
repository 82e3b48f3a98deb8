"""A run on several processes or machines, on Ray: a head, workers, and one limiter."""
