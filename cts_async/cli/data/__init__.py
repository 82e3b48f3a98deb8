"""`cts data`: the datasets of clarification research, and what is published about them."""
