"""Speed and scale, measured as ratios in one run: `make bench`."""
