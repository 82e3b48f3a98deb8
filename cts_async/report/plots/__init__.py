"""Figures of runs, as plotly draws them."""
