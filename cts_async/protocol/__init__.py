"""The closed book: who sees what in clarify-then-search, and the pipeline of its roles."""
