"""Whole documents of a corpus ranked for a query, for evaluation against relevance judgments."""
