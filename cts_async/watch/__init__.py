"""The state of running runs: progress, live files, the screen of a terminal, and event logs."""
