"""Studies of clarification before deep search: Qulac, ClariQ and MIMICS-Duo.

Everything about one of them is in one folder: its readers, statistics, tables and commands. Nothing outside imports
these modules except by name when they are used: the datasets in `plugins`, the commands in `cli.data`.
"""
