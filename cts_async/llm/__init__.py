"""Language models behind one HTTP client."""
