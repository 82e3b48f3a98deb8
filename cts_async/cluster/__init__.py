"""A run on several processes or machines, on Ray: a head that keeps limits and files, and workers."""
